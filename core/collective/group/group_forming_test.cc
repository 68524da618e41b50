// Groups over every mixture of machines.

#include "core/collective/group/group_forming.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/testing/group_forming_testing.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::Not;

class CapturedLog final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    std::lock_guard lock(mutex_);
    text_.append(record.message).append("\n");
  }
  std::string text() const {
    std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;  // guards text_
  std::string text_;
};

using Kinds = std::vector<std::string>;

TEST_F(GroupFormingTest, WorkersOfOneMachineShareASegment) {
  Start({"a", "a", "a"});
  EXPECT_EQ(FormAndUse(), Kinds(3, "shared memory"));
  EXPECT_EQ(FormAndUse(2), Kinds(3, "shared memory"));
}

TEST_F(GroupFormingTest, WorkersOfDifferentMachinesUseTcp) {
  Start({"a", "b"});
  EXPECT_EQ(FormAndUse(), Kinds(2, "1 tcp"));
}

TEST_F(GroupFormingTest, ManyWorkersConnectToAFewAndToOthersWhenACallNeedsThem) {
  Start({"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"});
  const std::vector<std::string> kinds = FormAndUse();
  const int neighbours[] = {4, 1, 2, 1, 3, 1, 2, 1, 2, 1};
  for (size_t worker = 0; worker < kinds.size(); ++worker) {
    EXPECT_EQ(kinds[worker], Format("{} tcp, others at first use", neighbours[worker]));
  }
}

TEST_F(GroupFormingTest, PairsOfAMixtureShareMemoryWhereTheyCan) {
  Start({"a", "b", "a", "b", "b"});
  EXPECT_EQ(FormAndUse(), (Kinds{"1 ring, 3 tcp", "2 ring, 2 tcp", "1 ring, 3 tcp",
                                 "2 ring, 2 tcp", "2 ring, 2 tcp"}));
}

TEST_F(GroupFormingTest, HostsWithSeveralRanksAreJoined) {
  const std::vector<std::vector<std::string>> spreads = {
      {"a", "a", "b", "b"}, {"a", "b", "a", "b", "b"}, {"a", "b"}, {"a", "a", "a", "b"}};
  for (const std::vector<std::string>& machines : spreads) {
    Reset();
    Start(machines);
    const std::string expected = machines.size() == 2 ? "" : ", from host to host: 2 of them";
    for (const Status& status : Run([&](size_t worker) -> Status {
           TUTTI_ASSIGN_OR_RETURN(const FormedGroup group, Form(worker, Hang()));
           return group.hosts == expected ? OkStatus() : Internal("found {}", group.hosts);
         })) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    FormAndUse(2);
  }
}

TEST_F(GroupFormingTest, ManyHostsConnectToAFewAndToOthersWhenACallNeedsThem) {
  // Of the second rank of a host, where not all have one, there are none.
  const std::vector<std::vector<std::string>> spreads = {
      {"a", "a", "b", "c", "d", "e", "f", "g", "h", "i"},
      {"a", "b", "c", "d", "e", "f", "g", "h", "i", "a", "b", "c", "d", "e", "f", "g", "h", "i"}};
  const int neighbours[] = {4, 1, 2, 1, 3, 1, 2, 1, 1};
  for (const std::vector<std::string>& machines : spreads) {
    Reset();
    Start(machines);
    for (const Status& status : Run([&](size_t worker) -> Status {
           std::string expected = ", from host to host: 9 of them";
           if (machines.size() == 18 || worker != 1) {
             expected += Format(" over {} tcp, others at first use",
                                neighbours[machines[worker][0] - 'a']);
           }
           TUTTI_ASSIGN_OR_RETURN(const FormedGroup group, Form(worker, Hang()));
           return group.hosts == expected ? OkStatus() : Internal("found {}", group.hosts);
         })) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    FormAndUse(2);
  }
}

