// Tensors: making, reading, views and copies. DLPack stands in dlpack.cc.
#include "core/tensor/tensor.h"

#include <tutti/tensor.h>

#include <cstring>
#include <utility>
#include <vector>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/hook.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "capi/src/tensor_arguments.h"
#include "core/base/error.h"
#include "core/dataset/example/tensor_proto.h"
#include "core/device/gpu_memory.h"
#include "core/tensor/as_string.h"
#include "core/tensor/cast.h"
#include "core/tensor/convert.h"
#include "core/tensor/copy.h"
#include "core/tensor/device_buffer.h"
#include "core/tensor/join_strings.h"

using namespace tutti;
using namespace tutti::capi;

static_assert(sizeof(BytesView) == sizeof(tutti_string_view));

namespace {

// The device that an option names; none is the host.
Result<Ref<Device>> ReadDevice(const Runtime &root, const char *name) {
  if (name == nullptr || name[0] == '\0') return MakeRef<Device>(DeviceId(), nullptr);
  return root.devices().Find(name);
}

// Null where memory is not to be pinned.
Result<Ref<BufferAllocator>> ReadPinned(Call call, const Runtime &root, tutti_tristate given,
                                        DeviceId device) {
  TUTTI_ASSIGN_OR_RETURN(const bool pinned, ReadTristate(call, given, false, "pinned"));
  if (!pinned) return Ref<BufferAllocator>();
  if (device.is_cpu()) return root.devices().Pinned();
  return InvalidArgument("{}: memory of {} cannot be pinned, which is said of the host's; leave "
                         "one of the two out",
                         call.function, device.ToString());
}

Result<Ref<Tensor>> CopyWhereItIs(const Tensor &tensor) {
  TensorOptions options;
  if (!tensor.device().is_cpu()) options.device = tensor.device();
  return tensor.Copy(options);
}

}  // namespace

size_t tutti_dtype_get_size(tutti_dtype dtype) { return ItemSize(static_cast<DType>(dtype)); }

const char *tutti_dtype_get_name(tutti_dtype dtype) {
  return DTypeName(static_cast<DType>(dtype)).data();
}

