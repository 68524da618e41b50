// Statuses and exceptions. A status becomes the class of tutti.errors that its code names; a Python
// exception that left a callback travels inside a status and comes back as itself.
#ifndef TUTTI_BINDINGS_SWIG_PYTHON_ERRORS_H_
#define TUTTI_BINDINGS_SWIG_PYTHON_ERRORS_H_

#include "interpreter.h"
#include "public_names.h"

namespace tutti_python {

// The address tells our host objects from those of other languages in the process.
inline const char host_tag = 0;

// The exception that `status` carries, borrowed; null when the status itself is what happened. An
// error of the library's own that passed through Python (a replica's AbortedError, say) is a cause
// of a status with another code, no more.
inline PyObject *CarriedBy(const tutti_status *status) {
  auto *exception = static_cast<PyObject *>(tutti_status_get_host_object(status, &host_tag));
  if (exception == nullptr || PyObject_IsInstance(exception, hooks.error_type) != 1) {
    return exception;
  }
  Owned code(PyObject_GetAttrString(exception, "code"));
  const long number = code ? PyLong_AsLong(code.get()) : -1;
  PyErr_Clear();
  return number == tutti_status_get_code(status) ? exception : nullptr;
}

// What the library says of an exception of the host's besides the exception itself, "map: element
// 2", stands below it in a traceback (from Python 3.11 on).
inline void AddNote(PyObject *exception, const tutti_status *status) {
  Owned text(PyObject_Str(exception));
  const char *utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  const std::string own =
      std::string(Py_TYPE(exception)->tp_name) + ": " + (utf8 == nullptr ? "?" : utf8);
  const std::string whole = PublicText(tutti_status_get_message(status));
  const size_t at = whole.rfind(own);
  if (utf8 != nullptr && at != std::string::npos && at > 2 &&
      PyObject_HasAttrString(exception, "add_note")) {
    const std::string where = whole.substr(0, at - 2);  // without ": "
    Owned note(PyUnicode_FromFormat("in %s", where.c_str()));
    Owned notes(PyObject_GetAttrString(exception, "__notes__"));
    PyErr_Clear();
    const bool is_there = notes && note && PySequence_Contains(notes.get(), note.get()) == 1;
    if (note && !is_there) {
      Owned done(PyObject_CallMethod(exception, "add_note", "O", note.get()));
    }
  }
  PyErr_Clear();
}

// New reference to the exception that stands for `status`, null with an exception set.
inline PyObject *ExceptionOf(const tutti_status *status) {
  if (PyObject *exception = CarriedBy(status)) {
    Py_INCREF(exception);
    AddNote(exception, status);
    return exception;
  }
  Owned details(PyDict_New());
  if (!details) return nullptr;
  for (size_t i = 0; i < tutti_status_get_detail_count(status); ++i) {
    tutti_detail detail = TUTTI_DETAIL_INIT;
    tutti_status *failed = tutti_status_get_detail(status, i, &detail);
    if (failed != nullptr) {
      tutti_status_release(failed);
      continue;
    }
    Owned value(detail.kind == TUTTI_DETAIL_INT64    ? PyLong_FromLongLong(detail.int64_value)
                : detail.kind == TUTTI_DETAIL_DOUBLE ? PyFloat_FromDouble(detail.double_value)
                                                     : PyUnicode_DecodeUTF8(
                                                           detail.string_value.data,
                                                           static_cast<Py_ssize_t>(
                                                               detail.string_value.size),
                                                           "replace"));
    if (!value || PyDict_SetItemString(details.get(), detail.key, value.get()) != 0) return nullptr;
  }
  const size_t count = tutti_status_get_cause_count(status);
  Owned causes(PyTuple_New(static_cast<Py_ssize_t>(count)));
  if (!causes) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    PyObject *cause = ExceptionOf(tutti_status_get_cause(status, i));
    if (cause == nullptr) return nullptr;
    PyTuple_SET_ITEM(causes.get(), static_cast<Py_ssize_t>(i), cause);
  }
  const std::string text = PublicText(tutti_status_get_message(status));
  Owned message(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  if (!message) return nullptr;
  return PyObject_CallFunction(hooks.make_error, "iOOO",
                               static_cast<int>(tutti_status_get_code(status)), message.get(),
                               details.get(), causes.get());
}

// A StopIteration of a callback would end a loop over a dataset in silence: it becomes the cause of
// a RuntimeError, as when it leaves a generator. Takes over `exception`; null with an exception
// set.
inline PyObject *WithoutStopIteration(PyObject *exception) {
  if (PyObject_IsInstance(exception, PyExc_StopIteration) != 1) return exception;
  PyObject *error = PyObject_CallFunction(
      PyExc_RuntimeError, "s",
      "a function raised StopIteration, which would end the iteration; raise something else, or "
      "use next(iterator, default) inside it");
  if (error == nullptr) {
    Py_DECREF(exception);
    return nullptr;
  }
  PyException_SetCause(error, exception);
  return error;
}

// Raises `status`, which it takes over. With the GIL.
inline void Raise(tutti_status *status) {
  if (CarriedBy(status) == nullptr && Interrupt::Raise()) {
    tutti_status_release(status);
    return;
  }
  PyObject *exception = ExceptionOf(status);
  tutti_status_release(status);
  if (exception != nullptr) exception = WithoutStopIteration(exception);
  if (exception == nullptr) return;
  PyObject *type = reinterpret_cast<PyObject *>(Py_TYPE(exception));
  Py_INCREF(type);
  PyErr_Restore(type, exception, PyException_GetTraceback(exception));
}

// True when `status` is success; else raises it.
inline bool Check(tutti_status *status) {
  if (status == nullptr) return true;
  Raise(status);
  return false;
}

inline tutti_code CodeOf(PyObject *exception) {
  if (PyObject_IsInstance(exception, hooks.error_type) == 1) {
    Owned code(PyObject_GetAttrString(exception, "code"));
    if (code) {
      const long number = PyLong_AsLong(code.get());
      if (number > 0) return static_cast<tutti_code>(number);
    }
    PyErr_Clear();
    return TUTTI_UNKNOWN;
  }
  static const struct {
    PyObject **type;
    tutti_code code;
  } kCodes[] = {
      {&PyExc_NotImplementedError, TUTTI_UNIMPLEMENTED},
      {&PyExc_TimeoutError, TUTTI_DEADLINE_EXCEEDED},
      {&PyExc_FileNotFoundError, TUTTI_NOT_FOUND},
      {&PyExc_FileExistsError, TUTTI_ALREADY_EXISTS},
      {&PyExc_PermissionError, TUTTI_PERMISSION_DENIED},
      {&PyExc_MemoryError, TUTTI_RESOURCE_EXHAUSTED},
      {&PyExc_IndexError, TUTTI_OUT_OF_RANGE},
      {&PyExc_KeyError, TUTTI_NOT_FOUND},
      {&PyExc_ValueError, TUTTI_INVALID_ARGUMENT},
      {&PyExc_TypeError, TUTTI_INVALID_ARGUMENT},
      {&PyExc_KeyboardInterrupt, TUTTI_CANCELLED},
  };
  for (const auto &entry : kCodes) {
    if (PyErr_GivenExceptionMatches(exception, *entry.type)) return entry.code;
  }
  return TUTTI_UNKNOWN;
}

// A detail that a callback put on its error ("row": the row of a slab that failed) stays readable
// for the library.
inline void CopyDetails(PyObject *exception, tutti_status *status) {
  if (PyObject_IsInstance(exception, hooks.error_type) != 1) return;
  Owned details(PyObject_GetAttrString(exception, "details"));
  if (!details || !PyDict_Check(details.get())) {
    PyErr_Clear();
    return;
  }
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(details.get(), &position, &key, &value)) {
    const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : nullptr;
    if (name != nullptr && PyLong_Check(value)) {
      const long long number = PyLong_AsLongLong(value);
      if (!PyErr_Occurred()) tutti_status_release(tutti_status_add_int64(status, name, number));
    } else if (name != nullptr && PyUnicode_Check(value)) {
      const char *text = PyUnicode_AsUTF8(value);
      if (text != nullptr) tutti_status_release(tutti_status_add_string(status, name, text));
    }
    PyErr_Clear();
  }
}

// The status that carries `exception` (borrowed).
inline tutti_status *StatusOfException(PyObject *exception) {
  Owned text(PyObject_Str(exception));
  if (!text) PyErr_Clear();
  const char *utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (utf8 == nullptr) PyErr_Clear();
  Owned message(PyUnicode_FromFormat("%s: %s", Py_TYPE(exception)->tp_name, utf8 ? utf8 : "?"));
  const char *shown = message ? PyUnicode_AsUTF8(message.get()) : nullptr;
  if (shown == nullptr) PyErr_Clear();
  const tutti_code code = CodeOf(exception);
  Py_INCREF(exception);
  tutti_status *status = tutti_status_create_with_host_object(
      code, shown != nullptr ? shown : "a Python exception", &host_tag, exception, &Garbage::Add);
  CopyDetails(exception, status);
  return status;
}

// The status that carries the exception that is set, which is cleared. With the GIL.
inline tutti_status *TakeException() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (type == nullptr) return tutti_status_create(TUTTI_INTERNAL, "Python failed without a reason");
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  tutti_status *status = StatusOfException(value);
  Py_XDECREF(value);
  return status;
}

}  // namespace tutti_python

#endif  // TUTTI_BINDINGS_SWIG_PYTHON_ERRORS_H_
