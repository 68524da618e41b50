// Making tensors and views of tensors. Printing and comparing stand in tensor_text.cc and
// tensor_compare.cc.
#include "core/tensor/tensor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/copy.h"
#include "core/tensor/device_buffer.h"

namespace tutti {
namespace {

// Strings up to this many bytes, views included, lie behind the Tensor object.
constexpr size_t kInlineStringBytes = 256;

size_t AlignmentOf(DType dtype) {
  switch (dtype) {
    case DType::kComplex64: return alignof(float);
    case DType::kComplex128: return alignof(double);
    case DType::kBytes: return alignof(BytesView);
    default: return ItemSize(dtype);
  }
}

TensorOptions On(DeviceId device) {
  TensorOptions options;
  options.device = device;
  return options;
}

Status CheckDType(DType dtype) {
  if (IsValid(dtype)) return OkStatus();
  return InvalidArgument("tensor: {} is no dtype", static_cast<int32_t>(dtype));
}

// Copies n views and, behind them, the payload that they show.
void CopyStringsTo(void* place, std::span<const BytesView> strings) {
  auto* views = static_cast<BytesView*>(place);
  char* payload = reinterpret_cast<char*>(views + strings.size());
  for (size_t i = 0; i < strings.size(); ++i) {
    if (strings[i].size > 0) std::memcpy(payload, strings[i].data, strings[i].size);
    views[i] = BytesView{payload, strings[i].size};
    payload += strings[i].size;
  }
}

size_t StringsBytes(std::span<const BytesView> strings) {
  size_t bytes = strings.size_bytes();
  for (const BytesView& view : strings) bytes += view.size;
  return bytes;
}

Status CheckCount(std::string_view what, const Shape& shape, size_t count) {
  if (static_cast<size_t>(shape.num_elements()) == count) return OkStatus();
  return InvalidArgument("{}: shape {} takes {} elements, but {} are given", what, shape.ToString(),
                         shape.num_elements(), count);
}

}  // namespace

Ref<Tensor> Tensor::NewInline(DType dtype, const Shape& shape, DeviceId device, size_t bytes) {
  constexpr size_t kPadding = kBufferAlignment - 1;
  auto* tensor = new (Trailing{std::max<size_t>(bytes, 1) + kPadding}) Tensor(dtype, shape, device);
  const uintptr_t end = reinterpret_cast<uintptr_t>(tensor) + sizeof(Tensor);
  tensor->data_ = reinterpret_cast<void*>((end + kPadding) & ~uintptr_t{kPadding});
  tensor->inline_ = true;
  return Ref<Tensor>::Adopt(tensor);
}

Ref<Tensor> Tensor::NewView(DType dtype, const Shape& shape, DeviceId device, void* data,
                            Ref<const RefCounted> owner, OwnerKind owner_kind) {
  auto* tensor = new (Trailing{0}) Tensor(dtype, shape, device);
  tensor->data_ = data;
  tensor->owner_ = std::move(owner);
  tensor->owner_kind_ = owner_kind;
  return Ref<Tensor>::Adopt(tensor);
}

Ref<Tensor> Tensor::NewViewOfThis(const Shape& shape, void* data) const {
  Ref<Tensor> view =
      inline_ ? NewView(dtype_, shape, device_, data, Ref<const Tensor>::Retain(this),
                        OwnerKind::kTensor)
              : NewView(dtype_, shape, device_, data, owner_, owner_kind_);
  view->read_only_ = read_only_;
  return view;
}

void Tensor::SetStrides(std::span<const int64_t> strides) {
  strides_ = Dims(strides.data(), strides.size());
  contiguous_ = true;
  if (num_elements() == 0) return;
  int64_t expected = 1;
  for (size_t axis = rank(); axis-- > 0;) {
    if (shape_.dim(axis) != 1 && strides_[axis] != expected) contiguous_ = false;
    expected *= shape_.dim(axis);
  }
}

Result<Ref<Tensor>> Tensor::Create(DType dtype, const Shape& shape, const TensorOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckDType(dtype));
  size_t bytes;
  if (__builtin_mul_overflow(static_cast<size_t>(shape.num_elements()), ItemSize(dtype), &bytes) ||
      bytes > static_cast<size_t>(PTRDIFF_MAX)) {
    return ResourceExhausted("tensor: {}{} is larger than the address space", DTypeName(dtype),
                             shape.ToString());
  }
  const bool zeroed = options.zeroed || dtype == DType::kBytes;
  if (options.allocator == nullptr && !options.device.is_cpu()) {
    return FailedPrecondition("tensor {}{}: memory of {} comes from that device alone",
                              DTypeName(dtype), shape.ToString(), options.device.ToString());
  }
  if (options.allocator == nullptr && bytes <= kInlineBytes) {
    Ref<Tensor> tensor = NewInline(dtype, shape, options.device, bytes);
    if (zeroed) std::memset(tensor->data_, 0, bytes);
    return tensor;
  }
  Result<Ref<Buffer>> buffer = options.allocator != nullptr
                                   ? options.allocator->Allocate(bytes, zeroed)
                                   : Buffer::Create(bytes, zeroed, options.account);
  if (!buffer.ok()) {
    return buffer.status().WithPrefix(
        Format("tensor {}{}", DTypeName(dtype), shape.ToString()));
  }
  void* data = (*buffer)->data();
  return NewView(dtype, shape, options.device, data, *std::move(buffer), OwnerKind::kBuffer);
}

