#include "core/collective/group/forming_talk.h"

#include <algorithm>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/call/wire_bytes.h"

namespace tutti {
namespace {

constexpr uint8_t kWentWell = 0;
constexpr uint8_t kFailed = 1;
constexpr size_t kMaxReasonBytes = 500;
// What a peer has announced takes no longer, or the peer is in trouble of its own.
constexpr int64_t kStepLimitNs = 30 * kSecondNs;

}  // namespace

FormingTalk::FormingTalk(Ref<Environment> environment, std::string label, int64_t rank,
                         int64_t worker, std::vector<std::string> descriptions, Exchange exchange,
                         const CallOptions& call)
    : environment_(std::move(environment)),
      label_(std::move(label)),
      rank_(rank),
      worker_(worker),
      descriptions_(std::move(descriptions)),
      exchange_(std::move(exchange)),
      call_(call) {}

Result<std::vector<std::string>> FormingTalk::Tell(std::string_view stage, const Status& own,
                                                   std::string_view facts) const {
  std::string bytes;
  WireWriter writer(&bytes);
  writer.Put(own.ok() ? kWentWell : kFailed);
  if (own.ok()) {
    bytes.append(facts);
  } else {
    const Status named = own.WithPrefix(Describe(rank_));
    AppendStatus(named.With("rank", rank_).With("worker", worker_), &bytes);
  }
  Result<std::vector<std::string>> all =
      exchange_(Format("{}: {}", label_, stage), std::move(bytes), call_);
  if (!all.ok()) {
    if (own.ok()) return all.status();
    // Who is gone says more than which connection has noticed.
    const bool explains = own.code() == StatusCode::kUnavailable &&
                          all.status().code() == StatusCode::kUnavailable;
    return explains ? all.status().WithCause(own) : own;
  }
  for (size_t rank = 0; rank < descriptions_.size(); ++rank) {
    std::string& told = (*all)[rank];
    if (told.empty()) {
      return DataLoss("{}: {} told nothing in stage {}", label_,
                      Describe(static_cast<int64_t>(rank)), stage);
    }
    if (told[0] != kWentWell) {
      return ParseStatus(std::string_view(told).substr(1)).WithPrefix(label_);
    }
    told.erase(0, 1);
  }
  return all;
}

Result<std::string> FormingTalk::TellProblem(std::string_view stage, const Status& own) const {
  const bool ends = !own.ok() && CallIsOver();
  std::string problem;
  if (!own.ok()) {
    problem = Format("{}: {}", Describe(rank_), own.message()).substr(0, kMaxReasonBytes);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                         Tell(stage, ends ? own : OkStatus(), problem));
  for (const std::string& told : all) {
    if (!told.empty()) return told;
  }
  return std::string();
}

CallOptions FormingTalk::Soon() const {
  const int64_t left_ns = call_.deadline.RemainingNs(environment_->clock());
  const int64_t limit_ns = std::min(kStepLimitNs, left_ns - left_ns / 4);
  return CallOptions{Deadline::After(environment_->clock(), limit_ns), call_.cancellation};
}

bool FormingTalk::CallIsOver() const {
  return call_.deadline.Expired(environment_->clock()) ||
         (call_.cancellation != nullptr && call_.cancellation->cancelled());
}

std::string FormingTalk::Describe(int64_t rank) const {
  return Format("rank {} ({})", rank, descriptions_[static_cast<size_t>(rank)]);
}

}  // namespace tutti
