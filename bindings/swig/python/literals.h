// Python's own numbers, alone or in nested lists and tuples, which say nothing of a dtype.
//
// A tensor that is made of them alone has TensorFlow's dtypes: an int is int32, or int64 where
// int32 does not hold it, a float is float32, a complex is complex128, a bool is bool. Under a
// declared dtype, to which the library converts them, they keep all that Python knows: int64 (or
// uint64), float64, complex128. A list in which anything else stands, a NumPy scalar say, gets what
// NumPy makes of it.
#ifndef TUTTI_BINDINGS_SWIG_PYTHON_LITERALS_H_
#define TUTTI_BINDINGS_SWIG_PYTHON_LITERALS_H_

#include <cmath>
#include <limits>

#include "errors.h"

namespace tutti_python {

enum class Literals {
  kAlone,     // int32, float32
  kDeclared,  // int64, float64: converted to the dtype that was declared
};

inline bool IsLiteral(PyObject *object) {
  // NumPy's float64 and complex128 are classes of Python's.
  return PyBool_Check(object) || PyLong_Check(object) ||
         ((PyFloat_Check(object) || PyComplex_Check(object)) && !PyArray_IsGenericScalar(object));
}

// Looks at all numbers of a structure. Ends at the first thing that is no literal, and where rows
// have unequal lengths of nesting, which NumPy refuses.
class LiteralScan {
 public:
  explicit LiteralScan(PyObject *object) { literal_ = Look(object, 0); }

  // The number of NumPy's type, NPY_NOTYPE when NumPy is to choose. False with an exception set for
  // numbers that no such dtype holds.
  bool Type(Literals rule, int *type) const {
    *type = NPY_NOTYPE;
    if (PyErr_Occurred()) return false;
    if (!literal_) return true;
    const bool alone = rule == Literals::kAlone;
    if (complexes_) {
      *type = NPY_CDOUBLE;
    } else if (reals_ || !any_) {
      if (alone && largest_ != nullptr) {
        PyErr_Format(PyExc_OverflowError,
                     "%R does not fit into float32, which Python's floats become; give "
                     "np.float64(%R)",
                     largest_, largest_);
        return false;
      }
      *type = alone ? NPY_FLOAT : NPY_DOUBLE;
    } else if (ints_) {
      if (beyond_ != nullptr && (alone || negative_ || !FitsUnsigned())) {
        PyErr_Clear();
        PyErr_Format(PyExc_OverflowError, "%R does not fit into int64%s", beyond_,
                     alone ? ", and no int of Python becomes more; give an array of another dtype, "
                             "np.uint64 say"
                           : "");
        return false;
      }
      const bool fits = lowest_ >= std::numeric_limits<int32_t>::min() &&
                        highest_ <= std::numeric_limits<int32_t>::max();
      *type = beyond_ != nullptr ? NPY_ULONG : alone && fits ? NPY_INT : NPY_LONG;
    } else {
      *type = NPY_BOOL;
    }
    return true;
  }

 private:
  bool Look(PyObject *object, int depth) {
    if (PyList_Check(object) || PyTuple_Check(object)) {
      if (depth == leaf_depth_ || depth > numpy_api.max_dims) return false;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
        if (!Look(PySequence_Fast_GET_ITEM(object, i), depth + 1)) return false;
      }
      return true;
    }
    if (leaf_depth_ >= 0 && depth != leaf_depth_) return false;
    leaf_depth_ = depth;
    if (!IsLiteral(object)) return false;
    any_ = true;
    if (PyBool_Check(object)) return true;
    if (PyLong_Check(object)) {
      LookAtInt(object);
    } else if (PyFloat_Check(object)) {
      reals_ = true;
      const double number = PyFloat_AS_DOUBLE(object);
      if (std::isfinite(number) && std::isinf(static_cast<float>(number))) largest_ = object;
    } else {
      complexes_ = true;
    }
    return true;
  }

  void LookAtInt(PyObject *object) {
    ints_ = true;
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) {
      const double real = PyLong_AsDouble(object);  // -1 with an exception set beyond float64
      if (PyErr_Occurred() || std::isinf(static_cast<float>(real))) largest_ = object;
      PyErr_Clear();
      // The one that not even uint64 holds, if there is one.
      if (beyond_ == nullptr || FitsUnsigned()) beyond_ = object;
      if (overflow < 0) negative_ = true;
      return;
    }
    if (number < lowest_) lowest_ = number;
    if (number > highest_) highest_ = number;
    if (number < 0) negative_ = true;
  }

  // Whether uint64 holds beyond_.
  bool FitsUnsigned() const {
    PyLong_AsUnsignedLongLong(beyond_);
    const bool fits = !PyErr_Occurred();
    PyErr_Clear();
    return fits;
  }

  bool literal_ = false;
  bool any_ = false, ints_ = false, reals_ = false, complexes_ = false, negative_ = false;
  int leaf_depth_ = -1;
  long long lowest_ = 0, highest_ = 0;
  PyObject *beyond_ = nullptr;   // an int that int64 does not hold; borrowed
  PyObject *largest_ = nullptr;  // a finite number that float32 does not hold; borrowed
};

}  // namespace tutti_python

#endif  // TUTTI_BINDINGS_SWIG_PYTHON_LITERALS_H_
