/* Tensors: dense arrays in memory that the library or the caller owns.
 *
 * A tensor's elements lie at data + sum(index[i] * strides[i]) * element size; strides count
 * elements. Tensors that were reached through a value are shared: read them, or take a copy with
 * tutti_tensor_make_mutable.
 *
 * The elements of a tensor on a GPU lie where only work of that device's streams may touch them
 * (<tutti/stream.h>). It can be viewed, copied (tutti_tensor_copy_to), exchanged and be a part of
 * values; a function that needs the elements in the host's memory is FAILED_PRECONDITION, and names
 * the tensor and its device. Its memory goes back in the order of the work on the stream on which
 * it was made. */
#ifndef TUTTI_TENSOR_H_
#define TUTTI_TENSOR_H_

#include <tutti/abi.h>

TUTTI_BEGIN_DECLS

typedef int32_t tutti_dtype;
enum {
  TUTTI_DTYPE_INVALID = 0,
  TUTTI_DTYPE_BOOL = 1,
  TUTTI_DTYPE_INT8 = 2,
  TUTTI_DTYPE_INT16 = 3,
  TUTTI_DTYPE_INT32 = 4,
  TUTTI_DTYPE_INT64 = 5,
  TUTTI_DTYPE_UINT8 = 6,
  TUTTI_DTYPE_UINT16 = 7,
  TUTTI_DTYPE_UINT32 = 8,
  TUTTI_DTYPE_UINT64 = 9,
  TUTTI_DTYPE_FLOAT16 = 10,
  TUTTI_DTYPE_BFLOAT16 = 11,
  TUTTI_DTYPE_FLOAT32 = 12,
  TUTTI_DTYPE_FLOAT64 = 13,
  TUTTI_DTYPE_COMPLEX64 = 14,
  TUTTI_DTYPE_COMPLEX128 = 15,
  TUTTI_DTYPE_BYTES = 16 /* elements are tutti_string_view */
};

/* Called exactly once when the last user of wrapped memory is gone, on the runtime's callback
 * thread, after shutdown on the releasing thread. A notification. Frozen. */
typedef struct tutti_release_hook {
  tutti_destroy_fn release; /* NULL: nothing to do */
  void *user_data;
} tutti_release_hook;

typedef struct tutti_tensor_options {
  size_t struct_size;
  tutti_tristate zeroed; /* default true */
  const char *device;    /* "GPU:0"; NULL, "" and any CPU: host memory */
  tutti_tristate pinned; /* host memory that GPUs copy from and to without staging; default false */
} tutti_tensor_options;
#define TUTTI_TENSOR_OPTIONS_INIT \
  { sizeof(tutti_tensor_options), 0, NULL, 0 }

typedef struct tutti_tensor_wrap_options {
  size_t struct_size;
  const int64_t
      *strides; /* in elements, `rank` of them, may be negative; NULL = row-major without gaps */
  tutti_tristate read_only; /* default false */
  const char *device; /* the GPU that the memory is of; NULL, "" and any CPU: it is the host's */
} tutti_tensor_wrap_options;
#define TUTTI_TENSOR_WRAP_OPTIONS_INIT \
  { sizeof(tutti_tensor_wrap_options), NULL, 0, NULL }

typedef struct tutti_tensor_copy_options {
  size_t struct_size;
  tutti_stream *stream;  /* that does it; NULL: the library's own of the GPU that takes part */
  tutti_tristate pinned; /* of a copy on the host: as in tutti_tensor_options */
} tutti_tensor_copy_options;
#define TUTTI_TENSOR_COPY_OPTIONS_INIT \
  { sizeof(tutti_tensor_copy_options), NULL, 0 }

