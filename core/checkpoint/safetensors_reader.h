// SafetensorsReader: a safetensors file, ours or another program's, whose header has been checked:
// tensors are read one by one.
//
//   TUTTI_ASSIGN_OR_RETURN(auto reader, SafetensorsReader::Open(disk, "model.safetensors", call));
//   TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> weights, reader->GetTensor("weights"));
//
// Nothing in the file is trusted: a torn or foreign file is an error that names it, the offset
// where that is known, and the reason; never more memory is asked for than the file has bytes.
// Threads: any.
#ifndef TUTTI_CORE_CHECKPOINT_SAFETENSORS_READER_H_
#define TUTTI_CORE_CHECKPOINT_SAFETENSORS_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/checkpoint/safetensors.h"
#include "core/tensor/saveable.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Disk;
class ReadableFile;

class SafetensorsReader final : public RestoreSource {
 public:
  // NOT_FOUND and its like of the disk; INVALID_ARGUMENT for a file that is no safetensors file;
  // DATA_LOSS for one that is cut off.
  static Result<std::unique_ptr<SafetensorsReader>> Open(Disk& disk, const std::string& path,
                                                         const CallOptions& call = {});
  ~SafetensorsReader() override;

  // The tensors, in byte order of their names; what is written for a tensor of byte strings is one.
  std::vector<std::string> names() const;
  const std::map<std::string, std::string, std::less<>>& metadata() const {
    return header_.metadata;
  }
  const std::string& path() const;

  // NOT_FOUND names the file and the nearest name.
  Result<TensorSpec> GetSpec(std::string_view name) override;
  Result<Ref<Tensor>> GetTensor(std::string_view name) override;
  Result<Ref<Tensor>> GetSlice(std::string_view name, const TensorSlice& slice,
                               const Shape& size) override;

 private:
  struct Item {
    DType dtype;
    Shape shape;
    const SafetensorsEntry* entry;
    const SafetensorsEntry* offsets = nullptr;  // of byte strings
  };

  SafetensorsReader(std::unique_ptr<ReadableFile> file, const CallOptions& call);
  Status ReadHeader();
  Status MakeItems();
  Status ApplyKind(std::string_view name, std::string_view kind);
  Result<const Item*> Find(std::string_view name) const;
  Status ReadData(const SafetensorsEntry& entry, void* data) const;
  Result<Ref<Tensor>> ReadByteStrings(const Item& item) const;
  Status About(Status status) const;

  const std::unique_ptr<ReadableFile> file_;
  SafetensorsHeader header_;
  uint64_t data_begin_ = 0;
  std::map<std::string, Item, std::less<>> items_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_SAFETENSORS_READER_H_
