// For tests: what a NaN or an infinity in a large sum comes to where a rank checks numerics, in
// groups that look at it inside the fold. Ranks is a group with size(), [rank], Hang() and Run().

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_CHECKED_FOLD_TESTING_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_CHECKED_FOLD_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/collective/communicator/communicator.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

// Who brings what, in a sum of ones.
struct BroughtIn {
  int64_t rank = 0;
  int64_t position = 0;
  float value = 0;
  float others = 1;  // what the others bring in that place
};

constexpr int64_t kCheckedFoldElements = 200'000;

// Of three ranks rank 2 alone checks.
template <typename Ranks>
std::vector<Status> SumWith(Ranks& ranks, BroughtIn brought, bool in_place) {
  return ranks.Run([&](int64_t rank, Communicator& communicator) {
    Ref<Tensor> input = Tensor::Create(DType::kFloat32, Shape({kCheckedFoldElements})).value();
    for (float& x : input->template mutable_span<float>()) x = 1;
    input->template mutable_span<float>()[static_cast<size_t>(brought.position)] =
        rank == brought.rank ? brought.value : brought.others;
    Ref<Tensor> output =
        in_place ? input : Tensor::Create(DType::kFloat32, input->shape()).value();
    const ObservedScope scope(rank == 2 ? Observed::kChecked : Observed::kAsBefore);
    return communicator.AllReduce(*input, ReduceOp::kSum, ranks.Hang(), output.get());
  });
}

// `make` gives a group of three.
template <typename Make>
void ExpectWhoBroughtItIsNamed(const Make& make) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool in_place : {false, true}) {
    for (int64_t rank = 0; rank < 3; ++rank) {
      for (const int64_t position : {int64_t{0}, int64_t{70'000}, kCheckedFoldElements - 1}) {
        const auto ranks = make();
        const float value = rank == 1 ? infinity : nan;
        const std::vector<Status> statuses =
            SumWith(*ranks, {rank, position, value}, in_place);
        for (const Status& status : statuses) {
          EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
          EXPECT_EQ(status.message(), statuses[0].message());
          EXPECT_THAT(std::string(status.message()),
                      testing::AllOf(
                          testing::HasSubstr("rank " + std::to_string(rank) +
                                             ": all_reduce #1: all_reduce: the input, "
                                             "float32[200000], is not finite: the first of"),
                          testing::HasSubstr((rank == 1 ? "is +Inf at [" : "is NaN at [") +
                                             std::to_string(position) + "]")));
        }
      }
    }
    const auto ranks = make();
    for (const Status& status : SumWith(*ranks, {0, 5, 3e38F, 3e38F}, in_place)) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
      EXPECT_THAT(std::string(status.message()),
                  testing::HasSubstr(in_place ? "the result in place" : "of finite inputs"));
    }
    const auto good = make();
    for (const Status& status : SumWith(*good, {0, 5, 1}, in_place)) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_CHECKED_FOLD_TESTING_H_
