// The graph: immutable nodes, each an op with its attributes, inputs and functions. And the one
// record per op, OpTraits, by which everybody else (cardinality, specs, sharding, checkpoints,
// serialisation) asks what an op is; nobody compares op names.
#ifndef TUTTI_CORE_DATASET_GRAPH_NODE_H_
#define TUTTI_CORE_DATASET_GRAPH_NODE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/graph/attributes.h"
#include "core/tensor/element_spec.h"

namespace tutti {

class Dataset;
class Function;
class Node;
class Stage;
class Value;
struct CallOptions;
struct ExecContext;

inline constexpr int64_t kInfiniteCardinality = -1;
inline constexpr int64_t kUnknownCardinality = -2;

// So many ops stand one on another at most: stages call their inputs' on one stack, and a thread of
// the host may have little of it.
inline constexpr int32_t kMaxDepth = 1000;
// What rewriting may add to that: shards.
inline constexpr int32_t kMaxAddedDepth = 8;

// In the place of a shard's numbers: the policy HINT puts the workers' there; else it keeps all.
inline constexpr int64_t kShardHint = -1;

// How many rows come out for those that go in.
enum class RowRatio : int32_t {
  kSource,     // there is no input
  kOneToOne,   // map, prefetch
  kSubset,     // take, skip, shard, filter: some of the rows, in order
  kPermuted,   // shuffle
  kManyToOne,  // batch, padded_batch
  kRepeated,   // repeat: all of them, several times
  kCombined,   // zip, concatenate: several inputs
  kExpanding,  // readers: many per row, known when it has been read
};

// Whether two iterations of one definition give the same sequence.
enum class Determinism : int32_t {
  kFixed,   // always
  // As the attribute "seed" and the iteration's number decide; "seed_given" tells whether the seed
  // is the user's or was drawn.
  kSeeded,
  kHost,    // as the functions of the host do
};

enum class Serializability : int32_t {
  kAlways,
  kWithFunctions,  // when each of its functions has a registered name or is native
  kNever,
};

// What depends on an attribute.
enum class AttributeRole : int32_t {
  kIdentity,  // elements or their order, or what is promised of them: it tells datasets apart
  kTuning,    // only how soon elements come and what memory that takes: no part of a fingerprint
};

// One attribute of an op.
struct AttributeTraits {
  std::string_view name;
  // Its value where a definition does not say; never another one later on. What is equal to it is
  // not written: so an op may get attributes, and definitions and fingerprints that had been before
  // stay what they are. None: it is written whenever it was given, and may be missing.
  std::variant<std::monostate, int64_t, bool, std::string_view> otherwise = {};
  AttributeRole role = AttributeRole::kIdentity;

  bool IsOtherwise(const Attribute& value) const;
};

inline constexpr size_t kMaxAttributes = 16;

struct OpTraits {
  std::string_view name;   // "batch"
  // All that there are, in the order in which they are written: new ones come last.
  AttributeTraits attributes[kMaxAttributes] = {};
  // Of what the op's stages save. A change that stages of before could not read, or read otherwise,
  // counts it up: states of other versions are refused by name.
  int64_t state_version = 1;
  int32_t num_inputs = 1;  // -1: one or more
  RowRatio row_ratio = RowRatio::kOneToOne;
  // The stage goes to a position without making the rows before it.
  bool can_seek = false;
  // The rows can be dealt out in parts that are read apart from each other.
  bool can_split = false;
  // There is one input, and what comes out are elements of it as they are.
  bool passes_elements = false;
  // Keeps part "index" of "num_shards"; both may be kShardHint until auto-sharding sets them.
  bool is_shard = false;
  // A thread makes elements before they are asked for, which slack is given to.
  bool makes_ahead = false;
  // Yields names of files; reads the files that its input names.
  bool is_file_source = false;
  bool is_reader = false;
  // A source of what its only attribute, "value", holds. Where such a dataset stands in an element,
  // a state has it with all that it holds.
  bool is_value = false;
  // What comes out are elements of the datasets that the first function gives for the input's.
  bool gives_datasets = false;
  // The elements of the first input, then those of the second, and so on. A chain of such ops, to
  // whichever side it grows, is one op on many inputs, its parts: one level of depth, and walked
  // without recursion.
  bool appends_inputs = false;
  Determinism determinism = Determinism::kFixed;
  Serializability serializability = Serializability::kAlways;

  // Looks at attributes, inputs and functions when a node is made: INVALID_ARGUMENT says what is
  // wrong. Also guards deserialisation, so it trusts nothing. May be null.
  Status (*check)(const Node& node) = nullptr;
  int64_t (*cardinality)(const Node& node) = nullptr;
  // Null (with success) when it can only be learnt from an element.
  Result<Ref<const ElementSpec>> (*element_spec)(const Node& node) = nullptr;
  // Of an op whose elements are those of datasets that a function gives: the one that it gives for
  // `element` of the input, from which the op's spec may be learnt. Looks, and leaves no trace.
  // Null for other ops.
  Result<Ref<const Dataset>> (*look_at_dataset)(const Node& node, const ExecContext& context,
                                                const Ref<Value>& element,
                                                const CallOptions& options) = nullptr;
  Result<std::unique_ptr<Stage>> (*make_stage)(const Node& node, const ExecContext& context,
                                               std::vector<std::unique_ptr<Stage>> inputs) =
      nullptr;
  // Of an op that may be one with its input: the node below both on whose stage make_fused makes
  // theirs, null where they stay two. Both are null for other ops.
  const Node* (*input_of_fused)(const Node& node, const ExecContext& context) = nullptr;
  Result<std::unique_ptr<Stage>> (*make_fused)(const Node& node, const ExecContext& context,
                                               std::vector<std::unique_ptr<Stage>> inputs) =
      nullptr;

