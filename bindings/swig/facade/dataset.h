// Datasets, their iterators and record files. A transformation makes a new dataset and leaves the
// one it was given as it is, which is what a garbage-collected language wants.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_DATASET_H_
#define TUTTI_BINDINGS_SWIG_FACADE_DATASET_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

#include "callback.h"

namespace tutti_facade {

// ---- functions

inline tutti_status *function_create(tutti_runtime *runtime, tutti_host_handle element_fn,
                                     const char *name, const tutti_spec *signature, bool slab,
                                     tutti_function **out_function) {
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  options.name = name;
  options.output_spec = signature;
  options.slab = slab ? TUTTI_TRUE : TUTTI_FALSE;
  return tutti_function_create(runtime, StoreHost(element_fn, TUTTI_HOST_ELEMENT), &options,
                               out_function);
}

inline tutti_status *function_register(tutti_runtime *runtime, const char *name,
                                       tutti_host_handle element_fn, const tutti_spec *signature,
                                       bool slab) {
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  options.name = name;
  options.output_spec = signature;
  options.slab = slab ? TUTTI_TRUE : TUTTI_FALSE;
  return tutti_function_register(runtime, name, StoreHost(element_fn, TUTTI_HOST_ELEMENT),
                                 &options);
}

inline tutti_status *function_unregister(tutti_runtime *runtime, const char *name) {
  return tutti_function_unregister(runtime, name);
}

inline tutti_status *function_registered(tutti_runtime *runtime, const char *name,
                                         tutti_function **out_function) {
  return tutti_function_create_registered(runtime, name, out_function);
}

inline tutti_status *function_parse_example(tutti_runtime *runtime, size_t count,
                                            const tutti_feature *const *features,
                                            tutti_function **out_function) {
  return tutti_function_create_parse_example(runtime, count, features, out_function);
}

// ---- sources

inline tutti_status *dataset_range(tutti_runtime *runtime, int64_t start, int64_t stop,
                                   int64_t step, int32_t dtype, const char *name,
                                   tutti_dataset **out_dataset) {
  tutti_range_options options = TUTTI_RANGE_OPTIONS_INIT;
  options.name = name;
  options.dtype = dtype;
  return tutti_dataset_create_range(runtime, start, stop, step, &options, out_dataset);
}

inline tutti_source_options SourceOptions(const char *name) {
  tutti_source_options options = TUTTI_SOURCE_OPTIONS_INIT;
  options.name = name;
  return options;
}

inline tutti_status *dataset_from_tensors(tutti_runtime *runtime, const tutti_value *data,
                                          const char *name, tutti_dataset **out_dataset) {
  const tutti_source_options options = SourceOptions(name);
  return tutti_dataset_create_from_tensors(runtime, data, &options, out_dataset);
}

inline tutti_status *dataset_from_tensor_slices(tutti_runtime *runtime, const tutti_value *data,
                                                const char *name, tutti_dataset **out_dataset) {
  const tutti_source_options options = SourceOptions(name);
  return tutti_dataset_create_from_tensor_slices(runtime, data, &options, out_dataset);
}

inline tutti_status *dataset_from_generator(tutti_runtime *runtime, tutti_host_handle start_fn,
                                            const tutti_spec *signature, const char *name,
                                            tutti_dataset **out_dataset) {
  const tutti_source_options options = SourceOptions(name);
  return tutti_dataset_create_from_generator(
      runtime, StoreHost(start_fn, TUTTI_HOST_GENERATOR_START),
      StoreHost(start_fn, TUTTI_HOST_GENERATOR_NEXT), signature, &options, out_dataset);
}

inline tutti_status *dataset_list_files(tutti_runtime *runtime, size_t count,
                                        const char *const *texts, tutti_tristate shuffle,
                                        tutti_optional_int64 seed, const char *name,
                                        tutti_dataset **out_dataset) {
  tutti_list_files_options options = TUTTI_LIST_FILES_OPTIONS_INIT;
  options.name = name;
  options.shuffle = shuffle;
  options.seed = seed;
  return tutti_dataset_create_list_files(runtime, count, texts, &options, out_dataset);
}

inline tutti_status *dataset_tf_record(tutti_runtime *runtime, const tutti_dataset *files,
                                       int32_t compression, int64_t buffer_size, const char *name,
                                       tutti_dataset **out_dataset) {
  tutti_tf_record_options options = TUTTI_TF_RECORD_OPTIONS_INIT;
  options.name = name;
  options.compression = compression;
  options.buffer_size = buffer_size;
  return tutti_dataset_create_tf_record(runtime, files, &options, out_dataset);
}

inline tutti_status *dataset_fixed_length_record(tutti_runtime *runtime,
                                                 const tutti_dataset *files, int64_t record_bytes,
                                                 int64_t header_bytes, int64_t footer_bytes,
                                                 int32_t compression, int64_t buffer_size,
                                                 const char *name, tutti_dataset **out_dataset) {
  tutti_fixed_length_record_options options = TUTTI_FIXED_LENGTH_RECORD_OPTIONS_INIT;
  options.name = name;
  options.compression = compression;
  options.header_bytes = header_bytes;
  options.footer_bytes = footer_bytes;
  options.buffer_size = buffer_size;
  return tutti_dataset_create_fixed_length_record(runtime, files, record_bytes, &options,
                                                  out_dataset);
}

inline tutti_status *dataset_zip(tutti_runtime *runtime, const tutti_value *data, const char *name,
                                 tutti_dataset **out_dataset) {
  const tutti_source_options options = SourceOptions(name);
  return tutti_dataset_create_zip(runtime, data, &options, out_dataset);
}

// ---- transformations

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

inline tutti_transform_options TransformOptions(const char *name) {
  tutti_transform_options options = TUTTI_TRANSFORM_OPTIONS_INIT;
  options.name = name;
  return options;
}

inline tutti_status *dataset_map(const tutti_dataset *dataset, tutti_function *function,
                                 int64_t num_parallel_calls, tutti_tristate deterministic,
                                 const char *name, tutti_dataset **out_dataset) {
  tutti_map_options options = TUTTI_MAP_OPTIONS_INIT;
  options.name = name;
  options.num_parallel_calls = num_parallel_calls;
  options.deterministic = deterministic;
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_map(result, function, &options);
  });
}

