// Functions, generators and iterators of datasets.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_DATASET_H_
#define TUTTI_BINDINGS_SWIG_FACADE_DATASET_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "callback.h"

namespace tutti_facade {

// ---- functions

inline tutti_callback StoreElementHost(tutti_host_handle element_fn, const tutti_spec *signature) {
  return StoreHost(element_fn,
                   signature == nullptr ? TUTTI_HOST_ELEMENT : TUTTI_HOST_ELEMENT_OF_SPEC);
}

inline tutti_status *function_create(tutti_runtime *runtime, tutti_host_handle element_fn,
                                     const char *name, const char *fingerprint,
                                     const tutti_spec *signature, bool slab, const char *reason,
                                     tutti_function **out_function) {
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  options.name = name;
  options.fingerprint = fingerprint;
  options.output_spec = signature;
  options.slab = slab ? TUTTI_TRUE : TUTTI_FALSE;
  options.callback_reason = reason;
  return tutti_function_create(runtime, StoreElementHost(element_fn, signature), &options,
                               out_function);
}

inline tutti_status *function_register(tutti_runtime *runtime, const char *name,
                                       tutti_host_handle element_fn, const tutti_spec *signature,
                                       bool slab) {
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  options.name = name;
  options.output_spec = signature;
  options.slab = slab ? TUTTI_TRUE : TUTTI_FALSE;
  return tutti_function_register(runtime, name, StoreElementHost(element_fn, signature),
                                 &options);
}

// ---- sources

inline tutti_status *dataset_from_generator(tutti_runtime *runtime, tutti_host_handle start_fn,
                                            const tutti_spec *signature, const char *name,
                                            const char *fingerprint, tutti_dataset **out_dataset) {
  tutti_generator_options options = TUTTI_GENERATOR_OPTIONS_INIT;
  options.name = name;
  options.fingerprint = fingerprint;
  return tutti_dataset_create_from_generator(
      runtime, StoreHost(start_fn, TUTTI_HOST_GENERATOR_START),
      StoreHost(start_fn, TUTTI_HOST_GENERATOR_NEXT), signature, &options, out_dataset);
}

inline tutti_status *dataset_sql(tutti_runtime *runtime, const char *driver_name,
                                 const char *data_source_name, const char *query,
                                 size_t dtype_count, const int64_t *dtypes, const char *name,
                                 tutti_dataset **out_dataset) {
  tutti_source_options options = TUTTI_SOURCE_OPTIONS_INIT;
  options.name = name;
  const std::vector<tutti_dtype> types(dtypes, dtypes + dtype_count);
  return tutti_dataset_create_sql(runtime, driver_name, data_source_name, query, types.size(),
                                  types.data(), &options, out_dataset);
}

// ---- iterators

inline tutti_status *iterator_create(const tutti_dataset *dataset, const tutti_call_options *call,
                                     tutti_iterator **out_iterator) {
  return tutti_iterator_create(dataset, nullptr, call, out_iterator);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_DATASET_H_
