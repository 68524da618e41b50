// snapshot: the elements of the first complete pass over the input, written to a folder, from which
// later passes, in this process and in others, read them.
//
// The folder stands below `path` and is named by what the pipeline below and shard_func compute
// (ContentFingerprint): another pipeline has another snapshot. While a pass is written its elements
// are handed on in order. It counts when the input has ended, or has given as many elements as it
// says it has, and none of them failed; one that is given up or fails leaves nothing, and so does
// one that cannot be written (a full disk), which says so once and goes on. Who finds somebody else
// writing passes the elements through.
//
// Workers who share a disk share a snapshot, also where each of them keeps its part of the elements
// (DATA): one writes, and who begins a pass when it is complete reads. With shard_func that pass
// comes in another order than one that passes the input through.
//
// A shard is a file of its own, shard_func says which one an element belongs to. A snapshot is read
// as what reader_func makes of a dataset with one dataset per shard, by number; without it, as
// their interleave, one element of each in turn, of several by threads.
//
// The state of an iterator that reads is where it stands in the shards, and good as long as that
// snapshot is there. One that writes cannot be gone on from as such: its state is the input's, and
// the restored iterator passes the rest of the input through, whatever has been completed in the
// meantime, and computes all of it as writing would have: it fails where that would have failed,
// also at rows that are only counted. The pass after that reads, or writes anew. One that was saved
// before its first element, when there was nothing to read, has the whole input before it, and may
// write.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/inner_stages.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/graph_fingerprint.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/ops/snapshot_files.h"
#include "core/dataset/ops/snapshot_shard.h"
#include "core/function/function.h"

namespace tutti {
namespace {

constexpr int64_t kMostRowsOfAll = std::numeric_limits<int64_t>::max();
// More threads than this would not read faster.
constexpr int64_t kMostReadingThreads = 16;

// The datasets of the shards as they are: what the default reader interleaves.
class EachShard final : public Function {
 public:
  explicit EachShard(Ref<const ElementSpec> spec)
      : Function("each_shard"), spec_(std::move(spec)) {}

  Status Call(Context&, const Value& in, Ref<Value>* out) override {
    *out = Value::OfLeaf(in.leaf(0));
    return OkStatus();
  }
  Granularity granularity() const override { return Granularity::kRow; }
  bool calls_host() const override { return false; }
  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec*) const override {
    return spec_ ? ElementSpec::Dataset(spec_) : Ref<const ElementSpec>();
  }

 private:
  const Ref<const ElementSpec> spec_;
};

bool HasReader(const Node& node) { return node.attributes().Bool("reader_func"); }
bool HasSharder(const Node& node) { return node.attributes().Bool("shard_func"); }
std::span<const Ref<Function>> SharderOf(const Node& node) {
  const std::span<const Ref<Function>> functions(node.functions());
  return HasSharder(node) ? functions.last(1) : functions.first(0);
}

std::optional<SnapshotCompression> CompressionOf(const Node& node) {
  const std::string& name = *node.attributes().Get<std::string>("compression");
  if (name == "AUTO" || name == "SNAPPY") return SnapshotCompression::kSnappy;
  if (name == "GZIP") return SnapshotCompression::kGzip;
  if (name == "NONE") return SnapshotCompression::kNone;
  return std::nullopt;
}

// What the iterations of a definition share: to name the folder, all the data that stands in the
// definition is looked at.
class SnapshotPlace final : public RefCounted {
 public:
  static Result<Ref<SnapshotPlace>> Of(const Node& node, Environment& environment) {
    TUTTI_ASSIGN_OR_RETURN(const std::string content,
                           ContentFingerprint(node.input(), node, SharderOf(node)));
    std::string key;
    for (const char c : content) key += Format("{:02x}", static_cast<unsigned char>(c));
    return MakeRef<SnapshotPlace>(MakeRef<SnapshotFolder>(
        Ref<Environment>::Retain(&environment), *node.attributes().Get<std::string>("path"), key));
  }
  explicit SnapshotPlace(Ref<SnapshotFolder> folder) : folder_(std::move(folder)) {}

  const SnapshotFolder& folder() const { return *folder_; }

