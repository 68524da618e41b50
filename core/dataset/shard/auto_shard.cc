#include "core/dataset/shard/auto_shard.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/dataset/exec/first_elements.h"
#include "core/dataset/graph/graph_rewrite.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/shard/file_count.h"
#include "core/function/function.h"

namespace tutti {
namespace {

// An explanation is one line.
constexpr size_t kMostPlacesTold = 16;

struct Team {
  int64_t num_workers;
  int64_t worker;
};

bool DrawsItsSeed(const Node& node) {
  return node.op().determinism == Determinism::kSeeded && !node.attributes().Bool("seed_given");
}

bool DrawsASeed(const Node& node) {
  const std::vector<const Node*> nodes = InputsFirst(node);
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const Node* one) { return DrawsItsSeed(*one); });
}

bool IsHint(const Node& node) {
  return node.op().is_shard && node.attributes().Int("num_shards") == kShardHint;
}

// The names of files as a file source makes them: whatever is above lets them pass as they are.
bool IsNames(const Node& node) {
  const Node* maker = &node;
  while (maker->op().passes_elements) maker = &maker->input();
  return maker->op().is_file_source;
}

// What reads files in a dataset.
class FileReaders {
 public:
  FileReaders(const Dataset& dataset, const CallOptions& call) : dataset_(dataset), call_(call) {}

  // Whether `node` reads what its input's elements name: a reader, or an op whose function gives
  // datasets that are read from files, as the first one that it gives is.
  Result<bool> IsReader(const Node& node) {
    if (node.op().is_reader || !node.op().gives_datasets) return node.op().is_reader;
    const auto known = known_.find(&node);
    if (known != known_.end()) return known->second;
    const ExecContext context{dataset_.environment().get(),
                              &dataset_.environment()->environment().memory(), &dataset_.options(),
                              true};
    bool reads = false;
    const Result<FirstLook> look =
        LookAtDatasets(node, context, call_, [&](const Dataset& inner) -> Status {
          FileReaders readers(inner, call_);
          TUTTI_ASSIGN_OR_RETURN(const Node* other, readers.FindOtherSource(inner.node()));
          reads = other == nullptr;
          return OkStatus();
        });
    // A source whose stages cannot be made is found to be so by who iterates.
    if (!look.ok() && IsInterruption(look.status())) return look.status();
    known_.emplace(&node, reads);
    return reads;
  }

  // The first source of which no part can be read by file; null when there is none.
  Result<const Node*> FindOtherSource(const Node& root) {
    std::vector<const Node*> to_visit = {&root};
    std::unordered_set<const Node*> seen;
    while (!to_visit.empty()) {
      const Node& node = *to_visit.back();
      to_visit.pop_back();
      if (!seen.insert(&node).second) continue;
      TUTTI_ASSIGN_OR_RETURN(const bool is_reader, IsReader(node));
      if (is_reader || IsNames(node)) continue;
      if (node.inputs().empty()) return &node;
      for (size_t i = node.inputs().size(); i-- > 0;) to_visit.push_back(&node.input(i));
    }
    return nullptr;
  }

 private:
  const Dataset& dataset_;
  const CallOptions& call_;
  std::unordered_map<const Node*, bool> known_;  // of ops whose functions give datasets
};

// What rewriting for several workers has in common: ops that draw an order get iteration numbers
// that start at 0 in every process, however often the graph that came in was iterated over here.
class TeamRewrite : public GraphRewrite {
 protected:
  Result<Ref<const Node>> Replace(const Node& node) override {
    if (node.op().determinism != Determinism::kSeeded) return Ref<const Node>();
    TUTTI_ASSIGN_OR_RETURN(Ref<const Node> input, Rewrite(node.input()));
    return NodeOnInputs(node, {std::move(input)});
  }
};

class FileRewrite final : public TeamRewrite {
 public:
  // Where a shard went.
  struct Place {
    std::string label;  // of what reads the files, or of what makes their names
    std::optional<int64_t> num_files;
  };

  FileRewrite(const Dataset& dataset, const Team& team, const CallOptions& call,
              FileReaders* readers)
      : dataset_(dataset), team_(team), call_(call), readers_(*readers) {}

  const std::vector<Place>& places() const { return places_; }
  bool needs_agreed_seed() const { return needs_agreed_seed_; }