TEST_F(GroupFormingTest, HostsAreNotJoinedForATableThatHasNoUseForIt) {
  Start({"a", "a", "b", "b"});
  std::string rows;
  for (const char* op : {"all_reduce", "reduce", "reduce_scatter", "broadcast", "all_gather"}) {
    rows += std::string(op) + " hosts any any flat\n";
  }
  table_ = SelectorTable::Parse(rows, "test").value();
  for (const Status& status : Run([&](size_t worker) -> Status {
         TUTTI_ASSIGN_OR_RETURN(const FormedGroup group, Form(worker, Hang()));
         return group.hosts.empty() ? OkStatus() : Internal("found {}", group.hosts);
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

// Where one worker wants it, all fold floats in the order of the ranks.
TEST_F(GroupFormingTest, OneWorkerMakesTheGroupReproducible) {
  Start({"a", "a", "b", "b"});
  reproducible_worker_ = 2;
  // By host: (2^24 + 1) + (1 + 1) is 2^24 + 2; by rank: ((2^24 + 1) + 1) + 1 is 2^24.
  const float inputs[] = {16777216.0f, 1.0f, 1.0f, 1.0f};
  for (const Status& status : Run([&](size_t worker) -> Status {
         TUTTI_ASSIGN_OR_RETURN(FormedGroup group, Form(worker, Hang()));
         TUTTI_ASSIGN_OR_RETURN(
             Ref<Communicator> communicator,
             Communicator::CreateOver(environments_[worker].get(), "test",
                                      static_cast<int64_t>(worker), 4, 1,
                                      std::move(group.transport)));
         const Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({1})).value();
         tensor->mutable_span<float>()[0] = inputs[worker];
         TUTTI_RETURN_IF_ERROR(
             communicator->AllReduce(*tensor, ReduceOp::kSum, Hang(), tensor.get()));
         const float sum = tensor->span<float>()[0];
         TUTTI_RETURN_IF_ERROR(communicator->Close(Hang()));
         return sum == 16777216.0f ? OkStatus() : Internal("the sum is {}", sum);
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST_F(GroupFormingTest, AloneNeedsNobody) {
  Start({"a"});
  EXPECT_EQ(FormAndUse(), Kinds{"one rank"});
}

TEST_F(GroupFormingTest, TcpCanBeForced) {
  Start({"a", "a", "a"});
  transports_.assign(3, CollectiveTransport::kTcp);
  EXPECT_EQ(FormAndUse(), Kinds(3, "2 tcp"));
}

TEST_F(GroupFormingTest, WhoCannotBeReachedWithinTheMachineIsReachedWithTcp) {
  Start({"a", "a", "a"});
  // As when worker 0 keeps its Unix sockets apart from the others.
  infos_[0].local_address = "@tutti-nobody-listens-here";
  EXPECT_EQ(FormAndUse(), (Kinds{"2 tcp", "1 ring, 1 tcp", "1 ring, 1 tcp"}));
}

TEST_F(GroupFormingTest, WorkersWithUnixSocketsApartAreNotSaidToHaveEnded) {
  Start({"a", "a"});
  const Ref<CapturedLog> log = MakeRef<CapturedLog>();
  environments_[0]->log().set_level(LogLevel::kWarning);
  ASSERT_TRUE(environments_[0]->log().SetSink(log).ok());
  // A name that nobody has stands for one in another network namespace: the kernel says the same.
  infos_[0].local_address = "@tutti-nobody-listens-here";
  EXPECT_EQ(FormAndUse(), Kinds(2, "1 tcp"));
  const std::string text = log->text();
  EXPECT_THAT(text, HasSubstr("no shared memory for all workers, links take its place: rank 1 "
                              "(worker 1, pid 4712): "));
  EXPECT_THAT(text, HasSubstr("no local socket @tutti-nobody-listens-here is to be seen from here "
                              "(connection refused): the worker there runs in a container with a "
                              "network of its own, or has ended; containers that share their "
                              "network share memory"));
  EXPECT_THAT(text, Not(HasSubstr("nothing listens")));
}

TEST_F(GroupFormingTest, SharedMemoryCanBeDemanded) {
  Start({"a", "b", "a"});
  transports_.assign(3, CollectiveTransport::kSharedMemory);
  for (const Status& status : Run([&](size_t worker) { return Form(worker, Hang()).status(); })) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("worker 0 runs on host-a and worker 1 on host-b"));
  }
  infos_[1].boot_id = "a";
  EXPECT_EQ(FormAndUse(2), Kinds(3, "shared memory"));
  infos_[0].local_address = "@tutti-nobody-listens-here";
  for (const Status& status :
       Run([&](size_t worker) { return Form(worker, Hang(), 3).status(); })) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (worker 1, pid 4712"));
  }
}

TEST_F(GroupFormingTest, DifferentTransportsAreTheSameErrorOnAll) {
  Start({"a", "a", "a"});
  transports_[2] = CollectiveTransport::kTcp;
  for (const Status& status : Run([&](size_t worker) { return Form(worker, Hang()).status(); })) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the transport of worker 0 is auto, of worker 2 tcp"));
  }
}

TEST_F(GroupFormingTest, AnUnreachableWorkerIsTheSameErrorOnAll) {
  Start({"a", "b", "c"});
  // Rank 1 connects to rank 0 alone.
  infos_[0].tcp_address = "127.0.0.1:1";
  const std::vector<Status> statuses =
      Run([&](size_t worker) { return Form(worker, Hang()).status(); });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
    EXPECT_EQ(status.message(), statuses[0].message());
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (worker 1, pid 4712"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:1"));
  }
}

TEST_F(GroupFormingTest, ADeadlineNamesWhoIsMissing) {
  Start({"a", "a"});
  const Status status = Form(0, Timeout(20 * kMillisecondNs)).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker 1"));
}

TEST(ReplicasFitCoresTest, EveryMachineCountsForItself) {
  const auto worker = [](const char* machine, int64_t replicas, int64_t cores) {
    WorkerInfo info;
    info.boot_id = machine;
    info.num_replicas = replicas;
    info.usable_cores = cores;
    return info;
  };
  EXPECT_TRUE(ReplicasFitCores({worker("a", 1, 2), worker("a", 1, 2)}));
  EXPECT_FALSE(ReplicasFitCores({worker("a", 1, 2), worker("a", 2, 2)}));
  EXPECT_TRUE(ReplicasFitCores({worker("a", 2, 2), worker("b", 2, 2)}));
  EXPECT_FALSE(ReplicasFitCores({worker("a", 1, 4), worker("b", 2, 1)}));
}

// ---- Windows ----

// In `group`, all_reduces `tensor` of ones, or a new one.
Status SumOver(Environment& environment, FormedGroup group, int64_t rank, int64_t size,
               const CallOptions& call, Ref<Tensor>* tensor) {
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Communicator> communicator,
      Communicator::CreateOver(&environment, "test", rank, size, 1, std::move(group.transport)));
  if (!*tensor) {
    TUTTI_ASSIGN_OR_RETURN(*tensor,
                           communicator->CreateTensor(DType::kInt64, Shape({200'000})));
  }
  for (int64_t& element : (*tensor)->mutable_span<int64_t>()) element = 1;
  TUTTI_RETURN_IF_ERROR(
      communicator->AllReduce(**tensor, ReduceOp::kSum, call, tensor->get()));
  for (int64_t element : (*tensor)->span<int64_t>()) {
    if (element != size) return DataLoss("found {}, expected {}", element, size);
  }
  return communicator->Close(call);
}

TEST_F(GroupFormingTest, WorkersOfOneMachineHaveWindowsWhichTheNextGroupKeeps) {
  Start({"a", "a", "a"});
  std::vector<Ref<SharedWindow>> windows(3);
  std::vector<Ref<Tensor>> tensors(3);
  for (int64_t epoch : {1, 2}) {
    for (const Status& status : Run([&](size_t worker) -> Status {
           TUTTI_ASSIGN_OR_RETURN(FormedGroup group,
                                  Form(worker, Hang(), epoch, windows[worker]));
           if (!group.window || group.transport->allocator() != group.window.get()) {
             return Internal("no window");
           }
           if (windows[worker] && windows[worker] != group.window) return Internal("another one");
           windows[worker] = group.window;
           TUTTI_RETURN_IF_ERROR(SumOver(*environments_[worker], std::move(group),
                                         static_cast<int64_t>(worker), 3, Hang(),
                                         &tensors[worker]));
           const Tensor& tensor = *tensors[worker];
           return windows[worker]->Offset(tensor.data(), tensor.byte_size()) ==
                          SharedWindow::kNowhere
                      ? Internal("it lies elsewhere")
                      : OkStatus();
         })) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

TEST_F(GroupFormingTest, RanksOfJoinedHostsHaveWindowsWhereTheyAreSeveral) {
  Start({"a", "b", "b", "c", "a"});
  std::vector<Ref<Tensor>> tensors(5);
  for (const Status& status : Run([&](size_t worker) -> Status {
         TUTTI_ASSIGN_OR_RETURN(FormedGroup group, Form(worker, Hang()));
         const Ref<SharedWindow> window = group.window;
         if (group.transport->allocator() != window.get()) return Internal("another one");
         if ((window.get() == nullptr) != (worker == 3)) return Internal("a window, or none");
         TUTTI_RETURN_IF_ERROR(SumOver(*environments_[worker], std::move(group),
                                       static_cast<int64_t>(worker), 5, Hang(),
                                       &tensors[worker]));
         const Tensor& tensor = *tensors[worker];
         return window && window->Offset(tensor.data(), tensor.byte_size()) ==
                              SharedWindow::kNowhere
                    ? Internal("it lies elsewhere")
                    : OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST_F(GroupFormingTest, OverLinksTensorsAreLikeAnyOther) {
  Start({"a", "b"});
  std::vector<Ref<Tensor>> tensors(2);
  for (const Status& status : Run([&](size_t worker) -> Status {
         TUTTI_ASSIGN_OR_RETURN(FormedGroup group, Form(worker, Hang()));
         if (group.window || group.transport->allocator() != nullptr) return Internal("a window");
         return SumOver(*environments_[worker], std::move(group), static_cast<int64_t>(worker), 2,
                        Hang(), &tensors[worker]);
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

}  // namespace
}  // namespace tutti
