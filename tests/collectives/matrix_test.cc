// The matrix of collectives: calls of every kind on every transport, each against a reference that
// is computed from the inputs of all ranks.
//
//   matrix_test TRANSPORT [--all] [--dtype DTYPE] [--no-large] [--cells N] [--seed S] [--cell CELL]
//
// TRANSPORT is in_process, shared_memory, tcp, mixed (two hosts, ranks of one host over rings in
// shared memory, those of different hosts over TCP), hosts (several of two ranks each, joined
// through memory inside and from host to host once) or chain (tcp as large groups have it: pairs
// connect at first use, and what can goes from neighbour to neighbour). A run takes N cells that
// cover all pairs, drawn from the seed, which is printed; without --cells it takes a quarter of
// 800, which TUTTI_TEST_SCALE scales, and begins no new one after half a minute. --all takes every
// cell there is, or every one of a dtype. A cell that fails is named, and --cell repeats it alone.
//
// Of all large cells, those of a dtype share their inputs, and those of a reduction and number of
// ranks what it makes of them. No call has the inputs of the one before, whose results may still
// stand in the memory between the ranks.

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/real_environment.h"
#include "core/base/seeded_runs_testing.h"
#include "core/base/text.h"
#include "core/collective/testing/collective_cases_testing.h"
#include "core/collective/testing/hierarchical_ranks_testing.h"
#include "core/collective/testing/link_ranks.h"
#include "core/collective/testing/rank_threads.h"
#include "core/collective/testing/shared_rank_testing.h"
#include "tests/collectives/matrix_cells.h"

namespace tutti {
namespace {

// Ranks on one mapping.
class SharedMatrixRanks final : public CollectiveRanks {
 public:
  explicit SharedMatrixRanks(size_t size)
      : environment_(MakeRef<RealEnvironment>()),
        segment_(SharedSegment::Create(SharedTransport::SegmentBytes(static_cast<int64_t>(size)))
                     .value()) {
    for (size_t rank = 0; rank < size; ++rank) {
      ranks_.push_back(std::make_unique<SharedRank>(environment_, segment_,
                                                    static_cast<int64_t>(rank),
                                                    static_cast<int64_t>(size), /*spin=*/false));
    }
  }
  ~SharedMatrixRanks() override {
    ranks_.clear();
    if (!environment_->Shutdown(CallOptions()).ok()) std::abort();
  }
  size_t size() override { return ranks_.size(); }
  Communicator& operator[](size_t rank) override { return ranks_[rank]->communicator(); }
  CallOptions Timeout(int64_t timeout_ns) override { return ranks_[0]->Timeout(timeout_ns); }

 private:
  const Ref<RealEnvironment> environment_;
  const Ref<SharedSegment> segment_;
  std::vector<std::unique_ptr<SharedRank>> ranks_;
};

// The first half of the ranks is one host, the others are another one.
class TwoHosts : public LinkRanks {
 public:
  explicit TwoHosts(size_t size) : LinkRanks(size, MakeLinksOfTwoHosts(size)) {}

 private:
  static std::vector<std::vector<std::unique_ptr<Link>>> MakeLinksOfTwoHosts(size_t size) {
    std::vector<std::vector<std::unique_ptr<Link>>> links(size);
    for (std::vector<std::unique_ptr<Link>>& row : links) row.resize(size);
    const auto host = [size](size_t rank) { return rank < (size + 1) / 2; };
    for (size_t a = 0; a < size; ++a) {
      for (size_t b = a + 1; b < size; ++b) {
        std::tie(links[a][b], links[b][a]) =
            MakeLinks(host(a) == host(b) ? LinkKind::kRing : LinkKind::kTcp);
      }
    }
    return links;
  }
};

// Hosts of two ranks, and one over. Their folds have the bits of all other transports where the
// group is reproducible: sums of floats go over flat links then. What is large goes in many chunks.
class PairsOfRanks : public HierarchicalRanks {
 public:
  explicit PairsOfRanks(size_t size)
      : HierarchicalRanks(Machines(size), SelectorTable::Reproducible(*Table())) {}

