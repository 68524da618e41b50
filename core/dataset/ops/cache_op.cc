// cache: the elements of the first complete pass over the input, kept in memory or in a file; later
// passes read what is kept.
//
// A pass is complete when the input has ended, or has given as many elements as it says it has, and
// none of them failed. One that is given up, or in which an element failed, counts for nothing, and
// the next pass begins anew. What is kept in memory belongs to the definition: all iterators over
// it, and all that is built on it, share it; definitions made from bytes have their own. A file is
// used by whoever names it, whatever the input is.
//
// Iterators that make their first passes at the same time each give what their own input gives; the
// first that completes decides what is kept. A file has one definition that writes it: who finds
// another one writing, in this process or elsewhere, passes its input's elements through, and looks
// again when its next pass begins: then it reads what has been completed, or writes where the other
// has given up or died. Workers that read parts of the data (auto-sharding by FILE, or a shard
// below) keep their parts: a file says of which shards its elements are, and is INVALID_ARGUMENT
// for a dataset of others, also while it is being written, so that workers that share a disk are
// told to use a filename each.
//
// The state of an iterator is the position, and from where in the input the pass began that is
// kept, or is to be kept. Restore reads on in what is kept where that is the same pass (a file
// always is). Elsewhere, in another process for one, it makes the pass again up to the position and
// keeps it, so that later passes, too, give what they would have given; where another definition is
// writing the file by then, it passes the rest through. A pass that passes through goes on from the
// input's own position, whatever has been completed in the meantime.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/crc32c.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/cache_store.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

const std::string& FilenameOf(const Node& node) {
  return *node.attributes().Get<std::string>("filename");
}

// "shard 0 of 2": which part of the data comes in; empty for all of it.
std::string ShardsBelow(const Node& node) {
  constexpr size_t kMostBytes = 1024;
  std::string text;
  for (const Node* one : InputsFirst(node)) {
    if (!one->op().is_shard && &one->op() != &kShardNamesOp) continue;
    const int64_t num_shards = one->attributes().Int("num_shards");
    if (num_shards == 1 || num_shards == kShardHint) continue;
    const std::string shard = Format("shard {} of {}", one->attributes().Int("index"), num_shards);
    // Many equal ones are those of a chain of concatenate.
    if (!text.ends_with(shard)) text += (text.empty() ? "" : ", ") + shard;
  }
  if (text.size() <= kMostBytes) return text;
  return Format("{} (and more, crc32c {:08x})", text.substr(0, kMostBytes),
                Crc32c(text.data(), text.size()));
}

Ref<CacheStore> StoreOf(const Node& node, const ExecContext& context) {
  const std::string& filename = FilenameOf(node);
  Ref<RefCounted> shared = node.ShareAmongIterations(
      filename.empty() ? MakeMemoryCache(*context.environment, node.label())
                       : MakeFileCache(*context.environment, filename, ShardsBelow(node)));
  return Ref<CacheStore>::Retain(static_cast<CacheStore*>(shared.get()));
}

