// Status says whether something went well, and if not, what, where and why: a canonical code, a
// message, typed details (rank, file, offset, ...), causes, and optionally an object of the host
// language (a Python exception, say). Result<T> is a value or a failed Status.
//
//   Status Open(const std::string& path) {
//     if (path.empty()) return Status(StatusCode::kInvalidArgument, "open: the path is empty");
//     TUTTI_ASSIGN_OR_RETURN(Ref<File> file, disk.Open(path));
//     return OkStatus();
//   }
//
// A Status is one pointer wide, null when all is well. It points to a StatusRep that never changes
// once it is shared: With() and its like alter a representation nobody else holds, and copy it
// otherwise. Any thread may read and copy.

#ifndef TUTTI_CORE_BASE_STATUS_H_
#define TUTTI_CORE_BASE_STATUS_H_

#include <concepts>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/ref.h"

namespace tutti {

class HostData;
class StatusRep;

// The canonical codes of gRPC, with their numbers.
enum class StatusCode : int32_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// "INVALID_ARGUMENT" and so on; "UNKNOWN" for a number outside the list.
const char* StatusCodeName(StatusCode code);

struct StatusDetail {
  std::string key;
  std::variant<int64_t, double, std::string> value;

  bool operator==(const StatusDetail&) const = default;
};

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  // A kOk code makes an OK status and drops the message.
  Status(StatusCode code, std::string message);

  // A failure that can be reported when nothing can be allocated.
  static Status OutOfMemory() noexcept;
  // Takes over a reference, as from a C handle. Null is OK.
  static Status Adopt(const StatusRep* rep) noexcept {
    return Status(Ref<const StatusRep>::Adopt(rep));
  }
  static Status Retain(const StatusRep* rep) noexcept {
    return Status(Ref<const StatusRep>::Retain(rep));
  }

  bool ok() const noexcept { return rep_.get() == nullptr; }
  StatusCode code() const noexcept;
  std::string_view message() const noexcept;
  const std::vector<StatusDetail>& details() const noexcept;
  const std::vector<Status>& causes() const noexcept;
  // Null when there is none. `tag` tells bindings whose object it is.
  const HostData* host_object() const noexcept;

  // The detail of that key, or null.
  const StatusDetail* FindDetail(std::string_view key) const noexcept;

  // Builders; they leave an OK status alone. A key that is there already gets the new value.
  Status With(std::string_view key, std::string_view value) &&;
  Status With(std::string_view key, const char* value) && {
    return std::move(*this).With(key, std::string_view(value));
  }
  Status With(std::string_view key, const std::string& value) && {
    return std::move(*this).With(key, std::string_view(value));
  }
  template <std::integral T>
  Status With(std::string_view key, T value) && {
    return std::move(*this).WithInteger(key, static_cast<int64_t>(value));
  }
  template <std::floating_point T>
  Status With(std::string_view key, T value) && {
    return std::move(*this).WithDouble(key, static_cast<double>(value));
  }
  template <typename T>
  Status With(std::string_view key, const T& value) const& {
    return Status(*this).With(key, value);
  }
  Status WithCause(Status cause) &&;
  Status WithCause(Status cause) const& { return Status(*this).WithCause(std::move(cause)); }
  Status WithHostObject(Ref<const HostData> object) &&;
  Status WithHostObject(Ref<const HostData> object) const&;
  // "prefix: message"; details, causes and the host object stay.
  Status WithPrefix(std::string_view prefix) &&;
  Status WithPrefix(std::string_view prefix) const& { return Status(*this).WithPrefix(prefix); }

  // "INVALID_ARGUMENT: message [rank=2, file=x]; caused by: NOT_FOUND: ..." or "OK".
  std::string ToString() const;

  const StatusRep* rep() const noexcept { return rep_.get(); }
  // Gives the reference up, as to a C handle; the status is OK afterwards.
  [[nodiscard]] const StatusRep* release() noexcept { return rep_.release(); }

 private:
  explicit Status(Ref<const StatusRep> rep) noexcept : rep_(std::move(rep)) {}
  Status WithInteger(std::string_view key, int64_t value) &&;
  Status WithDouble(std::string_view key, double value) &&;
  StatusRep* Mutable();
  void SetDetail(std::string_view key, std::variant<int64_t, double, std::string> value);

  Ref<const StatusRep> rep_;
};

inline Status OkStatus() noexcept { return Status(); }

// What a failed Status points to; C's tutti_status* is a pointer to one.
class StatusRep final : public RefCounted {
 public:
  StatusRep(StatusCode code, std::string message);
  // For messages that live forever.
  struct Literal {
    const char* text;
  };
  StatusRep(StatusCode code, Literal message) noexcept;

