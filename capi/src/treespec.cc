// Treespecs: structures without leaves.
#include <tutti/value.h>

#include <string>
#include <utility>
#include <vector>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "core/base/error.h"
#include "core/tensor/tree_spec.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

Result<TreeSpec::Children> ReadChildren(Call call, size_t count,
                                        const tutti_treespec *const *children) {
  TUTTI_REQUIRE_ARRAY(call, count, children);
  TreeSpec::Children read;
  read.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (children[i] == nullptr) return NullArgument(call.function, "children", 0).With("index", i);
    read.push_back(Ref<const TreeSpec>::Retain(FromHandle(children[i])));
  }
  return read;
}

Result<std::vector<std::string>> ReadNames(Call call, size_t count, const char *const *names,
                                           const char *parameter) {
  std::vector<std::string> read;
  read.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (names == nullptr || names[i] == nullptr) {
      return NullArgument(call.function, parameter, 0).With("index", i);
    }
    read.emplace_back(names[i]);
  }
  return read;
}

}  // namespace

tutti_status *tutti_treespec_create_leaf(tutti_treespec **out_treespec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_treespec);
    *out_treespec = Give(Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()));
    return OkStatus();
  });
}

tutti_status *tutti_treespec_create_sequence(tutti_node_kind kind, size_t count,
                                             const tutti_treespec *const *children,
                                             tutti_treespec **out_treespec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_treespec);
    if (kind != TUTTI_NODE_TUPLE && kind != TUTTI_NODE_LIST) {
      return InvalidArgument(
          "{}: kind {} is no sequence; expected TUTTI_NODE_TUPLE (2) or "
          "TUTTI_NODE_LIST (3)",
          call.function, kind);
    }
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadChildren(call, count, children));
    *out_treespec = Give(kind == TUTTI_NODE_TUPLE ? TreeSpec::Tuple(std::move(read))
                                                  : TreeSpec::List(std::move(read)));
    return OkStatus();
  });
}

tutti_status *tutti_treespec_create_dict(size_t count, const char *const *keys,
                                         const tutti_treespec *const *children,
                                         tutti_treespec **out_treespec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_treespec);
    TUTTI_ASSIGN_OR_RETURN(auto names, ReadNames(call, count, keys, "keys"));
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadChildren(call, count, children));
    TUTTI_ASSIGN_OR_RETURN(auto treespec, TreeSpec::Dict(std::move(names), std::move(read)));
    *out_treespec = Give(std::move(treespec));
    return OkStatus();
  });
}

tutti_status *tutti_treespec_create_named_tuple(const char *type_name, size_t count,
                                                const char *const *fields,
                                                const tutti_treespec *const *children,
                                                tutti_treespec **out_treespec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, type_name, out_treespec);
    TUTTI_ASSIGN_OR_RETURN(auto names, ReadNames(call, count, fields, "fields"));
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadChildren(call, count, children));
    TUTTI_ASSIGN_OR_RETURN(auto treespec,
                           TreeSpec::NamedTuple(type_name, std::move(names), std::move(read)));
    *out_treespec = Give(std::move(treespec));
    return OkStatus();
  });
}

tutti_node_kind tutti_treespec_get_kind(const tutti_treespec *treespec) {
  return treespec == nullptr ? 0 : static_cast<tutti_node_kind>(FromHandle(treespec)->kind());
}

size_t tutti_treespec_get_leaf_count(const tutti_treespec *treespec) {
  return treespec == nullptr ? 0 : FromHandle(treespec)->num_leaves();
}

size_t tutti_treespec_get_child_count(const tutti_treespec *treespec) {
  return treespec == nullptr ? 0 : FromHandle(treespec)->num_children();
}

const tutti_treespec *tutti_treespec_get_child(const tutti_treespec *treespec, size_t index) {
  if (index >= tutti_treespec_get_child_count(treespec)) return nullptr;
  return ToHandle(&FromHandle(treespec)->child(index));
}

const char *tutti_treespec_get_key(const tutti_treespec *treespec, size_t index) {
  if (treespec == nullptr || index >= FromHandle(treespec)->keys().size()) return nullptr;
  return FromHandle(treespec)->key(index).c_str();
}

const char *tutti_treespec_get_type_name(const tutti_treespec *treespec) {
  if (tutti_treespec_get_kind(treespec) != TUTTI_NODE_NAMED_TUPLE) return nullptr;
  return FromHandle(treespec)->name().c_str();
}

int32_t tutti_treespec_equal(const tutti_treespec *left, const tutti_treespec *right) {
  if (left == nullptr || right == nullptr) return left == right;
  return *FromHandle(left) == *FromHandle(right);
}

tutti_status *tutti_treespec_to_string(const tutti_treespec *treespec, tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, treespec, out_text);
    *out_text = GiveBytes(FromHandle(treespec)->ToString());
    return OkStatus();
  });
}

void tutti_treespec_retain(const tutti_treespec *treespec) { RetainHandle(treespec); }
void tutti_treespec_release(const tutti_treespec *treespec) { ReleaseHandle(treespec); }
