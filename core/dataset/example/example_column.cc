#include "core/dataset/example/example_column.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/half.h"

namespace tutti {
namespace {

// Values are decoded in pieces of this many when they have to be converted or only counted.
constexpr size_t kPiece = 128;

// A feature's own bytes are copied when the examples they lie in are over this many times larger.
constexpr size_t kMaxPinnedRatio = 4;

template <class T>
bool Fits(int64_t value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value == 0 || value == 1;
  } else {
    return std::in_range<T>(value);
  }
}

// Whether a narrower type turned a finite number into an infinite one.
bool Overflowed(float value, float narrowed) {
  return std::isfinite(value) && std::isinf(narrowed);
}

}  // namespace

std::string_view ExampleListName(ExampleList list) {
  switch (list) {
    case ExampleList::kBytes:
      return "bytes_list";
    case ExampleList::kFloat:
      return "float_list";
    case ExampleList::kInt64:
      return "int64_list";
    case ExampleList::kNone:
      break;
  }
  return "no list";
}

ExampleList ExampleListOf(DType dtype) {
  if (dtype == DType::kBytes) return ExampleList::kBytes;
  if (dtype == DType::kBool || IsInteger(dtype)) return ExampleList::kInt64;
  if (IsFloating(dtype)) return ExampleList::kFloat;
  return ExampleList::kNone;
}

ExampleColumn::ExampleColumn(const ExampleFeature& feature)
    : feature_(feature),
      wanted_(ExampleListOf(feature.dtype)),
      step_(static_cast<size_t>(feature.shape.num_elements())),
      size_(grows() ? 0 : step_),
      item_size_(ItemSize(feature.dtype)) {}

Status ExampleColumn::Allocate(const Shape& outer, MemoryAccount* account) {
  account_ = account;
  if (grows()) return OkStatus();
  std::vector<int64_t> dims(outer.dims().begin(), outer.dims().end());
  dims.insert(dims.end(), feature_.shape.dims().begin(), feature_.shape.dims().end());
  TUTTI_ASSIGN_OR_RETURN(shape_, Shape::Create(dims.data(), dims.size()));
  if (wanted_ == ExampleList::kBytes) {
    views_.resize(static_cast<size_t>(shape_.num_elements()));
    next_ = reinterpret_cast<char*>(views_.data());
    return OkStatus();
  }
  TensorOptions options;
  options.zeroed = false;
  options.account = account;
  TUTTI_ASSIGN_OR_RETURN(tensor_, Tensor::Create(feature_.dtype, shape_, options));
  next_ = static_cast<char*>(tensor_->mutable_data());
  return OkStatus();
}

bool ExampleColumn::AddFeature(WireReader* reader) {
  WireTag tag;
  while (reader->Next(&tag)) {
    const bool is_list = tag.type == WireType::kLengthDelimited && tag.field >= 1 && tag.field <= 3;
    if (!is_list) {
      if (!reader->Skip(tag)) return false;
      continue;
    }
    // A oneof: another kind replaces what came before, the same kind is merged with it.
    const auto list = static_cast<ExampleList>(tag.field);
    if (list != list_) {
      BeginExample();
      list_ = list;
    }
    std::string_view part;
    if (!reader->ReadPart(&part)) return false;
    WireReader values(part);
    const bool good = list == ExampleList::kBytes   ? AddBytesList(&values)
                      : list == ExampleList::kFloat ? AddFloatList(&values)
                                                    : AddInt64List(&values);
    if (!good) {
      *reader = values;
      return false;
    }
  }
  return !reader->failed();
}

bool ExampleColumn::AddBytesList(WireReader* reader) {
  WireTag tag;
  while (reader->Next(&tag)) {
    if (!tag.Is(1, WireType::kLengthDelimited)) {
      if (!reader->Skip(tag)) return false;
      continue;
    }
    std::string_view value;
    if (!reader->ReadPart(&value)) return false;
    if (wanted_ == ExampleList::kBytes) Grow(1);
    if (wanted_ == ExampleList::kBytes && count_ < size_) {
      const BytesView view{value.data(), value.size()};
      std::memcpy(Cursor(), &view, sizeof(view));
    }
    ++count_;
  }
  return !reader->failed();
}

