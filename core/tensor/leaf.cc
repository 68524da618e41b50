// Leaves: what each kind holds, how it compares and prints.
#include "core/tensor/leaf.h"

#include "core/base/text.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/value.h"

namespace tutti {

std::string_view LeafKindName(LeafKind kind) {
  switch (kind) {
    case LeafKind::kTensor: return "tensor";
    case LeafKind::kString: return "string";
    case LeafKind::kDistributed: return "distributed value";
    case LeafKind::kVariable: return "variable";
    case LeafKind::kDataset: return "dataset";
    case LeafKind::kOptional: return "optional";
    case LeafKind::kNone: return "none";
    case LeafKind::kHostObject: return "host object";
    case LeafKind::kIterator: return "iterator";
  }
  return "unknown";
}

OptionalLeaf::OptionalLeaf(Ref<Value> value, Ref<const ElementSpec> spec)
    : value_(std::move(value)), spec_(std::move(spec)) {}
OptionalLeaf::~OptionalLeaf() = default;

Leaf Leaf::OfString(std::string_view text) {
  return Leaf(LeafKind::kString, MakeRef<StringLeaf>(std::string(text)));
}

Leaf Leaf::OfOptional(Ref<Value> value) {
  return Leaf(LeafKind::kOptional, MakeRef<OptionalLeaf>(std::move(value), nullptr));
}

Leaf Leaf::OfEmptyOptional(Ref<const ElementSpec> spec) {
  return Leaf(LeafKind::kOptional, MakeRef<OptionalLeaf>(nullptr, std::move(spec)));
}

const std::string& Leaf::string() const {
  assert(kind_ == LeafKind::kString);
  return static_cast<const StringLeaf*>(object_.get())->text();
}

const Value* Leaf::optional_value() const {
  assert(kind_ == LeafKind::kOptional);
  return static_cast<const OptionalLeaf*>(object_.get())->value().get();
}

Ref<Value> Leaf::optional_value_ref() const {
  assert(kind_ == LeafKind::kOptional);
  return static_cast<const OptionalLeaf*>(object_.get())->value();
}

const Ref<const ElementSpec>& Leaf::empty_optional_spec() const {
  assert(kind_ == LeafKind::kOptional);
  return static_cast<const OptionalLeaf*>(object_.get())->spec();
}

bool Leaf::ContentsEqual(const Leaf& other) const {
  if (kind_ != other.kind_) return false;
  if (object_ == other.object_) return true;
  switch (kind_) {
    case LeafKind::kTensor: return tensor().ContentsEqual(other.tensor());
    case LeafKind::kString: return string() == other.string();
    case LeafKind::kOptional: {
      const Value* mine = optional_value();
      const Value* theirs = other.optional_value();
      if (mine == nullptr || theirs == nullptr) return mine == theirs;
      return mine->ContentsEqual(*theirs);
    }
    default: return false;
  }
}

std::string Leaf::ToString() const {
  switch (kind_) {
    case LeafKind::kTensor: return tensor().ContentsToString();
    case LeafKind::kString: return Quote(string());
    case LeafKind::kNone: return "None";
    case LeafKind::kOptional: {
      const Value* value = optional_value();
      return value == nullptr ? "Optional()" : "Optional(" + value->ToString() + ")";
    }
    default: break;
  }
  const auto* printable = dynamic_cast<const Printable*>(object_.get());
  return printable != nullptr ? printable->ToString()
                              : "<" + std::string(LeafKindName(kind_)) + ">";
}

}  // namespace tutti
