// What a member brings to the others over the control channel, and waits for: exchanges,
// regrouping, notes. The coordinator carries them; here they are posted to the strand and awaited.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/wait.h"
#include "core/cluster/job/cluster.h"
#include "core/cluster/job/cluster_state.h"
#include "core/cluster/membership/member.h"
#include "core/cluster/membership/membership_messages.h"

namespace tutti {
namespace {

// Waits for the result of what was asked of the coordinator. `withdraw(why)` is
// Member::Withdraw..., posted.
template <typename State, typename T, typename Withdraw>
Result<T> AwaitResult(State& state, Clock& clock, const CallOptions& call,
                      std::optional<Result<T>>& result, const Withdraw& withdraw,
                      const std::string& what) {
  const auto over = [&] { return result.has_value() || state.closed; };
  std::unique_lock<std::mutex> lock(state.mutex);
  Status own;
  try {
    own = WaitUntil(lock, state.changed, clock, call, over, what);
  } catch (...) {
    // Of a host that was asked whether to go on, or for lack of memory. The others learn of it.
    if (lock.owns_lock()) lock.unlock();
    withdraw(ResourceExhausted("{}: left in the middle, most likely for lack of memory", what));
    throw;
  }
  if (!own.ok()) {
    // All may have come already, and the others, who know, wait for this worker in what comes next.
    // So the coordinator's word counts: then this worker has its result too, finds in what comes
    // next that its time is up, and tells the others there. Member bounds the wait (kAnswerNs).
    lock.unlock();
    withdraw(own);
    lock.lock();
    WaitUntil(lock, state.changed, clock, CallOptions::Default(), over, what).rep();
  }
  if (!result.has_value()) {
    return own.ok() ? FailedPrecondition("{}: this worker has left the job", what) : own;
  }
  if (own.ok() || result->ok()) return std::move(*result);
  // Whoever has cancelled it knows why. Whose time is up wants to know who has not come.
  if (own.code() != StatusCode::kDeadlineExceeded) return own;
  if (result->status().code() != StatusCode::kCancelled) return std::move(*result);
  // Another one has given up just before.
  return Status(own.code(), Format("{}; {}", own.message(), result->status().message()))
      .WithCause(result->status());
}

}  // namespace

Result<std::vector<std::string>> Cluster::Exchange(std::string_view key, std::string bytes,
                                                   const CallOptions& call) {
  static_assert(kMaxExchangeBytes == kMaxExchangePartBytes);
  State& state = *state_;
  const std::string what = Format("exchange {}", Quote(key));
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable(what));
  if (key.size() > kMaxExchangeKeyBytes) {
    return InvalidArgument("exchange: the key has {} bytes, at most {} are allowed", key.size(),
                           kMaxExchangeKeyBytes);
  }
  if (bytes.size() > kMaxExchangeBytes) {
    return InvalidArgument("{}: {} bytes, a worker may bring at most {}", what, bytes.size(),
                           kMaxExchangeBytes);
  }
  const auto left = [&] {
    return FailedPrecondition("{}: this worker has left the job", what);
  };
  if (closed()) return left();
  TUTTI_RETURN_IF_ERROR(failure().WithPrefix(what));
  if (num_workers() == 1) return std::vector<std::string>{std::move(bytes)};

  struct Pending {
    uint64_t id = 0;  // the strand's
    std::optional<Result<std::vector<std::string>>> result;
  };
  const auto pending = std::make_shared<Pending>();
  if (!state.network->Post(
          [&state, pending, name = std::string(key), bytes = std::move(bytes)]() mutable {
            pending->id =
                state.member->Exchange(name, std::move(bytes), [&state, pending](auto result) {
                  std::lock_guard<std::mutex> lock(state.mutex);
                  pending->result = std::move(result);
                  state.changed.notify_all();
                });
      })) {
    return left();
  }
  const auto withdraw = [&](const Status& why) {
    (void)state.network->Post(
        [&state, pending, why] { state.member->WithdrawExchange(pending->id, why); });
  };
  return AwaitResult(state, environment().clock(), call, pending->result, withdraw, what);
}