inline tutti_status *dataset_filter(const tutti_dataset *dataset, tutti_function *function,
                                    const char *name, tutti_dataset **out_dataset) {
  const tutti_transform_options options = TransformOptions(name);
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_filter(result, function, &options);
  });
}

inline tutti_status *dataset_batch(const tutti_dataset *dataset, int64_t batch_size,
                                   tutti_tristate drop_remainder, const char *name,
                                   tutti_dataset **out_dataset) {
  tutti_batch_options options = TUTTI_BATCH_OPTIONS_INIT;
  options.name = name;
  options.drop_remainder = drop_remainder;
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_batch(result, batch_size, &options);
  });
}

inline tutti_status *dataset_repeat(const tutti_dataset *dataset, int64_t count, const char *name,
                                    tutti_dataset **out_dataset) {
  const tutti_transform_options options = TransformOptions(name);
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_repeat(result, count, &options);
  });
}

inline tutti_status *dataset_shuffle(const tutti_dataset *dataset, int64_t buffer_size,
                                     tutti_optional_int64 seed,
                                     tutti_tristate reshuffle_each_iteration, const char *name,
                                     tutti_dataset **out_dataset) {
  tutti_shuffle_options options = TUTTI_SHUFFLE_OPTIONS_INIT;
  options.name = name;
  options.reshuffle_each_iteration = reshuffle_each_iteration;
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_shuffle(result, buffer_size, seed.present ? &seed.value : nullptr,
                                 &options);
  });
}

inline tutti_status *dataset_take(const tutti_dataset *dataset, int64_t count, const char *name,
                                  tutti_dataset **out_dataset) {
  const tutti_transform_options options = TransformOptions(name);
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_take(result, count, &options);
  });
}

inline tutti_status *dataset_skip(const tutti_dataset *dataset, int64_t count, const char *name,
                                  tutti_dataset **out_dataset) {
  const tutti_transform_options options = TransformOptions(name);
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_skip(result, count, &options);
  });
}

inline tutti_status *dataset_shard(const tutti_dataset *dataset, int64_t num_shards, int64_t index,
                                   const char *name, tutti_dataset **out_dataset) {
  const tutti_transform_options options = TransformOptions(name);
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_shard(result, num_shards, index, &options);
  });
}

inline tutti_status *dataset_concatenate(const tutti_dataset *dataset, const tutti_dataset *other,
                                         const char *name, tutti_dataset **out_dataset) {
  const tutti_transform_options options = TransformOptions(name);
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_concatenate(result, other, &options);
  });
}

inline tutti_status *dataset_enumerate(const tutti_dataset *dataset, int64_t start,
                                       const char *name, tutti_dataset **out_dataset) {
  const tutti_transform_options options = TransformOptions(name);
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_enumerate(result, start, &options);
  });
}

inline tutti_status *dataset_prefetch(const tutti_dataset *dataset, int64_t buffer_size,
                                      const char *name, tutti_dataset **out_dataset) {
  const tutti_transform_options options = TransformOptions(name);
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_prefetch(result, buffer_size, &options);
  });
}

inline tutti_status *dataset_with_options(const tutti_dataset *dataset,
                                          const tutti_data_options *options,
                                          tutti_dataset **out_dataset) {
  return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {
    return tutti_dataset_with_options(result, options);
  });
}

