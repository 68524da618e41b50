// The structs of DLPack's ABI, version 1.x, declared from its published layout
// (https://dmlc.github.io/dlpack/latest/c_api.html). They carry the public names, because the C
// interface forward-declares them; do not include this file together with dlpack/dlpack.h.
#ifndef TUTTI_CORE_TENSOR_DLPACK_ABI_H_
#define TUTTI_CORE_TENSOR_DLPACK_ABI_H_

#include <cstdint>

extern "C" {

struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};

struct DLDevice {
  int32_t device_type;  // kDLCPU = 1
  int32_t device_id;
};

struct DLDataType {
  // int 0, uint 1, float 2, bfloat 4, complex 5, bool 6.
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; may be null before 1.2: row-major
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;  // bit 0: read-only, bit 1: copied
  DLTensor dl_tensor;
};

}  // extern "C"

#endif  // TUTTI_CORE_TENSOR_DLPACK_ABI_H_
