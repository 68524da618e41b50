#include "core/cluster/membership/exchange_table.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace tutti {

ExchangeTable::ExchangeTable(int64_t num_workers)
    : num_workers_(static_cast<size_t>(num_workers)), left_(num_workers_, false) {}

bool ExchangeTable::AllCame(const Exchange& exchange) {
  return std::find(exchange.came.begin(), exchange.came.end(), false) == exchange.came.end();
}

std::vector<int64_t> ExchangeTable::Waiting(const Exchange& exchange, int64_t but) const {
  std::vector<int64_t> waiting;
  for (size_t i = 0; i < num_workers_; ++i) {
    const auto worker = static_cast<int64_t>(i);
    if (exchange.parts[i].has_value() && !left_[i] && worker != but) waiting.push_back(worker);
  }
  return waiting;
}

Result<std::optional<ExchangeTable::Outcome>> ExchangeTable::Bring(int64_t worker,
                                                                   const std::string& key,
                                                                   std::string part) {
  const auto index = static_cast<size_t>(worker);
  auto it = open_.find(key);
  if (it == open_.end()) {
    if (!departure_.ok()) {
      return std::optional<Outcome>(Outcome{
          key, {worker}, departure_.WithPrefix(Format("exchange {}", Quote(key))), {}});
    }
    if (open_.size() >= kMaxOpen) {
      return std::optional<Outcome>(Outcome{
          key,
          {worker},
          ResourceExhausted("exchange {}: {} exchanges are open already that not all workers have "
                            "come to",
                            Quote(key), open_.size()),
          {}});
    }
    it = open_.emplace(key, Exchange{}).first;
    it->second.parts.resize(num_workers_);
    it->second.came = left_;
  }
  Exchange& exchange = it->second;
  if (!exchange.failure.ok()) {
    exchange.came[index] = true;
    Outcome outcome{key, {worker}, exchange.failure, {}};
    if (AllCame(exchange)) open_.erase(it);
    return std::optional<Outcome>(std::move(outcome));
  }
  if (exchange.parts[index].has_value()) {
    return InvalidArgument("exchange {}: worker {} brings its part a second time", Quote(key),
                           worker);
  }
  exchange.parts[index] = std::move(part);
  exchange.came[index] = true;
  if (!AllCame(exchange)) return std::optional<Outcome>();
  Outcome outcome{key, Waiting(exchange, -1), OkStatus(), {}};
  for (std::optional<std::string>& one : exchange.parts) {
    outcome.parts.push_back(std::move(*one));
  }
  open_.erase(it);
  return std::optional<Outcome>(std::move(outcome));
}

std::optional<ExchangeTable::Outcome> ExchangeTable::Withdraw(int64_t worker,
                                                              const std::string& key,
                                                              const Status& failure) {
  const auto it = open_.find(key);
  if (it == open_.end()) return std::nullopt;
  Exchange& exchange = it->second;
  if (!exchange.failure.ok() || !exchange.parts[static_cast<size_t>(worker)].has_value()) {
    return std::nullopt;
  }
  Outcome outcome{key, Waiting(exchange, worker), failure, {}};
  exchange.failure = failure;
  for (std::optional<std::string>& part : exchange.parts) part.reset();
  return outcome;
}

std::vector<int64_t> ExchangeTable::Missing(const std::string& key) const {
  std::vector<int64_t> missing;
  const auto it = open_.find(key);
  if (it == open_.end()) return missing;
  for (size_t i = 0; i < num_workers_; ++i) {
    if (!it->second.came[i]) missing.push_back(static_cast<int64_t>(i));
  }
  return missing;
}

std::vector<ExchangeTable::Outcome> ExchangeTable::Leave(int64_t worker, const Status& departure) {
  const auto index = static_cast<size_t>(worker);
  left_[index] = true;
  if (departure_.ok()) departure_ = departure;
  std::vector<Outcome> outcomes;
  for (auto it = open_.begin(); it != open_.end();) {
    Exchange& exchange = it->second;
    exchange.came[index] = true;
    const bool lacks = exchange.failure.ok() && !exchange.parts[index].has_value();
    if (lacks) {
      outcomes.push_back({it->first, Waiting(exchange, worker),
                          departure.WithPrefix(Format("exchange {}", Quote(it->first))), {}});
    }
    // Without its part, whoever comes later fails because of the departure.
    const bool over = lacks || (!exchange.failure.ok() && AllCame(exchange));
    it = over ? open_.erase(it) : std::next(it);
  }
  return outcomes;
}

}  // namespace tutti
