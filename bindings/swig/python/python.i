/* Python: how each kind of parameter of the facade crosses. The C++ behind it stands in the headers
 * beside this file. */

%begin %{
#define SWIG_PYTHON_STRICT_BYTE_CHAR_DISABLED
#define PY_SSIZE_T_CLEAN
/* SWIG's own way to give up the GIL takes it back in a destructor, and a thread that Python ends
 * there takes the process with it. */
#define SWIG_PYTHON_NO_USE_GIL
#define SWIG_PYTHON_THREAD_BEGIN_ALLOW \
  PyThreadState *tutti_saved_thread = tutti_python::Interpreter::GiveUp()
#define SWIG_PYTHON_THREAD_END_ALLOW tutti_python::Interpreter::TakeBack(tutti_saved_thread)
%}

%{
#include <Python.h>

#include "python/numpy_api.h"
#include "python/interpreter.h"
#include "python/errors.h"
#include "python/arrays.h"
#include "python/dlpack.h"
#include "python/structures.h"
#include "python/specs.h"
#include "python/example_features.h"
#include "python/callbacks.h"
%}

%init %{
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError,
                    "tutti cannot be used in a subinterpreter: use the main interpreter or a "
                    "process of its own");
    return NULL;
  }
  if (!tutti_python::ResolveNumpy()) return NULL;
  PyModule_AddObject(m, "Context", reinterpret_cast<PyObject *>(tutti_python::ContextType()));
%}

/* ---- results. A status that is not null raises; outputs follow. What nobody takes over is let go
 * of behind the call, as where it succeeded and an interrupt is raised all the same. */

%typemap(out) tutti_status * {
  if ($1 != nullptr) {
    tutti_python::Raise($1);
    SWIG_fail;
  }
  if (tutti_python::Interrupt::pending() && tutti_python::Interrupt::Raise()) SWIG_fail;
  $result = SWIG_Py_Void();
}

