// Tensors and NumPy arrays, without a copy in either direction.
//
// In: a tensor over the array's memory holds a reference to the array; a read-only array gives a
// read-only tensor; strides are kept. Copied are only NumPy scalars and arrays whose memory no
// tensor can describe (foreign byte order, unaligned, strides that are no multiple of an element,
// text). Out: an array over the tensor's memory whose base holds the tensor; rank 0 gives a NumPy
// scalar, byte strings give bytes or an array of objects, and bfloat16, which NumPy has not, gives
// an ml_dtypes array where that package is there and else a tutti.Tensor. So is a tensor on a GPU.
//
// Back again: an array that came out of a tensor and is still as it was is that tensor
// (TensorBehind), so that what the tensor knows, the rows of its step, gets back with it. Of a step
// (Leaves::kOfStep) numbers are arrays of rank 0 and arrays of byte strings have a base, too; only
// a single byte string has nowhere to keep its tensor.
#ifndef TUTTI_BINDINGS_SWIG_PYTHON_ARRAYS_H_
#define TUTTI_BINDINGS_SWIG_PYTHON_ARRAYS_H_

#include <vector>

#include "errors.h"
#include "literals.h"

namespace tutti_python {

// An argument of a kind that `function` cannot take: says where, what is needed, and what came.
inline void RaiseWrongType(const char *function, const char *argument, const char *needed,
                           PyObject *given) {
  PyErr_Format(PyExc_TypeError, "%s: %s: %s is needed, not %s%s", PublicName(function).c_str(),
               argument, needed,
               given == Py_None ? "" : "an object of type ",
               given == Py_None ? "None" : Py_TYPE(given)->tp_name);
}

// A str as C reads it; null with an exception set, also for a text that C would cut off.
inline const char *Utf8(PyObject *text) {
  Py_ssize_t size = 0;
  const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
  if (utf8 == nullptr || strlen(utf8) == static_cast<size_t>(size)) return utf8;
  PyErr_Format(PyExc_ValueError, "%R: a text with a NUL in it cannot be a name", text);
  return nullptr;
}

// Any integer, NumPy's included. False with an exception set.
inline bool Integer(const char *function, const char *argument, PyObject *given, int64_t *out) {
  Owned number(PyNumber_Index(given));
  if (!number) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
      RaiseWrongType(function, argument, "an integer", given);
    }
    return false;
  }
  int overflow = 0;
  *out = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  if (overflow == 0) return !PyErr_Occurred();
  PyErr_Format(PyExc_OverflowError, "%s: %s: %R does not fit into 64 bits",
               PublicName(function).c_str(), argument, number.get());
  return false;
}

inline tutti_runtime *CurrentRuntime() {
  if (callback_runtime != nullptr) return callback_runtime;
  PyObject *handle = nullptr;
  if (PyContextVar_Get(hooks.runtime, Py_None, &handle) != 0) {
    PyErr_Clear();
    return nullptr;
  }
  void *runtime = nullptr;
  if (handle != nullptr && handle != Py_None) {
    SWIG_ConvertPtr(handle, &runtime, SWIGTYPE_p_tutti_runtime, 0);
  }
  Py_XDECREF(handle);
  return static_cast<tutti_runtime *>(runtime);
}

inline bool IsBfloat16(PyArray_Descr *descr) {
  return hooks.bfloat16 != nullptr && hooks.bfloat16 != Py_None &&
         descr->type_num == reinterpret_cast<PyArray_Descr *>(hooks.bfloat16)->type_num;
}

