// The Java virtual machine from the library's side: threads, handles of our objects, exceptions.
//
// A thread of the library is attached once, as a daemon, when it first calls into Java, and
// detached when it ends: attaching at every call costs a hundred times as much. What Java holds of
// an object of ours is a box (boxes.h), whose reference goes with close(); a native function pins
// it for as long as it runs, so that a close on another thread takes effect behind it and a later
// use is an exception.
#ifndef TUTTI_BINDINGS_SWIG_JAVA_MACHINE_H_
#define TUTTI_BINDINGS_SWIG_JAVA_MACHINE_H_

#include <jni.h>
#include <tutti/tutti.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "boxes.h"

namespace tutti_java {

// The address tells our host objects from those of other languages in the process.
inline const char host_tag = 0;

// Filled by JNI_OnLoad; the classes stay as long as the library.
struct Machine {
  JavaVM *vm = nullptr;
  jclass bridge = nullptr;
  jclass native_object = nullptr;
  jfieldID box = nullptr;
  jmethodID call = nullptr;          // Callback.call(int, long, long)
  jmethodID log = nullptr;           // Callback.log(int, byte[])
  jmethodID exception_of = nullptr;  // Bridge.exceptionOf(long)
  jmethodID status_of = nullptr;     // Bridge.statusOf(Throwable)
  jmethodID interrupted = nullptr;   // Bridge.interrupted()
  jmethodID release_object = nullptr;  // Bridge.releaseObject(long)
  jmethodID long_value = nullptr;
  jmethodID collect = nullptr;       // Bridge.collect()
};
inline Machine machine;

// ---- threads

class Attachment {
 public:
  ~Attachment() {
    if (env_ != nullptr) machine.vm->DetachCurrentThread();
  }
  JNIEnv *Get() {
    if (env_ == nullptr) {
      JavaVMAttachArgs args = {JNI_VERSION_1_8, const_cast<char *>("tutti"), nullptr};
      void *env = nullptr;
      if (machine.vm->AttachCurrentThreadAsDaemon(&env, &args) != JNI_OK) return nullptr;
      env_ = static_cast<JNIEnv *>(env);
    }
    return env_;
  }

 private:
  JNIEnv *env_ = nullptr;  // of a thread that we attached
};

// The environment of this thread, which is attached if it is not Java's own; null when the machine
// is ending.
inline JNIEnv *Environment() {
  void *env = nullptr;
  if (machine.vm->GetEnv(&env, JNI_VERSION_1_8) == JNI_OK) return static_cast<JNIEnv *>(env);
  thread_local Attachment attachment;
  return attachment.Get();
}

// ---- exceptions

// Throws what `status` says and takes it over.
inline void Raise(JNIEnv *env, tutti_status *status) {
  auto *exception = static_cast<jthrowable>(env->CallStaticObjectMethod(
      machine.bridge, machine.exception_of,
      static_cast<jlong>(reinterpret_cast<intptr_t>(status))));
  tutti_status_release(status);
  if (env->ExceptionCheck() || exception == nullptr) return;  // memory is short
  env->Throw(exception);
  env->DeleteLocalRef(exception);
}

inline tutti_status *StatusOf(JNIEnv *env, jthrowable exception) {
  const jlong status =
      env->CallStaticLongMethod(machine.bridge, machine.status_of, exception);
  if (env->ExceptionCheck()) {
    env->ExceptionClear();
    return tutti_status_create(TUTTI_UNKNOWN, "a Java exception that could not be described");
  }
  return reinterpret_cast<tutti_status *>(static_cast<intptr_t>(status));
}

// The status that carries the pending exception, which is cleared.
inline tutti_status *TakeException(JNIEnv *env) {
  jthrowable exception = env->ExceptionOccurred();
  env->ExceptionClear();
  tutti_status *status = StatusOf(env, exception);
  env->DeleteLocalRef(exception);
  return status;
}

// False with a NullPointerException pending when a parameter is null that must not be.
inline bool Given(JNIEnv *env, jobject object, const char *what) {
  if (object != nullptr) return true;
  jclass thrown = env->FindClass("java/lang/NullPointerException");
  if (thrown == nullptr) return false;
  env->ThrowNew(thrown, (std::string("null was given where ") + what + " is needed").c_str());
  env->DeleteLocalRef(thrown);
  return false;
}

// A `destroy` for global references.
inline void DeleteGlobal(void *reference) {
  if (reference == nullptr) return;
  if (JNIEnv *env = Environment()) env->DeleteGlobalRef(static_cast<jobject>(reference));
}

// ---- memory outside of the heap

// The collector sees the few bytes of a wrapper and not the tensors behind it, so that a loop that
// closes nothing would fill the machine before the heap. Whenever what the open wrappers of tensors
// and values stand for has grown by this much, the collector is asked to come by. What two wrappers
// share counts twice.
inline constexpr int64_t kCollectEveryBytes = int64_t{256} << 20;
// A smaller tensor weighs little beside its wrapper, which the collector sees; and counting it
// would move two cache lines between replicas, call by call.
inline constexpr int64_t kLeastCountedBytes = 4096;
struct OffHeap {
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> lowest{0};  // since the collector was asked last

