// Values: structures from children and from leaves, and reading them by index and path.
#include "core/tensor/value.h"

#include <tutti/value.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/value_bytes.h"
#include "core/strategy/distributed_value.h"
#include "core/tensor/composite.h"
#include "core/tensor/indexed_slices.h"
#include "core/tensor/leaf.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

Result<Value::Children> ReadChildren(Call call, size_t count, const tutti_value *const *children) {
  TUTTI_REQUIRE_ARRAY(call, count, children);
  Value::Children read;
  read.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (children[i] == nullptr) return NullArgument(call.function, "children", 0).With("index", i);
    read.push_back(Ref<Value>::Retain(const_cast<Value *>(FromHandle(children[i]))));
  }
  return read;
}

Ref<Tensor> RetainTensor(const tutti_tensor *tensor) {
  return Ref<Tensor>::Retain(const_cast<Tensor *>(FromHandle(tensor)));
}

Status CheckNames(Call call, size_t count, const char *const *names, const char *parameter) {
  for (size_t i = 0; i < count; ++i) {
    if (names == nullptr || names[i] == nullptr) {
      return NullArgument(call.function, parameter, 0).With("index", i);
    }
  }
  return OkStatus();
}

}  // namespace

tutti_status *tutti_value_create_tuple(size_t count, const tutti_value *const *children,
                                       tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_value);
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadChildren(call, count, children));
    *out_value = Give(Value::Tuple(std::span<const Ref<Value>>(read)));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_list(size_t count, const tutti_value *const *children,
                                      tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_value);
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadChildren(call, count, children));
    *out_value = Give(Value::List(std::span<const Ref<Value>>(read)));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_dict(size_t count, const char *const *keys,
                                      const tutti_value *const *children, tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_value);
    TUTTI_RETURN_IF_ERROR(CheckNames(call, count, keys, "keys"));
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadChildren(call, count, children));
    std::vector<std::pair<std::string, Ref<Value>>> items;
    items.reserve(count);
    for (size_t i = 0; i < count; ++i) items.emplace_back(keys[i], std::move(read[i]));
    TUTTI_ASSIGN_OR_RETURN(auto value, Value::Dict(std::move(items)));
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_named_tuple(const char *type_name, size_t count,
                                             const char *const *fields,
                                             const tutti_value *const *children,
                                             tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, type_name, out_value);
    TUTTI_RETURN_IF_ERROR(CheckNames(call, count, fields, "fields"));
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadChildren(call, count, children));
    std::vector<std::string> names(fields, fields + count);
    TUTTI_ASSIGN_OR_RETURN(auto value, Value::NamedTuple(type_name, std::move(names), read));
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_sparse(const tutti_tensor *indices, const tutti_tensor *values,
                                        const tutti_tensor *dense_shape, tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, indices, values, dense_shape, out_value);
    TUTTI_ASSIGN_OR_RETURN(auto value,
                           MakeSparse(RetainTensor(indices), RetainTensor(values),
                                      RetainTensor(dense_shape)));
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_indexed_slices(const tutti_tensor *values,
                                                const tutti_tensor *indices,
                                                const tutti_tensor *dense_shape,
                                                tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, values, indices, out_value);
    TUTTI_RETURN_IF_ERROR(CheckGivenOnHost(call, "dense_shape", dense_shape));
    TUTTI_ASSIGN_OR_RETURN(
        auto made,
        MakeIndexedSlices(RetainTensor(values), RetainTensor(indices),
                          dense_shape == nullptr ? nullptr : RetainTensor(dense_shape)));
    *out_value = Give(std::move(made));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_ragged(const tutti_value *values, const tutti_tensor *row_splits,
                                        tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, values, row_splits, out_value);
    TUTTI_ASSIGN_OR_RETURN(
        auto value, MakeRagged(Ref<Value>::Retain(const_cast<Value *>(FromHandle(values))),
                               RetainTensor(row_splits)));
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

tutti_status *tutti_value_to_dense(const tutti_value *value, const tutti_tensor *default_value,
                                   tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, value, out_tensor);
    TUTTI_RETURN_IF_ERROR(CheckGivenOnHost(call, "default_value", default_value));
    TUTTI_ASSIGN_OR_RETURN(auto tensor,
                           CompositeToDense(*FromHandle(value), FromHandle(default_value)));
    *out_tensor = Give(std::move(tensor));
    return OkStatus();
  });
}

