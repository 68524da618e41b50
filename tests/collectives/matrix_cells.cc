#include "tests/collectives/matrix_cells.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_set>

#include "core/base/random.h"

namespace tutti {
namespace {

constexpr size_t kRanks[] = {1, 2, 3, 4, 5, 7, 8};

constexpr MatrixOperation kOperations[] = {
    {"all_reduce", CollectiveOp::kAllReduce, false, true, true, false},
    {"reduce", CollectiveOp::kReduce, false, true, true, false},
    {"reduce_scatter", CollectiveOp::kReduceScatter, false, true, true, true},
    {"broadcast", CollectiveOp::kBroadcast, false, false, false, false},
    {"scatter", CollectiveOp::kScatter, false, false, true, true},
    {"all_gather", CollectiveOp::kAllGather, false, false, true, true},
    {"all_gatherv", CollectiveOp::kAllGather, true, false, false, true},
    {"gather", CollectiveOp::kGather, false, false, false, true},
    {"gatherv", CollectiveOp::kGather, true, false, false, true},
    {"all_to_all", CollectiveOp::kAllToAll, false, false, false, true},
    {"all_to_allv", CollectiveOp::kAllToAll, true, false, false, true},
    {"send", CollectiveOp::kSend, false, false, false, false},
    {"barrier", CollectiveOp::kBarrier, false, false, false, false}};

constexpr ReduceOp kReductions[] = {ReduceOp::kSum,    ReduceOp::kMean,  ReduceOp::kMin,
                                    ReduceOp::kMax,    ReduceOp::kProd,  ReduceOp::kBitAnd,
                                    ReduceOp::kBitOr, ReduceOp::kBitXor};

constexpr DType kDTypes[] = {
    DType::kBool,     DType::kInt8,    DType::kInt16,     DType::kInt32,    DType::kInt64,
    DType::kUint8,    DType::kUint16,  DType::kUint32,    DType::kUint64,   DType::kFloat16,
    DType::kBfloat16, DType::kFloat32, DType::kFloat64,   DType::kComplex64, DType::kComplex128};

constexpr const char* kSizeNames[] = {"0", "1", "chunk-1", "chunk", "chunk+1", "large"};
constexpr const char* kPlaceNames[] = {"apart", "in_place"};
constexpr const char* kLayoutNames[] = {"aligned", "shifted", "strided"};

// A share of every rank for every rank: larger ones would make the cell as large as a large one.
constexpr int64_t kMostShareBytes = 256 << 10;

// The values of a cell's factors as small numbers; operation and reduction are one factor.
using Values = std::array<uint8_t, 6>;

Values ValuesOf(const MatrixCell& cell) {
  const auto ranks = std::find(std::begin(kRanks), std::end(kRanks), cell.ranks);
  const auto dtype = std::find(std::begin(kDTypes), std::end(kDTypes), cell.dtype);
  const auto operation = static_cast<size_t>(cell.operation - kOperations);
  return {static_cast<uint8_t>(ranks - std::begin(kRanks)),
          static_cast<uint8_t>(operation * 8 + static_cast<size_t>(cell.reduction) - 1),
          static_cast<uint8_t>(dtype - std::begin(kDTypes)),
          static_cast<uint8_t>(cell.size),
          static_cast<uint8_t>(cell.in_place ? 1 : 0),
          static_cast<uint8_t>(cell.layout)};
}

class Pairs {
 public:
  // How many pairs of the cell are new.
  size_t Count(const MatrixCell& cell) const {
    size_t count = 0;
    ForEach(cell, [&](uint32_t pair) { count += pairs_.contains(pair) ? 0 : 1; });
    return count;
  }
  void Add(const MatrixCell& cell) {
    ForEach(cell, [&](uint32_t pair) { pairs_.insert(pair); });
  }
  size_t size() const { return pairs_.size(); }

