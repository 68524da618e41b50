// Nested structures: Python's tuples, lists, dicts and named tuples as tutti values and specs, and
// back.
//
// What is no structure is a leaf. Which objects are tensors depends on where they stand:
//   kArguments  run's arguments: arrays are tensors, those that came out of tensors these again;
//               numbers and unknown objects stay themselves
//   kResult     what replica and merge functions return and exchange: numbers are tensors, too
//   kData       elements of datasets: lists and texts are tensors, unknown objects an error
//   kDeclared   the same under a declared spec, to whose dtypes the library converts the numbers
#ifndef TUTTI_BINDINGS_SWIG_PYTHON_STRUCTURES_H_
#define TUTTI_BINDINGS_SWIG_PYTHON_STRUCTURES_H_

#include <cstring>
#include <string>
#include <vector>

#include "arrays.h"

namespace tutti_python {

enum class Role { kArguments, kResult, kData, kDeclared };

inline bool IsData(Role role) { return role == Role::kData || role == Role::kDeclared; }

// Rows that a function returns are gathered into a slab: up to here a copy is cheaper than a view.
constexpr npy_intp kCopiedRowBytes = 1024;
// So are operands, which a call reads and lets go of: letting go of a view goes over a thread.
constexpr npy_intp kCopiedOperandBytes = 4096;

inline bool IsA(PyObject *object, PyObject *type) {
  return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject *>(type));
}

// Of specs.h, for optionals that are empty.
inline bool SpecOf(PyObject *object, tutti_spec **out);
inline PyObject *ObjectOfSpec(const tutti_spec *spec);

inline bool IsNamedTuple(PyObject *object) {
  static PyObject *fields = PyUnicode_InternFromString("_fields");
  return !PyTuple_CheckExact(object) &&
         PyObject_HasAttr(reinterpret_cast<PyObject *>(Py_TYPE(object)), fields);
}

// The pointer behind the slot `_handle`, borrowed; null with an exception set.
template <class T>
T *HandleOf(PyObject *object, swig_type_info *info) {
  static PyObject *name = PyUnicode_InternFromString("_handle");
  Owned handle(PyObject_GetAttr(object, name));
  void *pointer = nullptr;
  if (!handle) return nullptr;
  if (SWIG_ConvertPtr(handle.get(), &pointer, info, 0) != 0 || pointer == nullptr) {
    PyErr_Format(PyExc_TypeError, "this %s was not made by tutti", Py_TYPE(object)->tp_name);
    return nullptr;
  }
  return static_cast<T *>(pointer);
}

// ---- in: structures of values and of specs are built by the same walk.

struct ValueParts {
  using Node = tutti_value;
  static void Release(Node *node) { tutti_value_release(node); }
  static tutti_status *Tuple(size_t n, const Node *const *children, Node **out) {
    return tutti_value_create_tuple(n, children, out);
  }
  static tutti_status *List(size_t n, const Node *const *children, Node **out) {
    return tutti_value_create_list(n, children, out);
  }
  static tutti_status *Dict(size_t n, const char *const *keys, const Node *const *children,
                            Node **out) {
    return tutti_value_create_dict(n, keys, children, out);
  }
  static tutti_status *NamedTuple(const char *type, size_t n, const char *const *fields,
                                  const Node *const *children, Node **out) {
    return tutti_value_create_named_tuple(type, n, fields, children, out);
  }
};

struct TreespecParts {
  using Node = tutti_treespec;
  static void Release(Node *node) { tutti_treespec_release(node); }
  static tutti_status *Tuple(size_t n, const Node *const *children, Node **out) {
    return tutti_treespec_create_sequence(TUTTI_NODE_TUPLE, n, children, out);
  }
  static tutti_status *List(size_t n, const Node *const *children, Node **out) {
    return tutti_treespec_create_sequence(TUTTI_NODE_LIST, n, children, out);
  }
  static tutti_status *Dict(size_t n, const char *const *keys, const Node *const *children,
                            Node **out) {
    return tutti_treespec_create_dict(n, keys, children, out);
  }
  static tutti_status *NamedTuple(const char *type, size_t n, const char *const *fields,
                                  const Node *const *children, Node **out) {
    return tutti_treespec_create_named_tuple(type, n, fields, children, out);
  }
};

