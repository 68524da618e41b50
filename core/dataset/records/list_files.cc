#include "core/dataset/records/list_files.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/disk.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/function/function.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

// The shuffle's buffer is to hold all names; it grows with what there is.
constexpr int64_t kShuffleBuffer = int64_t{1} << 32;

std::span<const std::string> PatternsOf(const Node& node) {
  const auto* patterns = node.attributes().Get<std::vector<std::string>>("patterns");
  return patterns != nullptr ? std::span<const std::string>(*patterns)
                             : std::span<const std::string>();
}

// For messages.
std::string PatternText(const Node& node) {
  std::string text;
  for (const std::string& pattern : PatternsOf(node)) {
    if (!text.empty()) text += ", ";
    text += Quote(pattern);
  }
  return text;
}

// Sorted, each once, without directories.
Result<std::vector<std::string>> FindFiles(Disk& disk, std::span<const std::string> patterns) {
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> matches, disk.Glob(pattern));
    for (const std::string& path : matches) {
      const Result<FileInfo> info = disk.Stat(path);
      if (info.ok() && !info->is_directory) paths.push_back(path);
    }
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

class ListFilesSource final : public Stage {
 public:
  ListFilesSource(const Node& node, const ExecContext& context)
      : Stage(node, {}), context_(context) {}

  void Next(const Demand& demand, const CallOptions&, Slab* slab) override {
    if (!looked_up_) {
      // All files are lost with it.
      slab->status = WithLoss(LookUp(), Loss::kMany);
      if (!slab->status.ok()) return;
    }
    const size_t count = static_cast<size_t>(std::min<int64_t>(
        {demand.max_rows, kMaxSlabRows, static_cast<int64_t>(paths_.size() - next_)}));
    slab->end = next_ + count == paths_.size();
    if (count == 0) return;
    slab->rows = static_cast<int64_t>(count);
    if (!demand.count_only) {
      slab->status = Pack(std::span(paths_).subspan(next_, count), slab);
      if (!slab->status.ok()) {
        slab->rows = 0;
        slab->end = false;
        return;
      }
    }
    next_ += count;
  }

  Status Restart(const CallOptions&) override {
    Forget();
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section(node().op().name);
    writer->Int(looked_up_ && paths_.empty());
    writer->Int(static_cast<int64_t>(next_));
    writer->Bytes(next_ > 0 ? std::string_view(paths_[next_ - 1]) : std::string_view());
    return OkStatus();
  }

  Status Restore(StateReader* reader, const CallOptions&) override {
    Forget();
    reader->Section(node().op().name);
    const bool found_nothing = reader->IntIn(0, 1) != 0;
    const auto next = static_cast<size_t>(reader->IntIn(0, INT64_MAX));
    const std::string last(reader->Bytes());
    TUTTI_RETURN_IF_ERROR(reader->status());
    if (next == 0) {
      looked_up_ = found_nothing;  // which has been reported
      return OkStatus();
    }
    TUTTI_RETURN_IF_ERROR(LookUp());
    if (next > paths_.size() || paths_[next - 1] != last) {
      return FailedPrecondition(
                 "{}: the files that match {} are not the ones that matched when the "
                 "state was saved: file {} was {} and is {}; start a new iteration",
                 node().label(), PatternText(node()), next - 1, Quote(last),
                 next > paths_.size() ? "missing" : Quote(paths_[next - 1]))
          .With("file", last)
          .With("index", next - 1);
    }
    next_ = next;
    return OkStatus();
  }

 private:
  Status LookUp() {
    looked_up_ = true;
    Result<std::vector<std::string>> paths =
        FindFiles(context_.environment->environment().disk(), PatternsOf(node()));
    if (!paths.ok()) return std::move(paths).status().WithPrefix(node().label());
    paths_ = std::move(paths).value();
    if (!paths_.empty()) return OkStatus();
    const std::string patterns = PatternText(node());
    return NotFound(
               "{}: no file matches {}; check the path, the pattern is taken from the current "
               "directory unless it begins with /",
               node().label(), patterns)
        .With("patterns", patterns);
  }

  void Forget() {
    looked_up_ = false;
    paths_.clear();
    next_ = 0;
  }

  static Status Pack(std::span<const std::string> paths, Slab* slab) {
    std::vector<BytesView> views;
    views.reserve(paths.size());
    for (const std::string& path : paths) views.push_back({path.data(), path.size()});
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> rows,
                           Tensor::FromStrings(Shape({static_cast<int64_t>(views.size())}), views));
    slab->tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
    slab->columns.push_back(Column::Dense(std::move(rows)));
    return OkStatus();
  }

  const ExecContext& context_;
  bool looked_up_ = false;
  std::vector<std::string> paths_;
  size_t next_ = 0;
};

Status CheckListFiles(const Node& node) {
  const std::span<const std::string> patterns = PatternsOf(node);
  if (patterns.empty()) {
    return InvalidArgument("{}: there is no pattern; pass at least one, \"data/*.tfrecord\" say",
                           node.label());
  }
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].empty()) {
      return InvalidArgument("{}: pattern {} is empty", node.label(), i).With("index", i);
    }
  }
  return OkStatus();
}

}  // namespace

constinit const OpTraits kListFilesOp = {
    .name = "list_files",
    .attributes = {{"patterns"}},
    .num_inputs = 0,
    .row_ratio = RowRatio::kSource,
    .can_seek = true,
    .is_file_source = true,
    .check = CheckListFiles,
    .cardinality = [](const Node&) { return kUnknownCardinality; },
    .element_spec = [](const Node&) -> Result<Ref<const ElementSpec>> {
      return ElementSpec::OfTensor(DType::kBytes, PartialShape::Scalar());
    },
    .make_stage = [](const Node& node, const ExecContext& context,
                     StageInputs) -> Result<std::unique_ptr<Stage>> {
      return std::unique_ptr<Stage>(std::make_unique<ListFilesSource>(node, context));
    },
};

Result<Ref<Dataset>> MakeListFilesDataset(const Ref<DatasetEnvironment>& environment,
                                          std::vector<std::string> patterns,
                                          ListFilesOptions options) {
  Attributes attributes;
  attributes.Set("patterns", std::move(patterns));
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Dataset> files,
      Dataset::Make(environment, kListFilesOp.name, options.name, std::move(attributes), {}));
  if (!options.shuffle) return files;
  return files->Shuffle(kShuffleBuffer, {.name = std::move(options.name), .seed = options.seed});
}

Result<Ref<Dataset>> MakeFileNamesDataset(const Ref<DatasetEnvironment>& environment,
                                          std::span<const std::string> paths) {
  std::vector<BytesView> views;
  views.reserve(paths.size());
  for (const std::string& path : paths) views.push_back({path.data(), path.size()});
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> names,
                         Tensor::FromStrings(Shape({static_cast<int64_t>(views.size())}), views));
  return Dataset::FromTensorSlices(environment, Value::OfTensor(std::move(names)));
}

}  // namespace tutti
