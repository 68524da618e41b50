#include "core/collective/stream/algorithms/gather_parts.h"

#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/concat.h"
#include "core/tensor/copy.h"

namespace tutti {
namespace {

// The payload of a bytes tensor.
std::string EncodeStrings(const Tensor& tensor) {
  const std::span<const BytesView> views = tensor.span<BytesView>();
  size_t total = views.size() * sizeof(uint64_t);
  for (const BytesView& view : views) total += view.size;
  std::string bytes;
  bytes.reserve(total);
  for (const BytesView& view : views) {
    const uint64_t size = view.size;
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  }
  for (const BytesView& view : views) bytes.append(view.data, view.size);
  return bytes;
}

Result<Ref<Tensor>> DecodeStrings(const Shape& shape, const std::string& bytes,
                                  MemoryAccount* account) {
  const auto count = static_cast<size_t>(shape.num_elements());
  if (count > bytes.size() / sizeof(uint64_t)) {
    return DataLoss("{} bytes for {} strings", bytes.size(), count);
  }
  size_t offset = count * sizeof(uint64_t);
  std::vector<BytesView> views(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t size = 0;
    std::memcpy(&size, bytes.data() + i * sizeof(size), sizeof(size));
    if (size > bytes.size() - offset) {
      return DataLoss("a string of {} bytes where {} are left", size, bytes.size() - offset);
    }
    views[i] = BytesView{bytes.data() + offset, size};
    offset += size;
  }
  if (offset != bytes.size()) {
    return DataLoss("{} bytes behind {} strings", bytes.size() - offset, count);
  }
  return Tensor::FromStrings(shape, views, account);
}

}  // namespace

GatherParts::GatherParts(const LinkCallContext& context)
    : context_(context),
      rank_(context.rank),
      axis_(static_cast<size_t>(context.call->header.axis)),
      is_bytes_(context.call->header.first.dtype == DType::kBytes),
      memory_(context.call->unzeroed()),
      parts_(static_cast<size_t>(context.size)) {}

GatherParts::~GatherParts() {
  if (memory_.account != nullptr) memory_.account->Unreserve(text_bytes_);
}

Status GatherParts::Prepare(const Tensor& input) {
  TUTTI_ASSIGN_OR_RETURN(own_, input.Contiguous());
  if (is_bytes_) own_text_ = EncodeStrings(*own_);
  Part& part = parts_[static_cast<size_t>(rank_)];
  part.shape = own_->shape();
  part.bytes = own_bytes();
  return OkStatus();
}

Status GatherParts::Announce(int64_t rank, const Shape& shape, uint64_t bytes) {
  Part& part = parts_[static_cast<size_t>(rank)];
  part.shape = shape;
  part.bytes = bytes;
  if (is_bytes_) return OkStatus();
  const uint64_t expected = static_cast<uint64_t>(shape.num_elements()) * ItemSize(own_->dtype());
  if (bytes == expected) return OkStatus();
  return DataLoss("rank {} sends {} bytes for a tensor of {}", context_.Name(rank), bytes,
                  expected);
}

Status GatherParts::MakePlaces() {
  if (is_bytes_) return OkStatus();
  int64_t total = 0;
  for (const Part& part : parts_) {
    if (__builtin_add_overflow(total, part.shape.dim(axis_), &total)) {
      return InvalidArgument("the sizes along axis {} do not add up in 64 bits", axis_);
    }
  }
  Dims dims(own_->shape().dims().data(), own_->rank());
  dims[axis_] = total;
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
  TUTTI_ASSIGN_OR_RETURN(joined_, Tensor::Create(own_->dtype(), shape, memory_));
  int64_t begin = 0;
  for (Part& part : parts_) {
    const int64_t end = begin + part.shape.dim(axis_);
    TUTTI_ASSIGN_OR_RETURN(part.place, joined_->SliceAxis(axis_, begin, end));
    begin = end;
    if (&part == &parts_[static_cast<size_t>(rank_)] || part.place->is_contiguous()) continue;
    TUTTI_ASSIGN_OR_RETURN(part.tensor, Tensor::Create(own_->dtype(), part.shape, memory_));
  }
  return OkStatus();
}

Result<std::byte*> GatherParts::RoomFor(int64_t rank, size_t segment) {
  Part& part = parts_[static_cast<size_t>(rank)];
  if (!is_bytes_) {
    if (!part.tensor && !part.place) {
      return Internal("there is no place for the part of rank {}", context_.Name(rank));
    }
    Tensor& tensor = part.tensor ? *part.tensor : *part.place;
    return static_cast<std::byte*>(tensor.mutable_data()) + segment * kSegmentBytes;
  }
  // Charged as the result is.
  const size_t bytes = SegmentBytes(rank, segment);
  if (memory_.account != nullptr) {
    TUTTI_RETURN_IF_ERROR(memory_.account->Reserve(bytes));
    text_bytes_ += bytes;
  }
  part.texts.emplace_back(bytes, '\0');
  return reinterpret_cast<std::byte*>(part.texts.back().data());
}

const std::byte* GatherParts::Segment(int64_t rank, size_t segment) const {
  if (rank == rank_) return own_payload() + segment * kSegmentBytes;
  const Part& part = parts_[static_cast<size_t>(rank)];
  if (is_bytes_) return reinterpret_cast<const std::byte*>(part.texts[segment].data());
  const Tensor& tensor = part.tensor ? *part.tensor : *part.place;
  return static_cast<const std::byte*>(tensor.data()) + segment * kSegmentBytes;
}

Result<Ref<Tensor>> GatherParts::Join() {
  parts_[static_cast<size_t>(rank_)].tensor = own_;
  if (!is_bytes_) {
    for (Part& part : parts_) {
      if (part.tensor) TUTTI_RETURN_IF_ERROR(CopyInto(*part.tensor, part.place.get()));
    }
    return joined_;
  }
  std::vector<const Tensor*> tensors;
  for (Part& part : parts_) {
    if (&part != &parts_[static_cast<size_t>(rank_)]) {
      std::string text;
      for (const std::string& piece : part.texts) text += piece;
      part.texts.clear();
      Result<Ref<Tensor>> strings = DecodeStrings(part.shape, text, memory_.account);
      if (!strings.ok()) {
        return std::move(strings).status().WithPrefix(
            Format("the tensor of rank {}", context_.Name(&part - parts_.data())));
      }
      part.tensor = std::move(strings).value();
    }
    tensors.push_back(part.tensor.get());
  }
  return Concat(tensors, axis_, memory_);
}

}  // namespace tutti
