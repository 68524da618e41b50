// The native function that gives a dataset for each element: what flat_map, interleave and
// group_by_window call, without the host.
//
// While the function is traced its dataset is put together as always, on sources and counts that
// are not there yet (the ops traced_source and traced_count), and of functions that have captured
// nodes of the expression around them. A call computes the expression's exports for its element,
// puts them in the places of these, and gives the dataset. Nothing but that is done for an element.
//
//   Ref<Expression> trace = Expression::Create(spec).value();               // int64[]
//   MakeTracedSource(environment, trace.get(), "range", {zero, x, one})     // Dataset::Range(0, x)
//   MakeDatasetFunction(trace, *dataset)                                    // for FlatMap
#ifndef TUTTI_CORE_DATASET_EXPRESSION_DATASET_FUNCTION_H_
#define TUTTI_CORE_DATASET_EXPRESSION_DATASET_FUNCTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/expression/expression.h"
#include "core/dataset/graph/dataset.h"
#include "core/function/function.h"
#include "core/tensor/tree_spec.h"

namespace tutti {

// Dataset `maker` of nodes: "range" of the three numbers start, stop and step, integers;
// "from_tensors" and "from_tensor_slices" of `structure`, whose leaves the nodes are; and
// "element", of one node that is a dataset in the element, such as a window: that dataset. It has
// no elements but in what the function gives: FAILED_PRECONDITION. NOT_FOUND names the makers.
Result<Ref<Dataset>> MakeTracedSource(const Ref<DatasetEnvironment>& environment,
                                      Expression* expression, std::string_view maker,
                                      Ref<const TreeSpec> structure,
                                      std::span<const int64_t> nodes);
// repeat, take and skip by a number that a node is.
Result<Ref<Dataset>> MakeTracedCount(const Dataset& input, Expression* expression,
                                     std::string_view maker, int64_t node);

// The function from an element to `dataset`, made of the expression's nodes. INVALID_ARGUMENT where
// something in it was drawn at random by no seed and does not depend on the element, where a
// function has captured nodes of another expression, or where nodes are used beside a dataset that
// stands in the element.
Result<Ref<Function>> MakeDatasetFunction(const Ref<Expression>& expression,
                                          const Dataset& dataset);

// What such a function makes of its element's datasets alone, for who does without the calls; null
// for all other functions.
const Dataset* DatasetOfElement(const Function& function);
// Of a node in it that is a dataset of the element: which leaf that is.
std::optional<int64_t> ElementLeafOf(const Node& node);

extern const OpTraits kTracedSourceOp;
extern const OpTraits kTracedCountOp;

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXPRESSION_DATASET_FUNCTION_H_
