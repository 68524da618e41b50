// HeldTensor: a tensor of the host as an object of a checkpoint. A restore writes into its memory.
#ifndef TUTTI_CORE_CHECKPOINT_HELD_TENSOR_H_
#define TUTTI_CORE_CHECKPOINT_HELD_TENSOR_H_

#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/saveable.h"
#include "core/tensor/tensor.h"

namespace tutti {

class HeldTensor final : public RefCounted, public Saveable {
 public:
  // INVALID_ARGUMENT for a tensor that cannot be written to, or of byte strings.
  static Result<Ref<HeldTensor>> Create(Ref<Tensor> tensor);

  // What it holds while Save runs.
  Status Save(std::string_view prefix, SaveSink* sink) override;
  Status Restore(std::string_view prefix, RestoreSource* source) override;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  explicit HeldTensor(Ref<Tensor> tensor) : tensor_(std::move(tensor)) {}

  const Ref<Tensor> tensor_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_HELD_TENSOR_H_
