// Attributes: the typed arguments of an op by name, in the order in which they were set.
#ifndef TUTTI_CORE_DATASET_GRAPH_ATTRIBUTES_H_
#define TUTTI_CORE_DATASET_GRAPH_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/tree_spec.h"
#include "core/tensor/value.h"

namespace tutti {

using Attribute =
    std::variant<int64_t, bool, std::string, std::vector<int64_t>, std::vector<std::string>,
                 Ref<const Value>, Ref<const ElementSpec>, Ref<const TreeSpec>>;

class Attributes {
 public:
  Attributes() = default;

  // The name must be new.
  Attributes& Set(std::string_view name, Attribute value);

  const Attribute* Find(std::string_view name) const {
    for (const auto& [key, value] : items_) {
      if (key == name) return &value;
    }
    return nullptr;
  }
  // The attribute when it is there and of this type, else null.
  template <class T>
  const T* Get(std::string_view name) const {
    const Attribute* attribute = Find(name);
    return attribute == nullptr ? nullptr : std::get_if<T>(attribute);
  }
  // Of attributes that the op's check has seen, or with the value that stands for "not set".
  int64_t Int(std::string_view name, int64_t otherwise = 0) const {
    const int64_t* value = Get<int64_t>(name);
    return value == nullptr ? otherwise : *value;
  }
  bool Bool(std::string_view name, bool otherwise = false) const {
    const bool* value = Get<bool>(name);
    return value == nullptr ? otherwise : *value;
  }

  const std::vector<std::pair<std::string, Attribute>>& items() const { return items_; }

 private:
  std::vector<std::pair<std::string, Attribute>> items_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_ATTRIBUTES_H_
