// Callbacks from the library into Python: the three functions that facade/callback.h asks of a
// language.
//
// A borrowed handle is a BorrowedCall on the stack of the call that takes it; a stored one is a
// reference to the callable. Each replica runs in a copy of the caller's contextvars, so that
// ambient state (the decimal context, a device scope) reaches the replicas' threads and what a
// replica sets stays with it.
#ifndef TUTTI_BINDINGS_SWIG_PYTHON_CALLBACKS_H_
#define TUTTI_BINDINGS_SWIG_PYTHON_CALLBACKS_H_

#include <cstdio>

#include "../facade/callback.h"
#include "structures.h"

namespace tutti_python {

struct BorrowedCall {
  PyObject *function = nullptr;  // borrowed
  Owned contextvars;             // of the thread that makes the call

  // False with an exception set.
  bool Set(PyObject *callable) {
    if (!PyCallable_Check(callable)) {
      PyErr_Format(PyExc_TypeError, "a function is needed, not an object of type %s",
                   Py_TYPE(callable)->tp_name);
      return false;
    }
    function = callable;
    contextvars.reset(PyContext_CopyCurrent());
    return static_cast<bool>(contextvars);
  }
};

// Enters a copy of some contextvars and sets the ambient scope in it, for the time of a callback.
class Scope {
 public:
  // `contextvars` null: a copy of the thread's own.
  Scope(PyObject *contextvars, PyObject *scope) {
    context_.reset(contextvars != nullptr ? PyContext_Copy(contextvars) : PyContext_CopyCurrent());
    if (!context_ || PyContext_Enter(context_.get()) != 0) return;
    entered_ = true;
    Owned token(PyContextVar_Set(hooks.scope, scope));
    ready_ = static_cast<bool>(token);
  }
  ~Scope() {
    if (!entered_) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyContext_Exit(context_.get()) != 0) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
  }
  explicit operator bool() const { return ready_; }

 private:
  Owned context_;
  bool entered_ = false;
  bool ready_ = false;
};

// What the callback reaches the library through; ends with the callback.
class ContextWrapper {
 public:
  ContextWrapper(tutti_context *context, PyObject *of_class) {
    auto *type = reinterpret_cast<PyTypeObject *>(of_class);
    object_.reset(type->tp_alloc(type, 0));
    if (object_) reinterpret_cast<ContextObject *>(object_.get())->context = context;
  }
  ~ContextWrapper() {
    if (object_) reinterpret_cast<ContextObject *>(object_.get())->context = nullptr;
  }
  PyObject *get() const { return object_.get(); }

 private:
  Owned object_;
};

class RuntimeOfCallback {
 public:
  explicit RuntimeOfCallback(tutti_context *context) : before_(callback_runtime) {
    callback_runtime = tutti_context_get_runtime(context);
  }
  ~RuntimeOfCallback() { callback_runtime = before_; }

 private:
  tutti_runtime *const before_;
};

// The arguments that `in` stands for: the parts of a tuple, else one argument. With room for
// `leading` arguments in front. New reference.
inline PyObject *ArgumentsOf(const tutti_value *in, Py_ssize_t leading) {
  if (in == nullptr) return PyTuple_New(leading);
  Owned object(ObjectOf(in));
  if (!object) return nullptr;
  const bool unpack = PyTuple_CheckExact(object.get());
  if (unpack && leading == 0) return object.release();
  const Py_ssize_t count = unpack ? PyTuple_GET_SIZE(object.get()) : 1;
  PyObject *arguments = PyTuple_New(leading + count);
  if (arguments == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *item = unpack ? PyTuple_GET_ITEM(object.get(), i) : object.get();
    Py_INCREF(item);
    PyTuple_SET_ITEM(arguments, leading + i, item);
  }
  return arguments;
}

// The results below are new references, null with an exception set.

