// What the extension uses of NumPy's C interface, declared here and not by NumPy's headers: those
// tie a build to the NumPy that was there, and one build is to serve every NumPy from 1.23.2 on.
//
// NumPy hands out its interface as a table of pointers (the capsule _ARRAY_API), in which a
// function keeps its place for good: the places below are the same from 1.23 to 2.4, as are the
// numbers of types, the flags and the head of an array. Two things differ between NumPy 1 and 2,
// and are found out at import: where a type's element size stands, and how many dimensions an array
// has at most. A NumPy of an ABI that is neither is refused.
//
// Names are NumPy's own, so that its manual serves as the documentation. A call costs what it costs
// through NumPy's headers: a load and an indirect jump.
//
// Sources: numpy/_core/code_generators/numpy_api.py (the table), numpy/_core/include/numpy/
// ndarraytypes.h and npy_2_compat.h.
#ifndef TUTTI_BINDINGS_SWIG_PYTHON_NUMPY_API_H_
#define TUTTI_BINDINGS_SWIG_PYTHON_NUMPY_API_H_

// Python.h comes before this one: the generated file includes it first.

#include <cstddef>
#include <cstdio>

using npy_intp = Py_ssize_t;

// Numbers of types. long is int64 wherever tutti is built; LONGLONG is another type of that size.
static_assert(sizeof(long) == 8 && sizeof(long long) == 8 && sizeof(void *) == 8);
enum {
  NPY_BOOL = 0,
  NPY_BYTE = 1,
  NPY_UBYTE = 2,
  NPY_SHORT = 3,
  NPY_USHORT = 4,
  NPY_INT = 5,
  NPY_UINT = 6,
  NPY_LONG = 7,
  NPY_INT64 = NPY_LONG,
  NPY_ULONG = 8,
  NPY_LONGLONG = 9,
  NPY_ULONGLONG = 10,
  NPY_FLOAT = 11,
  NPY_DOUBLE = 12,
  NPY_CFLOAT = 14,
  NPY_CDOUBLE = 15,
  NPY_OBJECT = 17,
  NPY_STRING = 18,
  NPY_UNICODE = 19,
  NPY_HALF = 23,
  NPY_NOTYPE = 25,
};

enum {
  NPY_ARRAY_C_CONTIGUOUS = 0x0001,
  NPY_ARRAY_ENSURECOPY = 0x0020,
  NPY_ARRAY_ALIGNED = 0x0100,
  NPY_ARRAY_WRITEABLE = 0x0400,
  NPY_ARRAY_CARRAY = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE,
  NPY_ARRAY_IN_ARRAY = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED,
};

constexpr char NPY_NATIVE = '=';
constexpr char NPY_OPPBYTE = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '>' : '<';

// Room for the dimensions of any array: NumPy 2's limit. The limit of the NumPy that is here is
// numpy_api.max_dims.
constexpr int NPY_MAXDIMS = 64;

// A dtype. What follows `type_num` differs; see PyDataType_ELSIZE.
struct PyArray_Descr {
  PyObject_HEAD
  PyTypeObject *typeobj;
  char kind;
  char type;
  char byteorder;
  char former_flags;
  int type_num;
};

struct PyArrayObject {
  PyObject_HEAD
  char *data;
  int nd;
  npy_intp *dimensions;
  npy_intp *strides;
  PyObject *base;
  PyArray_Descr *descr;
  int flags;
};

