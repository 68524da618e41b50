// What workers bring together while the job runs: exchanges, and regroupings after a loss. The
// tables know when everything is there; here it is received and told.

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/membership/coordinator.h"
#include "core/cluster/membership/coordinator_session.h"

namespace tutti {

void Coordinator::On(Session& session, ExchangePart& part) {
  if (phase_ != Phase::kRunning) return;
  if (SeatOf(session).arrival != 0) {
    Send(session, ExchangeFailure{part.key, FailedPrecondition(
                                                "exchange {}: {} came when the job ran already, "
                                                "and an exchange is among all with whom it began",
                                                Quote(part.key), Describe(session.worker))});
    return;
  }
  Result<std::optional<ExchangeTable::Outcome>> outcome =
      exchanges_.Bring(session.worker, part.key, std::move(part.part));
  if (!outcome.ok()) {
    session.End(outcome.status());
    return;
  }
  if (outcome->has_value()) Tell(**outcome);
}

void Coordinator::On(Session& session, ExchangeWithdrawal& withdrawal) {
  if (phase_ != Phase::kRunning) return;
  const Status reason =
      NamingTheMissing(withdrawal.reason, exchanges_.Missing(withdrawal.key), 0);
  const std::optional<ExchangeTable::Outcome> outcome = exchanges_.Withdraw(
      session.worker, withdrawal.key,
      Cancelled("exchange {}: {} has given it up: {}", Quote(withdrawal.key),
                Describe(session.worker), reason.message())
          .With("rank", session.worker)
          .With("worker", session.worker)
          .WithCause(withdrawal.reason));
  if (!outcome.has_value()) return;
  Tell(*outcome);
  // It may have asked for this.
  Send(session, ExchangeFailure{withdrawal.key, reason});
}

void Coordinator::On(Session& session, RegroupPart& part) {
  if (phase_ != Phase::kRunning) return;
  Result<std::optional<RegroupTable::Answer>> answer =
      regroupings_.Bring(session.worker, std::move(part));
  if (!answer.ok()) {
    session.End(answer.status());
    return;
  }
  if (answer->has_value()) Tell(**answer);
}

void Coordinator::On(Session& session, RegroupWithdrawal& withdrawal) {
  if (phase_ != Phase::kRunning) return;
  const RegroupTable::Awaited awaited =
      regroupings_.WhoIsMissing(session.worker, withdrawal.id);
  const Status reason = NamingTheMissing(withdrawal.reason, awaited.workers, awaited.more);
  const std::optional<RegroupTable::Answer> answer = regroupings_.Withdraw(
      session.worker, withdrawal.id,
      Cancelled("{} has given it up: {}", Describe(session.worker), reason.message())
          .With("rank", session.worker)
          .With("worker", session.worker)
          .WithCause(withdrawal.reason));
  if (!answer.has_value()) return;
  Tell(*answer);
  Send(session, RegroupFailure{withdrawal.id, reason});
}

void Coordinator::On(Session& session, Resignation& resignation) {
  if (phase_ != Phase::kRunning) return;
  for (const RegroupTable::Answer& answer : regroupings_.Resign(session.worker, resignation)) {
    Tell(answer);
  }
}

Status Coordinator::NamingTheMissing(const Status& reason, const std::vector<int64_t>& missing,
                                     int64_t more) const {
  constexpr size_t kNamed = 8;
  if (missing.empty() && more == 0) return reason;
  std::string text = std::string(reason.message()) + "; ";
  for (size_t i = 0; i < std::min(missing.size(), kNamed); ++i) {
    text += (i == 0 ? "" : ", ") + Describe(missing[i]);
  }
  if (missing.size() > kNamed) text += Format(" and {} others", missing.size() - kNamed);
  if (!missing.empty()) text += missing.size() == 1 ? " has not come" : " have not come";
  if (more > 0) {
    text += Format("{}{} more that {} no seat yet", missing.empty() ? "it waits for " : ", nor ",
                   more, more == 1 ? "has" : "have");
  }
  Status named(reason.code(), std::move(text));
  for (const StatusDetail& detail : reason.details()) {
    std::visit([&](const auto& value) { named = std::move(named).With(detail.key, value); },
               detail.value);
  }
  return missing.empty() ? named : std::move(named).With("peer", missing[0]);
}

void Coordinator::Tell(const ExchangeTable::Outcome& outcome) {
  std::vector<std::string> messages;
  if (!outcome.failure.ok()) {
    messages.push_back(Encode(MessageToMember(ExchangeFailure{outcome.key, outcome.failure})));
  } else {
    ExchangeResult result{outcome.key, {}, false};
    size_t bytes = 0;
    for (size_t i = 0; i < outcome.parts.size(); ++i) {
      bytes += outcome.parts[i].size();
      result.parts.push_back(outcome.parts[i]);
      result.last = i + 1 == outcome.parts.size();
      if (!result.last && bytes < kMaxControlMessageBytes / 4) continue;
      messages.push_back(Encode(MessageToMember(result)));
      result.parts.clear();
      bytes = 0;
    }
  }
  for (const int64_t worker : outcome.to) {
    Session* const session = seats_[static_cast<size_t>(worker)].session;
    if (session == nullptr) continue;
    for (const std::string& message : messages) session->connection->Send(message);
  }
}

void Coordinator::Tell(const RegroupTable::Answer& answer) {
  for (const auto& [worker, id] : answer.to) {
    Session* const session = seats_[static_cast<size_t>(worker)].session;
    if (session == nullptr) continue;
    if (!answer.failure.ok()) {
      Send(*session, RegroupFailure{id, answer.failure});
      continue;
    }
    RegroupResult result{id, answer.epoch, {}, {}, false};
    size_t bytes = 0;
    for (size_t i = 0; i < answer.parts.size(); ++i) {
      bytes += answer.parts[i].size();
      result.members.push_back(answer.members[i]);
      result.parts.push_back(answer.parts[i]);
      result.last = i + 1 == answer.parts.size();
      if (!result.last && bytes < kMaxControlMessageBytes / 4) continue;
      Send(*session, result);
      result.members.clear();
      result.parts.clear();
      bytes = 0;
    }
  }
}

}  // namespace tutti
