#include "core/collective/group/communicator_team.h"

#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/tensor/tensor.h"

namespace tutti {

Result<std::vector<std::string>> ExchangeTexts(Communicator& communicator, std::string_view key,
                                               std::string bytes, const CallOptions& call) {
  std::string mine(key);
  mine += '\0';
  mine += bytes;
  const BytesView view{mine.data(), mine.size()};
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> text,
                         Tensor::FromStrings(Shape({1}), std::span<const BytesView>(&view, 1)));
  Ref<Tensor> all;
  TUTTI_RETURN_IF_ERROR(communicator.AllGather(*text, 0, CollectiveOptions(call), &all));
  std::vector<std::string> texts;
  for (const BytesView& one : all->span<BytesView>()) {
    const std::string_view whole = one.text();
    const size_t end = whole.find('\0');
    if (whole.substr(0, end) != key || end == std::string_view::npos) {
      return InvalidArgument(
          "rank {} is in the call {}, and rank {} in {}: all ranks make the same calls in the same "
          "order",
          communicator.rank(), Quote(key), texts.size(), Quote(whole.substr(0, end)));
    }
    texts.emplace_back(whole.substr(end + 1));
  }
  return texts;
}

CommunicatorTeam::CommunicatorTeam(Ref<Communicator> communicator, bool reproducible,
                                   int64_t num_replicas)
    : communicator_(std::move(communicator)),
      reproducible_(reproducible),
      num_replicas_(num_replicas) {}

CommunicatorTeam::~CommunicatorTeam() = default;

Result<Ref<WorkerTeam>> CommunicatorTeam::Create(Ref<Communicator> communicator,
                                                 int64_t num_replicas, bool reproducible,
                                                 const CallOptions& call) {
  const std::string own = Format("{}", num_replicas);
  TUTTI_ASSIGN_OR_RETURN(
      const std::vector<std::string> replicas,
      ExchangeTexts(*communicator, "a strategy over a communicator", own, call));
  for (size_t rank = 0; rank < replicas.size(); ++rank) {
    if (replicas[rank] == replicas[0]) continue;
    return InvalidArgument(
        "a strategy over a communicator: rank 0 has {} replicas and rank {} has {}; all ranks must "
        "have equally many devices",
        replicas[0], rank, replicas[rank]);
  }
  const int64_t all = communicator->size() * num_replicas;
  return Ref<WorkerTeam>(MakeRef<CommunicatorTeam>(std::move(communicator), reproducible, all));
}

int64_t CommunicatorTeam::worker() const { return communicator_->rank(); }

int64_t CommunicatorTeam::num_workers() const { return communicator_->size(); }

std::string CommunicatorTeam::Describe(int64_t worker) const {
  return Format("rank {} of {}", worker, Quote(communicator_->name()));
}

Result<std::vector<std::string>> CommunicatorTeam::Exchange(std::string_view key, std::string bytes,
                                                            const CallOptions& call) {
  return ExchangeTexts(*communicator_, key, std::move(bytes), call);
}

// Split from the communicator, whose transport it has.
Result<Ref<Communicator>> CommunicatorTeam::CreateCommunicator(
    std::string_view name, int64_t epoch, const CallOptions& call,
    std::optional<CollectiveTransport> /*transport*/) {
  return communicator_->Split(0, communicator_->rank(), Format("{} epoch {}", name, epoch), call);
}

Status CommunicatorTeam::failure() const { return communicator_->epoch_status(); }

}  // namespace tutti