%define OUT_HANDLE(TYPE)
%typemap(in, numinputs=0) TYPE **OUTPUT (TYPE *handle = nullptr) "$1 = &handle;";
%typemap(argout) TYPE **OUTPUT {
  Py_DECREF($result);
  $result = SWIG_NewPointerObj(*$1, $*1_descriptor, SWIG_POINTER_OWN);
  if ($result == nullptr) SWIG_fail;
  *$1 = nullptr;
}
%typemap(freearg) TYPE **OUTPUT { TYPE##_release(*$1); }
%enddef
%include "handles_python.i"

/* A NumPy array over the tensor's memory; None where there is none. */
%typemap(in, numinputs=0) tutti_tensor **out_array (tutti_tensor *array = nullptr) "$1 = &array;";
%typemap(argout) tutti_tensor **out_array {
  Py_DECREF($result);
  $result = *$1 == nullptr
                ? Py_NewRef(Py_None)
                : tutti_python::ObjectOfTensor(*$1, tutti_python::Rank0::kArray);
  if ($result == nullptr) SWIG_fail;
}
%typemap(freearg) tutti_tensor **out_array "tutti_tensor_release(*$1);"

/* The Python object of a value. */
%typemap(in, numinputs=0) tutti_value **out_value (tutti_value *value = nullptr) "$1 = &value;";
%typemap(argout) tutti_value **out_value {
  Py_DECREF($result);
  $result = tutti_python::ObjectOf(*$1);
  if ($result == nullptr) SWIG_fail;
}
%typemap(freearg) tutti_value **out_value "tutti_value_release(*$1);"

/* An element, or the batch of a step, or StopIteration at the end. */
%define OUT_ELEMENT(NAME, LEAVES)
%typemap(in, numinputs=0) tutti_value **NAME (tutti_value *value = nullptr) "$1 = &value;";
%typemap(argout) tutti_value **NAME {
  Py_DECREF($result);
  $result = nullptr;
  if (*$1 == nullptr) {
    PyErr_SetNone(PyExc_StopIteration);
    SWIG_fail;
  }
  $result = tutti_python::ObjectOf(*$1, tutti_python::Leaves::LEAVES);
  if ($result == nullptr) SWIG_fail;
}
%typemap(freearg) tutti_value **NAME "tutti_value_release(*$1);"
%enddef
OUT_ELEMENT(out_element, kPlain)
OUT_ELEMENT(out_step, kOfStep)

/* The batch of a step in an optional. */
%typemap(in, numinputs=0) tutti_value **out_optional_step (tutti_value *value = nullptr)
  "$1 = &value;";
%typemap(argout) tutti_value **out_optional_step {
  Py_DECREF($result);
  $result = tutti_python::ObjectOf(*$1, tutti_python::Leaves::kOfStep);
  if ($result == nullptr) SWIG_fail;
}
%typemap(freearg) tutti_value **out_optional_step "tutti_value_release(*$1);"

/* None where there is no spec. */
%typemap(in, numinputs=0) tutti_spec **out_spec (tutti_spec *spec = nullptr) "$1 = &spec;";
%typemap(argout) tutti_spec **out_spec {
  Py_DECREF($result);
  $result = *$1 == nullptr ? Py_NewRef(Py_None) : tutti_python::ObjectOfSpec(*$1);
  if ($result == nullptr) SWIG_fail;
}
%typemap(freearg) tutti_spec **out_spec "tutti_spec_release(*$1);"

/* None where there is no text. */
%typemap(in, numinputs=0) tutti_bytes **out_text (tutti_bytes *bytes = nullptr) "$1 = &bytes;";
%typemap(argout) tutti_bytes **out_text {
  const tutti_string_view view = tutti_bytes_get_view(*$1);
  Py_DECREF($result);
  $result = *$1 == nullptr ? Py_NewRef(Py_None)
                           : PyUnicode_DecodeUTF8(view.data, static_cast<Py_ssize_t>(view.size),
                                                  "replace");
  if ($result == nullptr) SWIG_fail;
}
%typemap(freearg) tutti_bytes **out_text "tutti_bytes_release(*$1);"

%typemap(in, numinputs=0) tutti_bytes **out_bytes (tutti_bytes *bytes = nullptr) "$1 = &bytes;";
%typemap(argout) tutti_bytes **out_bytes {
  const tutti_string_view view = tutti_bytes_get_view(*$1);
  Py_DECREF($result);
  $result = PyBytes_FromStringAndSize(view.data, static_cast<Py_ssize_t>(view.size));
  if ($result == nullptr) SWIG_fail;
}
%typemap(freearg) tutti_bytes **out_bytes "tutti_bytes_release(*$1);"

%typemap(in, numinputs=0) tutti_optional_int64 *out_number (tutti_optional_int64 number) {
  number = {0, 0};
  $1 = &number;
}
%typemap(argout) tutti_optional_int64 *out_number {
  Py_DECREF($result);
  $result = $1->present ? PyLong_FromLongLong($1->value) : Py_NewRef(Py_None);
}
%typemap(in, numinputs=0) int64_t *out_count (int64_t count = 0) "$1 = &count;";
%typemap(argout) int64_t *out_count {
  Py_DECREF($result);
  $result = PyLong_FromLongLong(*$1);
}
%typemap(out) tutti_optional_int64 {
  $result = $1.present ? PyLong_FromLongLong($1.value) : Py_NewRef(Py_None);
}

/* As many handles as `size` says. */
%typemap(in) (size_t size, const char *name, tutti_communicator **out_communicators)
    (std::vector<tutti_communicator *> ranks) {
  PyObject *name = nullptr;
  Py_ssize_t size = 0;
  if (!PyArg_ParseTuple($input, "nO", &size, &name)) SWIG_fail;
  if (size < 0 || size > 65536) {
    PyErr_Format(PyExc_ValueError, "a communicator of %zd ranks cannot be made", size);
    SWIG_fail;
  }
  ranks.resize(static_cast<size_t>(size));
  $1 = ranks.size();
  $2 = name == Py_None ? nullptr : const_cast<char *>(tutti_python::Utf8(name));
  if (PyErr_Occurred()) SWIG_fail;
  $3 = ranks.data();
}
%typemap(argout) (size_t size, const char *name, tutti_communicator **out_communicators) {
  Py_DECREF($result);
  $result = PyList_New(static_cast<Py_ssize_t>($1));
  if ($result == nullptr) SWIG_fail;
  for (size_t i = 0; i < $1; ++i) {
    PyList_SET_ITEM($result, static_cast<Py_ssize_t>(i),
                    SWIG_NewPointerObj($3[i], SWIGTYPE_p_tutti_communicator, SWIG_POINTER_OWN));
    $3[i] = nullptr;
  }
}
%typemap(freearg) (size_t size, const char *name, tutti_communicator **out_communicators) {
  for (size_t i = 0; $3 != nullptr && i < $1; ++i) tutti_communicator_release($3[i]);
}

/* ---- parameters */

/* The ambient runtime; never asked of the caller. */
%typemap(in, numinputs=0) tutti_runtime *runtime "$1 = tutti_python::CurrentRuntime();";
/* An explicit one; None is the default. */
%typemap(in) tutti_runtime *given_runtime (void *pointer = nullptr) {
  if ($input != Py_None && SWIG_ConvertPtr($input, &pointer, $1_descriptor, 0) != 0) {
    PyErr_SetString(PyExc_TypeError, "a runtime is needed");
    SWIG_fail;
  }
  $1 = static_cast<tutti_runtime *>(pointer);
}

/* The context of the callback that the thread is in, null outside replicas. */
%typemap(in, numinputs=0) tutti_context *ambient {
  PyObject *scope = nullptr;
  $1 = nullptr;
  if (PyContextVar_Get(tutti_python::hooks.scope, Py_None, &scope) != 0) SWIG_fail;
  if (scope != nullptr && PyObject_TypeCheck(scope, tutti_python::ContextType())) {
    $1 = reinterpret_cast<tutti_python::ContextObject *>(scope)->context;
    if ($1 == nullptr) {
      Py_DECREF(scope);
      tutti_python::Raise(tutti_status_create(
          TUTTI_FAILED_PRECONDITION,
          "this thread still stands in the context of a replica function that has returned; "
          "start it outside, or do the work inside the function"));
      SWIG_fail;
    }
  }
  Py_XDECREF(scope);
}
%typemap(in) tutti_context *context {
  if (!PyObject_TypeCheck($input, tutti_python::ContextType())) {
    PyErr_SetString(PyExc_TypeError, "a replica context is needed");
    SWIG_fail;
  }
  $1 = reinterpret_cast<tutti_python::ContextObject *>($input)->context;
  if ($1 == nullptr) {
    tutti_python::Raise(tutti_status_create(
        TUTTI_FAILED_PRECONDITION,
        "this replica context has ended: it lives as long as the replica function runs"));
    SWIG_fail;
  }
}
%apply tutti_context *context { const tutti_context *context };

%typemap(in) const tutti_call_options *call (tutti_python::Call options) {
  $1 = const_cast<tutti_call_options *>(options.Set($input));
  if ($1 == nullptr) SWIG_fail;
}

%apply const tutti_call_options *call { const tutti_call_options *leaving };

%typemap(in) const tutti_call_options *issue (tutti_python::Call options) {
  $1 = const_cast<tutti_call_options *>(options.SetTimeout($input));
  if ($1 == nullptr) SWIG_fail;
}

%define IN_VALUE(NAME, ROLE, COPY_UP_TO)
%typemap(in) const tutti_value *NAME {
  tutti_value *made = nullptr;
  if (!tutti_python::ValueOf($input, tutti_python::Role::ROLE, COPY_UP_TO, &made)) SWIG_fail;
  $1 = made;
}
%typemap(freearg) const tutti_value *NAME "tutti_value_release($1);";
%enddef
IN_VALUE(args, kArguments, 0)
IN_VALUE(value, kResult, 0)
IN_VALUE(destinations, kResult, 0)
IN_VALUE(pairs, kResult, 0)
IN_VALUE(colocate_with, kResult, 0)
IN_VALUE(data, kData, 0)
/* None is a leaf here, too: that of an argument that is not given. */
IN_VALUE(padded_shapes, kData, 0)
IN_VALUE(padding_values, kData, 0)
IN_VALUE(bucket_boundaries, kData, 0)
IN_VALUE(bucket_batch_sizes, kData, 0)
IN_VALUE(weights, kData, 0)
/* What is read during the call only: a small array is copied, which nobody can tell. */
IN_VALUE(operand, kResult, tutti_python::kCopiedOperandBytes)
/* What an assertion is about. */
IN_VALUE(x, kData, tutti_python::kCopiedOperandBytes)
IN_VALUE(y, kData, tutti_python::kCopiedOperandBytes)
IN_VALUE(shown, kData, tutti_python::kCopiedOperandBytes)

%typemap(in) (size_t count, const tutti_value *const *values)
    (tutti_python::Children<tutti_python::ValueParts> parts) {
  PyObject *items = PySequence_Fast($input, "a list of values is needed");
  if (items == nullptr) SWIG_fail;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    tutti_value *part = nullptr;
    if (!tutti_python::ValueOf(PySequence_Fast_GET_ITEM(items, i), tutti_python::Role::kResult, 0,
                               &part)) {
      Py_DECREF(items);
      SWIG_fail;
    }
    parts.Add(part);
  }
  Py_DECREF(items);
  $1 = parts.size();
  $2 = parts.data();
}