 protected:
  Result<Ref<const Node>> Replace(const Node& node) override {
    TUTTI_ASSIGN_OR_RETURN(const bool is_reader, readers_.IsReader(node));
    if (is_reader) {
      // What a function is given is dealt out whole.
      const bool by_name = node.op().is_reader;
      TUTTI_ASSIGN_OR_RETURN(Ref<const Node> names, DealOut(node.input(), node.label(), by_name));
      return NodeOnInputs(node, {std::move(names)});
    }
    if (IsNames(node)) return DealOut(node, node.label(), true);
    return TeamRewrite::Replace(node);
  }

 private:
  // `names`, of which this worker's part is left.
  Result<Ref<const Node>> DealOut(const Node& names, const std::string& label, bool by_name) {
    if (ComesInAnyOrder(names)) {
      TUTTI_ASSIGN_OR_RETURN(Ref<const Node> input, DealOut(names.input(), label, by_name));
      return NodeOnInputs(names, {std::move(input)});
    }
    TUTTI_ASSIGN_OR_RETURN(const std::optional<int64_t> count,
                           by_name ? CountFileNames(dataset_, names, call_)
                                   : CountElements(dataset_, names, call_));
    places_.push_back({label, count});
    needs_agreed_seed_ = needs_agreed_seed_ || DrawsASeed(names);
    TUTTI_ASSIGN_OR_RETURN(Ref<const Node> input, TeamNames(names));
    Attributes attributes;
    attributes.Set("num_shards", team_.num_workers).Set("index", team_.worker);
    const OpTraits& op = !by_name || HoldsOneName(names) ? kShardOp : kShardNamesOp;
    return Node::Create(op, "", std::move(attributes), {std::move(input)}, {},
                        kMaxDepth + kMaxAddedDepth);
  }

  // What lies below the shard: files that are read there are read by everybody.
  Result<Ref<const Node>> TeamNames(const Node& names) { return names_.Rewrite(names); }

  // Dealing out below does the same as dealing out above.
  static bool ComesInAnyOrder(const Node& node) {
    const RowRatio ratio = node.op().row_ratio;
    return node.op().passes_elements &&
           (ratio == RowRatio::kOneToOne || ratio == RowRatio::kPermuted ||
            ratio == RowRatio::kRepeated);
  }

  const Dataset& dataset_;
  const Team team_;
  const CallOptions& call_;
  FileReaders& readers_;
  TeamRewrite names_;
  std::vector<Place> places_;
  bool needs_agreed_seed_ = false;
};

class HintRewrite final : public TeamRewrite {
 public:
  explicit HintRewrite(const Team& team) : team_(team) {}

  int num_shards() const { return num_shards_; }
  bool needs_agreed_seed() const { return needs_agreed_seed_; }

 protected:
  Result<Ref<const Node>> Replace(const Node& node) override {
    if (!IsHint(node)) return TeamRewrite::Replace(node);
    ++num_shards_;
    needs_agreed_seed_ = needs_agreed_seed_ || DrawsASeed(node.input());
    TUTTI_ASSIGN_OR_RETURN(Ref<const Node> input, Rewrite(node.input()));
    Attributes attributes = WithAttribute(node.attributes(), "num_shards", team_.num_workers);
    attributes = WithAttribute(attributes, "index", team_.worker);
    return NodeWith(node, std::move(attributes), {std::move(input)});
  }

 private:
  const Team team_;
  int num_shards_ = 0;
  bool needs_agreed_seed_ = false;
};

class SeedRewrite final : public GraphRewrite {
 public:
  explicit SeedRewrite(int64_t seed) : seeds_(static_cast<uint64_t>(seed)) {}

 protected:
  Result<Ref<const Node>> Replace(const Node& node) override {
    if (!DrawsItsSeed(node)) return Ref<const Node>();
    // Drawn on the way down, so that equal graphs get equal seeds.
    const auto seed = static_cast<int64_t>(seeds_.Next());
    TUTTI_ASSIGN_OR_RETURN(Ref<const Node> input, Rewrite(node.input()));
    Attributes attributes = WithAttribute(node.attributes(), "seed", seed);
    attributes = WithAttribute(attributes, "seed_by_element", false);
    return NodeWith(node, std::move(attributes), {std::move(input)});
  }

 private:
  SplitMix64 seeds_;
};

std::string PlaceText(const FileRewrite::Place& place, const Team& team) {
  if (!place.num_files.has_value()) return Format("files of unknown number ({})", place.label);
  const int64_t all = *place.num_files;
  const int64_t ours = all / team.num_workers + (team.worker < all % team.num_workers ? 1 : 0);
  return Format("{} of {} files ({})", ours, all, place.label);
}

