// interleave: elements of several of the datasets that a function gives, in turn.
//
// interleave_stage.h says in which order they come; with num_parallel_calls the datasets are made
// ahead by threads, and the order is the same unless it need not be deterministic.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/autotuner.h"
#include "core/dataset/exec/inner_stages.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_options.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/inner_spec.h"
#include "core/dataset/ops/interleave_stage.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/ops/window_batches.h"

namespace tutti {
namespace {

// The order must not depend on the machine.
constexpr int64_t kCycleLength = 10;
// Where their number is tuned.
constexpr int64_t kFirstThreads = 4;

int64_t CycleLengthOf(const Node& node) {
  const int64_t given = node.attributes().Int("cycle_length");
  if (given != kAutotune) return given;
  return std::max(kCycleLength, node.attributes().Int("num_parallel_calls"));
}

Status CheckInterleave(const Node& node) {
  const int64_t length = node.attributes().Int("cycle_length");
  if (length < 1 && length != kAutotune) {
    return InvalidArgument("{}: cycle_length must be positive, or -1 (AUTOTUNE), got {}",
                           node.label(), length);
  }
  TUTTI_RETURN_IF_ERROR(
      CheckInt(node, "block_length", 1, std::numeric_limits<int64_t>::max()));
  const int64_t calls = node.attributes().Int("num_parallel_calls");
  if (calls < kAutotune) {
    return InvalidArgument("{}: num_parallel_calls must be 0 or more, or -1 (AUTOTUNE), got {}",
                           node.label(), calls);
  }
  if (calls > CycleLengthOf(node)) {
    return InvalidArgument(
        "{}: num_parallel_calls must not be more than cycle_length, got {} and {}; the others "
        "would have nothing to do",
        node.label(), calls, CycleLengthOf(node));
  }
  if (node.attributes().Find("deterministic") != nullptr) {
    TUTTI_RETURN_IF_ERROR(CheckBool(node, "deterministic"));
  }
  TUTTI_RETURN_IF_ERROR(CheckSeed(node));
  return CheckGivesDatasets(node);
}

int64_t InterleaveCardinality(const Node& node) {
  return node.input().cardinality() == kInfiniteCardinality ? kInfiniteCardinality
                                                            : kUnknownCardinality;
}

Result<std::unique_ptr<Stage>> MakeInterleave(const Node& node, const ExecContext& context,
                                              StageInputs inputs) {
  const Cycle cycle{CycleLengthOf(node), node.attributes().Int("block_length")};
  const int64_t calls = node.attributes().Int("num_parallel_calls");
  if (calls == 0 || context.probe) {
    return MakeInterleaveStage(node, context, std::move(inputs), cycle);
  }
  const bool tunes = calls == kAutotune;
  const int64_t most = tunes ? std::min(cycle.length, kMostTunedCalls) : calls;
  // Reads wait more than they compute, so that there may be more of them than cores.
  const int64_t first =
      tunes && context.autotuner != nullptr ? std::min(most, kFirstThreads) : most;
  const Parallelism parallelism{
      first, tunes, most,
      node.attributes().Bool("deterministic", context.options->deterministic())};
  return MakeParallelInterleaveStage(node, context, std::move(inputs), cycle, parallelism);
}

// Of one dataset at a time it is a flat_map.
const Node* InputOfFused(const Node& node, const ExecContext& context) {
  if (CycleLengthOf(node) != 1 || node.attributes().Int("num_parallel_calls") != 0) return nullptr;
  return InputOfWindowBatches(node, context);
}

}  // namespace

constinit const OpTraits kInterleaveOp = {
    .name = "interleave",
    // As long as cycle_length is not given, the order depends on num_parallel_calls.
    .attributes = {{"cycle_length", kAutotune},
                   {"block_length", 1},
                   {"num_parallel_calls", 0},
                   {"deterministic"},
                   {"seed"},
                   {"seed_given", true},
                   {"seed_by_element"}},
    .row_ratio = RowRatio::kExpanding,
    .gives_datasets = true,
    .determinism = Determinism::kSeeded,
    .serializability = Serializability::kWithFunctions,
    .check = CheckInterleave,
    .cardinality = InterleaveCardinality,
    .element_spec = PromisedInnerSpec,
    .look_at_dataset = LookAtInnerDataset,
    .make_stage = MakeInterleave,
    .input_of_fused = InputOfFused,
    .make_fused = MakeWindowBatches,
};

}  // namespace tutti