// 0 for a NumPy type that has no dtype here.
inline tutti_dtype DtypeOf(PyArray_Descr *descr) {
  switch (descr->type_num) {
    case NPY_BOOL: return TUTTI_DTYPE_BOOL;
    case NPY_HALF: return TUTTI_DTYPE_FLOAT16;
    case NPY_FLOAT: return TUTTI_DTYPE_FLOAT32;
    case NPY_DOUBLE: return TUTTI_DTYPE_FLOAT64;
    case NPY_CFLOAT: return TUTTI_DTYPE_COMPLEX64;
    case NPY_CDOUBLE: return TUTTI_DTYPE_COMPLEX128;
    case NPY_BYTE: return TUTTI_DTYPE_INT8;
    case NPY_SHORT: return TUTTI_DTYPE_INT16;
    case NPY_INT: return TUTTI_DTYPE_INT32;
    case NPY_LONG:
    case NPY_LONGLONG: return TUTTI_DTYPE_INT64;
    case NPY_UBYTE: return TUTTI_DTYPE_UINT8;
    case NPY_USHORT: return TUTTI_DTYPE_UINT16;
    case NPY_UINT: return TUTTI_DTYPE_UINT32;
    case NPY_ULONG:
    case NPY_ULONGLONG: return TUTTI_DTYPE_UINT64;
    default: return IsBfloat16(descr) ? TUTTI_DTYPE_BFLOAT16 : TUTTI_DTYPE_INVALID;
  }
}

// New reference; null (no exception) for bfloat16 without ml_dtypes and for byte strings.
inline PyArray_Descr *DescrOf(tutti_dtype dtype) {
  static const int kTypes[] = {NPY_NOTYPE, NPY_BOOL, NPY_BYTE,   NPY_SHORT,
                               NPY_INT,    NPY_LONG, NPY_UBYTE,  NPY_USHORT,
                               NPY_UINT,   NPY_ULONG, NPY_HALF,  NPY_NOTYPE,
                               NPY_FLOAT,  NPY_DOUBLE, NPY_CFLOAT, NPY_CDOUBLE};
  if (dtype == TUTTI_DTYPE_BFLOAT16 && hooks.bfloat16 != nullptr && hooks.bfloat16 != Py_None) {
    Py_INCREF(hooks.bfloat16);
    return reinterpret_cast<PyArray_Descr *>(hooks.bfloat16);
  }
  if (dtype <= 0 || dtype >= TUTTI_DTYPE_BYTES || kTypes[dtype] == NPY_NOTYPE) return nullptr;
  return PyArray_DescrFromType(kTypes[dtype]);
}

// ---- out

// An object of one of the package's classes that have a slot `_handle`; takes over the handle.
inline PyObject *WrapHandle(PyObject *type, void *handle, swig_type_info *info) {
  static PyObject *name = PyUnicode_InternFromString("_handle");
  Owned pointer(SWIG_InternalNewPointerObj(handle, info, SWIG_POINTER_OWN));
  if (!pointer) return nullptr;
  auto *class_type = reinterpret_cast<PyTypeObject *>(type);
  Owned object(class_type->tp_alloc(class_type, 0));
  if (!object || PyObject_SetAttr(object.get(), name, pointer.get()) != 0) return nullptr;
  return object.release();
}

inline void ReleaseTensorCapsule(PyObject *capsule) {
  tutti_tensor_release(
      static_cast<tutti_tensor *>(PyCapsule_GetPointer(capsule, "tutti_tensor")));
}

// Makes `array` keep `tensor` alive, and known as what is behind it. False with an exception set.
inline bool SetTensorBehind(PyObject *array, const tutti_tensor *tensor) {
  tutti_tensor_retain(tensor);
  PyObject *owner =
      PyCapsule_New(const_cast<tutti_tensor *>(tensor), "tutti_tensor", &ReleaseTensorCapsule);
  if (owner == nullptr) {
    tutti_tensor_release(tensor);
    return false;
  }
  return PyArray_SetBaseObject(reinterpret_cast<PyArrayObject *>(array), owner) == 0;
}

enum class Rank0 { kScalar, kArray };