%typemap(in) const tutti_tensor *tensor {
  tutti_tensor *made = nullptr;
  if (!tutti_python::TensorOfObject($input, 0, &made)) SWIG_fail;
  $1 = made;
}
%typemap(freearg) const tutti_tensor *tensor "tutti_tensor_release($1);";
%apply const tutti_tensor *tensor { const tutti_tensor *other, const tutti_tensor *component };
%typemap(in) const tutti_tensor *operand {
  tutti_tensor *made = nullptr;
  if (!tutti_python::TensorOfObject($input, tutti_python::kCopiedOperandBytes, &made)) SWIG_fail;
  $1 = made;
}
%typemap(freearg) const tutti_tensor *operand "tutti_tensor_release($1);";

%typemap(in) const tutti_tensor *root_tensor {
  tutti_tensor *made = nullptr;
  if ($input != Py_None && !tutti_python::TensorOfObject($input, 0, &made)) SWIG_fail;
  $1 = made;
}
%typemap(freearg) const tutti_tensor *root_tensor "tutti_tensor_release($1);";
%apply const tutti_tensor *root_tensor { const tutti_tensor *rtol, const tutti_tensor *atol };

%typemap(in) (size_t count, const tutti_tensor *const *tensors)
    (tutti_python::Children<tutti_python::TensorParts> parts) {
  if (!tutti_python::EachItem($input, [&](PyObject *item) {
        tutti_tensor *part = nullptr;
        if (!tutti_python::TensorOfObject(item, 0, &part)) return false;
        parts.Add(part);
        return true;
      })) {
    SWIG_fail;
  }
  $1 = parts.size();
  $2 = parts.data();
}

