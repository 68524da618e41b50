// Questions to services over HTTP, by libcurl, which is loaded when the first one is asked: it
// brings thirty libraries with it that no other process needs.
//
//   HttpRequest request;
//   request.url = "https://10.0.0.1/api/v1/namespaces/default/pods";
//   request.headers = {"Authorization: Bearer " + token};
//   request.secrets = {token};
//   TUTTI_ASSIGN_OR_RETURN(const std::string body, AskService(request, deadline, "Kubernetes"));

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_HTTP_CLIENT_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_HTTP_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/status.h"

namespace tutti {

struct HttpRequest {
  static constexpr size_t kMostBytes = 32 << 20;

  std::string url;  // http or https
  bool post = false;
  std::string body;                  // JSON, of a post
  std::vector<std::string> headers;  // "Name: value"
  std::string ca_file;               // empty: the system's
  bool no_proxy = false;             // whatever the environment says
  std::vector<std::string> secrets;  // are never part of a message
};

using HttpDeadline = std::chrono::steady_clock::time_point;

// While it lives, the questions of this thread end with the call that asks them: by its deadline,
// and within a second by its cancellation. On the stack only; the innermost one counts.
class AskingScope {
 public:
  AskingScope(const CallOptions& call, const Clock& clock);
  ~AskingScope();
  AskingScope(const AskingScope&) = delete;
  AskingScope& operator=(const AskingScope&) = delete;

 private:
  const AskingScope* const before_;
  Cancellation* const cancellation_;
  const HttpDeadline deadline_;

  friend Status CheckAsking(std::string_view who, HttpDeadline* deadline);
};

// OK while the calling thread may go on asking; makes `deadline` (may be null) the call's, where
// that is earlier. CANCELLED, DEADLINE_EXCEEDED. It asks the host of a polled cancellation.
Status CheckAsking(std::string_view who, HttpDeadline* deadline = nullptr);

// The body of a good answer. Redirects are not followed: the token would go along. An answer that
// says "later" (429, 503) is asked for again when it says, before the deadline. `who` begins the
// messages. DEADLINE_EXCEEDED; CANCELLED (AskingScope); UNAVAILABLE for whom nobody reaches;
// UNAUTHENTICATED (401, and another certificate than ca_file's), PERMISSION_DENIED (403), NOT_FOUND
// (404), RESOURCE_EXHAUSTED (429, more than kMostBytes), FAILED_PRECONDITION (another status, a
// redirect, no libcurl).
Result<std::string> AskService(const HttpRequest& request, HttpDeadline deadline,
                               std::string_view who);

// "a b/c" -> "a%20b%2Fc".
std::string EscapeUrl(std::string_view text);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_HTTP_CLIENT_H_
