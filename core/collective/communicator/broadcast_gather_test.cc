// Broadcast, all_gather and barrier.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <string>
#include <vector>

#include "core/collective/testing/rank_threads.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

void ExpectAllOk(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(Broadcast, CopiesTheRootsElementsToEveryRank) {
  for (const size_t ranks : {1, 2, 5}) {
    RankGroup group(ranks);
    for (const int64_t elements : {0, 1, 1024, 100'003}) {
      for (int64_t root = 0; root < static_cast<int64_t>(ranks); ++root) {
        ExpectAllOk(group.Run([&](int64_t rank, Communicator& communicator) {
          Ref<Tensor> tensor = Tensor::Create(DType::kInt32, Shape({elements})).value();
          for (int64_t i = 0; i < elements; ++i) {
            tensor->mutable_span<int32_t>()[i] = static_cast<int32_t>(rank == root ? i : -1);
          }
          TUTTI_RETURN_IF_ERROR(communicator.Broadcast(root, group.Hang(), tensor.get()));
          for (int64_t i = 0; i < elements; ++i) {
            if (tensor->span<int32_t>()[i] != i) {
              return Status(StatusCode::kDataLoss, "element " + std::to_string(i));
            }
          }
          return OkStatus();
        }));
      }
    }
  }
}

TEST(Broadcast, WritesStridedTensorsAndReadsReadOnlyRoots) {
  RankGroup group(2);
  ExpectAllOk(group.Run([&](int64_t rank, Communicator& communicator) {
    std::vector<float> memory(3 * 10'000, rank == 0 ? 2.5f : 0.0f);
    const Dims strides = {3};
    Ref<Tensor> tensor = Tensor::View(memory.data(), DType::kFloat32, Shape({10'000}),
                                      strides.span(), rank == 0, Ref<const RefCounted>());
    TUTTI_RETURN_IF_ERROR(communicator.Broadcast(0, group.Hang(), tensor.get()));
    for (size_t i = 0; i < memory.size(); ++i) {
      const float expected = rank == 0 || i % 3 == 0 ? 2.5f : 0.0f;
      if (memory[i] != expected) return Status(StatusCode::kDataLoss, std::to_string(i));
    }
    return OkStatus();
  }));
}

TEST(Broadcast, RefusesBytesAndRootsThatAreNoRank) {
  for (const int64_t root : {-1, 2}) {
    RankGroup group(2);
    const std::vector<Status> statuses = group.Run([&](int64_t, Communicator& communicator) {
      Ref<Tensor> tensor = Tensor::Scalar<float>(1.0f);
      return communicator.Broadcast(root, group.Hang(), tensor.get());
    });
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr("pass a rank in [0, 2)"));
    }
  }
  RankGroup group(2);
  const std::vector<Status> statuses = group.Run([&](int64_t, Communicator& communicator) {
    return communicator.Broadcast(0, group.Hang(), Tensor::Bytes("text").get());
  });
  for (const Status& status : statuses) EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

TEST(AllGather, JoinsUnevenInputsInRankOrder) {
  RankGroup group(4);
  ExpectAllOk(group.Run([&](int64_t rank, Communicator& communicator) {
    // Rank r gives r rows of two numbers each; rank 0 none.
    Ref<Tensor> input = Tensor::Create(DType::kInt64, Shape({rank, 2})).value();
    std::fill_n(input->mutable_span<int64_t>().data(), 2 * rank, rank);
    Ref<Tensor> joined;
    TUTTI_RETURN_IF_ERROR(communicator.AllGather(*input, 0, group.Hang(), &joined));
    EXPECT_EQ(joined->ToString(), "int64[6,2] [[1 1] [2 2] [2 2] [3 3] [3 3] [3 3]]");
    return OkStatus();
  }));
}

TEST(AllGather, JoinsAlongAnyAxis) {
  RankGroup group(2);
  ExpectAllOk(group.Run([&](int64_t rank, Communicator& communicator) {
    Ref<Tensor> input = Tensor::Create(DType::kFloat32, Shape({2, rank + 1})).value();
    std::fill_n(input->mutable_span<float>().data(), 2 * (rank + 1), static_cast<float>(rank));
    Ref<Tensor> joined;
    TUTTI_RETURN_IF_ERROR(communicator.AllGather(*input, 1, group.Hang(), &joined));
    EXPECT_EQ(joined->ToString(), "float32[2,3] [[0 1 1] [0 1 1]]");
    return OkStatus();
  }));
}

TEST(AllGather, CopiesByteStringsThatOutliveTheirRank) {
  RankGroup group(2);
  ExpectAllOk(group.Run([&](int64_t rank, Communicator& communicator) {
    Ref<Tensor> joined;
    {
      const std::string text = rank == 0 ? "from rank zero" : "from rank one";
      const BytesView views[] = {{text.data(), text.size()}};
      Ref<Tensor> input = Tensor::FromStrings(Shape({1}), views).value();
      TUTTI_RETURN_IF_ERROR(communicator.AllGather(*input, 0, group.Hang(), &joined));
    }
    TUTTI_RETURN_IF_ERROR(communicator.Barrier(group.Hang()));
    EXPECT_EQ(joined->span<BytesView>()[0].text(), "from rank zero");
    EXPECT_EQ(joined->span<BytesView>()[1].text(), "from rank one");
    return OkStatus();
  }));
}

TEST(AllGather, RefusesAnAxisThatIsNotThere) {
  RankGroup group(2);
  Ref<Tensor> untouched = Tensor::Scalar<int32_t>(7);
  const std::vector<Status> statuses = group.Run([&](int64_t, Communicator& communicator) {
    Ref<Tensor> joined = untouched;
    const Status status =
        communicator.AllGather(*Tensor::Scalar<float>(1.0f), 0, group.Hang(), &joined);
    EXPECT_EQ(joined.get(), untouched.get());
    return status;
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("axis 0 of a tensor float32[]"));
  }
}

TEST(Barrier, LetsNobodyPassBeforeEverybodyHasCalled) {
  constexpr int kRounds = 2000;
  RankGroup group(4);
  std::atomic<int> arrivals{0};
  ExpectAllOk(group.Run([&](int64_t, Communicator& communicator) {
    for (int round = 1; round <= kRounds; ++round) {
      arrivals.fetch_add(1);
      TUTTI_RETURN_IF_ERROR(communicator.Barrier(group.Hang()));
      if (arrivals.load() < 4 * round) return Status(StatusCode::kInternal, "passed too early");
    }
    return OkStatus();
  }));
}

}  // namespace
}  // namespace tutti