// ---- reading a definition

inline int64_t dataset_cardinality(const tutti_dataset *dataset) {
  return tutti_dataset_get_cardinality(dataset);
}
inline tutti_status *dataset_element_spec(const tutti_dataset *dataset,
                                          const tutti_call_options *call, tutti_spec **out_spec) {
  return tutti_dataset_element_spec(dataset, call, out_spec);
}
inline tutti_status *dataset_options(const tutti_dataset *dataset,
                                     tutti_data_options **out_options) {
  return tutti_dataset_options(dataset, out_options);
}
inline tutti_status *dataset_explain(const tutti_dataset *dataset, tutti_bytes **out_text) {
  return tutti_dataset_explain(dataset, out_text);
}
inline tutti_status *dataset_serialize(const tutti_dataset *dataset, tutti_bytes **out_bytes) {
  return tutti_dataset_serialize(dataset, out_bytes);
}
inline tutti_status *dataset_deserialize(tutti_runtime *runtime, const void *bytes, size_t size,
                                         tutti_dataset **out_dataset) {
  return tutti_dataset_deserialize(runtime, bytes, size, out_dataset);
}

inline tutti_status *data_options_create(tutti_data_options **out_options) {
  return tutti_data_options_create(out_options);
}
inline tutti_status *data_options_set_int64(tutti_data_options *options, const char *key,
                                            int64_t number) {
  return tutti_data_options_set_int64(options, key, number);
}
inline tutti_status *data_options_set_bool(tutti_data_options *options, const char *key,
                                           bool flag) {
  return tutti_data_options_set_bool(options, key, flag);
}
inline tutti_status *data_options_read(const tutti_data_options *options, const char *key,
                                       tutti_optional_int64 *out_number) {
  return tutti_data_options_read(options, key, out_number);
}
inline tutti_status *data_options_merge(const tutti_data_options *options,
                                        const tutti_data_options *other,
                                        tutti_data_options **out_options) {
  return tutti_data_options_merge(options, other, out_options);
}

// ---- iterators

inline tutti_status *iterator_create(const tutti_dataset *dataset, const tutti_call_options *call,
                                     tutti_iterator **out_iterator) {
  return tutti_iterator_create(dataset, nullptr, call, out_iterator);
}
inline tutti_status *iterator_next(tutti_iterator *iterator, const tutti_call_options *call,
                                   tutti_value **out_element) {
  return tutti_iterator_next(iterator, call, out_element);
}
inline tutti_status *iterator_next_optional(tutti_iterator *iterator,
                                            const tutti_call_options *call,
                                            tutti_value **out_value) {
  return tutti_iterator_next_optional(iterator, call, out_value);
}
inline tutti_status *iterator_element_spec(const tutti_iterator *iterator, tutti_spec **out_spec) {
  const tutti_spec *spec = tutti_iterator_get_element_spec(iterator);
  tutti_spec_retain(spec);
  *out_spec = const_cast<tutti_spec *>(spec);
  return nullptr;
}
inline tutti_status *iterator_save(tutti_iterator *iterator, const tutti_call_options *call,
                                   tutti_bytes **out_bytes) {
  return tutti_iterator_save(iterator, call, out_bytes);
}
inline tutti_status *iterator_restore(tutti_iterator *iterator, const void *bytes, size_t size,
                                      const tutti_call_options *call) {
  return tutti_iterator_restore(iterator, bytes, size, call);
}
inline tutti_status *iterator_close(tutti_iterator *iterator, const tutti_call_options *call) {
  return tutti_iterator_close(iterator, call);
}

// ---- record files

inline tutti_status *record_writer_create(tutti_runtime *runtime, const char *path,
                                          int32_t compression,
                                          tutti_optional_int64 compression_level,
                                          tutti_tf_record_writer **out_writer) {
  tutti_tf_record_writer_options options = TUTTI_TF_RECORD_WRITER_OPTIONS_INIT;
  options.compression = compression;
  options.compression_level = compression_level;
  return tutti_tf_record_writer_create(runtime, path, &options, out_writer);
}
inline tutti_status *record_writer_write(tutti_tf_record_writer *writer, const void *bytes,
                                         size_t size) {
  return tutti_tf_record_writer_write(writer, bytes, size);
}
inline tutti_status *record_writer_write_dataset(tutti_tf_record_writer *writer,
                                                 const tutti_dataset *dataset,
                                                 const tutti_call_options *call) {
  return tutti_tf_record_writer_write_dataset(writer, dataset, call);
}
inline tutti_status *record_writer_close(tutti_tf_record_writer *writer) {
  return tutti_tf_record_writer_close(writer);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_DATASET_H_
