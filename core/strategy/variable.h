// Variable: a tensor that lives as long as training does, with one copy per local replica of a
// strategy.
//
// ON_WRITE (and AUTO, which reads as ON_WRITE): the copies are equal. A write from replica context
// takes part in a merge: the replicas' tensors are folded once, in the order of the replicas, and
// every copy gets the same bits. ON_READ: each replica writes its own copy; a read from outside
// aggregates the copies. The table of what each write does stands in variable.cc.
//
// Where a strategy has central storage (CentralStorage) there is one copy, on its parameter device,
// but for ON_READ: it is every replica's, and updated once. Inside an update function
// (Strategy::Update) reads and writes are those of the copy on its device, whatever the
// aggregation.
//
// Under several workers a merge is one over all of them, and so are the making of a variable and
// the read of an ON_READ variable from outside: every worker makes these calls in the same order. A
// write from outside concerns the own worker's copies only.
//
// Every function takes the context that it is called from: a replica's own inside run, null
// (cross-replica) elsewhere. Threads: any; data() and copy() are the live memory, which nobody
// guards.

#ifndef TUTTI_CORE_STRATEGY_VARIABLE_H_
#define TUTTI_CORE_STRATEGY_VARIABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/strategy.h"
#include "core/tensor/dtype.h"
#include "core/tensor/indexed_slices.h"
#include "core/tensor/leaf.h"
#include "core/tensor/saveable.h"
#include "core/tensor/scatter.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Context;
class ReplicaContext;
class TeamChannel;

// The same numbers as TUTTI_SYNCHRONIZATION_* and TUTTI_AGGREGATION_* of the C interface.
enum class Synchronization : int32_t { kAuto = 1, kNone = 2, kOnWrite = 3, kOnRead = 4 };
enum class Aggregation : int32_t { kNone = 1, kSum = 2, kMean = 3, kOnlyFirstReplica = 4 };

// "ON_WRITE", "ONLY_FIRST_REPLICA" and so on; static.
const char* SynchronizationName(Synchronization synchronization);
const char* AggregationName(Aggregation aggregation);

struct VariableOptions {
  std::string name = "Variable";
  Synchronization synchronization = Synchronization::kAuto;
  Aggregation aggregation = Aggregation::kNone;
  std::optional<bool> trainable;  // unset: true, false for ON_READ
  Ref<Device> device;  // of the default strategy's; null, and under others: the strategy's own
  // What every value has to fit; unset: the initial value's shape. One that leaves sizes open lets
  // assignments change them.
  std::optional<PartialShape> shape;
};

class Variable final : public RefCounted, public Printable, public Saveable {
 public:
  // A copy of `initial` on every local replica, in memory of its own. INVALID_ARGUMENT for a value
  // that options.shape does not fit, for synchronization NONE with several replicas, and for a
  // trainable variable that is ON_READ. Collective under several workers: all get worker 0's
  // initial value; INVALID_ARGUMENT on all of them, naming both, when they make different
  // variables.
  static Result<Ref<Variable>> Create(Ref<Strategy> strategy, const Tensor& initial,
                                      const VariableOptions& options,
                                      const CallOptions& call = CallOptions());
  // The same from a replica's function, which every replica gets the same variable from: the k-th
  // that each makes meet as a merge, and replica 0's value is the initial one. INVALID_ARGUMENT
  // naming both replicas when dtype, shape, name or options differ. From any other context of a
  // strategy as above.
  static Result<Ref<Variable>> CreateIn(Context& context, const Tensor& initial,
                                        const VariableOptions& options, const CallOptions& call);

  // ---- Reading ----

  // A copy of the value: of this replica's copy in replica context; outside, of the first copy
  // (ON_WRITE) or of the copies of all workers aggregated (ON_READ; INVALID_ARGUMENT with
  // aggregation NONE and several replicas).
  Result<Ref<Tensor>> Read(const Context* context, const CallOptions& options) const;
  // The live memory of this replica's copy (outside: of the first), read-only; as long-lived as the
  // variable. INVALID_ARGUMENT for one that moves.
  Result<const Tensor*> Data(const Context* context) const;

  // ---- Writing: `tensor` has the variable's dtype and fits its shape; what is added or subtracted
  // has the shape of the value ----

  Status Assign(Context* context, const Tensor& tensor, const CallOptions& options);
  Status AssignAdd(Context* context, const Tensor& tensor, const CallOptions& options);
  Status AssignSub(Context* context, const Tensor& tensor, const CallOptions& options);

  // Changes the rows that `slices` name (scatter.h); INVALID_ARGUMENT as of CheckScatter, before
  // anything is written. In replica context ON_WRITE joins the replicas' slices in their order,
  // divided by the number of replicas for MEAN, replica 0's alone for ONLY_FIRST_REPLICA; SUM and
  // MEAN are for scatter_add and scatter_sub alone (UNIMPLEMENTED). ON_READ changes this copy.
  // Outside every copy; ON_READ with SUM is INVALID_ARGUMENT.
  Status Scatter(ScatterOp op, Context* context, const IndexedSlices& slices,
                 const CallOptions& options);

  // ---- What it is ----

  const std::string& name() const { return copies_[0]->name; }
  DType dtype() const { return dtype_; }
  // What every value fits.
  const PartialShape& shape() const { return shape_; }
  // Whether each write puts new memory in the place of the old: of byte strings, and where the
  // shape leaves sizes open.
  bool moves() const { return dtype_ == DType::kBytes || !shape_.IsFullyKnown(); }
  Synchronization synchronization() const { return synchronization_; }
  Aggregation aggregation() const { return aggregation_; }
  bool trainable() const { return trainable_; }
  const Ref<Strategy>& strategy() const { return strategy_; }
  // Of the copies: kNone for a plain variable.
  Distribution distribution() const;

