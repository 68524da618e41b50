// after_writes: the elements of the first input; before the first of them TFRecord files are
// written, each with all elements of some of the other inputs. It is what a dataset becomes whose
// function had writers (exec/recorded_writes.h); users have no such operation of their own.
//
// All files are written when anything is asked for that the first input has, its end, too: one
// after the other, in the order in which their writers were made. A file appears when it is whole.
// Where one cannot be written, that is the first element's failure: the element is gone, the files
// after that one are not written, and the next call goes on with the second element. An
// interruption loses nothing: the next call goes on with the file that was being written.
//
// The state says how many files there are. Restored behind the first element nothing is written, be
// the files still there or not; before it, what is missing is written, a file that was begun from
// its first element on, and with the elements that it would have had: of its inputs the state has
// where they stood before it was begun. So a file may be written twice, but never with other
// contents. Every pass over the dataset writes its files. Who looks at an element only, to learn
// what it is like, writes none.
#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/records/tf_record_writer.h"

namespace tutti {
namespace {

constexpr int64_t kRowsToWriteAtOnce = 1024;

const std::vector<std::string>& PathsOf(const Node& node) {
  return *node.attributes().Get<std::vector<std::string>>("paths");
}

int64_t NumberOf(const Node& node, std::string_view attribute, size_t file) {
  return (*node.attributes().Get<std::vector<int64_t>>(attribute))[file];
}

class AfterWritesStage final : public Stage {
 public:
  AfterWritesStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)), context_(context) {
    if (context.probe) file_ = num_files();
  }
  ~AfterWritesStage() override { GiveUpFile(); }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    while (file_ < num_files()) {
      slab->status = WriteFile(options);
      if (slab->status.ok()) continue;
      if (IsInterruption(slab->status)) return;
      slab->status = About(std::move(slab->status));
      GiveUpFile();
      file_ = num_files();
      owes_element_ = true;
      return;
    }
    if (owes_element_) {
      int64_t passed = 0;
      const Status interrupted = PassOver(input(), 1, options, &passed, &slab->status);
      if (!interrupted.ok()) {
        slab->status = interrupted;
        return;
      }
      owes_element_ = false;
      if (!slab->status.ok()) return;
    }
    input().Next(demand, options, slab);
  }

  Status Restart(const CallOptions& options) override {
    GiveUpFile();
    file_ = context_.probe ? num_files() : 0;
    owes_element_ = false;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("after_writes");
    writer->Int(static_cast<int64_t>(file_));
    writer->Int(owes_element_ ? 1 : 0);
    size_t next = FirstInputOf(file_);
    if (writer_) {
      for (const Begun& begun : begun_) {
        TUTTI_RETURN_IF_ERROR(begun.status);
        writer->Bytes(begun.state);
        ++next;
      }
    }
    for (; next < num_inputs(); ++next) {
      StateWriter state;
      TUTTI_RETURN_IF_ERROR(input(next).Save(&state));
      writer->Bytes(state.bytes());
    }
    return input().Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    GiveUpFile();
    reader->Section("after_writes");
    file_ = static_cast<size_t>(reader->IntIn(0, static_cast<int64_t>(num_files())));
    owes_element_ = reader->IntIn(0, 1) != 0;
    TUTTI_RETURN_IF_ERROR(reader->status());
    for (size_t i = FirstInputOf(file_); i < num_inputs(); ++i) {
      const std::string bytes(reader->Bytes());
      TUTTI_RETURN_IF_ERROR(reader->status());
      StateReader state(bytes, context_.environment);
      TUTTI_RETURN_IF_ERROR(input(i).Restore(&state, options));
      TUTTI_RETURN_IF_ERROR(state.status());
    }
    return input().Restore(reader, options);
  }

  void Stop() override {
    stopped_.store(true, std::memory_order_relaxed);
    Stage::Stop();
  }

  Status Join(const CallOptions& options) override {
    GiveUpFile();
    return Stage::Join(options);
  }

 private:
  // Where an input stood before its file was begun, or why nobody can say.
  struct Begun {
    Status status;
    std::string state;
  };

  size_t num_files() const { return PathsOf(node()).size(); }
  size_t CountOf(size_t file) const {
    return static_cast<size_t>(NumberOf(node(), "counts", file));
  }
  size_t FirstInputOf(size_t file) const {
    size_t first = 1;
    for (size_t i = 0; i < file; ++i) first += CountOf(i);
    return first;
  }

  Status About(const Status& status) const {
    const std::string& path = PathsOf(node())[file_];
    return Status(status)
        .WithPrefix(Format("file {}, which was to be written before the first element, was not",
                           Quote(path)))
        .With("file", path)
        .WithCause(status);
  }

  void GiveUpFile() {
    if (!writer_) return;
    (void)writer_->Abandon();
    writer_ = nullptr;
    begun_.clear();
  }

  Status BeginFile() {
    TfRecordWriterOptions options;
    options.compression = static_cast<RecordCompression>(NumberOf(node(), "compressions", file_));
    options.compression_level = static_cast<int>(NumberOf(node(), "levels", file_));
    options.by_finish_only = true;
    const size_t first = FirstInputOf(file_);
    begun_.clear();
    for (size_t i = first; i < first + CountOf(file_); ++i) {
      StateWriter state;
      begun_.push_back({input(i).Save(&state), {}});
      begun_.back().state = std::move(state).TakeBytes();
    }
    input_ = first;
    TUTTI_ASSIGN_OR_RETURN(writer_, TfRecordWriter::Create(
                                        context_.environment->environment_ref(),
                                        PathsOf(node())[file_], options));
    return OkStatus();
  }

  // The rest of file_, after which it is the next one's turn.
  Status WriteFile(const CallOptions& options) {
    Clock& clock = context_.environment->environment().clock();
    if (!writer_) TUTTI_RETURN_IF_ERROR(BeginFile());
    const size_t last = FirstInputOf(file_) + CountOf(file_);
    while (input_ < last) {
      TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, clock, node().label()));
      if (stopped_.load(std::memory_order_relaxed)) {
        return Cancelled("{}: the iterator was closed", node().label());
      }
      Slab rows;
      input(input_).Next(Demand::Made(kRowsToWriteAtOnce, kNoHorizon), options, &rows);
      TUTTI_RETURN_IF_ERROR(writer_->WriteRows(rows));
      if (rows.end) ++input_;
      // A call that has rows was not interrupted.
      if (rows.status.ok() || (IsInterruption(rows.status) && rows.rows > 0)) continue;
      return rows.status;
    }
    TUTTI_RETURN_IF_ERROR(writer_->Finish());
    writer_ = nullptr;
    begun_.clear();
    ++file_;
    return OkStatus();
  }

  const ExecContext& context_;
  size_t file_ = 0;            // the next one to be written
  bool owes_element_ = false;  // the first element has failed, and is passed over
  // Of the file that is being written.
  Ref<TfRecordWriter> writer_;
  std::vector<Begun> begun_;
  size_t input_ = 0;
  std::atomic<bool> stopped_{false};
};

