// Values that are one leaf, and what the leaves of any value hold.
#include <tutti/value.h>

#include <string_view>
#include <utility>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/hook.h"
#include "capi/src/roots.h"
#include "core/dataset/graph/dataset.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/variable.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/leaf.h"
#include "core/tensor/value.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

// The leaf, or null when the value has no such leaf or one of another kind.
const Leaf *FindLeaf(const tutti_value *value, size_t leaf, LeafKind kind) {
  if (value == nullptr || leaf >= FromHandle(value)->num_leaves()) return nullptr;
  const Leaf &found = FromHandle(value)->leaf(leaf);
  return found.kind() == kind ? &found : nullptr;
}

template <class T>
Ref<T> Share(const T *object) {
  return Ref<T>::Retain(const_cast<T *>(object));
}

}  // namespace

tutti_status *tutti_value_create_tensor(const tutti_tensor *tensor, tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, tensor, out_value);
    *out_value = Give(Value::OfTensor(Share(FromHandle(tensor))));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_float64(double number, tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_value);
    *out_value = Give(Value::OfTensor(Tensor::Scalar<double>(number)));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_int64(int64_t number, tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_value);
    *out_value = Give(Value::OfTensor(Tensor::Scalar<int64_t>(number)));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_string(tutti_string_view text, tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_value);
    TUTTI_REQUIRE_ARRAY(call, text.size, text.data);
    *out_value = Give(Value::OfString(std::string_view(text.data, text.size)));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_none(tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_value);
    *out_value = Give(Value::None());
    return OkStatus();
  });
}

tutti_status *tutti_value_create_optional(const tutti_value *value, tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_value);
    *out_value = Give(Value::OfLeaf(Leaf::OfOptional(Share(FromHandle(value)))));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_empty_optional(const tutti_spec *element_spec,
                                                tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, element_spec, out_value);
    auto spec = Ref<const ElementSpec>::Retain(FromHandle(element_spec));
    *out_value = Give(Value::OfLeaf(Leaf::OfEmptyOptional(std::move(spec))));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_host_object(const void *tag, void *object,
                                             tutti_destroy_fn destroy, tutti_value **out_value) {
  Hook owner(destroy, object);
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, out_value);
    *out_value =
        Give(Value::OfLeaf(Leaf::OfHostObject(owner.Take(DefaultCallbackExecutor().get(), tag))));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_variable(const tutti_variable *variable, tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, variable, out_value);
    *out_value = Give(Value::OfLeaf(Leaf(LeafKind::kVariable, Share(FromHandle(variable)))));
    return OkStatus();
  });
}

tutti_status *tutti_value_create_dataset(const tutti_dataset *dataset, tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, dataset, out_value);
    *out_value = Give(Value::OfLeaf(Leaf(LeafKind::kDataset, Share(FromHandle(dataset)))));
    return OkStatus();
  });
}

tutti_leaf_kind tutti_value_get_leaf_kind(const tutti_value *value, size_t leaf) {
  if (value == nullptr || leaf >= FromHandle(value)->num_leaves()) return 0;
  return static_cast<tutti_leaf_kind>(FromHandle(value)->leaf(leaf).kind());
}

const tutti_tensor *tutti_value_get_leaf_tensor(const tutti_value *value, size_t leaf) {
  const Leaf *found = FindLeaf(value, leaf, LeafKind::kTensor);
  return found == nullptr ? nullptr : ToHandle(&found->tensor());
}

tutti_string_view tutti_value_get_leaf_string(const tutti_value *value, size_t leaf) {
  const Leaf *found = FindLeaf(value, leaf, LeafKind::kString);
  return found == nullptr ? tutti_string_view{nullptr, 0} : ViewOf(found->string());
}

tutti_variable *tutti_value_get_leaf_variable(const tutti_value *value, size_t leaf) {
  const Leaf *found = FindLeaf(value, leaf, LeafKind::kVariable);
  return found == nullptr ? nullptr : ToHandle(found->object_as<Variable>());
}

tutti_dataset *tutti_value_get_leaf_dataset(const tutti_value *value, size_t leaf) {
  const Leaf *found = FindLeaf(value, leaf, LeafKind::kDataset);
  return found == nullptr ? nullptr : ToHandle(found->object_as<Dataset>());
}

void *tutti_value_get_leaf_host_object(const tutti_value *value, size_t leaf, const void *tag) {
  const Leaf *found = FindLeaf(value, leaf, LeafKind::kHostObject);
  if (found == nullptr || found->host_object().tag() != tag) return nullptr;
  return found->host_object().data();
}

const tutti_value *tutti_value_get_leaf_optional(const tutti_value *value, size_t leaf) {
  const Leaf *found = FindLeaf(value, leaf, LeafKind::kOptional);
  return found == nullptr ? nullptr : ToHandle(found->optional_value());
}

size_t tutti_value_get_leaf_component_count(const tutti_value *value, size_t leaf) {
  const Leaf *found = FindLeaf(value, leaf, LeafKind::kDistributed);
  return found == nullptr ? 0 : AsDistributed(*found)->num_components();
}

tutti_distribution tutti_value_get_leaf_distribution(const tutti_value *value, size_t leaf) {
  const Leaf *found = FindLeaf(value, leaf, LeafKind::kDistributed);
  return found == nullptr ? 0 : static_cast<tutti_distribution>(DistributionOf(*found));
}

const tutti_value *tutti_value_get_leaf_component(const tutti_value *value, size_t leaf,
                                                  size_t component) {
  if (component >= tutti_value_get_leaf_component_count(value, leaf)) return nullptr;
  return ToHandle(&AsDistributed(FromHandle(value)->leaf(leaf))->component(component));
}
