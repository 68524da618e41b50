#include "core/base/status.h"

#include <cstdio>

#include "core/base/host_data.h"

namespace tutti {

RefCounted::~RefCounted() = default;

void RefCounted::OnLastRelease() const noexcept { delete this; }

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "OK";
    case StatusCode::kCancelled: return "CANCELLED";
    case StatusCode::kUnknown: return "UNKNOWN";
    case StatusCode::kInvalidArgument: return "INVALID_ARGUMENT";
    case StatusCode::kDeadlineExceeded: return "DEADLINE_EXCEEDED";
    case StatusCode::kNotFound: return "NOT_FOUND";
    case StatusCode::kAlreadyExists: return "ALREADY_EXISTS";
    case StatusCode::kPermissionDenied: return "PERMISSION_DENIED";
    case StatusCode::kResourceExhausted: return "RESOURCE_EXHAUSTED";
    case StatusCode::kFailedPrecondition: return "FAILED_PRECONDITION";
    case StatusCode::kAborted: return "ABORTED";
    case StatusCode::kOutOfRange: return "OUT_OF_RANGE";
    case StatusCode::kUnimplemented: return "UNIMPLEMENTED";
    case StatusCode::kInternal: return "INTERNAL";
    case StatusCode::kUnavailable: return "UNAVAILABLE";
    case StatusCode::kDataLoss: return "DATA_LOSS";
    case StatusCode::kUnauthenticated: return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

StatusRep::StatusRep(StatusCode code, std::string message)
    : code_(code), text_(std::move(message)), message_(text_) {}

StatusRep::StatusRep(StatusCode code, Literal message) noexcept
    : code_(code), is_static_(true), message_(message.text) {}

StatusRep::~StatusRep() = default;

void StatusRep::OnLastRelease() const noexcept {
  if (!is_static_) delete this;
}

Status::Status(StatusCode code, std::string message) {
  if (code != StatusCode::kOk) rep_ = MakeRef<const StatusRep>(code, std::move(message));
}

Status Status::OutOfMemory() noexcept {
  // Its own reference is never given up, and nothing destroys it at exit.
  alignas(StatusRep) static unsigned char storage[sizeof(StatusRep)];
  static const StatusRep* const rep = new (storage)
      StatusRep(StatusCode::kResourceExhausted, StatusRep::Literal{"out of memory"});
  return Retain(rep);
}

StatusCode Status::code() const noexcept { return ok() ? StatusCode::kOk : rep_->code(); }

std::string_view Status::message() const noexcept {
  return ok() ? std::string_view("") : rep_->message();
}

namespace {

// Takes no memory, which may have run out, and nothing destroys it at exit.
template <typename T>
const std::vector<T>& Nothing() noexcept {
  alignas(std::vector<T>) static unsigned char storage[sizeof(std::vector<T>)];
  static const std::vector<T>* const none = new (storage) std::vector<T>();
  return *none;
}

}  // namespace

const std::vector<StatusDetail>& Status::details() const noexcept {
  return ok() ? Nothing<StatusDetail>() : rep_->details();
}

const std::vector<Status>& Status::causes() const noexcept {
  return ok() ? Nothing<Status>() : rep_->causes();
}

const HostData* Status::host_object() const noexcept {
  return ok() ? nullptr : rep_->host_object();
}

const StatusDetail* Status::FindDetail(std::string_view key) const noexcept {
  for (const StatusDetail& detail : details()) {
    if (detail.key == key) return &detail;
  }
  return nullptr;
}

namespace {

// A variant whose copying throws half-made destroys what it has not got: the text is copied first.
StatusDetail Copy(const StatusDetail& detail) {
  StatusDetail copy{detail.key, int64_t{0}};
  if (const auto* text = std::get_if<std::string>(&detail.value)) {
    copy.value = std::string(*text);
  } else {
    copy.value = detail.value;
  }
  return copy;
}

}  // namespace

StatusRep* Status::Mutable() {
  if (!rep_->IsUnique() || rep_->is_static_) {
    auto copy = MakeRef<StatusRep>(rep_->code_, std::string(rep_->message_));
    copy->details_.reserve(rep_->details_.size());
    for (const StatusDetail& detail : rep_->details_) copy->details_.push_back(Copy(detail));
    copy->causes_ = rep_->causes_;
    copy->host_object_ = rep_->host_object_;
    rep_ = std::move(copy);
  }
  return const_cast<StatusRep*>(rep_.get());
}

void Status::SetDetail(std::string_view key, std::variant<int64_t, double, std::string> value) {
  if (ok()) return;
  StatusRep* rep = Mutable();
  for (StatusDetail& detail : rep->details_) {
    if (detail.key == key) {
      detail.value = std::move(value);
      return;
    }
  }
  rep->details_.push_back({std::string(key), std::move(value)});
}

Status Status::With(std::string_view key, std::string_view value) && {
  SetDetail(key, std::string(value));
  return std::move(*this);
}

Status Status::WithInteger(std::string_view key, int64_t value) && {
  SetDetail(key, value);
  return std::move(*this);
}

Status Status::WithDouble(std::string_view key, double value) && {
  SetDetail(key, value);
  return std::move(*this);
}

Status Status::WithCause(Status cause) && {
  if (!ok() && !cause.ok()) Mutable()->causes_.push_back(std::move(cause));
  return std::move(*this);
}

Status Status::WithHostObject(Ref<const HostData> object) && {
  if (!ok()) Mutable()->host_object_ = std::move(object);
  return std::move(*this);
}

Status Status::WithHostObject(Ref<const HostData> object) const& {
  return Status(*this).WithHostObject(std::move(object));
}

Status Status::WithPrefix(std::string_view prefix) && {
  if (!ok()) {
    StatusRep* rep = Mutable();
    std::string text(prefix);
    text += ": ";
    text += rep->message_;
    rep->text_ = std::move(text);
    rep->message_ = rep->text_;
  }
  return std::move(*this);
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  std::string text = StatusCodeName(code());
  text += ": ";
  text += message();
  if (!details().empty()) {
    text += " [";
    const char* separator = "";
    for (const StatusDetail& detail : details()) {
      text += separator;
      text += detail.key;
      text += '=';
      if (const auto* integer = std::get_if<int64_t>(&detail.value)) {
        text += std::to_string(*integer);
      } else if (const auto* number = std::get_if<double>(&detail.value)) {
        char buffer[32];
        std::snprintf(buffer, sizeof(buffer), "%g", *number);
        text += buffer;
      } else {
        text += std::get<std::string>(detail.value);
      }
      separator = ", ";
    }
    text += ']';
  }
  for (const Status& cause : causes()) {
    text += "; caused by: ";
    text += cause.ToString();
  }
  return text;
}

}  // namespace tutti
