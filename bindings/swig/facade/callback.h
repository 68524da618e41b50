// How a callback of the host language crosses: as a handle, whose meaning only the language's
// typemap file knows, and a kind, which says how its arguments and results are read.
//
// The C functions below are what the library sees; the `tutti_host_` functions are what
// each language's typemap file defines once. A borrowed callback lives on the stack of the call
// that takes it; a stored one owns a retained handle, which goes when the library destroys it.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_CALLBACK_H_
#define TUTTI_BINDINGS_SWIG_FACADE_CALLBACK_H_

#include <tutti/tutti.h>

#include <cstdint>
#include <new>

using tutti_host_handle = uintptr_t;

enum tutti_host_kind : int32_t {
  // Borrowed.
  TUTTI_HOST_REPLICA = 1,  // a replica function: (args...) -> result
  TUTTI_HOST_MERGE = 2,    // a merge function: (strategy, args...) -> result
  TUTTI_HOST_VALUES = 3,   // makes one replica's value: (dict) -> value
  TUTTI_HOST_UPDATE = 10,  // an update function: (variable, args...) -> result, or (args...)
  // Stored.
  TUTTI_HOST_ELEMENT = 4,          // maps a row or a slab: (element) -> element
  TUTTI_HOST_GENERATOR_START = 5,  // () -> the state of one iteration
  TUTTI_HOST_GENERATOR_NEXT = 6,   // (state) -> element, or nothing at the end
  TUTTI_HOST_INPUT = 7,            // makes an input pipeline: (dict) -> dataset
  TUTTI_HOST_NOTIFICATION = 8,     // is told something: (); goes through tutti_host_notify
  TUTTI_HOST_REDUCER = 11,         // cross-device ops: (strategy, parts...) -> value
  TUTTI_HOST_ELEMENT_OF_SPEC = 9,  // the same as ELEMENT, where the spec of the result is declared
};

// ---- Defined by the language's typemap file. None of them throws.

// Calls the function; *out stays null for "none" (and for the end of a generator).
tutti_status *tutti_host_call(tutti_host_handle handle, tutti_host_kind kind,
                              tutti_context *context, const tutti_value *in, tutti_value **out);
// A handle that stays valid until it is released.
tutti_host_handle tutti_host_retain(tutti_host_handle handle);
// Runs on any thread, also after the host language has begun to end.
void tutti_host_release(tutti_host_handle handle);
// Calls a function without arguments; what goes wrong in it is reported to the user by itself.
void tutti_host_notify(tutti_host_handle handle);
// Hands a line of the log to the host's sink.
void tutti_host_log(tutti_host_handle handle, tutti_log_level level, tutti_string_view line);

namespace tutti_facade {

struct HostCallback {
  tutti_host_handle handle;
  tutti_host_kind kind;
};

inline tutti_status *CallHost(tutti_context *context, const tutti_value *in, tutti_value **out,
                              void *user_data) {
  const auto *callback = static_cast<const HostCallback *>(user_data);
  return tutti_host_call(callback->handle, callback->kind, context, in, out);
}

inline void DestroyHost(void *user_data) {
  auto *callback = static_cast<HostCallback *>(user_data);
  tutti_host_release(callback->handle);
  delete callback;
}

// For the calls that take a stored callback; they destroy it also when they fail. Short of memory
// it is a callback without a function, which every one of them refuses.
inline tutti_callback StoreHost(tutti_host_handle handle, tutti_host_kind kind) {
  auto *callback = new (std::nothrow) HostCallback{tutti_host_retain(handle), kind};
  if (callback == nullptr) return tutti_callback{nullptr, nullptr, nullptr};
  return tutti_callback{&CallHost, callback, &DestroyHost};
}

inline void NotifyHost(void *user_data) {
  tutti_host_notify(static_cast<const HostCallback *>(user_data)->handle);
}

// As StoreHost.
inline tutti_notification StoreHostNotification(tutti_host_handle handle) {
  const tutti_callback stored = StoreHost(handle, TUTTI_HOST_NOTIFICATION);
  if (stored.user_data == nullptr) return tutti_notification{nullptr, nullptr, nullptr};
  return tutti_notification{&NotifyHost, stored.user_data, stored.destroy};
}

inline void LogToHost(tutti_log_level level, tutti_string_view line, void *user_data) {
  tutti_host_log(reinterpret_cast<tutti_host_handle>(user_data), level, line);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_CALLBACK_H_