 private:
  const Ref<SnapshotFolder> folder_;
};

class SnapshotStage final : public Stage {
 public:
  SnapshotStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        context_(context),
        rows_(input()),
        inners_(this->node(), context) {
    if (!HasSharder(node)) return;
    sharder_.emplace(node, context, ElementSpec::OfTensor(DType::kInt64, PartialShape::Scalar()),
                     FunctionUse{node.functions().size() - 1});
  }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    slab->status = inners_.JoinEnded(options);
    if (slab->status.ok() && phase_ == Phase::kFresh) {
      slab->status = Begin(options);
      if (!IsInterruption(slab->status)) {
        // All elements are lost with it.
        slab->status = WithLoss(std::move(slab->status), Loss::kMany);
      }
    }
    if (!slab->status.ok()) return;
    if (phase_ == Phase::kReading) return Read(demand, options, slab);
    if (phase_ != Phase::kRest && writer_ == nullptr) return rows_.Pull(demand, options, slab);
    // Until one fails. Then it depends on what is asked for.
    rows_.Pull(Demand{std::min(demand.max_rows, kMaxSlabRows), false, demand.Horizon(),
                      demand.all_wanted},
               options, slab);
    if (phase_ == Phase::kRest) {
      if (!slab->status.ok() && !IsInterruption(slab->status)) phase_ = Phase::kPassing;
      return;
    }
    // A call that has rows was not interrupted.
    if (slab->rows > 0 && IsInterruption(slab->status)) slab->status = OkStatus();
    Status status = Write(*slab, options);
    if (status.ok()) return;
    // The rows are not lost: they come with the next call.
    rows_.PutBack(*slab, 0);
    slab->Clear();
    slab->status = IsInterruption(status)
                       ? std::move(status)
                       : About(status.WithPrefix("this pass cannot be kept, and goes on without"));
  }

  Status Restart(const CallOptions& options) override {
    // The input is restarted when it is needed again.
    Forget();
    // What is interrupted is restarted again, and that is one pass.
    TUTTI_RETURN_IF_ERROR(inners_.EndAll(options));
    inners_.BeginPass();
    return OkStatus();
  }

  Status Save(StateWriter* writer) override;
  Status Restore(StateReader* reader, const CallOptions& options) override;

  void Stop() override {
    inners_.Stop();
    Stage::Stop();
  }

  Status Join(const CallOptions& options) override {
    // What is half written, and the lock on it, goes with the iterator's close.
    Forget();
    TUTTI_RETURN_IF_ERROR(inners_.Join(options));
    return Stage::Join(options);
  }

 private:
  enum class Phase : int64_t {
    kFresh,    // nothing of this pass has been asked for
    kReading,  // what is kept
    kPassing,  // the input's elements, not to be kept
    kWriting,  // the input's elements, to be kept; without a writer when they are
    kRest,     // what was left of the input's elements when a state was saved that was kWriting
  };

  void Forget() {
    phase_ = Phase::kFresh;
    position_ = 0;
    from_input_ = false;
    inner_ = nullptr;
    writer_.reset();
    rows_.Clear();
    read_.Clear();
  }

  Status About(Status status) const {
    return std::move(status).WithPrefix(node().label()).With("node", node().label());
  }

  Result<const SnapshotFolder*> Folder() {
    if (!place_) {
      TUTTI_ASSIGN_OR_RETURN(
          const Ref<SnapshotPlace> place,
          SnapshotPlace::Of(node(), context_.environment->environment()));
      Ref<RefCounted> shared = node().ShareAmongIterations(place);
      place_ = Ref<SnapshotPlace>::Retain(static_cast<SnapshotPlace*>(shared.get()));
    }
    return &place_->folder();
  }

  Status Begin(const CallOptions& options);
  Status OpenInner(const SnapshotIndex& index, const CallOptions& options);
  Result<Ref<const Node>> ShardNode(const SnapshotIndex& index, size_t i) const;
  Result<Ref<const Node>> ShardsNode(const SnapshotIndex& index) const;
  Result<Ref<const Node>> DefaultReader(const SnapshotIndex& index) const;
  Status CheckInner();
  void Read(const Demand& demand, const CallOptions& options, Slab* slab);
  Status Write(const Slab& rows, const CallOptions& options);
  Result<std::vector<int64_t>> ShardsOf(const Slab& rows, const CallOptions& options);