Result<Ref<Tensor>> Tensor::Wrap(void* data, size_t bytes, DType dtype, const Shape& shape,
                                 std::span<const int64_t> strides, bool read_only,
                                 Ref<const RefCounted> keeper, size_t offset_bytes,
                                 DeviceId device) {
  TUTTI_RETURN_IF_ERROR(CheckDType(dtype));
  const Dims row_major = shape.RowMajorStrides();
  if (strides.empty()) strides = row_major.span();
  if (strides.size() != shape.rank()) {
    return InvalidArgument("tensor: {} strides for shape {}; give one per dimension",
                           strides.size(), shape.ToString());
  }
  // The elements reach from `low` to `high`, counted in elements from element 0, 0, ...
  __int128 low = 0;
  __int128 high = 0;
  const bool empty = shape.num_elements() == 0;
  for (size_t axis = 0; axis < shape.rank() && !empty; ++axis) {
    const __int128 reach = static_cast<__int128>(strides[axis]) * (shape.dim(axis) - 1);
    (reach < 0 ? low : high) += reach;
  }
  const auto item = static_cast<__int128>(ItemSize(dtype));
  const __int128 offset = offset_bytes == kLowestFirst ? -low * item : __int128{offset_bytes};
  const __int128 needed = empty ? 0 : offset + (high + 1) * item;
  if (needed > static_cast<__int128>(bytes) || offset + low * item < 0 ||
      offset > static_cast<__int128>(bytes)) {
    return InvalidArgument(
        "tensor: {}{} with strides {} does not fit into the {} bytes given; its elements reach "
        "from byte {} to byte {}",
        DTypeName(dtype), shape.ToString(), fmt::format("[{}]", JoinAll(strides, ",")), bytes,
        static_cast<int64_t>(offset + low * item), static_cast<int64_t>(needed));
  }
  if (data == nullptr && !empty) {
    return InvalidArgument("tensor: the memory of {}{} is NULL", DTypeName(dtype),
                           shape.ToString());
  }
  char* first = data == nullptr ? nullptr : static_cast<char*>(data) + static_cast<size_t>(offset);
  if (!empty && reinterpret_cast<uintptr_t>(first) % AlignmentOf(dtype) != 0) {
    return InvalidArgument("tensor: the memory of {}{} is not aligned to {} bytes; copy it",
                           DTypeName(dtype), shape.ToString(), AlignmentOf(dtype));
  }
  Ref<Tensor> tensor = NewView(dtype, shape, device, first,
                               Buffer::Wrap(data, bytes, std::move(keeper)), OwnerKind::kBuffer);
  tensor->SetStrides(strides);
  tensor->read_only_ = read_only;
  return tensor;
}

