// Intrusive reference counting: RefCounted is the base of everything a C handle can point to,
// Ref<T> owns one reference.
//
//   Ref<Widget> widget = MakeRef<Widget>(3);         // count 1
//   Widget* raw = widget.release();                  // the reference is the caller's now ...
//   Ref<Widget> again = Ref<Widget>::Adopt(raw);     // ... and is owned again, still count 1
//   Ref<Widget> second = Ref<Widget>::Retain(raw);   // count 2
//
// Threads: counts may change on any thread. Access to the object itself follows the object's own
// rules; a Ref<T> variable is like a raw pointer variable: reading it while another thread writes
// it is a race.

#ifndef TUTTI_CORE_BASE_REF_H_
#define TUTTI_CORE_BASE_REF_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tutti {

class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void Retain() const noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void Release() const noexcept {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) OnLastRelease();
  }
  // Takes a reference unless the last one is gone already. For registries that know objects without
  // owning them.
  bool TryRetain() const noexcept {
    int64_t count = count_.load(std::memory_order_relaxed);
    while (count > 0) {
      if (count_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) return true;
    }
    return false;
  }
  // True when the caller's reference is the only one: nobody else can look at the object.
  bool IsUnique() const noexcept { return count_.load(std::memory_order_acquire) == 1; }

 protected:
  RefCounted() noexcept = default;
  virtual ~RefCounted();
  // Runs on the thread that gave up the last reference. Never blocks, joins or calls the host.
  virtual void OnLastRelease() const noexcept;

 private:
  mutable std::atomic<int64_t> count_{1};
};

template <typename T>
class Ref {
 public:
  Ref() noexcept = default;
  Ref(std::nullptr_t) noexcept {}  // NOLINT: a null pointer reads as a null Ref
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_ != nullptr) object_->Retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  Ref(const Ref<U>& other) noexcept : object_(other.get()) {  // NOLINT: upcasts are implicit
    if (object_ != nullptr) object_->Retain();
  }
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  Ref(Ref<U>&& other) noexcept : object_(other.release()) {}  // NOLINT: upcasts are implicit
  ~Ref() {
    if (object_ != nullptr) object_->Release();
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  // Takes over a reference that the caller owns.
  static Ref Adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  // Adds a reference to an object that somebody else owns. NULL-safe.
  static Ref Retain(T* object) noexcept {
    if (object != nullptr) object->Retain();
    return Adopt(object);
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  // Gives the reference up to the caller.
  [[nodiscard]] T* release() noexcept { return std::exchange(object_, nullptr); }
  void reset() noexcept { *this = Ref(); }

  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }
  friend bool operator==(const Ref& a, std::nullptr_t) noexcept { return a.object_ == nullptr; }

 private:
  T* object_ = nullptr;
};

template <typename T, typename... Args>
Ref<T> MakeRef(Args&&... args) {
  return Ref<T>::Adopt(new T(std::forward<Args>(args)...));
}

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_REF_H_
