#include "core/cluster/resolve/http_client.h"

#include <dlfcn.h>
#include <strings.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {
namespace {

// Of libcurl's interface, whose numbers do not change: what is used of it.
enum CurlOption : int {
  kCurlWriteData = 10'001,
  kCurlUrl = 10'002,
  kCurlErrorBuffer = 10'010,
  kCurlPostFields = 10'015,
  kCurlUserAgent = 10'018,
  kCurlHttpHeader = 10'023,
  kCurlHeaderData = 10'029,
  kCurlCaInfo = 10'065,
  kCurlNoProxy = 10'177,
  kCurlWriteFunction = 20'011,
  kCurlHeaderFunction = 20'079,
  kCurlFollowLocation = 52,
  kCurlPostFieldSize = 60,
  kCurlNoProgress = 43,
  kCurlNoSignal = 99,
  kCurlTimeoutMs = 155,
  kCurlConnectTimeoutMs = 156,
  kCurlProtocols = 181,
  kCurlProgressFunction = 20'219,
};
constexpr int kCurlResponseCode = 0x200002;
constexpr long kCurlGlobalDefault = 3;
constexpr long kCurlHttpAndHttps = 3;
constexpr size_t kCurlErrorBytes = 256;
constexpr int64_t kPollMs = 50;
constexpr int kCurlWriteError = 23;
constexpr int kCurlTimedOut = 28;
constexpr int kCurlAbortedByCallback = 42;
constexpr int kCurlCertificateRefused = 60;
constexpr int kCurlCaFileUnreadable = 77;

struct Curl {
  int (*global_init)(long flags);
  void* (*easy_init)();
  int (*easy_setopt)(void* handle, int option, ...);
  int (*easy_perform)(void* handle);
  int (*easy_getinfo)(void* handle, int info, ...);
  void (*easy_cleanup)(void* handle);
  const char* (*easy_strerror)(int code);
  void* (*slist_append)(void* list, const char* text);
  void (*slist_free_all)(void* list);
};

template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  return *function != nullptr;
}

// Loaded once and never unloaded: it has threads and state of its own.
Result<const Curl*> LoadCurl() {
  static const Result<const Curl*> loaded = []() -> Result<const Curl*> {
    void* library = nullptr;
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
      library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) break;
    }
    if (library == nullptr) {
      return FailedPrecondition("libcurl.so.4 cannot be loaded, by which services are asked over "
                                "HTTP; install it (Debian: apt-get install libcurl4)");
    }
    static Curl curl;
    if (!Resolve(library, "curl_global_init", &curl.global_init) ||
        !Resolve(library, "curl_easy_init", &curl.easy_init) ||
        !Resolve(library, "curl_easy_setopt", &curl.easy_setopt) ||
        !Resolve(library, "curl_easy_perform", &curl.easy_perform) ||
        !Resolve(library, "curl_easy_getinfo", &curl.easy_getinfo) ||
        !Resolve(library, "curl_easy_cleanup", &curl.easy_cleanup) ||
        !Resolve(library, "curl_easy_strerror", &curl.easy_strerror) ||
        !Resolve(library, "curl_slist_append", &curl.slist_append) ||
        !Resolve(library, "curl_slist_free_all", &curl.slist_free_all)) {
      return FailedPrecondition("the libcurl of this machine lacks functions of version 7.16");
    }
    if (curl.global_init(kCurlGlobalDefault) != 0) {
      return FailedPrecondition("libcurl cannot be initialised");
    }
    return &curl;
  }();
  return loaded;
}

thread_local const AskingScope* current_asking = nullptr;

struct HttpAnswer {
  long status = 0;
  std::string body;
  bool is_too_long = false;
  std::optional<int64_t> retry_after_s;
  std::string location;
};

size_t TakeBody(const char* bytes, size_t size, size_t count, void* object) {
  auto* answer = static_cast<HttpAnswer*>(object);
  if (answer->body.size() + size * count > HttpRequest::kMostBytes) {
    answer->is_too_long = true;
    return 0;
  }
  try {
    answer->body.append(bytes, size * count);
  } catch (...) {
    return 0;
  }
  return size * count;
}

size_t TakeHeader(const char* bytes, size_t size, size_t count, void* object) {
  auto* answer = static_cast<HttpAnswer*>(object);
  try {
    const std::string_view line(bytes, size * count);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return size * count;
    const std::string name(line.substr(0, colon));
    const std::string_view value = Trim(line.substr(colon + 1));
    if (::strcasecmp(name.c_str(), "retry-after") == 0) answer->retry_after_s = ParseInt64(value);
    if (::strcasecmp(name.c_str(), "location") == 0) answer->location = std::string(value);
  } catch (...) {
    return 0;
  }
  return size * count;
}