namespace tutti_python {

// The table's entries that are used, copied at import.
struct NumpyApi {
  PyTypeObject *array_type = nullptr;
  PyTypeObject *descr_type = nullptr;
  PyTypeObject *generic_type = nullptr;  // numpy.generic, the class of all scalars
  PyArray_Descr *(*descr_from_type)(int type_num) = nullptr;
  PyArray_Descr *(*descr_from_scalar)(PyObject *scalar) = nullptr;
  PyArray_Descr *(*descr_new_byteorder)(PyArray_Descr *descr, char order) = nullptr;
  PyObject *(*scalar)(void *data, PyArray_Descr *descr, PyObject *base) = nullptr;
  void (*scalar_as_ctype)(PyObject *scalar, void *out) = nullptr;
  PyObject *(*from_any)(PyObject *object, PyArray_Descr *descr, int min_depth, int max_depth,
                        int flags, PyObject *context) = nullptr;
  PyObject *(*from_array)(PyArrayObject *array, PyArray_Descr *descr, int flags) = nullptr;
  PyObject *(*make)(PyTypeObject *type, int nd, const npy_intp *dims, int type_num,
                    const npy_intp *strides, void *data, int item_size, int flags,
                    PyObject *object) = nullptr;
  PyObject *(*new_from_descr)(PyTypeObject *type, PyArray_Descr *descr, int nd,
                              const npy_intp *dims, const npy_intp *strides, void *data, int flags,
                              PyObject *object) = nullptr;
  int (*set_base_object)(PyArrayObject *array, PyObject *base) = nullptr;
  int (*fail_unless_writeable)(PyArrayObject *array, const char *name) = nullptr;

  bool is_numpy_2 = false;
  int max_dims = 32;
};
inline NumpyApi numpy_api;

// Raises ImportError with the name "numpy", by which the package knows whose error it is; what is
// being raised becomes its cause.
inline bool RefuseNumpy(const char *why, PyObject *what) {
  PyObject *type, *cause, *traceback;
  PyErr_Fetch(&type, &cause, &traceback);
  if (type != nullptr) {
    PyErr_NormalizeException(&type, &cause, &traceback);
    if (traceback != nullptr) PyException_SetTraceback(cause, traceback);
  }
  PyObject *text = PyUnicode_FromFormat(why, what == nullptr ? cause : what);
  PyObject *name = PyUnicode_FromString("numpy");
  if (text != nullptr && name != nullptr) PyErr_SetImportError(text, name, nullptr);
  Py_XDECREF(text);
  Py_XDECREF(name);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  if (cause != nullptr) {
    PyObject *error_type, *error, *error_traceback;
    PyErr_Fetch(&error_type, &error, &error_traceback);
    PyErr_NormalizeException(&error_type, &error, &error_traceback);
    PyException_SetCause(error, cause);  // takes over the reference
    PyErr_Restore(error_type, error, error_traceback);
  }
  return false;
}

// The table of a NumPy of that major version, which since 2.0 stands in numpy._core; null with an
// exception set.
inline void **NumpyTable(int major) {
  PyObject *module = PyImport_ImportModule(major >= 2 ? "numpy._core._multiarray_umath"
                                                      : "numpy.core._multiarray_umath");
  if (module == nullptr) return nullptr;
  PyObject *capsule = PyObject_GetAttrString(module, "_ARRAY_API");
  Py_DECREF(module);
  if (capsule == nullptr) return nullptr;
  void *table = PyCapsule_GetPointer(capsule, nullptr);
  Py_DECREF(capsule);
  return static_cast<void **>(table);
}

template <class Entry>
void TakeEntry(void **table, int place, Entry *out) {
  *out = reinterpret_cast<Entry>(table[place]);
}

// Looks up NumPy's interface. False with an ImportError set for a NumPy that is absent, broken,
// older than 1.23.2, or of an ABI that is not known here.
inline bool ResolveNumpy() {
  PyObject *numpy = PyImport_ImportModule("numpy");
  if (numpy == nullptr) return RefuseNumpy("NumPy cannot be imported: %S", nullptr);
  PyObject *version = PyObject_GetAttrString(numpy, "__version__");
  Py_DECREF(numpy);
  const char *text = version == nullptr ? nullptr : PyUnicode_AsUTF8(version);
  int major = 0, minor = 0, patch = 0;
  if (text == nullptr || std::sscanf(text, "%d.%d.%d", &major, &minor, &patch) < 2) {
    Py_XDECREF(version);
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "its __version__ is no version");
    return RefuseNumpy("NumPy cannot be imported: %S", nullptr);
  }
  bool known = false;
  if (major < 1 || (major == 1 && (minor < 23 || (minor == 23 && patch < 2)))) {
    RefuseNumpy("NumPy %S is too old: tutti needs 1.23.2 or newer.", version);
  } else if (void **table = NumpyTable(major); table == nullptr) {
    RefuseNumpy("NumPy cannot be imported: %S", nullptr);
  } else {
    unsigned (*abi_version)() = nullptr;
    TakeEntry(table, 0, &abi_version);
    const unsigned abi = abi_version() >> 24;
    known = abi == 1 || abi == 2;
    if (!known) {
      RefuseNumpy("NumPy %S is too new: tutti knows the C interface of NumPy 1 and 2.", version);
    } else {
      NumpyApi &api = numpy_api;
      api.is_numpy_2 = abi == 2;
      api.max_dims = api.is_numpy_2 ? 64 : 32;
      TakeEntry(table, 2, &api.array_type);
      TakeEntry(table, 3, &api.descr_type);
      TakeEntry(table, 10, &api.generic_type);
      TakeEntry(table, 45, &api.descr_from_type);
      TakeEntry(table, 57, &api.descr_from_scalar);
      TakeEntry(table, 60, &api.scalar);
      TakeEntry(table, 62, &api.scalar_as_ctype);
      TakeEntry(table, 69, &api.from_any);
      TakeEntry(table, 93, &api.make);
      TakeEntry(table, 94, &api.new_from_descr);
      TakeEntry(table, 106, &api.descr_new_byteorder);
      TakeEntry(table, 109, &api.from_array);
      TakeEntry(table, 282, &api.set_base_object);
      TakeEntry(table, 286, &api.fail_unless_writeable);
    }
  }
  Py_DECREF(version);
  return known;
}

}  // namespace tutti_python