// What Python sees of `tensor` (borrowed).
inline PyObject *ObjectOfTensor(const tutti_tensor *tensor, Rank0 rank0) {
  const tutti_dtype dtype = tutti_tensor_get_dtype(tensor);
  const size_t rank = tutti_tensor_get_rank(tensor);
  if (tutti_tensor_get_cuda_device(tensor) >= 0) {  // NumPy cannot look there
    tutti_tensor_retain(tensor);
    return WrapHandle(hooks.tensor, const_cast<tutti_tensor *>(tensor), SWIGTYPE_p_tutti_tensor);
  }
  const int64_t *dims = tutti_tensor_get_dims(tensor);
  const int64_t *strides = tutti_tensor_get_strides(tensor);
  auto *data = static_cast<char *>(const_cast<void *>(tutti_tensor_get_data(tensor)));
  if (rank > static_cast<size_t>(numpy_api.max_dims)) {
    PyErr_Format(PyExc_ValueError, "NumPy arrays have at most %d dimensions, this tensor has %zu",
                 numpy_api.max_dims, rank);
    return nullptr;
  }

  if (dtype == TUTTI_DTYPE_BYTES) {
    if (rank == 0) {
      const auto *view = reinterpret_cast<const tutti_string_view *>(data);
      return PyBytes_FromStringAndSize(view->data, static_cast<Py_ssize_t>(view->size));
    }
    PyObject *array = PyArray_SimpleNew(static_cast<int>(rank),
                                        reinterpret_cast<npy_intp *>(const_cast<int64_t *>(dims)),
                                        NPY_OBJECT);
    if (array == nullptr) return nullptr;
    auto **items = static_cast<PyObject **>(PyArray_DATA(reinterpret_cast<PyArrayObject *>(array)));
    const int64_t count = tutti_tensor_get_element_count(tensor);
    int64_t index[NPY_MAXDIMS] = {0};
    for (int64_t i = 0; i < count; ++i) {
      int64_t offset = 0;
      for (size_t axis = 0; axis < rank; ++axis) offset += index[axis] * strides[axis];
      const auto *view = reinterpret_cast<const tutti_string_view *>(data) + offset;
      PyObject *item = PyBytes_FromStringAndSize(view->data, static_cast<Py_ssize_t>(view->size));
      if (item == nullptr) {
        Py_DECREF(array);
        return nullptr;
      }
      PyObject *old = items[i];
      items[i] = item;
      Py_XDECREF(old);
      for (size_t axis = rank; axis-- > 0;) {
        if (++index[axis] < dims[axis]) break;
        index[axis] = 0;
      }
    }
    return array;
  }

  PyArray_Descr *descr = DescrOf(dtype);
  if (descr == nullptr) {
    if (PyErr_Occurred()) return nullptr;
    tutti_tensor_retain(tensor);
    return WrapHandle(hooks.tensor, const_cast<tutti_tensor *>(tensor), SWIGTYPE_p_tutti_tensor);
  }
  if (rank == 0 && rank0 == Rank0::kScalar) {
    PyObject *scalar = PyArray_Scalar(data, descr, nullptr);
    Py_DECREF(descr);
    return scalar;
  }
  const npy_intp item = PyDataType_ELSIZE(descr);
  npy_intp byte_strides[NPY_MAXDIMS];
  for (size_t axis = 0; axis < rank; ++axis) {
    byte_strides[axis] = static_cast<npy_intp>(strides[axis]) * item;
  }
  const int flags =
      NPY_ARRAY_ALIGNED | (tutti_tensor_is_read_only(tensor) ? 0 : NPY_ARRAY_WRITEABLE);
  PyObject *array = PyArray_NewFromDescr(
      numpy_api.array_type, descr, static_cast<int>(rank),
      reinterpret_cast<npy_intp *>(const_cast<int64_t *>(dims)), byte_strides, data, flags,
      nullptr);
  if (array == nullptr) return nullptr;
  if (!SetTensorBehind(array, tensor)) {
    Py_DECREF(array);
    return nullptr;
  }
  return array;
}

// Leaves of any value, or of a step, which come back to run as what they are.
enum class Leaves { kPlain, kOfStep };

// As above for a tensor that stands in a value and is shared: the array is read-only.
inline PyObject *ObjectOfSharedTensor(const tutti_tensor *tensor, Leaves leaves) {
  const bool of_step = leaves == Leaves::kOfStep;
  PyObject *object = ObjectOfTensor(tensor, of_step ? Rank0::kArray : Rank0::kScalar);
  if (object == nullptr || !PyArray_CheckExact(object)) return object;
  auto *array = reinterpret_cast<PyArrayObject *>(object);
  if (PyArray_BASE(array) != nullptr) {
    PyArray_CLEARFLAGS(array, NPY_ARRAY_WRITEABLE);
  } else if (of_step && !SetTensorBehind(object, tensor)) {
    Py_DECREF(object);
    return nullptr;
  }
  return object;
}

// ---- in