// The children of one node, released at the end of the scope. Most nodes have few.
template <class Parts>
class Children {
 public:
  using Node = typename Parts::Node;
  ~Children() {
    for (size_t i = 0; i < size_; ++i) Parts::Release(data()[i]);
  }
  void Add(Node *node) {
    if (size_ < kInline) {
      inline_[size_++] = node;
      return;
    }
    if (more_.empty()) more_.assign(inline_, inline_ + kInline);
    more_.push_back(node);
    ++size_;
  }
  size_t size() const { return size_; }
  Node **data() { return more_.empty() ? inline_ : more_.data(); }

 private:
  static constexpr size_t kInline = 8;
  Node *inline_[kInline];
  std::vector<Node *> more_;
  size_t size_ = 0;
};

struct TensorParts {
  using Node = tutti_tensor;
  static void Release(Node *node) { tutti_tensor_release(node); }
};

// take(item) for each item of a list or another sequence; false, with an exception set, once one of
// them is.
template <class Take>
bool EachItem(PyObject *sequence, Take &&take) {
  Owned items(PySequence_Fast(sequence, "a list is needed"));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    if (!take(PySequence_Fast_GET_ITEM(items.get(), i))) return false;
  }
  return true;
}

inline bool IsNamed(const tutti_treespec *spec, const char *type_name) {
  return std::strcmp(tutti_treespec_get_type_name(spec), type_name) == 0;
}

template <class Parts, class Leaf>
bool Build(PyObject *object, bool list_is_node, Leaf &leaf, typename Parts::Node **out);

// A sparse or ragged tensor, or indexed slices, which say its own name, fields and parts.
template <class Parts, class Leaf>
bool BuildComposite(PyObject *object, bool list_is_node, Leaf &leaf, typename Parts::Node **out) {
  Owned name(PyObject_GetAttrString(object, "_type_name"));
  Owned fields(PyObject_GetAttrString(object, "_fields"));
  Owned parts(PyObject_GetAttrString(object, "_parts"));
  if (!name || !fields || !parts) return false;
  const char *type_name = PyUnicode_AsUTF8(name.get());
  if (type_name == nullptr) return false;
  if (!PyTuple_Check(parts.get()) || !PyTuple_Check(fields.get()) ||
      PyTuple_GET_SIZE(parts.get()) != PyTuple_GET_SIZE(fields.get())) {
    PyErr_Format(PyExc_TypeError, "this %s was not made by tutti", Py_TYPE(object)->tp_name);
    return false;
  }
  Children<Parts> children;
  std::vector<const char *> names;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts.get()); ++i) {
    typename Parts::Node *child = nullptr;
    if (!Build<Parts>(PyTuple_GET_ITEM(parts.get(), i), list_is_node, leaf, &child)) return false;
    children.Add(child);
    names.push_back(PyUnicode_AsUTF8(PyTuple_GET_ITEM(fields.get(), i)));
    if (names.back() == nullptr) return false;
  }
  return Check(
      Parts::NamedTuple(type_name, children.size(), names.data(), children.data(), out));
}

// `list_is_node`: a list is a structure, not a leaf. `leaf(object, &node)` makes a leaf.
template <class Parts, class Leaf>
bool Build(PyObject *object, bool list_is_node, Leaf &leaf, typename Parts::Node **out) {
  const bool tuple = PyTuple_Check(object);
  const bool list = list_is_node && PyList_Check(object);
  const bool dict = PyDict_Check(object);
  if (!tuple && !list && !dict) {
    if (!IsA(object, hooks.composite)) return leaf(object, out);
    return BuildComposite<Parts>(object, list_is_node, leaf, out);
  }
  if (Py_EnterRecursiveCall(" while reading a nested structure")) return false;
  struct Leave {
    ~Leave() { Py_LeaveRecursiveCall(); }
  } leave;

  Children<Parts> children;
  if (dict) {
    std::vector<const char *> keys;
    keys.reserve(static_cast<size_t>(PyDict_GET_SIZE(object)));
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (!PyUnicode_Check(key)) {
        PyErr_Format(PyExc_TypeError, "keys of a dict must be str; %R is of type %s", key,
                     Py_TYPE(key)->tp_name);
        return false;
      }
      const char *text = Utf8(key);
      if (text == nullptr) return false;
      typename Parts::Node *child = nullptr;
      if (!Build<Parts>(value, list_is_node, leaf, &child)) return false;
      children.Add(child);
      keys.push_back(text);
    }
    return Check(Parts::Dict(children.size(), keys.data(), children.data(), out));
  }
  const Py_ssize_t count = tuple ? PyTuple_GET_SIZE(object) : PyList_GET_SIZE(object);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *item = tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i);
    typename Parts::Node *child = nullptr;
    if (!Build<Parts>(item, list_is_node, leaf, &child)) return false;
    children.Add(child);
  }
  if (list) return Check(Parts::List(children.size(), children.data(), out));
  if (!IsNamedTuple(object)) {
    return Check(Parts::Tuple(children.size(), children.data(), out));
  }
  PyObject *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
  Owned name(PyObject_CallOneArg(hooks.named_tuple_name, type));
  Owned fields(PyObject_GetAttrString(type, "_fields"));
  if (!name || !fields) return false;
  const char *type_name = PyUnicode_AsUTF8(name.get());
  if (type_name == nullptr || !PyTuple_Check(fields.get()) ||
      PyTuple_GET_SIZE(fields.get()) != count) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "_fields is not that of a named tuple");
    return false;
  }
  std::vector<const char *> names;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const char *text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(fields.get(), i));
    if (text == nullptr) return false;
    names.push_back(text);
  }
  return Check(
      Parts::NamedTuple(type_name, children.size(), names.data(), children.data(), out));
}