  const ExecContext& context_;
  InputRows rows_;
  InnerStages inners_;
  std::optional<FunctionRows> sharder_;
  Ref<SnapshotPlace> place_;
  Phase phase_ = Phase::kFresh;
  bool input_used_ = false;  // the input is not at the begin of a pass
  // When the state was saved from which this pass begins, there was nothing to read.
  bool from_input_ = false;
  // While writing.
  int64_t position_ = 0;  // rows of this pass
  std::unique_ptr<SnapshotWriter> writer_;
  // While reading.
  int64_t digest_ = 0;  // of what is read
  InnerStages::Inner* inner_ = nullptr;
  bool must_check_ = false;  // what reader_func gave may have other elements
  HeldRows read_;            // behind one that is another
};

// Decides what this pass gives.
Status SnapshotStage::Begin(const CallOptions& options) {
  if (context_.probe) {
    // What an element is like the input shows, too, without a trace.
    if (input_used_) TUTTI_RETURN_IF_ERROR(Stage::Restart(options));
    input_used_ = true;
    phase_ = Phase::kPassing;
    return OkStatus();
  }
  TUTTI_ASSIGN_OR_RETURN(const SnapshotFolder* const folder, Folder());
  for (bool again = false;; again = true) {
    if (!from_input_) {
      const Result<std::optional<SnapshotIndex>> index = folder->ReadIndex();
      if (!index.ok()) return About(index.status());
      if (index->has_value()) {
        TUTTI_RETURN_IF_ERROR(OpenInner(**index, options));
        phase_ = Phase::kReading;
        return OkStatus();
      }
    }
    if (input_used_) {
      TUTTI_RETURN_IF_ERROR(Stage::Restart(options));
      input_used_ = false;
    }
    Result<std::unique_ptr<SnapshotWriter>> writer = folder->OpenWriter(*CompressionOf(node()));
    if (!writer.ok()) return About(writer.status());
    writer_ = std::move(writer).value();
    // Without a writer somebody else writes, or has just completed it.
    if (writer_ != nullptr || again || from_input_) break;
  }
  phase_ = writer_ != nullptr ? Phase::kWriting : Phase::kPassing;
  input_used_ = true;
  return OkStatus();
}

Result<Ref<const Node>> SnapshotStage::ShardNode(const SnapshotIndex& index, size_t i) const {
  Attributes attributes;
  attributes.Set("value", Ref<const Value>(ValueOfSnapshotShard(index.shards[i], index.spec)));
  return Node::Create(kSnapshotShardOp, "", std::move(attributes), {});
}

// A dataset of the shards' datasets.
Result<Ref<const Node>> SnapshotStage::ShardsNode(const SnapshotIndex& index) const {
  const auto environment = Ref<DatasetEnvironment>::Retain(context_.environment);
  std::vector<Ref<Value>> shards;
  for (size_t i = 0; i < index.shards.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(Ref<const Node> shard, ShardNode(index, i));
    shards.push_back(Value::OfLeaf(
        Leaf(LeafKind::kDataset, Dataset::OfNode(environment, std::move(shard), {}))));
  }
  Attributes attributes;
  attributes.Set("value", Ref<const Value>(Value::List(shards)));
  return Node::Create(kFromElementsOp, "", std::move(attributes), {});
}

Result<Ref<const Node>> SnapshotStage::DefaultReader(const SnapshotIndex& index) const {
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> first, ShardNode(index, 0));
  if (index.shards.size() == 1) return first;
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> shards, ShardsNode(index));
  const auto count = static_cast<int64_t>(index.shards.size());
  Attributes attributes;
  attributes.Set("cycle_length", count)
      .Set("block_length", int64_t{1})
      .Set("num_parallel_calls", std::min(count, kMostReadingThreads))
      .Set("deterministic", true)
      .Set("seed", int64_t{0})
      .Set("seed_given", true);
  return Node::Create(kInterleaveOp, node().name(), std::move(attributes), {std::move(shards)},
                      {MakeRef<EachShard>(first->element_spec())});
}

