// What the Java package builds values, specs and exceptions from. The facade does not offer it,
// because Python walks its structures in C++; in Java the walk is written in Java.
#ifndef TUTTI_BINDINGS_SWIG_JAVA_ACCESS_H_
#define TUTTI_BINDINGS_SWIG_JAVA_ACCESS_H_

#include "../facade/dlpack_layout.h"
#include "callbacks.h"
#include "machine.h"

namespace tutti_java {

// ---- handles

// The address of what was in it; 0 when it had been closed before.
inline int64_t box_close(int64_t box) { return CloseBox(box); }
// 0 when it is closed.
inline int64_t box_address(int64_t box) { return BoxAddress(box); }

// Of two open boxes with objects of one kind.
inline void box_exchange(int64_t box, int64_t other) { ExchangeBoxes(box, other); }

inline int64_t off_heap_bytes() { return off_heap.bytes.load(std::memory_order_relaxed); }

// The runtime that the thread's calls belong to; null goes back. Returns what it was.
inline int64_t ambient_runtime_set(int64_t address) {
  const auto before = reinterpret_cast<intptr_t>(ambient.scope_runtime);
  ambient.scope_runtime = reinterpret_cast<tutti_runtime *>(static_cast<intptr_t>(address));
  return before;
}

// A second object for the same dataset.
inline tutti_status *dataset_again(const tutti_dataset *dataset, tutti_dataset **out_dataset) {
  tutti_dataset_retain(dataset);
  *out_dataset = const_cast<tutti_dataset *>(dataset);
  return nullptr;
}

// ---- statuses, by address

inline const tutti_status *StatusAt(int64_t status) {
  return reinterpret_cast<const tutti_status *>(static_cast<intptr_t>(status));
}
inline int32_t status_code(int64_t status) { return tutti_status_get_code(StatusAt(status)); }
inline const char *status_message(int64_t status) {
  return tutti_status_get_message(StatusAt(status));
}
inline int64_t status_detail_count(int64_t status) {
  return static_cast<int64_t>(tutti_status_get_detail_count(StatusAt(status)));
}
inline tutti_detail DetailAt(int64_t status, int64_t index) {
  tutti_detail detail = TUTTI_DETAIL_INIT;
  tutti_status_release(
      tutti_status_get_detail(StatusAt(status), static_cast<size_t>(index), &detail));
  return detail;
}
inline const char *status_detail_key(int64_t status, int64_t index) {
  return DetailAt(status, index).key;
}
inline int32_t status_detail_kind(int64_t status, int64_t index) {
  return DetailAt(status, index).kind;
}
inline int64_t status_detail_int64(int64_t status, int64_t index) {
  return DetailAt(status, index).int64_value;
}
inline double status_detail_double(int64_t status, int64_t index) {
  return DetailAt(status, index).double_value;
}
inline tutti_string_view status_detail_string(int64_t status, int64_t index) {
  return DetailAt(status, index).string_value;
}
inline int64_t status_cause_count(int64_t status) {
  return static_cast<int64_t>(tutti_status_get_cause_count(StatusAt(status)));
}
inline int64_t status_cause(int64_t status, int64_t index) {
  return reinterpret_cast<intptr_t>(
      tutti_status_get_cause(StatusAt(status), static_cast<size_t>(index)));
}
inline jobject status_host_object(JNIEnv *env, int64_t status) {
  auto *object = static_cast<jobject>(tutti_status_get_host_object(StatusAt(status), &host_tag));
  return object == nullptr ? nullptr : env->NewLocalRef(object);
}
inline int64_t status_create(JNIEnv *env, int32_t code, const char *message, jobject exception) {
  return reinterpret_cast<intptr_t>(tutti_status_create_with_host_object(
      code, message, &host_tag, env->NewGlobalRef(exception), &DeleteGlobal));
}
inline void status_add_int64(int64_t status, const char *key, int64_t value) {
  tutti_status_release(
      tutti_status_add_int64(const_cast<tutti_status *>(StatusAt(status)), key, value));
}
inline void status_add_string(int64_t status, const char *key, const char *value) {
  tutti_status_release(
      tutti_status_add_string(const_cast<tutti_status *>(StatusAt(status)), key, value));
}

// ---- byte buffers, by address

inline jbyteArray bytes_take(JNIEnv *env, int64_t bytes) {
  auto *held = reinterpret_cast<tutti_bytes *>(static_cast<intptr_t>(bytes));
  if (held == nullptr) return nullptr;
  const tutti_string_view view = tutti_bytes_get_view(held);
  jbyteArray array = ArrayOf(env, view.data, view.size);
  tutti_bytes_release(held);
  return array;
}

// ---- devices

// A number that a device spec names: 0 the replica, 1 the task, 2 the device's index; -1: none.
inline int64_t device_spec_number(const tutti_device_spec *spec, int32_t part) {
  tutti_device_fields fields = TUTTI_DEVICE_FIELDS_INIT;
  tutti_status_release(tutti_device_spec_get_fields(spec, &fields));
  const tutti_optional_int64 number = part == 0   ? fields.replica
                                      : part == 1 ? fields.task
                                                  : fields.device_index;
  return number.present ? number.value : -1;
}

// ---- tensors

inline void *AddressOf(JNIEnv *env, jobject buffer) { return env->GetDirectBufferAddress(buffer); }

// Over the memory of a direct buffer, from `offset` on, which it keeps alive.
inline tutti_status *tensor_wrap(JNIEnv *env, tutti_runtime *runtime, jobject buffer,
                                 int64_t offset, int64_t byte_size, int32_t dtype, size_t rank,
                                 const int64_t *dims, bool read_only, tutti_tensor **out_tensor) {
  auto *base = static_cast<char *>(AddressOf(env, buffer));
  if (base == nullptr) {
    return tutti_status_create(
        TUTTI_INVALID_ARGUMENT,
        "a direct buffer is needed here, this one lies on Java's heap: allocate it with "
        "ByteBuffer.allocateDirect, or give the array, which is copied");
  }
  tutti_tensor_wrap_options options = TUTTI_TENSOR_WRAP_OPTIONS_INIT;
  options.read_only = read_only ? TUTTI_TRUE : TUTTI_FALSE;
  const tutti_release_hook hook = {&DeleteGlobal, env->NewGlobalRef(buffer)};
  return tutti_tensor_wrap(runtime, base + offset, static_cast<size_t>(byte_size), dtype, rank,
                           dims, hook, &options, out_tensor);
}

// A copy of a primitive array, whose elements are of the size of the dtype's.
inline tutti_status *tensor_from_array(JNIEnv *env, tutti_runtime *runtime, jobject array,
                                       int64_t byte_size, int32_t dtype, size_t rank,
                                       const int64_t *dims, tutti_tensor **out_tensor) {
  tutti_tensor_options options = TUTTI_TENSOR_OPTIONS_INIT;
  options.zeroed = TUTTI_FALSE;
  tutti_tensor *made = nullptr;
  tutti_status *status = tutti_tensor_create(runtime, dtype, rank, dims, &options, &made);
  if (status != nullptr) return status;
  if (static_cast<size_t>(byte_size) != tutti_tensor_get_byte_size(made)) {
    tutti_tensor_release(made);
    return tutti_status_create(TUTTI_INVALID_ARGUMENT,
                               "the array has not as many elements as the shape says");
  }
  void *to = nullptr;
  status = tutti_tensor_get_mutable_data(made, &to);
  if (status == nullptr && byte_size > 0) {
    void *from = env->GetPrimitiveArrayCritical(static_cast<jarray>(array), nullptr);
    if (from == nullptr) {
      status = tutti_status_create(TUTTI_RESOURCE_EXHAUSTED, "Java cannot lend this array");
    } else {
      __builtin_memcpy(to, from, static_cast<size_t>(byte_size));
      env->ReleasePrimitiveArrayCritical(static_cast<jarray>(array), from, JNI_ABORT);
    }
  }
  if (status != nullptr) {
    tutti_tensor_release(made);
    return status;
  }
  *out_tensor = made;
  return nullptr;
}

// The elements in row-major order, into an array of `byte_size` bytes.
inline tutti_status *tensor_to_array(JNIEnv *env, const tutti_tensor *tensor, jobject array,
                                     int64_t byte_size) {
  tutti_tensor *dense = nullptr;
  if (tutti_tensor_get_cuda_device(tensor) >= 0) {
    tutti_status *status = tutti_tensor_copy_to(CurrentRuntime(), tensor, "CPU:0", nullptr, nullptr,
                                                &dense);
    if (status != nullptr) return status;
  } else if (tutti_tensor_is_contiguous(tensor) == 0) {
    if (tutti_status *status = tutti_tensor_copy(tensor, &dense)) return status;
  }
  const tutti_tensor *source = dense != nullptr ? dense : tensor;
  if (static_cast<size_t>(byte_size) > tutti_tensor_get_byte_size(source)) {
    byte_size = static_cast<int64_t>(tutti_tensor_get_byte_size(source));
  }
  if (byte_size > 0) {
    void *to = env->GetPrimitiveArrayCritical(static_cast<jarray>(array), nullptr);
    if (to != nullptr) {
      __builtin_memcpy(to, tutti_tensor_get_data(source), static_cast<size_t>(byte_size));
      env->ReleasePrimitiveArrayCritical(static_cast<jarray>(array), to, 0);
    }
  }
  tutti_tensor_release(dense);
  return nullptr;
}

// A direct buffer over the memory, null where there cannot be one. `facts` becomes, in one
// crossing, what the caller has to know: dtype, whether contiguous, size in bytes, whether
// read-only, and the address of the tensor with a reference for the buffer, if there is one: see
// tensor_release.
inline jobject tensor_buffer(JNIEnv *env, const tutti_tensor *tensor, jlongArray facts) {
  static char nothing = 0;
  const size_t size = tutti_tensor_get_byte_size(tensor);
  jlong all[] = {tutti_tensor_get_dtype(tensor), tutti_tensor_is_contiguous(tensor),
                 static_cast<jlong>(size), tutti_tensor_is_read_only(tensor), 0};
  jobject buffer = nullptr;
  if (all[0] != TUTTI_DTYPE_BYTES && all[1] != 0 && size <= INT32_MAX &&
      tutti_tensor_get_cuda_device(tensor) < 0) {
    void *data = const_cast<void *>(tutti_tensor_get_data(tensor));
    buffer = env->NewDirectByteBuffer(size == 0 || data == nullptr ? &nothing : data,
                                      static_cast<jlong>(size));
    if (buffer == nullptr) return nullptr;  // memory is short
    tutti_tensor_retain(tensor);
    all[4] = reinterpret_cast<intptr_t>(tensor);
  }
  env->SetLongArrayRegion(facts, 0, 5, all);
  return buffer;
}
inline void tensor_release(int64_t address) {
  tutti_tensor_release(reinterpret_cast<const tutti_tensor *>(static_cast<intptr_t>(address)));
}

inline tutti_status *tensor_from_strings(JNIEnv *env, tutti_runtime *runtime, size_t rank,
                                         const int64_t *dims, jobjectArray strings,
                                         tutti_tensor **out_tensor) {
  std::vector<std::string> bytes;
  const jsize count = env->GetArrayLength(strings);
  for (jsize i = 0; i < count; ++i) {
    auto *item = static_cast<jbyteArray>(env->GetObjectArrayElement(strings, i));
    if (item == nullptr) {
      return tutti_status_create(TUTTI_INVALID_ARGUMENT, "a byte string is null");
    }
    bytes.push_back(BytesOf(env, item));
    env->DeleteLocalRef(item);
  }
  std::vector<tutti_string_view> views;
  for (const std::string &text : bytes) views.push_back({text.data(), text.size()});
  return tutti_tensor_create_from_strings(runtime, rank, dims, views.size(), views.data(),
                                          out_tensor);
}
// Element `index` in row-major order of a contiguous tensor of byte strings.
inline tutti_string_view tensor_string(const tutti_tensor *tensor, int64_t index) {
  return static_cast<const tutti_string_view *>(tutti_tensor_get_data(tensor))[index];
}
// A tensor over memory of a GPU, by its address; the caller keeps it until nobody uses it.
inline tutti_status *tensor_wrap_address(tutti_runtime *runtime, int64_t address,
                                         int64_t byte_size, int32_t dtype, size_t rank,
                                         const int64_t *dims, const char *device,
                                         tutti_tensor **out_tensor) {
  tutti_tensor_wrap_options options = TUTTI_TENSOR_WRAP_OPTIONS_INIT;
  options.device = device;
  return tutti_tensor_wrap(runtime, reinterpret_cast<void *>(static_cast<intptr_t>(address)),
                           static_cast<size_t>(byte_size), dtype, rank, dims,
                           tutti_release_hook{nullptr, nullptr}, &options, out_tensor);
}
// DLPack, by address: *out_count is that of a DLManagedTensorVersioned.
inline tutti_status *tensor_to_dlpack(const tutti_tensor *tensor, bool copy,
                                      tutti_optional_int64 stream, int64_t *out_count) {
  tutti_dlpack_options options = TUTTI_DLPACK_OPTIONS_INIT;
  options.stream = stream;
  options.copy = copy ? TUTTI_TRUE : TUTTI_FALSE;
  DLManagedTensorVersioned *managed = nullptr;
  tutti_status *status = tutti_tensor_to_dlpack(tensor, &options, &managed);
  *out_count = reinterpret_cast<intptr_t>(managed);
  return status;
}
inline tutti_status *tensor_from_dlpack(tutti_runtime *runtime, int64_t address,
                                        tutti_tensor **out_tensor) {
  return tutti_tensor_from_dlpack(
      runtime, reinterpret_cast<DLManagedTensorVersioned *>(static_cast<intptr_t>(address)),
      out_tensor);
}
inline void dlpack_delete(int64_t address) {
  auto *managed = reinterpret_cast<DLManagedTensorVersioned *>(static_cast<intptr_t>(address));
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
}
inline tutti_status *tensor_copy_into(const tutti_tensor *source, tutti_tensor *destination) {
  return tutti_tensor_copy_into(source, destination);
}

// ---- values

inline int64_t value_retain(const tutti_value *value) {
  tutti_value_retain(value);
  return reinterpret_cast<intptr_t>(value);
}
// Another handle of the same value.
inline tutti_status *value_again(const tutti_value *value, tutti_value **out_value) {
  tutti_value_retain(value);
  *out_value = const_cast<tutti_value *>(value);
  return nullptr;
}
// The kind of the leaf that a value is, or beyond those the kind of structure.
inline int32_t value_kind(const tutti_value *value) {
  const int32_t node = tutti_value_get_kind(value);
  return node == TUTTI_NODE_LEAF ? tutti_value_get_leaf_kind(value, 0)
                                 : TUTTI_LEAF_HOST_OBJECT + node - TUTTI_NODE_LEAF;
}
inline int64_t value_child_count(const tutti_value *value) {
  return static_cast<int64_t>(tutti_value_get_child_count(value));
}
inline tutti_status *value_child(const tutti_value *value, int64_t index,
                                 tutti_value **out_child) {
  return tutti_value_child(value, static_cast<size_t>(index), out_child);
}
inline const char *value_key(const tutti_value *value, int64_t index) {
  return tutti_treespec_get_key(tutti_value_get_treespec(value), static_cast<size_t>(index));
}
inline const char *value_type_name(const tutti_value *value) {
  return tutti_treespec_get_type_name(tutti_value_get_treespec(value));
}
// Null when the value is something else. Whoever has the value shares the memory.
inline tutti_status *value_tensor(const tutti_value *value, tutti_tensor **out_tensor) {
  if (value_kind(value) != TUTTI_LEAF_TENSOR) return nullptr;
  return tutti_tensor_as_read_only(tutti_value_get_leaf_tensor(value, 0), out_tensor);
}
inline tutti_string_view value_string(const tutti_value *value) {
  return tutti_value_get_leaf_string(value, 0);
}
inline tutti_status *value_variable(const tutti_value *value, tutti_variable **out_variable) {
  *out_variable = tutti_value_get_leaf_variable(value, 0);
  tutti_variable_retain(*out_variable);
  return nullptr;
}
inline tutti_status *value_dataset(const tutti_value *value, tutti_dataset **out_dataset) {
  *out_dataset = tutti_value_get_leaf_dataset(value, 0);
  tutti_dataset_retain(*out_dataset);
  return nullptr;
}
inline tutti_status *value_optional(const tutti_value *value, tutti_value **out_held) {
  const tutti_value *held = tutti_value_get_leaf_optional(value, 0);
  tutti_value_retain(held);
  *out_held = const_cast<tutti_value *>(held);
  return nullptr;
}
inline int64_t value_component_count(const tutti_value *value) {
  return static_cast<int64_t>(tutti_value_get_leaf_component_count(value, 0));
}
inline int32_t value_distribution(const tutti_value *value) {
  return tutti_value_get_leaf_distribution(value, 0);
}
inline tutti_status *value_component(const tutti_value *value, int64_t component,
                                     tutti_value **out_component) {
  const tutti_value *held =
      tutti_value_get_leaf_component(value, 0, static_cast<size_t>(component));
  tutti_value_retain(held);
  *out_component = const_cast<tutti_value *>(held);
  return nullptr;
}
// The number of Bridge's table that the leaf was made with; 0 when it is an object of another
// language.
inline int64_t value_host_object(const tutti_value *value) {
  return reinterpret_cast<intptr_t>(tutti_value_get_leaf_host_object(value, 0, &host_tag));
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
inline tutti_status *value_of_string(JNIEnv *env, jbyteArray text, tutti_value **out_value) {
  const std::string bytes = BytesOf(env, text);
  return tutti_value_create_string({bytes.data(), bytes.size()}, out_value);
}
inline tutti_status *value_of_none(tutti_value **out_value) {
  return tutti_value_create_none(out_value);
}
inline tutti_status *value_of_optional(const tutti_value *held, tutti_value **out_value) {
  return tutti_value_create_optional(held, out_value);
}
inline tutti_status *value_of_empty_optional(const tutti_spec *spec, tutti_value **out_value) {
  return tutti_value_create_empty_optional(spec, out_value);
}
// `number` stands for an object in Bridge's table: the library tells objects apart by address, and
// references to one Java object have several.
inline void ReleaseObject(void *number) {
  JNIEnv *env = Environment();
  if (env == nullptr) return;
  env->CallStaticVoidMethod(machine.bridge, machine.release_object,
                            static_cast<jlong>(reinterpret_cast<intptr_t>(number)));
  if (env->ExceptionCheck()) env->ExceptionClear();
}
inline tutti_status *value_of_object(int64_t number, tutti_value **out_value) {
  return tutti_value_create_host_object(&host_tag,
                                        reinterpret_cast<void *>(static_cast<intptr_t>(number)),
                                        &ReleaseObject, out_value);
}
inline tutti_status *value_of_variable(const tutti_variable *variable, tutti_value **out_value) {
  return tutti_value_create_variable(variable, out_value);
}
inline tutti_status *value_of_dataset(const tutti_dataset *dataset, tutti_value **out_value) {
  return tutti_value_create_dataset(dataset, out_value);
}
inline tutti_status *value_of_tuple(size_t count, const tutti_value *const *values,
                                    tutti_value **out_value) {
  return tutti_value_create_tuple(count, values, out_value);
}
inline tutti_status *value_of_list(size_t count, const tutti_value *const *values,
                                   tutti_value **out_value) {
  return tutti_value_create_list(count, values, out_value);
}
inline tutti_status *value_of_dict(size_t value_count, const char *const *keys, size_t count,
                                   const tutti_value *const *values, tutti_value **out_value) {
  if (value_count != count) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT, "as many keys as values, please");
  }
  return tutti_value_create_dict(count, keys, values, out_value);
}
inline tutti_status *value_of_named_tuple(const char *type_name, size_t value_count,
                                          const char *const *keys, size_t count,
                                          const tutti_value *const *values,
                                          tutti_value **out_value) {
  if (value_count != count) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT, "as many fields as values, please");
  }
  return tutti_value_create_named_tuple(type_name, count, keys, values, out_value);
}

