// What tests of collectives by NCCL share: the machine of three fake GPUs with a fake NCCL, and
// ranks over every way that ranks of several processes have.
#ifndef TUTTI_TESTS_GPU_COLLECTIVES_NCCL_COLLECTIVES_TESTING_H_
#define TUTTI_TESTS_GPU_COLLECTIVES_NCCL_COLLECTIVES_TESTING_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/collective/communicator/communication_options.h"
#include "core/collective/communicator/future.h"
#include "core/collective/shm/shared_segment.h"
#include "core/collective/shm/shared_transport.h"
#include "core/collective/testing/hierarchical_ranks_testing.h"
#include "core/collective/testing/link_ranks.h"
#include "core/tensor/value.h"
#include "tests/gpu/collectives/collectives_testing.h"

namespace tutti::gpu {

// Threads of this process that share a segment, as processes of one machine do.
class SegmentRanks : public TransportRanks {
 public:
  explicit SegmentRanks(size_t size, std::shared_ptr<const SelectorTable> table = nullptr) {
    const auto ranks = static_cast<int64_t>(size);
    const Ref<SharedSegment> segment =
        SharedSegment::Create(SharedTransport::SegmentBytes(ranks)).value();
    for (int64_t rank = 0; rank < ranks; ++rank) {
      SharedGroupOptions options;
      options.name = "group";
      options.rank = rank;
      options.size = ranks;
      options.table = table;
      options.describe_peer = [](int64_t peer) { return Describe(peer); };
      Add(size, SharedTransport::Create(environment_, segment, std::move(options)).value());
    }
  }
  ~SegmentRanks() { CloseRanks(); }
};

class NcclCollectives : public GpuCollectives {
 protected:
  void SetUp() override { UseNccl(Builds()[0]); }
  void TearDown() override {
    GpuCollectives::TearDown();
    if (IsReal()) return;
    Break({});
    EXPECT_EQ(CountNccl(), 0);
  }

  void UseNccl(const char* library) {
    library_ = library;
    Use(library);
    if (!IsReal()) Break({});
  }
  void Break(const fake::NcclFaults& faults) {
    FunctionOfNccl<fake::SetNcclFaults>(fake::kSetNcclFaults)(&faults);
  }
  int32_t CountNccl() { return FunctionOfNccl<fake::CountNcclThings>(fake::kCountNcclThings)(); }
  template <class FunctionType>
  FunctionType FunctionOfNccl(const char* name) {
    return reinterpret_cast<FunctionType>(dlsym(dlopen(library_, RTLD_NOW | RTLD_LOCAL), name));
  }
  // An all_reduce of ones on every rank, in place.
  template <typename Group>
  std::vector<Status> Sum(Group& group, CommunicationImplementation implementation =
                                            CommunicationImplementation::kAuto) {
    return group.Run([&](int64_t rank, Communicator& self) {
      const Ref<Tensor> ones = Floats(rank, {1, 1});
      const CollectiveOptions options(group.Hang(), {.implementation = implementation});
      TUTTI_RETURN_IF_ERROR(self.AllReduce(*ones, ReduceOp::kSum, options, ones.get()));
      const auto size = static_cast<float>(group.size());
      return Read(*ones) == std::vector<float>{size, size} ? OkStatus() : DataLoss("other sums");
    });
  }
  // How a call has ended.
  static Status End(const Future& future, const CallOptions& options) {
    TUTTI_RETURN_IF_ERROR(future.Wait(options));
    Ref<Value> value;
    return future.GetResult(&value);
  }
  template <typename Group>
  static Ref<Lines> Listen(Group& group) {
    const Ref<Lines> lines = MakeRef<Lines>();
    group.environment().log().set_level(LogLevel::kWarning);
    EXPECT_TRUE(group.environment().log().SetSink(lines).ok());
    return lines;
  }

  // The builds of the fake that have what communicators need. One that has NCCL's own name is found
  // by all that follows in its process, and gets one of its own (TUTTI_TEST_NCCL).
  static std::vector<const char*> Builds() {
    if (Asked() != nullptr) return {Asked()};
    return {TUTTI_GPU_NCCL, TUTTI_GPU_NCCL_2_27, TUTTI_GPU_NCCL_2_18};
  }
  static const char* Asked() { return std::getenv("TUTTI_TEST_NCCL"); }

  const char* library_ = nullptr;
};

#define EXPECT_ALL_OK(statuses) \
  for (const Status& status_ : statuses) EXPECT_TRUE(status_.ok()) << status_.ToString()

}  // namespace tutti::gpu

#endif  // TUTTI_TESTS_GPU_COLLECTIVES_NCCL_COLLECTIVES_TESTING_H_
