// Collectives between GPUs by NCCL: what goes by it, what does not and why, and how it ends.
#include <string>
#include <vector>

#include "core/base/real_environment.h"
#include "core/cluster/job/cluster.h"
#include "core/cluster/testing/reserved_port_testing.h"
#include "core/collective/communicator/communication_options.h"
#include "core/collective/group/gpu_settings.h"
#include "tests/gpu/collectives/nccl_collectives_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(NcclCollectives, HasAllOperationsOfRanksOfSeveralProcesses) {
  {
    // Four ranks on three devices: NCCL can do that.
    LinkRanks links(4, LinkKind::kSocketPair);
    const Ref<Lines> lines = Listen(links);
    ExpectAllOperations(links, DType::kInt32);
    EXPECT_GE(CountNccl(), 4);
    EXPECT_THAT(lines->Take(), IsEmpty());
    ASSERT_TRUE(links.environment().log().SetSink(nullptr).ok());
    EXPECT_ALL_OK(links.Run([&](int64_t rank, Communicator& self) -> Status {
      // Tensors of several dtypes in one call, and what is joined along another axis.
      const Ref<Tensor> ones = Floats(rank, {1, 2, 3, 4});
      const Ref<Tensor> more = MemoryOf(rank).Create(DType::kInt64, Shape({5}), true).value();
      const Tensor* inputs[] = {ones.get(), more.get()};
      Tensor* outputs[] = {ones.get(), more.get()};
      TUTTI_RETURN_IF_ERROR(self.AllReduce(inputs, ReduceOp::kSum, links.Hang(), outputs));
      EXPECT_EQ(Read(*ones), (std::vector<float>{4, 8, 12, 16}));
      const int64_t dims[] = {2, 2};
      TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> square, ones->Reshape(dims));
      Ref<Tensor> joined;
      TUTTI_RETURN_IF_ERROR(self.AllGather(*square, 1, links.Hang(), &joined));
      EXPECT_EQ(Read(*joined), (std::vector<float>{4, 8, 4, 8, 4, 8, 4, 8,  //
                                                   12, 16, 12, 16, 12, 16, 12, 16}));
      EXPECT_EQ(joined->device(), ones->device());
      return OkStatus();
    }));
  }
  EXPECT_EQ(CountNccl(), 0);
}

TEST_F(NcclCollectives, AreChosenByAllRanksTogether) {
  {
    RankGroup local(2);
    EXPECT_ALL_OK(Sum(local));
    EXPECT_EQ(CountNccl(), 0);  // the kernels, with the host's bits
    EXPECT_ALL_OK(Sum(local, CommunicationImplementation::kNccl));
    EXPECT_GE(CountNccl(), 2);
    // Part of the group: a communicator of its own.
    EXPECT_ALL_OK(local.Run([&](int64_t rank, Communicator& self) -> Status {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> part,
                             self.Split(0, -rank, "turned", local.Hang()));
      const Ref<Tensor> mine = Floats(rank, {static_cast<float>(rank)});
      Ref<Tensor> joined;
      const CollectiveOptions nccl(local.Hang(),
                                   {.implementation = CommunicationImplementation::kNccl});
      TUTTI_RETURN_IF_ERROR(part->AllGather(*mine, 0, nccl, &joined));
      EXPECT_EQ(Read(*joined), (std::vector<float>{1, 0}));
      return part->Close(local.Hang());
    }));
  }
  {
    LinkRanks links(2, LinkKind::kSocketPair);
    const Ref<Lines> lines = Listen(links);
    EXPECT_ALL_OK(Sum(links, CommunicationImplementation::kRing));
    EXPECT_EQ(CountNccl(), 0);
    EXPECT_THAT(lines->Take(), Each(HasSubstr("NCCL is not used: RING was asked for")));
    ASSERT_TRUE(links.environment().log().SetSink(nullptr).ok());
  }
  EXPECT_EQ(CountNccl(), 0);
}

