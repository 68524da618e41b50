#include "core/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/crc32c.h"
#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/checkpoint/safetensors.h"
#include "core/tensor/copy.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors go into the file as they lie in memory");

// Between two looks at the deadline.
constexpr size_t kWrittenBytes = size_t{4} << 20;

bool IsUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80 ? 1 : byte >> 5 == 6 ? 2 : byte >> 4 == 14 ? 3
                          : byte >> 3 == 30 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    uint32_t point = length == 1 ? byte : byte & (0xffu >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if (next >> 6 != 2) return false;
      point = (point << 6) | (next & 0x3fu);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < kLeast[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
      return false;
    }
    i += length;
  }
  return true;
}

// One entry of the file: a name, and the memory that its data is.
struct Piece {
  SafetensorsEntry entry;
  Ref<const Tensor> tensor;  // contiguous, or bytes, whose strings are written one after the other
};

void AddPiece(std::string name, DType dtype, Shape shape, uint64_t bytes, Ref<const Tensor> tensor,
              std::vector<Piece>* pieces) {
  Piece piece;
  piece.entry.name = std::move(name);
  piece.entry.dtype = dtype;
  piece.entry.dtype_name = SafetensorsDTypeName(dtype);
  piece.entry.shape = std::move(shape);
  piece.entry.end = bytes;  // the writer moves it to its place
  piece.tensor = std::move(tensor);
  pieces->push_back(std::move(piece));
}

Status AddByteStrings(const std::string& name, Ref<const Tensor> tensor,
                      std::vector<Piece>* pieces) {
  const int64_t count = tensor->num_elements();
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> offsets, Tensor::Create(DType::kInt64, Shape({count + 1})));
  const std::span<int64_t> ends = offsets->mutable_span<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const auto* view = static_cast<const BytesView*>(tensor->ElementAt(i));
    ends[static_cast<size_t>(i) + 1] =
        ends[static_cast<size_t>(i)] + static_cast<int64_t>(view->size);
  }
  const int64_t total = ends[static_cast<size_t>(count)];
  const uint64_t offset_bytes = offsets->byte_size();
  AddPiece(name, DType::kUint8, Shape({total}), static_cast<uint64_t>(total), std::move(tensor),
           pieces);
  AddPiece(name + std::string(kSafetensorsOffsetsSuffix), DType::kInt64, Shape({count + 1}),
           offset_bytes, std::move(offsets), pieces);
  return OkStatus();
}

class Output {
 public:
  Output(WritableFile& file, const Clock& clock, const CallOptions& call)
      : file_(file), clock_(clock), call_(call) {}

  Status Append(const void* data, size_t bytes) {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const size_t count = std::min(bytes, kWrittenBytes);
      TUTTI_RETURN_IF_ERROR(CheckCallOptions(call_, clock_, "writing a checkpoint"));
      TUTTI_RETURN_IF_ERROR(file_.Append(next, count));
      written_.crc32c = ExtendCrc32c(written_.crc32c, next, count);
      written_.bytes += count;
      next += count;
      bytes -= count;
    }
    return OkStatus();
  }

  Status AppendTensor(const Tensor& tensor) {
    if (tensor.dtype() != DType::kBytes) return Append(tensor.data(), tensor.byte_size());
    std::string block;  // short strings are gathered
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const auto* view = static_cast<const BytesView*>(tensor.ElementAt(i));
      block.append(view->text());
      if (block.size() < kWrittenBytes) continue;
      TUTTI_RETURN_IF_ERROR(Append(block.data(), block.size()));
      block.clear();
    }
    return Append(block.data(), block.size());
  }

  const WrittenFile& written() const { return written_; }

 private:
  WritableFile& file_;
  const Clock& clock_;
  const CallOptions& call_;
  WrittenFile written_;
};

}  // namespace

Status SafetensorsWriter::CheckName(std::string_view name) const {
  if (name.empty() || name == kSafetensorsMetadata || !IsUtf8(name)) {
    return InvalidArgument(
        "saving: {} is no name for a tensor; take UTF-8 text other than \"{}\"", Quote(name),
        kSafetensorsMetadata);
  }
  return OkStatus();
}

Status SafetensorsWriter::PutTensor(std::string_view name, Ref<Tensor> tensor) {
  TUTTI_RETURN_IF_ERROR(CheckName(name));
  if (TensorsAreObserved()) {
    const std::string what = Format("the value of {}", Quote(name));
    TUTTI_RETURN_IF_ERROR(ObserveTensor({.op = "saving a checkpoint", .name = what}, *tensor));
  }
  if (!tensors_.emplace(std::string(name), Held{std::move(tensor), 0}).second) {
    return AlreadyExists("saving: there are two tensors of the name {}; name objects differently",
                         Quote(name))
        .With("name", name);
  }
  return OkStatus();
}

