// DLPack: an imported tensor holds a HostData whose end is the producer's deleter; an exported one
// is a manager struct that holds a reference and copies of shape and strides.
#include "core/tensor/dlpack.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/base/host_data.h"
#include "core/tensor/device_buffer.h"
#include "core/tensor/dlpack_abi.h"

namespace tutti {
namespace {

constexpr int32_t kDlpackCpu = 1;
constexpr int32_t kDlpackCuda = 2;
constexpr uint32_t kDlpackMajor = 1;
constexpr uint64_t kReadOnly = 1;
constexpr uint64_t kIsCopied = 2;

enum TypeCode : uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

// As array libraries call the devices of DLPack's numbers.
const char* DeviceName(int32_t type) {
  switch (type) {
    case 2: return "cuda";
    case 3: return "cuda_host";
    case 4: return "opencl";
    case 7: return "vulkan";
    case 8: return "metal";
    case 10: return "rocm";
    case 11: return "rocm_host";
    case 13: return "cuda_managed";
    case 14: return "oneapi";
    default: return "other";
  }
}

DType FromDlpackType(const DLDataType& type) {
  if (type.lanes != 1) return DType::kInvalid;
  const auto by_bits = [&](DType bits8, DType bits16, DType bits32, DType bits64) {
    switch (type.bits) {
      case 8: return bits8;
      case 16: return bits16;
      case 32: return bits32;
      case 64: return bits64;
      default: return DType::kInvalid;
    }
  };
  switch (type.code) {
    case kInt: return by_bits(DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64);
    case kUint: return by_bits(DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64);
    case kFloat:
      return by_bits(DType::kInvalid, DType::kFloat16, DType::kFloat32, DType::kFloat64);
    case kBfloat: return type.bits == 16 ? DType::kBfloat16 : DType::kInvalid;
    case kComplex:
      return type.bits == 64    ? DType::kComplex64
             : type.bits == 128 ? DType::kComplex128
                                : DType::kInvalid;
    case kBool: return type.bits == 8 ? DType::kBool : DType::kInvalid;
    default: return DType::kInvalid;
  }
}

DLDataType ToDlpackType(DType dtype) {
  uint8_t code = kInt;
  if (IsUnsignedInteger(dtype)) code = kUint;
  if (IsFloating(dtype)) code = kFloat;
  if (IsComplex(dtype)) code = kComplex;
  if (dtype == DType::kBfloat16) code = kBfloat;
  if (dtype == DType::kBool) code = kBool;
  return {code, static_cast<uint8_t>(8 * ItemSize(dtype)), 1};
}

// What the DLTensor says, checked. The deleter has not become ours yet.
struct Described {
  DType dtype = DType::kInvalid;
  Shape shape;
  Dims strides;
  char* first = nullptr;  // element 0, 0, ...
  int64_t low = 0;        // the lowest element, counted from there
  size_t bytes = 0;       // from the lowest element to the end of the highest
};

Result<Described> Describe(const DLTensor& tensor, bool takes_gpus) {
  if (tensor.device.device_type != kDlpackCpu &&
      !(takes_gpus && tensor.device.device_type == kDlpackCuda)) {
    return Unimplemented(
        "DLPack: the tensor is on device {}:{} (DLPack's type {}); memory of the CPU is taken, and "
        "of the GPUs of a runtime; copy it there first",
        DeviceName(tensor.device.device_type), tensor.device.device_id,
        tensor.device.device_type);
  }
  Described described;
  described.dtype = FromDlpackType(tensor.dtype);
  if (described.dtype == DType::kInvalid) {
    return InvalidArgument(
        "DLPack: no dtype is of type code {}, {} bits and {} lanes; bool, int, uint, float, bfloat "
        "and complex of one lane and their usual sizes are",
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
  }
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    return InvalidArgument("DLPack: {} dimensions, and the shape is {}", tensor.ndim,
                           tensor.shape == nullptr ? "NULL" : "there");
  }
  const auto rank = static_cast<size_t>(tensor.ndim);
  TUTTI_ASSIGN_OR_RETURN(described.shape, Shape::Create(tensor.shape, rank));
  const bool empty = described.shape.num_elements() == 0;
  described.strides = tensor.strides != nullptr && !empty ? Dims(tensor.strides, rank)
                                                          : described.shape.RowMajorStrides();
  __int128 low = 0;
  __int128 high = 0;
  for (size_t axis = 0; axis < rank && !empty; ++axis) {
    const __int128 reach = __int128{described.strides[axis]} * (described.shape.dim(axis) - 1);
    (reach < 0 ? low : high) += reach;
  }
  const auto item = static_cast<__int128>(ItemSize(described.dtype));
  const __int128 bytes = empty ? 0 : (high - low + 1) * item;
  if (bytes > PTRDIFF_MAX) {
    return InvalidArgument("DLPack: the strides reach beyond the address space");
  }
  if (tensor.data == nullptr && !empty) {
    return InvalidArgument("DLPack: the data of {}{} is NULL", DTypeName(described.dtype),
                           described.shape.ToString());
  }
  described.low = static_cast<int64_t>(low);
  described.bytes = static_cast<size_t>(bytes);
  described.first =
      tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  return described;
}

template <class Managed>
void RunDeleter(void* managed) {
  auto* self = static_cast<Managed*>(managed);
  if (self->deleter != nullptr) self->deleter(self);
}

template <class Managed>
Result<Ref<Tensor>> Import(Managed* managed, bool read_only, CallbackExecutor* executor,
                           const GpuImport& on_gpu) {
  const DLDevice device = managed->dl_tensor.device;
  TUTTI_ASSIGN_OR_RETURN(const Described described,
                         Describe(managed->dl_tensor, static_cast<bool>(on_gpu)));
  const auto item = static_cast<int64_t>(ItemSize(described.dtype));
  char* block = described.first == nullptr ? nullptr : described.first + described.low * item;
  // Wrap without a keeper first: what can fail fails before the deleter is ours.
  const auto wrap = [&](Ref<const RefCounted> keeper) {
    if (device.device_type == kDlpackCuda) {
      return on_gpu(device.device_id, block, described.bytes, described.dtype, described.shape,
                    described.strides.span(), read_only, std::move(keeper));
    }
    return Tensor::Wrap(block, described.bytes, described.dtype, described.shape,
                        described.strides.span(), read_only, std::move(keeper));
  };
  TUTTI_RETURN_IF_ERROR(wrap(nullptr).status());
  return wrap(MakeRef<HostData>(managed, RunDeleter<Managed>,
                                Ref<CallbackExecutor>::Retain(executor)));
}

// An exported tensor: the struct that the receiver sees, and what it points to.
template <class Managed>
struct Export {
  Managed managed = {};
  Ref<const Tensor> tensor;
  Dims shape;
  Dims strides;