// ---- types

// The size of an element: an int behind type_num in NumPy 1; in NumPy 2 a flags word of 64 bits
// stands between them, and the size has 64 bits.
inline npy_intp PyDataType_ELSIZE(const PyArray_Descr *descr) {
  const char *behind = reinterpret_cast<const char *>(&descr->type_num) + sizeof(int);
  return tutti_python::numpy_api.is_numpy_2
             ? *reinterpret_cast<const npy_intp *>(behind + sizeof(uint64_t))
             : *reinterpret_cast<const int *>(behind);
}
static_assert((offsetof(PyArray_Descr, type_num) + sizeof(int)) % alignof(npy_intp) == 0);

inline bool PyArray_DescrCheck(PyObject *object) {
  return PyObject_TypeCheck(object, tutti_python::numpy_api.descr_type);
}
inline PyArray_Descr *PyArray_DescrFromType(int type_num) {
  return tutti_python::numpy_api.descr_from_type(type_num);
}
inline PyArray_Descr *PyArray_DescrFromScalar(PyObject *scalar) {
  return tutti_python::numpy_api.descr_from_scalar(scalar);
}
inline PyArray_Descr *PyArray_DescrNewByteorder(PyArray_Descr *descr, char order) {
  return tutti_python::numpy_api.descr_new_byteorder(descr, order);
}

// ---- scalars

// Whether it is an instance of numpy.generic.
inline bool PyArray_IsGenericScalar(PyObject *object) {
  return PyObject_TypeCheck(object, tutti_python::numpy_api.generic_type);
}
inline PyObject *PyArray_Scalar(void *data, PyArray_Descr *descr, PyObject *base) {
  return tutti_python::numpy_api.scalar(data, descr, base);
}
inline void PyArray_ScalarAsCtype(PyObject *scalar, void *out) {
  tutti_python::numpy_api.scalar_as_ctype(scalar, out);
}

// ---- what an array says of itself