Status FewerFiles(const FileRewrite::Place& place, AutoShardPolicy policy, const Team& team) {
  return InvalidArgument(
             "auto-sharding with the policy {}: {} reads {} files and there are {} workers, some "
             "of which would get nothing; set experimental_distribute.auto_shard_policy to DATA "
             "(every worker reads everything and keeps its part of each batch) or to OFF (every "
             "worker uses everything), or experimental_distribute.share_files to true (workers "
             "that share a file take its elements in turn), or write the data into {} files or "
             "more; the policy FILE needs at least as many files as workers",
             policy == AutoShardPolicy::kFile ? "FILE" : "AUTO", place.label, *place.num_files,
             team.num_workers, team.num_workers)
      .With("files", *place.num_files)
      .With("workers", team.num_workers);
}

const char* WhyByFile(AutoShardPolicy policy) {
  return policy == AutoShardPolicy::kFile
             ? "the policy is FILE"
             : "the policy is AUTO and all of the data is read from files";
}

// The files as a team of `num_files` would have them, of whose parts each is several workers'.
Result<ShardedDataset> ShareFiles(const Dataset& dataset, AutoShardPolicy policy, const Team& team,
                                  int64_t num_files, const CallOptions& call,
                                  FileReaders* readers) {
  const Team parts{num_files, team.worker % num_files};
  Ref<const Node> node;
  if (num_files == 1) {
    // What one worker would read.
    TeamRewrite rewrite;
    TUTTI_ASSIGN_OR_RETURN(node, rewrite.Rewrite(dataset.node()));
  } else {
    FileRewrite rewrite(dataset, parts, call, readers);
    TUTTI_ASSIGN_OR_RETURN(node, rewrite.Rewrite(dataset.node()));
  }
  ShardedDataset result;
  result.policy = AutoShardPolicy::kFile;
  result.num_files = num_files;
  // Who share a part have to see the same order.
  result.needs_agreed_seed = DrawsASeed(*node);
  result.num_parts = num_files;
  result.part = parts.worker;
  result.before = team.worker / num_files;
  result.stride = (team.num_workers - parts.worker + num_files - 1) / num_files;
  result.explanation = Format(
      "sharded by file: part {} of {}, of which {} workers keep one element in {} each, because "
      "{}, there are {} workers, and share_files is true",
      parts.worker + 1, num_files, result.stride, result.stride, WhyByFile(policy),
      team.num_workers);
  result.dataset = Dataset::OfNode(dataset.environment(), std::move(node), dataset.options());
  return result;
}

Result<ShardedDataset> ShardByFile(const Dataset& dataset, AutoShardPolicy policy, const Team& team,
                                   TooFewFiles too_few, const CallOptions& call,
                                   FileReaders* readers) {
  FileRewrite rewrite(dataset, team, call, readers);
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> node, rewrite.Rewrite(dataset.node()));
  ShardedDataset result;
  result.policy = AutoShardPolicy::kFile;
  result.needs_agreed_seed = rewrite.needs_agreed_seed();
  std::vector<std::string> texts;
  const size_t num_places = rewrite.places().size();
  for (const FileRewrite::Place& place : rewrite.places()) {
    if (place.num_files.has_value()) {
      const bool shares = too_few == TooFewFiles::kShare && *place.num_files > 0;
      if (*place.num_files < team.num_workers && !shares) return FewerFiles(place, policy, team);
      result.num_files = std::min(result.num_files.value_or(*place.num_files), *place.num_files);
    }
    if (texts.size() < kMostPlacesTold) texts.push_back(PlaceText(place, team));
  }
  if (result.num_files.value_or(team.num_workers) < team.num_workers) {
    return ShareFiles(dataset, policy, team, *result.num_files, call, readers);
  }
  if (num_places > texts.size()) {
    texts.push_back(Format("{} places more", num_places - texts.size()));
  }
  result.explanation = Format("sharded by file: {}, because {}", JoinAll(texts, "; "),
                              WhyByFile(policy));
  result.dataset = Dataset::OfNode(dataset.environment(), std::move(node), dataset.options());
  return result;
}