TEST_F(NcclCollectives, FallBackAndSayWhy) {
  for (const auto& [library, size, why] :
       {std::tuple(TUTTI_GPU_NCCL_2_27, 4, "ranks 0 and 3 are both on device"),
        std::tuple("/there/is/no/nccl.so", 2, "rank 0: ")}) {
    if (std::string(library) == "/there/is/no/nccl.so") {
      Use(library);
    } else {
      UseNccl(library);
    }
    LinkRanks links(static_cast<size_t>(size), LinkKind::kSocketPair);
    const Ref<Lines> lines = Listen(links);
    for (int i = 0; i < 2; ++i) {
      ExpectReference(links, {.op = CollectiveOp::kAllReduce,
                              .dtype = DType::kInt32,
                              .reduction = ReduceOp::kBitAnd,
                              .rows = 2});
    }
    const std::multiset<std::string> written = lines->Take();
    EXPECT_EQ(written.size(), static_cast<size_t>(size));
    EXPECT_THAT(written, Each(AllOf(HasSubstr("NCCL is not used: "), HasSubstr(why))));
    ASSERT_TRUE(links.environment().log().SetSink(nullptr).ok());
  }
  // One that demands it is told as well.
  UseNccl(TUTTI_GPU_NCCL_2_18);
  RankGroup local(4);
  const Ref<Lines> lines = Listen(local);
  EXPECT_ALL_OK(Sum(local, CommunicationImplementation::kNccl));
  EXPECT_ALL_OK(Sum(local, CommunicationImplementation::kNccl));
  const std::multiset<std::string> written = lines->Take();
  EXPECT_EQ(written.size(), 1u);
  EXPECT_THAT(written, Each(AllOf(HasSubstr("asks for the communication NCCL, which is not used: "),
                                  HasSubstr("are both on device"))));
  ASSERT_TRUE(local.environment().log().SetSink(nullptr).ok());
}

