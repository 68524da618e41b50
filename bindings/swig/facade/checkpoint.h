// Checkpoints and their managers.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_CHECKPOINT_H_
#define TUTTI_BINDINGS_SWIG_FACADE_CHECKPOINT_H_

#include <tutti/tutti.h>

#include <cstdint>

namespace tutti_facade {

inline tutti_status *checkpoint_create(tutti_strategy *strategy,
                                       tutti_checkpoint **out_checkpoint) {
  return tutti_checkpoint_create(strategy, out_checkpoint);
}
inline tutti_status *checkpoint_add_variable(tutti_checkpoint *checkpoint, const char *name,
                                             tutti_variable *variable) {
  return tutti_checkpoint_add_variable(checkpoint, name, variable);
}
inline tutti_status *checkpoint_add_distributed_iterator(tutti_checkpoint *checkpoint,
                                                         const char *name,
                                                         tutti_distributed_iterator *iterator) {
  return tutti_checkpoint_add_distributed_iterator(checkpoint, name, iterator);
}
inline tutti_status *checkpoint_add_iterator(tutti_checkpoint *checkpoint, const char *name,
                                             tutti_iterator *iterator) {
  return tutti_checkpoint_add_iterator(checkpoint, name, iterator);
}
inline tutti_status *checkpoint_add_tensor(tutti_checkpoint *checkpoint, const char *name,
                                           tutti_tensor *mutable_tensor) {
  return tutti_checkpoint_add_tensor(checkpoint, name, mutable_tensor);
}

inline tutti_status *checkpoint_save(tutti_checkpoint *checkpoint, const char *prefix, int64_t step,
                                     const tutti_call_options *call) {
  return tutti_checkpoint_save(checkpoint, prefix, step, call);
}
inline tutti_status *checkpoint_restore(tutti_checkpoint *checkpoint, const char *prefix,
                                        const tutti_call_options *call,
                                        tutti_optional_int64 *out_number) {
  out_number->present = 1;
  return tutti_checkpoint_restore(checkpoint, prefix, call, &out_number->value);
}
inline tutti_status *checkpoint_write(tutti_checkpoint *checkpoint, const char *path,
                                      const tutti_call_options *call) {
  return tutti_checkpoint_write(checkpoint, path, call);
}
inline tutti_status *checkpoint_read(tutti_checkpoint *checkpoint, const char *path,
                                     const tutti_call_options *call) {
  return tutti_checkpoint_read(checkpoint, path, call);
}

inline tutti_status *checkpoint_manager_create(tutti_checkpoint *checkpoint, const char *directory,
                                               int64_t max_to_keep, const char *name,
                                               tutti_checkpoint_manager **out_manager) {
  tutti_checkpoint_manager_options options = TUTTI_CHECKPOINT_MANAGER_OPTIONS_INIT;
  options.max_to_keep = max_to_keep;
  options.name = name;
  return tutti_checkpoint_manager_create(checkpoint, directory, &options, out_manager);
}
inline tutti_status *checkpoint_manager_save(tutti_checkpoint_manager *manager, int64_t step,
                                             const tutti_call_options *call,
                                             tutti_bytes **out_text) {
  return tutti_checkpoint_manager_save(manager, step, call, out_text);
}
// None when there is no checkpoint.
inline tutti_status *checkpoint_manager_restore_latest(tutti_checkpoint_manager *manager,
                                                       const tutti_call_options *call,
                                                       tutti_optional_int64 *out_number) {
  tutti_status *status = tutti_checkpoint_manager_restore_latest(manager, call, &out_number->value);
  out_number->present = out_number->value >= 0;
  return status;
}
// Empty when there is no checkpoint.
inline tutti_status *checkpoint_manager_latest(const tutti_checkpoint_manager *manager,
                                               tutti_bytes **out_text) {
  return tutti_checkpoint_manager_latest(manager, out_text);
}
inline tutti_status *checkpoint_manager_list(const tutti_checkpoint_manager *manager,
                                             tutti_value **out_value) {
  return tutti_checkpoint_manager_list(manager, out_value);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_CHECKPOINT_H_
