// Element specs: nested structures whose leaves are TensorSpec and its like.
//
// The package says what a leaf is (_specs.read) and makes one (_specs.make); the walk through the
// structure is that of structures.h.
#ifndef TUTTI_BINDINGS_SWIG_PYTHON_SPECS_H_
#define TUTTI_BINDINGS_SWIG_PYTHON_SPECS_H_

#include <vector>

#include "structures.h"

namespace tutti_python {

inline bool SpecOf(PyObject *object, tutti_spec **out);

inline bool DimsOf(PyObject *shape, std::vector<int64_t> *dims) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
    PyObject *dim = PyTuple_GET_ITEM(shape, i);
    dims->push_back(dim == Py_None ? TUTTI_UNKNOWN_DIMENSION : PyLong_AsLongLong(dim));
  }
  return PyErr_Occurred() == nullptr;
}

// The spec of a distributed value, of the tuple of its components' specs.
inline bool SpecOfReplicas(PyObject *components, tutti_spec **out) {
  std::vector<tutti_spec *> specs;
  bool made = true;
  for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(components); ++i) {
    tutti_spec *spec = nullptr;
    made = SpecOf(PyTuple_GET_ITEM(components, i), &spec);
    if (made) specs.push_back(spec);
  }
  made = made && Check(tutti_spec_create_per_replica(specs.size(), specs.data(), out));
  for (tutti_spec *spec : specs) tutti_spec_release(spec);
  return made;
}

inline bool SpecOfLeaf(PyObject *object, tutti_spec **out) {
  Owned fields(PyObject_CallOneArg(hooks.read_spec, object));
  if (!fields) return false;
  int kind = 0, dtype = 0;
  PyObject *shape = nullptr, *inner = nullptr;
  if (!PyArg_ParseTuple(fields.get(), "iiOO", &kind, &dtype, &shape, &inner)) return false;
  if (kind == TUTTI_LEAF_NONE) return Check(tutti_spec_create_none(out));
  int64_t rank = TUTTI_UNKNOWN_RANK;
  std::vector<int64_t> dims;
  if (shape != Py_None) {
    rank = PyTuple_GET_SIZE(shape);
    if (!DimsOf(shape, &dims)) return false;
  }
  if (kind == TUTTI_LEAF_TENSOR) {
    return Check(tutti_spec_create_tensor(dtype, rank, dims.data(), out));
  }
  if (kind == TUTTI_LEAF_DISTRIBUTED) return SpecOfReplicas(inner, out);
  tutti_spec *held = nullptr;  // None: not known
  if (inner != Py_None && !SpecOf(inner, &held)) return false;
  const bool made = Check(
      kind == TUTTI_LEAF_OPTIONAL   ? tutti_spec_create_optional(held, out)
      : kind == TUTTI_LEAF_ITERATOR ? tutti_spec_create_iterator(held, out)
      : rank == 0                   ? tutti_spec_create_dataset(held, out)
                          : tutti_spec_create_dataset_of_shape(held, rank, dims.data(), out));
  tutti_spec_release(held);
  return made;
}

// The spec of a sparse or ragged tensor.
inline bool SpecOfComposite(PyObject *object, tutti_spec **out) {
  Owned fields(PyObject_CallMethod(object, "_parts", nullptr));
  if (!fields) return false;
  long long ragged_rank = 0;
  int dtype = 0, splits = 0;
  PyObject *shape = nullptr;
  if (!PyArg_ParseTuple(fields.get(), "LiOi", &ragged_rank, &dtype, &shape, &splits)) return false;
  std::vector<int64_t> dims;
  const bool ranked = shape != Py_None;
  if (ranked && !DimsOf(shape, &dims)) return false;
  const int64_t rank = ranked ? static_cast<int64_t>(dims.size()) : TUTTI_UNKNOWN_RANK;
  return Check(ragged_rank == 0
                   ? tutti_spec_create_sparse(dtype, rank, dims.data(), out)
                   : tutti_spec_create_ragged(dtype, rank, dims.data(), ragged_rank, splits, out));
}