  static void Delete(Managed* self) { delete static_cast<Export*>(self->manager_ctx); }
};

template <class Managed>
Result<Export<Managed>*> MakeExport(const Tensor& tensor, bool copy, int64_t stream) {
  if (tensor.dtype() == DType::kBytes) {
    return InvalidArgument("DLPack: {} has no form there; it carries numbers and bool",
                           tensor.SpecString());
  }
  Ref<const Tensor> held = Ref<const Tensor>::Retain(&tensor);
  if (copy) {
    TensorOptions options;
    if (!tensor.device().is_cpu()) options.device = tensor.device();
    TUTTI_ASSIGN_OR_RETURN(held, tensor.Copy(options));
  }
  DLDevice device = {kDlpackCpu, 0};
  if (!tensor.device().is_cpu()) {
    const DeviceBuffer* const buffer = DeviceBufferOf(*held);
    if (buffer == nullptr) return CheckOnHost("DLPack", tensor);
    device = {kDlpackCuda, buffer->ordinal()};
    if (stream != kNoStream) TUTTI_RETURN_IF_ERROR(buffer->OrderFor(stream));
  }
  auto exported = std::make_unique<Export<Managed>>();
  exported->shape = Dims(held->shape().dims().data(), held->rank());
  exported->strides = Dims(held->strides().data(), held->rank());
  DLTensor& out = exported->managed.dl_tensor;
  out.data = held->address();
  out.device = device;
  out.ndim = static_cast<int32_t>(held->rank());
  out.dtype = ToDlpackType(held->dtype());
  out.shape = exported->shape.data();
  out.strides = exported->strides.data();
  out.byte_offset = 0;
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = &Export<Managed>::Delete;
  exported->tensor = std::move(held);
  return exported.release();
}

}  // namespace

Result<Ref<Tensor>> TensorFromDlpack(DLManagedTensorVersioned* managed,
                                     CallbackExecutor* executor, const GpuImport& on_gpu) {
  if (managed->version.major != kDlpackMajor) {
    return Unimplemented("DLPack: the tensor is of version {}.{}; versions {}.x are understood",
                         managed->version.major, managed->version.minor, kDlpackMajor);
  }
  return Import(managed, (managed->flags & kReadOnly) != 0, executor, on_gpu);
}

Result<Ref<Tensor>> TensorFromDlpack(DLManagedTensor* managed, CallbackExecutor* executor,
                                     const GpuImport& on_gpu) {
  return Import(managed, false, executor, on_gpu);
}

Result<DLManagedTensorVersioned*> TensorToDlpack(const Tensor& tensor, bool copy, int64_t stream) {
  TUTTI_ASSIGN_OR_RETURN(auto* exported,
                         MakeExport<DLManagedTensorVersioned>(tensor, copy, stream));
  exported->managed.version = {kDlpackMajor, 0};
  exported->managed.flags = copy ? kIsCopied : tensor.read_only() ? kReadOnly : 0;
  return &exported->managed;
}

Result<DLManagedTensor*> TensorToDlpackUnversioned(const Tensor& tensor, bool copy,
                                                   int64_t stream) {
  if (tensor.read_only() && !copy) {
    return FailedPrecondition(
        "DLPack: {} is read-only, which the format before 1.0 cannot say; ask for a copy",
        tensor.SpecString());
  }
  TUTTI_ASSIGN_OR_RETURN(auto* exported, MakeExport<DLManagedTensor>(tensor, copy, stream));
  return &exported->managed;
}

}  // namespace tutti