// libcurl asks it at least once a second; anything but 0 ends the transfer.
int MayGoOn(void*, int64_t, int64_t, int64_t, int64_t) { return CheckAsking("").ok() ? 0 : 1; }

std::string WithoutSecrets(std::string text, const HttpRequest& request) {
  for (const std::string& secret : request.secrets) {
    if (secret.empty()) continue;
    for (size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at)) {
      text.replace(at, secret.size(), "***");
      at += 3;
    }
  }
  return text;
}

// "https://host:port", of an address; the rest may hold what is not for a log.
std::string_view HostOf(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t end = url.find_first_of("/?#", scheme == std::string_view::npos ? 0 : scheme + 3);
  return url.substr(0, end);
}

int64_t MillisecondsTo(HttpDeadline deadline) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline -
                                                               std::chrono::steady_clock::now())
      .count();
}

Status TookTooLong(std::string_view who, const HttpRequest& request) {
  return DeadlineExceeded("{}: {} has not answered in time", who, HostOf(request.url));
}

Result<HttpAnswer> SendHttp(const Curl& curl, const HttpRequest& request, HttpDeadline deadline,
                            std::string_view who) {
  const int64_t left_ms = MillisecondsTo(deadline);
  if (left_ms <= 0) return TookTooLong(who, request);
  const std::unique_ptr<void, void (*)(void*)> handle(curl.easy_init(), curl.easy_cleanup);
  if (handle == nullptr) return ResourceExhausted("{}: libcurl has no memory", who);
  std::unique_ptr<void, void (*)(void*)> headers(nullptr, curl.slist_free_all);
  std::vector<std::string> lines = request.headers;
  lines.push_back("Accept: application/json");
  if (request.post) lines.push_back("Content-Type: application/json");
  for (const std::string& line : lines) {
    void* longer = curl.slist_append(headers.get(), line.c_str());
    if (longer == nullptr) return ResourceExhausted("{}: libcurl has no memory", who);
    (void)headers.release();
    headers.reset(longer);
  }
  HttpAnswer answer;
  char said[kCurlErrorBytes] = "";
  const auto set = [&](CurlOption option, auto value) {
    (void)curl.easy_setopt(handle.get(), option, value);
  };
  set(kCurlUrl, request.url.c_str());
  set(kCurlErrorBuffer, static_cast<char*>(said));
  set(kCurlUserAgent, "tutti");
  set(kCurlHttpHeader, headers.get());
  set(kCurlWriteFunction, &TakeBody);
  set(kCurlWriteData, &answer);
  set(kCurlHeaderFunction, &TakeHeader);
  set(kCurlHeaderData, &answer);
  set(kCurlNoSignal, 1L);
  set(kCurlNoProgress, 0L);
  set(kCurlProgressFunction, &MayGoOn);
  set(kCurlFollowLocation, 0L);
  set(kCurlProtocols, kCurlHttpAndHttps);
  set(kCurlTimeoutMs, static_cast<long>(left_ms));
  set(kCurlConnectTimeoutMs, static_cast<long>(left_ms));
  if (request.no_proxy) set(kCurlNoProxy, "*");
  if (!request.ca_file.empty()) set(kCurlCaInfo, request.ca_file.c_str());
  if (request.post) {
    set(kCurlPostFieldSize, static_cast<long>(request.body.size()));
    set(kCurlPostFields, request.body.c_str());
  }
  const int code = curl.easy_perform(handle.get());
  if (code == 0) {
    (void)curl.easy_getinfo(handle.get(), kCurlResponseCode, &answer.status);
    return answer;
  }
  const std::string why =
      WithoutSecrets(said[0] != '\0' ? std::string(said) : curl.easy_strerror(code), request);
  if (code == kCurlTimedOut) return TookTooLong(who, request);
  if (code == kCurlAbortedByCallback) {
    const Status ended = CheckAsking(who);
    return ended.ok() ? Cancelled("{}: the question was given up", who) : ended;
  }
  if (code == kCurlWriteError && answer.is_too_long) {
    return ResourceExhausted("{}: {} answers with more than {}, which is no list of tasks", who,
                             HostOf(request.url), HumanBytes(HttpRequest::kMostBytes));
  }
  if (code == kCurlCertificateRefused || code == kCurlCaFileUnreadable) {
    return Unauthenticated("{}: {} cannot prove who it is: {} (certificates of {})", who,
                           HostOf(request.url), why,
                           request.ca_file.empty() ? "the system" : Quote(request.ca_file));
  }
  return Unavailable("{}: {} cannot be asked: {}", who, HostOf(request.url), why);
}

