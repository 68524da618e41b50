// A tensor as one byte string: TensorFlow's message TensorProto, in protobuf's wire format, as
// tf.io.serialize_tensor writes it and tf.io.parse_tensor reads it. Fields, by number:
//
//   1 dtype, TensorFlow's number    2 shape: 2 a dim: 1 its size; 3 unknown_rank
//   4 content: the elements as they lie in memory, little-endian
//   5 float  6 double  7 (u)int8, (u)int16, int32  8 bytes  9 complex64  10 int64  11 bool
//   12 complex128  13 float16, bfloat16  16 uint32  17 uint64: the elements one by one
//
// What is written is what TensorFlow writes, byte for byte: elements as content, byte strings one
// by one. Read is everything that TensorFlow reads: where there are fewer elements than the shape
// has, the last one stands for the rest, and 0, false or an empty string where there is none.
#ifndef TUTTI_CORE_DATASET_EXAMPLE_TENSOR_PROTO_H_
#define TUTTI_CORE_DATASET_EXAMPLE_TENSOR_PROTO_H_

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

// A scalar of bytes.
Result<Ref<Tensor>> SerializeTensor(const Tensor& tensor);

// The tensor that a scalar of bytes is, which must be of `dtype`. INVALID_ARGUMENT for another
// dtype, and for bytes that are no tensor.
Result<Ref<Tensor>> ParseTensor(const Tensor& serialized, DType dtype);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXAMPLE_TENSOR_PROTO_H_
