#include "core/dataset/exec/numbered_rows.h"

#include <limits>
#include <utility>

namespace tutti {
namespace {

// What is left from row `from` on.
NumberedRows::Run RestOf(const NumberedRows::Run& run, int64_t from) {
  NumberedRows::Run rest{run.slab.Slice(from, run.slab.rows), run.first + from};
  rest.slab.status = run.slab.status;
  rest.slab.end = run.slab.end;
  return rest;
}

Status SaveRun(const NumberedRows::Run& run, StateWriter* writer) {
  writer->Int(run.first);
  writer->Failure(run.slab.status);
  writer->Int(run.slab.end ? 1 : 0);
  return writer->Rows(run.slab);
}

}  // namespace

void NumberedRows::Pull(const Demand& demand, const CallOptions& options, Run* run) {
  if (held_.empty()) {
    input_.Next(demand, options, &run->slab);
    run->first = next_;
    // A call that has rows was not interrupted.
    if (run->slab.rows > 0 && IsInterruption(run->slab.status)) run->slab.status = OkStatus();
    const bool failed = !run->slab.status.ok() && !IsInterruption(run->slab.status);
    next_ += run->slab.rows + (failed ? 1 : 0);
    return;
  }
  Run& front = held_.front();
  if (front.slab.rows <= demand.max_rows) {
    *run = std::move(front);
    held_.pop_front();
    return;
  }
  Run rest = RestOf(front, demand.max_rows);
  run->slab = front.slab.Slice(0, demand.max_rows);
  run->first = front.first;
  front = std::move(rest);
}

void NumberedRows::PutBack(const Run& run, int64_t from) {
  if (from == run.slab.rows && run.slab.status.ok() && !run.slab.end) return;
  held_.push_front(RestOf(run, from));
}

Status NumberedRows::Save(StateWriter* writer, std::span<const Run> taken) const {
  writer->Int(next_);
  writer->Int(static_cast<int64_t>(taken.size() + held_.size()));
  for (const Run& run : taken) TUTTI_RETURN_IF_ERROR(SaveRun(run, writer));
  for (const Run& run : held_) TUTTI_RETURN_IF_ERROR(SaveRun(run, writer));
  return OkStatus();
}

void NumberedRows::Restore(StateReader* reader) {
  constexpr int64_t kMostRuns = 1 << 20;
  held_.clear();
  next_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
  const int64_t count = reader->IntIn(0, kMostRuns);
  for (int64_t i = 0; i < count && reader->ok(); ++i) {
    Run run;
    run.first = reader->IntIn(0, next_);
    run.slab.status = reader->Failure();
    run.slab.end = reader->IntIn(0, 1) != 0;
    reader->Rows(&run.slab);
    if (run.slab.rows > 0 && !run.slab.tree) reader->Fail("rows that are held have no columns");
    held_.push_back(std::move(run));
  }
  if (!reader->ok()) Clear();
}

void NumberedRows::Clear() {
  held_.clear();
  next_ = 0;
}

}  // namespace tutti