Ref<Tensor> Tensor::View(void* data, DType dtype, const Shape& shape,
                         std::span<const int64_t> strides, bool read_only,
                         Ref<const RefCounted> owner, DeviceId device) {
  Ref<Tensor> tensor = NewView(dtype, shape, device, data, std::move(owner), OwnerKind::kOther);
  if (!strides.empty()) tensor->SetStrides(strides);
  tensor->read_only_ = read_only;
  return tensor;
}

Ref<Tensor> Tensor::ScalarFrom(DType dtype, const void* item) {
  Ref<Tensor> tensor = NewInline(dtype, Shape(), DeviceId(), ItemSize(dtype));
  std::memcpy(tensor->data_, item, ItemSize(dtype));
  return tensor;
}

Result<Ref<Tensor>> Tensor::FromData(DType dtype, const Shape& shape, const void* data,
                                     size_t bytes) {
  TUTTI_RETURN_IF_ERROR(CheckDType(dtype));
  if (dtype == DType::kBytes) {
    return InvalidArgument("tensor: byte strings cannot be copied from plain data; give views");
  }
  if (bytes / ItemSize(dtype) != static_cast<size_t>(shape.num_elements()) ||
      bytes % ItemSize(dtype) != 0) {
    return InvalidArgument("tensor: {}{} takes {} elements of {} bytes, but {} bytes are given",
                           DTypeName(dtype), shape.ToString(), shape.num_elements(),
                           ItemSize(dtype), bytes);
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, Create(dtype, shape, Unzeroed(TensorOptions())));
  if (bytes > 0) std::memcpy(tensor->data_, data, bytes);
  return tensor;
}

Ref<Tensor> Tensor::Bytes(std::string_view text) {
  const BytesView view{text.data(), text.size()};
  // Inline whatever the size: there is nothing to share with, and nothing can fail.
  Ref<Tensor> tensor =
      NewInline(DType::kBytes, Shape(), DeviceId(), sizeof(BytesView) + text.size());
  CopyStringsTo(tensor->data_, {&view, 1});
  return tensor;
}

Result<Ref<Tensor>> Tensor::FromStrings(const Shape& shape, std::span<const BytesView> strings,
                                        MemoryAccount* account) {
  TUTTI_RETURN_IF_ERROR(CheckCount("tensor of byte strings", shape, strings.size()));
  const size_t bytes = StringsBytes(strings);
  Ref<Tensor> tensor;
  if (bytes <= kInlineStringBytes) {
    tensor = NewInline(DType::kBytes, shape, DeviceId(), bytes);
  } else {
    TUTTI_ASSIGN_OR_RETURN(Ref<Buffer> buffer, Buffer::Create(bytes, false, account));
    void* data = buffer->data();
    tensor = NewView(DType::kBytes, shape, DeviceId(), data, std::move(buffer), OwnerKind::kBuffer);
  }
  CopyStringsTo(tensor->data_, strings);
  return tensor;
}

Result<Ref<Tensor>> Tensor::FromBytesViews(const Shape& shape, std::span<const BytesView> views,
                                           Ref<const RefCounted> payload) {
  TUTTI_RETURN_IF_ERROR(CheckCount("tensor of byte strings", shape, views.size()));
  Ref<Tensor> tensor = NewInline(DType::kBytes, shape, DeviceId(), views.size_bytes());
  std::copy(views.begin(), views.end(), static_cast<BytesView*>(tensor->data_));
  tensor->owner_ = std::move(payload);
  tensor->owner_kind_ = OwnerKind::kOther;
  return tensor;
}

Ref<Tensor> Tensor::BytesViewScalar(BytesView view, Ref<const RefCounted> payload) {
  Ref<Tensor> tensor = NewInline(DType::kBytes, Shape(), DeviceId(), sizeof(view));
  std::memcpy(tensor->data_, &view, sizeof(view));
  tensor->owner_ = std::move(payload);
  tensor->owner_kind_ = OwnerKind::kOther;
  return tensor;
}

