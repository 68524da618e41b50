// Callbacks from the library into Go: the functions that facade/callback.h asks of a language.
//
// A handle is a cgo.Handle. The exported Go functions recover from panics, so none runs through the
// frames here. A stored handle is a second one for the same Go value.
#ifndef TUTTI_BINDINGS_SWIG_GO_CALLBACKS_H_
#define TUTTI_BINDINGS_SWIG_GO_CALLBACKS_H_

#include "../facade/callback.h"

// Defined by bindings/go/tutti/internal/native/callback.go.
extern "C" {
uintptr_t tuttiGoCall(uintptr_t handle, int32_t kind, uintptr_t context, uintptr_t in,
                      uintptr_t *out);
uintptr_t tuttiGoRetain(uintptr_t handle);
void tuttiGoRelease(uintptr_t handle);
void tuttiGoNotify(uintptr_t handle);
void tuttiGoLog(uintptr_t handle, int32_t level, char *line, size_t size);
}

namespace tutti_go {

// The address tells Go's host objects from those of other languages in the process.
inline const char host_tag = 0;

inline void ReleaseHostObject(void *object) {
  tuttiGoRelease(reinterpret_cast<uintptr_t>(object));
}

}  // namespace tutti_go

tutti_status *tutti_host_call(tutti_host_handle handle, tutti_host_kind kind,
                              tutti_context *context, const tutti_value *in, tutti_value **out) {
  uintptr_t made = 0;
  // A merge function and cross-device ops want the strategy of their context, with a reference, and
  // nothing else: asking for it would be one more crossing.
  const void *given = context;
  if (kind == TUTTI_HOST_MERGE || kind == TUTTI_HOST_REDUCER) {
    given = tutti_context_get_strategy(context);
    tutti_strategy_retain(tutti_context_get_strategy(context));
  }
  const uintptr_t status = tuttiGoCall(handle, kind, reinterpret_cast<uintptr_t>(given),
                                       reinterpret_cast<uintptr_t>(in), &made);
  if (made != 0) *out = reinterpret_cast<tutti_value *>(made);
  return reinterpret_cast<tutti_status *>(status);
}

tutti_host_handle tutti_host_retain(tutti_host_handle handle) { return tuttiGoRetain(handle); }

void tutti_host_release(tutti_host_handle handle) { tuttiGoRelease(handle); }

void tutti_host_notify(tutti_host_handle handle) { tuttiGoNotify(handle); }

void tutti_host_log(tutti_host_handle handle, tutti_log_level level, tutti_string_view line) {
  tuttiGoLog(handle, level, const_cast<char *>(line.data), line.size);
}

#endif  // TUTTI_BINDINGS_SWIG_GO_CALLBACKS_H_
