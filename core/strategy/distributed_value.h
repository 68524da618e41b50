// DistributedValue: the leaf of a value that has a component per replica, which may differ
// (PerReplica) or are equal by construction (Mirrored), and the moves around it: Regroup makes one
// value of the replicas' results, JoinStep one of their parts of a batch, Select takes one
// replica's part out again.
//
//   replica 0: {'loss': 0.5, 'name': "a"}      Regroup      {'loss': PerReplica:{0: 0.5, 1: 0.25},
//   replica 1: {'loss': 0.25, 'name': "a"}  ------------>    'name': "a"}
//                                           <------------
//                                            Select(.., 1)
//
// Regrouping goes leaf by leaf: the identical object, none, and equal strings stay one leaf;
// tensors become distributed and are never compared by content, so that the structure of a result
// does not depend on the data.
//
// A batch knows the rows of its whole step, for the loss that is scaled by them: its leaves do, the
// distributed ones (global_rows) and, where this process has one replica and they are plain
// tensors, those (Tensor::step_rows). What is made of them knows of no step: neither what a
// replica's function is handed, nor what is reduced, gathered or computed. Everything here is
// immutable. Threads: any.

#ifndef TUTTI_CORE_STRATEGY_DISTRIBUTED_VALUE_H_
#define TUTTI_CORE_STRATEGY_DISTRIBUTED_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/leaf.h"
#include "core/tensor/value.h"

namespace tutti {

// What is known of the components of a distributed value, and of a variable's copies. The same
// numbers as TUTTI_DISTRIBUTION_*.
enum class Distribution : int32_t {
  kNone = 0,        // it is neither: a plain value, the one copy of a plain variable
  kPerReplica = 1,  // each replica's own
  kMirrored = 2,    // equal, because one operation made them all: outside of replicas component 0
                    // may be read as the value
  kSyncOnRead = 3,  // of variables alone: each replica's own, until a read aggregates them
};

class DistributedValue final : public PerReplicaLeaf, public Printable {
 public:
  static constexpr int64_t kNoRows = -1;

  // One component per replica of this process, in order; each is a single leaf that is not
  // distributed itself. `global_rows` is what a batch knows of its step: the rows over all replicas
  // of all workers, kNoRows for values that are no batch.
  explicit DistributedValue(std::vector<Ref<Value>> components, int64_t global_rows = kNoRows,
                            Distribution distribution = Distribution::kPerReplica);

  size_t num_components() const { return components_.size(); }
  const Value& component(size_t replica) const { return *components_[replica]; }
  std::span<const Ref<Value>> components() const { return components_; }
  int64_t global_rows() const { return global_rows_; }
  Distribution distribution() const { return distribution_; }
  std::vector<Ref<const ElementSpec>> component_specs() const override;

  std::string ToString() const override;  // "PerReplica:{0: 0.5, 1: 0.25}", "Mirrored:{0: ...}"

 private:
  ~DistributedValue() override;

  const std::vector<Ref<Value>> components_;
  const int64_t global_rows_;
  const Distribution distribution_;
};

// The leaf as a distributed one, null when it is of another kind.
inline const DistributedValue* AsDistributed(const Leaf& leaf) {
  return leaf.kind() == LeafKind::kDistributed ? leaf.object_as<DistributedValue>() : nullptr;
}
Leaf DistributedLeaf(std::vector<Ref<Value>> components,
                     int64_t global_rows = DistributedValue::kNoRows);
// Of components that are equal.
Leaf MirroredLeaf(std::vector<Ref<Value>> components);
// kNone of a leaf that is not distributed.
inline Distribution DistributionOf(const Leaf& leaf) {
  const DistributedValue* distributed = AsDistributed(leaf);
  return distributed == nullptr ? Distribution::kNone : distributed->distribution();
}

bool HasDistributedLeaf(const Value& value);

enum class Wrap {
  kWhereDifferent,  // results of run: one leaf where all replicas have the same object
  kAlways,          // per-replica values: every leaf becomes distributed
};

// One value of the values of all local replicas, in order. A single one is given back as it is
// unless kAlways. INVALID_ARGUMENT naming `what`, both replicas and the first path where their
// structures differ, and for a distributed leaf under kAlways (components are not nested).
Result<Ref<Value>> Regroup(std::span<const Ref<Value>> values, Wrap wrap, std::string_view what,
                           int64_t global_rows = DistributedValue::kNoRows);

// `value` with a mirrored leaf of `num_replicas` equal components in the place of each of its
// leaves. INVALID_ARGUMENT naming `what` for leaves that have components or copies already.
Result<Ref<Value>> Mirror(const Value& value, size_t num_replicas, std::string_view what);

// The batch of a step of so many rows in all, of the parts of all local replicas: distributed
// leaves, or, of one replica, the part itself, whose tensors know the rows. Fails as Regroup.
Result<Ref<Value>> JoinStep(std::span<const Ref<Value>> parts, std::string_view what,
                            int64_t global_rows);

// INVALID_ARGUMENT naming `what` when a distributed leaf has another number of components than
// `num_replicas`: it was made by another strategy.
Status CheckComponents(const Value& value, size_t num_replicas, std::string_view what);

// What replica `replica` sees of `value`: component `replica` of every distributed leaf, every
// other leaf itself (a variable stays a variable), tensors as ones of no step. Fails as
// CheckComponents.
Result<Ref<Value>> Select(const Value& value, size_t replica, size_t num_replicas,
                          std::string_view what);

// The rows that the batches in `value` agree on; kNoRows when there is no batch, and when batches
// of different steps are mixed. A plain tensor is a batch where there is one replica: several would
// all get the same rows of it.
int64_t GlobalRows(const Value& value, size_t num_replicas);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_DISTRIBUTED_VALUE_H_
