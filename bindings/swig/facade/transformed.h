// How the facade transforms a dataset: it makes a new one and leaves the one it was given as it is,
// which is what a garbage-collected language wants.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_TRANSFORMED_H_
#define TUTTI_BINDINGS_SWIG_FACADE_TRANSFORMED_H_

#include <tutti/tutti.h>

namespace tutti_facade {

// Runs `transform` on a reference of its own, so that `dataset` stays what it is.
template <class Transform>
tutti_status *Transformed(const tutti_dataset *dataset, tutti_dataset **out_dataset,
                          Transform transform) {
  tutti_dataset_retain(dataset);
  auto *result = const_cast<tutti_dataset *>(dataset);
  tutti_status *status = transform(&result);
  if (status != nullptr) {
    tutti_dataset_release(result);
    return status;
  }
  *out_dataset = result;
  return nullptr;
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_TRANSFORMED_H_
