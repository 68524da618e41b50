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

// Calls fn(sighting, tensor) for each tensor that this worker has brought until one gives an error.
template <class Fn>
Status EachBrought(const TeamChannel& channel, std::string_view op,
                   std::span<const std::vector<const Tensor*>> brought, Fn&& fn) {
  for (size_t i = 0; i < brought.size(); ++i) {
    const std::string name = NameOfPart("the input", i, brought.size());
    const auto num_replicas = static_cast<int64_t>(brought[i].size());
    for (int64_t r = 0; r < num_replicas; ++r) {
      TUTTI_RETURN_IF_ERROR(
          fn(TensorSighting{.op = op, .name = name, .replica = channel.worker() * num_replicas + r},
             *brought[i][static_cast<size_t>(r)]));
    }
  }
  return OkStatus();
}

template <class Fn>
Status EachResult(std::string_view op, std::span<const Tensor* const> results, Fn&& fn) {
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string name = NameOfPart("the result of finite inputs", i, results.size());
    TUTTI_RETURN_IF_ERROR(fn(TensorSighting{.op = op, .name = name}, *results[i]));
  }
  return OkStatus();
}

Status Record(const TensorSighting& sighting, const Tensor& tensor) {
  RecordTensor(sighting, tensor);
  return OkStatus();
}

}  // namespace

Status ObserveOverTeam(TeamChannel& channel, const TeamLabel& label,
                       std::span<const std::vector<const Tensor*>> brought,
                       std::span<const Tensor* const> results, bool hides,
                       const CallOptions& call) {
  const bool checked = channel.observed();
  if (!checked && !TensorsAreObserved()) return OkStatus();
  const ObservedScope step(Observed::kAsBefore, channel.step());
  // Dumps know operations by the name that they have within one worker, too.
  (void)EachBrought(channel, label.what, brought, Record);
  (void)EachResult(label.what, results, Record);
  if (!checked) return OkStatus();
  const std::string op = label.ToString();
  Status found = EachResult(op, results, CheckTensor);
  if (found.ok() && !hides) return OkStatus();
  const Status own = EachBrought(channel, op, brought, CheckTensor);
  TUTTI_RETURN_IF_ERROR(
      channel.Exchange(TeamLabel{"looking for what is not finite"}, own, "", call).status());
  return found;
}

Status ObserveOfWorker0(const TeamChannel& channel, const TeamLabel& label,
                        const Tensor& tensor) {
  if (!channel.observed()) return OkStatus();
  const ObservedScope step(Observed::kAsBefore, channel.step());
  const std::string op = label.ToString();
  return CheckTensor({.op = op, .name = "the value of worker 0", .replica = 0}, tensor);
}

}  // namespace tutti
