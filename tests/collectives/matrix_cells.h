// The cells of the matrix of collectives: what a cell is, which of them exist, and which are run.
//
// A cell is one call on one transport. In an ordinary run, every pair of values of any two factors
// meets in a cell of every transport (a pairwise covering array, made greedily from a seed), and
// cells drawn at random fill up the rest. The large size is covered apart, with as few cells as
// meet every value of every other factor: its cells cost the most.

#ifndef TUTTI_TESTS_COLLECTIVES_MATRIX_CELLS_H_
#define TUTTI_TESTS_COLLECTIVES_MATRIX_CELLS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/collective/testing/collective_reference_testing.h"

namespace tutti {

enum class MatrixSize { kNone, kOne, kChunkLess, kChunk, kChunkMore, kLarge };
enum class MatrixLayout { kAligned, kShifted, kStrided };

// How many elements a tensor of the large size has, on all ranks together where each has a share.
inline constexpr int64_t kLargeElements = int64_t{3} << 20;

struct MatrixOperation {
  const char* name;  // without the reduction
  CollectiveOp op;
  bool uneven;
  bool reduces;
  bool has_in_place;
  bool shares;  // every rank has or gets a share of its own
};

struct MatrixCell {
  size_t ranks = 1;
  const MatrixOperation* operation = nullptr;
  ReduceOp reduction = ReduceOp::kSum;
  DType dtype = DType::kFloat32;
  MatrixSize size = MatrixSize::kOne;
  bool in_place = false;
  MatrixLayout layout = MatrixLayout::kAligned;

  // "5/all_reduce.SUM/float32/chunk+1/in_place/shifted", and back.
  std::string ToString() const;
  static std::optional<MatrixCell> Parse(std::string_view text);
  // Follows from the text alone.
  uint64_t seed() const;
  // Where chunks of the transport may end, in bytes; the cell takes one of them.
  ReferenceCall Call(const std::vector<int64_t>& chunk_bytes) const;

  friend bool operator==(const MatrixCell& a, const MatrixCell& b) = default;
};

// Every cell that exists: those of the large size, and all others.
std::vector<MatrixCell> AllLargeCells();
std::vector<MatrixCell> AllSmallCells();

// At least `least` cells, all pairs among them, large ones apart.
std::vector<MatrixCell> CoveringSmallCells(uint64_t seed, size_t least);
std::vector<MatrixCell> CoveringLargeCells(uint64_t seed);
// How many pairs of values, of those that meet in any of `all`, meet in none of `cells`.
size_t NumUncoveredPairs(const std::vector<MatrixCell>& all, const std::vector<MatrixCell>& cells);

}  // namespace tutti

#endif  // TUTTI_TESTS_COLLECTIVES_MATRIX_CELLS_H_