  void Add(JNIEnv *env, int64_t more) {
    const int64_t now = bytes.fetch_add(more, std::memory_order_relaxed) + more;
    int64_t before = lowest.load(std::memory_order_relaxed);
    if (now - before <= kCollectEveryBytes) return;
    // Of several threads one asks.
    if (!lowest.compare_exchange_strong(before, now, std::memory_order_relaxed)) return;
    env->CallStaticVoidMethod(machine.bridge, machine.collect);
    if (env->ExceptionCheck()) env->ExceptionClear();  // it comes by or not
  }
  void Remove(int64_t less) {
    const int64_t now = bytes.fetch_sub(less, std::memory_order_relaxed) - less;
    int64_t before = lowest.load(std::memory_order_relaxed);
    while (now < before &&
           !lowest.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
    }
  }
};
inline OffHeap off_heap;

// What a wrapper stands for: nothing that counts, but for tensors and values.
inline int64_t BytesBehind(const void *) { return 0; }
inline int64_t BytesBehind(const tutti_tensor *tensor) {
  const auto bytes = static_cast<int64_t>(tutti_tensor_get_byte_size(tensor));
  return bytes < kLeastCountedBytes ? 0 : bytes;
}
inline int64_t BytesBehind(const tutti_value *value) {
  int64_t bytes = 0;
  const size_t leaves = tutti_value_get_leaf_count(value);
  for (size_t leaf = 0; leaf < leaves; ++leaf) {
    if (const tutti_tensor *tensor = tutti_value_get_leaf_tensor(value, leaf)) {
      bytes += BytesBehind(tensor);
      continue;
    }
    const size_t components = tutti_value_get_leaf_component_count(value, leaf);
    for (size_t i = 0; i < components; ++i) {
      bytes += BytesBehind(tutti_value_get_leaf_component(value, leaf, i));
    }
  }
  return bytes;
}

// ---- handles

// The last user has gone.
inline void Empty(Box *box) {
  box->release(box->object.load(std::memory_order_relaxed));
  if (box->bytes != 0) off_heap.Remove(box->bytes);
  const uint32_t generation = box->Generation();
  if (generation == Box::kLastGeneration) return;
  box->state.store((uint64_t{generation} + 1) << 32 | Box::kClosed, std::memory_order_release);
  boxes.Give(box);
}
inline void Unpin(Box *box) {
  const uint64_t before = box->state.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & Box::kUsers) == 1) Empty(box);
}
// What was in the box; 0 when it had been closed before.
inline int64_t CloseBox(int64_t handle) {
  Box *box = boxes.At(handle);
  const auto generation = static_cast<uint32_t>(handle >> 32);
  uint64_t now = box->state.load(std::memory_order_acquire);
  const auto held = reinterpret_cast<intptr_t>(box->object.load(std::memory_order_relaxed));
  do {
    if (!box->IsOpen(generation, now)) return 0;
  } while (!box->state.compare_exchange_weak(now, (now | Box::kClosed) - 1,
                                             std::memory_order_acq_rel));
  if ((now & Box::kUsers) == 1) Empty(box);
  return held;
}
inline int64_t BoxAddress(int64_t handle) {
  Box *box = boxes.At(handle);
  if (!box->Pin(static_cast<uint32_t>(handle >> 32))) return 0;
  const auto held = reinterpret_cast<intptr_t>(box->object.load(std::memory_order_relaxed));
  Unpin(box);
  return held;
}

// What is in each comes into the other one. Neither is closed, and whoever has pinned one of them
// uses what was in it then: it must be kept in the other one meanwhile.
inline void ExchangeBoxes(int64_t handle, int64_t other) {
  Box *one = boxes.At(handle);
  Box *two = boxes.At(other);
  two->object.store(one->object.exchange(two->object.load(std::memory_order_acquire),
                                         std::memory_order_acq_rel),
                    std::memory_order_release);
}