// The tensor that `array` came from, borrowed, when it still shows just that: the same elements of
// the same memory, or of byte strings the same ones. Null for any other array; no exception.
inline const tutti_tensor *TensorBehind(const PyArrayObject *array) {
  PyObject *base = PyArray_BASE(array);
  if (base == nullptr || !PyCapsule_IsValid(base, "tutti_tensor")) return nullptr;
  const auto *tensor =
      static_cast<const tutti_tensor *>(PyCapsule_GetPointer(base, "tutti_tensor"));
  const tutti_dtype dtype = tutti_tensor_get_dtype(tensor);
  const size_t rank = tutti_tensor_get_rank(tensor);
  const int64_t *dims = tutti_tensor_get_dims(tensor);
  const int64_t *strides = tutti_tensor_get_strides(tensor);
  if (rank != static_cast<size_t>(PyArray_NDIM(array))) return nullptr;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (PyArray_DIM(array, static_cast<int>(axis)) != dims[axis]) return nullptr;
  }
  const auto *data = static_cast<const char *>(tutti_tensor_get_data(tensor));
  PyArray_Descr *descr = PyArray_DESCR(array);
  if (dtype != TUTTI_DTYPE_BYTES) {
    if (DtypeOf(descr) != dtype || !PyArray_ISNOTSWAPPED(array) || PyArray_DATA(array) != data) {
      return nullptr;
    }
    const npy_intp item = PyDataType_ELSIZE(descr);
    for (size_t axis = 0; axis < rank; ++axis) {
      if (PyArray_STRIDE(array, static_cast<int>(axis)) != strides[axis] * item) return nullptr;
    }
    return tensor;
  }
  if (descr->type_num != NPY_OBJECT || !PyArray_IS_C_CONTIGUOUS(array)) return nullptr;
  auto **items = static_cast<PyObject **>(PyArray_DATA(array));
  int64_t index[NPY_MAXDIMS] = {0};
  for (int64_t i = 0; i < tutti_tensor_get_element_count(tensor); ++i) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < rank; ++axis) offset += index[axis] * strides[axis];
    const tutti_string_view view = reinterpret_cast<const tutti_string_view *>(data)[offset];
    if (items[i] == nullptr || !PyBytes_CheckExact(items[i]) ||
        static_cast<size_t>(PyBytes_GET_SIZE(items[i])) != view.size ||
        (view.size > 0 && memcmp(PyBytes_AS_STRING(items[i]), view.data, view.size) != 0)) {
      return nullptr;
    }
    for (size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < dims[axis]) break;
      index[axis] = 0;
    }
  }
  return tensor;
}

// Byte strings of an array of objects or of text.
inline bool TensorOfTexts(PyArrayObject *array, tutti_tensor **out) {
  Owned objects(PyArray_FromAny(reinterpret_cast<PyObject *>(array),
                                PyArray_DescrFromType(NPY_OBJECT), 0, 0, NPY_ARRAY_IN_ARRAY,
                                nullptr));
  if (!objects) return false;
  auto *source = reinterpret_cast<PyArrayObject *>(objects.get());
  auto **items = static_cast<PyObject **>(PyArray_DATA(source));
  const npy_intp count = PyArray_SIZE(source);
  std::vector<tutti_string_view> views(static_cast<size_t>(count));
  for (npy_intp i = 0; i < count; ++i) {
    PyObject *item = items[i];
    Py_ssize_t size = 0;
    const char *text = nullptr;
    if (item != nullptr && PyBytes_Check(item)) {
      text = PyBytes_AS_STRING(item);
      size = PyBytes_GET_SIZE(item);
    } else if (item != nullptr && PyUnicode_Check(item)) {
      text = PyUnicode_AsUTF8AndSize(item, &size);
      if (text == nullptr) return false;
    } else {
      PyErr_Format(PyExc_TypeError,
                   "an array of objects must hold bytes or str; element %zd is of type %s (are the "
                   "rows of unequal length?)",
                   static_cast<Py_ssize_t>(i),
                   item == nullptr ? "NoneType" : Py_TYPE(item)->tp_name);
      return false;
    }
    views[static_cast<size_t>(i)] = {text, static_cast<size_t>(size)};
  }
  return Check(tutti_tensor_create_from_strings(
      CurrentRuntime(), static_cast<size_t>(PyArray_NDIM(source)),
      reinterpret_cast<const int64_t *>(PyArray_DIMS(source)), views.size(), views.data(), out));
}