%typemap(in) (size_t count, const tutti_cluster_resolver *const *resolvers)
    (std::vector<tutti_cluster_resolver *> parts) {
  if (!tutti_python::EachItem($input, [&](PyObject *item) {
        void *part = nullptr;
        if (SWIG_ConvertPtr(item, &part, SWIGTYPE_p_tutti_cluster_resolver, 0) != 0) {
          PyErr_SetString(PyExc_TypeError, "a cluster resolver is needed");
          return false;
        }
        parts.push_back(static_cast<tutti_cluster_resolver *>(part));
        return true;
      })) {
    SWIG_fail;
  }
  $1 = parts.size();
  $2 = parts.data();
}

/* The caller's array is written. */
%typemap(in) tutti_tensor *mutable_tensor {
  $1 = nullptr;
  if (!tutti_python::MutableTensorOf("$symname", $input, &$1)) SWIG_fail;
}
%typemap(freearg) tutti_tensor *mutable_tensor "tutti_tensor_release($1);";
%typemap(in) tutti_tensor *root_output {
  $1 = nullptr;
  if ($input != Py_None && !tutti_python::MutableTensorOf("$symname", $input, &$1)) SWIG_fail;
}
%typemap(freearg) tutti_tensor *root_output "tutti_tensor_release($1);";
%typemap(in) (size_t count, tutti_tensor *const *mutable_tensors)
    (tutti_python::Children<tutti_python::TensorParts> parts) {
  if (!tutti_python::EachItem($input, [&](PyObject *item) {
        tutti_tensor *part = nullptr;
        if (!tutti_python::MutableTensorOf("$symname", item, &part)) return false;
        parts.Add(part);
        return true;
      })) {
    SWIG_fail;
  }
  $1 = parts.size();
  $2 = parts.data();
}
%apply (size_t count, tutti_tensor *const *mutable_tensors) {
  (size_t output_count, tutti_tensor *const *mutable_tensors)
};