Status CheckAfterWrites(const Node& node) {
  const auto* paths = node.attributes().Get<std::vector<std::string>>("paths");
  const auto numbers = [&](std::string_view name, int64_t low, int64_t high) {
    const auto* list = node.attributes().Get<std::vector<int64_t>>(name);
    return list != nullptr && paths != nullptr && list->size() == paths->size() &&
           std::ranges::all_of(*list, [&](int64_t one) { return low <= one && one <= high; });
  };
  const auto inputs = static_cast<int64_t>(node.inputs().size());
  if (!numbers("compressions", static_cast<int64_t>(RecordCompression::kNone),
               static_cast<int64_t>(RecordCompression::kZlib)) ||
      !numbers("levels", 0, 9) || !numbers("counts", 0, inputs)) {
    return InvalidArgument(
        "{}: expected a compression, a level and a number of datasets for each path", node.label());
  }
  int64_t left = inputs - 1;
  for (const int64_t count : *node.attributes().Get<std::vector<int64_t>>("counts")) {
    left -= std::min(count, left + 1);
  }
  if (left != 0) return InvalidArgument("{}: there are {} datasets", node.label(), inputs);
  return OkStatus();
}

Result<std::unique_ptr<Stage>> MakeAfterWrites(const Node& node, const ExecContext& context,
                                               StageInputs inputs) {
  return std::unique_ptr<Stage>(
      std::make_unique<AfterWritesStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kAfterWritesOp = {
    .name = "after_writes",
    .attributes = {{"paths"}, {"compressions"}, {"levels"}, {"counts"}},
    .num_inputs = -1,
    .row_ratio = RowRatio::kCombined,
    .check = CheckAfterWrites,
    .cardinality = CardinalityOfInput,
    .element_spec = SpecOfInput,
    .make_stage = MakeAfterWrites,
};

}  // namespace tutti