 private:
  template <typename Body>
  static void ForEach(const MatrixCell& cell, Body body) {
    const Values values = ValuesOf(cell);
    for (uint32_t a = 0; a < values.size(); ++a) {
      for (uint32_t b = a + 1; b < values.size(); ++b) {
        body(((a * 6 + b) << 16) | (uint32_t{values[a]} << 8) | values[b]);
      }
    }
  }

  std::unordered_set<uint32_t> pairs_;
};

bool Exists(const MatrixCell& cell) {
  const MatrixOperation& operation = *cell.operation;
  if (operation.op == CollectiveOp::kBarrier) {
    return cell.dtype == DType::kFloat32 && cell.size == MatrixSize::kNone && !cell.in_place &&
           cell.layout == MatrixLayout::kAligned && cell.reduction == ReduceOp::kSum;
  }
  if (cell.in_place && !operation.has_in_place) return false;
  if (!operation.reduces) return cell.reduction == ReduceOp::kSum;
  return CheckReducible(cell.reduction, cell.dtype).ok();
}

template <typename Body>
void ForEachCallKind(Body body) {
  for (const size_t ranks : kRanks) {
    for (const MatrixOperation& operation : kOperations) {
      for (const ReduceOp reduction : kReductions) {
        for (const DType dtype : kDTypes) {
          body(MatrixCell{ranks, &operation, reduction, dtype});
        }
      }
    }
  }
}

std::vector<MatrixCell> AllCellsOf(std::vector<MatrixSize> sizes) {
  std::vector<MatrixCell> cells;
  ForEachCallKind([&](MatrixCell cell) {
    for (const MatrixSize size : sizes) {
      for (const bool in_place : {false, true}) {
        for (int layout = 0; layout < 3; ++layout) {
          cell.size = size;
          cell.in_place = in_place;
          cell.layout = static_cast<MatrixLayout>(layout);
          if (Exists(cell)) cells.push_back(cell);
        }
      }
    }
  });
  return cells;
}

void Shuffle(std::vector<MatrixCell>* cells, SplitMix64* random) {
  for (size_t i = cells->size(); i > 1; --i) {
    std::swap((*cells)[i - 1], (*cells)[random->Next() % i]);
  }
}

template <size_t kCount>
int IndexOf(const char* const (&names)[kCount], std::string_view text) {
  for (size_t i = 0; i < kCount; ++i) {
    if (text == names[i]) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

std::string MatrixCell::ToString() const {
  std::string text = std::to_string(ranks) + "/" + operation->name;
  if (operation->reduces) text += "." + std::string(ReduceOpName(reduction));
  text += "/" + std::string(DTypeName(dtype)) + "/" + kSizeNames[static_cast<int>(size)];
  text += std::string("/") + kPlaceNames[in_place ? 1 : 0];
  return text + "/" + kLayoutNames[static_cast<int>(layout)];
}

std::optional<MatrixCell> MatrixCell::Parse(std::string_view text) {
  for (const MatrixSize size :
       {MatrixSize::kNone, MatrixSize::kOne, MatrixSize::kChunkLess, MatrixSize::kChunk,
        MatrixSize::kChunkMore, MatrixSize::kLarge}) {
    // A name is looked for among all that there are, so that only cells that exist are found.
    if (text.find(std::string("/") + kSizeNames[static_cast<int>(size)] + "/") == text.npos) {
      continue;
    }
    for (const MatrixCell& cell : AllCellsOf({size})) {
      if (cell.ToString() == text) return cell;
    }
  }
  return std::nullopt;
}

uint64_t MatrixCell::seed() const {
  uint64_t seed = 0;
  for (const char c : ToString()) seed = SplitMix64::Mix(seed * 257 + static_cast<uint8_t>(c));
  return seed;
}

ReferenceCall MatrixCell::Call(const std::vector<int64_t>& chunk_bytes) const {
  const auto item = static_cast<int64_t>(ItemSize(dtype));
  std::vector<int64_t> chunks;
  for (const int64_t bytes : chunk_bytes) {
    if (!operation->shares || bytes <= kMostShareBytes) chunks.push_back(bytes / item);
  }
  const int64_t chunk = chunks[seed() % chunks.size()];
  ReferenceCall call;
  call.op = operation->op;
  call.uneven = operation->uneven;
  call.dtype = dtype;
  call.reduction = reduction;
  call.root = static_cast<int64_t>((seed() >> 8) % ranks);
  call.in_place = in_place;
  call.strided = layout == MatrixLayout::kStrided;
  call.shifted = layout == MatrixLayout::kShifted;
  call.seed = seed();
  switch (size) {
    case MatrixSize::kNone: call.rows = 0; break;
    case MatrixSize::kOne: call.rows = 1; break;
    case MatrixSize::kChunkLess: call.rows = chunk - 1; break;
    case MatrixSize::kChunk: call.rows = chunk; break;
    case MatrixSize::kChunkMore: call.rows = chunk + 1; break;
    case MatrixSize::kLarge:
      call.rows = operation->shares ? kLargeElements / static_cast<int64_t>(ranks) : kLargeElements;
      break;
  }
  call.whole_rows = call.rows;
  return call;
}

std::vector<MatrixCell> AllSmallCells() {
  return AllCellsOf({MatrixSize::kNone, MatrixSize::kOne, MatrixSize::kChunkLess,
                     MatrixSize::kChunk, MatrixSize::kChunkMore});
}

std::vector<MatrixCell> AllLargeCells() { return AllCellsOf({MatrixSize::kLarge}); }

std::vector<MatrixCell> CoveringSmallCells(uint64_t seed, size_t least) {
  constexpr size_t kCandidates = 40;
  SplitMix64 random(seed);
  std::vector<MatrixCell> all = AllSmallCells();
  Shuffle(&all, &random);
  Pairs wanted;
  for (const MatrixCell& cell : all) wanted.Add(cell);
  Pairs covered;
  std::vector<MatrixCell> cells;
  size_t next = 0;  // of the shuffled cells; those before it have been candidates
  while (covered.size() < wanted.size()) {
    // The best of some; when they bring nothing, of as many as it takes to find one that does.
    const MatrixCell* best = nullptr;
    size_t most = 0;
    for (size_t tried = 0; tried < all.size() && (tried < kCandidates || most == 0); ++tried) {
      const MatrixCell& candidate = all[next++ % all.size()];
      const size_t count = covered.Count(candidate);
      if (count > most) {
        most = count;
        best = &candidate;
      }
    }
    covered.Add(*best);
    cells.push_back(*best);
  }
  while (cells.size() < std::min(least, all.size()))
    cells.push_back(all[random.Next() % all.size()]);
  return cells;
}

std::vector<MatrixCell> CoveringLargeCells(uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<MatrixCell> all = AllLargeCells();
  Shuffle(&all, &random);
  std::array<std::unordered_set<int>, 6> met;
  std::vector<MatrixCell> cells;
  // First what brings most, so that operations, the longest factor, come with new values of others.
  for (size_t least = 6; least > 0; --least) {
    for (const MatrixCell& cell : all) {
      const Values values = ValuesOf(cell);
      size_t fresh = 0;
      for (size_t i = 0; i < values.size(); ++i) fresh += met[i].contains(values[i]) ? 0 : 1;
      if (fresh < least) continue;
      for (size_t i = 0; i < values.size(); ++i) met[i].insert(values[i]);
      cells.push_back(cell);
    }
  }
  return cells;
}

size_t NumUncoveredPairs(const std::vector<MatrixCell>& all, const std::vector<MatrixCell>& cells) {
  Pairs wanted;
  Pairs covered;
  for (const MatrixCell& cell : all) wanted.Add(cell);
  for (const MatrixCell& cell : cells) covered.Add(cell);
  return wanted.size() - covered.size();
}

}  // namespace tutti
