#include "core/dataset/exec/input_rows.h"

#include <string>
#include <utility>

namespace tutti {
namespace {

// What is left of `slab` from row `from` on, with what comes after its rows.
Slab Rest(const Slab& slab, int64_t from) {
  Slab rest = slab.Slice(from, slab.rows);
  rest.status = slab.status;
  rest.end = slab.end;
  return rest;
}

}  // namespace

void HeldRows::Prepend(const Slab& slab, int64_t from) {
  if (from == slab.rows && slab.status.ok() && !slab.end) return;
  slabs_.push_front(Rest(slab, from));
}

void HeldRows::Pop(int64_t max_rows, Slab* slab) {
  Slab& front = slabs_.front();
  if (front.rows <= max_rows) {
    *slab = std::move(front);
    slabs_.pop_front();
    return;
  }
  *slab = front.Slice(0, max_rows);
  front = Rest(front, max_rows);
}

Status HeldRows::Save(StateWriter* writer) const {
  writer->Int(static_cast<int64_t>(slabs_.size()));
  for (const Slab& slab : slabs_) {
    writer->Failure(slab.status);
    writer->Int(slab.end ? 1 : 0);
    TUTTI_RETURN_IF_ERROR(writer->Rows(slab));
  }
  return OkStatus();
}

void HeldRows::Restore(StateReader* reader) {
  slabs_.clear();
  constexpr int64_t kMost = 1 << 20;
  const int64_t count = reader->IntIn(0, kMost);
  for (int64_t i = 0; i < count && reader->ok(); ++i) {
    Slab slab;
    slab.status = reader->Failure();
    slab.end = reader->IntIn(0, 1) != 0;
    reader->Rows(&slab);
    if (slab.rows > 0 && !slab.tree) reader->Fail("rows that are held have no columns");
    slabs_.push_back(std::move(slab));
  }
  if (!reader->ok()) slabs_.clear();
}

void InputRows::Pull(const Demand& demand, const CallOptions& options, Slab* slab) {
  if (held_.empty()) return input_.Next(demand, options, slab);
  held_.Pop(demand.max_rows, slab);
}

}  // namespace tutti
