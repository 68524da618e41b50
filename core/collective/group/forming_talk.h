// FormingTalk: how the workers that form a group tell each other what came of a stage, and how long
// each may take for its part of one (group_forming.h).

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_FORMING_TALK_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_FORMING_TALK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

class Environment;

class FormingTalk {
 public:
  using Exchange = std::function<Result<std::vector<std::string>>(
      std::string_view key, std::string bytes, const CallOptions& call)>;

  // `descriptions` of all workers, by rank.
  FormingTalk(Ref<Environment> environment, std::string label, int64_t rank, int64_t worker,
              std::vector<std::string> descriptions, Exchange exchange, const CallOptions& call);

  // Tells all workers what this one found in `stage`; gives what all have found, or the error of
  // the first of them that failed.
  Result<std::vector<std::string>> Tell(std::string_view stage, const Status& own,
                                        std::string_view facts) const;
  // The same for a stage that may fail without ending the forming: gives why it did not work for
  // somebody, or an empty text.
  Result<std::string> TellProblem(std::string_view stage, const Status& own) const;

  // For what should take no time: others wait for the outcome. A quarter of the time that is left
  // is kept for telling them, or they would know that time is up and not because of whom.
  CallOptions Soon() const;
  bool CallIsOver() const;

  std::string Describe(int64_t rank) const;

 private:
  const Ref<Environment> environment_;
  const std::string label_;
  const int64_t rank_;
  const int64_t worker_;
  const std::vector<std::string> descriptions_;
  const Exchange exchange_;
  const CallOptions call_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_FORMING_TALK_H_
