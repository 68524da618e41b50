// LocalTransport: ranks that are threads of one process and read and write each other's memory.

#ifndef TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_TRANSPORT_H_
#define TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_TRANSPORT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/base/ref.h"
#include "core/collective/call/memory_parts.h"
#include "core/collective/call/transport.h"
#include "core/collective/thread/local_algorithms.h"
#include "core/collective/thread/local_family.h"
#include "core/collective/thread/local_group.h"

namespace tutti {

class LocalTransport final : public Transport {
 public:
  // Without a family the group can neither be split nor renewed.
  LocalTransport(Ref<LocalGroup> group, int64_t rank,
                 std::shared_ptr<LocalFamily> family = nullptr);
  ~LocalTransport() override;

  const char* name() const override { return "in_process"; }

  Status Execute(CollectiveCall* call) override;
  bool ChecksFold(const CollectiveCall& call) const override;
  // Transfers; and everything else of as many ranks as a kernel folds, where all GPUs have kernels.
  bool TakesGpuTensors(CollectiveOp op, const Tensor& tensor) override;
  bool RecordsKnownCalls() const override { return true; }
  Result<std::unique_ptr<Transport>> Split(const SplitRequest& request,
                                           const CallOptions& options) override;
  Result<RenewedGroup> Renew(const RenewRequest& request, const CallOptions& options) override;
  Status Fail(Status error) override { return group_->Fail(std::move(error)); }
  Status failure() const override { return group_->failure(); }
  bool ClaimFlightRecord() override { return group_->ClaimFlightRecord(); }
  void Leave(Status reason) override;

 private:
  // What is kept of a call that may come again: nothing if it is no flat fold.
  struct KnownCall {
    uint64_t known_as = 0;
    std::optional<KnownLocalFold> fold;
  };
  const std::optional<KnownLocalFold>& Known(const CollectiveCall& call);
  static std::unique_ptr<Transport> Make(const Ref<LocalGroup>& group, int64_t rank,
                                         const std::shared_ptr<LocalFamily>& family);

  const Ref<LocalGroup> group_;
  const int64_t rank_;
  const std::shared_ptr<LocalFamily> family_;
  std::array<std::unique_ptr<KnownCall>, kKnownCallPlaces> known_calls_;
  AlignedRoom stage_;
  std::optional<bool> gpus_have_kernels_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_TRANSPORT_H_
