// Numbers that look random and depend on a seed alone: the same seed gives the same bits in every
// process, on every thread and however many are drawn at once.
//
// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", 2011)
// is a function of a key of two 32-bit words and a counter of four:
//
//   ten times: c becomes (hi(B c2) ^ c1 ^ k0, lo(B c2), hi(A c0) ^ c3 ^ k1, lo(A c0))
//              and then (k0, k1) becomes (k0 + 9E3779B9, k1 + BB67AE85), but not the last time
//   A = D2511F53, B = CD9E8D57; hi and lo are the halves of a product of 64 bits
//
// A seed of two numbers of 64 bits is mixed first, so that it does not matter which of its bits
// differ: m = Philox of the key (3EC8F720, 02461E29) and the counter (lo(seed[0]), hi(seed[0]),
// lo(seed[1]), hi(seed[1])). Then the key is (m0, m1), and block n of the stream is Philox of the
// counter (lo(n), hi(n), m2, m3): four words, of which the numbers are made in order:
//
//   uniform, in [0, 1)  a word w: float32 from its low 23 bits, float16 from its low 10, bfloat16
//                       from its low 7, each as 1.bits - 1; float64 from two words, the low 20 bits
//                       of the first above all of the second
//   normal              of two uniform numbers u (at least 1e-7) and v: r = sqrt(-2 log u), then
//                       r sin(2 pi v) and r cos(2 pi v). float16 and bfloat16 round float32's
//   truncated normal    the same, without those whose size is 2 or more. So that a number does not
//                       hang on how many were left out before it, each four (float64: two) have
//                       a part of the stream of their own: they begin at block 256 g (128 g) for
//                       group g, and take pairs u and v from there on until they are enough
//   bits                32-bit integers are words; 64-bit ones two, the lower half first
//   integers            low + bits % (high - low), computed in unsigned numbers
//
// This is what TensorFlow's stateless functions do with alg="philox", down to the bit (normal
// numbers as far as sin, cos and log agree).
#ifndef TUTTI_CORE_TENSOR_STATELESS_RANDOM_H_
#define TUTTI_CORE_TENSOR_STATELESS_RANDOM_H_

#include <array>
#include <cstdint>

#include "core/tensor/dtype.h"

namespace tutti {

class PhiloxStream {
 public:
  using Block = std::array<uint32_t, 4>;

  explicit PhiloxStream(const int64_t seed[2]);
  // Block `number` of the stream.
  Block At(uint64_t number) const;

 private:
  uint32_t key_[2];
  uint32_t high_[2];  // of the counter
};

// Whether there are such numbers of this dtype: floats for uniform and normal, 32- and 64-bit
// integers for bits and integers.
bool HasRandomFloats(DType dtype);
bool HasRandomIntegers(DType dtype);

// n numbers of one stream, from its first block on.
void FillRandomUniform(const PhiloxStream& stream, DType dtype, int64_t n, void* out);
void FillRandomNormal(const PhiloxStream& stream, DType dtype, int64_t n, void* out);
void FillRandomTruncatedNormal(const PhiloxStream& stream, DType dtype, int64_t n, void* out);
void FillRandomBits(const PhiloxStream& stream, DType dtype, int64_t n, void* out);
// In [low, high), which are numbers of the dtype. False, and nothing is written, where low is not
// below high.
bool FillRandomIntegers(const PhiloxStream& stream, DType dtype, const void* low, const void* high,
                        int64_t n, void* out);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_STATELESS_RANDOM_H_