class CacheStage final : public Stage {
 public:
  CacheStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        context_(context),
        store_(StoreOf(node, context)),
        in_memory_(FilenameOf(node).empty()),
        rows_(input()),
        kept_(context, node, HeldBytes::Kind::kKept) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (phase_ == Phase::kFresh) {
      slab->status = Begin(options);
      if (!slab->status.ok() && !IsInterruption(slab->status)) {
        slab->status = WithLoss(std::move(slab->status), Loss::kMany);
      }
      if (!slab->status.ok()) return;
    }
    if (phase_ == Phase::kPassing) return rows_.Pull(demand, options, slab);
    if (phase_ == Phase::kReading) {
      reader_->Next(demand, slab);
      position_ += slab->rows;
      if (!slab->status.ok() && !IsInterruption(slab->status)) {
        slab->status = WithLoss(About(std::move(slab->status)), Loss::kMany);
      }
      return;
    }
    // Until one fails. Then it depends on what is asked for.
    rows_.Pull(Demand{std::min(demand.max_rows, kMaxSlabRows), false, demand.Horizon(),
                      demand.all_wanted},
               options, slab);
    // A call that has rows was not interrupted.
    if (slab->rows > 0 && IsInterruption(slab->status)) slab->status = OkStatus();
    Status status = Write(*slab);
    if (status.ok()) return;
    // The rows are not lost: they come with the next call.
    rows_.PutBack(*slab, 0);
    slab->Clear();
    slab->status = About(status.WithPrefix("this pass cannot be kept, and goes on without"));
  }

  Status Restart(const CallOptions&) override {
    // The input is restarted when it is needed again.
    Forget();
    return OkStatus();
  }

  Status Save(StateWriter* writer) override;
  Status Restore(StateReader* reader, const CallOptions& options) override;

  Status Join(const CallOptions& options) override {
    // What is half written, and the lock on it, goes with the iterator's close.
    writer_.reset();
    reader_.reset();
    return Stage::Join(options);
  }

 private:
  enum class Phase : int64_t {
    kFresh,    // nothing of this pass has been asked for
    kReading,  // what is kept
    kWriting,  // the input's elements, to be kept; without a writer when they are
    kPassing,  // the input's elements, not to be kept
  };

  void Forget() {
    phase_ = Phase::kFresh;
    position_ = 0;
    reader_.reset();
    writer_.reset();
    rows_.Clear();
    kept_.Clear();
  }

  Status About(Status status) const {
    return std::move(status).WithPrefix(node().label()).With("node", node().label());
  }

  Status OpenReader() {
    const Ref<const ElementSpec> spec = node().element_spec();
    Result<std::unique_ptr<CacheReader>> reader = store_->OpenReader(context_, spec.get());
    if (!reader.ok()) return About(std::move(reader).status());
    reader_ = std::move(reader).value();
    if (reader_ != nullptr && kept_.counts()) kept_.Set(reader_->bytes());
    return OkStatus();
  }

  // From origin_ on.
  Status OpenWriter() {
    const Ref<const ElementSpec> spec = node().element_spec();
    Result<std::unique_ptr<CacheWriter>> writer = store_->OpenWriter(spec.get(), origin_);
    if (!writer.ok()) return About(std::move(writer).status());
    writer_ = std::move(writer).value();
    return OkStatus();
  }

  // Decides what this pass gives.
  Status Begin(const CallOptions& options) {
    TUTTI_RETURN_IF_ERROR(OpenReader());
    if (reader_ == nullptr && input_used_) {
      TUTTI_RETURN_IF_ERROR(Stage::Restart(options));
      input_used_ = false;
    }
    if (reader_ == nullptr && !context_.probe) {
      StateWriter origin;
      origin_.status = Stage::Save(&origin);
      origin_.state = std::move(origin).TakeBytes();
      TUTTI_RETURN_IF_ERROR(OpenWriter());
      // Without a writer somebody else has just completed, or is writing.
      if (writer_ == nullptr) TUTTI_RETURN_IF_ERROR(OpenReader());
    }
    phase_ = reader_ != nullptr   ? Phase::kReading
             : writer_ != nullptr ? Phase::kWriting
                                  : Phase::kPassing;
    input_used_ = reader_ == nullptr;
    return OkStatus();
  }

  // What the input gave goes to the writer. After an error the pass is not kept.
  Status Write(const Slab& rows) {
    position_ += rows.rows;
    if (writer_ == nullptr) return OkStatus();
    Status status = in_memory_ ? kept_.CheckRoom() : OkStatus();
    if (status.ok()) status = writer_->Append(rows);
    if (in_memory_) kept_.Add(rows);
    const bool failed = !rows.status.ok() && !IsInterruption(rows.status);
    const bool complete = rows.end || position_ == node().input().cardinality();
    if (status.ok() && complete && !failed) {
      status = writer_->Complete();
      if (status.ok()) writer_.reset();
      if (status.ok()) return OkStatus();
    }
    if (!status.ok() || failed) {
      writer_.reset();
      kept_.Clear();
      phase_ = Phase::kPassing;
    }
    return status;
  }

  Status Replay(int64_t count, const CallOptions& options);

  const ExecContext& context_;
  const Ref<CacheStore> store_;
  const bool in_memory_;
  InputRows rows_;
  HeldBytes kept_;
  Phase phase_ = Phase::kFresh;
  int64_t position_ = 0;  // rows of this pass, while reading or writing
  std::unique_ptr<CacheReader> reader_;
  std::unique_ptr<CacheWriter> writer_;
  CacheOrigin origin_;       // of the pass that is written
  bool input_used_ = false;  // the input is not at the begin of a pass
};