tutti_status *tutti_tensor_create(tutti_runtime *runtime, tutti_dtype dtype, size_t rank,
                                  const int64_t *dims, const tutti_tensor_options *options,
                                  tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const DType known_dtype, ReadDType(call, dtype));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, ReadShape(call, rank, dims));
    TensorOptions tensor_options;
    TUTTI_ASSIGN_OR_RETURN(tensor_options.zeroed, ReadTristate(call, set.zeroed, true, "zeroed"));
    tensor_options.account = &root->memory();
    TUTTI_ASSIGN_OR_RETURN(const Ref<Device> device, ReadDevice(*root, set.device));
    TUTTI_ASSIGN_OR_RETURN(const Ref<BufferAllocator> pinned,
                           ReadPinned(call, *root, set.pinned, device->id()));
    if (GpuMemory *const gpu = GpuMemoryOf(*device)) {
      TUTTI_ASSIGN_OR_RETURN(auto made, gpu->Create(known_dtype, shape, tensor_options.zeroed));
      *out_tensor = Give(std::move(made));
      return OkStatus();
    }
    tensor_options.device = device->id();
    tensor_options.allocator = pinned.get();
    TUTTI_ASSIGN_OR_RETURN(auto tensor, Tensor::Create(known_dtype, shape, tensor_options));
    *out_tensor = Give(std::move(tensor));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_create_from_data(tutti_runtime *runtime, tutti_dtype dtype, size_t rank,
                                            const int64_t *dims, const void *data, size_t byte_size,
                                            tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_tensor);
    TUTTI_REQUIRE_ARRAY(call, byte_size, data);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const DType known_dtype, ReadDType(call, dtype));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, ReadShape(call, rank, dims));
    const size_t item = ItemSize(known_dtype);
    if (known_dtype == DType::kBytes || byte_size % item != 0 ||
        byte_size / item != static_cast<size_t>(shape.num_elements())) {
      return Tensor::FromData(known_dtype, shape, data, byte_size).status();  // says what is wrong
    }
    TensorOptions tensor_options;
    tensor_options.zeroed = false;
    tensor_options.account = &root->memory();
    TUTTI_ASSIGN_OR_RETURN(auto tensor, Tensor::Create(known_dtype, shape, tensor_options));
    if (byte_size > 0) std::memcpy(tensor->mutable_data(), data, byte_size);
    *out_tensor = Give(std::move(tensor));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_create_from_strings(tutti_runtime *runtime, size_t rank,
                                               const int64_t *dims, size_t count,
                                               const tutti_string_view *strings,
                                               tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_tensor);
    TUTTI_REQUIRE_ARRAY(call, count, strings);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, ReadShape(call, rank, dims));
    if (static_cast<uint64_t>(shape.num_elements()) != count) {
      return InvalidArgument("{}: {} strings for the shape {} of {} elements", call.function, count,
                             shape.ToString(), shape.num_elements());
    }
    const std::span<const BytesView> views(reinterpret_cast<const BytesView *>(strings), count);
    for (size_t i = 0; i < count; ++i) {
      if (views[i].data != nullptr || views[i].size == 0) continue;
      return InvalidArgument("{}: strings[{}] has {} bytes and a null pointer to them; expected "
                             "a pointer, or the size 0",
                             call.function, i, views[i].size);
    }
    TUTTI_ASSIGN_OR_RETURN(auto tensor, Tensor::FromStrings(shape, views, &root->memory()));
    *out_tensor = Give(std::move(tensor));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_wrap(tutti_runtime *runtime, void *data, size_t byte_size,
                                tutti_dtype dtype, size_t rank, const int64_t *dims,
                                tutti_release_hook hook, const tutti_tensor_wrap_options *options,
                                tutti_tensor **out_tensor) {
  Hook owner(hook.release, hook.user_data);
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    Ref<HostData> keeper = owner.Take(&root->callback_executor());
    TUTTI_REQUIRE(call, out_tensor);
    TUTTI_REQUIRE_ARRAY(call, byte_size, data);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const DType known_dtype, ReadDType(call, dtype));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, ReadShape(call, rank, dims));
    TUTTI_ASSIGN_OR_RETURN(const bool read_only,
                           ReadTristate(call, set.read_only, false, "read_only"));
    std::span<const int64_t> strides;
    if (set.strides != nullptr) strides = {set.strides, rank};
    TUTTI_ASSIGN_OR_RETURN(const Ref<Device> device, ReadDevice(*root, set.device));
    if (GpuMemory *const gpu = GpuMemoryOf(*device)) {
      TUTTI_ASSIGN_OR_RETURN(auto wrapped, gpu->Wrap(data, byte_size, known_dtype, shape, strides,
                                                     read_only, std::move(keeper)));
      *out_tensor = Give(std::move(wrapped));
      return OkStatus();
    }
    TUTTI_ASSIGN_OR_RETURN(auto tensor, Tensor::Wrap(data, byte_size, known_dtype, shape, strides,
                                                     read_only, std::move(keeper)));
    *out_tensor = Give(std::move(tensor));
    return OkStatus();
  });
}

tutti_dtype tutti_tensor_get_dtype(const tutti_tensor *tensor) {
  return tensor == nullptr ? TUTTI_DTYPE_INVALID
                           : static_cast<tutti_dtype>(FromHandle(tensor)->dtype());
}

size_t tutti_tensor_get_rank(const tutti_tensor *tensor) {
  return tensor == nullptr ? 0 : FromHandle(tensor)->rank();
}

const int64_t *tutti_tensor_get_dims(const tutti_tensor *tensor) {
  if (tutti_tensor_get_rank(tensor) == 0) return nullptr;
  return FromHandle(tensor)->shape().dims().data();
}

const int64_t *tutti_tensor_get_strides(const tutti_tensor *tensor) {
  if (tutti_tensor_get_rank(tensor) == 0) return nullptr;
  return FromHandle(tensor)->strides().data();
}

int64_t tutti_tensor_get_element_count(const tutti_tensor *tensor) {
  return tensor == nullptr ? 0 : FromHandle(tensor)->num_elements();
}

size_t tutti_tensor_get_byte_size(const tutti_tensor *tensor) {
  return tensor == nullptr ? 0 : FromHandle(tensor)->byte_size();
}

const void *tutti_tensor_get_data(const tutti_tensor *tensor) {
  return tensor == nullptr || !FromHandle(tensor)->device().is_cpu() ? nullptr
                                                                      : FromHandle(tensor)->data();
}