inline bool TensorLeaf(PyObject *object, npy_intp copy_up_to, Literals literals,
                       tutti_value **out) {
  tutti_tensor *tensor = nullptr;
  if (!TensorOfObject(object, copy_up_to, &tensor, literals)) return false;
  const bool made = Check(tutti_value_create_tensor(tensor, out));
  tutti_tensor_release(tensor);
  return made;
}

inline bool HostObjectLeaf(PyObject *object, tutti_value **out) {
  Py_INCREF(object);
  return Check(tutti_value_create_host_object(&host_tag, object, &Garbage::Add, out));
}

class ValueLeaf {
 public:
  explicit ValueLeaf(Role role, npy_intp copy_up_to = 0)
      : role_(role),
        literals_(role == Role::kDeclared ? Literals::kDeclared : Literals::kAlone),
        copy_up_to_(copy_up_to) {}

  bool operator()(PyObject *object, tutti_value **out) const {
    if (PyArray_Check(object)) {
      const tutti_tensor *behind =
          role_ == Role::kArguments ? TensorBehind(reinterpret_cast<PyArrayObject *>(object))
                                    : nullptr;
      return behind != nullptr ? Check(tutti_value_create_tensor(behind, out))
                               : TensorLeaf(object, copy_up_to_, literals_, out);
    }
    if (object == Py_None) return Check(tutti_value_create_none(out));
    if (IsA(object, hooks.per_replica) || IsA(object, hooks.mirrored)) {
      auto *value = HandleOf<tutti_value>(object, SWIGTYPE_p_tutti_value);
      if (value == nullptr) return false;
      tutti_value_retain(value);
      *out = value;
      return true;
    }
    if (role_ == Role::kArguments && (PyFloat_CheckExact(object) || PyLong_CheckExact(object) ||
                                      PyBool_Check(object) || PyComplex_CheckExact(object))) {
      return HostObjectLeaf(object, out);
    }
    if (PyFloat_CheckExact(object) || PyLong_CheckExact(object)) {
      return TensorLeaf(object, copy_up_to_, literals_, out);
    }
    if (PyUnicode_Check(object) && !IsData(role_)) {
      Py_ssize_t size = 0;
      const char *text = PyUnicode_AsUTF8AndSize(object, &size);
      if (text == nullptr) return false;
      return Check(tutti_value_create_string({text, static_cast<size_t>(size)}, out));
    }
    if (IsA(object, hooks.variable)) {
      auto *variable = HandleOf<tutti_variable>(object, SWIGTYPE_p_tutti_variable);
      return variable != nullptr && Check(tutti_value_create_variable(variable, out));
    }
    if (IsA(object, hooks.dataset) || IsA(object, hooks.variant)) {
      auto *dataset = HandleOf<tutti_dataset>(object, SWIGTYPE_p_tutti_dataset);
      return dataset != nullptr && Check(tutti_value_create_dataset(dataset, out));
    }
    if (IsA(object, hooks.optional)) return OptionalLeaf(object, out);
    if (IsTensorLike(object)) return TensorLeaf(object, copy_up_to_, literals_, out);
    if (IsData(role_)) {
      PyErr_Format(PyExc_TypeError,
                   "an object of type %s cannot stand in a dataset; give NumPy arrays, numbers, "
                   "bytes, or tuples, dicts and lists of them",
                   Py_TYPE(object)->tp_name);
      return false;
    }
    return HostObjectLeaf(object, out);
  }

