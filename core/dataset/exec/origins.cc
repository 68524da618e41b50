#include "core/dataset/exec/origins.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace tutti {

std::string Origin::ToString() const {
  if (file == nullptr) return {};
  if (records == 1) return Format(" (record {} of {})", record, Quote(*file));
  return Format(" (records {} to {} of {})", record, record + records - 1, Quote(*file));
}

Status Origin::About(Status status) const {
  if (file == nullptr) return status;
  status = std::move(status).With("source_file", *file).With("source_record", record);
  if (records == 1) return status;
  return std::move(status).With("source_last_record", record + records - 1);
}

void Origins::Add(const Origin& first, int64_t rows) {
  const int64_t begin = std::exchange(rows_, rows_ + rows);
  if (rows == 0 || (runs_.empty() && first.file == nullptr)) return;
  if (!runs_.empty()) {
    const Run& last = runs_.back();
    const bool goes_on = last.first.file == first.file &&
                         (first.file == nullptr || (last.first.records == first.records &&
                                                    last.Of(begin).record == first.record));
    if (goes_on) return;
  }
  runs_.push_back({begin, first});
}

void Origins::Append(const Origins& others, int64_t rows) {
  int64_t at = 0;
  for (size_t i = 0; i < others.runs_.size() && at < rows; ++i) {
    const Run& run = others.runs_[i];
    // Rows before the first run are of no file.
    if (run.begin > at) Add({}, run.begin - at);
    const int64_t end = i + 1 < others.runs_.size() ? others.runs_[i + 1].begin : others.rows_;
    Add(run.first, end - run.begin);
    at = end;
  }
  if (at < rows) Add({}, rows - at);
}

std::vector<Origins::Run>::const_iterator Origins::Find(int64_t row) const {
  const auto behind = std::upper_bound(runs_.begin(), runs_.end(), row,
                                       [](int64_t at, const Run& run) { return at < run.begin; });
  return behind == runs_.begin() || row >= rows_ ? runs_.end() : std::prev(behind);
}

Origin Origins::Of(int64_t row) const {
  const auto run = Find(row);
  return run == runs_.end() ? Origin() : run->Of(row);
}

Origin Origins::Among(int64_t begin, int64_t end) const {
  auto run = Find(begin);
  if (run == runs_.end() || run->first.file == nullptr || end > rows_) return {};
  Origin all = run->Of(begin);
  int64_t behind = all.record;
  for (int64_t row = begin; row < end; ++run) {
    if (run->first.file != all.file) return {};
    const int64_t run_end = std::min(end, std::next(run) == runs_.end() ? rows_
                                                                        : std::next(run)->begin);
    const Origin last = run->Of(run_end - 1);
    all.record = std::min(all.record, run->Of(row).record);
    behind = std::max(behind, last.record + last.records);
    row = run_end;
  }
  all.records = behind - all.record;
  return all;
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
