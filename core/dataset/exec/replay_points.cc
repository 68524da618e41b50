#include "core/dataset/exec/replay_points.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"

namespace tutti {
namespace {

// Failures without a row between them; an input that goes on like this may do so for ever.
constexpr int64_t kMostFailures = 10'000;

class FailureCount {
 public:
  // What a call of Next gave. Returns the failure that is one too many, and interruptions.
  Status Add(const Slab& slab) {
    if (IsInterruption(slab.status)) return slab.status;
    in_a_row_ = slab.rows > 0 ? 0 : in_a_row_ + 1;
    return in_a_row_ > kMostFailures ? slab.status : OkStatus();
  }

 private:
  int64_t in_a_row_ = 0;
};

// Passes over `count` rows; failed elements in between are not rows.
Status PassRows(Stage& input, int64_t count, const CallOptions& options) {
  FailureCount failures;
  while (count > 0) {
    Slab slab;
    input.Next(Demand{count, true}, options, &slab);
    count -= slab.rows;
    TUTTI_RETURN_IF_ERROR(failures.Add(slab));
    if (count > 0 && slab.end) {
      return FailedPrecondition("restore: {} has fewer elements than when the state was saved",
                                input.node().label());
    }
  }
  return OkStatus();
}

}  // namespace

Status ReplayPoints::Add(Stage& input, int64_t position) {
  StateWriter writer;
  Status status = input.Save(&writer);
  if (!status.ok()) return points_.empty() ? status : OkStatus();
  points_.push_back(Point{position, std::move(writer).TakeBytes()});
  return OkStatus();
}

void ReplayPoints::Forget(int64_t oldest) {
  size_t unneeded = 0;
  while (unneeded + 1 < points_.size() && points_[unneeded + 1].position <= oldest) ++unneeded;
  points_.erase(points_.begin(), points_.begin() + static_cast<ptrdiff_t>(unneeded));
}

void ReplayPoints::Save(StateWriter* writer) const {
  writer->Int(static_cast<int64_t>(points_.size()));
  for (const Point& point : points_) {
    writer->Int(point.position);
    writer->Bytes(point.state);
  }
}

void ReplayPoints::Restore(StateReader* reader) {
  constexpr int64_t kMost = 1 << 20;
  points_.clear();
  const int64_t count = reader->IntIn(0, kMost);
  int64_t last = 0;
  for (int64_t i = 0; i < count && reader->ok(); ++i) {
    last = reader->IntIn(last, std::numeric_limits<int64_t>::max());
    points_.push_back(Point{last, std::string(reader->Bytes())});
  }
}

Status ReplayPoints::Replay(Stage& input, std::span<const int64_t> positions,
                            DatasetEnvironment* environment, const CallOptions& options,
                            Taker* taker) const {
  size_t next = 0;
  for (size_t p = 0; p < points_.size() && next < positions.size(); ++p) {
    const int64_t limit =
        p + 1 < points_.size() ? points_[p + 1].position : std::numeric_limits<int64_t>::max();
    int64_t at = points_[p].position;
    if (positions[next] < at) break;
    if (positions[next] >= limit) continue;
    StateReader reader(points_[p].state, environment);
    TUTTI_RETURN_IF_ERROR(input.Restore(&reader, options));
    TUTTI_RETURN_IF_ERROR(reader.status());
    while (next < positions.size() && positions[next] < limit) {
      TUTTI_RETURN_IF_ERROR(PassRows(input, positions[next] - at, options));
      at = positions[next];
      size_t run_end = next + 1;
      while (run_end < positions.size() && positions[run_end] < limit &&
             positions[run_end] == positions[run_end - 1] + 1) {
        ++run_end;
      }
      FailureCount failures;
      while (next < run_end) {
        Slab rows;
        input.Next(Demand{static_cast<int64_t>(run_end - next), false}, options, &rows);
        TUTTI_RETURN_IF_ERROR(failures.Add(rows));
        if (rows.rows > 0) TUTTI_RETURN_IF_ERROR(taker->Take(rows, static_cast<int64_t>(next)));
        next += static_cast<size_t>(rows.rows);
        at += rows.rows;
        if (next < run_end && rows.end) {
          return FailedPrecondition("restore: {} has fewer elements than when the state was saved",
                                    input.node().label());
        }
      }
    }
  }
  if (next == positions.size()) return OkStatus();
  return InvalidArgument(
      "restore: these bytes are no state of this iterator (rows before the first "
      "replay point); pass what save gave for an equal dataset");
}

}  // namespace tutti
