// Tensor: a dense, strided array, or a view on a part of one.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> images, Tensor::Create(DType::kFloat32, Shape({128, 64})));
//   std::span<float> pixels = images->mutable_span<float>();
//   Ref<Tensor> row = images->Row(3);                    // float32[64], the same memory
//   Ref<Tensor> three = Tensor::Scalar<int64_t>(3);
//
// Element i0, i1, ... lies at data() + (i0 * strides()[0] + i1 * strides()[1] + ...) * item_size().
// A tensor that we make is row-major, 64-byte aligned and zeroed unless asked otherwise. At most
// kInlineBytes lie inside the Tensor object itself (one allocation, charged to no account); more
// lies in a Buffer that views share.
//
// A tensor on a GPU has its elements where only work on that device's streams may touch them: it
// can be viewed and named, and all else is for whoever knows the device (device_buffer.h).
//
// Elements of a bytes tensor are BytesView; their payload is kept alive by the tensor, which need
// not own the memory that the views lie in. Whoever writes an element of a bytes tensor answers for
// its payload's life.
//
// A tensor may belong to a step, the part of a batch that this process got of many: then it knows
// the rows of the whole step. That is the object's alone: views, copies and results have none.
//
// Threads: reading from several threads at once is fine. A tensor that stands in a Value is shared:
// it must not be written; MakeMutable gives one that may be.
#ifndef TUTTI_CORE_TENSOR_TENSOR_H_
#define TUTTI_CORE_TENSOR_TENSOR_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/buffer.h"
#include "core/tensor/device_id.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace tutti {

struct TensorOptions {
  bool zeroed = true;
  BufferAllocator* allocator = nullptr;  // null: Buffer::Create, and small tensors stay inline
  MemoryAccount* account = nullptr;      // ignored when an allocator is given
  DeviceId device;
};

inline TensorOptions Unzeroed(TensorOptions options) {
  options.zeroed = false;
  return options;
}

class Tensor final : public RefCounted {
 public:
  static constexpr size_t kInlineBytes = 64;

  // ---- Making ----

  // INVALID_ARGUMENT for kInvalid or a size over int64; RESOURCE_EXHAUSTED when memory is refused.
  static Result<Ref<Tensor>> Create(DType dtype, const Shape& shape,
                                    const TensorOptions& options = TensorOptions());

  // The caller's memory [data, data + bytes). `strides` count elements, may be negative, and empty
  // means row-major. Element 0, 0, ... lies at data + offset_bytes; by default so that the lowest
  // element lies at `data`. Checked: every element lies inside the block and is aligned for its
  // type. `keeper` keeps the memory alive (a HostData with the caller's release function; may be
  // null for memory that lives for ever); it is dropped when nobody uses the memory any more, and
  // also when this fails. For a bytes tensor it keeps the payload alive, too.
  static constexpr size_t kLowestFirst = SIZE_MAX;
  static Result<Ref<Tensor>> Wrap(void* data, size_t bytes, DType dtype, const Shape& shape,
                                  std::span<const int64_t> strides, bool read_only,
                                  Ref<const RefCounted> keeper,
                                  size_t offset_bytes = kLowestFirst,
                                  DeviceId device = DeviceId());

  // A view of memory that `owner` (an arena, a mapped file, another tensor) keeps alive; row-major
  // when `strides` is empty. Nothing is checked. For a bytes tensor the owner keeps the payload
  // alive, too.
  static Ref<Tensor> View(void* data, DType dtype, const Shape& shape,
                          std::span<const int64_t> strides, bool read_only,
                          Ref<const RefCounted> owner, DeviceId device = DeviceId());

  // One element. T: bool, a fixed-width integer, float, double, Float16, Bfloat16, Complex64,
  // Complex128.
  template <class T>
  static Ref<Tensor> Scalar(T value) {
    static_assert(DTypeOf<T> != DType::kBytes);
    return ScalarFrom(DTypeOf<T>, &value);
  }
  // One element copied from `item`, whatever its dtype but bytes.
  static Ref<Tensor> ScalarFrom(DType dtype, const void* item);