/* Bytes per element; 16 for byte strings (a tutti_string_view), 0 for a number that is no dtype.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_dtype_get_size(tutti_dtype dtype);

/* "float32" and so on, "bytes" for byte strings, "invalid"; static.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_dtype_get_name(tutti_dtype dtype);

/* A tensor in 64-byte aligned memory of its own. `dims` has `rank` sizes, none negative. One of a
 * GPU is made on the stream tutti_device_get_stream; pinned memory is NOT_FOUND where there is no
 * GPU.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_create(tutti_runtime *runtime, tutti_dtype dtype, size_t rank,
                                            const int64_t *dims,
                                            const tutti_tensor_options *options,
                                            tutti_tensor **out_tensor);

/* A tensor with a copy of `byte_size` bytes in row-major order; the size must match dtype and dims.
 * Not for byte strings.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_create_from_data(tutti_runtime *runtime, tutti_dtype dtype,
                                                      size_t rank, const int64_t *dims,
                                                      const void *data, size_t byte_size,
                                                      tutti_tensor **out_tensor);

/* A tensor of byte strings, copied; `count` equals the product of `dims`.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_create_from_strings(tutti_runtime *runtime, size_t rank,
                                                         const int64_t *dims, size_t count,
                                                         const tutti_string_view *strings,
                                                         tutti_tensor **out_tensor);

/* A tensor over the caller's memory, without a copy. [data, data + byte_size) must hold every
 * element; it is checked. `hook` runs once when nobody uses the memory any more, and also when this
 * call fails.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_wrap(tutti_runtime *runtime, void *data, size_t byte_size,
                                          tutti_dtype dtype, size_t rank, const int64_t *dims,
                                          tutti_release_hook hook,
                                          const tutti_tensor_wrap_options *options,
                                          tutti_tensor **out_tensor);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_dtype tutti_tensor_get_dtype(const tutti_tensor *tensor);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_tensor_get_rank(const tutti_tensor *tensor);

/* `rank` sizes; NULL for rank 0.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const int64_t *tutti_tensor_get_dims(const tutti_tensor *tensor);

/* `rank` strides in elements; NULL for rank 0.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const int64_t *tutti_tensor_get_strides(const tutti_tensor *tensor);

/* The number of elements.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_tensor_get_element_count(const tutti_tensor *tensor);

/* Element count times element size.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_tensor_get_byte_size(const tutti_tensor *tensor);

/* The first element; NULL for a tensor on a GPU, whose elements the host cannot touch.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const void *tutti_tensor_get_data(const tutti_tensor *tensor);

/* Where the first element lies, on whichever device, as a number.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_tensor_get_address(const tutti_tensor *tensor);

/* What CUDA calls the device on which the tensor lies (0, 1, ...), also where the library numbers
 * its GPUs otherwise; -1 for a tensor in host memory.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_tensor_get_cuda_device(const tutti_tensor *tensor);

/* The first element, for writing. FAILED_PRECONDITION when the tensor is read-only, see
 * tutti_tensor_make_mutable, and for one on a GPU.
 * Context: any. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_get_mutable_data(tutti_tensor *tensor, void **out_data);

/* 1 when the elements lie in row-major order without gaps.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_tensor_is_contiguous(const tutti_tensor *tensor);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_tensor_is_read_only(const tutti_tensor *tensor);

/* Elements [start, stop) along `axis`, a view on the same memory. OUT_OF_RANGE unless 0 <= start <=
 * stop <= size.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_slice(const tutti_tensor *tensor, size_t axis, int64_t start,
                                           int64_t stop, tutti_tensor **out_tensor);

/* The same elements, a view that cannot be written: what may be given to code that must not change
 * the memory. The tensor itself when it is read-only.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_as_read_only(const tutti_tensor *tensor,
                                                  tutti_tensor **out_tensor);

/* The same elements under other dims (one may be -1, computed from the rest), a view; a tensor that
 * is not contiguous is copied first.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_reshape(const tutti_tensor *tensor, size_t rank,
                                             const int64_t *dims, tutti_tensor **out_tensor);

/* A contiguous copy converted to `dtype`, by the rules of C for numbers (float to integer truncates
 * and saturates, NaN becomes 0; complex to real drops the imaginary part); not to or from byte
 * strings.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_cast(const tutti_tensor *tensor, tutti_dtype dtype,
                                          tutti_tensor **out_tensor);

/* The elements in another dtype that holds them, as elements of datasets are converted to a
 * declared one: integers to integers that hold each of them, numbers to floats (rounded; none
 * becomes infinite), real numbers to complex ones, booleans to 0 and 1. Floats never become
 * integers, nothing becomes a boolean or a byte string: INVALID_ARGUMENT naming the first element
 * that does not fit (detail "row": its place on axis 0) and both dtypes. Without elements it is
 * always possible. The same tensor when it is of `dtype` already.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_convert(const tutti_tensor *tensor, tutti_dtype dtype,
                                             tutti_tensor **out_tensor);

/* Byte strings put together: those of one place, in the order of `tensors`, with `separator` (NULL:
 * nothing) between them. Scalars stand in every place, all other tensors must have the same dims,
 * which are the result's. INVALID_ARGUMENT without a tensor, for other dtypes, and for other dims.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_join_strings(size_t count,
                                                  const tutti_tensor *const *tensors,
                                                  const char *separator,
                                                  tutti_tensor **out_tensor);

typedef struct tutti_tensor_as_string_options {
  size_t struct_size;
  tutti_optional_int64 precision; /* of floats: digits behind the point; default 6; -1: not set */
  tutti_tristate scientific;      /* of floats: 1.5e+00; default false */
  tutti_tristate shortest;        /* of floats: the shorter of both, without zeros at its end */
  tutti_optional_int64 width;     /* characters at least; default and -1: as many as it takes */
  const char *fill;               /* with a width: what stands before a number; NULL, "" and " " are
                                     blanks, "0" zeros; "-" puts the blanks behind it, "+" says each
                                     number's sign */
} tutti_tensor_as_string_options;
#define TUTTI_TENSOR_AS_STRING_OPTIONS_INIT                                   \
  {                                                                           \
    sizeof(tutti_tensor_as_string_options), { 0, 0 }, 0, 0, { 0, 0 }, NULL    \
  }