// ---- contexts

// Hints for the next call of this thread; both 0 take them back.
inline void hint_call(int64_t bytes_per_pack, int32_t implementation) {
  next_hints.given = bytes_per_pack != 0 || implementation != 0;
  next_hints.options.bytes_per_pack = bytes_per_pack;
  next_hints.options.implementation = implementation;
}
// The stream of all calls of this thread; null: none.
inline void order_calls(tutti_stream *stream) { calls_stream.Set(stream); }
inline tutti_status *merge_call(tutti_context *context, tutti_host_handle merge_fn,
                                const char *name, const tutti_value *args,
                                const tutti_call_options *call, tutti_value **out_value) {
  return MergeCall(context, merge_fn, name, args, call, out_value);
}

// ---- specs

inline tutti_status *spec_of_tensor(int32_t dtype, bool rank_known, size_t rank,
                                    const int64_t *dims, tutti_spec **out_spec) {
  return tutti_spec_create_tensor(
      dtype, rank_known ? static_cast<int64_t>(rank) : TUTTI_UNKNOWN_RANK, dims, out_spec);
}
inline tutti_status *spec_of_sparse(int32_t dtype, bool rank_known, size_t rank,
                                    const int64_t *dims, tutti_spec **out_spec) {
  return tutti_spec_create_sparse(
      dtype, rank_known ? static_cast<int64_t>(rank) : TUTTI_UNKNOWN_RANK, dims, out_spec);
}
inline tutti_status *spec_of_ragged(int32_t dtype, int64_t ragged_rank, int32_t splits,
                                    bool rank_known, size_t rank, const int64_t *dims,
                                    tutti_spec **out_spec) {
  return tutti_spec_create_ragged(
      dtype, rank_known ? static_cast<int64_t>(rank) : TUTTI_UNKNOWN_RANK, dims, ragged_rank,
      splits, out_spec);
}
inline tutti_status *spec_of_none(tutti_spec **out_spec) {
  return tutti_spec_create_none(out_spec);
}
inline tutti_status *spec_of_optional(const tutti_spec *inner, tutti_spec **out_spec) {
  return tutti_spec_create_optional(inner, out_spec);
}
inline tutti_status *spec_of_variant(tutti_spec **out_spec) {
  return tutti_spec_create_dataset(nullptr, out_spec);
}
inline tutti_status *spec_of_dataset(const tutti_spec *inner, size_t rank, const int64_t *dims,
                                     tutti_spec **out_spec) {
  return tutti_spec_create_dataset_of_shape(inner, static_cast<int64_t>(rank), dims, out_spec);
}
inline tutti_status *spec_of_iterator(const tutti_spec *inner, tutti_spec **out_spec) {
  return tutti_spec_create_iterator(inner, out_spec);
}
inline tutti_status *spec_of_per_replica(size_t count, const tutti_spec *const *parts,
                                         tutti_spec **out_spec) {
  return tutti_spec_create_per_replica(count, parts, out_spec);
}
// Leaf `leaf` as a spec of its own.
inline tutti_status *LeafOf(const tutti_spec *spec, size_t leaf, tutti_spec **out_spec) {
  return tutti_spec_leaf(spec, leaf, out_spec);
}