Status CacheStage::Save(StateWriter* writer) {
  Phase phase = phase_;
  const CacheOrigin* origin = &origin_;
  std::unique_ptr<CacheReader> kept;
  if (phase == Phase::kReading) origin = reader_->origin();
  if (phase == Phase::kFresh && FilenameOf(node()).empty()) {
    // What is kept is what the pass to come gives, also where nothing is kept yet.
    TUTTI_ASSIGN_OR_RETURN(kept, store_->OpenReader(context_, nullptr));
    if (kept != nullptr) {
      phase = Phase::kReading;
      origin = kept->origin();
    }
  }
  writer->Section("cache");
  writer->Int(static_cast<int64_t>(phase));
  if (phase == Phase::kReading || phase == Phase::kWriting) {
    // A file stands for itself.
    if (origin != nullptr) TUTTI_RETURN_IF_ERROR(origin->status);
    writer->Bytes(origin != nullptr ? std::string_view(origin->state) : std::string_view());
    writer->Int(position_);
    return OkStatus();
  }
  writer->Int(input_used_ ? 1 : 0);
  TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
  return Stage::Save(writer);
}

Status CacheStage::Restore(StateReader* reader, const CallOptions& options) {
  Forget();
  reader->Section("cache");
  const auto phase = static_cast<Phase>(reader->IntIn(0, static_cast<int64_t>(Phase::kPassing)));
  if (phase == Phase::kFresh || phase == Phase::kPassing) {
    input_used_ = reader->IntIn(0, 1) != 0;
    rows_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    phase_ = phase;
    return Stage::Restore(reader, options);
  }
  origin_ = CacheOrigin{OkStatus(), std::string(reader->Bytes())};
  const int64_t position = reader->IntIn(0, kMaxInt);
  TUTTI_RETURN_IF_ERROR(reader->status());
  TUTTI_RETURN_IF_ERROR(OpenReader());
  const CacheOrigin* kept = reader_ != nullptr ? reader_->origin() : nullptr;
  if (reader_ != nullptr && (kept == nullptr || kept->state == origin_.state)) {
    const Status skipped = reader_->Skip(position);
    if (!skipped.ok()) return About(skipped.WithPrefix("restore"));
    phase_ = Phase::kReading;
    position_ = position;
    return OkStatus();
  }
  reader_.reset();
  if (origin_.state.empty()) {
    return FailedPrecondition(
               "{}: restore: the state was saved while reading the file {}.cache, which is not "
               "there any more; put it back, or begin anew",
               node().label(), FilenameOf(node()))
        .With("file", FilenameOf(node()) + ".cache");
  }
  StateReader origin(origin_.state, context_.environment);
  TUTTI_RETURN_IF_ERROR(Stage::Restore(&origin, options));
  TUTTI_RETURN_IF_ERROR(origin.status());
  input_used_ = true;
  TUTTI_RETURN_IF_ERROR(OpenWriter());
  // Somebody else keeps what there will be.
  phase_ = writer_ != nullptr ? Phase::kWriting : Phase::kPassing;
  return Replay(position, options);
}

// Makes the first `count` rows again, and writes them where this pass is to be kept.
Status CacheStage::Replay(int64_t count, const CallOptions& options) {
  Clock& clock = context_.environment->environment().clock();
  while (position_ < count) {
    TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, clock, node().label()));
    Slab rows;
    const int64_t left = count - position_;
    rows_.Pull(Demand{std::min(left, kMaxSlabRows), false, left}, options, &rows);
    if (IsInterruption(rows.status)) {
      if (rows.rows == 0) return rows.status;
      rows.status = OkStatus();
    }
    if (position_ + rows.rows == count) {
      // What comes behind the last row has not been delivered yet.
      rows_.PutBack(rows, rows.rows);
      rows.status = OkStatus();
      rows.end = false;
    } else if (!rows.status.ok()) {
      // It did not fail the first time; without it the rest would stand in other places.
      return rows.status.WithPrefix("restore");
    } else if (rows.end) {
      return FailedPrecondition("restore: {} has fewer elements than when the state was saved",
                                node().input().label());
    }
    const Status written = Write(rows);
    if (!written.ok()) return About(written.WithPrefix("restore"));
  }
  return OkStatus();
}

Status CheckCache(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckText(node, "filename"));
  const Ref<const ElementSpec> spec = node.input().element_spec();
  if (FilenameOf(node).empty() || !spec) return OkStatus();
  return CheckFileCacheSpec(*spec).WithPrefix(node.label());
}

Result<std::unique_ptr<Stage>> MakeCache(const Node& node, const ExecContext& context,
                                         StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<CacheStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kCacheOp = {
    .name = "cache",
    .attributes = {{"filename", ""}},
    .passes_elements = true,
    .check = CheckCache,
    .cardinality = CardinalityOfInput,
    .element_spec = SpecOfInput,
    .make_stage = MakeCache,
};

}  // namespace tutti