// `of_class`: of the context, ReplicaContext or UpdateContext.
inline PyObject *CallReplica(const BorrowedCall &call, PyObject *of_class, tutti_context *context,
                             const tutti_value *in) {
  ContextWrapper wrapper(context, of_class);
  if (wrapper.get() == nullptr) return nullptr;
  Scope scope(call.contextvars.get(), wrapper.get());
  if (!scope) return nullptr;
  Owned arguments(ArgumentsOf(in, 0));
  if (!arguments) return nullptr;
  return Interpreter::Call(call.function, arguments.get());
}

inline PyObject *StrategyOf(tutti_context *context) {
  tutti_strategy *strategy = tutti_context_get_strategy(context);
  tutti_strategy_retain(strategy);
  Owned handle(SWIG_InternalNewPointerObj(strategy, SWIGTYPE_p_tutti_strategy, SWIG_POINTER_OWN));
  if (!handle) return nullptr;
  return PyObject_CallFunction(hooks.strategy_of, "NO", PyLong_FromVoidPtr(strategy), handle.get());
}

// `contextvars` null: those of the thread, which is a replica's then.
inline PyObject *CallCrossReplica(PyObject *function, PyObject *contextvars, bool pass_strategy,
                                  tutti_context *context, const tutti_value *in) {
  Owned strategy(StrategyOf(context));
  if (!strategy) return nullptr;
  Owned ambient(PyObject_CallOneArg(hooks.cross_replica, strategy.get()));
  if (!ambient) return nullptr;
  Scope scope(contextvars, ambient.get());
  if (!scope) return nullptr;
  Owned arguments(ArgumentsOf(in, pass_strategy ? 1 : 0));
  if (!arguments) return nullptr;
  if (pass_strategy) PyTuple_SET_ITEM(arguments.get(), 0, strategy.release());
  return Interpreter::Call(function, arguments.get());
}

inline tutti_status *CallWithGil(tutti_host_handle handle, tutti_host_kind kind,
                                 tutti_context *context, const tutti_value *in, tutti_value **out) {
  Garbage::Drain();
  const RuntimeOfCallback runtime(context);
  auto *function = reinterpret_cast<PyObject *>(handle);
  const auto *borrowed = reinterpret_cast<const BorrowedCall *>(handle);
  Owned result;
  Role role = Role::kData;
  npy_intp copy_up_to = 0;
  switch (kind) {
    case TUTTI_HOST_REPLICA:
      role = Role::kResult;
      result.reset(CallReplica(*borrowed, hooks.replica_context, context, in));
      break;
    case TUTTI_HOST_UPDATE:
      role = Role::kResult;
      result.reset(CallReplica(*borrowed, hooks.update_context, context, in));
      break;
    case TUTTI_HOST_REDUCER:
      role = Role::kResult;
      result.reset(CallCrossReplica(function, nullptr, true, context, in));
      break;
    case TUTTI_HOST_MERGE:
      role = Role::kResult;
      result.reset(CallCrossReplica(borrowed->function, nullptr, true, context, in));
      break;
    case TUTTI_HOST_VALUES:
      role = Role::kResult;
      result.reset(CallCrossReplica(borrowed->function, borrowed->contextvars.get(), false, context,
                                    in));
      break;
    case TUTTI_HOST_NOTIFICATION:
      return tutti_status_create(TUTTI_INTERNAL, "a notification is no function");
    case TUTTI_HOST_INPUT:
      result.reset(CallCrossReplica(function, nullptr, false, context, in));
      break;
    case TUTTI_HOST_ELEMENT_OF_SPEC:
    case TUTTI_HOST_ELEMENT: {
      if (kind == TUTTI_HOST_ELEMENT_OF_SPEC) role = Role::kDeclared;
      copy_up_to = kCopiedRowBytes;
      Owned arguments(ArgumentsOf(in, 0));
      if (arguments) result.reset(Interpreter::Call(function, arguments.get()));
      break;
    }
    case TUTTI_HOST_GENERATOR_START: {
      Owned made(PyObject_CallNoArgs(function));
      Owned iterator(made ? PyObject_GetIter(made.get()) : nullptr);
      if (iterator && HostObjectLeaf(iterator.get(), out)) return nullptr;
      return TakeException();
    }
    case TUTTI_HOST_GENERATOR_NEXT: {
      role = Role::kDeclared;
      copy_up_to = kCopiedRowBytes;
      auto *iterator =
          static_cast<PyObject *>(tutti_value_get_leaf_host_object(in, 0, &host_tag));
      if (iterator == nullptr) {
        return tutti_status_create(TUTTI_INTERNAL, "from_generator: the state is no iterator");
      }
      result.reset(Interpreter::Next(iterator));
      if (!result && !PyErr_Occurred()) return nullptr;  // the end
      break;
    }
  }
  if (!result) return TakeException();
  if (result.get() == Py_None && role == Role::kResult) return nullptr;
  if (!ValueOf(result.get(), role, copy_up_to, out)) return TakeException();
  return nullptr;
}

