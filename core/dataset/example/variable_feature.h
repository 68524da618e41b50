// Features of which examples have any number of values: what their columns become.
#ifndef TUTTI_CORE_DATASET_EXAMPLE_VARIABLE_FEATURE_H_
#define TUTTI_CORE_DATASET_EXAMPLE_VARIABLE_FEATURE_H_

#include <cstddef>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/example/example_column.h"
#include "core/dataset/example/example_parser.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/shape.h"
#include "core/tensor/value.h"

namespace tutti {

// The spec of a feature, of any kind, for examples of this shape, which has a rank if the kind is
// not kFixed.
Result<Ref<const ElementSpec>> SpecOfFeature(const ExampleFeature& feature,
                                             const PartialShape& outer);

// What a column that is not kFixed becomes, when all its rows have ended, of which there are as
// many as `outer` has elements: of the structure of SpecOfFeature. Of a row alone, whose `outer` is
// a scalar's, there is no axis for it. `examples` and `payload_bytes` are those of
// ExampleColumn::Finish.
Result<Ref<Value>> PartOfColumn(ExampleColumn* column, const Shape& outer,
                                const Ref<const Tensor>& examples, size_t payload_bytes,
                                MemoryAccount* account);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXAMPLE_VARIABLE_FEATURE_H_