// Whether a tensor can describe the array's memory as it lies: aligned, of native byte order, with
// strides of whole elements on the axes along which anything steps.
inline bool IsDescribable(PyArrayObject *array) {
  if (!PyArray_ISBEHAVED_RO(array)) return false;
  if (PyArray_SIZE(array) == 0) return true;
  const npy_intp item = PyDataType_ELSIZE(PyArray_DESCR(array));
  for (int axis = 0; axis < PyArray_NDIM(array); ++axis) {
    if (PyArray_DIM(array, axis) > 1 && PyArray_STRIDE(array, axis) % item != 0) return false;
  }
  return true;
}

// `copy_up_to`: arrays of at most so many bytes are copied, where a copy is cheaper than keeping
// the array alive (rows of a dataset, which are gathered into a slab anyway).
inline bool TensorOfArray(PyArrayObject *array, npy_intp copy_up_to, tutti_tensor **out) {
  PyArray_Descr *descr = PyArray_DESCR(array);
  if (descr->type_num == NPY_OBJECT || descr->type_num == NPY_STRING ||
      descr->type_num == NPY_UNICODE) {
    return TensorOfTexts(array, out);
  }
  const tutti_dtype dtype = DtypeOf(descr);
  if (dtype == TUTTI_DTYPE_INVALID) {
    PyErr_Format(PyExc_TypeError,
                 "no tensor has NumPy's dtype %S; use a boolean, integer, floating or complex "
                 "dtype, or bytes",
                 descr);
    return false;
  }
  const int rank = PyArray_NDIM(array);
  const npy_intp item = PyDataType_ELSIZE(descr);
  Owned converted;
  if (!IsDescribable(array)) {
    Py_INCREF(descr);
    PyArray_Descr *native = PyArray_DescrNewByteorder(descr, NPY_NATIVE);
    Py_DECREF(descr);
    if (native == nullptr) return false;
    converted.reset(PyArray_FromArray(array, native,
                                      NPY_ARRAY_CARRAY | NPY_ARRAY_ENSURECOPY));
    if (!converted) return false;
    array = reinterpret_cast<PyArrayObject *>(converted.get());
  }
  const auto *dims = reinterpret_cast<const int64_t *>(PyArray_DIMS(array));
  const bool contiguous = PyArray_IS_C_CONTIGUOUS(array);
  if (contiguous && PyArray_NBYTES(array) <= copy_up_to) {
    return Check(tutti_tensor_create_from_data(
        CurrentRuntime(), dtype, static_cast<size_t>(rank), dims, PyArray_DATA(array),
        static_cast<size_t>(PyArray_NBYTES(array)), out));
  }

  tutti_tensor_wrap_options options = TUTTI_TENSOR_WRAP_OPTIONS_INIT;
  options.read_only = PyArray_ISWRITEABLE(array) ? TUTTI_FALSE : TUTTI_TRUE;
  char *first = static_cast<char *>(PyArray_DATA(array));
  npy_intp extent = PyArray_NBYTES(array);
  int64_t strides[NPY_MAXDIMS];
  if (!contiguous) {
    npy_intp lowest = 0, highest = 0;
    for (int axis = 0; axis < rank; ++axis) {
      const npy_intp stride = PyArray_STRIDE(array, axis);
      const npy_intp reach = (PyArray_DIM(array, axis) - 1) * stride;
      (reach < 0 ? lowest : highest) += reach;
      strides[axis] = stride / item;
    }
    options.strides = strides;
    first += lowest;
    extent = PyArray_SIZE(array) == 0 ? 0 : highest - lowest + item;
  }
  Py_INCREF(array);
  return Check(tutti_tensor_wrap(CurrentRuntime(), first, static_cast<size_t>(extent), dtype,
                                 static_cast<size_t>(rank), dims,
                                 tutti_release_hook{&Garbage::Add, array}, &options, out));
}

