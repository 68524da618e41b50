#include "core/dataset/exec/origins.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace tutti {

std::string Origin::ToString() const {
  return file == nullptr ? std::string() : Format(" (record {} of {})", record, Quote(*file));
}

Status Origin::About(Status status) const {
  if (file == nullptr) return status;
  return std::move(status).With("source_file", *file).With("source_record", record);
}

void Origins::Add(const Origin& first, int64_t rows) {
  const int64_t begin = std::exchange(rows_, rows_ + rows);
  if (rows == 0 || (runs_.empty() && first.file == nullptr)) return;
  if (!runs_.empty()) {
    const Run& last = runs_.back();
    const bool goes_on = last.first.file == first.file &&
                         (first.file == nullptr ||
                          last.first.record + (begin - last.begin) == first.record);
    if (goes_on) return;
  }
  runs_.push_back({begin, first});
}

Origin Origins::Of(int64_t row) const {
  const auto behind = std::upper_bound(runs_.begin(), runs_.end(), row,
                                       [](int64_t at, const Run& run) { return at < run.begin; });
  if (behind == runs_.begin() || row >= rows_) return {};
  const Run& run = *std::prev(behind);
  return {run.first.file, run.first.record + (row - run.begin)};
}

Origins Origins::Slice(int64_t begin, int64_t end) const {
  Origins part;
  if (runs_.empty()) return part;
  for (size_t i = 0; i < runs_.size(); ++i) {
    const int64_t run_end = i + 1 < runs_.size() ? runs_[i + 1].begin : rows_;
    const int64_t from = std::max(begin, runs_[i].begin);
    const int64_t to = std::min(end, run_end);
    if (from >= to) continue;
    // Rows before the first run are of no file.
    if (part.rows_ < from - begin) part.Add({}, from - begin - part.rows_);
    part.Add(Of(from), to - from);
  }
  return part;
}

}  // namespace tutti