%typemap(in) const tutti_spec *signature {
  tutti_spec *made = nullptr;
  if ($input != Py_None && !tutti_python::SpecOf($input, &made)) SWIG_fail;
  $1 = made;
}
%typemap(freearg) const tutti_spec *signature "tutti_spec_release($1);";
%apply const tutti_spec *signature { const tutti_spec *specific };

/* Borrowed callbacks: they live on this call's stack. */
%typemap(in) tutti_host_handle replica_fn (tutti_python::BorrowedCall borrowed) {
  if (!borrowed.Set($input)) SWIG_fail;
  $1 = reinterpret_cast<tutti_host_handle>(&borrowed);
}
%apply tutti_host_handle replica_fn {
  tutti_host_handle merge_fn, tutti_host_handle values_fn, tutti_host_handle update_fn
};
/* Stored ones: the facade retains the callable. */
%typemap(in) tutti_host_handle element_fn {
  if (!PyCallable_Check($input)) {
    tutti_python::RaiseWrongType("$symname", "$1_name", "a function", $input);
    SWIG_fail;
  }
  $1 = reinterpret_cast<tutti_host_handle>($input);
}
%apply tutti_host_handle element_fn {
  tutti_host_handle start_fn, tutti_host_handle input_fn, tutti_host_handle ready_fn,
  tutti_host_handle reducer_fn
};
/* An object that the package keeps for ever, with an attribute `function`; or None. */
%typemap(in) tutti_host_handle log_sink {
  $1 = $input == Py_None ? 0 : reinterpret_cast<tutti_host_handle>($input);
}

%typemap(in) tutti_optional_int64 {
  $1 = {0, 0};
  if ($input != Py_None) {
    $1.present = 1;
    if (!tutti_python::Integer("$symname", "$1_name", $input, &$1.value)) SWIG_fail;
  }
}

%typemap(in) tutti_tristate {
  if ($input == Py_None) {
    $1 = TUTTI_UNSET;
  } else {
    const int truth = PyObject_IsTrue($input);
    if (truth < 0) SWIG_fail;
    $1 = truth ? TUTTI_TRUE : TUTTI_FALSE;
  }
}

/* Any integer, NumPy's included. */
%typemap(in) int64_t {
  if (!tutti_python::Integer("$symname", "$1_name", $input, &$1)) SWIG_fail;
}
%typemap(in) size_t (int64_t number) {
  if (!tutti_python::Integer("$symname", "$1_name", $input, &number)) SWIG_fail;
  if (number < 0) {
    PyErr_Format(PyExc_ValueError, "%s: %s: 0 or more is needed, not %lld",
                 tutti_python::PublicName("$symname").c_str(), "$1_name",
                 static_cast<long long>(number));
    SWIG_fail;
  }
  $1 = static_cast<size_t>(number);
}
%typemap(out) int64_t "$result = PyLong_FromLongLong($1);";
%typemap(out) uintptr_t "$result = PyLong_FromSize_t($1);";

/* Text, None included. */
%typemap(in) const char * {
  $1 = nullptr;
  if ($input != Py_None) {
    if (!PyUnicode_Check($input)) {
      tutti_python::RaiseWrongType("$symname", "$1_name", "a str", $input);
      SWIG_fail;
    }
    $1 = const_cast<char *>(tutti_python::Utf8($input));
    if ($1 == nullptr) SWIG_fail;
  }
}
%typemap(freearg) const char * "";
%typemap(out) const char * {
  $result = $1 == nullptr ? Py_NewRef(Py_None) : PyUnicode_FromString($1);
}

