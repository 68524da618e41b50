// SafetensorsWriter: collects tensors and writes them into one safetensors file, all at once and
// durably: under a temporary name, synced, renamed, the directory synced.
//
//   SafetensorsWriter writer;
//   TUTTI_RETURN_IF_ERROR(writer.PutTensor("weights", weights));
//   TUTTI_ASSIGN_OR_RETURN(WrittenFile file, writer.Write(disk, "model.safetensors"));
//
// Tensors are held, not copied: they must not change before Write has ended. Slices of one tensor
// are put together. One thread.
#ifndef TUTTI_CORE_CHECKPOINT_SAFETENSORS_WRITER_H_
#define TUTTI_CORE_CHECKPOINT_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/saveable.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Clock;
class Disk;

struct WrittenFile {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

class SafetensorsWriter final : public SaveSink {
 public:
  explicit SafetensorsWriter(const CallOptions& call = {}) : SaveSink(call) {}

  // ALREADY_EXISTS for a name that is there, INVALID_ARGUMENT for one that is empty, no UTF-8 or
  // the format's own.
  Status PutTensor(std::string_view name, Ref<Tensor> tensor) override;
  // INVALID_ARGUMENT for a slice that does not fit the others or lies outside of the tensor.
  Status PutSlice(std::string_view name, Ref<Tensor> part, const TensorSlice& slice) override;
  // Text beside the tensors. Keys that begin with "tutti:" are ours.
  void PutMetadata(std::string_view key, std::string_view value);

  bool empty() const { return tensors_.empty(); }
  std::vector<std::string> names() const;

  // FAILED_PRECONDITION for a tensor of which slices are missing; the disk's errors name the file.
  // Nothing has the file's name before all of it is on the disk.
  Result<WrittenFile> Write(Disk& disk, const Clock& clock, const std::string& path) const;

 private:
  struct Held {
    Ref<Tensor> tensor;
    int64_t missing_elements = 0;  // of a tensor that comes in slices
  };
  Status CheckName(std::string_view name) const;

  std::map<std::string, Held, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_SAFETENSORS_WRITER_H_
