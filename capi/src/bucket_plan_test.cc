// Bucket plans, and the table of algorithms.
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using BucketPlan = Handle<tutti_bucket_plan, tutti_bucket_plan_release>;

class BucketPlanTest : public testing::Test {
 protected:
  BucketPlanTest() { EXPECT_OK(tutti_communicator_create_local(nullptr, 2, nullptr, ranks_)); }
  ~BucketPlanTest() override {
    for (tutti_communicator *rank : ranks_) tutti_communicator_release(rank);
  }

  static Tensor Ints(const std::vector<int64_t> &elements) {
    Tensor tensor;
    const auto rows = static_cast<int64_t>(elements.size());
    EXPECT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, 1, &rows, elements.data(),
                                            elements.size() * sizeof(int64_t), &tensor));
    return tensor;
  }
  static int64_t FirstElement(const tutti_tensor *tensor) {
    int64_t element = 0;
    std::memcpy(&element, tutti_tensor_get_data(tensor), sizeof(element));
    return element;
  }

  tutti_communicator *ranks_[2] = {nullptr, nullptr};
};

TEST_F(BucketPlanTest, APlanMayReduceTensorsOfItsOwn) {
  const auto train = [&](int64_t rank) {
    const Tensor like = Ints({7, 8});
    tutti_tensor *const twice[] = {like, like};
    tutti_bucket_plan_options options = TUTTI_BUCKET_PLAN_OPTIONS_INIT;
    options.own_tensors = TUTTI_TRUE;
    BucketPlan plan;
    ASSERT_OK(tutti_bucket_plan_create(ranks_[rank], 2, twice, TUTTI_REDUCE_SUM, &options, &plan));
    Tensor own[2];
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_OK(tutti_bucket_plan_get_tensor(plan, i, &own[i]));
      EXPECT_EQ(FirstElement(own[i]), 0);
      void *data = nullptr;
      ASSERT_OK(tutti_tensor_get_mutable_data(own[i], &data));
      static_cast<int64_t *>(data)[0] = rank + static_cast<int64_t>(i);
      EXPECT_OK(tutti_bucket_plan_ready(plan, i));
    }
    EXPECT_OK(tutti_bucket_plan_wait(plan, nullptr));
    EXPECT_EQ(FirstElement(own[0]), 1);
    EXPECT_EQ(FirstElement(own[1]), 3);
    EXPECT_EQ(FirstElement(like), 7);
    Tensor none;
    EXPECT_FAILS(tutti_bucket_plan_get_tensor(plan, 2, &none), TUTTI_INVALID_ARGUMENT,
                 "tensor 2 is asked for");
    EXPECT_FAILS(tutti_bucket_plan_get_tensor(nullptr, 0, &none), TUTTI_INVALID_ARGUMENT, "plan");
  };
  std::thread other(train, 1);
  train(0);
  other.join();
}

TEST_F(BucketPlanTest, GradientsAreReducedWhateverTheOrderInWhichTheyAreReported) {
  const auto train = [&](int64_t rank) {
    const Tensor first = Ints({rank + 1});
    const Tensor second = Ints({10, 20 * rank});
    tutti_tensor *const gradients[] = {first, second};
    tutti_bucket_plan_options options = TUTTI_BUCKET_PLAN_OPTIONS_INIT;
    options.bytes_per_pack = 8;
    BucketPlan plan;
    ASSERT_OK(tutti_bucket_plan_create(ranks_[rank], 2, gradients, TUTTI_REDUCE_SUM, &options,
                                       &plan));
    EXPECT_EQ(tutti_bucket_plan_get_bucket_count(plan), 2);
    for (const int64_t factor : {1, 2}) {
      EXPECT_OK(tutti_bucket_plan_ready(plan, rank == 0 ? 0 : 1));
      EXPECT_OK(tutti_bucket_plan_ready(plan, rank == 0 ? 1 : 0));
      EXPECT_OK(tutti_bucket_plan_wait(plan, nullptr));
      EXPECT_EQ(FirstElement(first), 3 * factor);
      EXPECT_EQ(FirstElement(second), 20 * factor);
    }
  };
  std::thread other(train, 1);
  train(0);
  other.join();
}

TEST_F(BucketPlanTest, WrongArgumentsAreRefused) {
  const Tensor gradient = Ints({1});
  tutti_tensor *const once[] = {gradient};
  tutti_tensor *const twice[] = {gradient, gradient};
  BucketPlan plan;
  EXPECT_FAILS(tutti_bucket_plan_create(nullptr, 1, once, TUTTI_REDUCE_SUM, nullptr, &plan),
               TUTTI_INVALID_ARGUMENT, "communicator");
  EXPECT_FAILS(tutti_bucket_plan_create(ranks_[0], 1, nullptr, TUTTI_REDUCE_SUM, nullptr, &plan),
               TUTTI_INVALID_ARGUMENT, "tensors");
  EXPECT_FAILS(tutti_bucket_plan_create(ranks_[0], 2, twice, TUTTI_REDUCE_SUM, nullptr, &plan),
               TUTTI_INVALID_ARGUMENT, "twice");
  EXPECT_FAILS(tutti_bucket_plan_ready(nullptr, 0), TUTTI_INVALID_ARGUMENT, "plan");
  EXPECT_FAILS(tutti_bucket_plan_wait(nullptr, nullptr), TUTTI_INVALID_ARGUMENT, "plan");
  EXPECT_EQ(tutti_bucket_plan_get_bucket_count(nullptr), 0);
  ASSERT_OK(tutti_bucket_plan_create(ranks_[0], 1, once, TUTTI_REDUCE_SUM, nullptr, &plan));
  EXPECT_FAILS(tutti_bucket_plan_ready(plan, 1), TUTTI_INVALID_ARGUMENT, "tensor 1");
  tutti_bucket_plan_retain(nullptr);
  tutti_bucket_plan_release(nullptr);
}

TEST_F(BucketPlanTest, TheTableOfAlgorithmsIsTextThatTheSettingReads) {
  tutti_runtime *runtime = nullptr;
  ASSERT_OK(tutti_runtime_create(nullptr, &runtime));
  EXPECT_OK(tutti_runtime_set(runtime, "collective_table",
                              "rows: all_reduce tcp 2-4 8KiB flat_fold"));
  Bytes table;
  EXPECT_OK(tutti_runtime_describe_collectives(runtime, &table));
  EXPECT_THAT(tutti_bytes_get_view(table).data,
              testing::StartsWith("all_reduce     tcp           2-4   8KiB"));
  EXPECT_THAT(tutti_bytes_get_view(table).data, testing::HasSubstr("shared_memory"));
  EXPECT_FAILS(tutti_runtime_set(runtime, "collective_table", "rows: nothing"),
               TUTTI_INVALID_ARGUMENT, "expected collective, where");
  EXPECT_OK(tutti_runtime_shutdown(runtime, nullptr));
  tutti_runtime_release(runtime);
}

}  // namespace
}  // namespace tutti::capi_test
