// Checkpoints and their managers.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_CHECKPOINT_H_
#define TUTTI_BINDINGS_SWIG_FACADE_CHECKPOINT_H_

#include <tutti/tutti.h>

#include <cstdint>

namespace tutti_facade {

inline tutti_status *checkpoint_restore(tutti_checkpoint *checkpoint, const char *prefix,
                                        const tutti_call_options *call,
                                        tutti_optional_int64 *out_number) {
  out_number->present = 1;
  return tutti_checkpoint_restore(checkpoint, prefix, call, &out_number->value);
}

// None when there is no checkpoint.
inline tutti_status *checkpoint_manager_restore_latest(tutti_checkpoint_manager *manager,
                                                       const tutti_call_options *call,
                                                       tutti_optional_int64 *out_number) {
  tutti_status *status = tutti_checkpoint_manager_restore_latest(manager, call, &out_number->value);
  out_number->present = out_number->value >= 0;
  return status;
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_CHECKPOINT_H_
