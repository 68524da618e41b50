// Features of which examples have any number of values: what their columns become.
#ifndef TUTTI_CORE_DATASET_EXAMPLE_VARIABLE_FEATURE_H_
#define TUTTI_CORE_DATASET_EXAMPLE_VARIABLE_FEATURE_H_

#include <cstddef>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/example/example_column.h"
#include "core/dataset/example/example_parser.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/value.h"

namespace tutti {

// The spec of a feature, of any kind, for examples of this shape, which has a rank if the kind is
// not kFixed.
Result<Ref<const ElementSpec>> SpecOfFeature(const ExampleFeature& feature,
                                             const PartialShape& outer);

// What a column that is not kFixed becomes, when all examples have ended: of the structure of
// SpecOfFeature. Of an example alone there is one row, and no axis for it.
Result<Ref<Value>> PartOfColumn(ExampleColumn* column, const Ref<const Tensor>& examples,
                                size_t payload_bytes, MemoryAccount* account);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXAMPLE_VARIABLE_FEATURE_H_