inline bool PyArray_Check(PyObject *object) {
  return PyObject_TypeCheck(object, tutti_python::numpy_api.array_type);
}
inline bool PyArray_CheckExact(PyObject *object) {
  return Py_TYPE(object) == tutti_python::numpy_api.array_type;
}
inline int PyArray_NDIM(const PyArrayObject *array) { return array->nd; }
inline npy_intp *PyArray_DIMS(const PyArrayObject *array) { return array->dimensions; }
inline npy_intp PyArray_DIM(const PyArrayObject *array, int axis) {
  return array->dimensions[axis];
}
inline npy_intp PyArray_STRIDE(const PyArrayObject *array, int axis) {
  return array->strides[axis];
}
inline void *PyArray_DATA(const PyArrayObject *array) { return array->data; }
inline PyObject *PyArray_BASE(const PyArrayObject *array) { return array->base; }
inline PyArray_Descr *PyArray_DESCR(const PyArrayObject *array) { return array->descr; }
inline int PyArray_TYPE(const PyArrayObject *array) { return array->descr->type_num; }
inline npy_intp PyArray_SIZE(const PyArrayObject *array) {
  npy_intp count = 1;
  for (int axis = 0; axis < array->nd; ++axis) count *= array->dimensions[axis];
  return count;
}
inline npy_intp PyArray_NBYTES(const PyArrayObject *array) {
  return PyArray_SIZE(array) * PyDataType_ELSIZE(array->descr);
}
inline bool PyArray_CHKFLAGS(const PyArrayObject *array, int flags) {
  return (array->flags & flags) == flags;
}
inline void PyArray_CLEARFLAGS(PyArrayObject *array, int flags) { array->flags &= ~flags; }
inline bool PyArray_ISNOTSWAPPED(const PyArrayObject *array) {
  return array->descr->byteorder != NPY_OPPBYTE;
}
inline bool PyArray_ISALIGNED(const PyArrayObject *array) {
  return PyArray_CHKFLAGS(array, NPY_ARRAY_ALIGNED);
}
inline bool PyArray_ISWRITEABLE(const PyArrayObject *array) {
  return PyArray_CHKFLAGS(array, NPY_ARRAY_WRITEABLE);
}
inline bool PyArray_IS_C_CONTIGUOUS(const PyArrayObject *array) {
  return PyArray_CHKFLAGS(array, NPY_ARRAY_C_CONTIGUOUS);
}
inline bool PyArray_ISCARRAY(const PyArrayObject *array) {
  return PyArray_CHKFLAGS(array, NPY_ARRAY_CARRAY) && PyArray_ISNOTSWAPPED(array);
}
inline bool PyArray_ISBEHAVED_RO(const PyArrayObject *array) {
  return PyArray_ISALIGNED(array) && PyArray_ISNOTSWAPPED(array);
}
inline int PyArray_FailUnlessWriteable(PyArrayObject *array, const char *name) {
  return tutti_python::numpy_api.fail_unless_writeable(array, name);
}

// ---- making arrays. New references; those that take a descr take over its reference.

inline PyObject *PyArray_FromAny(PyObject *object, PyArray_Descr *descr, int min_depth,
                                 int max_depth, int flags, PyObject *context) {
  return tutti_python::numpy_api.from_any(object, descr, min_depth, max_depth, flags, context);
}
inline PyObject *PyArray_FromArray(PyArrayObject *array, PyArray_Descr *descr, int flags) {
  return tutti_python::numpy_api.from_array(array, descr, flags);
}
inline PyObject *PyArray_NewFromDescr(PyTypeObject *type, PyArray_Descr *descr, int nd,
                                      const npy_intp *dims, const npy_intp *strides, void *data,
                                      int flags, PyObject *object) {
  return tutti_python::numpy_api.new_from_descr(type, descr, nd, dims, strides, data, flags,
                                                object);
}
inline PyObject *PyArray_New(PyTypeObject *type, int nd, const npy_intp *dims, int type_num,
                             const npy_intp *strides, void *data, int item_size, int flags,
                             PyObject *object) {
  return tutti_python::numpy_api.make(type, nd, dims, type_num, strides, data, item_size, flags,
                                      object);
}
inline PyObject *PyArray_SimpleNew(int nd, const npy_intp *dims, int type_num) {
  return PyArray_New(tutti_python::numpy_api.array_type, nd, dims, type_num, nullptr, nullptr, 0, 0,
                     nullptr);
}
// Takes over the reference to `base`.
inline int PyArray_SetBaseObject(PyArrayObject *array, PyObject *base) {
  return tutti_python::numpy_api.set_base_object(array, base);
}

#endif  // TUTTI_BINDINGS_SWIG_PYTHON_NUMPY_API_H_
