// What the Python layer needs of the interpreter: the classes that the package installs here, the
// GIL on foreign threads, objects whose last reference goes away without the GIL, and Ctrl-C.
//
// The end of the interpreter. The package's atexit hook shuts every runtime down, which joins our
// threads, and then calls Interpreter::End(). From then on nothing here takes the GIL any more: a
// callback is refused, an object that the library lets go of leaks, and a daemon thread that comes
// back from a call sleeps until the process is gone. (Python would end such a thread by unwinding
// its stack, and with it frames that must not be unwound.)
#ifndef TUTTI_BINDINGS_SWIG_PYTHON_INTERPRETER_H_
#define TUTTI_BINDINGS_SWIG_PYTHON_INTERPRETER_H_

// Python.h and numpy_api.h come before this one: the generated file includes them first.
#include <tutti/tutti.h>

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <new>
#include <thread>

#ifdef Py_GIL_DISABLED
#error "tutti needs a Python with the GIL: free-threaded builds are not supported yet"
#endif

namespace tutti_python {

// Classes and functions of the package, installed by _install(); strong references.
struct Hooks {
  PyObject *make_error = nullptr;        // (code, message, details, causes) -> exception
  PyObject *error_type = nullptr;        // errors.Error
  PyObject *scope = nullptr;             // ContextVar: the ambient scope
  PyObject *runtime = nullptr;           // ContextVar: the ambient runtime's handle
  PyObject *replica_context = nullptr;   // class ReplicaContext(Context)
  PyObject *update_context = nullptr;    // class UpdateContext(Context)
  PyObject *cross_replica = nullptr;     // (strategy) -> the scope inside a merge function
  PyObject *strategy_of = nullptr;       // (address, handle) -> Strategy
  PyObject *per_replica = nullptr;       // class with a slot _handle; so are the next six
  PyObject *mirrored = nullptr;
  PyObject *tensor = nullptr;
  PyObject *variable = nullptr;
  PyObject *dataset = nullptr;
  PyObject *variant = nullptr;
  PyObject *optional = nullptr;
  PyObject *variable_of = nullptr;       // (address, handle) -> Variable
  PyObject *wrap_dataset = nullptr;      // (handle) -> Dataset
  PyObject *wrap_optional = nullptr;     // (has_value, value[, spec]) -> Optional
  PyObject *composite = nullptr;         // class of sparse and ragged tensors
  PyObject *composite_spec = nullptr;    // class of their specs
  PyObject *make_spec = nullptr;         // (kind, dtype, shape, inner) -> a spec of one leaf
  PyObject *read_spec = nullptr;         // (spec) -> (kind, dtype, shape, inner), or None
  PyObject *named_tuple_type = nullptr;  // (type name, fields) -> class
  PyObject *named_tuple_name = nullptr;  // (class) -> type name
  PyObject *bfloat16 = nullptr;          // NumPy dtype of ml_dtypes, or None
  unsigned long main_thread = 0;
};
inline Hooks hooks;

// A reference that is dropped at the end of the scope.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject *object) : object_(object) {}
  Owned(Owned &&other) noexcept : object_(other.release()) {}
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  ~Owned() { Py_XDECREF(object_); }
  PyObject *get() const { return object_; }
  PyObject *release() {
    PyObject *object = object_;
    object_ = nullptr;
    return object;
  }
  void reset(PyObject *object) {
    PyObject *old = object_;
    object_ = object;
    Py_XDECREF(old);
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject *object_ = nullptr;
};

class Interpreter {
 public:
  // With the GIL. Returns when every thread that was about to take the GIL has had it; a forked
  // child has no other threads.
  static void End() {
    ended_.store(true);
    if (getpid() != home_) return;
    Py_BEGIN_ALLOW_THREADS;
    for (Count &count : taking_) {
      while (count.threads.load() > 0) std::this_thread::yield();
    }
    Py_END_ALLOW_THREADS;
  }
  static bool ended() { return ended_.load(std::memory_order_acquire); }

