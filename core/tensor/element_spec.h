// ElementSpec: what a dataset says about its elements before there is one: their structure, and per
// leaf the kind, dtype and shape as far as known.
//
//   Ref<const ElementSpec> image = ElementSpec::OfTensor(DType::kFloat32, PartialShape({-1, 64}));
//   TUTTI_ASSIGN_OR_RETURN(auto spec, ElementSpec::Create(tree, {image->leaf(0), label->leaf(0)}));
//   spec->ToString();                  // "{'image': float32[?,64], 'label': int64[?]}"
//   spec->Check(*value, "map");        // OK, or which leaf does not fit, and how
//   spec->Fit(value, "map");           // the value in the dtypes of the spec, or the same error
//
// Two specs compare in three ways: as equal, as one that is more general than the other, and as
// compatible, which is when some value could fit both.
//
// Immutable; C's tutti_spec* is a pointer to one. Threads: any.
#ifndef TUTTI_CORE_TENSOR_ELEMENT_SPEC_H_
#define TUTTI_CORE_TENSOR_ELEMENT_SPEC_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/leaf.h"
#include "core/tensor/shape.h"
#include "core/tensor/tree_spec.h"

namespace tutti {

class ElementSpec;
class Value;

// What is known of one leaf. dtype is that of tensor leaves. shape is theirs, too, and how many
// datasets stand in a dataset leaf, which is one (a scalar) in every value; of unknown rank for all
// other kinds. `inner` is what an optional holds, the elements of a dataset or an iterator, or a
// tuple of what each replica of this process has of a distributed leaf (null when that is not
// known, and for all other kinds but one leaf of each sparse or ragged tensor, where it is what the
// whole is: composite.h). A dataset of elements that are not known is what
// others call a variant.
struct LeafSpec {
  LeafKind kind = LeafKind::kNone;
  DType dtype = DType::kInvalid;
  PartialShape shape;
  Ref<const ElementSpec> inner;

  static LeafSpec OfTensor(DType dtype, PartialShape shape) {
    return LeafSpec{LeafKind::kTensor, dtype, std::move(shape), nullptr};
  }
  static LeafSpec Of(const Leaf& leaf);

  bool is_tensor() const { return kind == LeafKind::kTensor; }
  // Whether every leaf that fits `other` fits this.
  bool IsMoreGeneralThan(const LeafSpec& other) const;
  // Whether some leaf could fit both; what is not known, on either side, fits.
  bool IsCompatibleWith(const LeafSpec& other) const;
  // "float32[?,64]", "optional(int64[])", "dataset[3](int64[])", "none".
  std::string ToString() const;

  friend bool operator==(const LeafSpec& a, const LeafSpec& b);
};

class ElementSpec final : public RefCounted {
 public:
  static Ref<const ElementSpec> OfTensor(DType dtype, PartialShape shape);
  static Ref<const ElementSpec> None();
  // `inner` null: what it holds is not known.
  static Ref<const ElementSpec> Optional(Ref<const ElementSpec> inner);
  static Ref<const ElementSpec> Dataset(Ref<const ElementSpec> inner,
                                        PartialShape shape = PartialShape::Scalar());
  static Ref<const ElementSpec> Iterator(Ref<const ElementSpec> inner);
  // A distributed leaf. INVALID_ARGUMENT unless there are components, each of one leaf that is not
  // distributed itself.
  static Result<Ref<const ElementSpec>> PerReplica(
      std::span<const Ref<const ElementSpec>> components);
  static Ref<const ElementSpec> OfLeaf(LeafSpec leaf);
  // INVALID_ARGUMENT when the number of leaves is not the structure's.
  static Result<Ref<const ElementSpec>> Create(Ref<const TreeSpec> tree,
                                               std::vector<LeafSpec> leaves);
  // The specs of the leaves of `tree`, each any structure, put together.
  static Result<Ref<const ElementSpec>> Compose(const TreeSpec& tree,
                                                std::span<const Ref<const ElementSpec>> parts);
  static Ref<const ElementSpec> Tuple(std::span<const Ref<const ElementSpec>> parts);
  // The spec that exactly describes a value.
  static Ref<const ElementSpec> OfValue(const Value& value);