 private:
  bool IsTensorLike(PyObject *object) const {
    return PyArray_IsGenericScalar(object) || IsA(object, hooks.tensor) ||
           PyBytes_Check(object) || PyBool_Check(object) || PyComplex_CheckExact(object) ||
           (IsData(role_) && (PyList_Check(object) || PyUnicode_Check(object) ||
                              PyObject_CheckBuffer(object))) ||
           PyObject_HasAttrString(object, "__dlpack__") ||
           PyObject_HasAttrString(object, "__array__");
  }

  bool OptionalLeaf(PyObject *object, tutti_value **out) const {
    Owned held(PyObject_GetAttrString(object, "_value"));
    Owned has(PyObject_GetAttrString(object, "_has_value"));
    if (!held || !has) return false;
    if (has.get() != Py_True) {
      Owned said(PyObject_GetAttrString(object, "_spec"));
      if (!said) return false;
      if (said.get() == Py_None) return Check(tutti_value_create_optional(nullptr, out));
      tutti_spec *spec = nullptr;
      if (!SpecOf(said.get(), &spec)) return false;
      const bool made = Check(tutti_value_create_empty_optional(spec, out));
      tutti_spec_release(spec);
      return made;
    }
    tutti_value *inner = nullptr;
    if (!Build<ValueParts>(held.get(), !IsData(role_), *this, &inner)) return false;
    const bool made = Check(tutti_value_create_optional(inner, out));
    tutti_value_release(inner);
    return made;
  }

  const Role role_;
  const Literals literals_;
  const npy_intp copy_up_to_;
};

// The value of a Python object; `out` gets a reference. False with an exception set.
inline bool ValueOf(PyObject *object, Role role, npy_intp copy_up_to, tutti_value **out) {
  const ValueLeaf leaf(role, copy_up_to);
  return Build<ValueParts>(object, !IsData(role), leaf, out);
}

// ---- out

inline PyObject *ObjectOf(const tutti_value *value, Leaves leaves = Leaves::kPlain);

inline PyObject *ObjectOfLeaf(const tutti_value *value, size_t leaf, Leaves leaves) {
  switch (tutti_value_get_leaf_kind(value, leaf)) {
    case TUTTI_LEAF_TENSOR:
      return ObjectOfSharedTensor(tutti_value_get_leaf_tensor(value, leaf), leaves);
    case TUTTI_LEAF_DISTRIBUTED: {
      tutti_value *own = nullptr;
      if (!Check(tutti_value_leaf(value, leaf, &own))) return nullptr;
      const bool mirrored =
          tutti_value_get_leaf_distribution(value, leaf) == TUTTI_DISTRIBUTION_MIRRORED;
      return WrapHandle(mirrored ? hooks.mirrored : hooks.per_replica, own, SWIGTYPE_p_tutti_value);
    }
    case TUTTI_LEAF_NONE:
      Py_RETURN_NONE;
    case TUTTI_LEAF_STRING: {
      const tutti_string_view text = tutti_value_get_leaf_string(value, leaf);
      return PyUnicode_DecodeUTF8(text.data, static_cast<Py_ssize_t>(text.size), "strict");
    }
    case TUTTI_LEAF_HOST_OBJECT: {
      auto *object =
          static_cast<PyObject *>(tutti_value_get_leaf_host_object(value, leaf, &host_tag));
      if (object == nullptr) {
        PyErr_SetString(PyExc_TypeError, "this value holds an object of another language");
        return nullptr;
      }
      Py_INCREF(object);
      return object;
    }
    case TUTTI_LEAF_VARIABLE: {
      tutti_variable *variable = tutti_value_get_leaf_variable(value, leaf);
      tutti_variable_retain(variable);
      Owned handle(
          SWIG_InternalNewPointerObj(variable, SWIGTYPE_p_tutti_variable, SWIG_POINTER_OWN));
      if (!handle) return nullptr;
      return PyObject_CallFunction(hooks.variable_of, "NO", PyLong_FromVoidPtr(variable),
                                   handle.get());
    }
    case TUTTI_LEAF_DATASET: {
      tutti_dataset *dataset = tutti_value_get_leaf_dataset(value, leaf);
      tutti_dataset_retain(dataset);
      Owned handle(SWIG_InternalNewPointerObj(dataset, SWIGTYPE_p_tutti_dataset, SWIG_POINTER_OWN));
      if (!handle) return nullptr;
      return PyObject_CallOneArg(hooks.wrap_dataset, handle.get());
    }
    case TUTTI_LEAF_OPTIONAL: {
      const tutti_value *held = tutti_value_get_leaf_optional(value, leaf);
      if (held == nullptr) {
        tutti_value *own = nullptr;
        tutti_spec *spec = nullptr;
        if (!Check(tutti_value_leaf(value, leaf, &own))) return nullptr;
        const bool described = Check(tutti_spec_create_from_value(own, &spec));
        tutti_value_release(own);
        if (!described) return nullptr;
        const tutti_spec *inner = tutti_spec_get_leaf_inner(spec, 0);
        Owned said(inner == nullptr ? Py_NewRef(Py_None) : ObjectOfSpec(inner));
        tutti_spec_release(spec);
        if (!said) return nullptr;
        return PyObject_CallFunctionObjArgs(hooks.wrap_optional, Py_False, Py_None, said.get(),
                                            nullptr);
      }
      Owned object(ObjectOf(held, leaves));
      if (!object) return nullptr;
      return PyObject_CallFunctionObjArgs(hooks.wrap_optional, Py_True, object.get(), nullptr);
    }
    default:
      PyErr_SetString(PyExc_TypeError, "this value holds a leaf of a kind that is not known here");
      return nullptr;
  }
}