  // Around taking the GIL on a thread that Python might end there; false when it must not any more.
  static bool BeginTaking() {
    std::atomic<int> &mine = Taking();
    mine.fetch_add(1);
    if (!ended_.load()) return true;
    mine.fetch_sub(1);
    return false;
  }
  static void EndTaking() { Taking().fetch_sub(1, std::memory_order_release); }

  // Gives the GIL up for a blocking call, and takes it back.
  static PyThreadState *GiveUp() {
    PyThreadState *thread = PyEval_SaveThread();
    EndTurn();
    return thread;
  }
  static void TakeBack(PyThreadState *thread) {
    const bool counted = BeginTaking();
    if (!counted && !OnMainThread()) SleepForEver();
    AwaitTurn();
    PyEval_RestoreThread(thread);
    BeginTurn();
    if (counted) EndTaking();
  }

  // Replicas need the GIL one after the other, often for a microsecond each, and waiting for it in
  // the kernel costs tens: so our threads first take turns, spinning. Whoever comes by with the
  // turn finds the GIL free; a turn therefore ends when the GIL has been given up, and two threads
  // that come at once get it one after the other. It is a hint: Python takes and gives the GIL
  // without telling, so a thread waits for its turn for a short time only and then takes it over
  // with the GIL.
  static void AwaitTurn() {
    const unsigned long me = PyThread_get_thread_ident();
    unsigned long holder = 0;
    if (holder_.compare_exchange_strong(holder, me, std::memory_order_acquire) || holder == me ||
        !kMaySpin) {
      return;
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    do {
      for (int i = 0; i < 32; ++i) {
        holder = 0;
        if (holder_.load(std::memory_order_relaxed) == 0 &&
            holder_.compare_exchange_strong(holder, me, std::memory_order_acquire)) {
          return;
        }
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
      }
    } while (std::chrono::steady_clock::now() < limit);
  }
  // With the GIL.
  static void BeginTurn() {
    holder_.store(PyThread_get_thread_ident(), std::memory_order_relaxed);
  }
  // Without it. Somebody else may have begun a turn already.
  static void EndTurn() {
    unsigned long me = PyThread_get_thread_ident();
    holder_.compare_exchange_strong(me, 0, std::memory_order_release, std::memory_order_relaxed);
  }

  [[noreturn]] static void SleepForEver() {
    for (;;) pause();
  }

  // Calls a function. A thread that Python ends inside of it gets no further.
  static PyObject *Call(PyObject *function, PyObject *arguments) {
    try {
      return PyObject_Call(function, arguments, nullptr);
    } catch (abi::__forced_unwind &) {
      SleepForEver();
    }
  }
  static PyObject *Next(PyObject *iterator) {
    try {
      return PyIter_Next(iterator);
    } catch (abi::__forced_unwind &) {
      SleepForEver();
    }
  }

  static bool OnMainThread() { return PyThread_get_thread_ident() == hooks.main_thread; }

 private:
  static inline std::atomic<bool> ended_{false};
  // Threads that are about to take the GIL, in several counts: one alone would go from core to core
  // at every callback.
  struct alignas(64) Count {
    std::atomic<int> threads;
  };
  static inline Count taking_[16]{};
  static std::atomic<int> &Taking() {
    static std::atomic<unsigned> next{0};
    thread_local const unsigned mine = next.fetch_add(1, std::memory_order_relaxed);
    return taking_[mine % (sizeof(taking_) / sizeof(taking_[0]))].threads;
  }
  static inline const pid_t home_ = getpid();
  // Whose turn it is; 0: nobody's.
  alignas(64) static inline std::atomic<unsigned long> holder_{0};
  static inline const bool kMaySpin = std::thread::hardware_concurrency() > 1;
};

// References that were let go on threads without the GIL. They are dropped by the next thread that
// comes by with it, and by the main thread soon in any case; so no `destroy` ever waits for the
// GIL.
class Garbage {
 public:
  // Any thread, with or without the GIL.
  static void Add(void *object) noexcept {
    if (object == nullptr || Interpreter::ended()) return;
    Node *node = new (std::nothrow) Node{nullptr, static_cast<PyObject *>(object)};
    if (node == nullptr) return;
    node->next = head_.load(std::memory_order_relaxed);
    while (!head_.compare_exchange_weak(node->next, node, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
    if (!scheduled_.exchange(true, std::memory_order_acq_rel)) {
      if (Py_AddPendingCall(&DrainPending, nullptr) != 0) scheduled_.store(false);
    }
  }

  // With the GIL.
  static void Drain() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return;
    Node *node = head_.exchange(nullptr, std::memory_order_acquire);
    if (node == nullptr) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    while (node != nullptr) {
      Node *next = node->next;
      Py_DECREF(node->object);
      delete node;
      node = next;
    }
    PyErr_Restore(type, value, traceback);
  }

 private:
  struct Node {
    Node *next;
    PyObject *object;
  };
  static int DrainPending(void *) {
    scheduled_.store(false, std::memory_order_release);
    Drain();
    return 0;
  }
  static inline std::atomic<Node *> head_{nullptr};
  static inline std::atomic<bool> scheduled_{false};
};

// The GIL for a callback. A foreign thread keeps its Python thread state from its first callback to
// its end: making one for each callback would cost microseconds and lose its thread-local data.
class Attach {
 public:
  Attach() {
    if (!Interpreter::BeginTaking()) return;
    attached_ = true;
    const bool foreign = PyGILState_GetThisThreadState() == nullptr;
    Interpreter::AwaitTurn();
    state_ = PyGILState_Ensure();
    Interpreter::BeginTurn();
    if (foreign) {
      PyGILState_Ensure();
      thread_.keeps_state = true;
    }
    Interpreter::EndTaking();
  }
  ~Attach() {
    if (!attached_) return;
    PyGILState_Release(state_);
    if (state_ == PyGILState_UNLOCKED) Interpreter::EndTurn();
  }
  Attach(const Attach &) = delete;
  Attach &operator=(const Attach &) = delete;
  explicit operator bool() const { return attached_; }