// Two ranks on one GPU: by NCCL from 2.30 on, where nobody has forbidden it, else by the kernels.
TEST_F(NcclCollectives, OfRanksOnOneGpuNeedNccl2_30AndElseGoByTheKernels) {
  const auto sum = [&](RankGroup& group) {
    return group.Run([&](int64_t rank, Communicator& self) {
      // All on GPU:0.
      const Ref<Tensor> mine = Floats(0, {1, static_cast<float>(rank)});
      const CollectiveOptions options(
          group.Hang(), {.implementation = CommunicationImplementation::kNccl});
      TUTTI_RETURN_IF_ERROR(self.AllReduce(*mine, ReduceOp::kSum, options, mine.get()));
      return Read(*mine) == std::vector<float>{2, 1} ? OkStatus() : DataLoss("other sums");
    });
  };
  struct Case {
    const char* library;
    const char* forbidden;  // the user's own NCCL_MULTI_RANK_GPU_ENABLE; null: none
    const char* why_not;    // null: by NCCL
  };
  for (const Case& one : {Case{TUTTI_GPU_NCCL_2_27, nullptr, "install NCCL 2.30"},
                          Case{TUTTI_GPU_NCCL_2_30, nullptr, nullptr},
                          Case{TUTTI_GPU_NCCL, nullptr, nullptr},
                          Case{TUTTI_GPU_NCCL, "0", "Duplicate GPU detected"}}) {
    unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (one.forbidden != nullptr) setenv("NCCL_MULTI_RANK_GPU_ENABLE", one.forbidden, 1);
    UseNccl(one.library);
    {
      RankGroup group(2);
      const Ref<Lines> lines = Listen(group);
      EXPECT_ALL_OK(sum(group));
      EXPECT_ALL_OK(sum(group));
      if (one.why_not == nullptr) {
        EXPECT_EQ(CountNccl(), 2);
        EXPECT_STREQ(std::getenv("NCCL_MULTI_RANK_GPU_ENABLE"), "1");
        EXPECT_THAT(lines->Take(), ::testing::IsEmpty());
      } else {
        EXPECT_EQ(CountNccl(), 0);
        const std::multiset<std::string> written = lines->Take();
        EXPECT_EQ(written.size(), 1u);
        EXPECT_THAT(written, Each(HasSubstr(one.why_not)));
      }
      ASSERT_TRUE(group.environment().log().SetSink(nullptr).ok());
    }
    EXPECT_EQ(CountNccl(), 0);
  }
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

// An NCCL that is too old: the sentence says which was found and which would do, once.
TEST_F(NcclCollectives, OfAnOldNcclGoOtherwiseAndSayWhichWouldDo) {
  UseNccl(TUTTI_GPU_NCCL_2_18);
  fake::NcclFaults faults;
  faults.version = 21703;
  Break(faults);
  RankGroup group(2);
  const Ref<Lines> lines = Listen(group);
  EXPECT_ALL_OK(Sum(group, CommunicationImplementation::kNccl));
  EXPECT_ALL_OK(Sum(group, CommunicationImplementation::kNccl));
  const std::multiset<std::string> written = lines->Take();
  EXPECT_EQ(written.size(), 1u);
  EXPECT_THAT(written, Each(AllOf(HasSubstr("NCCL 2.17.3 ("),
                                  HasSubstr("is too old; 2.18 or newer is needed"))));
  ASSERT_TRUE(group.environment().log().SetSink(nullptr).ok());
}

TEST_F(NcclCollectives, AreAbortedInOneGroupWhenTheirEpochEnds) {
  RankGroup group(3);
  EXPECT_ALL_OK(Sum(group, CommunicationImplementation::kNccl));
  EXPECT_EQ(CountNccl(), 3);
  const auto most = FunctionOfNccl<fake::MostAborted>(fake::kMostAborted);
  most();
  // Ranks 0 and 2 are in a call that rank 1 never comes to; it ends the epoch.
  std::vector<Ref<Tensor>> there;
  for (int64_t rank = 0; rank < 3; ++rank) there.push_back(Floats(rank, {1}));
  const CollectiveOptions options(group.Hang(),
                                  {.implementation = CommunicationImplementation::kNccl});
  fake::NcclFaults faults;
  faults.error = 6;
  faults.error_rank = 1;
  faults.error_operation = 1;
  Break(faults);
  for (const Status& status : group.Run([&](int64_t rank, Communicator& self) {
         const Ref<Tensor>& mine = there[static_cast<size_t>(rank)];
         return self.AllReduce(*mine, ReduceOp::kSum, options, mine.get());
       })) {
    // A rank may have had its result before another one's NCCL failed.
    if (status.ok()) continue;
    EXPECT_THAT(std::string(status.message()), HasSubstr("NCCL"));
  }
  EXPECT_FALSE(group[0].epoch_status().ok());
  EXPECT_EQ(most(), 3);
  EXPECT_EQ(CountNccl(), 0);
}

TEST_F(NcclCollectives, OfRanksThatDifferAreOneErrorOnAllRanks) {
  const auto expect = [](const std::vector<Status>& statuses, const char* sentence) {
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
      EXPECT_THAT(std::string(status.message()), HasSubstr(sentence));
    }
  };
  LinkRanks shapes(2, LinkKind::kSocketPair);
  EXPECT_ALL_OK(Sum(shapes));
  expect(shapes.Run([&](int64_t rank, Communicator& self) {
    const Ref<Tensor> mine = rank == 0 ? Floats(0, {1}) : Floats(1, {1, 2});
    return self.AllReduce(*mine, ReduceOp::kSum, shapes.Hang(), mine.get());
  }), "got float32[2], rank 0 sent float32[1]; dtype and shape must be the same on all ranks");
  LinkRanks places(2, LinkKind::kSocketPair);
  EXPECT_ALL_OK(Sum(places));
  expect(places.Run([&](int64_t rank, Communicator& self) {
    const Ref<Tensor> mine = rank == 0 ? Tensor::Create(DType::kFloat32, Shape({1})).value()
                                       : Floats(1, {1});
    return self.AllReduce(*mine, ReduceOp::kSum, places.Hang(), mine.get());
  }), "got tensors on a GPU, rank 0 on the host");
  LinkRanks moved(2, LinkKind::kSocketPair);
  EXPECT_ALL_OK(Sum(moved));
  expect(moved.Run([&](int64_t rank, Communicator& self) {
    const Ref<Tensor> mine = Floats(rank == 0 ? 0 : 2, {1});
    return self.AllReduce(*mine, ReduceOp::kSum, moved.Hang(), mine.get());
  }), "the tensors lie on GPU:2, and those of this rank's first call lay on GPU:1");
}

