#include "core/dataset/exec/recorded_writes.h"

#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"

namespace tutti {
namespace {

thread_local RecordedWrites* current_writes = nullptr;

}  // namespace

Status RecordedWrite::Add(Ref<const Dataset> dataset) {
  const std::lock_guard lock(mutex_);
  if (!open_) {
    return FailedPrecondition(
               "tf_record_writer: file {} is closed, or its writer was made in a dataset function "
               "that has returned; make a new writer, which overwrites the file",
               Quote(path_))
        .With("file", path_);
  }
  datasets_.push_back(std::move(dataset));
  return OkStatus();
}

void RecordedWrite::Close() {
  const std::lock_guard lock(mutex_);
  open_ = false;
}

void RecordedWrite::Abandon() {
  const std::lock_guard lock(mutex_);
  if (open_) abandoned_ = true;
  open_ = false;
}

RecordedWrites::RecordedWrites() : outer_(std::exchange(current_writes, this)) {}

RecordedWrites::~RecordedWrites() { End(); }

RecordedWrites* RecordedWrites::Current() noexcept { return current_writes; }

void RecordedWrites::End() {
  if (std::exchange(ended_, true)) return;
  current_writes = outer_;
  for (const Ref<RecordedWrite>& write : writes_) write->Close();
}

Result<Ref<const Dataset>> RecordedWrites::Before(Ref<const Dataset> dataset) && {
  End();
  std::vector<std::string> paths;
  std::vector<int64_t> compressions;
  std::vector<int64_t> levels;
  std::vector<int64_t> counts;
  std::vector<Ref<Dataset>> inputs = {
      Ref<Dataset>::Retain(const_cast<Dataset*>(dataset.get()))};
  for (const Ref<RecordedWrite>& write : writes_) {
    const std::lock_guard lock(write->mutex_);
    if (write->abandoned_) continue;
    paths.push_back(write->path_);
    compressions.push_back(write->compression_);
    levels.push_back(write->compression_level_);
    counts.push_back(static_cast<int64_t>(write->datasets_.size()));
    for (const Ref<const Dataset>& one : write->datasets_) {
      if (&one->environment()->environment() != &dataset->environment()->environment()) {
        return InvalidArgument(
                   "file {}: the dataset to be written is of another runtime than the one that the "
                   "function gives; make both in one",
                   Quote(write->path_))
            .With("file", write->path_);
      }
      inputs.push_back(Ref<Dataset>::Retain(const_cast<Dataset*>(one.get())));
    }
  }
  if (paths.empty()) return dataset;
  Attributes attributes;
  attributes.Set("paths", std::move(paths))
      .Set("compressions", std::move(compressions))
      .Set("levels", std::move(levels))
      .Set("counts", std::move(counts));
  TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made,
                         Dataset::Make(dataset->environment(), "after_writes", "",
                                       std::move(attributes), inputs));
  // The options are those of the dataset that the function gave.
  return Ref<const Dataset>(made->ReplaceOptions(dataset->options()));
}

}  // namespace tutti
