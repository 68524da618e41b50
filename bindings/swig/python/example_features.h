// The features of parse_example.
#ifndef TUTTI_BINDINGS_SWIG_PYTHON_EXAMPLE_FEATURES_H_
#define TUTTI_BINDINGS_SWIG_PYTHON_EXAMPLE_FEATURES_H_

#include <utility>
#include <vector>

#include "arrays.h"

namespace tutti_python {

// What tutti_function_create_parse_example takes, made of a list of tuples (key, dtype, shape,
// default tensor or None, kind).
struct Features {
  std::vector<tutti_feature> all;
  std::vector<std::vector<int64_t>> dims;
  std::vector<tutti_tensor *> defaults;
  std::vector<const tutti_feature *> pointers;

  ~Features() {
    for (tutti_tensor *tensor : defaults) tutti_tensor_release(tensor);
  }
  bool Set(PyObject *list) {
    if (!PyList_Check(list)) {
      PyErr_SetString(PyExc_TypeError, "a list of features is needed");
      return false;
    }
    const Py_ssize_t count = PyList_GET_SIZE(list);
    all.reserve(static_cast<size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      tutti_feature feature = TUTTI_FEATURE_INIT;
      PyObject *shape = nullptr, *default_value = nullptr;
      int dtype = 0, kind = 0;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "siO!Oi", &feature.key, &dtype,
                            &PyTuple_Type, &shape, &default_value, &kind)) {
        return false;
      }
      feature.dtype = dtype;
      feature.kind = kind;
      std::vector<int64_t> sizes;
      for (Py_ssize_t axis = 0; axis < PyTuple_GET_SIZE(shape); ++axis) {
        sizes.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(shape, axis)));
      }
      if (PyErr_Occurred()) return false;
      feature.rank = sizes.size();
      dims.push_back(std::move(sizes));
      feature.dims = dims.back().data();
      if (default_value != Py_None) {
        tutti_tensor *tensor = nullptr;
        if (!TensorOfObject(default_value, 0, &tensor, Literals::kDeclared)) return false;
        defaults.push_back(tensor);
        feature.default_value = tensor;
      }
      all.push_back(feature);
    }
    for (const tutti_feature &feature : all) pointers.push_back(&feature);
    return true;
  }
};

}  // namespace tutti_python

#endif  // TUTTI_BINDINGS_SWIG_PYTHON_EXAMPLE_FEATURES_H_