const void* Tensor::ElementAt(int64_t i) const {
  if (contiguous_) return Offset(i);
  int64_t offset = 0;
  for (size_t axis = rank(); axis-- > 0;) {
    offset += i % shape_.dim(axis) * strides_[axis];
    i /= shape_.dim(axis);
  }
  return Offset(offset);
}

size_t Tensor::pinned_bytes() const {
  const size_t own = inline_ ? byte_size() : 0;
  switch (owner_kind_) {
    case OwnerKind::kBuffer: return own + static_cast<const Buffer*>(owner_.get())->bytes();
    case OwnerKind::kTensor: return static_cast<const Tensor*>(owner_.get())->pinned_bytes();
    case OwnerKind::kNone:
    case OwnerKind::kOther: break;
  }
  return own;
}

Ref<Tensor> Tensor::Slice(int64_t begin, int64_t end) const {
  assert(rank() >= 1 && 0 <= begin && begin <= end && end <= dim(0));
  Ref<Tensor> view = NewViewOfThis(shape_.WithDim(0, end - begin), Offset(begin * strides_[0]));
  if (!contiguous_) view->SetStrides(strides());
  return view;
}

Ref<Tensor> Tensor::Row(int64_t i) const {
  assert(rank() >= 1 && 0 <= i && i < dim(0));
  Ref<Tensor> view = NewViewOfThis(shape_.RowShape(), Offset(i * strides_[0]));
  if (!contiguous_) view->SetStrides(strides().subspan(1));
  return view;
}

Result<Ref<Tensor>> Tensor::SliceAxis(size_t axis, int64_t begin, int64_t end) const {
  if (axis >= rank()) {
    return InvalidArgument("slice: axis {} of {}, which has {} axes", axis, SpecString(), rank());
  }
  if (begin < 0 || begin > end || end > dim(axis)) {
    return OutOfRange("slice: [{}, {}) along axis {} of {}, whose size there is {}", begin, end,
                      axis, SpecString(), dim(axis));
  }
  Ref<Tensor> view =
      NewViewOfThis(shape_.WithDim(axis, end - begin), Offset(begin * strides_[axis]));
  view->SetStrides(strides());
  return view;
}

Result<Ref<Tensor>> Tensor::SliceGeneral(std::span<const int64_t> begin,
                                         std::span<const int64_t> size,
                                         std::span<const int64_t> step) const {
  if (begin.size() != rank() || size.size() != rank() || (!step.empty() && step.size() != rank())) {
    return InvalidArgument("slice: {} begins, {} sizes and {} steps for {}; give one per axis",
                           begin.size(), size.size(), step.size(), SpecString());
  }
  int64_t offset = 0;
  Dims new_strides(rank(), 0);
  for (size_t axis = 0; axis < rank(); ++axis) {
    const int64_t stride = step.empty() ? 1 : step[axis];
    if (size[axis] < 0) {
      return OutOfRange("slice: size {} along axis {} of {}", size[axis], axis, SpecString());
    }
    const __int128 last =
        __int128{begin[axis]} + static_cast<__int128>(stride) * (size[axis] - 1);
    const bool inside = size[axis] == 0 ? 0 <= begin[axis] && begin[axis] <= dim(axis)
                                        : 0 <= begin[axis] && begin[axis] < dim(axis) &&
                                              0 <= last && last < dim(axis);
    if (!inside) {
      return OutOfRange("slice: {} elements from {} in steps of {} along axis {} of {}",
                        size[axis], begin[axis], stride, axis, SpecString());
    }
    offset += begin[axis] * strides_[axis];
    new_strides[axis] = stride * strides_[axis];
  }
  Ref<Tensor> view = NewViewOfThis(Shape(size), Offset(offset));
  view->SetStrides(new_strides.span());
  return view;
}

