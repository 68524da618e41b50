// What the other languages read in their typemaps, in C++, Go reads in Go: statuses, byte buffers
// and nested values, over functions of machine words. Each is one or two C calls.
#ifndef TUTTI_BINDINGS_SWIG_GO_READING_H_
#define TUTTI_BINDINGS_SWIG_GO_READING_H_

namespace tutti_go {

// ---- statuses

inline const char *code_name(int32_t code) { return tutti_code_get_name(code); }
inline int32_t status_code(const tutti_status *status) { return tutti_status_get_code(status); }
inline const char *status_message(const tutti_status *status) {
  return tutti_status_get_message(status);
}
inline int64_t status_detail_count(const tutti_status *status) {
  return static_cast<int64_t>(tutti_status_get_detail_count(status));
}

inline tutti_detail Detail(const tutti_status *status, int64_t index) {
  tutti_detail detail = TUTTI_DETAIL_INIT;
  tutti_status_release(tutti_status_get_detail(status, static_cast<size_t>(index), &detail));
  return detail;
}
inline const char *status_detail_key(const tutti_status *status, int64_t index) {
  return Detail(status, index).key;
}
inline int32_t status_detail_kind(const tutti_status *status, int64_t index) {
  return Detail(status, index).kind;
}
inline int64_t status_detail_int64(const tutti_status *status, int64_t index) {
  return Detail(status, index).int64_value;
}
inline double status_detail_double(const tutti_status *status, int64_t index) {
  return Detail(status, index).double_value;
}
// Address and size of a text that lives as long as the status.
inline uintptr_t status_detail_text(const tutti_status *status, int64_t index, int64_t *out_count) {
  const tutti_string_view text = Detail(status, index).string_value;
  *out_count = static_cast<int64_t>(text.size);
  return reinterpret_cast<uintptr_t>(text.data);
}
inline int64_t status_cause_count(const tutti_status *status) {
  return static_cast<int64_t>(tutti_status_get_cause_count(status));
}
inline const tutti_status *status_cause(const tutti_status *status, int64_t index) {
  return tutti_status_get_cause(status, static_cast<size_t>(index));
}
// The cgo.Handle of the Go error that the status carries, 0 for none.
inline uintptr_t status_go_error(const tutti_status *status) {
  return reinterpret_cast<uintptr_t>(tutti_status_get_host_object(status, &host_tag));
}
// Takes over the handle of a Go error.
inline tutti_status *status_of_go_error(int32_t code, const char *message, uintptr_t error) {
  return tutti_status_create_with_host_object(code, message == nullptr ? "" : message, &host_tag,
                                              reinterpret_cast<void *>(error), &ReleaseHostObject);
}
// Whether C would read only a part of a text; then *result says so, where it is a status.
inline bool IsRefused(const std::string &text, tutti_status **result) {
  if (text.find('\0') == std::string::npos) return false;
  std::string shown;
  for (const char c : text) shown += c == '\0' ? std::string("\\x00") : std::string(1, c);
  const std::string message = "\"" + shown + "\": a text with a NUL in it cannot be a name";
  *result = tutti_status_create(TUTTI_INVALID_ARGUMENT, message.c_str());
  return true;
}
template <typename Other>
bool IsRefused(const std::string &, Other *) {
  return false;
}
inline void status_add_int64(tutti_status *status, const char *detail_key, int64_t number) {
  tutti_status_release(tutti_status_add_int64(status, detail_key, number));
}
inline void status_add_text(tutti_status *status, const char *detail_key,
                            const char *detail_text) {
  tutti_status_release(
      tutti_status_add_string(status, detail_key, detail_text == nullptr ? "" : detail_text));
}

// ---- byte buffers and waiting

inline uintptr_t bytes_address(const tutti_bytes *bytes, int64_t *out_count) {
  const tutti_string_view view = tutti_bytes_get_view(bytes);
  *out_count = static_cast<int64_t>(view.size);
  return reinterpret_cast<uintptr_t>(view.data);
}
inline tutti_status *cancellation_create(tutti_cancellation **out_cancellation) {
  return tutti_cancellation_create(out_cancellation);
}
inline void cancellation_cancel(tutti_cancellation *cancellation, const char *message) {
  tutti_cancellation_cancel(cancellation, message);
}
inline uintptr_t context_runtime(const tutti_context *context) {
  return reinterpret_cast<uintptr_t>(tutti_context_get_runtime(context));
}

// Field 0 replica, 1 task, 2 device index; -1 where it is not given.
inline int64_t device_spec_number(const tutti_device_spec *spec, int32_t field) {
  tutti_device_fields fields = TUTTI_DEVICE_FIELDS_INIT;
  tutti_status_release(tutti_device_spec_get_fields(spec, &fields));
  const tutti_optional_int64 number = field == 0   ? fields.replica
                                      : field == 1 ? fields.task
                                                   : fields.device_index;
  return number.present ? number.value : -1;
}

// ---- values

inline int32_t value_kind(const tutti_value *value) { return tutti_value_get_kind(value); }
inline int32_t value_leaf_kind(const tutti_value *value) {
  return tutti_value_get_leaf_kind(value, 0);
}
inline int64_t value_child_count(const tutti_value *value) {
  return static_cast<int64_t>(tutti_value_get_child_count(value));
}
inline tutti_status *value_child(const tutti_value *value, int64_t index, tutti_value **out_value) {
  return tutti_value_child(value, static_cast<size_t>(index), out_value);
}
inline tutti_status *value_find(const tutti_value *value, const char *path,
                                tutti_value **out_value) {
  return tutti_value_find(value, path == nullptr ? "" : path, out_value);
}
inline const char *value_key(const tutti_value *value, int64_t index) {
  return tutti_treespec_get_key(tutti_value_get_treespec(value), static_cast<size_t>(index));
}
inline const char *value_type_name(const tutti_value *value) {
  return tutti_treespec_get_type_name(tutti_value_get_treespec(value));
}
// Leaves are borrowed; null when the leaf is of another kind.
inline const tutti_tensor *value_tensor(const tutti_value *value) {
  return tutti_value_get_leaf_tensor(value, 0);
}
inline uintptr_t value_text(const tutti_value *value, int64_t *out_count) {
  const tutti_string_view text = tutti_value_get_leaf_string(value, 0);
  *out_count = static_cast<int64_t>(text.size);
  return reinterpret_cast<uintptr_t>(text.data);
}
inline tutti_variable *value_variable(const tutti_value *value) {
  return tutti_value_get_leaf_variable(value, 0);
}
inline tutti_dataset *value_dataset(const tutti_value *value) {
  return tutti_value_get_leaf_dataset(value, 0);
}
inline const tutti_value *value_optional(const tutti_value *value) {
  return tutti_value_get_leaf_optional(value, 0);
}
inline uintptr_t value_go_object(const tutti_value *value) {
  return reinterpret_cast<uintptr_t>(tutti_value_get_leaf_host_object(value, 0, &host_tag));
}
inline int64_t value_component_count(const tutti_value *value) {
  return static_cast<int64_t>(tutti_value_get_leaf_component_count(value, 0));
}
inline int32_t value_distribution(const tutti_value *value) {
  return tutti_value_get_leaf_distribution(value, 0);
}
inline const tutti_value *value_component(const tutti_value *value, int64_t index) {
  return tutti_value_get_leaf_component(value, 0, static_cast<size_t>(index));
}

// Leaves of the whole structure, each as a value of its own; and back.
inline int64_t value_leaf_count(const tutti_value *value) {
  return static_cast<int64_t>(tutti_value_get_leaf_count(value));
}
inline tutti_status *value_leaf(const tutti_value *value, int64_t leaf, tutti_value **out_value) {
  return tutti_value_leaf(value, static_cast<size_t>(leaf), out_value);
}
inline tutti_status *value_with_leaves(const tutti_value *value, size_t count,
                                       const tutti_value *const *values, tutti_value **out_value) {
  return tutti_value_create_from_leaves(tutti_value_get_treespec(value), count, values, out_value);
}
inline bool value_same_structure(const tutti_value *left, const tutti_value *right) {
  return tutti_treespec_equal(tutti_value_get_treespec(left), tutti_value_get_treespec(right)) != 0;
}

inline tutti_status *value_of_tensor(const tutti_tensor *tensor, tutti_value **out_value) {
  return tutti_value_create_tensor(tensor, out_value);
}
inline tutti_status *value_of_sparse(const tutti_tensor *tensor, const tutti_tensor *input,
                                     const tutti_tensor *other, tutti_value **out_value) {
  return tutti_value_create_sparse(tensor, input, other, out_value);
}
inline tutti_status *value_of_indexed_slices(const tutti_tensor *tensor, const tutti_tensor *input,
                                             const tutti_tensor *root_tensor,
                                             tutti_value **out_value) {
  return tutti_value_create_indexed_slices(tensor, input, root_tensor, out_value);
}
inline tutti_status *value_of_ragged(const tutti_value *value, const tutti_tensor *tensor,
                                     tutti_value **out_value) {
  return tutti_value_create_ragged(value, tensor, out_value);
}
inline tutti_status *value_of_float64(double number, tutti_value **out_value) {
  return tutti_value_create_float64(number, out_value);
}
inline tutti_status *value_of_int64(int64_t number, tutti_value **out_value) {
  return tutti_value_create_int64(number, out_value);
}
inline tutti_status *value_of_text(const void *bytes, size_t size, tutti_value **out_value) {
  return tutti_value_create_string({static_cast<const char *>(bytes), size}, out_value);
}
inline tutti_status *value_of_none(tutti_value **out_value) {
  return tutti_value_create_none(out_value);
}
inline tutti_status *value_of_optional(const tutti_value *value, tutti_value **out_value) {
  return tutti_value_create_optional(value, out_value);
}
inline tutti_status *value_of_empty_optional(const tutti_spec *spec, tutti_value **out_value) {
  return tutti_value_create_empty_optional(spec, out_value);
}
// Takes over the handle.
inline tutti_status *value_of_go_object(uintptr_t object, tutti_value **out_value) {
  return tutti_value_create_host_object(&host_tag, reinterpret_cast<void *>(object),
                                        &ReleaseHostObject, out_value);
}
inline tutti_status *value_of_variable(const tutti_variable *variable, tutti_value **out_value) {
  return tutti_value_create_variable(variable, out_value);
}
inline tutti_status *value_of_dataset(const tutti_dataset *dataset, tutti_value **out_value) {
  return tutti_value_create_dataset(dataset, out_value);
}
inline tutti_status *value_of_sequence(bool list, size_t count, const tutti_value *const *values,
                                       tutti_value **out_value) {
  return list ? tutti_value_create_list(count, values, out_value)
              : tutti_value_create_tuple(count, values, out_value);
}
inline tutti_status *value_of_dict(size_t value_count, const char *const *texts, size_t count,
                                   const tutti_value *const *values, tutti_value **out_value) {
  if (value_count != count) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT, "a dict: as many values as keys, please");
  }
  return tutti_value_create_dict(count, texts, values, out_value);
}
inline tutti_status *value_of_named_tuple(const char *type_name, size_t value_count,
                                          const char *const *texts, size_t count,
                                          const tutti_value *const *values,
                                          tutti_value **out_value) {
  if (value_count != count) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT,
                               "a named tuple: as many values as fields, please");
  }
  return tutti_value_create_named_tuple(type_name, count, texts, values, out_value);
}

// ---- features of tf.train.Example

struct Feature {
  tutti_feature feature = TUTTI_FEATURE_INIT;
  std::string key;
  std::vector<int64_t> dims;
};
inline uintptr_t feature_create(const char *key, int32_t dtype, size_t rank, const int64_t *dims,
                                const tutti_tensor *tensor, int32_t kind) {
  auto *made = new Feature;
  made->key = key == nullptr ? "" : key;
  made->dims.assign(dims, dims + rank);
  made->feature.key = made->key.c_str();
  made->feature.dtype = dtype;
  made->feature.rank = rank;
  made->feature.dims = made->dims.data();
  made->feature.default_value = tensor;
  made->feature.kind = kind;
  return reinterpret_cast<uintptr_t>(made);
}
inline void feature_release(uintptr_t feature) { delete reinterpret_cast<Feature *>(feature); }

}  // namespace tutti_go

#endif  // TUTTI_BINDINGS_SWIG_GO_READING_H_
