// RegroupTable: the coordinator's book of regroupings: members that come together under a name,
// each with a part, and are told who came and what they brought. A round is kept apart from others
// by its name and by whom it is among:
//
//   among nobody in particular   whoever is there; it waits for all of them, and for `at_least` so
//                                many. A newcomer meets the others in such a round.
//   among a list of members      those of them that are still there and have not resigned, in the
//                                order of the list
//   ... all of them              fails as soon as one of them is not there (any more)
//
// Every round that completes, but for those of the last kind, begins the next epoch of its name:
// one more than any that the coordinator or a participant knows of. So no epoch comes twice, also
// when what the members did with it failed.
//
// Who stays in the job but has left the latest group of a name for good resigns: no list of that
// name waits for it. The next round of the name that it completes with makes it a member again.
//
// A round that a death or a withdrawal has failed is forgotten: whoever tries again opens another.
// Only where all of a list are needed is a withdrawal remembered until each of them has heard of
// it: they come once.

#ifndef TUTTI_CORE_CLUSTER_MEMBERSHIP_REGROUP_TABLE_H_
#define TUTTI_CORE_CLUSTER_MEMBERSHIP_REGROUP_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/cluster/membership/membership_messages.h"

namespace tutti {

class RegroupTable {
 public:
  // More at a time are refused.
  static constexpr size_t kMaxOpen = 4096;
  static constexpr size_t kMaxNames = size_t{1} << 16;

  // What is to be told to whom.
  struct Answer {
    std::vector<std::pair<int64_t, uint64_t>> to;  // workers, each with the number of its request
    Status failure;                                // OK: it is complete
    int64_t epoch = 0;
    std::vector<MemberId> members;
    std::vector<std::string> parts;
  };

  explicit RegroupTable(int64_t num_workers);  // all there, with the arrival 0

  // INVALID_ARGUMENT when this worker is in this round already.
  Result<std::optional<Answer>> Bring(int64_t worker, RegroupPart part);
  // `failure` is what the others are told. Nothing when the round is over.
  std::optional<Answer> Withdraw(int64_t worker, uint64_t id, const Status& failure);
  // Nothing where the name has had a later epoch than the worker knows of.
  std::vector<Answer> Resign(int64_t worker, const Resignation& resignation);
  // Whom the round of this request waits for: workers that are there, in order, and so many more
  // that have no seat yet.
  struct Awaited {
    std::vector<int64_t> workers;
    int64_t more = 0;
  };
  Awaited WhoIsMissing(int64_t worker, uint64_t id) const;
  std::vector<Answer> Leave(int64_t worker, const Status& departure);
  void Arrive(const MemberId& member);

  bool IsPresent(const MemberId& member) const;
  size_t size() const { return open_.size(); }
  size_t num_names_with_resigned() const { return resigned_.size(); }

 private:
  using Key = std::tuple<std::string, bool, std::vector<MemberId>>;  // name, all, among
  struct Brought {
    uint64_t id;
    std::string part;
  };
  struct Round {
    std::map<int64_t, Brought> brought;
    int64_t at_least = 0;
    int64_t epoch = 0;  // the latest that a participant knows of
    Status failure;     // of a round of all of a list, that somebody has given up
    std::set<int64_t> heard;
  };
  using Rounds = std::map<Key, Round>;
  // Who does not come any more, of a name's latest group.
  struct Resigned {
    std::vector<MemberId> among;
    std::set<int64_t> workers;
  };

  // Who has to come, in order.
  std::vector<MemberId> Expected(const Key& key) const;
  Status CheckAllPresent(const Key& key) const;
  // Answers, and forgets the round, when all are there.
  std::optional<Answer> CompleteIfAllCame(Rounds::iterator round);
  static Answer Fail(const Round& round, int64_t but, Status failure);
  static bool AllHeard(const Rounds::value_type& round);
  // From the name of a key, where that has a list that goes on without them; null where nobody has.
  const std::set<int64_t>* WhoResigned(const Key& key) const;
  // Nobody is left who could ask for them.
  bool IsOver(const Resigned& resigned) const;

  std::vector<std::optional<uint64_t>> present_;  // the arrival of who is there
  std::vector<Status> departures_;                // of who is not
  std::map<std::string, int64_t> epochs_;
  std::map<std::string, Resigned> resigned_;  // by name
  Rounds open_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_MEMBERSHIP_REGROUP_TABLE_H_