inline bool SpecOf(PyObject *object, tutti_spec **out) {
  // Leaves, borrowed from `object`; Build keys are visited in order.
  std::vector<PyObject *> objects;
  struct Specs {
    std::vector<tutti_spec *> all;
    ~Specs() {
      for (tutti_spec *spec : all) tutti_spec_release(spec);
    }
  } leaves;
  // A dict's leaves come in the order of its keys, so it is read in that order.
  Owned sorted;
  struct Sort {
    static PyObject *Dicts(PyObject *node) {
      if (PyDict_Check(node)) {
        Owned keys(PyDict_Keys(node));
        if (!keys || PyList_Sort(keys.get()) != 0) return nullptr;
        Owned dict(PyDict_New());
        for (Py_ssize_t i = 0; dict && i < PyList_GET_SIZE(keys.get()); ++i) {
          PyObject *key = PyList_GET_ITEM(keys.get(), i);
          Owned item(Dicts(PyDict_GetItem(node, key)));
          if (!item || PyDict_SetItem(dict.get(), key, item.get()) != 0) return nullptr;
        }
        return dict.release();
      }
      if (PyTuple_Check(node) || PyList_Check(node)) {
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(node);
        Owned items(PyTuple_New(count));
        for (Py_ssize_t i = 0; items && i < count; ++i) {
          PyObject *item = Dicts(PySequence_Fast_GET_ITEM(node, i));
          if (item == nullptr) return nullptr;
          PyTuple_SET_ITEM(items.get(), i, item);
        }
        if (!items) return nullptr;
        if (PyList_Check(node)) return PySequence_List(items.get());
        if (!IsNamedTuple(node)) return items.release();
        return PyObject_Call(reinterpret_cast<PyObject *>(Py_TYPE(node)), items.get(), nullptr);
      }
      Py_INCREF(node);
      return node;
    }
  };
  sorted.reset(Sort::Dicts(object));
  if (!sorted) return false;
  auto leaf = [&leaves](PyObject *item, tutti_treespec **node) {
    tutti_spec *spec = nullptr;
    if (IsA(item, hooks.composite_spec)) {
      if (!SpecOfComposite(item, &spec)) return false;
      const size_t count = tutti_spec_get_leaf_count(spec);
      bool made = true;
      for (size_t i = 0; made && i < count; ++i) {
        tutti_spec *part = nullptr;
        made = Check(tutti_spec_leaf(spec, i, &part));
        if (made) leaves.all.push_back(part);
      }
      const tutti_treespec *tree = tutti_spec_get_treespec(spec);
      tutti_treespec_retain(tree);
      *node = const_cast<tutti_treespec *>(tree);
      tutti_spec_release(spec);
      return made;
    }
    if (!SpecOfLeaf(item, &spec)) return false;
    leaves.all.push_back(spec);
    return Check(tutti_treespec_create_leaf(node));
  };
  tutti_treespec *treespec = nullptr;
  if (!Build<TreespecParts>(sorted.get(), true, leaf, &treespec)) return false;
  const bool made = Check(tutti_spec_create_from_leaves(treespec, leaves.all.size(),
                                                        leaves.all.data(), out));
  tutti_treespec_release(treespec);
  return made;
}

inline PyObject *ObjectOfSpec(const tutti_spec *spec) {
  auto leaf = [spec](size_t index) -> PyObject * {
    const tutti_leaf_kind kind = tutti_spec_get_leaf_kind(spec, index);
    Owned inner;
    if (const tutti_spec *held = tutti_spec_get_leaf_inner(spec, index)) {
      inner.reset(ObjectOfSpec(held));
      if (!inner) return nullptr;
    }
    const int64_t rank = tutti_spec_get_leaf_rank(spec, index);
    const int64_t *dims = tutti_spec_get_leaf_dims(spec, index);
    Owned shape;
    if ((kind == TUTTI_LEAF_TENSOR || kind == TUTTI_LEAF_DATASET) && rank >= 0) {
      shape.reset(PyTuple_New(rank));
      for (int64_t i = 0; shape && i < rank; ++i) {
        PyObject *dim = Py_None;
        if (dims[i] >= 0) {
          dim = PyLong_FromLongLong(dims[i]);
        } else {
          Py_INCREF(dim);
        }
        if (dim == nullptr) return nullptr;
        PyTuple_SET_ITEM(shape.get(), i, dim);
      }
      if (!shape) return nullptr;
    }
    return PyObject_CallFunction(hooks.make_spec, "iiOO", static_cast<int>(kind),
                                 static_cast<int>(tutti_spec_get_leaf_dtype(spec, index)),
                                 shape ? shape.get() : Py_None, inner ? inner.get() : Py_None);
  };
  size_t next_leaf = 0;
  return Rebuild(tutti_spec_get_treespec(spec), &next_leaf, leaf);
}

}  // namespace tutti_python

#endif  // TUTTI_BINDINGS_SWIG_PYTHON_SPECS_H_