TEST_F(NcclCollectives, EndOnAllRanksWhenOneDoesNotComeOrNcclFails) {
  {
    LinkRanks late(2, LinkKind::kSocketPair);
    EXPECT_ALL_OK(Sum(late));
    const Ref<Tensor> mine = Floats(0, {1});
    EXPECT_EQ(late[0].AllReduce(*mine, ReduceOp::kSum, late.Timeout(30'000'000), mine.get()).code(),
              StatusCode::kDeadlineExceeded);
    EXPECT_EQ(late[1].Barrier(late.Hang()).code(), StatusCode::kDeadlineExceeded);
  }
  {
    LinkRanks broken(2, LinkKind::kSocketPair);
    EXPECT_ALL_OK(Sum(broken));
    fake::NcclFaults faults;
    faults.error = 3;  // an internal error of NCCL's
    faults.error_rank = 1;
    faults.error_operation = 1;
    Break(faults);
    const Status failed = Sum(broken)[1];
    EXPECT_FALSE(failed.ok());
    EXPECT_THAT(std::string(failed.message()), HasSubstr("NCCL"));
    // The other one may have had its result before.
    for (const Status& status : Sum(broken)) {
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(std::string(status.message()), HasSubstr("NCCL"));
    }
    EXPECT_FALSE(broken[0].epoch_status().ok());
    EXPECT_FALSE(broken[1].epoch_status().ok());
    Break({});
  }
  // The next communicator is as good as new.
  LinkRanks next(2, LinkKind::kSocketPair);
  EXPECT_ALL_OK(Sum(next));
  next.Drop(1);
  const Ref<Tensor> mine = Floats(0, {1});
  EXPECT_EQ(next[0].AllReduce(*mine, ReduceOp::kSum, next.Hang(), mine.get()).code(),
            StatusCode::kUnavailable);
}

// The key is one of the job's secret's, and not the secret; without a secret there is none.
TEST(GpuSettings, OfAJobHaveAKeyThatItsSecretGivesToAllWorkers) {
  const auto settings_of = [](const std::string& secret) {
    const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
    const CallOptions call = CallOptions::WithTimeout(environment->clock(), 60 * kSecondNs);
    ClusterOptions options;
    options.tasks = {"worker:0"};
    options.addresses = {Format("127.0.0.1:{}", ReservePort())};
    if (!secret.empty()) options.secret = *JobSecret::FromText(secret);
    const Ref<Cluster> cluster = Cluster::Join(environment, options, call).value();
    const GpuCollectivesSettings settings = GpuSettingsOf(*cluster);
    EXPECT_TRUE(cluster->Close(call).ok());
    EXPECT_TRUE(environment->Shutdown(call).ok());
    return settings;
  };
  const std::string secret(64, 'a');
  const GpuCollectivesSettings first = settings_of(secret);
  EXPECT_EQ(first.encryption_key.size(), 64u);
  EXPECT_THAT(first.encryption_key, Not(HasSubstr(secret.substr(0, 16))));
  EXPECT_EQ(settings_of(secret).encryption_key, first.encryption_key);
  EXPECT_NE(settings_of(std::string(64, 'b')).encryption_key, first.encryption_key);
}

TEST(GpuSettings, KnowTheInterfaceOfAnAddress) {
  EXPECT_EQ(InterfaceOf("127.0.0.1:80"), "lo");
  EXPECT_EQ(InterfaceOf("203.0.113.77:80"), "");
  EXPECT_EQ(InterfaceOf("somewhere:80"), "");
  EXPECT_EQ(InterfaceOf("127.0.0.1"), "");
}

}  // namespace
}  // namespace tutti::gpu