// What a structure of specs is put together from, released at the end.
struct SpecParts {
  std::vector<tutti_spec *> leaves;

  SpecParts() = default;
  ~SpecParts() {
    for (const tutti_spec *leaf : leaves) tutti_spec_release(leaf);
  }
  SpecParts(const SpecParts &) = delete;
  SpecParts &operator=(const SpecParts &) = delete;

  // The leaves begin .. end - 1.
  tutti_status *Add(const tutti_spec *spec, size_t begin, size_t end) {
    for (size_t leaf = begin; leaf < end; ++leaf) {
      tutti_spec *made = nullptr;
      if (tutti_status *status = LeafOf(spec, leaf, &made)) return status;
      leaves.push_back(made);
    }
    return nullptr;
  }
  tutti_status *Under(const tutti_treespec *treespec, tutti_spec **out_spec) const {
    return tutti_spec_create_from_leaves(treespec, leaves.size(), leaves.data(), out_spec);
  }
};

// A tuple or list; with keys a dict, and a named tuple when there is a type name too. The parts
// stand in the order of the keys, which for a dict is that of their bytes.
inline tutti_status *spec_of_parts(int32_t kind, const char *type_name, size_t value_count,
                                   const char *const *keys, size_t count,
                                   const tutti_spec *const *parts, tutti_spec **out_spec) {
  SpecParts all;
  std::vector<const tutti_treespec *> children;
  for (size_t i = 0; i < count; ++i) {
    children.push_back(tutti_spec_get_treespec(parts[i]));
    if (auto *status = all.Add(parts[i], 0, tutti_spec_get_leaf_count(parts[i]))) return status;
  }
  tutti_treespec *treespec = nullptr;
  tutti_status *status = nullptr;
  if (kind == TUTTI_NODE_DICT && value_count == count) {
    status = tutti_treespec_create_dict(count, keys, children.data(), &treespec);
  } else if (kind == TUTTI_NODE_NAMED_TUPLE && value_count == count) {
    status = tutti_treespec_create_named_tuple(type_name, count, keys, children.data(), &treespec);
  } else {
    status = tutti_treespec_create_sequence(kind, count, children.data(), &treespec);
  }
  if (status != nullptr) return status;
  status = all.Under(treespec, out_spec);
  tutti_treespec_release(treespec);
  return status;
}

