/* Java: how each kind of parameter of the facade crosses. Everything that SWIG generates lives in
 * org.tutti.internal; the classes that users see are written by hand.
 *
 * A handle goes in as a NativeObject, pinned for the time of the call, and comes out as a box: a
 * function that returns a status returns its output as a long in Java and throws on failure. */

%pragma(java) jniclassimports=%{
/* Generated; not for users. */
%}

%{
#include "java/machine.h"
#include "java/callbacks.h"
#include "java/access.h"
%}

/* ---- raw JNI parameters of access.h */

%typemap(in, numinputs=0) JNIEnv *env "$1 = jenv;";

/* SWIG takes a C long for a Java int. */
%apply long long { int64_t };

/* ---- results */

%typemap(jni) tutti_status * "jlong"
%typemap(jtype) tutti_status * "long"
%typemap(jstype) tutti_status * "long"
%typemap(javaout) tutti_status * { return $jnicall; }
%typemap(out) tutti_status * {
  $result = 0;
  if ($1 != nullptr) tutti_java::Raise(jenv, $1);
}

%define TUTTI_HANDLE(NAME)
struct NAME;
%typemap(jni) NAME * "jobject"
%typemap(jtype) NAME * "NativeObject"
%typemap(jstype) NAME * "NativeObject"
%typemap(javain) NAME * "$javainput"
%typemap(in) NAME * (tutti_java::Pin pin) {
  if (!tutti_java::Given(jenv, $input, #NAME) || !pin.Set(jenv, $input)) return $null;
  $1 = static_cast<NAME *>(pin.get());
}
%typemap(freearg) NAME * ""
%typemap(in, numinputs=0) NAME ** (NAME *handle = nullptr) "$1 = &handle;"
%typemap(argout) NAME ** { $result = tutti_java::Boxed<NAME, &NAME##_release>(jenv, *$1); }
%enddef
%define TUTTI_NULLABLE_HANDLE(NAME, PARAMETER)
%typemap(in) NAME *PARAMETER (tutti_java::Pin pin) {
  if (!pin.Set(jenv, $input)) return $null;
  $1 = static_cast<NAME *>(pin.get());
}
%enddef
%define TUTTI_HANDLES(NAME, ARRAY)
%typemap(jni) (size_t count, const NAME *const *ARRAY) "jobjectArray"
%typemap(jtype) (size_t count, const NAME *const *ARRAY) "NativeObject[]"
%typemap(jstype) (size_t count, const NAME *const *ARRAY) "NativeObject[]"
%typemap(javain) (size_t count, const NAME *const *ARRAY) "$javainput"
%typemap(in) (size_t count, const NAME *const *ARRAY) (tutti_java::Pins<NAME> pins) {
  if (!tutti_java::Given(jenv, $input, "an array of objects") || !pins.Set(jenv, $input)) {
    return $null;
  }
  $1 = pins.size();
  $2 = pins.data();
}
%typemap(freearg) (size_t count, const NAME *const *ARRAY) ""
%typemap(argout) (size_t count, const NAME *const *ARRAY) ""
%enddef
TUTTI_HANDLES(tutti_value, values)
TUTTI_HANDLES(tutti_spec, parts)
TUTTI_HANDLES(tutti_tensor, tensors)
TUTTI_HANDLES(tutti_cluster_resolver, resolvers)
%apply (size_t count, const tutti_tensor *const *tensors) {
  (size_t count, tutti_tensor *const *mutable_tensors),
  (size_t output_count, tutti_tensor *const *mutable_tensors)
};
TUTTI_HANDLE(tutti_spec)
/* Null means something here; elsewhere it is a NullPointerException. */
TUTTI_NULLABLE_HANDLE(tutti_runtime, given_runtime)
TUTTI_NULLABLE_HANDLE(tutti_cluster_resolver, resolver)
TUTTI_NULLABLE_HANDLE(tutti_reducer, given_reducer)
TUTTI_NULLABLE_HANDLE(tutti_dataset, given_dataset)
TUTTI_NULLABLE_HANDLE(tutti_value, args)
TUTTI_NULLABLE_HANDLE(tutti_value, held)
TUTTI_NULLABLE_HANDLE(tutti_value, padded_shapes)
TUTTI_NULLABLE_HANDLE(tutti_value, padding_values)
TUTTI_NULLABLE_HANDLE(tutti_value, weights)
TUTTI_NULLABLE_HANDLE(tutti_value, shown)
TUTTI_NULLABLE_HANDLE(tutti_function, reader_func)
TUTTI_NULLABLE_HANDLE(tutti_function, shard_func)
TUTTI_NULLABLE_HANDLE(tutti_spec, signature)
TUTTI_NULLABLE_HANDLE(tutti_function, window_size_func)
TUTTI_NULLABLE_HANDLE(tutti_tensor, atol)
TUTTI_NULLABLE_HANDLE(tutti_tensor, default_value)
TUTTI_NULLABLE_HANDLE(tutti_tensor, rtol)
TUTTI_NULLABLE_HANDLE(tutti_tensor, root_tensor)
TUTTI_NULLABLE_HANDLE(tutti_stream, stream)
TUTTI_NULLABLE_HANDLE(tutti_tensor, root_output)

/* Byte buffers come out by address, which Bridge.text and Bridge.bytes take over. */
%typemap(in, numinputs=0) tutti_bytes ** (tutti_bytes *bytes = nullptr) "$1 = &bytes;"
%typemap(argout) tutti_bytes ** {
  $result = static_cast<jlong>(reinterpret_cast<intptr_t>(*$1));
}

/* A number that may be absent: Long.MIN_VALUE then. */
%typemap(in, numinputs=0) tutti_optional_int64 *out_number (tutti_optional_int64 number) {
  number = {0, 0};
  $1 = &number;
}
%typemap(argout) tutti_optional_int64 *out_number {
  $result = $1->present ? static_cast<jlong>($1->value) : INT64_MIN;
}
%typemap(in, numinputs=0) int64_t *out_count (int64_t count = 0) "$1 = &count;"
%typemap(argout) int64_t *out_count "$result = static_cast<jlong>(*$1);"
%typemap(jni) tutti_optional_int64 "jobject"
%typemap(jtype) tutti_optional_int64 "Long"
%typemap(jstype) tutti_optional_int64 "Long"
%typemap(javain) tutti_optional_int64 "$javainput"
%typemap(in) tutti_optional_int64 {
  $1 = {0, 0};
  if ($input != nullptr) {
    $1.present = 1;
    $1.value = jenv->CallLongMethod($input, tutti_java::machine.long_value);
    if (jenv->ExceptionCheck()) return $null;
  }
}
%ignore tutti_facade::device_spec_replica;
%ignore tutti_facade::device_spec_task;
%ignore tutti_facade::device_spec_index;

/* As many boxes as the array has room for. */
%typemap(jni) tutti_communicator **out_communicators "jlongArray"
%typemap(jtype) tutti_communicator **out_communicators "long[]"
%typemap(jstype) tutti_communicator **out_communicators "long[]"
%typemap(javain) tutti_communicator **out_communicators "$javainput"
%typemap(in) tutti_communicator **out_communicators (std::vector<tutti_communicator *> ranks) {
  ranks.resize(static_cast<size_t>(jenv->GetArrayLength($input)));
  $1 = ranks.data();
}
%typemap(argout) tutti_communicator **out_communicators {
  for (size_t i = 0; i < ranks$argnum.size() && !jenv->ExceptionCheck(); ++i) {
    const jlong box = tutti_java::Boxed<tutti_communicator, &tutti_communicator_release>(
        jenv, ranks$argnum[i]);
    jenv->SetLongArrayRegion($input, static_cast<jsize>(i), 1, &box);
  }
}

/* ---- parameters */

%typemap(in, numinputs=0) tutti_runtime *runtime "$1 = tutti_java::CurrentRuntime();"
%typemap(in, numinputs=0) tutti_context *ambient "$1 = tutti_java::ambient.replica;"

/* By address; the package knows when it has ended. */
%typemap(jni) tutti_context *context "jlong"
%typemap(jtype) tutti_context *context "long"
%typemap(jstype) tutti_context *context "long"
%typemap(javain) tutti_context *context "$javainput"
%typemap(in) tutti_context *context {
  $1 = reinterpret_cast<tutti_context *>(static_cast<intptr_t>($input));
}
%typemap(freearg) tutti_context *context ""
%apply tutti_context *context { const tutti_context *context };

/* Nanoseconds: 0 unset, Long.MAX_VALUE none, Long.MIN_VALUE already expired. */
%typemap(jni) const tutti_call_options *call "jlong"
%typemap(jtype) const tutti_call_options *call "long"
%typemap(jstype) const tutti_call_options *call "long"
%typemap(javain) const tutti_call_options *call "$javainput"
%typemap(in) const tutti_call_options *call (tutti_java::Call options) {
  $1 = const_cast<tutti_call_options *>(options.Set($input));
}
%typemap(freearg) const tutti_call_options *call ""
%apply const tutti_call_options *call { const tutti_call_options *issue };
%typemap(in) const tutti_call_options *issue (tutti_java::Call options) {
  $1 = const_cast<tutti_call_options *>(options.SetTimeout($input));
}
/* The flag of an interrupted thread stays set, and who leaves says goodbye all the same. */
%apply const tutti_call_options *issue { const tutti_call_options *leaving };

/* Callbacks. */
%typemap(jni) tutti_host_handle "jobject"
%typemap(jtype) tutti_host_handle "Callback"
%typemap(jstype) tutti_host_handle "Callback"
%typemap(javain) tutti_host_handle "$javainput"
%typemap(in) tutti_host_handle replica_fn (tutti_java::BorrowedCallback borrowed) {
  $1 = borrowed.Set(jenv, $input);
}
%apply tutti_host_handle replica_fn {
  tutti_host_handle merge_fn, tutti_host_handle values_fn, tutti_host_handle update_fn
};
%typemap(in) tutti_host_handle element_fn "$1 = reinterpret_cast<tutti_host_handle>($input);"
%apply tutti_host_handle element_fn {
  tutti_host_handle start_fn, tutti_host_handle input_fn, tutti_host_handle ready_fn,
  tutti_host_handle reducer_fn
};
/* The package keeps the sink; the reference stays for good, because a sink is set a few times. */
%typemap(in) tutti_host_handle log_sink {
  $1 = $input == nullptr ? 0 : reinterpret_cast<tutti_host_handle>(jenv->NewGlobalRef($input));
}

/* How a future fails: an exception, or null. */
%typemap(jni) tutti_status *failure "jobject"
%typemap(jtype) tutti_status *failure "Throwable"
%typemap(jstype) tutti_status *failure "Throwable"
%typemap(javain) tutti_status *failure "$javainput"
%typemap(in) tutti_status *failure {
  $1 = $input == nullptr ? nullptr
                         : tutti_java::StatusOf(jenv, static_cast<jthrowable>($input));
}
%typemap(freearg) tutti_status *failure ""

/* Text, null included. */
%typemap(jni) const char * "jbyteArray"
%typemap(jtype) const char * "byte[]"
%typemap(jstype) const char * "String"
%typemap(javain) const char * "Bridge.name($javainput)"
%typemap(javaout) const char * { return Bridge.text($jnicall); }
%typemap(in) const char * (tutti_java::Text text) {
  text.Set(jenv, $input);
  $1 = const_cast<char *>(text.get());
}
%typemap(freearg) const char * ""
%typemap(out) const char * {
  $result = $1 == nullptr ? nullptr : tutti_java::ArrayOf(jenv, $1, __builtin_strlen($1));
}
%typemap(jni) tutti_string_view "jbyteArray"
%typemap(jtype) tutti_string_view "byte[]"
%typemap(jstype) tutti_string_view "byte[]"
%typemap(javaout) tutti_string_view { return $jnicall; }
%typemap(out) tutti_string_view "$result = tutti_java::ArrayOf(jenv, $1.data, $1.size);"

%typemap(jni) (size_t count, const char *const *texts) "jobjectArray"
%typemap(jtype) (size_t count, const char *const *texts) "byte[][]"
%typemap(jstype) (size_t count, const char *const *texts) "String[]"
%typemap(javain) (size_t count, const char *const *texts) "Bridge.name($javainput)"
%typemap(in) (size_t count, const char *const *texts) (tutti_java::Texts texts) {
  if (!texts.Set(jenv, $input)) return $null;
  $1 = texts.pointers.size();
  $2 = const_cast<char **>(texts.pointers.data());
}
%typemap(freearg) (size_t count, const char *const *texts) ""
%apply (size_t count, const char *const *texts) {
  (size_t count, const char *const *keys), (size_t value_count, const char *const *keys),
  (size_t value_count, const char *const *values)
};

%typemap(jni) (size_t rank, const int64_t *dims) "jlongArray"
%typemap(jtype) (size_t rank, const int64_t *dims) "long[]"
%typemap(jstype) (size_t rank, const int64_t *dims) "long[]"
%typemap(javain) (size_t rank, const int64_t *dims) "$javainput"
%typemap(in) (size_t rank, const int64_t *dims) (tutti_java::Numbers dims) {
  if (!tutti_java::Given(jenv, $input, "an array of sizes")) return $null;
  dims.Set(jenv, $input);
  $1 = dims.all.size();
  $2 = dims.all.data();
}
%typemap(freearg) (size_t rank, const int64_t *dims) ""
%apply (size_t rank, const int64_t *dims) { (size_t rank_count, const int64_t *send_rows),
                                            (size_t dtype_count, const int64_t *dtypes),
                                            (size_t number_count, const int64_t *numbers) };
/* Written back after the call. */
%typemap(jni) (size_t received_count, int64_t *received_rows) "jlongArray"
%typemap(jtype) (size_t received_count, int64_t *received_rows) "long[]"
%typemap(jstype) (size_t received_count, int64_t *received_rows) "long[]"
%typemap(javain) (size_t received_count, int64_t *received_rows) "$javainput"
%typemap(in) (size_t received_count, int64_t *received_rows) (std::vector<int64_t> rows) {
  if (!tutti_java::Given(jenv, $input, "an array of numbers")) return $null;
  rows.resize(static_cast<size_t>(jenv->GetArrayLength($input)));
  $1 = rows.size();
  $2 = rows.data();
}
%typemap(argout) (size_t received_count, int64_t *received_rows) {
  if (!jenv->ExceptionCheck()) {
    jenv->SetLongArrayRegion($input, 0, static_cast<jsize>(rows$argnum.size()),
                             reinterpret_cast<const jlong *>(rows$argnum.data()));
  }
}
%typemap(freearg) (size_t received_count, int64_t *received_rows) ""

%typemap(jni) (const void *bytes, size_t size) "jbyteArray"
%typemap(jtype) (const void *bytes, size_t size) "byte[]"
%typemap(jstype) (const void *bytes, size_t size) "byte[]"
%typemap(javain) (const void *bytes, size_t size) "$javainput"
%typemap(in) (const void *bytes, size_t size) (std::string bytes) {
  if (!tutti_java::Given(jenv, $input, "an array of bytes")) return $null;
  bytes = tutti_java::BytesOf(jenv, $input);
  $1 = bytes.data();
  $2 = bytes.size();
}
%typemap(freearg) (const void *bytes, size_t size) ""

/* Addresses that feature_create made. */
%typemap(jni) (size_t count, const tutti_feature *const *features) "jlongArray"
%typemap(jtype) (size_t count, const tutti_feature *const *features) "long[]"
%typemap(jstype) (size_t count, const tutti_feature *const *features) "long[]"
%typemap(javain) (size_t count, const tutti_feature *const *features) "$javainput"
%typemap(in) (size_t count, const tutti_feature *const *features)
    (tutti_java::Numbers addresses, std::vector<const tutti_feature *> features) {
  addresses.Set(jenv, $input);
  for (int64_t address : addresses.all) {
    features.push_back(&reinterpret_cast<tutti_java::Feature *>(address)->fields);
  }
  $1 = features.size();
  $2 = const_cast<tutti_feature **>(features.data());
}
%typemap(freearg) (size_t count, const tutti_feature *const *features) ""