tutti_status *tutti_value_to_rows(const tutti_value *value, tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, value, out_value);
    TUTTI_ASSIGN_OR_RETURN(const auto rows, RowsOfComposite(*FromHandle(value)));
    *out_value = Give(Value::List(rows));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_from_leaves(const tutti_treespec *treespec, size_t count,
                                             const tutti_value *const *leaves,
                                             tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, treespec, out_value);
    TUTTI_REQUIRE_ARRAY(call, count, leaves);
    std::vector<Leaf> read;
    read.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      if (leaves[i] == nullptr) return NullArgument(call.function, "leaves", 0).With("index", i);
      const Value &leaf = *FromHandle(leaves[i]);
      if (!leaf.is_leaf()) {
        return InvalidArgument("{}: leaves[{}] is a {}; expected a value that is one leaf",
                               call.function, i, NodeKindName(leaf.spec().kind()))
            .With("index", i);
      }
      read.push_back(leaf.leaf());
    }
    TUTTI_ASSIGN_OR_RETURN(
        auto value,
        Value::FromLeaves(Ref<const TreeSpec>::Retain(FromHandle(treespec)), std::move(read)));
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

tutti_node_kind tutti_value_get_kind(const tutti_value *value) {
  return value == nullptr ? 0 : static_cast<tutti_node_kind>(FromHandle(value)->spec().kind());
}

size_t tutti_value_get_child_count(const tutti_value *value) {
  return value == nullptr ? 0 : FromHandle(value)->num_children();
}

tutti_status *tutti_value_child(const tutti_value *value, size_t index, tutti_value **out_child) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, value, out_child);
    const Value &parent = *FromHandle(value);
    if (index >= parent.num_children()) {
      return OutOfRange("{}: child {} of {}, which has {} children", call.function, index,
                        parent.spec().ToString(), parent.num_children())
          .With("index", index);
    }
    *out_child = Give(parent.Child(index));
    return OkStatus();
  });
}

tutti_status *tutti_value_find(const tutti_value *value, const char *path,
                               tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, value, path, out_value);
    TUTTI_ASSIGN_OR_RETURN(auto found, FromHandle(value)->GetByText(path));
    *out_value = Give(std::move(found));
    return OkStatus();
  });
}

tutti_status *tutti_value_find_tensor(const tutti_value *value, const char *path,
                                      const tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, value, path, out_tensor);
    const Value &parent = *FromHandle(value);
    TUTTI_ASSIGN_OR_RETURN(const auto place, parent.spec().Locate(std::string_view(path)));
    if (!place.node->is_leaf()) {
      return InvalidArgument("{}: '{}' is {}; expected a tensor", call.function, path,
                             place.node->ToString());
    }
    const Leaf &leaf = parent.leaf(place.first_leaf);
    if (!leaf.is_tensor()) {
      return InvalidArgument("{}: '{}' is a leaf of kind {}; expected a tensor", call.function,
                             path, LeafKindName(leaf.kind()));
    }
    *out_tensor = ToHandle(&leaf.tensor());
    return OkStatus();
  });
}

const tutti_treespec *tutti_value_get_treespec(const tutti_value *value) {
  return value == nullptr ? nullptr : ToHandle(&FromHandle(value)->spec());
}

size_t tutti_value_get_leaf_count(const tutti_value *value) {
  return value == nullptr ? 0 : FromHandle(value)->num_leaves();
}

tutti_status *tutti_value_leaf(const tutti_value *value, size_t leaf, tutti_value **out_leaf) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, value, out_leaf);
    const Value &parent = *FromHandle(value);
    if (leaf >= parent.num_leaves()) {
      return OutOfRange("{}: leaf {} of {}, which has {} leaves", call.function, leaf,
                        parent.spec().ToString(), parent.num_leaves())
          .With("index", leaf);
    }
    *out_leaf = Give(Value::OfLeaf(parent.leaf(leaf)));
    return OkStatus();
  });
}

tutti_status *tutti_value_to_string(const tutti_value *value, tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, value, out_text);
    *out_text = GiveBytes(FromHandle(value)->ToString());
    return OkStatus();
  });
}

tutti_status *tutti_value_serialize(const tutti_value *value, tutti_bytes **out_bytes) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, value, out_bytes);
    TUTTI_ASSIGN_OR_RETURN(std::string bytes, SerializeValue(*FromHandle(value)));
    *out_bytes = GiveBytes(std::move(bytes));
    return OkStatus();
  });
}

tutti_status *tutti_value_parse(tutti_runtime *runtime, const void *data, size_t size,
                                tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_value);
    TUTTI_REQUIRE_ARRAY(call, size, data);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(auto value,
                           ParseValue(root->datasets(), {static_cast<const char *>(data), size}));
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

void tutti_value_retain(const tutti_value *value) { RetainHandle(value); }
void tutti_value_release(const tutti_value *value) { ReleaseHandle(value); }
