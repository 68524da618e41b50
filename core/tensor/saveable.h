// Saveable: anything with tensors that a checkpoint can save and restore.
//
// A part of a larger tensor (a shard of a partitioned variable) saves itself as a slice of the full
// tensor, so that a checkpoint can be restored to any number of shards.
#ifndef TUTTI_CORE_TENSOR_SAVEABLE_H_
#define TUTTI_CORE_TENSOR_SAVEABLE_H_

#include <string>
#include <string_view>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tutti {

// Where the elements of a tensor lie in the full tensor of the same name.
struct TensorSlice {
  Shape full_shape;
  Dims begin;  // one per axis of full_shape
};

// Takes what a Saveable saves. The tensor must not change until the save has ended.
class SaveSink {
 public:
  explicit SaveSink(const CallOptions& call = {}) : call_(call) {}
  virtual ~SaveSink() = default;
  virtual Status PutTensor(std::string_view name, Ref<Tensor> tensor) = 0;
  virtual Status PutSlice(std::string_view name, Ref<Tensor> part, const TensorSlice& slice) = 0;
  // How long saving may take.
  const CallOptions& call_options() const { return call_; }

 private:
  const CallOptions call_;
};

// Gives back what was saved. NOT_FOUND for unknown names.
class RestoreSource {
 public:
  explicit RestoreSource(const CallOptions& call = {}) : call_(call) {}
  virtual ~RestoreSource() = default;
  virtual Result<TensorSpec> GetSpec(std::string_view name) = 0;
  virtual Result<Ref<Tensor>> GetTensor(std::string_view name) = 0;
  // `size` elements per axis from slice.begin on.
  virtual Result<Ref<Tensor>> GetSlice(std::string_view name, const TensorSlice& slice,
                                       const Shape& size) = 0;
  // How long restoring may take.
  const CallOptions& call_options() const { return call_; }

 private:
  const CallOptions call_;
};

class Saveable {
 public:
  virtual ~Saveable() = default;
  // Puts every tensor under a name of its own, each beginning with `prefix`.
  virtual Status Save(std::string_view prefix, SaveSink* sink) = 0;
  // Takes the same names back. On failure the object holds what it held before.
  virtual Status Restore(std::string_view prefix, RestoreSource* source) = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_SAVEABLE_H_