  size_t num_copies() const { return copies_.size(); }
  // The live memory of a copy, read-only; not of a variable that moves.
  const Tensor& copy(size_t i) const { return *copies_[i]->view; }
  // The same; of a variable that moves what it holds now.
  Ref<Tensor> copy_ref(size_t i) const;
  // Whether a copy lies in the memory of `component`, with its dtype and shape.
  bool HasCopy(const Tensor& component) const;
  const std::string& copy_name(size_t i) const { return copies_[i]->name; }
  // What copy `i` holds now, copied under its lock.
  Result<Ref<Tensor>> ReadCopy(size_t i) const;
  // "/job:localhost/replica:0/task:0/device:CPU:0", under several workers
  // "/job:worker/replica:0/task:1/device:CPU:0".
  const std::string& copy_device(size_t i) const { return copies_[i]->device; }

  // "MirroredVariable:{0: <Variable 'v' float32[2] [1 2]>, 1: <Variable 'v/replica_1' ...>}",
  // "SyncOnReadVariable:{...}"; without the braces for a plain variable.
  std::string ToString() const override;

  // Saveable: the cross-replica value under `prefix`; Restore is a cross-replica assign.
  Status Save(std::string_view prefix, SaveSink* sink) override;
  Status Restore(std::string_view prefix, RestoreSource* source) override;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  friend class VariableCreation;
  friend class VariableScatter;
  friend class VariableUpdate;
  enum class Write { kAssign, kAdd, kSub };
  struct alignas(64) Copy {
    std::string name;
    std::string device;
    Ref<Device> gpu;      // where it lies; null: the host
    std::mutex mutex;     // guards the elements, but for readers of the live memory
    Ref<Tensor> storage;  // of this copy alone; where it moves, a new one each time
    Ref<Tensor> view;     // the same memory, read-only
  };

  Variable(Ref<Strategy> strategy, const Tensor& initial, const VariableOptions& options);
  ~Variable() override;

  static const char* WriteName(Write write);
  Status Update(Write write, Context* context, const Tensor& tensor, const CallOptions& options);
  Status CheckTensor(Write write, const Tensor& tensor) const;
  // The tensor, or a copy of one that is a view of this variable and would change on the way.
  Result<Ref<Tensor>> Detached(const Tensor& tensor) const;
  Status UpdateAllCopies(Write write, const Tensor& tensor);
  Status UpdateCopy(Write write, size_t i, const Tensor& tensor);
  // Shows what copy `i` holds after a write to the observer; the caller has the copy's lock.
  Status ObserveCopy(Write write, size_t i) const;
  // The write to a copy of a variable that moves.
  Status Replace(Write write, size_t i, const Tensor& tensor);
  Status ReplaceRows(ScatterOp op, std::span<const IndexedSlices> slices, size_t i);
  // A copy of `tensor`, wherever it lies, where `copy` is.
  Result<Ref<Tensor>> NewMemory(const Copy& copy, const Tensor& tensor) const;
  bool is_on_gpu() const;  // one of its copies
  // The write of a tensor for all copies [first, last), or of one for each, of which any may lie on
  // a GPU: nothing is changed unless there is memory for all of it. The observer sees the first
  // copy afterwards, of an assign where `shows_assigns`.
  Status WriteOnDevices(Write write, std::span<const Ref<Tensor>> tensors, size_t first,
                        size_t last, bool shows_assigns = false);
  Status ScatterOnDevices(ScatterOp op, std::span<const IndexedSlices> slices, size_t first,
                          size_t last);
  Shape ShapeOfCopy(size_t i) const;
  // Slices that CheckScatter has passed.
  Status ScatterCopies(ScatterOp op, const IndexedSlices& slices, size_t first, size_t last);
  static Ref<Tensor> ReadOnly(const Ref<Tensor>& storage);
  Result<Ref<Tensor>> ReadAggregated(const CallOptions& options) const;
  Result<Ref<Tensor>> ReadOverTeam(const CallOptions& options) const;
  // What must be the same everywhere: "'w' float32[2], ON_WRITE, aggregation SUM, trainable".
  static std::string Describe(const Tensor& initial, const VariableOptions& options);
  // Create, inside or outside of a merge.
  static Result<Ref<Variable>> Make(Ref<Strategy> strategy, const Tensor& initial,
                                    const VariableOptions& options, const CallOptions& call);
  static Result<Ref<Variable>> MakeAndAgree(Ref<Strategy> strategy, const Tensor& initial,
                                            const VariableOptions& options,
                                            const CallOptions& call);
  Status MakeCopies(const Tensor& initial, const VariableOptions& options);
  // Compares the workers' variables. `status` is what this worker has found wrong with its own.
  static Status AgreeOverTeam(TeamChannel& team, const Tensor& initial,
                              const VariableOptions& options, const Status& status,
                              const CallOptions& call);
  // Whose copy `i` replica i reads and writes: its own, or the only one.
  size_t CopyOf(size_t replica) const { return copies_.size() == 1 ? 0 : replica; }
  // The copy that an update function works on, where `context` is its; FAILED_PRECONDITION for one
  // of another strategy.
  Result<std::optional<size_t>> FindUpdated(const Context* context, const char* what) const;
  // The replica context that `context` is, null for cross-replica. FAILED_PRECONDITION when the
  // call comes from another place than it says, or from another strategy's replica.
  Result<ReplicaContext*> FindReplica(const Context* context, const char* what) const;

  const Ref<Strategy> strategy_;
  const DType dtype_;
  const PartialShape shape_;
  const Synchronization synchronization_;
  const Aggregation aggregation_;
  const bool trainable_;
  std::vector<std::unique_ptr<Copy>> copies_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_VARIABLE_H_