 private:
  struct Thread {
    bool keeps_state;
    ~Thread() {
      if (!keeps_state || !Interpreter::BeginTaking()) return;
      const PyGILState_STATE state = PyGILState_Ensure();
      Interpreter::EndTaking();
      PyGILState_Release(PyGILState_LOCKED);  // undoes the second Ensure of the first callback
      PyGILState_Release(state);
    }
  };
  static inline thread_local Thread thread_{false};
  bool attached_ = false;
  PyGILState_STATE state_{};
};

// Ctrl-C while the main thread waits inside the library: the wait asks poll() every 50 ms, which
// lets Python run its signal handlers; what they raise is kept and raised when the call is back.
class Interrupt {
 public:
  // Borrowed; null when there is no memory. With the GIL, on the main thread.
  static tutti_cancellation *cancellation() {
    if (cancellation_ != nullptr && tutti_cancellation_is_cancelled(cancellation_)) {
      if (depth_ > 0) return cancellation_;
      tutti_cancellation_release(cancellation_);
      cancellation_ = nullptr;
    }
    if (cancellation_ == nullptr) {
      tutti_status_release(tutti_cancellation_create_polled(&Poll, nullptr, &cancellation_));
    }
    return cancellation_;
  }
  static bool pending() { return exception_ != nullptr; }
  // Raises what a signal handler raised; false when there is nothing. With the GIL.
  static bool Raise() {
    if (exception_ == nullptr || !Interpreter::OnMainThread()) return false;
    Py_INCREF(exception_);
    Py_INCREF(reinterpret_cast<PyObject *>(Py_TYPE(exception_)));
    PyErr_Restore(reinterpret_cast<PyObject *>(Py_TYPE(exception_)), exception_,
                  PyException_GetTraceback(exception_));
    return true;
  }
  // Around each call of the main thread: the exception is kept until the outermost one is back,
  // because each of the calls that were nested fails by it.
  static void Enter() { ++depth_; }
  static void Leave() {
    if (--depth_ == 0 && exception_ != nullptr) {
      PyObject *exception = exception_;
      exception_ = nullptr;
      Py_DECREF(exception);
    }
  }