Result<ShardedDataset> ShardByData(const Dataset& dataset, const Team& team,
                                   const std::string& reason) {
  TeamRewrite rewrite;
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> node, rewrite.Rewrite(dataset.node()));
  ShardedDataset result;
  result.policy = AutoShardPolicy::kData;
  result.needs_agreed_seed = DrawsASeed(*node);
  result.explanation = Format("sharded by data: part {} of {} of every batch, because {}",
                              team.worker + 1, team.num_workers, reason);
  result.dataset = Dataset::OfNode(dataset.environment(), std::move(node), dataset.options());
  return result;
}

Result<ShardedDataset> ShardByHint(const Dataset& dataset, const Team& team) {
  HintRewrite rewrite(team);
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> node, rewrite.Rewrite(dataset.node()));
  if (rewrite.num_shards() == 0) {
    return InvalidArgument(
        "auto-sharding with the policy HINT: the dataset has no shard with SHARD_HINT ({}) in the "
        "place of num_shards and index; add one where the data is to be dealt out, or choose "
        "another policy",
        kShardHint);
  }
  ShardedDataset result;
  result.policy = AutoShardPolicy::kHint;
  result.needs_agreed_seed = rewrite.needs_agreed_seed();
  result.explanation = Format(
      "sharded by hint: shard({}, {}) in {} place{}, because the policy is HINT", team.num_workers,
      team.worker, rewrite.num_shards(), rewrite.num_shards() == 1 ? "" : "s");
  result.dataset = Dataset::OfNode(dataset.environment(), std::move(node), dataset.options());
  return result;
}

ShardedDataset NotSharded(const Dataset& dataset, const char* reason) {
  ShardedDataset result;
  result.dataset = Ref<Dataset>::Retain(const_cast<Dataset*>(&dataset));
  result.explanation = Format("not sharded, because {}", reason);
  return result;
}

}  // namespace

Result<ShardedDataset> AutoShard(const Dataset& dataset, AutoShardPolicy policy,
                                 int64_t num_workers, int64_t worker, const CallOptions& call,
                                 TooFewFiles too_few) {
  if (num_workers < 1 || worker < 0 || worker >= num_workers) {
    return InvalidArgument("auto-sharding: worker must be in [0, num_workers), got {} with {}",
                           worker, num_workers);
  }
  const Team team{num_workers, worker};
  switch (policy) {
    case AutoShardPolicy::kOff:
      return NotSharded(dataset, "the policy is OFF");
    case AutoShardPolicy::kAuto:
    case AutoShardPolicy::kFile:
    case AutoShardPolicy::kData:
    case AutoShardPolicy::kHint:
      if (num_workers == 1) return NotSharded(dataset, "there is one worker");
      break;
    default:
      return InvalidArgument(
          "auto-sharding: {} is no policy; choose OFF (-1), AUTO (0), FILE (1), DATA (2) or HINT "
          "(3)",
          static_cast<int64_t>(policy));
  }
  if (policy == AutoShardPolicy::kData) return ShardByData(dataset, team, "the policy is DATA");
  if (policy == AutoShardPolicy::kHint) return ShardByHint(dataset, team);
  FileReaders readers(dataset, call);
  TUTTI_ASSIGN_OR_RETURN(const Node* without_files, readers.FindOtherSource(dataset.node()));
  if (without_files == nullptr) {
    return ShardByFile(dataset, policy, team, too_few, call, &readers);
  }
  if (policy == AutoShardPolicy::kFile) {
    return InvalidArgument(
               "auto-sharding with the policy FILE: {} reads no files; read the data from files "
               "(list_files and a reader), or set experimental_distribute.auto_shard_policy to "
               "DATA or to OFF",
               without_files->label())
        .With("node", without_files->label());
  }
  const std::string reason =
      Format("the policy is AUTO and {} reads no files", without_files->label());
  dataset.environment()->environment().log().Warning(Format(
      "auto-sharding falls back to DATA, because {}: every worker makes all of the data and keeps "
      "its part; set experimental_distribute.auto_shard_policy to DATA or OFF to choose yourself",
      reason));
  return ShardByData(dataset, team, reason);
}

bool HasUnseededRandomness(const Dataset& dataset) { return DrawsASeed(dataset.node()); }

Result<Ref<Dataset>> WithSeed(const Dataset& dataset, int64_t seed) {
  SeedRewrite rewrite(seed);
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> node, rewrite.Rewrite(dataset.node()));
  return Dataset::OfNode(dataset.environment(), std::move(node), dataset.options());
}

}  // namespace tutti