 private:
  static std::shared_ptr<const SelectorTable> Table() {
    return SelectorTable::Parse(
               "all_reduce hosts any any hierarchical 64KiB; "
               "reduce hosts any any hierarchical 64KiB; "
               "reduce_scatter hosts any any hierarchical 64KiB; "
               "broadcast hosts any any hierarchical 64KiB",
               "matrix")
        .value();
  }
  static std::vector<std::string> Machines(size_t size) {
    std::vector<std::string> machines;
    for (size_t rank = 0; rank < size; ++rank) machines.push_back(std::to_string(rank / 2));
    return machines;
  }
};

struct MatrixWorld {
  CollectiveWorld ranks;
  std::vector<int64_t> chunk_bytes;  // where chunks of its algorithms end
};

const std::vector<MatrixWorld>& Worlds() {
  const std::vector<int64_t> of_links = {4 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20};
  static const std::vector<MatrixWorld> worlds = {
      {CollectiveWorldOf<RankGroup>("in_process"), {4 << 10, 16 << 10, 64 << 10}},
      {{"shared_memory",
        [](size_t size) { return std::make_unique<SharedMatrixRanks>(size); }},
       {4 << 10, 8 << 10, 16 << 10, 64 << 10, 128 << 10, 512 << 10, 768 << 10}},
      {CollectiveWorldOf<LinkRanks>("tcp", LinkKind::kTcp), of_links},
      {CollectiveWorldOf<TwoHosts>("mixed"), of_links},
      {CollectiveWorldOf<PairsOfRanks>("hosts"), {8 << 10, 64 << 10, 128 << 10, 256 << 10}},
      {CollectiveWorldOf<LinkRanks>("chain", LinkKind::kChain),
       {16, 4 << 10, 16 << 10, 64 << 10, 256 << 10}}};
  return worlds;
}

// What an ordinary run takes; the nightly runs take all there are.
constexpr uint64_t kQuarterOfCells = 200;

struct Arguments {
  const MatrixWorld* world = nullptr;
  bool all = false;
  std::optional<DType> dtype;
  bool large = true;
  size_t cells = Scaled(kQuarterOfCells);
  uint64_t seed = 0;
  std::string cell;
};

bool Read(int argc, char** argv, Arguments* arguments) {
  if (argc < 2) return false;
  for (const MatrixWorld& world : Worlds()) {
    if (world.ranks.name == argv[1]) arguments->world = &world;
  }
  const char* const seed = std::getenv("TUTTI_TEST_SEED");
  arguments->seed = seed != nullptr ? std::strtoull(seed, nullptr, 10) : std::random_device{}();
  for (int i = 2; i < argc; ++i) {
    const std::string_view option = argv[i];
    const bool has_value = i + 1 < argc;
    if (option == "--all") {
      arguments->all = true;
    } else if (option == "--dtype" && has_value) {
      arguments->dtype = DTypeFromName(argv[++i]);
      if (*arguments->dtype == DType::kInvalid) return false;
    } else if (option == "--no-large") {
      arguments->large = false;
    } else if (option == "--cells" && has_value) {
      arguments->cells = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--seed" && has_value) {
      arguments->seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--cell" && has_value) {
      arguments->cell = argv[++i];
    } else {
      return false;
    }
  }
  return arguments->world != nullptr;
}

// False, and a message, where the covering is not one.
bool Choose(const Arguments& arguments, std::vector<MatrixCell>* cells) {
  if (!arguments.cell.empty()) {
    const std::optional<MatrixCell> cell = MatrixCell::Parse(arguments.cell);
    if (!cell) {
      std::fprintf(stderr, "no cell is called %s\n", arguments.cell.c_str());
      return false;
    }
    cells->push_back(*cell);
    return true;
  }
  std::vector<MatrixCell> large;
  if (arguments.all) {
    *cells = AllSmallCells();
    if (arguments.large) large = AllLargeCells();
  } else {
    *cells = CoveringSmallCells(arguments.seed, arguments.cells);
    if (const size_t missing = NumUncoveredPairs(AllSmallCells(), *cells); missing != 0) {
      std::fprintf(stderr, "%zu pairs of values meet in no cell\n", missing);
      return false;
    }
    if (arguments.large) large = CoveringLargeCells(arguments.seed);
  }
  if (arguments.dtype) {
    const auto of_another = [&](const MatrixCell& cell) { return cell.dtype != *arguments.dtype; };
    std::erase_if(*cells, of_another);
    std::erase_if(large, of_another);
  }
  std::printf("%s: %zu cells of up to a chunk, %zu large ones, seed %llu\n",
              arguments.world->ranks.name.c_str(), cells->size(), large.size(),
              static_cast<unsigned long long>(arguments.seed));
  std::fflush(stdout);
  cells->insert(cells->end(), large.begin(), large.end());
  return true;
}

// What all large cells of a dtype share. Cells that differ in nothing but layout follow each other,
// so the row from which they take their inputs follows from that.
class LargeInputs {
 public:
  ReferenceCase Case(const MatrixCell& cell, const ReferenceCall& call) {
    if (inputs_ == nullptr || inputs_->dtype() != cell.dtype) {
      inputs_.reset();
      inputs_ = std::make_unique<ReferenceInputs>(cell.dtype, kRows, kMostRanks,
                                                  static_cast<uint64_t>(cell.dtype));
    }
    return ReferenceCase(call, static_cast<int64_t>(cell.ranks), inputs_.get(),
                         static_cast<int64_t>(cell.layout) * kRowsApart);
  }