// Rebuilds the structure `spec`; `leaf(index)` gives a new reference to each leaf in order.
template <class Leaf>
PyObject *Rebuild(const tutti_treespec *spec, size_t *next_leaf, Leaf &leaf) {
  const tutti_node_kind kind = tutti_treespec_get_kind(spec);
  if (kind == TUTTI_NODE_LEAF) return leaf((*next_leaf)++);
  const auto count = static_cast<Py_ssize_t>(tutti_treespec_get_child_count(spec));
  if (kind == TUTTI_NODE_DICT) {
    Owned dict(PyDict_New());
    if (!dict) return nullptr;
    for (Py_ssize_t i = 0; i < count; ++i) {
      Owned item(Rebuild(tutti_treespec_get_child(spec, i), next_leaf, leaf));
      if (!item) return nullptr;
      Owned key(PyUnicode_InternFromString(tutti_treespec_get_key(spec, i)));
      if (!key || PyDict_SetItem(dict.get(), key.get(), item.get()) != 0) return nullptr;
    }
    return dict.release();
  }
  Owned sequence(kind == TUTTI_NODE_LIST ? PyList_New(count) : PyTuple_New(count));
  if (!sequence) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *item = Rebuild(tutti_treespec_get_child(spec, i), next_leaf, leaf);
    if (item == nullptr) return nullptr;
    if (kind == TUTTI_NODE_LIST) {
      PyList_SET_ITEM(sequence.get(), i, item);
    } else {
      PyTuple_SET_ITEM(sequence.get(), i, item);
    }
  }
  if (kind != TUTTI_NODE_NAMED_TUPLE) return sequence.release();
  Owned fields(PyTuple_New(count));
  if (!fields) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *field = PyUnicode_InternFromString(tutti_treespec_get_key(spec, i));
    if (field == nullptr) return nullptr;
    PyTuple_SET_ITEM(fields.get(), i, field);
  }
  Owned type(PyObject_CallFunction(hooks.named_tuple_type, "sO",
                                   tutti_treespec_get_type_name(spec), fields.get()));
  if (!type) return nullptr;
  return PyObject_Call(type.get(), sequence.get(), nullptr);
}

// New reference to the Python object of `value` (borrowed).
inline PyObject *ObjectOf(const tutti_value *value, Leaves leaves) {
  if (value == nullptr) Py_RETURN_NONE;
  size_t next_leaf = 0;
  auto leaf = [value, leaves](size_t index) { return ObjectOfLeaf(value, index, leaves); };
  return Rebuild(tutti_value_get_treespec(value), &next_leaf, leaf);
}

}  // namespace tutti_python

#endif  // TUTTI_BINDINGS_SWIG_PYTHON_STRUCTURES_H_