%typemap(in) (size_t count, const char *const *texts) (std::vector<const char *> texts,
                                                       tutti_python::Owned items) {
  items.reset(PySequence_Fast($input, "a list of str is needed"));
  if (!items) SWIG_fail;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject *item = PySequence_Fast_GET_ITEM(items.get(), i);
    const char *text = PyUnicode_Check(item) ? tutti_python::Utf8(item) : nullptr;
    if (text == nullptr) {
      if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "a list of str is needed; element %zd is of type %s", i,
                     Py_TYPE(item)->tp_name);
      }
      SWIG_fail;
    }
    texts.push_back(text);
  }
  $1 = texts.size();
  $2 = const_cast<char **>(texts.data());
}
%apply (size_t count, const char *const *texts) {
  (size_t count, const char *const *keys), (size_t value_count, const char *const *values)
};

%typemap(in) (size_t rank, const int64_t *dims) (std::vector<int64_t> dims) {
  PyObject *items = PySequence_Fast($input, "a list of sizes is needed");
  if (items == nullptr) SWIG_fail;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    dims.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items, i)));
  }
  Py_DECREF(items);
  if (PyErr_Occurred()) SWIG_fail;
  $1 = dims.size();
  $2 = dims.data();
}

%apply (size_t rank, const int64_t *dims) { (size_t dtype_count, const int64_t *dtypes),
                                            (size_t number_count, const int64_t *numbers) };

%typemap(in) (size_t rank_count, const int64_t *send_rows) (std::vector<int64_t> rows) {
  if (!tutti_python::EachItem($input, [&](PyObject *item) {
        rows.push_back(0);
        return tutti_python::Integer("$symname", "send_rows", item, &rows.back());
      })) {
    SWIG_fail;
  }
  $1 = rows.size();
  $2 = rows.data();
}
/* An array of int64 that the package has made. */
%typemap(in) (size_t received_count, int64_t *received_rows) {
  if (!PyArray_Check($input) ||
      PyArray_TYPE(reinterpret_cast<PyArrayObject *>($input)) != NPY_INT64 ||
      !PyArray_ISCARRAY(reinterpret_cast<PyArrayObject *>($input))) {
    PyErr_SetString(PyExc_TypeError, "an array of int64 is needed");
    SWIG_fail;
  }
  $1 = static_cast<size_t>(PyArray_SIZE(reinterpret_cast<PyArrayObject *>($input)));
  $2 = static_cast<int64_t *>(PyArray_DATA(reinterpret_cast<PyArrayObject *>($input)));
}

/* Bytes and whatever has a contiguous buffer. */
%typemap(in) (const void *bytes, size_t size) (Py_buffer buffer = {}) {
  if (PyObject_GetBuffer($input, &buffer, PyBUF_SIMPLE) != 0) SWIG_fail;
  $1 = buffer.buf;
  $2 = static_cast<size_t>(buffer.len);
}
%typemap(freearg) (const void *bytes, size_t size) {
  if (buffer$argnum.obj != nullptr) PyBuffer_Release(&buffer$argnum);
}

/* parse_example's features: a list of (key, dtype, shape, default tensor or None,
 * kind). */
%typemap(in) (size_t count, const tutti_feature *const *features)
    (tutti_python::Features features) {
  if (!features.Set($input)) SWIG_fail;
  $1 = features.pointers.size();
  $2 = const_cast<tutti_feature **>(features.pointers.data());
}

/* How a future fails: an exception, or None. */
%typemap(in) tutti_status *failure {
  $1 = nullptr;
  if ($input != Py_None) {
    if (!PyExceptionInstance_Check($input)) {
      PyErr_SetString(PyExc_TypeError, "an exception is needed");
      SWIG_fail;
    }
    $1 = tutti_python::StatusOfException($input);
  }
}

%include "python/package.i"
