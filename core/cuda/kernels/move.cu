// Moving bytes: many tensors into one block of memory and back, and arrays whose elements do not
// lie side by side.
#include "core/cuda/kernels/launch.h"
#include "core/cuda/kernels/portable.h"

namespace tutti::cuda {
namespace {

// `threads` threads move it, of which this is the one numbered `thread`.
template <class Unit>
TUTTI_DEVICE void MoveUnits(const char* from, char* to, uint64_t bytes, unsigned thread,
                            unsigned threads) {
  const Unit* source = reinterpret_cast<const Unit*>(from);
  Unit* target = reinterpret_cast<Unit*>(to);
  const uint64_t units = bytes / sizeof(Unit);
  // Four loads before the first store.
  uint64_t i = thread;
  for (; i + 3 * threads < units; i += 4 * threads) {
    Unit moved[4];
    TUTTI_UNROLL
    for (int j = 0; j < 4; ++j) moved[j] = source[i + j * threads];
    TUTTI_UNROLL
    for (int j = 0; j < 4; ++j) target[i + j * threads] = moved[j];
  }
  for (; i < units; i += threads) target[i] = source[i];
  for (i = units * sizeof(Unit) + thread; i < bytes; i += threads) to[i] = from[i];
}

TUTTI_DEVICE void MoveBytes(const char* from, char* to, uint64_t bytes, unsigned thread,
                            unsigned threads) {
  const uint64_t address = reinterpret_cast<uint64_t>(from) | reinterpret_cast<uint64_t>(to);
  if (address % 16 == 0) {
    MoveUnits<Sixteen>(from, to, bytes, thread, threads);
  } else if (address % 8 == 0) {
    MoveUnits<uint64_t>(from, to, bytes, thread, threads);
  } else if (address % 4 == 0) {
    MoveUnits<uint32_t>(from, to, bytes, thread, threads);
  } else if (address % 2 == 0) {
    MoveUnits<uint16_t>(from, to, bytes, thread, threads);
  } else {
    MoveUnits<uint8_t>(from, to, bytes, thread, threads);
  }
}

template <bool kPack>
TUTTI_DEVICE void MovePieces(const PackParams& p) {
  for (uint32_t chunk = blockIdx.x; chunk < p.chunks; chunk += gridDim.x) {
    // The last piece that begins at or before the chunk.
    uint32_t piece = 0;
    for (uint32_t step = kFewPieces / 2; step > 0; step /= 2) {
      if (piece + step < p.pieces && p.first_chunk[piece + step] <= chunk) piece += step;
    }
    const uint64_t begin = (chunk - p.first_chunk[piece]) * kChunkBytes;
    const uint64_t left = p.bytes[piece] - begin;
    const uint64_t bytes = left < kChunkBytes ? left : kChunkBytes;
    char* const apart = Memory<char>(p.memory[piece]) + begin;
    char* const packed = Memory<char>(p.packed) + p.offset[piece] + begin;
    MoveBytes(kPack ? apart : packed, kPack ? packed : apart, bytes, threadIdx.x, blockDim.x);
  }
}

template <bool kPack>
TUTTI_DEVICE void MoveListed(const ListParams& p) {
  const uint64_t lanes = AllThreads() / kLaneThreads;
  uint64_t i = GlobalThread() / kLaneThreads;
  if (i >= p.count) return;
  const ListedPiece* const pieces = Memory<ListedPiece>(p.pieces);
  char* const all = Memory<char>(p.packed);
  ListedPiece next = pieces[i];
  while (true) {
    const ListedPiece piece = next;
    i += lanes;
    // Asked for before the work, because it comes from far away.
    if (i < p.count) next = pieces[i];
    char* const apart = Memory<char>(piece.memory);
    char* const packed = all + piece.offset;
    MoveBytes(kPack ? apart : packed, kPack ? packed : apart, piece.bytes,
              threadIdx.x % kLaneThreads, kLaneThreads);
    if (i >= p.count) return;
  }
}

template <class Item>
TUTTI_DEVICE void MoveStrided(const StridedParams& p) {
  const Item* in = Memory<Item>(p.in);
  Item* out = Memory<Item>(p.out);
  for (uint64_t i = GlobalThread(); i < p.n; i += AllThreads()) {
    uint64_t rest = i;
    int64_t from = 0, to = 0;
    for (int d = p.rank - 1; d >= 0; --d) {
      const uint64_t size = p.shape[d];
      const uint64_t above = (rest >> 32) == 0 && (size >> 32) == 0
                                 ? static_cast<uint32_t>(rest) / static_cast<uint32_t>(size)
                                 : rest / size;
      const int64_t at = static_cast<int64_t>(rest - above * size);
      from += at * p.in_strides[d];
      to += at * p.out_strides[d];
      rest = above;
    }
    out[to] = in[from];
  }
}

}  // namespace
}  // namespace tutti::cuda

TUTTI_KERNEL(tutti_pack, tutti::cuda::PackParams) { tutti::cuda::MovePieces<true>(p); }
TUTTI_KERNEL(tutti_unpack, tutti::cuda::PackParams) { tutti::cuda::MovePieces<false>(p); }
TUTTI_KERNEL(tutti_pack_list, tutti::cuda::ListParams) { tutti::cuda::MoveListed<true>(p); }
TUTTI_KERNEL(tutti_unpack_list, tutti::cuda::ListParams) { tutti::cuda::MoveListed<false>(p); }

#define TUTTI_STRIDED(bytes, Item) \
  TUTTI_KERNEL(tutti_strided_##bytes, tutti::cuda::StridedParams) { \
    tutti::cuda::MoveStrided<Item>(p); \
  }
TUTTI_STRIDED(1, uint8_t)
TUTTI_STRIDED(2, uint16_t)
TUTTI_STRIDED(4, uint32_t)
TUTTI_STRIDED(8, uint64_t)

// 16 bytes are a complex number, which may lie at a multiple of 8.
namespace tutti::cuda {
namespace {
struct TwoEights {
  uint64_t halves[2];
};
}  // namespace
}  // namespace tutti::cuda
TUTTI_STRIDED(16, tutti::cuda::TwoEights)