// A list, a number, a text or anything else that NumPy makes an array of; numbers of Python get the
// dtype that `literals` says. New reference.
inline PyArrayObject *ArrayOf(PyObject *object, Literals literals) {
  Owned list;
  if (PyRange_Check(object)) {
    list.reset(PySequence_List(object));
    if (!list) return nullptr;
    object = list.get();
  }
  // NumPy's own type for byte strings drops trailing zeros, so texts go by way of objects.
  PyObject *first = object;
  for (int depth = 0; PyList_Check(first) || PyTuple_Check(first); ++depth) {
    if (PySequence_Fast_GET_SIZE(first) == 0) break;
    if (depth == numpy_api.max_dims) {
      PyErr_Format(PyExc_ValueError,
                   "a %s that is nested more than %d deep (or in itself) is no tensor: NumPy "
                   "arrays have at most %d dimensions",
                   Py_TYPE(object)->tp_name, numpy_api.max_dims, numpy_api.max_dims);
      return nullptr;
    }
    first = PySequence_Fast_GET_ITEM(first, 0);
  }
  int type = NPY_OBJECT;
  if (!PyBytes_Check(first) && !PyUnicode_Check(first) &&
      !LiteralScan(object).Type(literals, &type)) {
    return nullptr;
  }
  PyObject *array = PyArray_FromAny(
      object, type == NPY_NOTYPE ? nullptr : PyArray_DescrFromType(type), 0, 0, 0, nullptr);
  return reinterpret_cast<PyArrayObject *>(array);
}

// One number of Python.
inline bool TensorOfLiteral(PyObject *object, Literals literals, tutti_tensor **out) {
  int type = NPY_NOTYPE;
  if (!LiteralScan(object).Type(literals, &type)) return false;
  union {
    uint8_t truth;
    int32_t int32;
    int64_t int64;
    uint64_t uint64;
    float float32;
    double float64;
    Py_complex complex128;
  } item;
  tutti_dtype dtype = TUTTI_DTYPE_INVALID;
  switch (type) {
    case NPY_BOOL:
      dtype = TUTTI_DTYPE_BOOL;
      item.truth = object == Py_True;
      break;
    case NPY_INT:
      dtype = TUTTI_DTYPE_INT32;
      item.int32 = static_cast<int32_t>(PyLong_AsLong(object));
      break;
    case NPY_LONG:
      dtype = TUTTI_DTYPE_INT64;
      item.int64 = PyLong_AsLongLong(object);
      break;
    case NPY_ULONG:
      dtype = TUTTI_DTYPE_UINT64;
      item.uint64 = PyLong_AsUnsignedLongLong(object);
      break;
    case NPY_FLOAT:
      dtype = TUTTI_DTYPE_FLOAT32;
      item.float32 = static_cast<float>(PyFloat_AS_DOUBLE(object));
      break;
    case NPY_DOUBLE:
      dtype = TUTTI_DTYPE_FLOAT64;
      item.float64 = PyFloat_AS_DOUBLE(object);
      break;
    default:
      dtype = TUTTI_DTYPE_COMPLEX128;
      item.complex128 = PyComplex_AsCComplex(object);
      break;
  }
  if (PyErr_Occurred()) return false;
  return Check(tutti_tensor_create_from_data(CurrentRuntime(), dtype, 0, nullptr, &item,
                                             tutti_dtype_get_size(dtype), out));
}

// A NumPy scalar, of which ArrayOf would make an array first.
inline bool TensorOfScalar(PyObject *object, tutti_dtype dtype, tutti_tensor **out) {
  alignas(16) char item[16];
  PyArray_ScalarAsCtype(object, item);
  return Check(tutti_tensor_create_from_data(CurrentRuntime(), dtype, 0, nullptr, item,
                                             tutti_dtype_get_size(dtype), out));
}

// Whether a tensor is made to be written: then it is the object's own memory, or an exception.
enum class Writing { kNo, kYes };
bool TensorOfDlpack(PyObject *object, Writing writing, tutti_tensor **out);  // dlpack.h