Status SnapshotStage::OpenInner(const SnapshotIndex& index, const CallOptions& options) {
  if (!HasReader(node())) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<const Node> reader, DefaultReader(index));
    TUTTI_ASSIGN_OR_RETURN(inner_, inners_.MakePart(*reader, 0));
  } else {
    TUTTI_ASSIGN_OR_RETURN(Ref<const Node> shards, ShardsNode(index));
    const Ref<Dataset> dataset = Dataset::OfNode(
        Ref<DatasetEnvironment>::Retain(context_.environment), std::move(shards), {});
    TUTTI_ASSIGN_OR_RETURN(
        inner_, inners_.Make(Value::OfLeaf(Leaf(LeafKind::kDataset, dataset)), 0, options));
    const Status fits = CheckInner();
    if (!fits.ok()) {
      inners_.End(std::exchange(inner_, nullptr));
      return fits;
    }
  }
  digest_ = index.digest;
  return OkStatus();
}

// Whether what reader_func gave has the input's elements, as far as that is known now.
Status SnapshotStage::CheckInner() {
  must_check_ = false;
  const Ref<const ElementSpec> expected = node().element_spec();
  if (!expected) return OkStatus();
  const Ref<const ElementSpec> found = inner_->dataset()->known_element_spec();
  must_check_ = !found || !expected->IsMoreGeneralThan(*found);
  if (!found || !must_check_) return OkStatus();
  const Result<Ref<const ElementSpec>> both = expected->Relax(*found, "an element of its dataset");
  if (both.ok()) return OkStatus();
  return About(both.status().WithPrefix("reader_func must give the input's elements"));
}

void SnapshotStage::Read(const Demand& demand, const CallOptions& options, Slab* slab) {
  const Demand here{demand.count_only && !must_check_
                        ? demand.max_rows
                        : std::min(demand.max_rows, kMaxSlabRows),
                    demand.count_only && !must_check_, demand.Horizon(),
                    demand.all_wanted || must_check_, demand.tentative && !must_check_};
  if (!read_.empty()) {
    read_.Pop(here.max_rows, slab);
  } else {
    inner_->stage().Next(here, options, slab);
  }
  if (must_check_) {
    const Ref<const ElementSpec> expected = node().element_spec();
    for (int64_t i = 0; i < slab->rows; ++i) {
      const Result<Ref<Value>> row = slab->Row(i);
      const Status fits =
          row.ok()
              ? expected->Check(**row, "reader_func must give the input's elements; an element")
              : row.status();
      if (fits.ok()) continue;
      // It has failed; those behind it come later.
      read_.Prepend(*slab, i + 1);
      *slab = slab->Slice(0, i);
      slab->status = fits;
      break;
    }
  }
  if (!slab->status.ok() && !IsInterruption(slab->status)) {
    slab->status = About(std::move(slab->status));
  }
}

// The shard of each row; empty where all belong to one.
Result<std::vector<int64_t>> SnapshotStage::ShardsOf(const Slab& rows, const CallOptions& options) {
  std::vector<int64_t> shards;
  if (!sharder_) return shards;
  const auto add = [&](int64_t shard) -> Status {
    const int64_t index = position_ + static_cast<int64_t>(shards.size());
    shards.push_back(shard);
    if (shard >= 0) return OkStatus();
    return InvalidArgument("element {}: shard_func must give the number of a shard, 0 or more, and "
                           "gave {}",
                           index, shard)
        .With("index", index);
  };
  const bool whole = sharder_->takes_slabs() && RowsAreUniform({&rows, 1});
  for (int64_t row = 0; row < rows.rows;) {
    const int64_t index = position_ + row;
    if (sharder_->takes_slabs()) {
      const int64_t count = whole ? rows.rows : 1;
      std::optional<int64_t> failed;
      TUTTI_ASSIGN_OR_RETURN(
          const Slab given,
          sharder_->CallSlab(rows.Slice(row, row + count), index, options, &failed));
      for (const int64_t shard : given.columns[0].dense()->span<int64_t>()) {
        TUTTI_RETURN_IF_ERROR(add(shard));
      }
      row += count;
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Value> given, sharder_->CallRow(rows, row, index, options));
    TUTTI_ASSIGN_OR_RETURN(given, sharder_->Fit(std::move(given), index));
    TUTTI_RETURN_IF_ERROR(add(given->leaf(0).tensor().item<int64_t>()));
    ++row;
  }
  return shards;
}

