// ExchangeTable: the coordinator's book of exchanges. An exchange is open from the first part that
// a worker brings until all have brought theirs, or it fails: a worker withdrew, or left without
// its part. A failed one stays in the book until every worker has come to hear of it.

#ifndef TUTTI_CORE_CLUSTER_MEMBERSHIP_EXCHANGE_TABLE_H_
#define TUTTI_CORE_CLUSTER_MEMBERSHIP_EXCHANGE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace tutti {

class ExchangeTable {
 public:
  // More at a time are refused.
  static constexpr size_t kMaxOpen = 1024;

  // What is to be told to whom.
  struct Outcome {
    std::string key;
    std::vector<int64_t> to;
    Status failure;                  // OK: all parts are there
    std::vector<std::string> parts;  // of all workers, in order
  };

  explicit ExchangeTable(int64_t num_workers);

  // INVALID_ARGUMENT when this worker has brought its part already.
  Result<std::optional<Outcome>> Bring(int64_t worker, const std::string& key, std::string part);
  // `failure` is what the others are told. Nothing when the exchange is over.
  std::optional<Outcome> Withdraw(int64_t worker, const std::string& key, const Status& failure);
  // Who has neither brought a part nor left, in order; nobody when the exchange is over.
  std::vector<int64_t> Missing(const std::string& key) const;
  // The worker brings nothing more; `departure` is what exchanges without its part fail with.
  std::vector<Outcome> Leave(int64_t worker, const Status& departure);

  size_t size() const { return open_.size(); }

 private:
  struct Exchange {
    std::vector<std::optional<std::string>> parts;
    std::vector<bool> came;  // brought a part, or left
    Status failure;
  };
  static bool AllCame(const Exchange& exchange);
  // Those who have brought their part, but for `but`.
  std::vector<int64_t> Waiting(const Exchange& exchange, int64_t but) const;

  const size_t num_workers_;
  std::vector<bool> left_;
  Status departure_;  // the first one; OK while all are there
  std::map<std::string, Exchange> open_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_MEMBERSHIP_EXCHANGE_TABLE_H_