// The tensor that `object` is or stands for; `out` gets a reference. TypeError for what is none.
inline bool TensorOfObject(PyObject *object, npy_intp copy_up_to, tutti_tensor **out,
                           Literals literals = Literals::kAlone) {
  if (PyArray_Check(object)) {
    return TensorOfArray(reinterpret_cast<PyArrayObject *>(object), copy_up_to, out);
  }
  if (IsLiteral(object)) return TensorOfLiteral(object, literals, out);
  if (PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject *>(hooks.tensor))) {
    Owned handle(PyObject_GetAttrString(object, "_handle"));
    void *tensor = nullptr;
    if (!handle || SWIG_ConvertPtr(handle.get(), &tensor, SWIGTYPE_p_tutti_tensor, 0) != 0 ||
        tensor == nullptr) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "the Tensor was not made");
      return false;
    }
    tutti_tensor_retain(static_cast<tutti_tensor *>(tensor));
    *out = static_cast<tutti_tensor *>(tensor);
    return true;
  }
  const bool is_scalar = PyArray_IsGenericScalar(object);
  if (is_scalar) {
    PyArray_Descr *descr = PyArray_DescrFromScalar(object);
    if (descr == nullptr) return false;
    const tutti_dtype dtype = DtypeOf(descr);
    Py_DECREF(descr);
    // ScalarAsCtype does not know how classes outside NumPy, such as ml_dtypes', lay out a value.
    if (dtype != TUTTI_DTYPE_INVALID && dtype != TUTTI_DTYPE_BFLOAT16) {
      return TensorOfScalar(object, dtype, out);
    }
  }
  if (!is_scalar && PyObject_HasAttrString(object, "__dlpack__") &&
      !PyObject_HasAttrString(object, "__array_interface__")) {
    return TensorOfDlpack(object, Writing::kNo, out);
  }
  Owned array(reinterpret_cast<PyObject *>(ArrayOf(object, literals)));
  if (!array) return false;
  auto *made = reinterpret_cast<PyArrayObject *>(array.get());
  const bool scalar = PyArray_NDIM(made) == 0;
  if (scalar && PyArray_DESCR(made)->type_num == NPY_OBJECT) {
    PyObject *item = *static_cast<PyObject **>(PyArray_DATA(made));
    if (!PyBytes_Check(item) && !PyUnicode_Check(item)) {
      PyErr_Format(PyExc_TypeError,
                   "an object of type %s is no tensor; give a NumPy array, a number, bytes, a list "
                   "of them, or something with __dlpack__",
                   Py_TYPE(object)->tp_name);
      return false;
    }
  }
  return TensorOfArray(made, scalar ? 16 : copy_up_to, out);
}

// The tensor that a call writes: over the memory of the caller's array, never a copy, which would
// take the result with it.
inline bool MutableTensorOf(const char *function, PyObject *object, tutti_tensor **out) {
  if (PyArray_Check(object)) {
    auto *array = reinterpret_cast<PyArrayObject *>(object);
    if (PyArray_FailUnlessWriteable(array, "the array that is written") != 0) return false;
    // What no tensor is made of at all, and text, is refused with reasons of their own.
    if (DtypeOf(PyArray_DESCR(array)) != TUTTI_DTYPE_INVALID && !IsDescribable(array)) {
      Owned strides(PyObject_GetAttrString(object, "strides"));
      if (!strides) return false;
      PyErr_Format(PyExc_ValueError,
                   "%s: an array that is written must be aligned, of native byte order and with "
                   "strides that are multiples of its element size (%zd bytes); this one has dtype "
                   "%R, strides %S and is %s: give an array of its own, such as np.zeros makes, "
                   "and copy the result from there",
                   PublicName(function).c_str(), PyDataType_ELSIZE(PyArray_DESCR(array)),
                   PyArray_DESCR(array), strides.get(),
                   PyArray_ISALIGNED(array) ? "aligned" : "not aligned");
      return false;
    }
  } else if (!PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject *>(hooks.tensor))) {
    if (!PyArray_IsGenericScalar(object) && PyObject_HasAttrString(object, "__dlpack__")) {
      return TensorOfDlpack(object, Writing::kYes, out);
    }
    PyErr_Format(PyExc_TypeError,
                 "%s: a NumPy array, a tutti.Tensor or something with __dlpack__ is needed to "
                 "write to, not %s",
                 PublicName(function).c_str(), Py_TYPE(object)->tp_name);
    return false;
  }
  return TensorOfObject(object, 0, out);
}

}  // namespace tutti_python

#endif  // TUTTI_BINDINGS_SWIG_PYTHON_ARRAYS_H_