// What the input gave goes to the writer. After an error the pass is not kept.
Status SnapshotStage::Write(const Slab& rows, const CallOptions& options) {
  const bool failed = !rows.status.ok() && !IsInterruption(rows.status);
  Status status;
  if (rows.rows > 0) {
    const Result<std::vector<int64_t>> shards = ShardsOf(rows, options);
    status = shards.status();
    if (IsInterruption(status)) return status;
    if (status.ok()) status = writer_->Append(rows, *shards, context_.account);
  }
  position_ += rows.rows;
  const bool complete = rows.end || position_ == node().input().cardinality();
  if (status.ok() && complete && !failed) {
    const Ref<const ElementSpec> spec = node().element_spec();
    status = writer_->Complete(spec.get());
    if (status.ok()) writer_.reset();
    if (status.ok()) return OkStatus();
  }
  if (!status.ok() || failed) {
    writer_.reset();
    phase_ = Phase::kPassing;
  }
  return status;
}

Status SnapshotStage::Save(StateWriter* writer) {
  writer->Section("snapshot");
  // What is half written is not gone on with.
  const Phase kept = writer_ != nullptr ? Phase::kRest : Phase::kPassing;
  const Phase phase = phase_ == Phase::kWriting ? kept : phase_;
  writer->Int(static_cast<int64_t>(phase));
  inners_.Save(writer);
  if (phase == Phase::kReading) {
    writer->Int(digest_);
    if (HasReader(node())) TUTTI_RETURN_IF_ERROR(inners_.SaveElement(*inner_, writer));
    TUTTI_RETURN_IF_ERROR(read_.Save(writer));
    return inner_->stage().Save(writer);
  }
  bool from_input = from_input_;
  if (phase == Phase::kFresh && !from_input && !context_.probe) {
    TUTTI_ASSIGN_OR_RETURN(const SnapshotFolder* const folder, Folder());
    const Result<std::optional<SnapshotIndex>> index = folder->ReadIndex();
    from_input = index.ok() && !index->has_value();
  }
  writer->Int(input_used_ ? 1 : 0);
  writer->Int(from_input ? 1 : 0);
  TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
  return Stage::Save(writer);
}

Status SnapshotStage::Restore(StateReader* reader, const CallOptions& options) {
  Forget();
  TUTTI_RETURN_IF_ERROR(inners_.EndAll(options));
  reader->Section("snapshot");
  const auto phase = static_cast<Phase>(reader->IntIn(0, static_cast<int64_t>(Phase::kRest)));
  inners_.Restore(reader);
  if (phase == Phase::kWriting) reader->Fail("a pass that is written is not gone on with");
  if (phase != Phase::kReading) {
    input_used_ = reader->IntIn(0, 1) != 0;
    from_input_ = reader->IntIn(0, 1) != 0;
    rows_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    phase_ = phase;
    return Stage::Restore(reader, options);
  }
  digest_ = reader->Int();
  TUTTI_RETURN_IF_ERROR(reader->status());
  TUTTI_ASSIGN_OR_RETURN(const SnapshotFolder* const folder, Folder());
  Result<std::optional<SnapshotIndex>> index = folder->ReadIndex();
  if (!index.ok()) return About(index.status());
  if (!index->has_value() || (*index)->digest != digest_) {
    return FailedPrecondition(
               "{}: restore: the state was saved while reading the snapshot in {}, {}; put it "
               "back, or begin anew",
               node().label(), Quote(folder->path()),
               index->has_value() ? "in whose place there is another one"
                                  : "which is not there any more")
        .With("file", folder->path());
  }
  if (HasReader(node())) {
    TUTTI_ASSIGN_OR_RETURN(inner_, inners_.RestoreElement(reader, options));
    TUTTI_RETURN_IF_ERROR(CheckInner());
  } else {
    TUTTI_ASSIGN_OR_RETURN(const Ref<const Node> made, DefaultReader(**index));
    TUTTI_ASSIGN_OR_RETURN(inner_, inners_.MakePart(*made, 0, true));
  }
  read_.Restore(reader);
  TUTTI_RETURN_IF_ERROR(reader->status());
  phase_ = Phase::kReading;
  return inner_->stage().Restore(reader, options);
}