Status SafetensorsWriter::PutSlice(std::string_view name, Ref<Tensor> part,
                                   const TensorSlice& slice) {
  TUTTI_RETURN_IF_ERROR(CheckName(name));
  const Shape& full = slice.full_shape;
  bool inside = part->rank() == full.rank() && slice.begin.size() == full.rank();
  for (size_t axis = 0; inside && axis < full.rank(); ++axis) {
    inside = slice.begin[axis] >= 0 && slice.begin[axis] <= full[axis] &&
             part->dim(axis) <= full[axis] - slice.begin[axis];
  }
  if (!inside || part->dtype() == DType::kBytes) {
    return InvalidArgument("saving: a part {} of {} does not lie in a tensor of shape {}",
                           part->spec().ToString(), Quote(name), full.ToString())
        .With("name", name);
  }
  auto held = tensors_.find(name);
  if (held == tensors_.end()) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> whole, Tensor::Create(part->dtype(), full));
    held = tensors_.emplace(std::string(name), Held{std::move(whole), full.num_elements()}).first;
  }
  const Ref<Tensor>& whole = held->second.tensor;
  held->second.missing_elements -= part->num_elements();
  if (whole->dtype() != part->dtype() || !(whole->shape() == full) ||
      held->second.missing_elements < 0) {
    return InvalidArgument("saving: a part {} of {} does not fit the other parts, of {}",
                           part->spec().ToString(), Quote(name), whole->spec().ToString())
        .With("name", name);
  }
  const std::vector<int64_t> size(part->shape().dims().begin(), part->shape().dims().end());
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> place, whole->SliceGeneral(slice.begin.span(), size));
  return CopyInto(*part, place.get());
}

void SafetensorsWriter::PutMetadata(std::string_view key, std::string_view value) {
  metadata_.insert_or_assign(std::string(key), std::string(value));
}

std::vector<std::string> SafetensorsWriter::names() const {
  std::vector<std::string> names;
  for (const auto& [name, held] : tensors_) names.push_back(name);
  return names;
}

Result<WrittenFile> SafetensorsWriter::Write(Disk& disk, const Clock& clock,
                                             const std::string& path) const {
  SafetensorsHeader header;
  header.metadata = metadata_;
  std::vector<Piece> pieces;
  for (const auto& [name, held] : tensors_) {
    if (held.missing_elements != 0) {
      return FailedPrecondition("saving {}: parts of {} are missing, {} elements of {}",
                                Quote(path), Quote(name), held.missing_elements,
                                held.tensor->spec().ToString())
          .With("name", name);
    }
    const std::string kind = std::string(kSafetensorsKindPrefix) + name;
    const Shape& shape = held.tensor->shape();
    if (held.tensor->dtype() == DType::kBytes) {
      header.metadata[kind] = Format("bytes {}", JoinAll(shape.dims(), ","));
      TUTTI_RETURN_IF_ERROR(AddByteStrings(name, held.tensor, &pieces));
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, held.tensor->Contiguous());
    const uint64_t bytes = tensor->byte_size();
    const DType dtype = tensor->dtype();
    if (!IsComplex(dtype)) {
      AddPiece(name, dtype, shape, bytes, std::move(tensor), &pieces);
      continue;
    }
    header.metadata[kind] = "complex";
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims.push_back(2);
    AddPiece(name, dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64,
             Shape(dims), bytes, std::move(tensor), &pieces);
  }
  // Large elements first: then all are aligned, as the data begins at a multiple of 8.
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return ItemSize(a.entry.dtype) > ItemSize(b.entry.dtype);
  });
  uint64_t offset = 0;
  std::set<std::string_view> names;
  for (Piece& piece : pieces) {
    if (!names.insert(piece.entry.name).second) {
      return AlreadyExists("saving {}: two tensors need the name {}; name objects differently",
                           Quote(path), Quote(piece.entry.name))
          .With("name", piece.entry.name);
    }
    piece.entry.begin = offset;
    piece.entry.end += offset;
    offset = piece.entry.end;
    header.entries.push_back(piece.entry);
  }
  const std::string json = EncodeSafetensorsHeader(header);
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    return InvalidArgument("saving {}: the names of its tensors fill {} bytes, more than the {} "
                           "that the format allows",
                           Quote(path), json.size(), kMaxSafetensorsHeaderBytes);
  }
  const uint64_t length = json.size();
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, disk.Create(path));
  Output output(*file, clock, call_options());
  TUTTI_RETURN_IF_ERROR(output.Append(&length, sizeof(length)));
  TUTTI_RETURN_IF_ERROR(output.Append(json.data(), json.size()));
  for (const Piece& piece : pieces) TUTTI_RETURN_IF_ERROR(output.AppendTensor(*piece.tensor));
  TUTTI_RETURN_IF_ERROR(file->Commit());
  return output.written();
}

}  // namespace tutti