/* The elements as byte strings, as C's printf writes them, in every locale alike: integers by %d,
 * floats by %f (scientific: %e, shortest: %g), booleans as true and false, complex numbers as
 * (1.500000,-2.500000); byte strings stay what they are. INVALID_ARGUMENT for scientific together
 * with shortest, for another fill, for a precision or width beyond 1000, and where what is for
 * floats is said of other numbers.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_as_string(const tutti_tensor *tensor,
                                               const tutti_tensor_as_string_options *options,
                                               tutti_tensor **out_tensor);

/* The tensor as one byte string, a scalar: TensorFlow's message TensorProto, with the same bytes
 * that tf.io.serialize_tensor gives.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_serialize(const tutti_tensor *tensor,
                                               tutti_tensor **out_tensor);

/* The tensor that a byte string, a scalar, is: what tutti_tensor_serialize gave, or TensorFlow.
 * INVALID_ARGUMENT for a tensor of another dtype than `dtype`, and for bytes that are none.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_parse(const tutti_tensor *tensor, tutti_dtype dtype,
                                           tutti_tensor **out_tensor);

/* A contiguous copy in memory of its own, on the same device.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_copy(const tutti_tensor *tensor, tutti_tensor **out_tensor);

/* A contiguous copy on `device` ("GPU:0", "CPU:0"), from wherever the tensor lies. A copy that host
 * memory takes part in is done when the call returns; one between GPUs is done in the order of
 * `stream`, or of the stream tutti_device_get_stream of the GPU that it goes to, and other work of
 * the library waits for it. INVALID_ARGUMENT for byte strings, which stay on the host, and for a
 * stream of another device; RESOURCE_EXHAUSTED says what was asked for and what is free.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_copy_to(tutti_runtime *runtime, const tutti_tensor *tensor,
                                             const char *device,
                                             const tutti_tensor_copy_options *options,
                                             const tutti_call_options *call,
                                             tutti_tensor **out_tensor);

/* Copies the elements of `source` into `destination`, wherever both lie: same dtype and dims. Not
 * for byte strings.
 * Context: building. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_copy_into(const tutti_tensor *source,
                                               tutti_tensor *destination);

/* Replaces *tensor by one that only the caller can see: itself when nobody else holds it or its
 * memory and it is writable, else a copy. Takes the reference that *tensor was.
 * Context: building. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_make_mutable(tutti_tensor **tensor);

/* 1 when dtype, dims and every element are equal (NaN equals NaN, -0 equals 0). Those of a GPU are
 * copied to the host for it; 0 when that fails.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_tensor_equal(const tutti_tensor *left, const tutti_tensor *right);

/* For people: "int64[3] [0 1 2]", shortened when long.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_to_string(const tutti_tensor *tensor, tutti_bytes **out_text);

/* DLPack, the exchange format of array libraries (https://dmlc.github.io/dlpack); include dlpack.h
 * for the structs. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

typedef struct tutti_dlpack_options {
  size_t struct_size;
  tutti_tristate
      copy; /* default false; true makes a fresh copy and sets DLPACK_FLAG_BITMASK_IS_COPIED */
  tutti_optional_int64
      stream; /* of a tensor on a GPU: the receiver's stream, which waits for the library's work on
                 the tensor; 1 (also when absent) is the default stream, 2 that of the calling
                 thread, else a handle; -1: nobody waits; 0 is INVALID_ARGUMENT */
} tutti_dlpack_options;
#define TUTTI_DLPACK_OPTIONS_INIT              \
  {                                            \
    sizeof(tutti_dlpack_options), 0, { 0, 0 }  \
  }

/* Exports the tensor as DLPack 1.0; the receiver calls its deleter. A read-only tensor sets
 * DLPACK_FLAG_BITMASK_READ_ONLY. Byte strings are INVALID_ARGUMENT.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_to_dlpack(const tutti_tensor *tensor,
                                               const tutti_dlpack_options *options,
                                               struct DLManagedTensorVersioned **out_managed);

/* Exports as DLPack before 1.0, which cannot say read-only: such a tensor is FAILED_PRECONDITION
 * unless copied.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_to_dlpack_unversioned(const tutti_tensor *tensor,
                                                           const tutti_dlpack_options *options,
                                                           struct DLManagedTensor **out_managed);

/* Takes over a DLPack 1.x tensor on the CPU or on a GPU of this runtime without a copy; on success
 * its deleter is called with the last use, on failure the caller keeps it. The producer has to be
 * given the stream tutti_device_get_stream, on which the tensor is used.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_from_dlpack(tutti_runtime *runtime,
                                                 struct DLManagedTensorVersioned *managed,
                                                 tutti_tensor **out_tensor);

/* As tutti_tensor_from_dlpack, for the format before 1.0.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tensor_from_dlpack_unversioned(tutti_runtime *runtime,
                                                             struct DLManagedTensor *managed,
                                                             tutti_tensor **out_tensor);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_tensor_retain(const tutti_tensor *tensor);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_tensor_release(const tutti_tensor *tensor);

TUTTI_END_DECLS

#endif /* TUTTI_TENSOR_H_ */
