#include "core/checkpoint/safetensors_reader.h"

#include <bit>
#include <cstring>
#include <utility>

#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors come from the file as they lie in memory");

// The shape that "bytes 2,3" tells, when it has `count` elements.
Result<Shape> ShapeOfByteStrings(std::string_view text, int64_t count) {
  std::vector<int64_t> dims;
  for (const std::string& part : Split(text, ',')) {
    const std::optional<int64_t> dim = ParseInt64(part);
    if (!dim.has_value()) return InvalidArgument("{} is no shape", Quote(text));
    dims.push_back(*dim);
  }
  TUTTI_ASSIGN_OR_RETURN(Shape shape, Shape::Create(dims.data(), dims.size()));
  if (shape.num_elements() == count) return shape;
  return InvalidArgument("shape {} has not as many elements as there are strings, {}",
                         shape.ToString(), count);
}

}  // namespace

SafetensorsReader::SafetensorsReader(std::unique_ptr<ReadableFile> file, const CallOptions& call)
    : RestoreSource(call), file_(std::move(file)) {}

SafetensorsReader::~SafetensorsReader() = default;

const std::string& SafetensorsReader::path() const { return file_->path(); }

Status SafetensorsReader::About(Status status) const {
  return std::move(status).WithPrefix(Format("reading {}", Quote(path()))).With("file", path());
}

Result<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(Disk& disk,
                                                                   const std::string& path,
                                                                   const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, disk.Open(path));
  std::unique_ptr<SafetensorsReader> reader(new SafetensorsReader(std::move(file), call));
  Status status = reader->ReadHeader();
  if (status.ok()) status = reader->MakeItems();
  if (!status.ok()) return reader->About(std::move(status));
  return reader;
}

Status SafetensorsReader::ReadHeader() {
  const uint64_t bytes = file_->bytes();
  uint64_t length = 0;
  TUTTI_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(0, &length, sizeof(length)));
  if (got < sizeof(length)) {
    return DataLoss("it has {} bytes and should begin with the {} of its header's length", bytes,
                    kSafetensorsLengthBytes)
        .With("offset", 0);
  }
  if (length > kMaxSafetensorsHeaderBytes) {
    return InvalidArgument(
               "it is no safetensors file: its header would have {} bytes, and at most {} are "
               "allowed",
               length, kMaxSafetensorsHeaderBytes)
        .With("offset", 0);
  }
  if (length > bytes - kSafetensorsLengthBytes) {
    return DataLoss("it ends at byte {}, and its header alone would end at {}: it is cut off, or "
                    "no safetensors file",
                    bytes, length + kSafetensorsLengthBytes)
        .With("offset", static_cast<int64_t>(bytes));
  }
  std::string json(length, '\0');
  TUTTI_ASSIGN_OR_RETURN(const size_t read,
                         file_->ReadAt(kSafetensorsLengthBytes, json.data(), json.size()));
  if (read < json.size()) {
    return DataLoss("it got shorter while it was read").With("offset", kSafetensorsLengthBytes);
  }
  data_begin_ = kSafetensorsLengthBytes + length;
  TUTTI_ASSIGN_OR_RETURN(header_, DecodeSafetensorsHeader(json, bytes - data_begin_));
  return OkStatus();
}

Status SafetensorsReader::MakeItems() {
  for (const SafetensorsEntry& entry : header_.entries) {
    items_.emplace(entry.name, Item{entry.dtype, entry.shape, &entry, nullptr});
  }
  for (const auto& [key, kind] : header_.metadata) {
    if (!key.starts_with(kSafetensorsKindPrefix)) continue;
    const std::string_view name = std::string_view(key).substr(kSafetensorsKindPrefix.size());
    const Status applied = ApplyKind(name, kind);
    if (!applied.ok()) {
      return applied.WithPrefix(Format("metadata {}: {}", Quote(key), Quote(kind)));
    }
  }
  return OkStatus();
}

Status SafetensorsReader::ApplyKind(std::string_view name, std::string_view kind) {
  const auto found = items_.find(name);
  if (found == items_.end()) return InvalidArgument("there is no such tensor");
  Item& item = found->second;
  const Shape shape = item.shape;
  if (kind == "complex") {
    const bool fits = (item.dtype == DType::kFloat32 || item.dtype == DType::kFloat64) &&
                      shape.rank() >= 1 && shape[shape.rank() - 1] == 2;
    if (!fits) {
      return InvalidArgument("the tensor is {}", TensorSpec{item.dtype, item.shape}.ToString());
    }
    const Shape without = shape.WithoutAxis(shape.rank() - 1);
    item.dtype =
        item.dtype == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128;
    item.shape = without;
    return OkStatus();
  }
  constexpr std::string_view kBytes = "bytes ";
  if (!kind.starts_with(kBytes)) {
    return InvalidArgument("the kind is unknown; a newer version may have written it");
  }
  const auto offsets = items_.find(std::string(name) + std::string(kSafetensorsOffsetsSuffix));
  const bool fits = item.dtype == DType::kUint8 && shape.rank() == 1 &&
                    offsets != items_.end() && offsets->second.dtype == DType::kInt64 &&
                    offsets->second.shape.rank() == 1 && offsets->second.shape[0] >= 1;
  if (!fits) return InvalidArgument("the tensor and its offsets are not there as they should be");
  TUTTI_ASSIGN_OR_RETURN(Shape strings, ShapeOfByteStrings(kind.substr(kBytes.size()),
                                                           offsets->second.shape[0] - 1));
  item.dtype = DType::kBytes;
  item.shape = std::move(strings);
  item.offsets = offsets->second.entry;
  items_.erase(offsets);
  return OkStatus();
}

