// Element specs.
#include <tutti/spec.h>

#include <string>
#include <utility>
#include <vector>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "core/base/error.h"
#include "core/tensor/composite.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/value.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

const LeafSpec *FindLeaf(const tutti_spec *spec, size_t leaf) {
  if (spec == nullptr || leaf >= FromHandle(spec)->num_leaves()) return nullptr;
  return &FromHandle(spec)->leaf(leaf);
}

Ref<const ElementSpec> Known(const tutti_spec *inner) {
  return Ref<const ElementSpec>::Retain(FromHandle(inner));
}

Result<PartialShape> ReadShape(Call call, int64_t rank, const int64_t *dims) {
  if (rank < TUTTI_UNKNOWN_RANK) {
    return InvalidArgument("{}: rank is {}; expected 0 or more, or TUTTI_UNKNOWN_RANK (-1)",
                           call.function, rank);
  }
  if (rank == TUTTI_UNKNOWN_RANK) return PartialShape();
  TUTTI_REQUIRE_ARRAY(call, rank, dims);
  return PartialShape::Create(dims, static_cast<size_t>(rank));
}

// The shape, next to a dtype that is one.
Result<PartialShape> ReadPartialShape(Call call, tutti_dtype dtype, int64_t rank,
                                      const int64_t *dims) {
  if (!IsValid(static_cast<DType>(dtype))) {
    return InvalidArgument("{}: {} is no dtype", call.function, dtype);
  }
  return ReadShape(call, rank, dims);
}

}  // namespace

tutti_status *tutti_spec_create_tensor(tutti_dtype dtype, int64_t rank, const int64_t *dims,
                                       tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_spec);
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, ReadPartialShape(call, dtype, rank, dims));
    *out_spec = Give(ElementSpec::OfTensor(static_cast<DType>(dtype), std::move(shape)));
    return OkStatus();
  });
}

tutti_status *tutti_spec_create_none(tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_spec);
    *out_spec = Give(ElementSpec::None());
    return OkStatus();
  });
}

tutti_status *tutti_spec_create_optional(const tutti_spec *inner, tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_spec);
    *out_spec = Give(ElementSpec::Optional(Known(inner)));
    return OkStatus();
  });
}

tutti_status *tutti_spec_create_dataset(const tutti_spec *inner, tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_spec);
    *out_spec = Give(ElementSpec::Dataset(Known(inner)));
    return OkStatus();
  });
}

tutti_status *tutti_spec_create_dataset_of_shape(const tutti_spec *inner, int64_t rank,
                                                 const int64_t *dims, tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_spec);
    TUTTI_ASSIGN_OR_RETURN(PartialShape shape, ReadShape(call, rank, dims));
    *out_spec = Give(ElementSpec::Dataset(Known(inner), std::move(shape)));
    return OkStatus();
  });
}

tutti_status *tutti_spec_create_iterator(const tutti_spec *inner, tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_spec);
    *out_spec = Give(ElementSpec::Iterator(Known(inner)));
    return OkStatus();
  });
}

tutti_status *tutti_spec_create_per_replica(size_t count, const tutti_spec *const *components,
                                            tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_spec);
    TUTTI_REQUIRE_ARRAY(call, count, components);
    std::vector<Ref<const ElementSpec>> parts;
    for (size_t i = 0; i < count; ++i) {
      if (components[i] == nullptr) {
        return NullArgument(call.function, "components", 0).With("index", i);
      }
      parts.push_back(Ref<const ElementSpec>::Retain(FromHandle(components[i])));
    }
    TUTTI_ASSIGN_OR_RETURN(auto spec, ElementSpec::PerReplica(parts));
    *out_spec = Give(std::move(spec));
    return OkStatus();
  });
}

tutti_status *tutti_spec_create_sparse(tutti_dtype dtype, int64_t rank, const int64_t *dims,
                                       tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_spec);
    TUTTI_ASSIGN_OR_RETURN(const PartialShape shape, ReadPartialShape(call, dtype, rank, dims));
    *out_spec = Give(SparseSpec(static_cast<DType>(dtype), shape));
    return OkStatus();
  });
}

tutti_status *tutti_spec_create_ragged(tutti_dtype dtype, int64_t rank, const int64_t *dims,
                                       int64_t ragged_rank, tutti_dtype row_splits_dtype,
                                       tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_spec);
    TUTTI_ASSIGN_OR_RETURN(const PartialShape shape, ReadPartialShape(call, dtype, rank, dims));
    TUTTI_ASSIGN_OR_RETURN(auto spec, RaggedSpec(static_cast<DType>(dtype), shape, ragged_rank,
                                                 static_cast<DType>(row_splits_dtype)));
    *out_spec = Give(std::move(spec));
    return OkStatus();
  });
}