Result<Ref<Tensor>> Tensor::Reshape(std::span<const int64_t> dims) const {
  Dims wanted(dims.data(), dims.size());
  int64_t known = 1;
  size_t unknown_axis = dims.size();
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == -1 && unknown_axis == dims.size()) {
      unknown_axis = axis;
      wanted[axis] = 1;
    } else if (dims[axis] < 0) {
      return InvalidArgument("reshape: {} to {}: sizes are 0 or more, and one may be -1",
                             SpecString(), fmt::format("[{}]", JoinAll(dims, ",")));
    }
  }
  TUTTI_ASSIGN_OR_RETURN(Shape shape, Shape::Create(wanted.data(), wanted.size()));
  known = shape.num_elements();
  if (unknown_axis < dims.size() && known > 0 && num_elements() % known == 0) {
    shape = shape.WithDim(unknown_axis, num_elements() / known);
  }
  if (shape.num_elements() != num_elements() || (unknown_axis < dims.size() && known == 0)) {
    return InvalidArgument("reshape: {} has {} elements, which do not make {}", SpecString(),
                           num_elements(), fmt::format("[{}]", JoinAll(dims, ",")));
  }
  if (contiguous_) return NewViewOfThis(shape, data_);
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> copy, Copy(On(device_)));
  return copy->NewViewOfThis(shape, copy->data_);
}

Ref<Tensor> Tensor::ExpandFront() const {
  Ref<Tensor> view = NewViewOfThis(shape_.Prepend(1), data_);
  if (!contiguous_) {
    Dims strides(rank() + 1, num_elements());
    std::copy(strides_.begin(), strides_.end(), strides.data() + 1);
    view->SetStrides(strides.span());
  }
  return view;
}

Ref<Tensor> Tensor::NewViewOfAll() const {
  Ref<Tensor> view = NewViewOfThis(shape_, data_);
  if (!contiguous_) view->SetStrides(strides());
  return view;
}

Ref<Tensor> Tensor::OfStep(int64_t rows) const {
  assert(rows >= 0);
  Ref<Tensor> view = NewViewOfAll();
  view->step_rows_ = rows;
  return view;
}

Ref<Tensor> Tensor::OfNoStep() const {
  if (step_rows_ != kNoStep) return NewViewOfAll();
  return Ref<Tensor>::Retain(const_cast<Tensor*>(this));
}

Result<Ref<Tensor>> Tensor::Copy(const TensorOptions& options) const {
  if (!device_.is_cpu()) {
    const DeviceBuffer* const buffer = DeviceBufferOf(*this);
    if (options.device != device_ || buffer == nullptr) return CheckOnHost("copy", *this);
    return buffer->CopyOnDevice(*this);
  }
  if (dtype_ == DType::kBytes) {
    if (contiguous_) return FromStrings(shape_, span<BytesView>(), options.account);
    std::vector<BytesView> views(static_cast<size_t>(num_elements()));
    CopyStrided(sizeof(BytesView), shape_.dims(), data_, strides(), views.data(),
                shape_.RowMajorStrides().span());
    return FromStrings(shape_, views, options.account);
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> copy, Create(dtype_, shape_, Unzeroed(options)));
  if (contiguous_) {
    if (num_elements() > 0) std::memcpy(copy->data_, data_, byte_size());
  } else {
    CopyStrided(item_size(), shape_.dims(), data_, strides(), copy->data_, copy->strides());
  }
  return copy;
}

Result<Ref<Tensor>> Tensor::Contiguous() const {
  // The reference is to this very object; that views are handed out as Ref<Tensor> does not make
  // it writable for people who only have a value.
  if (contiguous_) return Ref<Tensor>::Retain(const_cast<Tensor*>(this));
  return Copy(On(device_));
}

Result<Ref<Tensor>> Tensor::Unpinned(size_t ratio) const {
  if (pinned_bytes() / ratio <= std::max(byte_size(), kInlineBytes)) {
    return Ref<Tensor>::Retain(const_cast<Tensor*>(this));
  }
  return Copy(On(device_));
}

Result<Ref<Tensor>> Tensor::MakeMutable(Ref<Tensor> tensor) {
  if (tensor->IsExclusive()) {
    tensor->step_rows_ = kNoStep;
    return tensor;
  }
  return tensor->Copy(On(tensor->device_));
}

bool Tensor::IsExclusive() const {
  return !read_only_ && IsUnique() && (inline_ || !owner_ || owner_->IsUnique());
}

}  // namespace tutti
