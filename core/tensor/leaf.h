// Leaf: one leaf of a Value, a kind and the object that it refers to.
//
// Kinds are append-only. The tensor room knows tensor, string, optional, none and host object; the
// objects of the other kinds belong to rooms above, which cast `object()` after looking at the
// kind. An iterator is a kind of specs only: no value holds one.
#ifndef TUTTI_CORE_TENSOR_LEAF_H_
#define TUTTI_CORE_TENSOR_LEAF_H_

#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/host_data.h"
#include "core/base/ref.h"
#include "core/tensor/tensor.h"

namespace tutti {

class ElementSpec;
class Value;

// The same numbers as TUTTI_LEAF_* of the C interface.
enum class LeafKind : int32_t {
  kTensor = 1,
  kString = 2,
  kDistributed = 3,
  kVariable = 4,
  kDataset = 5,
  kOptional = 6,
  kNone = 7,
  kHostObject = 8,
  kIterator = 9,
};

// "tensor", "string", ..., "iterator"; static.
std::string_view LeafKindName(LeafKind kind);

// For objects of rooms above that say how they are printed inside a value ("PerReplica:{0: ...}").
class Printable {
 public:
  virtual std::string ToString() const = 0;

 protected:
  ~Printable() = default;
};

class Leaf {
 public:
  Leaf() = default;  // none
  Leaf(LeafKind kind, Ref<RefCounted> object) : kind_(kind), object_(std::move(object)) {}

  static Leaf None() { return Leaf(); }
  static Leaf OfTensor(Ref<Tensor> tensor) { return Leaf(LeafKind::kTensor, std::move(tensor)); }
  static Leaf OfString(std::string_view text);
  // An empty optional when `value` is null.
  static Leaf OfOptional(Ref<Value> value);
  // An optional without a value, of which `spec` says what it would be; null where nobody does.
  static Leaf OfEmptyOptional(Ref<const ElementSpec> spec);
  // An object of the host's, which only the binding with the same tag unwraps.
  static Leaf OfHostObject(Ref<HostData> object) {
    return Leaf(LeafKind::kHostObject, std::move(object));
  }

  LeafKind kind() const { return kind_; }
  bool is_none() const { return kind_ == LeafKind::kNone; }
  bool is_tensor() const { return kind_ == LeafKind::kTensor; }

  // The object, null for none; identity is by this pointer.
  RefCounted* object() const { return object_.get(); }
  const Ref<RefCounted>& object_ref() const { return object_; }
  // The object as T, whatever the kind: the caller has looked at it.
  template <class T>
  T* object_as() const {
    return static_cast<T*>(object_.get());
  }

  // Of the kind that the name says only.
  const Tensor& tensor() const {
    assert(kind_ == LeafKind::kTensor);
    return *static_cast<const Tensor*>(object_.get());
  }
  Ref<Tensor> tensor_ref() const {
    assert(kind_ == LeafKind::kTensor);
    return Ref<Tensor>::Retain(static_cast<Tensor*>(object_.get()));
  }
  const std::string& string() const;
  const HostData& host_object() const {
    assert(kind_ == LeafKind::kHostObject);
    return *static_cast<const HostData*>(object_.get());
  }
  const Value* optional_value() const;  // null when empty
  Ref<Value> optional_value_ref() const;
  const Ref<const ElementSpec>& empty_optional_spec() const;

  // The same kind and the same object (for none: both none). Not a comparison of contents.
  bool SameObject(const Leaf& other) const {
    return kind_ == other.kind_ && object_.get() == other.object_.get();
  }
  // For tests and printing: contents of tensors, strings and optionals; identity of all others.
  bool ContentsEqual(const Leaf& other) const;
  // An object that is Printable says itself; others give their kind, "<variable>".
  std::string ToString() const;

 private:
  LeafKind kind_ = LeafKind::kNone;
  Ref<RefCounted> object_;
};

class StringLeaf final : public RefCounted {
 public:
  explicit StringLeaf(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }

 private:
  const std::string text_;
};

class OptionalLeaf final : public RefCounted {
 public:
  OptionalLeaf(Ref<Value> value, Ref<const ElementSpec> spec);
  ~OptionalLeaf() override;
  bool has_value() const { return value_.get() != nullptr; }
  const Ref<Value>& value() const { return value_; }
  // What the value of an empty one would be; null where it is not known, and where there is one.
  const Ref<const ElementSpec>& spec() const { return spec_; }

 private:
  const Ref<Value> value_;
  const Ref<const ElementSpec> spec_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_LEAF_H_