// Takes the reference over; 0 for null, and short of memory, with an exception pending.
template <class T, void (*kRelease)(const T *)>
jlong Boxed(JNIEnv *env, T *object) {
  if (object == nullptr) return 0;
  const int64_t bytes = BytesBehind(object);
  Box *box = boxes.Take();
  if (box == nullptr) {
    kRelease(object);
    Raise(env, tutti_status_create(TUTTI_RESOURCE_EXHAUSTED, "no memory for a handle"));
    return 0;
  }
  box->object.store(object, std::memory_order_relaxed);
  box->release = [](void *held) { kRelease(static_cast<const T *>(held)); };
  box->bytes = bytes;
  const uint64_t generation = box->Generation();
  box->state.store(generation << 32 | 1, std::memory_order_release);
  if (bytes != 0) off_heap.Add(env, bytes);
  return static_cast<jlong>(generation << 32 | box->index);
}

// "Tensor"; "object" where that cannot be told.
inline std::string SimpleNameOf(JNIEnv *env, jobject object) {
  std::string name = "object";
  const jclass kind = env->GetObjectClass(object);
  const jclass of_kind = env->GetObjectClass(kind);
  const jmethodID ask = env->GetMethodID(of_kind, "getSimpleName", "()Ljava/lang/String;");
  auto *const text =
      ask == nullptr ? nullptr : static_cast<jstring>(env->CallObjectMethod(kind, ask));
  if (text != nullptr && !env->ExceptionCheck()) {
    if (const char *utf8 = env->GetStringUTFChars(text, nullptr)) {
      name = utf8;
      env->ReleaseStringUTFChars(text, utf8);
    }
  }
  env->ExceptionClear();
  return name;
}

// Holds the object behind a NativeObject for the time of a call.
class Pin {
 public:
  Pin() = default;
  ~Pin() {
    if (box_ != nullptr) Unpin(box_);
  }
  Pin(const Pin &) = delete;
  Pin &operator=(const Pin &) = delete;
  Pin(Pin &&other) noexcept : box_(other.box_) { other.box_ = nullptr; }

  // Null stands for null. False with an exception pending when the object has been closed.
  bool Set(JNIEnv *env, jobject object) {
    if (object == nullptr) return true;
    const jlong handle = env->GetLongField(object, machine.box);
    Box *box = boxes.At(handle);
    if (!box->Pin(static_cast<uint32_t>(handle >> 32))) {
      const std::string text =
          "this " + SimpleNameOf(env, object) + " has been closed; use it before close()";
      Raise(env, tutti_status_create(TUTTI_FAILED_PRECONDITION, text.c_str()));
      return false;
    }
    box_ = box;
    return true;
  }
  void *get() const {
    return box_ == nullptr ? nullptr : box_->object.load(std::memory_order_relaxed);
  }

 private:
  Box *box_ = nullptr;
};

// An array of NativeObjects, pinned.
template <class T>
class Pins {
 public:
  bool Set(JNIEnv *env, jobjectArray array) {
    const jsize count = array == nullptr ? 0 : env->GetArrayLength(array);
    for (jsize i = 0; i < count; ++i) {
      jobject item = env->GetObjectArrayElement(array, i);
      Pin pin;
      const bool pinned = Given(env, item, "an object in an array") && pin.Set(env, item);
      env->DeleteLocalRef(item);
      if (!pinned) return false;
      objects_.push_back(static_cast<T *>(pin.get()));
      pins_.push_back(std::move(pin));
    }
    return true;
  }
  size_t size() const { return objects_.size(); }
  T **data() { return objects_.data(); }

 private:
  std::vector<Pin> pins_;
  std::vector<T *> objects_;
};

// ---- text, which crosses as UTF-8 in byte arrays: Java's own "modified UTF-8" is another encoding

inline std::string BytesOf(JNIEnv *env, jbyteArray array) {
  std::string bytes(static_cast<size_t>(env->GetArrayLength(array)), '\0');
  env->GetByteArrayRegion(array, 0, static_cast<jsize>(bytes.size()),
                          reinterpret_cast<jbyte *>(bytes.data()));
  return bytes;
}

inline jbyteArray ArrayOf(JNIEnv *env, const char *data, size_t size) {
  if (size > INT32_MAX) {
    Raise(env, tutti_status_create(TUTTI_OUT_OF_RANGE, "bytes that no Java array can hold"));
    return nullptr;
  }
  jbyteArray array = env->NewByteArray(static_cast<jsize>(size));
  if (array != nullptr) {
    env->SetByteArrayRegion(array, 0, static_cast<jsize>(size),
                            reinterpret_cast<const jbyte *>(data));
  }
  return array;
}

struct Text {
  std::string bytes;
  bool present = false;

  void Set(JNIEnv *env, jbyteArray array) {
    present = array != nullptr;
    if (present) bytes = BytesOf(env, array);
  }
  const char *get() const { return present ? bytes.c_str() : nullptr; }
};

struct Texts {
  std::vector<std::string> bytes;
  std::vector<const char *> pointers;

