// Statuses: reading what went wrong, and making one in a callback.
#include <tutti/status.h>
#include <unistd.h>

#include <string>
#include <variant>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/hook.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/base/host_data.h"
#include "core/base/text.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

Status MakeStatus(tutti_code code, const char *message) {
  if (code < TUTTI_CANCELLED || code > TUTTI_UNAUTHENTICATED) code = TUTTI_UNKNOWN;
  return Status(static_cast<StatusCode>(code), message != nullptr ? message : "");
}

// The detail goes into the caller's own object: nobody else holds it, so that With() alters it in
// place and the handle stays valid.
template <class T>
Status AddDetail(Call call, tutti_status *status, const char *key, const T &value) {
  const StatusRep *rep = FromHandle(status);
  if (!rep->IsUnique() || rep == Status::OutOfMemory().rep()) {
    return FailedPrecondition(
        "{}: somebody else holds this status too; add details before it is "
        "given away or retained",
        call.function);
  }
  static_cast<void>(Status::Adopt(rep).With(key, value).release());
  return OkStatus();
}

const HostData *FindHostObject(const StatusRep &status, const void *tag) {
  const HostData *host = status.host_object();
  if (host != nullptr && host->tag() == tag) return host;
  for (const Status &cause : status.causes()) {
    if (cause.ok()) continue;
    if (const HostData *found = FindHostObject(*cause.rep(), tag)) return found;
  }
  return nullptr;
}

// "INVALID_ARGUMENT: the message" and a line more for each cause.
std::string DescribeAll(const StatusRep &status, const std::string &indent) {
  std::string text = Format("{}{}: {}\n", indent, StatusCodeName(status.code()),
                            status.message());
  for (const Status &cause : status.causes()) {
    if (!cause.ok()) text += DescribeAll(*cause.rep(), indent + "  because of ");
  }
  return text;
}

}  // namespace

tutti_status *tutti_status_create(tutti_code code, const char *message) {
  return GiveStatus(GuardedStatus(__func__, From::kAny,
                                  [&](Call) -> Status { return MakeStatus(code, message); }));
}

tutti_status *tutti_status_create_with_host_object(tutti_code code, const char *message,
                                                   const void *tag, void *object,
                                                   tutti_destroy_fn destroy) {
  Hook owner(destroy, object);
  return GiveStatus(GuardedStatus(__func__, From::kAny, [&](Call) -> Status {
    Ref<HostData> host = owner.Take(DefaultCallbackExecutor().get(), tag);
    return MakeStatus(code, message).WithHostObject(std::move(host));
  }));
}

tutti_status *tutti_status_add_int64(tutti_status *status, const char *key, int64_t value) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, status, key);
    return AddDetail(call, status, key, value);
  });
}

tutti_status *tutti_status_add_string(tutti_status *status, const char *key, const char *value) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, status, key, value);
    return AddDetail(call, status, key, value);
  });
}

tutti_code tutti_status_get_code(const tutti_status *status) {
  return status == nullptr ? TUTTI_OK : static_cast<tutti_code>(FromHandle(status)->code());
}

const char *tutti_status_get_message(const tutti_status *status) {
  return status == nullptr ? "" : FromHandle(status)->message().data();
}

const char *tutti_code_get_name(tutti_code code) {
  return StatusCodeName(static_cast<StatusCode>(code));
}

size_t tutti_status_get_detail_count(const tutti_status *status) {
  return status == nullptr ? 0 : FromHandle(status)->details().size();
}

tutti_status *tutti_status_get_detail(const tutti_status *status, size_t index,
                                      tutti_detail *out_detail) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, status, out_detail);
    const auto &details = FromHandle(status)->details();
    if (index >= details.size()) {
      return OutOfRange("{}: detail {} of {}", call.function, index, details.size());
    }
    tutti_detail detail = TUTTI_DETAIL_INIT;
    detail.key = details[index].key.c_str();
    const auto &value = details[index].value;
    if (const int64_t *number = std::get_if<int64_t>(&value)) {
      detail.kind = TUTTI_DETAIL_INT64;
      detail.int64_value = *number;
    } else if (const double *real = std::get_if<double>(&value)) {
      detail.kind = TUTTI_DETAIL_DOUBLE;
      detail.double_value = *real;
    } else {
      detail.kind = TUTTI_DETAIL_STRING;
      detail.string_value = ViewOf(std::get<std::string>(value));
    }
    return WriteStruct(call, &detail, sizeof(detail), out_detail);
  });
}

size_t tutti_status_get_cause_count(const tutti_status *status) {
  return status == nullptr ? 0 : FromHandle(status)->causes().size();
}

const tutti_status *tutti_status_get_cause(const tutti_status *status, size_t index) {
  if (index >= tutti_status_get_cause_count(status)) return nullptr;
  return ToHandle(FromHandle(status)->causes()[index].rep());
}

void *tutti_status_get_host_object(const tutti_status *status, const void *tag) {
  if (status == nullptr) return nullptr;
  const HostData *host = FindHostObject(*FromHandle(status), tag);
  return host == nullptr ? nullptr : host->data();
}

tutti_code tutti_status_report(tutti_status *status, const char *what) {
  if (status == nullptr) return TUTTI_OK;
  const tutti_code code = tutti_status_get_code(status);
  [[maybe_unused]] const Status told = GuardedStatus(__func__, From::kAny, [&](Call) -> Status {
    std::string text;
    if (what != nullptr && *what != '\0') text = Format("{}: ", what);
    text += DescribeAll(*FromHandle(status), "");
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    return OkStatus();
  });
  tutti_status_release(status);
  return code;
}

void tutti_status_retain(const tutti_status *status) { RetainHandle(status); }
void tutti_status_release(const tutti_status *status) { ReleaseHandle(status); }
