#include "core/strategy/observed_team.h"

#include <string>
#include <utility>

#include "core/base/text.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

namespace {

std::string NameOfPart(const char* what, size_t i, size_t count) {
  return count == 1 ? std::string(what) : Format("{} {}", what, i);
}

Status ObserveAll(const std::string& op, const char* what,
                  std::span<const Tensor* const> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string name = NameOfPart(what, i, tensors.size());
    TUTTI_RETURN_IF_ERROR(ObserveTensor({.op = op, .name = name}, *tensors[i]));
  }
  return OkStatus();
}

}  // namespace

Status ObserveOverTeam(TeamChannel& channel, const TeamLabel& label,
                       std::span<const std::vector<const Tensor*>> brought,
                       std::span<const Tensor* const> results, bool hides,
                       const CallOptions& call) {
  const ObservedScope everywhere(true);
  const std::string op = label.ToString();
  Status found = ObserveAll(op, "the result of finite inputs", results);
  if (found.ok() && !hides) return OkStatus();
  Status own;
  for (size_t i = 0; i < brought.size() && own.ok(); ++i) {
    const auto num_replicas = static_cast<int64_t>(brought[i].size());
    for (int64_t r = 0; r < num_replicas && own.ok(); ++r) {
      const std::string name = NameOfPart("the input", i, brought.size());
      own = ObserveTensor(
          {.op = op, .name = name, .replica = channel.worker() * num_replicas + r},
          *brought[i][static_cast<size_t>(r)]);
    }
  }
  TUTTI_RETURN_IF_ERROR(
      channel.Exchange(TeamLabel{"looking for what is not finite"}, own, "", call).status());
  return found;
}

Status ObserveOfWorker0(const TeamChannel& channel, const TeamLabel& label,
                        const Tensor& tensor) {
  if (!channel.observed()) return OkStatus();
  const ObservedScope everywhere(true);
  const std::string op = label.ToString();
  return ObserveTensor({.op = op, .name = "the value of worker 0", .replica = 0}, tensor);
}

}  // namespace tutti