bool ExampleColumn::AddFloatList(WireReader* reader) {
  WireTag tag;
  while (reader->Next(&tag)) {
    if (tag.Is(1, WireType::kLengthDelimited)) {
      const char* start = reader->position();
      std::string_view packed;
      if (!reader->ReadPart(&packed)) return false;
      if (packed.size() % sizeof(float) != 0) {
        return reader->Fail(start, "a packed list of floats has no multiple of 4 bytes");
      }
      AddFloats(packed.data(), packed.size() / sizeof(float));
    } else if (tag.Is(1, WireType::kFixed32)) {
      uint32_t bits = 0;
      if (!reader->ReadFixed32(&bits)) return false;
      AddFloats(reinterpret_cast<const char*>(&bits), 1);
    } else if (!reader->Skip(tag)) {
      return false;
    }
  }
  return !reader->failed();
}

bool ExampleColumn::AddInt64List(WireReader* reader) {
  WireTag tag;
  while (reader->Next(&tag)) {
    if (tag.Is(1, WireType::kLengthDelimited)) {
      std::string_view packed;
      if (!reader->ReadPart(&packed)) return false;
      WireReader values(packed);
      if (!AddInt64s(&values)) {
        *reader = values;
        return false;
      }
    } else if (tag.Is(1, WireType::kVarint)) {
      uint64_t bits = 0;
      if (!reader->ReadVarint(&bits)) return false;
      const auto value = static_cast<int64_t>(bits);
      StoreInt64s(&value, 1);
    } else if (!reader->Skip(tag)) {
      return false;
    }
  }
  return !reader->failed();
}

void ExampleColumn::Grow(size_t more) {
  if (!grows() || Room() >= more) return;
  const auto used = static_cast<size_t>(next_ - grown_.data());
  const size_t needed = used + (count_ + more) * item_size_;
  grown_.resize(std::max(needed, grown_.size() + grown_.size() / 2));
  next_ = grown_.data() + used;
  size_ = (grown_.size() - used) / item_size_;
}

bool ExampleColumn::AddInt64s(WireReader* values) {
  if (feature_.dtype == DType::kInt64) {
    // Each ends with a byte whose high bit is not set.
    if (grows()) Grow(values->CountVarints());
    size_t n = 0;
    const bool good = values->ReadVarints(reinterpret_cast<int64_t*>(Cursor()), Room(), &n);
    count_ += n;
    if (!good) return false;
  }
  std::array<int64_t, kPiece> piece;
  while (!values->at_end()) {
    size_t n = 0;
    if (!values->ReadVarints(piece.data(), piece.size(), &n)) return false;
    StoreInt64s(piece.data(), n);
  }
  return true;
}

void ExampleColumn::AddFloats(const char* values, size_t n) {
  if (feature_.dtype == DType::kFloat32) {
    Grow(n);
    std::memcpy(Cursor(), values, std::min(n, Room()) * sizeof(float));
    count_ += n;
    return;
  }
  std::array<float, kPiece> piece;
  while (n > 0) {
    const size_t part = std::min(n, piece.size());
    std::memcpy(piece.data(), values, part * sizeof(float));
    StoreFloats(piece.data(), part);
    values += part * sizeof(float);
    n -= part;
  }
}

void ExampleColumn::StoreInt64s(const int64_t* values, size_t n) {
  if (wanted_ == ExampleList::kInt64) Grow(n);
  const size_t room = wanted_ == ExampleList::kInt64 ? std::min(n, Room()) : 0;
  if (room > 0) {
    VisitDType(feature_.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_integral_v<T>) {
        auto* out = reinterpret_cast<T*>(Cursor());
        bool all_fit = true;
        for (size_t i = 0; i < room; ++i) {
          all_fit &= Fits<T>(values[i]);
          out[i] = static_cast<T>(values[i]);
        }
        if (!all_fit && misfit_.empty()) {
          misfit_ = Format("{}", *std::find_if_not(values, values + room, Fits<T>));
        }
      }
    });
  }
  count_ += n;
}

