// WindowRows: the rows of an input that windows are made of (window_op.cc), from the next window's
// first element on. What makes something else of the windows than datasets reads them by it, too.
//
// A failed element fails the windows that it would stand in, with its own status, and between
// windows it fails nothing; what lies between windows that do not overlap is passed over. A failure
// that is of no element (Loss::kMany) has no place: it comes once, between windows, and windows go
// on behind it with what was kept.
#ifndef TUTTI_CORE_DATASET_OPS_WINDOW_ROWS_H_
#define TUTTI_CORE_DATASET_OPS_WINDOW_ROWS_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/node.h"

namespace tutti {

struct Windows {
  static constexpr int64_t kMostPlaces = std::numeric_limits<int64_t>::max();

  int64_t size;
  int64_t shift;
  int64_t stride;
  bool drop_remainder;
  int64_t span;  // of a window, from its first element to its last

  // Of a window node.
  static Windows Of(const Node& node);
};

class WindowRows {
 public:
  // Of `window`, a window node, whose input is `input`; both outlive it.
  WindowRows(const Node& window, Stage& input, const ExecContext& context);

  const Windows& windows() const { return windows_; }

  void Clear();
  Status Save(StateWriter* writer) const;
  void Restore(StateReader* reader);

  // Whether the next window is complete, or as complete as it gets.
  bool IsReady() const;
  // Until the next window is ready, for `demand` in windows. Fails when interrupted, and when more
  // than one element is lost.
  Status Read(const Demand& demand, const CallOptions& options);
  // Whether there is no next window. Asked of one that is ready.
  bool IsOver() const;
  // Behind the last window: a failure with which others may have been lost, or OK.
  Status End();
  // A failure that took more than one element along, else OK: it comes where no window is ready.
  Status TakeLoss();

  // Of a window that is ready: how many elements it has.
  int64_t NextSize() const;
  // Its elements at places [begin, end), as slabs; fails with an element in it that failed.
  // `count_only`: only whether it fails.
  Result<std::vector<Slab>> Pick(int64_t begin, int64_t end, bool count_only);
  // Goes on to the window behind so many.
  void Pass(int64_t windows);

  // How many whole windows lie before the first element that failed, from the next one on.
  int64_t WholeWindows() const;
  // Rows [begin, end) from the next window's first on, all of which are whole windows', as they
  // came.
  std::vector<Slab> Slices(int64_t begin, int64_t end) const;
  // The same in one slab: what came in several becomes one.
  Result<Slab> OnePiece(int64_t begin, int64_t end);

  void CountKept();

 private:
  // Elements one after the other, or one that failed.
  struct Part {
    Slab rows;
    bool used = false;  // of a failed one: a window has failed with it, or more came behind it

    bool failed() const { return rows.rows == 0; }
    int64_t places() const { return failed() ? 1 : rows.rows; }
  };

  // Behind the last element that was read.
  int64_t end() const { return first_ + places_; }
  void Append(Part part);
  int64_t LastOf(int64_t windows) const;
  int64_t Horizon(const Demand& demand) const;
  void Lose(Status status);
  void HearOfMore(const Status& status);
  void ForgetUntil(int64_t place);

  const Node& node_;
  Stage& input_;
  const Clock& clock_;
  MemoryAccount* const account_;
  const Windows windows_;
  HeldBytes kept_;
  std::deque<Part> parts_;  // the elements [first_, first_ + places_) of the input
  int64_t first_ = 0;
  int64_t places_ = 0;
  int64_t next_ = 0;  // the first element of the next window, kMostPlaces for all behind, too
  bool ended_ = false;
  Status lost_;  // a failure between windows, with which others may have been lost
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_WINDOW_ROWS_H_