Status CheckSnapshot(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckText(node, "path"));
  TUTTI_RETURN_IF_ERROR(CheckText(node, "compression"));
  TUTTI_RETURN_IF_ERROR(CheckBool(node, "reader_func"));
  TUTTI_RETURN_IF_ERROR(CheckBool(node, "shard_func"));
  TUTTI_RETURN_IF_ERROR(CheckSeed(node));
  if (node.attributes().Get<std::string>("path")->empty()) {
    return InvalidArgument("{}: path must name a folder, and is empty", node.label());
  }
  if (!CompressionOf(node)) {
    return InvalidArgument("{}: compression must be AUTO, GZIP, SNAPPY or none (NONE), got {}",
                           node.label(), Quote(*node.attributes().Get<std::string>("compression")));
  }
  TUTTI_RETURN_IF_ERROR(
      CheckFunctions(node, (HasReader(node) ? 1 : 0) + (HasSharder(node) ? 1 : 0)));
  const Ref<const ElementSpec> spec = node.input().element_spec();
  if (spec) TUTTI_RETURN_IF_ERROR(CheckSnapshotSpec(*spec).WithPrefix(node.label()));
  if (HasSharder(node)) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> output,
                           node.functions().back()->OutputSpec(spec.get()));
    const bool scalar = !output || (output->tree().is_leaf() && output->leaf(0).is_tensor() &&
                                    IsInteger(output->leaf(0).dtype) &&
                                    output->leaf(0).shape.IsCompatibleWith(PartialShape::Scalar()));
    if (!scalar) {
      return InvalidArgument("{}: shard_func must give an integer scalar, and gives {}",
                             node.label(), output->ToString());
    }
  }
  if (HasReader(node)) {
    const Ref<const ElementSpec> shards =
        spec ? ElementSpec::Dataset(ElementSpec::Dataset(spec)) : Ref<const ElementSpec>();
    TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> output,
                           node.function(0).OutputSpec(shards.get()));
    if (output && (!output->tree().is_leaf() || output->leaf(0).kind != LeafKind::kDataset)) {
      return InvalidArgument("{}: reader_func must give a dataset, and gives {}", node.label(),
                             output->ToString());
    }
  }
  return CheckContentFingerprint(node.input(), node, SharderOf(node));
}

Result<std::unique_ptr<Stage>> MakeSnapshot(const Node& node, const ExecContext& context,
                                            StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<SnapshotStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kSnapshotOp = {
    .name = "snapshot",
    // Of the functions reader_func comes first.
    .attributes = {{"path"},
                   {"compression", "AUTO"},
                   {"reader_func", false},
                   {"shard_func", false},
                   {"seed"},
                   {"seed_given", true},
                   {"seed_by_element"}},
    .passes_elements = true,
    .determinism = Determinism::kSeeded,
    .serializability = Serializability::kWithFunctions,
    .check = CheckSnapshot,
    .cardinality = CardinalityOfInput,
    .element_spec = SpecOfInput,
    .make_stage = MakeSnapshot,
};

Result<Ref<Dataset>> Dataset::Snapshot(std::string path, SnapshotOptions options) const {
  Attributes attributes;
  attributes.Set("path", std::move(path))
      .Set("compression", std::move(options.compression))
      .Set("reader_func", options.reader_func != nullptr)
      .Set("shard_func", options.shard_func != nullptr);
  // Only in what reader_func makes may something be drawn.
  if (!options.reader_func) attributes.Set("seed", int64_t{0});
  std::vector<Ref<Function>> functions;
  if (options.reader_func) functions.push_back(std::move(options.reader_func));
  if (options.shard_func) functions.push_back(std::move(options.shard_func));
  return Derive("snapshot", std::move(options.name), std::move(attributes), std::move(functions));
}

}  // namespace tutti
