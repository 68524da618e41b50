// What the runner is written with: owned handles of the C interface, and a failed status as an
// exception.
#ifndef TESTS_CONFORMANCE_CPP_HANDLES_H_
#define TESTS_CONFORMANCE_CPP_HANDLES_H_

#include <tutti/tutti.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace conformance {

// A call of the library failed.
class Failure : public std::runtime_error {
 public:
  Failure(tutti_code code, const std::string &message) : std::runtime_error(message), code(code) {}
  const tutti_code code;
};

// The case names something that the runner does not know.
class NotCovered : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The library answered, and not what the case expects.
class Mismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void Check(tutti_status *status) {
  if (status == nullptr) return;
  Failure failure(tutti_status_get_code(status), tutti_status_get_message(status));
  tutti_status_release(status);
  throw failure;
}

template <class T, void (*RetainFn)(const T *), void (*ReleaseFn)(const T *)>
class Handle {
 public:
  Handle() = default;
  // A reference of its own to what somebody else holds.
  static Handle Share(const T *object) {
    Handle handle;
    RetainFn(object);
    handle.object_ = const_cast<T *>(object);
    return handle;
  }
  Handle(const Handle &other) : Handle(Share(other.object_)) {}
  Handle(Handle &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle &operator=(Handle other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() { ReleaseFn(object_); }

  T *get() const { return object_; }
  T **out() { return &object_; }
  T *release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T *object_ = nullptr;
};

#define CONFORMANCE_HANDLE_(Name, noun) \
  using Name = Handle<tutti_##noun, tutti_##noun##_retain, tutti_##noun##_release>
CONFORMANCE_HANDLE_(Bytes, bytes);
CONFORMANCE_HANDLE_(ClusterResolver, cluster_resolver);
CONFORMANCE_HANDLE_(ClusterSpec, cluster_spec);
CONFORMANCE_HANDLE_(DataOptions, data_options);
CONFORMANCE_HANDLE_(Dataset, dataset);
CONFORMANCE_HANDLE_(DeviceSpec, device_spec);
CONFORMANCE_HANDLE_(DistributedDataset, distributed_dataset);
CONFORMANCE_HANDLE_(DistributedIterator, distributed_iterator);
CONFORMANCE_HANDLE_(Function, function);
CONFORMANCE_HANDLE_(Iterator, iterator);
CONFORMANCE_HANDLE_(RecordWriter, tf_record_writer);
CONFORMANCE_HANDLE_(Runtime, runtime);
CONFORMANCE_HANDLE_(Spec, spec);
CONFORMANCE_HANDLE_(Strategy, strategy);
CONFORMANCE_HANDLE_(Tensor, tensor);
CONFORMANCE_HANDLE_(Treespec, treespec);
CONFORMANCE_HANDLE_(Value, value);
CONFORMANCE_HANDLE_(Variable, variable);
#undef CONFORMANCE_HANDLE_

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_HANDLES_H_