  // False with an exception pending when one of them is null.
  bool Set(JNIEnv *env, jobjectArray array) {
    const jsize count = array == nullptr ? 0 : env->GetArrayLength(array);
    for (jsize i = 0; i < count; ++i) {
      auto *item = static_cast<jbyteArray>(env->GetObjectArrayElement(array, i));
      if (!Given(env, item, "a text in an array")) return false;
      bytes.push_back(BytesOf(env, item));
      env->DeleteLocalRef(item);
    }
    for (const std::string &text : bytes) pointers.push_back(text.c_str());
    return true;
  }
};

struct Numbers {
  std::vector<int64_t> all;

  void Set(JNIEnv *env, jlongArray array) {
    if (array == nullptr) return;
    all.resize(static_cast<size_t>(env->GetArrayLength(array)));
    env->GetLongArrayRegion(array, 0, static_cast<jsize>(all.size()),
                            reinterpret_cast<jlong *>(all.data()));
  }
};

// ---- waiting: an interrupted thread stops waiting

// The cancellation of this thread's calls, which asks whether the waiting thread was interrupted.
// It is spent once it was cancelled, and the outermost call after that gets a new one.
class Interrupt {
 public:
  ~Interrupt() { tutti_cancellation_release(cancellation_); }
  tutti_cancellation *Enter() {
    if (depth_++ == 0 && cancellation_ != nullptr &&
        tutti_cancellation_is_cancelled(cancellation_) != 0) {
      tutti_cancellation_release(cancellation_);
      cancellation_ = nullptr;
    }
    if (cancellation_ == nullptr) {
      tutti_status_release(tutti_cancellation_create_polled(&Poll, nullptr, &cancellation_));
    }
    return cancellation_;
  }
  void Leave() { --depth_; }
  static Interrupt &OfThread() {
    thread_local Interrupt interrupt;
    return interrupt;
  }

 private:
  static int32_t Poll(void *) {
    void *env = nullptr;
    if (machine.vm->GetEnv(&env, JNI_VERSION_1_8) != JNI_OK) return 0;  // no thread of Java's
    auto *jni = static_cast<JNIEnv *>(env);
    if (jni->ExceptionCheck()) return 0;
    const jboolean interrupted =
        jni->CallStaticBooleanMethod(machine.bridge, machine.interrupted);
    if (jni->ExceptionCheck()) jni->ExceptionClear();
    return interrupted ? 1 : 0;
  }

  tutti_cancellation *cancellation_ = nullptr;
  int depth_ = 0;
};

// Hints that the thread's next call takes along; set by the package right before it.
struct NextHints {
  bool given = false;
  tutti_communication_options options = TUTTI_COMMUNICATION_OPTIONS_INIT;
};
inline thread_local NextHints next_hints;

// The stream that the thread's calls keep the order of; see DeviceStream.order.
struct CallsStream {
  CallsStream() = default;
  ~CallsStream() { Set(nullptr); }
  CallsStream(const CallsStream &) = delete;
  CallsStream &operator=(const CallsStream &) = delete;
  void Set(tutti_stream *other) {
    if (other != nullptr) tutti_stream_retain(other);
    if (stream != nullptr) tutti_stream_release(stream);
    stream = other;
  }
  tutti_stream *stream = nullptr;
};
inline thread_local CallsStream calls_stream;

class Call {
 public:
  Call() = default;
  ~Call() {
    if (entered_) Interrupt::OfThread().Leave();
  }
  // For a call that only begins something: an interrupt ends waits.
  const tutti_call_options *SetTimeout(jlong timeout) {
    options_.timeout = timeout;
    options_.stream = calls_stream.stream;
    if (next_hints.given) TakeHints();
    return &options_;
  }
  const tutti_call_options *Set(jlong timeout) {
    SetTimeout(timeout);
    options_.cancellation = Interrupt::OfThread().Enter();
    entered_ = true;
    return &options_;
  }

 private:
  void TakeHints() {
    communication_ = next_hints.options;
    options_.communication = &communication_;
    next_hints.given = false;
  }

  tutti_call_options options_ = TUTTI_CALL_OPTIONS_INIT;
  tutti_communication_options communication_ = TUTTI_COMMUNICATION_OPTIONS_INIT;
  bool entered_ = false;
};

// ---- the ambient state of the thread

struct Ambient {
  tutti_runtime *callback_runtime = nullptr;  // of the callback that runs on the thread
  tutti_runtime *scope_runtime = nullptr;     // of the innermost Runtime.asDefault()
  tutti_context *replica = nullptr;           // of the replica function that the thread is in
};
inline thread_local Ambient ambient;

inline tutti_runtime *CurrentRuntime() {
  return ambient.scope_runtime != nullptr ? ambient.scope_runtime : ambient.callback_runtime;
}

}  // namespace tutti_java

#endif  // TUTTI_BINDINGS_SWIG_JAVA_MACHINE_H_
