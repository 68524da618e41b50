// ReplayPoints: saved positions of an input along the way, so that rows which an op holds can be
// made again after a restore instead of being saved: go to the last point before a row and pass
// over what lies between. Points that lie before every row still held are dropped.
#ifndef TUTTI_CORE_DATASET_EXEC_REPLAY_POINTS_H_
#define TUTTI_CORE_DATASET_EXEC_REPLAY_POINTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/exec/stage.h"

namespace tutti {

class ReplayPoints {
 public:
  // The input stands before its row `position` (counted by the owner, ascending). The first point
  // of an epoch must succeed; a later one that cannot be saved is left out.
  Status Add(Stage& input, int64_t position);
  // Drops the points that no row from `oldest` on needs.
  void Forget(int64_t oldest);
  void Clear() { points_.clear(); }

  bool empty() const { return points_.empty(); }
  int64_t last_position() const { return points_.back().position; }
  // Bytes of the last point: what adding one costs.
  int64_t last_bytes() const { return static_cast<int64_t>(points_.back().state.size()); }

  void Save(StateWriter* writer) const;
  void Restore(StateReader* reader);

  // Calls take(rows, first) with the rows at `positions` (ascending), in pieces, where `first` is
  // the index of the piece's first row in `positions`. Leaves the input anywhere.
  class Taker {
   public:
    virtual Status Take(const Slab& rows, int64_t first) = 0;

   protected:
    ~Taker() = default;
  };
  Status Replay(Stage& input, std::span<const int64_t> positions,
                DatasetEnvironment* environment, const CallOptions& options, Taker* taker) const;

 private:
  struct Point {
    int64_t position;
    std::string state;
  };
  std::vector<Point> points_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_REPLAY_POINTS_H_