  std::span<const AttributeTraits> AllAttributes() const;
  // Null for a name that there is none of.
  const AttributeTraits* FindAttribute(std::string_view attribute) const;
};

class Node final : public RefCounted {
 public:
  using Inputs = std::vector<Ref<const Node>>;
  using Functions = std::vector<Ref<Function>>;

  // Checked by the op. `name` is the user's, for messages, and may be empty. Attributes that are
  // missing get what the op's traits say; others than those named there are INVALID_ARGUMENT.
  static Result<Ref<const Node>> Create(const OpTraits& op, std::string name, Attributes attributes,
                                        Inputs inputs, Functions functions = {},
                                        int32_t max_depth = kMaxDepth);

  const OpTraits& op() const { return op_; }
  const std::string& name() const { return name_; }
  // For messages: "batch" or "batch 'name'".
  const std::string& label() const { return label_; }
  const Attributes& attributes() const { return attributes_; }
  const Inputs& inputs() const { return inputs_; }
  const Node& input(size_t i = 0) const { return *inputs_[i]; }
  const Functions& functions() const { return functions_; }
  Function& function(size_t i = 0) const { return *functions_[i]; }

  // Computed once.
  int64_t cardinality() const { return cardinality_; }
  // The ops on the longest way to a source, this one included; a chain of appending ops is one.
  int32_t depth() const { return depth_; }
  // Of an op that appends its inputs those of the whole chain, each as often as it comes: it may be
  // the largest int64, which stands for all above, too. Else 1.
  int64_t num_parts() const { return num_parts_; }
  // The stages that an iterator has at once, at most; the largest int64 stands for all above, too.
  int64_t num_stages() const { return num_stages_; }
  // The stages of the parts of an appending op are made when their turn comes, not with its own.
  bool makes_parts_late() const { return makes_parts_late_; }
  // Whether a function of the host stands in this op or anywhere below it.
  bool has_host_functions() const { return has_host_functions_; }
  // Whether one of them makes each element of another: where an element is passed over it is not
  // called, and cannot fail.
  bool has_host_maps() const { return has_host_maps_; }
  // What is known of the elements: the op's spec, or what LearnSpec was given; null when neither.
  Ref<const ElementSpec> element_spec() const;
  // An element was seen. The first one decides.
  void LearnSpec(Ref<const ElementSpec> spec) const;

  // What the iterations of a definition share, such as the rows that cache keeps: the first state
  // that is given stays, and comes back from then on.
  Ref<RefCounted> ShareAmongIterations(Ref<RefCounted> state) const;

  // Numbers the iterations of a definition from 0 on, for ops that draw anew for each.
  int64_t DrawIteration() const { return iterations_.fetch_add(1, std::memory_order_relaxed); }

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  Node(const OpTraits& op, std::string name, Attributes attributes, Inputs inputs,
       Functions functions);
  ~Node() override;
  void OnLastRelease() const noexcept override;

  void Measure();
  Ref<const ElementSpec> known_spec() const;
  Ref<const ElementSpec> SpecOfChain() const;
  // Whether the part that kept this node's spec from being known still does.
  bool IsHeldUp() const;

  const OpTraits& op_;
  const std::string name_;
  const std::string label_;
  const Attributes attributes_;
  const Inputs inputs_;
  const Functions functions_;
  int64_t cardinality_ = kUnknownCardinality;
  int32_t depth_ = 1;
  int64_t num_parts_ = 1;
  int64_t num_stages_ = 1;
  int64_t part_stages_ = 1;  // of the part that has most
  bool makes_parts_late_ = false;
  bool has_host_functions_ = false;
  bool has_host_maps_ = false;
  mutable const Node* next_released_ = nullptr;  // of the thread that ends them
  mutable std::atomic<int64_t> iterations_{0};
  mutable std::mutex mutex_;  // guards all below
  mutable Ref<const ElementSpec> spec_;
  // The part of a chain whose spec was not known when this node's was asked for last.
  mutable const Node* held_up_by_ = nullptr;
  mutable Ref<RefCounted> shared_;
};

// The ops that a runtime knows, by name. Rooms above add theirs before datasets are made; after
// that it is only read.
class OpRegistry {
 public:
  // `op` outlives the registry. ALREADY_EXISTS for a name that is taken.
  Status Add(const OpTraits& op);
  // NOT_FOUND naming the nearest.
  Result<const OpTraits*> Find(std::string_view name) const;
  std::span<const OpTraits* const> all() const { return ops_; }

 private:
  std::vector<const OpTraits*> ops_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_NODE_H_