tutti_status *tutti_spec_create_from_leaves(const tutti_treespec *treespec, size_t count,
                                            const tutti_spec *const *leaves,
                                            tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, treespec, out_spec);
    TUTTI_REQUIRE_ARRAY(call, count, leaves);
    std::vector<LeafSpec> read;
    read.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      if (leaves[i] == nullptr) return NullArgument(call.function, "leaves", 0).With("index", i);
      const ElementSpec &leaf = *FromHandle(leaves[i]);
      if (!leaf.tree().is_leaf()) {
        return InvalidArgument("{}: leaves[{}] is {}; expected the spec of one leaf", call.function,
                               i, leaf.ToString())
            .With("index", i);
      }
      read.push_back(leaf.leaf(0));
    }
    TUTTI_ASSIGN_OR_RETURN(
        auto spec,
        ElementSpec::Create(Ref<const TreeSpec>::Retain(FromHandle(treespec)), std::move(read)));
    *out_spec = Give(std::move(spec));
    return OkStatus();
  });
}

tutti_status *tutti_spec_create_from_value(const tutti_value *value, tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, value, out_spec);
    *out_spec = Give(ElementSpec::OfValue(*FromHandle(value)));
    return OkStatus();
  });
}

tutti_status *tutti_spec_leaf(const tutti_spec *spec, size_t leaf, tutti_spec **out_leaf) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, spec, out_leaf);
    const LeafSpec *found = FindLeaf(spec, leaf);
    if (found == nullptr) {
      return OutOfRange("{}: there is no leaf {}, the spec has {}", call.function, leaf,
                        FromHandle(spec)->num_leaves());
    }
    *out_leaf = Give(ElementSpec::OfLeaf(*found));
    return OkStatus();
  });
}

const tutti_treespec *tutti_spec_get_treespec(const tutti_spec *spec) {
  return spec == nullptr ? nullptr : ToHandle(&FromHandle(spec)->tree());
}

size_t tutti_spec_get_leaf_count(const tutti_spec *spec) {
  return spec == nullptr ? 0 : FromHandle(spec)->num_leaves();
}

tutti_leaf_kind tutti_spec_get_leaf_kind(const tutti_spec *spec, size_t leaf) {
  const LeafSpec *found = FindLeaf(spec, leaf);
  return found == nullptr ? 0 : static_cast<tutti_leaf_kind>(found->kind);
}

tutti_dtype tutti_spec_get_leaf_dtype(const tutti_spec *spec, size_t leaf) {
  const LeafSpec *found = FindLeaf(spec, leaf);
  return found == nullptr ? TUTTI_DTYPE_INVALID : static_cast<tutti_dtype>(found->dtype);
}

int64_t tutti_spec_get_leaf_rank(const tutti_spec *spec, size_t leaf) {
  const LeafSpec *found = FindLeaf(spec, leaf);
  if (found == nullptr || !found->shape.has_rank()) return TUTTI_UNKNOWN_RANK;
  return static_cast<int64_t>(found->shape.rank());
}

const int64_t *tutti_spec_get_leaf_dims(const tutti_spec *spec, size_t leaf) {
  if (tutti_spec_get_leaf_rank(spec, leaf) <= 0) return nullptr;
  return FindLeaf(spec, leaf)->shape.dims().data();
}

const tutti_spec *tutti_spec_get_leaf_inner(const tutti_spec *spec, size_t leaf) {
  const LeafSpec *found = FindLeaf(spec, leaf);
  return found == nullptr ? nullptr : ToHandle(found->inner.get());
}

int32_t tutti_spec_equal(const tutti_spec *left, const tutti_spec *right) {
  if (left == nullptr || right == nullptr) return left == right;
  return *FromHandle(left) == *FromHandle(right);
}

int32_t tutti_spec_is_compatible(const tutti_spec *left, const tutti_spec *right) {
  if (left == nullptr || right == nullptr) return 0;
  return FromHandle(left)->IsCompatibleWith(*FromHandle(right));
}

tutti_status *tutti_spec_most_specific(const tutti_spec *left, const tutti_spec *right,
                                       tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, left, right, out_spec);
    TUTTI_ASSIGN_OR_RETURN(
        auto spec, FromHandle(left)->Relax(*FromHandle(right), "most_specific_compatible_type"));
    *out_spec = Give(std::move(spec));
    return OkStatus();
  });
}

tutti_status *tutti_spec_to_string(const tutti_spec *spec, tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, spec, out_text);
    *out_text = GiveBytes(FromHandle(spec)->ToString());
    return OkStatus();
  });
}

void tutti_spec_retain(const tutti_spec *spec) { RetainHandle(spec); }
void tutti_spec_release(const tutti_spec *spec) { ReleaseHandle(spec); }