  // A rank-1 tensor with a copy of the values; a tensor of any shape with a copy of `values` in
  // row-major order.
  template <class T>
  static Ref<Tensor> Vector(std::initializer_list<T> values) {
    return FromSpan<T>(Shape({static_cast<int64_t>(values.size())}),
                       std::span<const T>(values.begin(), values.size()))
        .value();
  }
  template <class T>
  static Result<Ref<Tensor>> FromSpan(const Shape& shape, std::span<const T> values) {
    static_assert(DTypeOf<T> != DType::kBytes);
    return FromData(DTypeOf<T>, shape, values.data(), values.size_bytes());
  }
  // INVALID_ARGUMENT when the byte size does not match dtype and shape, and for bytes.
  static Result<Ref<Tensor>> FromData(DType dtype, const Shape& shape, const void* data,
                                      size_t bytes);

  // Byte strings, copied into one block: a scalar; a tensor of `shape` from views in row-major
  // order.
  static Ref<Tensor> Bytes(std::string_view text);
  static Result<Ref<Tensor>> FromStrings(const Shape& shape, std::span<const BytesView> strings,
                                         MemoryAccount* account = nullptr);
  // Byte strings without copying the payload, which `payload` keeps alive: only the views are
  // copied.
  static Result<Ref<Tensor>> FromBytesViews(const Shape& shape, std::span<const BytesView> views,
                                            Ref<const RefCounted> payload);
  static Ref<Tensor> BytesViewScalar(BytesView view, Ref<const RefCounted> payload);

  // ---- Reading ----

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  size_t rank() const { return shape_.rank(); }
  int64_t dim(size_t axis) const { return shape_.dim(axis); }
  std::span<const int64_t> strides() const { return strides_.span(); }
  int64_t num_elements() const { return shape_.num_elements(); }
  size_t item_size() const { return ItemSize(dtype_); }
  // Element count times item size.
  size_t byte_size() const { return static_cast<size_t>(num_elements()) * item_size(); }
  TensorSpec spec() const { return TensorSpec{dtype_, shape_}; }
  DeviceId device() const { return device_; }
  bool read_only() const { return read_only_; }
  // Row-major without gaps; true without elements.
  bool is_contiguous() const { return contiguous_; }

  // Element 0, 0, ...; never null for a tensor that we made, not even of no elements. The tensor
  // must lie on a CPU: whoever takes tensors of users asks first (device_buffer.h).
  const void* data() const {
    assert(device_.is_cpu());
    return data_;
  }
  // The same for writing; the tensor must not be read-only.
  void* mutable_data() {
    assert(!read_only_ && device_.is_cpu());
    return data_;
  }
  // The same as a mere address, on any device.
  void* address() const { return data_; }

  // The elements in row-major order. The tensor must be contiguous and of dtype T.
  template <class T>
  std::span<const T> span() const {
    assert(DTypeOf<T> == dtype_ && contiguous_);
    return {static_cast<const T*>(data()), static_cast<size_t>(num_elements())};
  }
  template <class T>
  std::span<T> mutable_span() {
    assert(DTypeOf<T> == dtype_ && contiguous_);
    return {static_cast<T*>(mutable_data()), static_cast<size_t>(num_elements())};
  }
  // The first element, which must exist; the value of a scalar.
  template <class T>
  T item() const {
    assert(DTypeOf<T> == dtype_ && num_elements() > 0);
    T value;
    std::memcpy(&value, data_, sizeof(T));
    return value;
  }
  // The element at flat row-major position `i`, strides or not.
  const void* ElementAt(int64_t i) const;

  // What keeps the memory alive, null when it lies in this object: the Buffer, the viewed Tensor,
  // or View's owner.
  const RefCounted* owner() const { return owner_.get(); }
  // Rows of the step that it belongs to, over all that have a part; kNoStep for most tensors.
  static constexpr int64_t kNoStep = -1;
  int64_t step_rows() const { return step_rows_; }
  // Bytes of the memory that this tensor keeps alive, as far as known (0 when not); what a view
  // pins.
  size_t pinned_bytes() const;

  // ---- Views: the same memory, no copy. Read-only when this is. ----

