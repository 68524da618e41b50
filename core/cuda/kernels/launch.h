// What host and device say to each other about kernels: their names and the one struct that each
// takes. Every launch is of one dimension, in blocks of kThreads; kernels walk over their elements
// in strides of the grid, so that any number of blocks is right. They use neither barriers nor
// shared memory, because the tests run them as plain C++, one thread after the other.
#ifndef TUTTI_CORE_CUDA_KERNELS_LAUNCH_H_
#define TUTTI_CORE_CUDA_KERNELS_LAUNCH_H_

#include <stdint.h>

namespace tutti::cuda {

inline constexpr unsigned kThreads = 256;

// Element types as kernels are named for them. Not all kernels are there for all of them: sums and
// products of integers wrap, so that those of signed ones are those of unsigned ones.
//   tutti_sum_f32(ReduceParams), tutti_prod_c64, tutti_min_i8, tutti_mean_bf16, tutti_band_u32
//   tutti_scale_f16(ScaleParams), tutti_cast_i64(CastParams), tutti_check_f64(CheckParams)
//   tutti_strided_4(StridedParams), tutti_pack, tutti_unpack(PackParams)
//   tutti_pack_list, tutti_unpack_list(ListParams)

inline constexpr int kMostInputs = 256;
struct ReduceParams {
  const void* inputs[kMostInputs];
  void* out;
  uint64_t n;
  uint32_t count;
  uint32_t aligned;  // 1: all addresses are multiples of 16
};

struct ScaleParams {
  const void* in;
  void* out;
  uint64_t n;
  double factor;
};

struct CastParams {
  const void* in;
  void* out;
  uint64_t n;
  int32_t to;  // a dtype
};

struct CheckParams {
  const void* in;
  uint64_t n;
  uint64_t* counts;
};

inline constexpr int kMostDimensions = 16;
struct StridedParams {
  const void* in;
  void* out;
  uint64_t n;
  int32_t rank;
  uint64_t shape[kMostDimensions];
  int64_t in_strides[kMostDimensions];
  int64_t out_strides[kMostDimensions];
};

// Few pieces: they are cut into chunks, a block takes one chunk at a time. first_chunk[i] is the
// number of chunks of the pieces before piece i.
inline constexpr int kFewPieces = 64;
inline constexpr uint64_t kChunkBytes = 32768;
struct PackParams {
  void* memory[kFewPieces];
  uint64_t bytes[kFewPieces];
  uint64_t offset[kFewPieces];
  uint32_t first_chunk[kFewPieces];
  void* packed;
  uint32_t pieces;
  uint32_t chunks;
};

// Many small ones: a list in pinned host memory, which the kernel reads there. A lane of
// kLaneThreads threads takes an entry at a time, so that a block has several on their way.
inline constexpr unsigned kLaneThreads = 32;
inline constexpr uint64_t kListedBytes = 16384;  // of an entry, at most
struct ListedPiece {
  void* memory;
  uint64_t offset;
  uint64_t bytes;
};
struct ListParams {
  const ListedPiece* pieces;
  void* packed;
  uint64_t count;
};

// What a launch may pass everywhere.
static_assert(sizeof(ReduceParams) <= 4096 && sizeof(PackParams) <= 4096);

}  // namespace tutti::cuda

#endif  // TUTTI_CORE_CUDA_KERNELS_LAUNCH_H_