 private:
  static constexpr int64_t kMostRanks = 8;
  static constexpr int64_t kRowsApart = 4099;
  // Uneven shares may be half as much again.
  static constexpr int64_t kRows = kLargeElements / 2 * 3 + 2 * kRowsApart;

  std::unique_ptr<ReferenceInputs> inputs_;
};

// One after the other on one group, which an error ends: then there is a new one.
size_t RunCells(const MatrixWorld& world, std::vector<MatrixCell> cells, uint64_t seed, bool all) {
  const auto order = [](const MatrixCell& cell) {
    return std::tuple(cell.ranks, cell.size == MatrixSize::kLarge, cell.dtype, cell.reduction);
  };
  std::stable_sort(
      cells.begin(), cells.end(),
      [&](const MatrixCell& a, const MatrixCell& b) { return order(a) < order(b); });
  // An ordinary run on a slow machine leaves some out: let them not be the same ones always.
  if (!all) std::rotate(cells.begin(), cells.begin() + seed % cells.size(), cells.end());
  const bool is_bounded = !all && TestScale() <= kOrdinaryScale;
  const auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<CollectiveRanks> ranks;
  LargeInputs large;
  size_t failures = 0;
  size_t done = 0;
  for (const MatrixCell& cell : cells) {
    if (is_bounded && std::chrono::steady_clock::now() - begin >= SeededRuns::kMostTime) break;
    ++done;
    if (ranks == nullptr || ranks->size() != cell.ranks) {
      ranks.reset();
      ranks = world.ranks.make(cell.ranks);
    }
    const ReferenceCall call = cell.Call(world.chunk_bytes);
    const bool shares_inputs = all && cell.size == MatrixSize::kLarge;
    const ReferenceCase reference =
        shares_inputs ? large.Case(cell, call)
                      : ReferenceCase(call, static_cast<int64_t>(cell.ranks));
    const CallOptions options = ranks->Timeout(120 * kSecondNs);  // only a hang takes that long
    const std::vector<Status> statuses =
        ranks->Run([&](int64_t rank, Communicator& communicator) {
          return reference.Run(rank, communicator, options);
        });
    bool good = true;
    for (size_t rank = 0; rank < statuses.size(); ++rank) {
      if (statuses[rank].ok()) continue;
      if (good) {
        std::printf("FAILED %s, %s\n  repeat: matrix_test %s%s --cell %s\n",
                    cell.ToString().c_str(), call.ToString().c_str(), world.ranks.name.c_str(),
                    shares_inputs ? " --all" : "", cell.ToString().c_str());
      }
      good = false;
      std::printf("  rank %zu: %s\n", rank, statuses[rank].ToString().c_str());
    }
    std::fflush(stdout);
    if (good) continue;
    ranks.reset();
    if (++failures == 20) {
      std::printf("no more cells after 20 failures\n");
      break;
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%zu of %zu cells, %zu failed, %.1f s\n", done, cells.size(), failures, took.count());
  return failures;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Read(argc, argv, &arguments)) {
    std::fprintf(stderr, "usage: %s in_process|shared_memory|tcp|mixed|hosts|chain "
                         "[--all] [--dtype DTYPE] [--no-large] [--cells N] [--seed S] "
                         "[--cell CELL]\n",
                 argv[0]);
    return 2;
  }
  std::vector<MatrixCell> cells;
  if (!Choose(arguments, &cells)) return 2;
  const size_t failures = RunCells(*arguments.world, cells, arguments.seed, arguments.all);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  // Memory that a cell gave back serves the next one: new pages for every large tensor cost more
  // than the calls.
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that it takes
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return tutti::Main(argc, argv);
}
