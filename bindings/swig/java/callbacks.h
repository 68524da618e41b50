// Callbacks from the library into Java: what facade/callback.h asks of a language.
//
// A handle is a reference to an org.tutti.internal.Callback; the package wraps every lambda in one,
// which reads the arguments and makes the result, so that a callback is one crossing and no more.
#ifndef TUTTI_BINDINGS_SWIG_JAVA_CALLBACKS_H_
#define TUTTI_BINDINGS_SWIG_JAVA_CALLBACKS_H_

#include <cstdio>

#include "../facade/callback.h"
#include "machine.h"

namespace tutti_java {

// A callback that is borrowed for a call: the replicas' threads need a global reference.
class BorrowedCallback {
 public:
  BorrowedCallback() = default;
  ~BorrowedCallback() {
    if (reference_ != nullptr) env_->DeleteGlobalRef(reference_);
  }
  BorrowedCallback(const BorrowedCallback &) = delete;
  BorrowedCallback &operator=(const BorrowedCallback &) = delete;

  tutti_host_handle Set(JNIEnv *env, jobject callback) {
    env_ = env;
    reference_ = env->NewGlobalRef(callback);
    return reinterpret_cast<tutti_host_handle>(reference_);
  }

 private:
  JNIEnv *env_ = nullptr;
  jobject reference_ = nullptr;
};

class AmbientOfCallback {
 public:
  AmbientOfCallback(tutti_host_kind kind, tutti_context *context) : before_(ambient) {
    ambient.callback_runtime = tutti_context_get_runtime(context);
    ambient.scope_runtime = nullptr;
    ambient.replica =
        kind == TUTTI_HOST_REPLICA || kind == TUTTI_HOST_UPDATE ? context : nullptr;
  }
  ~AmbientOfCallback() { ambient = before_; }
  AmbientOfCallback(const AmbientOfCallback &) = delete;
  AmbientOfCallback &operator=(const AmbientOfCallback &) = delete;

 private:
  const Ambient before_;
};

// A merge call crosses as the name of the function and its argument, so that replicas that came
// with different functions are told: their names are then distributed. The function gets a
// reference to the argument.
inline tutti_status *MergeCall(tutti_context *context, tutti_host_handle merge_fn, const char *name,
                               const tutti_value *argument, const tutti_call_options *call,
                               tutti_value **out_value) {
  tutti_value *parts[] = {nullptr, nullptr};
  tutti_value *given = nullptr;
  tutti_status *status =
      tutti_value_create_string(tutti_string_view{name, __builtin_strlen(name)}, &parts[0]);
  if (status == nullptr && argument == nullptr) status = tutti_value_create_none(&parts[1]);
  if (status == nullptr) {
    const tutti_value *both[] = {parts[0], argument == nullptr ? parts[1] : argument};
    status = tutti_value_create_tuple(2, both, &given);
  }
  if (status == nullptr) {
    tutti_facade::HostCallback callback{merge_fn, TUTTI_HOST_MERGE};
    status = tutti_context_merge_call(context, &tutti_facade::CallHost, &callback, given, call,
                                      out_value);
  }
  tutti_value_release(given);
  tutti_value_release(parts[1]);
  tutti_value_release(parts[0]);
  return status;
}

inline tutti_status *ArgumentOfMerge(const tutti_value *in, tutti_value **out_argument) {
  if (tutti_value_get_leaf_kind(in, 0) == TUTTI_LEAF_STRING) {
    return tutti_value_child(in, 1, out_argument);
  }
  tutti_value *names = nullptr;
  tutti_bytes *text = nullptr;
  tutti_status *status = tutti_value_child(in, 0, &names);
  if (status == nullptr) status = tutti_value_to_string(names, &text);
  if (status == nullptr) {
    const std::string message =
        std::string("the replicas reached the same merge call with different functions: ") +
        tutti_bytes_get_view(text).data;
    status = tutti_status_create(TUTTI_INVALID_ARGUMENT, message.c_str());
  }
  tutti_bytes_release(text);
  tutti_value_release(names);
  return status;
}

}  // namespace tutti_java

tutti_status *tutti_host_call(tutti_host_handle handle, tutti_host_kind kind,
                              tutti_context *context, const tutti_value *in, tutti_value **out) {
  JNIEnv *env = tutti_java::Environment();
  if (env == nullptr) {
    return tutti_status_create(TUTTI_CANCELLED, "the Java virtual machine is ending");
  }
  const tutti_java::AmbientOfCallback scope(kind, context);
  jlong box = 0;
  if (in != nullptr) {
    auto *argument = const_cast<tutti_value *>(in);
    if (kind == TUTTI_HOST_MERGE) {
      tutti_status *status = tutti_java::ArgumentOfMerge(in, &argument);
      if (status != nullptr) return status;
    } else {
      tutti_value_retain(in);
    }
    box = tutti_java::Boxed<tutti_value, &tutti_value_release>(env, argument);
    if (env->ExceptionCheck()) return tutti_java::TakeException(env);
  }
  const jlong made = env->CallLongMethod(
      reinterpret_cast<jobject>(handle), tutti_java::machine.call, static_cast<jint>(kind),
      static_cast<jlong>(reinterpret_cast<intptr_t>(context)), box);
  if (env->ExceptionCheck()) return tutti_java::TakeException(env);
  if (made != 0) *out = reinterpret_cast<tutti_value *>(static_cast<intptr_t>(made));
  return nullptr;
}