inline const char *LevelName(tutti_log_level level) {
  switch (level) {
    case TUTTI_LOG_DEBUG: return "debug";
    case TUTTI_LOG_INFO: return "info";
    case TUTTI_LOG_WARNING: return "warning";
    default: return "error";
  }
}

// With the GIL. False when the sink has no function.
inline bool LogWithGil(PyObject *sink, tutti_log_level level, tutti_string_view line) {
  PyObject *type, *value, *traceback;  // of the code that made the library log
  PyErr_Fetch(&type, &value, &traceback);
  Owned function(PyObject_GetAttrString(sink, "function"));
  const bool has_function = function && function.get() != Py_None;
  if (has_function) {
    Owned text(PyUnicode_DecodeUTF8(line.data, static_cast<Py_ssize_t>(line.size), "replace"));
    Owned arguments(text ? Py_BuildValue("(sO)", LevelName(level), text.get()) : nullptr);
    Owned result(arguments ? Interpreter::Call(function.get(), arguments.get()) : nullptr);
    if (!result) PyErr_WriteUnraisable(function.get());
  }
  PyErr_Restore(type, value, traceback);
  return has_function;
}

}  // namespace tutti_python

void tutti_host_notify(tutti_host_handle handle) {
  const tutti_python::Attach attach;
  if (!attach) return;
  tutti_python::Garbage::Drain();
  auto *function = reinterpret_cast<PyObject *>(handle);
  const tutti_python::Owned arguments(PyTuple_New(0));
  const tutti_python::Owned result(
      arguments ? tutti_python::Interpreter::Call(function, arguments.get()) : nullptr);
  if (!result) PyErr_WriteUnraisable(function);
}

void tutti_host_log(tutti_host_handle handle, tutti_log_level level, tutti_string_view line) {
  {
    const tutti_python::Attach attach;
    if (attach &&
        tutti_python::LogWithGil(reinterpret_cast<PyObject *>(handle), level, line)) {
      return;
    }
  }
  fprintf(stderr, "tutti: %s: %.*s\n", tutti_python::LevelName(level),
          static_cast<int>(line.size), line.data);
}

tutti_status *tutti_host_call(tutti_host_handle handle, tutti_host_kind kind,
                              tutti_context *context, const tutti_value *in, tutti_value **out) {
  const tutti_python::Attach attach;
  if (!attach) {
    return tutti_status_create(TUTTI_CANCELLED, "the Python interpreter is ending");
  }
  return tutti_python::CallWithGil(handle, kind, context, in, out);
}

// Called with the GIL: storing a callback is no blocking call.
tutti_host_handle tutti_host_retain(tutti_host_handle handle) {
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_INCREF(reinterpret_cast<PyObject *>(handle));
  PyGILState_Release(state);
  return handle;
}

void tutti_host_release(tutti_host_handle handle) {
  tutti_python::Garbage::Add(reinterpret_cast<void *>(handle));
}

#endif  // TUTTI_BINDINGS_SWIG_PYTHON_CALLBACKS_H_
