/* What only the Python package needs. */

%typemap(out) PyObject * "$result = $1; if ($result == nullptr) SWIG_fail;";
%typemap(in) PyObject * "$1 = $input;";

%inline %{
/* Installs the package's classes and functions, by the names of tutti_python::Hooks. */
PyObject *_install(PyObject *parts) {
  using tutti_python::hooks;
  const struct {
    const char *name;
    PyObject **place;
  } places[] = {{"make_error", &hooks.make_error},
                {"error_type", &hooks.error_type},
                {"scope", &hooks.scope},
                {"runtime", &hooks.runtime},
                {"replica_context", &hooks.replica_context},
                {"update_context", &hooks.update_context},
                {"cross_replica", &hooks.cross_replica},
                {"strategy_of", &hooks.strategy_of},
                {"per_replica", &hooks.per_replica},
                {"mirrored", &hooks.mirrored},
                {"tensor", &hooks.tensor},
                {"variable", &hooks.variable},
                {"dataset", &hooks.dataset},
                {"variant", &hooks.variant},
                {"optional", &hooks.optional},
                {"variable_of", &hooks.variable_of},
                {"wrap_dataset", &hooks.wrap_dataset},
                {"wrap_optional", &hooks.wrap_optional},
                {"composite", &hooks.composite},
                {"composite_spec", &hooks.composite_spec},
                {"make_spec", &hooks.make_spec},
                {"read_spec", &hooks.read_spec},
                {"named_tuple_type", &hooks.named_tuple_type},
                {"named_tuple_name", &hooks.named_tuple_name},
                {"bfloat16", &hooks.bfloat16}};
  for (const auto &entry : places) {
    PyObject *part = PyDict_GetItemString(parts, entry.name);
    if (part == nullptr) {
      PyErr_Format(PyExc_KeyError, "%s", entry.name);
      return nullptr;
    }
    Py_INCREF(part);
    PyObject *old = *entry.place;
    *entry.place = part;
    Py_XDECREF(old);
  }
  PyObject *thread = PyDict_GetItemString(parts, "main_thread");
  hooks.main_thread = thread == nullptr ? 0 : PyLong_AsUnsignedLong(thread);
  return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
}

/* From now on nothing takes the GIL for the library any more. */
void _end() { tutti_python::Interpreter::End(); }

/* The address of the object that a handle points to, which tells handles apart. */
PyObject *_strategy_address(tutti_strategy *strategy) { return PyLong_FromVoidPtr(strategy); }
PyObject *_variable_address(tutti_variable *variable) { return PyLong_FromVoidPtr(variable); }

/* The NumPy dtype of a number of TUTTI_DTYPE_*; None where NumPy has none. */
PyObject *_numpy_dtype(int32_t dtype) {
  PyArray_Descr *descr = tutti_python::DescrOf(dtype);
  if (descr == nullptr) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  return reinterpret_cast<PyObject *>(descr);
}
/* The number of TUTTI_DTYPE_* of a NumPy dtype, 0 for none. */
int32_t _dtype_number(PyObject *dtype) {
  if (!PyArray_DescrCheck(dtype)) return 0;
  return tutti_python::DtypeOf(reinterpret_cast<PyArray_Descr *>(dtype));
}

/* What numpy.asarray gives, but that numbers of Python get the dtype that a tensor of them has; or,
 * with `declared`, one that holds all that Python knows of them. */
PyObject *_array_of(PyObject *object, bool declared) {
  using tutti_python::Literals;
  if (PyArray_Check(object)) return Py_NewRef(object);
  return reinterpret_cast<PyObject *>(tutti_python::ArrayOf(
      object, declared ? Literals::kDeclared : Literals::kAlone));
}
/* A NumPy array (or bytes, or a Tensor) over the memory of a tensor; read-only when that is. */
PyObject *_tensor_array(const tutti_tensor *tensor) {
  return tutti_python::ObjectOfTensor(tensor, tutti_python::Rank0::kArray);
}
PyObject *_tensor_dlpack(const tutti_tensor *tensor, bool versioned, bool copy,
                         tutti_optional_int64 stream) {
  return tutti_python::DlpackOf(tensor, versioned, copy, stream);
}
/* A tensor over memory of a GPU that `object` keeps alive; no strides: row-major. */
tutti_status *_tensor_of_cuda(PyObject *object, tutti_runtime *runtime, int64_t address,
                              int64_t byte_size, int32_t dtype, size_t rank, const int64_t *dims,
                              size_t dtype_count, const int64_t *dtypes, bool read_only,
                              const char *device, tutti_tensor **out_tensor) {
  tutti_tensor_wrap_options options = TUTTI_TENSOR_WRAP_OPTIONS_INIT;
  options.strides = dtype_count == 0 ? nullptr : dtypes;
  options.read_only = read_only ? TUTTI_TRUE : TUTTI_FALSE;
  options.device = device;
  Py_INCREF(object);
  return tutti_tensor_wrap(runtime, reinterpret_cast<void *>(address),
                           static_cast<size_t>(byte_size), dtype, rank, dims,
                           tutti_release_hook{&tutti_python::Garbage::Add, object}, &options,
                           out_tensor);
}
/* A tensor of uint16 over the memory of one of bfloat16. */
PyObject *_tensor_bits(const tutti_tensor *tensor) {
  const size_t rank = tutti_tensor_get_rank(tensor);
  npy_intp strides[NPY_MAXDIMS];
  const auto max_dims = static_cast<size_t>(tutti_python::numpy_api.max_dims);
  for (size_t axis = 0; axis < rank && axis < max_dims; ++axis) {
    strides[axis] = tutti_tensor_get_strides(tensor)[axis] * 2;
  }
  if (tutti_tensor_get_dtype(tensor) != TUTTI_DTYPE_BFLOAT16 || rank > max_dims) {
    PyErr_SetString(PyExc_TypeError, "only a tensor of bfloat16 is seen as bits");
    return nullptr;
  }
  PyObject *array = PyArray_New(
      tutti_python::numpy_api.array_type, static_cast<int>(rank),
      reinterpret_cast<npy_intp *>(const_cast<int64_t *>(tutti_tensor_get_dims(tensor))),
      NPY_USHORT, strides, const_cast<void *>(tutti_tensor_get_data(tensor)), 0,
      NPY_ARRAY_ALIGNED | (tutti_tensor_is_read_only(tensor) ? 0 : NPY_ARRAY_WRITEABLE), nullptr);
  if (array == nullptr) return nullptr;
  if (!tutti_python::SetTensorBehind(array, tensor)) {
    Py_DECREF(array);
    return nullptr;
  }
  return array;
}
/* INVALID_ARGUMENT where the parts of a sparse or ragged tensor, or of indexed slices, do not fit
 * each other. */
tutti_status *_check_composite(const tutti_value *data) {
  tutti_value *made = nullptr;
  tutti_status *status = nullptr;
  if (tutti_python::IsNamed(tutti_value_get_treespec(data), TUTTI_INDEXED_SLICES_TYPE_NAME)) {
    status = tutti_value_create_indexed_slices(tutti_value_get_leaf_tensor(data, 0),
                                               tutti_value_get_leaf_tensor(data, 1),
                                               tutti_value_get_leaf_tensor(data, 2), &made);
  } else if (tutti_python::IsNamed(tutti_value_get_treespec(data), TUTTI_SPARSE_TYPE_NAME)) {
    status = tutti_value_create_sparse(tutti_value_get_leaf_tensor(data, 0),
                                       tutti_value_get_leaf_tensor(data, 1),
                                       tutti_value_get_leaf_tensor(data, 2), &made);
  } else {
    tutti_value *values = nullptr;
    status = tutti_value_child(data, 0, &values);
    if (status == nullptr) {
      const size_t last = tutti_value_get_leaf_count(data) - 1;
      status = tutti_value_create_ragged(values, tutti_value_get_leaf_tensor(data, last), &made);
    }
    tutti_value_release(values);
  }
  tutti_value_release(made);
  return status;
}
/* The tuple of the components of a distributed value. */
PyObject *_value_components(const tutti_value *value) {
  const size_t count = tutti_value_get_leaf_component_count(value, 0);
  PyObject *components = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; components != nullptr && i < count; ++i) {
    PyObject *component =
        tutti_python::ObjectOf(tutti_value_get_leaf_component(value, 0, i));
    if (component == nullptr) {
      Py_DECREF(components);
      return nullptr;
    }
    PyTuple_SET_ITEM(components, static_cast<Py_ssize_t>(i), component);
  }
  return components;
}
%}
