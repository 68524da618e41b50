// The parts of sparse and ragged tensors as what works on them takes them. Of this folder alone.
#ifndef TUTTI_CORE_TENSOR_COMPOSITE_PARTS_H_
#define TUTTI_CORE_TENSOR_COMPOSITE_PARTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/composite.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"

namespace tutti {

struct SparseParts {
  Ref<Tensor> indices, values, dense_shape;  // contiguous
  int64_t count() const { return indices->dim(0); }
  size_t rank() const { return static_cast<size_t>(indices->dim(1)); }
};

struct RaggedParts {
  std::vector<std::vector<int64_t>> splits;  // of each ragged axis, the outermost first
  Ref<Tensor> flat;                          // contiguous
  DType splits_dtype = DType::kInt64;
};

// INVALID_ARGUMENT that names the first part that does not fit the others.
Status CheckSparseParts(const SparseParts& parts);
// The parts of a value of that kind, checked.
Result<SparseParts> ReadSparse(const Value& value);
Result<RaggedParts> ReadRagged(const Value& value);

Result<Ref<Value>> ValueOfParts(SparseParts parts);
// The flat values alone where nothing is ragged.
Result<Ref<Value>> ValueOfParts(const RaggedParts& parts);
Result<Ref<Value>> NamedComposite(Composite kind, std::span<const Ref<Value>> children);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_COMPOSITE_PARTS_H_