// What the service says of itself, in JSON or in text, as far as it can be printed.
std::string ReasonOf(const HttpAnswer& answer, const HttpRequest& request) {
  std::string reason;
  const auto json = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) {
    const auto& error = json.contains("error") && json["error"].is_object() ? json["error"] : json;
    if (error.contains("message") && error["message"].is_string()) reason = error["message"];
  }
  if (reason.empty()) reason = answer.body.substr(0, 200);
  if (reason.empty() || !IsReadable(reason)) return "nothing more";
  return Quote(WithoutSecrets(reason.substr(0, 400), request));
}

Status StatusOf(const HttpAnswer& answer, const HttpRequest& request, std::string_view who) {
  const std::string_view host = HostOf(request.url);
  const std::string reason = ReasonOf(answer, request);
  if (answer.status == 401) {
    return Unauthenticated("{}: {} does not take the token (401), and says {}", who, host, reason);
  }
  if (answer.status == 403) {
    return PermissionDenied("{}: {} does not allow it to this account (403), and says {}", who,
                            host, reason);
  }
  if (answer.status == 404) {
    return NotFound("{}: {} does not know that (404), and says {}", who, host, reason);
  }
  if (answer.status == 429) {
    return ResourceExhausted("{}: {} is asked too often (429), and says {}", who, host, reason);
  }
  if (answer.status >= 300 && answer.status < 400) {
    return FailedPrecondition("{}: {} sends on to {} ({}), which is not followed, since the token "
                              "would go along",
                              who, host, Quote(HostOf(answer.location)), answer.status);
  }
  if (answer.status >= 500) {
    return Unavailable("{}: {} fails ({}), and says {}", who, host, answer.status, reason);
  }
  return FailedPrecondition("{}: {} answers with the status {}, and says {}", who, host,
                            answer.status, reason);
}

}  // namespace

AskingScope::AskingScope(const CallOptions& call, const Clock& clock)
    : before_(current_asking),
      cancellation_(call.cancellation),
      deadline_(call.deadline.is_infinite()
                    ? HttpDeadline::max()
                    : std::chrono::steady_clock::now() +
                          std::chrono::nanoseconds(call.deadline.RemainingNs(clock))) {
  current_asking = this;
}

AskingScope::~AskingScope() { current_asking = before_; }

Status CheckAsking(std::string_view who, HttpDeadline* deadline) {
  if (current_asking == nullptr) return OkStatus();
  Cancellation* cancellation = current_asking->cancellation_;
  if (cancellation != nullptr && (cancellation->cancelled() || cancellation->PollNow())) {
    return cancellation->reason().WithPrefix(who);
  }
  if (deadline != nullptr) *deadline = std::min(*deadline, current_asking->deadline_);
  if (std::chrono::steady_clock::now() < current_asking->deadline_) return OkStatus();
  return DeadlineExceeded("{}: the call's time is over before the question is answered", who);
}

Result<std::string> AskService(const HttpRequest& request, HttpDeadline deadline,
                               std::string_view who) {
  // Who has given up is told so, not that libcurl is missing.
  TUTTI_RETURN_IF_ERROR(CheckAsking(who));
  const Result<const Curl*> curl = LoadCurl();
  if (!curl.ok()) return curl.status().WithPrefix(who);
  while (true) {
    TUTTI_RETURN_IF_ERROR(CheckAsking(who, &deadline));
    TUTTI_ASSIGN_OR_RETURN(HttpAnswer answer, SendHttp(**curl, request, deadline, who));
    if (answer.status >= 200 && answer.status < 300) return std::move(answer.body);
    const Status status = StatusOf(answer, request, who);
    if (answer.status != 429 && answer.status != 503) return status;
    const int64_t wait_ms = std::clamp<int64_t>(answer.retry_after_s.value_or(1), 0, 3600) * 1000;
    if (MillisecondsTo(deadline) <= wait_ms) return status;
    const HttpDeadline again = std::chrono::steady_clock::now() +
                               std::chrono::milliseconds(std::max<int64_t>(wait_ms, kPollMs));
    while (std::chrono::steady_clock::now() < again) {
      TUTTI_RETURN_IF_ERROR(CheckAsking(who));
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
    }
  }
}

std::string EscapeUrl(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      escaped += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    escaped += '%';
    escaped += kDigits[byte >> 4];
    escaped += kDigits[byte & 15];
  }
  return escaped;
}

}  // namespace tutti