  StatusCode code() const noexcept { return code_; }
  // Ends with a 0 byte: message().data() is a C string.
  std::string_view message() const noexcept { return message_; }
  const std::vector<StatusDetail>& details() const noexcept { return details_; }
  const std::vector<Status>& causes() const noexcept { return causes_; }
  const HostData* host_object() const noexcept { return host_object_.get(); }

 private:
  friend class Status;
  ~StatusRep() override;
  void OnLastRelease() const noexcept override;

  StatusCode code_;
  bool is_static_ = false;
  std::string text_;
  std::string_view message_;
  std::vector<StatusDetail> details_;
  std::vector<Status> causes_;
  Ref<const HostData> host_object_;
};

// A T, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) noexcept : has_value_(true) {  // NOLINT: implicit on purpose
    new (&value_) T(std::move(value));
  }
  template <typename U>
    requires(std::is_constructible_v<T, U &&> && !std::is_same_v<std::remove_cvref_t<U>, T> &&
             !std::is_same_v<std::remove_cvref_t<U>, Status> &&
             !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             std::is_convertible_v<U &&, T>)
  Result(U&& value) : has_value_(true) {  // NOLINT: implicit on purpose
    new (&value_) T(std::forward<U>(value));
  }
  Result(Status status) noexcept : status_(std::move(status)) {  // NOLINT: implicit on purpose
    if (status_.ok()) status_ = MissingValue();
    ClearValue();
  }
  Result(const Result& other) : status_(other.status_), has_value_(other.has_value_) {
    if (has_value_) {
      new (&value_) T(other.value_);
    } else {
      ClearValue();
    }
  }
  Result(Result&& other) noexcept
      : status_(std::move(other.status_)), has_value_(other.has_value_) {
    if (has_value_) {
      new (&value_) T(std::move(other.value_));
    } else {
      ClearValue();
    }
  }
  Result& operator=(Result other) noexcept {
    if (has_value_) value_.~T();
    has_value_ = other.has_value_;
    status_ = std::move(other.status_);
    if (has_value_) new (&value_) T(std::move(other.value_));
    return *this;
  }
  ~Result() {
    if (has_value_) value_.~T();
  }

  bool ok() const noexcept { return has_value_; }
  const Status& status() const& noexcept { return status_; }
  Status status() && noexcept { return std::move(status_); }

  // Only when ok(). A temporary gives its value away, so that `for (... : *List())` is safe.
  T& value() & noexcept { return value_; }
  const T& value() const& noexcept { return value_; }
  T value() && noexcept { return std::move(value_); }
  T& operator*() & noexcept { return value_; }
  const T& operator*() const& noexcept { return value_; }
  T operator*() && noexcept { return std::move(value_); }
  T* operator->() noexcept { return &value_; }
  const T* operator->() const noexcept { return &value_; }

 private:
  static Status MissingValue() {
    return Status(StatusCode::kInternal, "a Result was made from an OK status and has no value");
  }

  // The compiler cannot see that has_value_ guards every use, and would warn of uninitialised
  // memory; only failures pay for this.
  void ClearValue() noexcept { __builtin_memset(static_cast<void*>(&value_), 0, sizeof(T)); }

  Status status_;
  union {
    T value_;
  };
  bool has_value_ = false;
};

#define TUTTI_STATUS_CONCAT_INNER_(a, b) a##b
#define TUTTI_STATUS_CONCAT_(a, b) TUTTI_STATUS_CONCAT_INNER_(a, b)

// Returns from the enclosing function when `expr`, a Status, has failed.
#define TUTTI_RETURN_IF_ERROR(...)                                                        \
  do {                                                                                    \
    ::tutti::Status tutti_status_ = (__VA_ARGS__);                                        \
    if (__builtin_expect(!tutti_status_.ok(), 0)) return tutti_status_;                   \
  } while (false)

// TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, MakeTensor(...)): assigns the value or returns the
// failed status.
#define TUTTI_ASSIGN_OR_RETURN(lhs, ...) \
  TUTTI_ASSIGN_OR_RETURN_IMPL_(TUTTI_STATUS_CONCAT_(tutti_result_, __LINE__), lhs, __VA_ARGS__)
#define TUTTI_ASSIGN_OR_RETURN_IMPL_(result, lhs, ...)                            \
  auto result = (__VA_ARGS__);                                                    \
  if (__builtin_expect(!result.ok(), 0)) return std::move(result).status();       \
  lhs = std::move(result).value()

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_STATUS_H_