  // Rows [begin, end) along axis 0; Row(i) is of one rank less. Indices must be valid: rank >= 1, 0
  // <= begin <= end <= dim(0).
  Ref<Tensor> Slice(int64_t begin, int64_t end) const;
  Ref<Tensor> Row(int64_t i) const;
  // Elements [begin, end) along `axis`. INVALID_ARGUMENT for a bad axis, OUT_OF_RANGE for bad
  // indices.
  Result<Ref<Tensor>> SliceAxis(size_t axis, int64_t begin, int64_t end) const;
  // A rectangular part: element i_k of the result is begin[k] + i_k * step[k] along axis k (steps
  // may be empty = 1).
  Result<Ref<Tensor>> SliceGeneral(std::span<const int64_t> begin, std::span<const int64_t> size,
                                   std::span<const int64_t> step = {}) const;
  // The same elements under another shape of as many (one dim may be -1). A tensor that is not
  // contiguous is copied.
  Result<Ref<Tensor>> Reshape(std::span<const int64_t> dims) const;
  // The same with a dim of 1 put in front.
  Ref<Tensor> ExpandFront() const;
  // The whole tensor as one of a step of `rows` rows, 0 or more; as one of no step, which most
  // tensors are themselves.
  Ref<Tensor> OfStep(int64_t rows) const;
  Ref<Tensor> OfNoStep() const;

  // ---- Copies ----

  // A contiguous copy in memory of its own; for bytes the payload is gathered into one block with
  // the views. One of a device is copied on that device, where `options` name it, too, and is
  // FAILED_PRECONDITION else.
  Result<Ref<Tensor>> Copy(const TensorOptions& options = TensorOptions()) const;
  // This tensor when it is contiguous, else a copy.
  Result<Ref<Tensor>> Contiguous() const;
  // This tensor, unless it keeps alive more than `ratio` times its own size: then a copy.
  Result<Ref<Tensor>> Unpinned(size_t ratio = 4) const;
  // Takes a reference and gives one that only the caller can see: the same tensor when nobody else
  // holds it or its memory and it is writable, else a contiguous copy. Of no step, either way.
  static Result<Ref<Tensor>> MakeMutable(Ref<Tensor> tensor);
  // Whether MakeMutable would give this very tensor to the holder of its one reference.
  bool IsExclusive() const;

  // ---- Comparing and printing ----

  // Same dtype, shape and elements (NaN equals NaN, -0 equals 0). Those of a device are copied to
  // the host for it; false when that fails.
  bool ContentsEqual(const Tensor& other) const;
  // "float32[2,3] [[1 2 3] [4 5 6]]": dtype, shape and elements; ContentsToString only the
  // elements, rows longer than `limit` shortened to "[0 1 2 ... 97 98 99]".
  std::string ToString(int64_t limit = 10) const;
  std::string ContentsToString(int64_t limit = 10) const;
  // "float32[2,3]".
  std::string SpecString() const;

  // Storage: the object, with room for inline elements behind it when asked.
  static void operator delete(void* memory) { ::operator delete(memory); }

 private:
  enum class Trailing : size_t {};
  static void* operator new(size_t object_bytes, Trailing trailing) {
    return ::operator new(object_bytes + static_cast<size_t>(trailing));
  }
  static void operator delete(void* memory, Trailing) { ::operator delete(memory); }

  Tensor(DType dtype, const Shape& shape, DeviceId device)
      : dtype_(dtype), device_(device), shape_(shape), strides_(shape.RowMajorStrides()) {}
  ~Tensor() override = default;

  enum class OwnerKind : uint8_t { kNone, kBuffer, kTensor, kOther };

  // A tensor with room for `bytes` of its own; one whose memory `owner` keeps alive.
  static Ref<Tensor> NewInline(DType dtype, const Shape& shape, DeviceId device, size_t bytes);
  static Ref<Tensor> NewView(DType dtype, const Shape& shape, DeviceId device, void* data,
                             Ref<const RefCounted> owner, OwnerKind owner_kind);
  // A view on this tensor's memory, row-major until its strides are set.
  Ref<Tensor> NewViewOfThis(const Shape& shape, void* data) const;
  // The same of all elements, strides included.
  Ref<Tensor> NewViewOfAll() const;
  void SetStrides(std::span<const int64_t> strides);
  void* Offset(int64_t elements) const {
    return static_cast<char*>(data_) + elements * static_cast<int64_t>(item_size());
  }

  const DType dtype_;
  const DeviceId device_;
  bool read_only_ = false;
  bool contiguous_ = true;
  bool inline_ = false;  // the elements lie behind this object; an owner keeps only payload alive
  OwnerKind owner_kind_ = OwnerKind::kNone;
  void* data_ = nullptr;
  Ref<const RefCounted> owner_;
  int64_t step_rows_ = kNoStep;
  Shape shape_;
  Dims strides_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_TENSOR_H_