inline int32_t spec_kind(const tutti_spec *spec) {
  return tutti_treespec_get_kind(tutti_spec_get_treespec(spec));
}
inline int64_t spec_child_count(const tutti_spec *spec) {
  return static_cast<int64_t>(tutti_treespec_get_child_count(tutti_spec_get_treespec(spec)));
}
inline const char *spec_key(const tutti_spec *spec, int64_t index) {
  return tutti_treespec_get_key(tutti_spec_get_treespec(spec), static_cast<size_t>(index));
}
// Part `index` of a structure.
inline tutti_status *spec_child(const tutti_spec *spec, int64_t index, tutti_spec **out_spec) {
  const tutti_treespec *treespec = tutti_spec_get_treespec(spec);
  size_t begin = 0;
  for (int64_t i = 0; i < index; ++i) {
    begin += tutti_treespec_get_leaf_count(
        tutti_treespec_get_child(treespec, static_cast<size_t>(i)));
  }
  const tutti_treespec *child = tutti_treespec_get_child(treespec, static_cast<size_t>(index));
  SpecParts all;
  if (auto *status = all.Add(spec, begin, begin + tutti_treespec_get_leaf_count(child))) {
    return status;
  }
  return all.Under(child, out_spec);
}
// What an optional, a dataset, an iterator or a distributed leaf holds; null where it is not known.
inline tutti_status *spec_inner(const tutti_spec *spec, tutti_spec **out_spec) {
  const tutti_spec *inner = tutti_spec_get_leaf_inner(spec, 0);
  tutti_spec_retain(inner);
  *out_spec = const_cast<tutti_spec *>(inner);
  return nullptr;
}
inline int32_t spec_leaf_kind(const tutti_spec *spec, int64_t leaf) {
  return tutti_spec_get_leaf_kind(spec, static_cast<size_t>(leaf));
}
inline tutti_status *spec_text(const tutti_spec *spec, tutti_bytes **out_text) {
  return tutti_spec_to_string(spec, out_text);
}
inline bool spec_equal(const tutti_spec *left, const tutti_spec *right) {
  return tutti_spec_equal(left, right) != 0;
}
inline int64_t spec_leaf_count(const tutti_spec *spec) {
  return static_cast<int64_t>(tutti_spec_get_leaf_count(spec));
}
inline int32_t spec_leaf_dtype(const tutti_spec *spec, int64_t leaf) {
  return tutti_spec_get_leaf_dtype(spec, static_cast<size_t>(leaf));
}
inline int64_t spec_leaf_rank(const tutti_spec *spec, int64_t leaf) {
  return tutti_spec_get_leaf_rank(spec, static_cast<size_t>(leaf));
}
inline int64_t spec_leaf_dim(const tutti_spec *spec, int64_t leaf, int64_t axis) {
  return tutti_spec_get_leaf_dims(spec, static_cast<size_t>(leaf))[axis];
}
// The functions for specs of the element of `tf.train.Example`, one feature each.
struct Feature {
  tutti_feature fields;
  std::string key;
  std::vector<int64_t> dims;
};
inline int64_t feature_create(const char *key, int32_t dtype, size_t rank, const int64_t *dims,
                              const tutti_tensor *default_value, int32_t kind) {
  auto *feature = new Feature{TUTTI_FEATURE_INIT, key, std::vector<int64_t>(dims, dims + rank)};
  feature->fields.key = feature->key.c_str();
  feature->fields.dtype = dtype;
  feature->fields.rank = rank;
  feature->fields.dims = feature->dims.data();
  feature->fields.default_value = default_value;
  feature->fields.kind = kind;
  tutti_tensor_retain(default_value);
  return reinterpret_cast<intptr_t>(feature);
}
inline void feature_delete(int64_t feature) {
  auto *held = reinterpret_cast<Feature *>(static_cast<intptr_t>(feature));
  tutti_tensor_release(held->fields.default_value);
  delete held;
}

}  // namespace tutti_java

#endif  // TUTTI_BINDINGS_SWIG_JAVA_ACCESS_H_
