// MemoryTensors: what Saveables put, held in memory, to be given back: how a checkpoint learns the
// names and specs of its objects, keeps what they held before a restore, and hands them what a file
// holds only when all of it has been read and found to fit.
#ifndef TUTTI_CORE_CHECKPOINT_MEMORY_TENSORS_H_
#define TUTTI_CORE_CHECKPOINT_MEMORY_TENSORS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/open_shape_sink.h"
#include "core/tensor/saveable.h"
#include "core/tensor/tensor.h"

namespace tutti {

class MemoryTensors final : public SaveSink, public RestoreSource, public OpenShapeSink {
 public:
  explicit MemoryTensors(const CallOptions& call) : SaveSink(call), RestoreSource(call) {}

  Status PutTensor(std::string_view name, Ref<Tensor> tensor) override;
  Status PutSlice(std::string_view name, Ref<Tensor> part, const TensorSlice& slice) override;

  void PutOpenShape(std::string_view name, const PartialShape& shape) override;

  Result<TensorSpec> GetSpec(std::string_view name) override;
  Result<Ref<Tensor>> GetTensor(std::string_view name) override;
  // A part of a tensor that is here, or one of the parts that were put.
  Result<Ref<Tensor>> GetSlice(std::string_view name, const TensorSlice& slice,
                               const Shape& size) override;

  // In byte order; specs are those of the full tensors, with the sizes unknown that are open.
  std::vector<std::pair<std::string, TensorSpec>> specs() const;
  bool empty() const { return held_.empty(); }
  // Gives the memory back.
  void Clear() { held_.clear(); }

 private:
  struct Held {
    TensorSpec spec;
    std::optional<PartialShape> open_shape;
    Ref<Tensor> whole;  // null when it came in parts
    std::vector<std::pair<Dims, Ref<Tensor>>> parts;
  };
  Result<const Held*> Find(std::string_view name) const;

  std::map<std::string, Held, std::less<>> held_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_MEMORY_TENSORS_H_
