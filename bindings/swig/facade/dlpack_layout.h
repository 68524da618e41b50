// The layouts of DLPack's two structures, as dlpack.h has them: what a binding needs to free one.
// https://dmlc.github.io/dlpack/latest/c_api.html
#ifndef TUTTI_BINDINGS_SWIG_FACADE_DLPACK_LAYOUT_H_
#define TUTTI_BINDINGS_SWIG_FACADE_DLPACK_LAYOUT_H_

#include <cstdint>

struct TuttiDlTensor {
  void *data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  TuttiDlTensor tensor;
  void *manager_ctx;
  void (*deleter)(DLManagedTensor *);
};
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *manager_ctx;
  void (*deleter)(DLManagedTensorVersioned *);
  uint64_t flags;
  TuttiDlTensor tensor;
};

#endif  // TUTTI_BINDINGS_SWIG_FACADE_DLPACK_LAYOUT_H_
