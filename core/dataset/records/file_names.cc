#include "core/dataset/records/file_names.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

class FileNamesStage final : public Stage {
 public:
  FileNamesStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        names_(this->node(), input()) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    while (names_.empty()) {
      // Many elements without a name may follow each other.
      slab->status = CheckCallOptions(options, clock_, node().label());
      if (slab->status.ok()) names_.Pull(demand, options, slab);
      if (!slab->status.ok() || slab->end) return;
    }
    const auto most = static_cast<size_t>(std::min(demand.max_rows, kMaxSlabRows));
    const size_t rows = std::min(most, names_.size());
    if (!demand.count_only) {
      slab->status = AddColumn(rows, slab);
      if (!slab->status.ok()) return;
    }
    for (size_t i = 0; i < rows; ++i) names_.Take();
    slab->rows = static_cast<int64_t>(rows);
  }

  Status Restart(const CallOptions& options) override {
    names_.Clear();
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("file names");
    names_.SaveNames(writer);
    TUTTI_RETURN_IF_ERROR(names_.SaveInput(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    names_.Clear();
    reader->Section("file names");
    names_.RestoreNames(reader);
    names_.RestoreInput(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  Status AddColumn(size_t rows, Slab* slab) const {
    std::vector<BytesView> views;
    for (size_t i = 0; i < rows; ++i) views.push_back({names_[i].data(), names_[i].size()});
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> column,
                           Tensor::FromStrings(Shape({static_cast<int64_t>(rows)}), views));
    slab->tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
    slab->columns.push_back(Column::Dense(std::move(column)));
    return OkStatus();
  }

  const Clock& clock_;
  FileNames names_;
};

}  // namespace

void FileNames::Pull(const Demand& demand, const CallOptions& options, Slab* slab) {
  Slab element;
  // So many records lie in so many files, or fewer.
  input_.Pull(Demand::Made(1, demand.Horizon()), options, &element);
  if (element.rows == 0) {
    slab->status = std::move(element.status);
    slab->end = element.end;
    return;
  }
  // What follows the names comes after their records; an interruption need not come again.
  if (IsInterruption(element.status)) element.status = OkStatus();
  input_.PutBack(element, 1);
  names_.clear();
  next_ = 0;
  const Leaf leaf = element.columns.size() == 1 ? element.columns[0].Row(0) : Leaf::None();
  if (!leaf.is_tensor() || leaf.tensor().dtype() != DType::kBytes || leaf.tensor().rank() > 1) {
    slab->status = InvalidArgument(
        "{}: an element of its input should name files (bytes[] or bytes[n]) and is {}",
        node_.label(),
        leaf.is_tensor() ? leaf.tensor().SpecString() : std::string(LeafKindName(leaf.kind())));
    return;
  }
  const Tensor& names = leaf.tensor();
  names_.reserve(static_cast<size_t>(names.num_elements()));
  for (int64_t i = 0; i < names.num_elements(); ++i) {
    names_.emplace_back(static_cast<const BytesView*>(names.ElementAt(i))->text());
  }
}

void FileNames::Clear() {
  input_.Clear();
  names_.clear();
  next_ = 0;
}

void FileNames::SaveNames(StateWriter* writer) const {
  writer->Int(static_cast<int64_t>(size()));
  for (size_t i = 0; i < size(); ++i) writer->Bytes((*this)[i]);
}

void FileNames::RestoreNames(StateReader* reader) {
  for (int64_t left = reader->IntIn(0, INT64_MAX); left > 0 && reader->ok(); --left) {
    names_.emplace_back(reader->Bytes());
  }
}

std::unique_ptr<Stage> MakeFileNamesStage(const Node& node, const ExecContext& context,
                                          StageInputs inputs) {
  return std::make_unique<FileNamesStage>(node, context, std::move(inputs));
}

}  // namespace tutti