  const TreeSpec& tree() const { return *tree_; }
  const Ref<const TreeSpec>& tree_ref() const { return tree_; }
  std::span<const LeafSpec> leaves() const { return leaves_; }
  size_t num_leaves() const { return leaves_.size(); }
  const LeafSpec& leaf(size_t i) const { return leaves_[i]; }

  // The same structure with other leaves, as many as there are.
  Ref<const ElementSpec> WithLeaves(std::vector<LeafSpec> leaves) const;
  // Every tensor's shape with a dim in front; INVALID_ARGUMENT naming `what` for leaves that cannot
  // be stacked, and for sparse and ragged tensors (StackedSpec of composite.h takes them).
  Result<Ref<const ElementSpec>> Prepend(int64_t size, std::string_view what) const;
  // Every tensor's shape without its first dim; INVALID_ARGUMENT naming `what` where there is none,
  // and for sparse and ragged tensors (RowSpecOf takes them).
  Result<Ref<const ElementSpec>> RowSpec(std::string_view what) const;

  // Whether every value that fits `other` fits this.
  bool IsMoreGeneralThan(const ElementSpec& other) const;
  // Whether some value could fit both: the same structure, kinds and dtypes, and no two sizes that
  // are known and differ.
  bool IsCompatibleWith(const ElementSpec& other) const;
  // The most specific spec that both fit: sizes that differ are not known in it, nor is a rank, or
  // the elements of a dataset or an iterator that one of the two does not know. INVALID_ARGUMENT
  // naming `what` and both sides when structure, kinds or dtypes differ.
  Result<Ref<const ElementSpec>> Relax(const ElementSpec& other, std::string_view what) const;
  // OK when the value fits; INVALID_ARGUMENT naming `what`, the path of the leaf, what was expected
  // and what was found.
  Status Check(const Value& value, std::string_view what) const;
  Status CheckLeaf(size_t i, const Leaf& leaf, std::string_view what) const;
  // The value with its tensors converted to the dtypes of this spec (convert.h), itself where none
  // is of another. Errors as of Check; one of a tensor that cannot be converted names an element.
  Result<Ref<Value>> Fit(Ref<Value> value, std::string_view what) const;
  Result<Leaf> FitLeaf(size_t i, const Leaf& leaf, std::string_view what) const;

  // "{'image': float32[?,64], 'label': int64[?]}".
  std::string ToString() const;

  friend bool operator==(const ElementSpec& a, const ElementSpec& b);

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  bool FitsWhole(size_t i, const Tensor& sizes) const;
  ElementSpec(Ref<const TreeSpec> tree, std::vector<LeafSpec> leaves);
  ~ElementSpec() override = default;

  const Ref<const TreeSpec> tree_;
  const std::vector<LeafSpec> leaves_;
};

// The structure `tree` with the structures `parts` in the place of its leaves; as many parts as
// there are leaves.
Result<Ref<const TreeSpec>> ComposeTrees(const TreeSpec& tree,
                                         std::span<const Ref<const TreeSpec>> parts);

// The node `tree` with other children, as many as there are.
Result<Ref<const TreeSpec>> WithChildren(const TreeSpec& tree, TreeSpec::Children children);

// The base of what stands in a leaf of kind dataset, so that a value can be described here, below
// the room that knows datasets.
class DatasetLeaf : public RefCounted {
 public:
  // The spec of the dataset's elements; null when it is not known yet.
  virtual Ref<const ElementSpec> known_element_spec() const = 0;
};

// The base of what stands in a distributed leaf, for the same reason.
class PerReplicaLeaf : public RefCounted {
 public:
  // Of each component, in the order of the replicas.
  virtual std::vector<Ref<const ElementSpec>> component_specs() const = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_ELEMENT_SPEC_H_
