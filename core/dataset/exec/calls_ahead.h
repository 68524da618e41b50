// CallsAhead: a row function called for several rows at once, on threads, ahead of who asks for the
// results: what a parallel map is made of.
//
// There is a window of the input's rows: those of the demand, or as many as there may be calls
// where that is more, and none beyond the demand's horizon. Its threads pull rows into the window,
// one thread at a time, and call the function for them; a result leaves the window when Next gives
// it, in the order of the rows or, when it need not be kept, as results come. The thread that calls
// Next only waits: a result that is ready never waits for the input, nor for another call.
//
// A position is the input's with the rows of the window before it, whatever has become of them:
// they are called again after a restore. So saving waits for no call.
//
// Where rows may be passed over (no demand.all_wanted) they are pulled tentatively. At an element
// that has failed if it is wanted the threads stop; when all rows before it are given, it is known
// whether it is.
//
// One thread more than there may be calls: a slow input costs none of them.
#ifndef TUTTI_CORE_DATASET_EXEC_CALLS_AHEAD_H_
#define TUTTI_CORE_DATASET_EXEC_CALLS_AHEAD_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/environment.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/dataset/exec/autotuner.h"
#include "core/dataset/exec/call_permits.h"
#include "core/dataset/exec/function_rows.h"
#include "core/dataset/exec/numbered_rows.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/exec/stage.h"
#include "core/tensor/value.h"

namespace tutti {

class CallsAhead {
 public:
  // How many calls at once, and whether that may change, up to `most`.
  struct Number {
    int64_t calls = 1;
    bool tunes = false;
    int64_t most = 1;
  };
  // `rows` and `function` are the stage's.
  CallsAhead(const Node& node, const ExecContext& context, const Number& number, bool keeps_order,
             NumberedRows* rows, FunctionRows* function);

  // Starts the threads, once. False when there are none to be had: then nothing here may be used
  // but Stop and Join.
  bool Start();
  bool started() const { return started_; }

  // As Stage::Next. The results are checked.
  void Next(const Demand& demand, const CallOptions& options, Slab* slab);

  // While it is held the input is the holder's, and no thread pulls from it.
  class InputTurn {
   public:
    explicit InputTurn(CallsAhead* calls) : calls_(calls) {}
    ~InputTurn();
    InputTurn(const InputTurn&) = delete;
    InputTurn& operator=(const InputTurn&) = delete;
    // Interrupts a pull that is under way, which loses nothing, and waits for its end.
    Status Take(const CallOptions& options);

   private:
    CallsAhead* const calls_;
    bool taken_ = false;
  };
  // With the turn: the rows of the window, in order.
  Status Held(std::vector<NumberedRows::Run>* held);
  // With the turn: empties the window for another position. Calls that run are told to give up, and
  // nobody waits for them.
  void Forget();

  void Stop();
  Status Join(const CallOptions& options);

 private:
  // A row of the window, or the failure of an element of the input, which whoever passes over it
  // meets, too.
  struct Item {
    std::shared_ptr<const Slab> in;  // null of a failure
    int64_t row = 0;
    int64_t number = 0;
    Ref<Cancellation> cancellation;  // of the position that it belongs to
    bool done = false;
    bool dropped = false;  // nobody wants the result
    // Where there is a budget: of the row, and what is counted for it and its result.
    int64_t row_bytes = 0;
    int64_t bytes = 0;
    Ref<Value> value;
    Status status;
  };
  using Lock = std::unique_lock<std::mutex>;

  // All with the lock.
  int64_t RowsAllowed() const;
  bool MayPull() const;
  bool MayCall() const { return !waiting_.empty() && calling_ < calls_.now(); }
  bool HasOutcome() const;
  // What came before the exception comes first, where there is a thread to make it.
  bool IsBroken() const { return !broken_.ok() && (items_.empty() || lost_); }
  void Count(const Demand& demand, const CallOptions& options, Lock& lock, Slab* slab);
  void Give(const Demand& demand, std::vector<std::shared_ptr<Item>>* given, Slab* slab);
  void Queue(NumberedRows::Run run);
  // The item has left the window.
  void Uncount(Item& item) { ahead_.AddBytes(0, -std::exchange(item.bytes, 0)); }
  // Release the lock in between.
  Status TakeInput(const CallOptions& options, Lock& lock);
  void ReturnInput();
  Status Decide(const Demand& demand, const CallOptions& options, Lock& lock);
  void Pull(Lock& lock);
  void Call(Lock& lock);

  void StartThreads(int64_t count);
  void Run();
  void Serve();
  Status Closed() const;

  const Node& node_;
  const Ref<Environment> environment_;
  CallPermits* const permits_;  // null: any number
  NodeProfile* const record_;   // null: nothing is measured
  const bool keeps_order_;
  NumberedRows& rows_;
  HeldBytes ahead_;
  FunctionRows& function_;  // CallRow any thread's, all else who calls Next
  std::vector<Thread> threads_;  // of who calls Next
  bool started_ = false;

  std::mutex mutex_;  // guards all below; the input is whose pulling_ set
  std::condition_variable work_;   // for the threads
  std::condition_variable ready_;  // for who calls Next
  std::deque<std::shared_ptr<Item>> items_;    // the window
  std::deque<std::shared_ptr<Item>> waiting_;  // not called yet; may have dropped ones
  Ref<Cancellation> calls_cancellation_;  // of items that are made now
  Ref<Cancellation> pull_cancellation_;
  TunedCalls calls_;
  int64_t demanded_ = 0;   // rows that the last Next has asked for and not got
  int64_t wanted_ = 0;     // its horizon, less what it has given
  int64_t row_items_ = 0;  // items that are rows
  int64_t done_items_ = 0;
  int64_t calling_ = 0;
  int64_t claims_ = 0;  // of who waits for the input, or has it
  bool pulling_ = false;
  bool all_wanted_ = false;  // the last Next said so
  bool ended_ = false;       // the input, behind the window
  bool undecided_ = false;   // behind the window stands an element that fails if it is wanted
  Status interruption_;   // an interruption of the input that nobody here made
  Status broken_;         // an exception after which nobody knows where the input is
  bool lost_ = false;     // it has ended a thread
  bool stopped_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_CALLS_AHEAD_H_