// On a thread of Java's: storing a callback happens in the call that takes it.
tutti_host_handle tutti_host_retain(tutti_host_handle handle) {
  JNIEnv *env = tutti_java::Environment();
  return reinterpret_cast<tutti_host_handle>(
      env->NewGlobalRef(reinterpret_cast<jobject>(handle)));
}

void tutti_host_release(tutti_host_handle handle) {
  tutti_java::DeleteGlobal(reinterpret_cast<void *>(handle));
}

void tutti_host_notify(tutti_host_handle handle) {
  JNIEnv *env = tutti_java::Environment();
  if (env == nullptr) return;
  env->CallLongMethod(reinterpret_cast<jobject>(handle), tutti_java::machine.call,
                      static_cast<jint>(TUTTI_HOST_NOTIFICATION), jlong{0}, jlong{0});
  // The package hands what goes wrong to the thread's handler; this is what goes wrong in that.
  if (env->ExceptionCheck()) {
    env->ExceptionDescribe();
    env->ExceptionClear();
  }
}

void tutti_host_log(tutti_host_handle handle, tutti_log_level level, tutti_string_view line) {
  JNIEnv *env = tutti_java::Environment();
  jthrowable before = env == nullptr ? nullptr : env->ExceptionOccurred();
  if (before != nullptr) env->ExceptionClear();  // of the code that made the library log
  jbyteArray text = env == nullptr ? nullptr : tutti_java::ArrayOf(env, line.data, line.size);
  if (text == nullptr) {
    if (env != nullptr) env->ExceptionClear();
    fprintf(stderr, "tutti: %.*s\n", static_cast<int>(line.size), line.data);
  } else {
    env->CallVoidMethod(reinterpret_cast<jobject>(handle), tutti_java::machine.log,
                        static_cast<jint>(level), text);
    if (env->ExceptionCheck()) {
      env->ExceptionDescribe();
      env->ExceptionClear();
    }
    env->DeleteLocalRef(text);
  }
  if (before != nullptr) {
    env->Throw(before);
    env->DeleteLocalRef(before);
  }
}

// What every later call looks up by name is looked up here once.
extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *) {
  void *found = nullptr;
  if (vm->GetEnv(&found, JNI_VERSION_1_8) != JNI_OK) return JNI_ERR;
  auto *env = static_cast<JNIEnv *>(found);
  tutti_java::Machine &machine = tutti_java::machine;
  machine.vm = vm;
  const auto global = [env](const char *name) -> jclass {
    jclass local = env->FindClass(name);
    return local == nullptr ? nullptr : static_cast<jclass>(env->NewGlobalRef(local));
  };
  machine.bridge = global("org/tutti/internal/Bridge");
  machine.native_object = global("org/tutti/internal/NativeObject");
  jclass callback = env->FindClass("org/tutti/internal/Callback");
  jclass number = env->FindClass("java/lang/Long");
  if (machine.bridge == nullptr || machine.native_object == nullptr || callback == nullptr ||
      number == nullptr) {
    return JNI_ERR;
  }
  machine.box = env->GetFieldID(machine.native_object, "box", "J");
  machine.call = env->GetMethodID(callback, "call", "(IJJ)J");
  machine.log = env->GetMethodID(callback, "log", "(I[B)V");
  machine.exception_of =
      env->GetStaticMethodID(machine.bridge, "exceptionOf", "(J)Ljava/lang/Throwable;");
  machine.status_of =
      env->GetStaticMethodID(machine.bridge, "statusOf", "(Ljava/lang/Throwable;)J");
  machine.interrupted = env->GetStaticMethodID(machine.bridge, "interrupted", "()Z");
  machine.release_object = env->GetStaticMethodID(machine.bridge, "releaseObject", "(J)V");
  machine.collect = env->GetStaticMethodID(machine.bridge, "collect", "()V");
  machine.long_value = env->GetMethodID(number, "longValue", "()J");
  return env->ExceptionCheck() ? JNI_ERR : JNI_VERSION_1_8;
}

#endif  // TUTTI_BINDINGS_SWIG_JAVA_CALLBACKS_H_