int64_t tutti_tensor_get_address(const tutti_tensor *tensor) {
  return tensor == nullptr ? 0 : reinterpret_cast<intptr_t>(FromHandle(tensor)->address());
}

int64_t tutti_tensor_get_cuda_device(const tutti_tensor *tensor) {
  const DeviceBuffer *const buffer =
      tensor == nullptr ? nullptr : DeviceBufferOf(*FromHandle(tensor));
  return buffer == nullptr ? -1 : buffer->ordinal();
}

tutti_status *tutti_tensor_get_mutable_data(tutti_tensor *tensor, void **out_data) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, tensor, out_data);
    if (FromHandle(tensor)->read_only()) {
      return FailedPrecondition(
          "{}: the tensor {} is read-only; tutti_tensor_make_mutable gives one "
          "that may be written",
          call.function, FromHandle(tensor)->SpecString());
    }
    *out_data = FromHandle(tensor)->mutable_data();
    return OkStatus();
  });
}

int32_t tutti_tensor_is_contiguous(const tutti_tensor *tensor) {
  return tensor != nullptr && FromHandle(tensor)->is_contiguous();
}

int32_t tutti_tensor_is_read_only(const tutti_tensor *tensor) {
  return tensor != nullptr && FromHandle(tensor)->read_only();
}

