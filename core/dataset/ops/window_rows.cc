#include "core/dataset/ops/window_rows.h"

#include <algorithm>
#include <utility>

#include "core/base/environment.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/pick_rows.h"
#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {

Windows Windows::Of(const Node& node) {
  const Attributes& attributes = node.attributes();
  Windows all;
  all.size = attributes.Int("size");
  const int64_t* shift = attributes.Get<int64_t>("shift");
  all.shift = shift != nullptr ? *shift : all.size;
  all.stride = attributes.Int("stride");
  all.drop_remainder = attributes.Bool("drop_remainder");
  all.span = HorizonPlus(HorizonTimes(all.size - 1, all.stride), 1);
  return all;
}

WindowRows::WindowRows(const Node& window, Stage& input, const ExecContext& context)
    : node_(window),
      input_(input),
      clock_(context.environment->environment().clock()),
      account_(context.account),
      windows_(Windows::Of(window)),
      kept_(context, window, HeldBytes::Kind::kKept) {}

void WindowRows::Clear() {
  parts_.clear();
  kept_.Clear();
  first_ = places_ = next_ = 0;
  ended_ = false;
  lost_ = OkStatus();
}

Status WindowRows::Save(StateWriter* writer) const {
  writer->Int(first_);
  writer->Int(next_);
  writer->Int(ended_ ? 1 : 0);
  writer->Failure(lost_);
  HeldRows held;
  std::vector<int64_t> used;
  for (const Part& part : parts_) {
    held.Append(part.rows);
    used.push_back(part.used ? 1 : 0);
  }
  writer->Ints(used);
  return held.Save(writer);
}

void WindowRows::Restore(StateReader* reader) {
  Clear();
  first_ = reader->IntIn(0, Windows::kMostPlaces);
  next_ = reader->IntIn(first_, Windows::kMostPlaces);
  ended_ = reader->IntIn(0, 1) != 0;
  lost_ = reader->Failure();
  const std::vector<int64_t> used = reader->Ints();
  HeldRows held;
  held.Restore(reader);
  for (size_t i = 0; reader->ok() && !held.empty(); ++i) {
    Part part;
    held.Pop(kMaxSlabRows, &part.rows);
    part.used = i < used.size() && used[i] != 0;
    part.rows.end = false;
    if ((part.rows.rows > 0) == part.rows.status.ok()) {
      Append(std::move(part));
    } else {
      reader->Fail("an impossible part of a window");
    }
  }
  if (reader->ok() && !parts_.empty() && next_ >= end()) reader->Fail("an impossible window");
}

void WindowRows::Append(Part part) {
  places_ += part.places();
  parts_.push_back(std::move(part));
}

void WindowRows::CountKept() {
  if (!kept_.counts()) return;
  int64_t bytes = 0;
  for (const Part& part : parts_) bytes += ElementBytes(part.rows);
  kept_.Set(bytes);
}

bool WindowRows::IsReady() const {
  return ended_ || (next_ <= end() && end() - next_ >= windows_.span);
}

bool WindowRows::IsOver() const {
  if (!ended_) return false;
  return windows_.drop_remainder ? next_ > end() || end() - next_ < windows_.span
                                 : next_ >= end();
}

Status WindowRows::End() {
  ForgetUntil(end());
  next_ = std::max(next_, end());
  return std::exchange(lost_, OkStatus());
}

Status WindowRows::TakeLoss() {
  return LossOf(lost_) == Loss::kMany ? std::exchange(lost_, OkStatus()) : OkStatus();
}

Status WindowRows::Read(const Demand& demand, const CallOptions& options) {
  for (bool first = true; !IsReady(); first = false) {
    if (!first) TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, clock_, node_.label()));
    const int64_t gap = next_ - end();
    const int64_t last = LastOf(std::min(demand.max_rows, kMaxSlabRows));
    if (gap <= 0) TUTTI_RETURN_IF_ERROR(kept_.CheckRoom());
    const int64_t wanted =
        gap > 0 ? gap : kept_.RowsThatFit(std::min(last - end(), kMaxSlabRows));
    Slab in;
    // Rows of windows are made also where the windows are passed over.
    const bool all_wanted = windows_.shift <= windows_.span;
    input_.Next(Demand{wanted, gap > 0, Horizon(demand), all_wanted, false}, options, &in);
    ended_ = in.end;
    if (in.rows > 0 || !in.status.ok()) HearOfMore(in.status);
    Status status = std::exchange(in.status, OkStatus());
    in.end = false;
    if (gap > 0) {
      first_ += in.rows;
    } else if (in.rows > 0) {
      kept_.Add(in);
      Append({std::move(in)});
    }
    if (status.ok()) continue;
    if (IsInterruption(status)) return status;
    if (LossOf(status) == Loss::kMany) {
      // Windows that are complete come before it.
      lost_ = std::move(status);
      if (!parts_.empty() && parts_.back().failed()) parts_.back().used = true;
      return IsReady() ? OkStatus() : std::exchange(lost_, OkStatus());
    }
    if (gap > in.rows) {
      ++first_;
      Lose(std::move(status));
    } else {
      Part failed;
      failed.rows.status = std::move(status);
      Append(std::move(failed));
    }
  }
  return OkStatus();
}

