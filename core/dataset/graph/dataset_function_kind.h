// The kind of functions whose definition has a dataset in it, and is read where datasets are; the
// functions themselves stand above this room (expression/dataset_function.h).
#ifndef TUTTI_CORE_DATASET_GRAPH_DATASET_FUNCTION_KIND_H_
#define TUTTI_CORE_DATASET_GRAPH_DATASET_FUNCTION_KIND_H_

#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

class DatasetEnvironment;
class Function;

inline constexpr std::string_view kDatasetFunctionKind = "dataset_expression";

// The function that its Define wrote down, whose dataset stands `depth` deep in others.
Result<Ref<Function>> ReadDatasetFunction(const Ref<DatasetEnvironment>& environment,
                                          std::string_view payload, int depth);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_DATASET_FUNCTION_KIND_H_