tutti_status *tutti_tensor_slice(const tutti_tensor *tensor, size_t axis, int64_t start,
                                 int64_t stop, tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, tensor, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(auto slice, FromHandle(tensor)->SliceAxis(axis, start, stop));
    *out_tensor = Give(std::move(slice));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_as_read_only(const tutti_tensor *tensor, tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, tensor, out_tensor);
    const Tensor &object = *FromHandle(tensor);
    auto shared = Ref<const Tensor>::Retain(&object);
    if (!object.read_only()) {
      shared = Tensor::View(object.address(), object.dtype(), object.shape(),
                            object.is_contiguous() ? std::span<const int64_t>() : object.strides(),
                            /*read_only=*/true, Ref<const RefCounted>(shared), object.device());
      // It is still a part of the same step.
      if (object.step_rows() != Tensor::kNoStep) shared = shared->OfStep(object.step_rows());
    }
    *out_tensor = Give(std::move(shared));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_reshape(const tutti_tensor *tensor, size_t rank, const int64_t *dims,
                                   tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, tensor, out_tensor);
    TUTTI_REQUIRE_ARRAY(call, rank, dims);
    TUTTI_ASSIGN_OR_RETURN(auto reshaped, FromHandle(tensor)->Reshape({dims, rank}));
    *out_tensor = Give(std::move(reshaped));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_cast(const tutti_tensor *tensor, tutti_dtype dtype,
                                tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, tensor, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(const DType known_dtype, ReadDType(call, dtype));
    TUTTI_ASSIGN_OR_RETURN(auto cast, Cast(*FromHandle(tensor), known_dtype));
    *out_tensor = Give(std::move(cast));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_convert(const tutti_tensor *tensor, tutti_dtype dtype,
                                   tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, tensor, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(const DType known_dtype, ReadDType(call, dtype));
    auto given = Ref<Tensor>::Retain(const_cast<Tensor *>(FromHandle(tensor)));
    TUTTI_ASSIGN_OR_RETURN(auto converted, Convert(std::move(given), known_dtype));
    *out_tensor = Give(std::move(converted));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_join_strings(size_t count, const tutti_tensor *const *tensors,
                                        const char *separator, tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_tensor);
    TUTTI_REQUIRE_ARRAY(call, count, tensors);
    std::vector<const Tensor *> inputs;
    for (size_t i = 0; i < count; ++i) {
      if (tensors[i] == nullptr) {
        return NullArgument(call.function, "tensors", 0).With("index", i);
      }
      inputs.push_back(FromHandle(tensors[i]));
    }
    TUTTI_ASSIGN_OR_RETURN(auto joined, JoinStrings(inputs, separator == nullptr ? "" : separator));
    *out_tensor = Give(std::move(joined));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_as_string(const tutti_tensor *tensor,
                                     const tutti_tensor_as_string_options *options,
                                     tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, tensor, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    AsStringOptions read;
    TUTTI_ASSIGN_OR_RETURN(read.scientific,
                           ReadTristate(call, set.scientific, false, "scientific"));
    TUTTI_ASSIGN_OR_RETURN(read.shortest, ReadTristate(call, set.shortest, false, "shortest"));
    if (set.precision.present != 0) read.precision = set.precision.value;
    if (set.width.present != 0) read.width = set.width.value;
    if (set.fill != nullptr) read.fill = set.fill;
    TUTTI_ASSIGN_OR_RETURN(auto texts, AsString(*FromHandle(tensor), read));
    *out_tensor = Give(std::move(texts));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_serialize(const tutti_tensor *tensor, tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, tensor, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(auto bytes, SerializeTensor(*FromHandle(tensor)));
    *out_tensor = Give(std::move(bytes));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_parse(const tutti_tensor *tensor, tutti_dtype dtype,
                                 tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, tensor, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(const DType known_dtype, ReadDType(call, dtype));
    TUTTI_ASSIGN_OR_RETURN(auto parsed, ParseTensor(*FromHandle(tensor), known_dtype));
    *out_tensor = Give(std::move(parsed));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_copy(const tutti_tensor *tensor, tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, tensor, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(auto copy, CopyWhereItIs(*FromHandle(tensor)));
    *out_tensor = Give(std::move(copy));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_copy_into(const tutti_tensor *source, tutti_tensor *destination) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, source, destination);
    return CopyAnywhere(*FromHandle(source), FromHandle(destination));
  });
}

tutti_status *tutti_tensor_copy_to(tutti_runtime *runtime, const tutti_tensor *tensor,
                                   const char *device, const tutti_tensor_copy_options *options,
                                   const tutti_call_options *call_options,
                                   tutti_tensor **out_tensor) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, tensor, device, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const CallOptions waited, ReadCall(call, *root, call_options));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Device> target, root->devices().Find(device));
    TUTTI_ASSIGN_OR_RETURN(const Ref<BufferAllocator> pinned,
                           ReadPinned(call, *root, set.pinned, target->id()));
    const Tensor &source = *FromHandle(tensor);
    const GpuWait wait{&waited, &root->clock()};
    TensorOptions on_host;
    on_host.account = &root->memory();
    on_host.allocator = pinned.get();
    on_host.device = target->id();
    Ref<Tensor> copy;
    if (GpuMemory *const gpu = GpuMemoryOf(*target)) {
      TUTTI_ASSIGN_OR_RETURN(
          copy, CopyToGpu(source, *gpu, Ref<GpuStream>::Retain(FromHandle(set.stream)), wait));
    } else if (!source.device().is_cpu()) {
      TUTTI_ASSIGN_OR_RETURN(copy, CopyToCpu(source, on_host, FromHandle(set.stream), wait));
    } else if (set.stream != nullptr) {
      return InvalidArgument("{}: the stream is one of {}, and the copy goes from {} to {}; leave "
                             "the stream out",
                             call.function, FromHandle(set.stream)->device_name(),
                             source.device().ToString(), target->short_name());
    } else {
      TUTTI_ASSIGN_OR_RETURN(copy, source.Copy(on_host));
    }
    *out_tensor = Give(std::move(copy));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_make_mutable(tutti_tensor **tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, tensor);
    TUTTI_REQUIRE_ANYWHERE(call, *tensor);
    if (FromHandle(*tensor)->IsExclusive()) return OkStatus();
    TUTTI_ASSIGN_OR_RETURN(auto copy, CopyWhereItIs(*FromHandle(*tensor)));
    ReleaseHandle(*tensor);
    *tensor = Give(std::move(copy));
    return OkStatus();
  });
}

int32_t tutti_tensor_equal(const tutti_tensor *left, const tutti_tensor *right) {
  if (left == nullptr || right == nullptr) return left == right;
  return FromHandle(left)->ContentsEqual(*FromHandle(right));
}

tutti_status *tutti_tensor_to_string(const tutti_tensor *tensor, tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, tensor, out_text);
    *out_text = GiveBytes(FromHandle(tensor)->ToString());
    return OkStatus();
  });
}

void tutti_tensor_retain(const tutti_tensor *tensor) { RetainHandle(tensor); }
void tutti_tensor_release(const tutti_tensor *tensor) { ReleaseHandle(tensor); }