 private:
  static int32_t Poll(void *) {
    if (Interpreter::ended() || !Interpreter::OnMainThread()) return 0;
    const PyGILState_STATE state = PyGILState_Ensure();
    const bool raised = PyErr_CheckSignals() != 0;
    if (raised) {
      PyObject *type, *value, *traceback;
      PyErr_Fetch(&type, &value, &traceback);
      PyErr_NormalizeException(&type, &value, &traceback);
      if (traceback != nullptr) PyException_SetTraceback(value, traceback);
      Py_XDECREF(type);
      Py_XDECREF(traceback);
      PyObject *old = exception_;
      exception_ = value;
      Py_XDECREF(old);
    }
    PyGILState_Release(state);
    return raised ? 1 : 0;
  }
  static inline tutti_cancellation *cancellation_ = nullptr;
  static inline PyObject *exception_ = nullptr;
  static inline int depth_ = 0;
};

// The call options of one blocking call, from Python's `timeout`: None, or seconds.
class Call {
 public:
  Call() = default;
  ~Call() {
    if (entered_) Interrupt::Leave();
  }
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  // Null with a Python exception set when `given` is neither a timeout nor a tuple of a timeout,
  // bytes per pack, the number of an implementation and, perhaps, a stream.
  const tutti_call_options *Set(PyObject *given) {
    if (SetTimeout(given) == nullptr) return nullptr;
    if (Interpreter::OnMainThread()) {
      options_.cancellation = Interrupt::cancellation();
      Interrupt::Enter();
      entered_ = true;
    }
    return &options_;
  }
  // The same for a call that only begins something: Ctrl-C ends waits.
  const tutti_call_options *SetTimeout(PyObject *given) {
    Garbage::Drain();
    PyObject *timeout = given;
    if (PyTuple_CheckExact(given)) {
      long long bytes_per_pack = 0;
      int implementation = 0;
      PyObject *stream = nullptr;
      if (!PyArg_ParseTuple(given, "OLi|O", &timeout, &bytes_per_pack, &implementation, &stream)) {
        return nullptr;
      }
      void *given_stream = nullptr;
      if (stream != nullptr &&
          SWIG_ConvertPtr(stream, &given_stream, SWIGTYPE_p_tutti_stream, 0) != 0) {
        PyErr_SetString(PyExc_TypeError, "stream: expected one of the library's");
        return nullptr;
      }
      options_.stream = static_cast<tutti_stream *>(given_stream);
      communication_.bytes_per_pack = bytes_per_pack;
      communication_.implementation = implementation;
      if (bytes_per_pack != 0 || implementation != 0) options_.communication = &communication_;
    }
    if (timeout != Py_None) {
      const double seconds = PyFloat_AsDouble(timeout);
      if (seconds == -1.0 && PyErr_Occurred()) return nullptr;
      if (std::isnan(seconds)) {
        PyErr_SetString(PyExc_ValueError, "timeout: NaN is no number of seconds");
        return nullptr;
      }
      if (seconds <= 0) {
        options_.timeout = TUTTI_TIMEOUT_EXPIRED;
      } else if (seconds >= 9.2e9) {
        options_.timeout = TUTTI_TIMEOUT_NONE;
      } else {
        options_.timeout = static_cast<int64_t>(std::ceil(seconds * 1e9));
      }
    }
    return &options_;
  }

 private:
  tutti_call_options options_ = TUTTI_CALL_OPTIONS_INIT;
  tutti_communication_options communication_ = TUTTI_COMMUNICATION_OPTIONS_INIT;
  bool entered_ = false;
};

// What Python sees of a tutti_context: base class of ReplicaContext. The pointer goes when the
// callback ends.
struct ContextObject {
  PyObject_HEAD
  tutti_context *context;
};

inline PyTypeObject *ContextType() {
  static PyTypeObject *type = [] {
    static PyType_Slot slots[] = {
        {Py_tp_doc, const_cast<char *>("The context of a running callback; ends with it.")},
        {0, nullptr}};
    static PyType_Spec spec = {"tutti._native.Context", sizeof(ContextObject), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    return reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  }();
  return type;
}

// The runtime of the callback that this thread is in, else the ambient one, else null (the
// default).
inline thread_local tutti_runtime *callback_runtime = nullptr;

}  // namespace tutti_python

#endif  // TUTTI_BINDINGS_SWIG_PYTHON_INTERPRETER_H_
