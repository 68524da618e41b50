// Tensors and the memory below them for Go: made from bytes, laid over foreign memory, exchanged as
// DLPack. An address crosses as a machine word.
#ifndef TUTTI_BINDINGS_SWIG_GO_MEMORY_H_
#define TUTTI_BINDINGS_SWIG_GO_MEMORY_H_

#include "../facade/dlpack_layout.h"

namespace tutti_go {

inline const char *dtype_name(int32_t dtype) { return tutti_dtype_get_name(dtype); }
inline int64_t dtype_size(int32_t dtype) {
  return static_cast<int64_t>(tutti_dtype_get_size(dtype));
}

// Where host code reads the elements; 0 for a tensor on a GPU.
inline uintptr_t tensor_data(const tutti_tensor *tensor) {
  return reinterpret_cast<uintptr_t>(tutti_tensor_get_data(tensor));
}
// The address for writing; refuses a tensor that is read-only.
inline tutti_status *tensor_mutable_address(tutti_tensor *tensor, uintptr_t *out_address) {
  void *data = nullptr;
  tutti_status *status = tutti_tensor_get_mutable_data(tensor, &data);
  *out_address = reinterpret_cast<uintptr_t>(data);
  return status;
}
inline tutti_status *tensor_from_bytes(tutti_runtime *runtime, int32_t dtype, size_t rank,
                                       const int64_t *dims, const void *bytes, size_t size,
                                       tutti_tensor **out_tensor) {
  return tutti_tensor_create_from_data(runtime, dtype, rank, dims, bytes, size, out_tensor);
}
// The strings stand one behind the other in `bytes`; string i is `ends[i] - ends[i - 1]` bytes.
inline tutti_status *tensor_from_strings(tutti_runtime *runtime, size_t rank, const int64_t *dims,
                                         size_t end_count, const int64_t *ends, const void *bytes,
                                         size_t size, tutti_tensor **out_tensor) {
  std::vector<tutti_string_view> strings(end_count);
  int64_t start = 0;
  for (size_t i = 0; i < end_count; ++i) {
    strings[i] = {static_cast<const char *>(bytes) + start, static_cast<size_t>(ends[i] - start)};
    start = ends[i];
  }
  if (static_cast<size_t>(start) > size) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT, "strings: the ends lie past the bytes");
  }
  return tutti_tensor_create_from_strings(runtime, rank, dims, end_count, strings.data(),
                                          out_tensor);
}
inline tutti_status *tensor_copy_into(const tutti_tensor *source, tutti_tensor *mutable_tensor) {
  return tutti_tensor_copy_into(source, mutable_tensor);
}

// ---- memory of somebody else

inline void ReleaseWrapped(void *handle) {
  tuttiGoNotify(reinterpret_cast<uintptr_t>(handle));
  tuttiGoRelease(reinterpret_cast<uintptr_t>(handle));
}

// Takes over `release`, the handle of a function that is told when nobody uses the memory any more;
// 0 for none. No strides: row-major without gaps.
inline tutti_status *tensor_wrap(tutti_runtime *runtime, uintptr_t address, int64_t byte_size,
                                 int32_t dtype, size_t rank, const int64_t *dims,
                                 size_t stride_count, const int64_t *strides, bool read_only,
                                 const char *device, uintptr_t release,
                                 tutti_tensor **out_tensor) {
  tutti_release_hook hook = {nullptr, nullptr};
  if (release != 0) hook = {&ReleaseWrapped, reinterpret_cast<void *>(release)};
  tutti_tensor_wrap_options options = TUTTI_TENSOR_WRAP_OPTIONS_INIT;
  options.strides = stride_count == 0 ? nullptr : strides;
  options.read_only = read_only ? TUTTI_TRUE : TUTTI_FALSE;
  options.device = device;
  return tutti_tensor_wrap(runtime, reinterpret_cast<void *>(address),
                           static_cast<size_t>(byte_size), dtype, rank, dims, hook, &options,
                           out_tensor);
}

// ---- DLPack

inline tutti_status *tensor_to_dlpack(const tutti_tensor *tensor, bool versioned, bool copy,
                                      tutti_optional_int64 stream, uintptr_t *out_address) {
  tutti_dlpack_options options = TUTTI_DLPACK_OPTIONS_INIT;
  options.stream = stream;
  options.copy = copy ? TUTTI_TRUE : TUTTI_FALSE;
  tutti_status *status = nullptr;
  if (versioned) {
    DLManagedTensorVersioned *managed = nullptr;
    status = tutti_tensor_to_dlpack(tensor, &options, &managed);
    *out_address = reinterpret_cast<uintptr_t>(managed);
  } else {
    DLManagedTensor *managed = nullptr;
    status = tutti_tensor_to_dlpack_unversioned(tensor, &options, &managed);
    *out_address = reinterpret_cast<uintptr_t>(managed);
  }
  return status;
}
inline tutti_status *tensor_from_dlpack(tutti_runtime *runtime, bool versioned, uintptr_t managed,
                                        tutti_tensor **out_tensor) {
  return versioned ? tutti_tensor_from_dlpack(
                         runtime, reinterpret_cast<DLManagedTensorVersioned *>(managed), out_tensor)
                   : tutti_tensor_from_dlpack_unversioned(
                         runtime, reinterpret_cast<DLManagedTensor *>(managed), out_tensor);
}
inline void dlpack_delete(bool versioned, uintptr_t managed) {
  if (versioned) {
    auto *tensor = reinterpret_cast<DLManagedTensorVersioned *>(managed);
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  } else {
    auto *tensor = reinterpret_cast<DLManagedTensor *>(managed);
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  }
}

}  // namespace tutti_go

#endif  // TUTTI_BINDINGS_SWIG_GO_MEMORY_H_