void ExampleColumn::StoreFloats(const float* values, size_t n) {
  if (wanted_ == ExampleList::kFloat) Grow(n);
  const size_t room = wanted_ == ExampleList::kFloat ? std::min(n, Room()) : 0;
  if (room > 0) {
    const auto store = [&]<class T>(T (*narrow)(float), float (*widen)(T)) {
      auto* out = reinterpret_cast<T*>(Cursor());
      for (size_t i = 0; i < room; ++i) {
        out[i] = narrow(values[i]);
        if (Overflowed(values[i], widen(out[i])) && misfit_.empty()) {
          misfit_ = Format("{}", values[i]);
        }
      }
    };
    switch (feature_.dtype) {
      case DType::kFloat16:
        store.template operator()<Float16>(ToFloat16, ToFloat);
        break;
      case DType::kBfloat16:
        store.template operator()<Bfloat16>(ToBfloat16, ToFloat);
        break;
      default:
        std::copy(values, values + room, reinterpret_cast<double*>(Cursor()));
        break;
    }
  }
  count_ += n;
}

void ExampleColumn::StoreDefault() {
  const size_t bytes = size_ * item_size_;
  if (bytes > 0) std::memcpy(next_, feature_.default_value->data(), bytes);
}

Status ExampleColumn::EndExample() {
  if (list_ == ExampleList::kNone) {
    if (!grows()) StoreDefault();
  } else if (list_ != wanted_) {
    return InvalidArgument(
        "feature {} should be {} and is {} of {} values; ask for a dtype that "
        "fits, or write it as {}",
        Quote(feature_.key), Described(), ExampleListName(list_), count_, ExampleListName(wanted_));
  } else if (grows() ? count_ % step_ != 0 : count_ != size_) {
    return InvalidArgument(
        "feature {} should be {} and has {} values; ask for the shape that was "
        "written",
        Quote(feature_.key), Described(), count_);
  } else if (!misfit_.empty()) {
    return InvalidArgument(
        "feature {} has the value {}, which {} cannot hold; ask for a wider dtype",
        Quote(feature_.key), misfit_, DTypeName(feature_.dtype));
  }
  if (grows()) {
    counts_.push_back(static_cast<int64_t>(count_));
    next_ += count_ * item_size_;
    size_ -= count_;
  } else {
    next_ += size_ * item_size_;
  }
  BeginExample();
  return OkStatus();
}

std::string ExampleColumn::Described() const {
  if (grows() && step_ == 1) return Format("values ({})", DTypeName(feature_.dtype));
  return Format("{}{} values ({}{})", grows() ? "steps of " : "", step_,
                DTypeName(feature_.dtype), feature_.shape.ToString());
}

Result<Ref<Tensor>> ExampleColumn::FinishValues(const Ref<const Tensor>& examples,
                                                size_t payload_bytes) {
  int64_t total = 0;
  for (const int64_t count : counts_) total += count;
  shape_ = Shape({total});
  const char* const values = grown_.data();
  const size_t bytes = static_cast<size_t>(total) * item_size_;
  if (wanted_ == ExampleList::kBytes) {
    views_.resize(static_cast<size_t>(total));
    if (bytes > 0) std::memcpy(views_.data(), values, bytes);
    return Finish(examples, payload_bytes);
  }
  TensorOptions options;
  options.zeroed = false;
  options.account = account_;
  TUTTI_ASSIGN_OR_RETURN(tensor_, Tensor::Create(feature_.dtype, shape_, options));
  if (bytes > 0) std::memcpy(tensor_->mutable_data(), values, bytes);
  return std::move(tensor_);
}

Result<Ref<Tensor>> ExampleColumn::Finish(const Ref<const Tensor>& examples, size_t payload_bytes) {
  if (wanted_ != ExampleList::kBytes) return std::move(tensor_);
  size_t own_bytes = 0;
  for (const BytesView& view : views_) own_bytes += view.size;
  if (payload_bytes / kMaxPinnedRatio > own_bytes || feature_.default_value != nullptr) {
    return Tensor::FromStrings(shape_, views_, account_);
  }
  return Tensor::FromBytesViews(shape_, views_, examples);
}

}  // namespace tutti