std::vector<std::string> SafetensorsReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, item] : items_) names.push_back(name);
  return names;
}

Result<const SafetensorsReader::Item*> SafetensorsReader::Find(std::string_view name) const {
  const auto found = items_.find(name);
  if (found == items_.end()) {
    const std::string nearest = NearestName(name, names());
    return About(NotFound("there is no tensor {} in it{}", Quote(name),
                          nearest.empty() ? std::string()
                                          : Format("; did you mean {}?", Quote(nearest)))
                     .With("name", name));
  }
  const Item& item = found->second;
  if (item.dtype == DType::kInvalid) {
    return About(Unimplemented("{} has the dtype {}, which there is none for here", Quote(name),
                               item.entry->dtype_name)
                     .With("name", name));
  }
  return &item;
}

Result<TensorSpec> SafetensorsReader::GetSpec(std::string_view name) {
  TUTTI_ASSIGN_OR_RETURN(const Item* item, Find(name));
  return TensorSpec{item->dtype, item->shape};
}

Status SafetensorsReader::ReadData(const SafetensorsEntry& entry, void* data) const {
  const uint64_t offset = data_begin_ + entry.begin;
  const auto bytes = static_cast<size_t>(entry.end - entry.begin);
  TUTTI_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset, data, bytes));
  if (got < bytes) {
    return About(DataLoss("it ends at byte {}, within the data of {}: it is cut off", offset + got,
                          Quote(entry.name))
                     .With("offset", static_cast<int64_t>(offset + got)));
  }
  if (entry.dtype != DType::kBool) return OkStatus();
  const auto* flags = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < bytes; ++i) {
    if (flags[i] <= 1) continue;
    return About(DataLoss("element {} of {} is {}, and a BOOL is 0 or 1", i, Quote(entry.name),
                          static_cast<int>(flags[i]))
                     .With("offset", static_cast<int64_t>(offset + i)));
  }
  return OkStatus();
}

Result<Ref<Tensor>> SafetensorsReader::ReadByteStrings(const Item& item) const {
  const auto total = static_cast<size_t>(item.entry->end - item.entry->begin);
  const auto count = static_cast<size_t>(item.shape.num_elements());
  std::vector<int64_t> offsets(count + 1);
  TUTTI_RETURN_IF_ERROR(ReadData(*item.offsets, offsets.data()));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Buffer> payload, Buffer::Create(total, false));
  TUTTI_RETURN_IF_ERROR(ReadData(*item.entry, payload->data()));
  std::vector<BytesView> views(count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t begin = offsets[i];
    const int64_t end = offsets[i + 1];
    const bool first_fits = i > 0 || begin == 0;
    const bool last_fits = i + 1 < count || end == static_cast<int64_t>(total);
    if (begin < 0 || begin > end || end > static_cast<int64_t>(total) || !first_fits ||
        !last_fits) {
      return About(DataLoss("string {} of {} would go from {} to {} of {} bytes", i,
                            Quote(item.entry->name), begin, end, total)
                       .With("offset", static_cast<int64_t>(data_begin_ + item.offsets->begin +
                                                            i * sizeof(int64_t))));
    }
    views[i] = {static_cast<const char*>(payload->data()) + begin,
                static_cast<size_t>(end - begin)};
  }
  return Tensor::FromBytesViews(item.shape, views, payload);
}

Result<Ref<Tensor>> SafetensorsReader::GetTensor(std::string_view name) {
  TUTTI_ASSIGN_OR_RETURN(const Item* item, Find(name));
  if (item->dtype == DType::kBytes) return ReadByteStrings(*item);
  TensorOptions options;
  options.zeroed = false;
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor,
                         Tensor::Create(item->dtype, item->shape, options));
  TUTTI_RETURN_IF_ERROR(ReadData(*item->entry, tensor->mutable_data()));
  if (TensorsAreObserved()) {
    const std::string what = Format("the value of {}", Quote(name));
    TUTTI_RETURN_IF_ERROR(ObserveTensor({.op = "restoring a checkpoint", .name = what}, *tensor));
  }
  return tensor;
}

Result<Ref<Tensor>> SafetensorsReader::GetSlice(std::string_view name, const TensorSlice& slice,
                                                const Shape& size) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> whole, GetTensor(name));
  if (!(whole->shape() == slice.full_shape)) {
    return About(InvalidArgument("{} is {} and should have the shape {}", Quote(name),
                                 whole->spec().ToString(), slice.full_shape.ToString())
                     .With("name", name));
  }
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> part,
                         whole->SliceGeneral(slice.begin.span(), size.dims()));
  return part->Copy();
}

}  // namespace tutti