Result<Regrouped> Cluster::Regroup(RegroupRequest request, const CallOptions& call) {
  State& state = *state_;
  const std::string what = Format("regrouping {}", Quote(request.name));
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable(what));
  if (request.name.size() > kMaxExchangeKeyBytes) {
    return InvalidArgument("regrouping: the name has {} bytes, at most {} are allowed",
                           request.name.size(), kMaxExchangeKeyBytes);
  }
  if (request.bytes.size() > kMaxExchangeBytes) {
    return InvalidArgument("{}: {} bytes, a worker may bring at most {}", what,
                           request.bytes.size(), kMaxExchangeBytes);
  }
  if (request.at_least > num_workers()) {
    return InvalidArgument("{}: waits for {} workers, and the cluster has {} seats", what,
                           request.at_least, num_workers());
  }
  const auto left = [&] {
    return FailedPrecondition("{}: this worker has left the job", what);
  };
  if (closed()) return left();
  TUTTI_RETURN_IF_ERROR(failure().WithPrefix(what));
  if (num_workers() == 1) {
    return Regrouped{request.all ? 0 : request.epoch + 1,
                     {member(0)},
                     {info(0)},
                     {std::move(request.bytes)}};
  }

  struct Pending {
    uint64_t id = 0;  // the strand's
    std::optional<Result<Regrouped>> result;
  };
  const auto pending = std::make_shared<Pending>();
  RegroupPart part{0,
                   std::move(request.name),
                   std::move(request.among),
                   request.all,
                   request.at_least,
                   request.epoch,
                   std::move(request.bytes)};
  if (!state.network->Post([&state, pending, part = std::move(part)]() mutable {
        pending->id = state.member->Regroup(std::move(part), [&state, pending](auto result) {
          std::lock_guard<std::mutex> lock(state.mutex);
          if (result.ok()) {
            pending->result = Regrouped{result->epoch, std::move(result->members),
                                        std::move(result->infos), std::move(result->parts)};
          } else {
            pending->result = result.status();
          }
          state.changed.notify_all();
        });
      })) {
    return left();
  }
  const auto withdraw = [&](const Status& why) {
    (void)state.network->Post(
        [&state, pending, why] { state.member->WithdrawRegroup(pending->id, why); });
  };
  return AwaitResult(state, environment().clock(), call, pending->result, withdraw, what);
}

void Cluster::Resign(std::string name, std::vector<MemberId> among, int64_t epoch) {
  if (environment().LeftBehindByFork() || name.size() > kMaxExchangeKeyBytes) return;
  State& state = *state_;
  if (state.network.get() == nullptr) return;  // alone
  Resignation resignation{std::move(name), std::move(among), epoch};
  (void)state.network->Post([&state, resignation = std::move(resignation)]() mutable {
    state.member->Resign(std::move(resignation));
  });
}

void Cluster::Tell(std::vector<MemberId> to, std::string topic, std::string content) {
  static_assert(kMaxNoteBytes == tutti::kMaxNoteBytes);
  // A longer one would cost this worker its connection.
  if (environment().LeftBehindByFork() || to.empty() || topic.size() > kMaxExchangeKeyBytes ||
      content.size() > kMaxNoteBytes) {
    return;
  }
  State& state = *state_;
  if (state.network.get() == nullptr) return;  // alone
  (void)state.network->Post([&state, to = std::move(to), topic = std::move(topic),
                             content = std::move(content)]() mutable {
    state.member->Tell(std::move(to), std::move(topic), std::move(content));
  });
}

void Cluster::SetNoteListener(const std::string& topic, NoteListener listener) {
  if (environment().LeftBehindByFork()) return;
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  state.boxes[topic].listener = std::make_shared<NoteListener>(std::move(listener));
  state.Deliver(lock, topic);
}

void Cluster::RemoveNoteListener(const std::string& topic) {
  if (environment().LeftBehindByFork()) return;
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  const auto it = state.boxes.find(topic);
  if (it == state.boxes.end()) return;
  it->second.listener.reset();
  if (it->second.running && it->second.thread != std::this_thread::get_id()) {
    (void)WaitUntil(
        lock, state.changed, environment().clock(), CallOptions::Default(),
        [&] { return !it->second.running; }, "removal of a listener of the cluster");
  }
  state.boxes.erase(topic);
}

}  // namespace tutti