// Behind the last element of so many windows; of one, where elements lie between them.
int64_t WindowRows::LastOf(int64_t windows) const {
  if (windows_.shift > windows_.span) windows = 1;
  return HorizonPlus(HorizonTimes(windows - 1, windows_.shift),
                     HorizonPlus(next_, windows_.span));
}

int64_t WindowRows::Horizon(const Demand& demand) const {
  const int64_t windows = demand.Horizon();
  if (windows == kNoHorizon) return kNoHorizon;
  const int64_t last = HorizonPlus(HorizonTimes(windows - 1, windows_.shift),
                                   HorizonPlus(next_, windows_.span));
  return last == kNoHorizon ? kNoHorizon : last - end();
}

// An element that no window failed with. It is passed over, unless others were lost with it.
void WindowRows::Lose(Status status) {
  if (LossOf(status) == Loss::kElement || LossOf(lost_) == Loss::kMany) return;
  lost_ = std::move(status);
}

// Something comes behind a failure after which there might have been nothing.
void WindowRows::HearOfMore(const Status& status) {
  if (LossOf(lost_) == Loss::kPerhapsRest && !IsInterruption(status)) lost_ = OkStatus();
}

// Elements before `place` are not needed any more.
void WindowRows::ForgetUntil(int64_t place) {
  while (!parts_.empty() && first_ < place) {
    Part& part = parts_.front();
    const int64_t dropped = std::min(place - first_, part.places());
    first_ += dropped;
    places_ -= dropped;
    if (dropped < part.places()) {
      part.rows = part.rows.Slice(dropped, part.places());
      continue;
    }
    Part gone = std::move(part);
    parts_.pop_front();
    if (!gone.failed()) continue;
    const bool more = LossOf(gone.rows.status) == Loss::kPerhapsRest && !parts_.empty();
    if (gone.used || more) continue;
    Lose(std::move(gone.rows.status));
  }
}

int64_t WindowRows::NextSize() const {
  return std::min(windows_.size, CeilOf(end() - next_, windows_.stride));
}

Result<std::vector<Slab>> WindowRows::Pick(int64_t begin, int64_t end, bool count_only) {
  std::vector<Slab> picks;
  Status failure;
  int64_t at = first_;
  int64_t place = next_ + begin * windows_.stride;  // of the next element
  int64_t missing = end - begin;
  std::vector<int64_t> picked;
  for (Part& part : parts_) {
    const int64_t behind = at + part.places();
    picked.clear();
    while (missing > 0 && place < behind) {
      picked.push_back(place - at);
      if (--missing > 0) place += windows_.stride;
    }
    at = behind;
    if (picked.empty()) continue;
    if (part.failed()) {
      part.used = true;
      if (failure.ok()) failure = part.rows.status;
    } else if (!count_only && failure.ok()) {
      TUTTI_ASSIGN_OR_RETURN(Slab rows, PickRows(part.rows, picked, account_));
      picks.push_back(std::move(rows));
    }
  }
  TUTTI_RETURN_IF_ERROR(failure);
  return picks;
}

void WindowRows::Pass(int64_t windows) {
  next_ = HorizonPlus(next_, HorizonTimes(windows, windows_.shift));
  ForgetUntil(std::min(next_, end()));
}

int64_t WindowRows::WholeWindows() const {
  int64_t clean = first_;
  for (const Part& part : parts_) {
    if (part.failed()) break;
    clean += part.rows.rows;
  }
  if (clean < next_ || clean - next_ < windows_.span) return 0;
  return (clean - next_ - windows_.span) / windows_.shift + 1;
}

std::vector<Slab> WindowRows::Slices(int64_t begin, int64_t end) const {
  std::vector<Slab> slices;
  int64_t at = first_ - next_;
  for (const Part& part : parts_) {
    const int64_t behind = at + part.places();
    const int64_t from = std::max(begin, at);
    const int64_t to = std::min(end, behind);
    if (from < to) slices.push_back(part.rows.Slice(from - at, to - at));
    at = behind;
    if (at >= end) break;
  }
  return slices;
}

Result<Slab> WindowRows::OnePiece(int64_t begin, int64_t end) {
  std::vector<Slab> slices = Slices(begin, end);
  if (slices.size() == 1) return std::move(slices[0]);
  // All parts before the first that failed, so that the next ones need not be put together again.
  size_t parts = 0;
  std::vector<Slab> all;
  for (; parts < parts_.size() && !parts_[parts].failed(); ++parts) {
    all.push_back(parts_[parts].rows);
  }
  TUTTI_ASSIGN_OR_RETURN(Slab joined, JoinRows(all, account_));
  parts_.erase(parts_.begin(), parts_.begin() + static_cast<ptrdiff_t>(parts));
  parts_.push_front(Part{std::move(joined), false});
  slices = Slices(begin, end);
  return std::move(slices[0]);
}

}  // namespace tutti
