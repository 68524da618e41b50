// Assertions and checks of numerics, as a C client sees them.
#include <limits>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using DebuggingTest = CInterfaceTest;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Value FloatsValue(const std::vector<float> &values) { return ValueOf(Floats(values)); }

TEST_F(DebuggingTest, ComparisonsSayWhereTheyDoNotHold) {
  const Value x = FloatsValue({1, 5, 3}), y = FloatsValue({2, 4, 9});
  tutti_compare_options options = TUTTI_COMPARE_OPTIONS_INIT;
  options.message = "layer 1";
  options.summarize = 1;
  EXPECT_FAILS(tutti_debugging_assert_compare(TUTTI_COMPARISON_LESS, x, y, &options),
               TUTTI_INVALID_ARGUMENT,
               "layer 1: assert_less: x < y does not hold at [1], where x is 5 and y is 4; x "
               "float32[3]: [1 ...], y float32[3]: [2 ...]");
  EXPECT_OK(tutti_debugging_assert_compare(TUTTI_COMPARISON_NONE_EQUAL, x, y, nullptr));
  const Tensor atol = Floats({8});
  options.atol = atol;
  EXPECT_OK(tutti_debugging_assert_compare(TUTTI_COMPARISON_NEAR, x, y, &options));
}

TEST_F(DebuggingTest, WrongArgumentsAreNamed) {
  const Value x = FloatsValue({1});
  EXPECT_FAILS(tutti_debugging_assert_compare(8, x, x, nullptr), TUTTI_INVALID_ARGUMENT,
               "comparison is 8; expected 1 to 7");
  EXPECT_FAILS(tutti_debugging_assert_condition(0, x, nullptr), TUTTI_INVALID_ARGUMENT,
               "condition is 0");
  EXPECT_FAILS(tutti_debugging_assert_condition(TUTTI_CONDITION_POSITIVE, nullptr, nullptr),
               TUTTI_INVALID_ARGUMENT, "x");
  const int64_t rank = -1;
  EXPECT_FAILS(tutti_debugging_assert_rank(TUTTI_RANK_EQUAL, x, 1, &rank, nullptr),
               TUTTI_INVALID_ARGUMENT, "a rank is -1");
  EXPECT_FAILS(tutti_debugging_assert_rank(TUTTI_RANK_EQUAL, x, 0, nullptr, nullptr),
               TUTTI_INVALID_ARGUMENT, "expected one rank, found 0");
  EXPECT_FAILS(tutti_debugging_assert_type(x, 99, nullptr), TUTTI_INVALID_ARGUMENT, "no dtype");
  EXPECT_FAILS(tutti_debugging_assert_shapes(x, 0, nullptr, nullptr, nullptr),
               TUTTI_INVALID_ARGUMENT, "expected a list of as many");
  Value none, text;
  ASSERT_OK(tutti_value_create_none(&none));
  ASSERT_OK(tutti_value_create_string({"text", 4}, &text));
  EXPECT_FAILS(tutti_debugging_assert_condition(TUTTI_CONDITION_SCALAR, none, nullptr),
               TUTTI_INVALID_ARGUMENT, "holds no tensor");
  EXPECT_FAILS(tutti_debugging_assert_condition(TUTTI_CONDITION_SCALAR, text, nullptr),
               TUTTI_INVALID_ARGUMENT, "x is a string");
  EXPECT_FAILS(tutti_debugging_assert_compare(TUTTI_COMPARISON_EQUAL, none, x, nullptr),
               TUTTI_INVALID_ARGUMENT, "leaf 0 of x is none");
  EXPECT_FAILS(tutti_debugging_assert_compare(TUTTI_COMPARISON_EQUAL, x, none, nullptr),
               TUTTI_INVALID_ARGUMENT, "leaf 0 of y is none");
  EXPECT_EQ(tutti_debugging_is_numeric(text), 0);
  EXPECT_EQ(tutti_debugging_is_numeric(nullptr), 0);
  EXPECT_EQ(tutti_debugging_is_numeric(x), 1);
  tutti_dtype dtype = TUTTI_DTYPE_INVALID;
  EXPECT_OK(tutti_debugging_assert_same_float_dtype(nullptr, TUTTI_DTYPE_INVALID, &dtype));
  EXPECT_EQ(dtype, TUTTI_DTYPE_FLOAT32);
}

TEST_F(DebuggingTest, StructuresAreComparedLeafByLeaf) {
  const Value x = FloatsValue({1}), y = FloatsValue({2});
  const tutti_value *children[] = {x, y};
  const char *keys[] = {"a", "b"};
  Value both, list;
  ASSERT_OK(tutti_value_create_dict(2, keys, children, &both));
  EXPECT_FAILS(tutti_debugging_assert_compare(TUTTI_COMPARISON_EQUAL, both, x, nullptr),
               TUTTI_INVALID_ARGUMENT, "x[\"b\"] is 2 and y is 1");
  EXPECT_OK(tutti_debugging_assert_compare(TUTTI_COMPARISON_EQUAL, both, both, nullptr));
  const tutti_value *three[] = {x, y, x};
  ASSERT_OK(tutti_value_create_list(3, three, &list));
  EXPECT_FAILS(tutti_debugging_assert_compare(TUTTI_COMPARISON_EQUAL, both, list, nullptr),
               TUTTI_INVALID_ARGUMENT, "expected one structure");
}

// A replica's gradient: not finite where the replica is 1.
tutti_status *Reduce(tutti_context *context, const tutti_value *, tutti_value **out, void *) {
  const bool bad = tutti_context_get_replica_id(context) == 1;
  const Value gradient = FloatsValue({1, bad ? kNan : 2});
  return tutti_context_all_reduce(context, TUTTI_REDUCE_SUM, gradient, nullptr, out);
}

TEST_F(DebuggingTest, ANanOfOneReplicaIsNamed) {
  const Strategy strategy = MirroredOver(2);
  Value result;
  EXPECT_OK(tutti_strategy_run(strategy, Reduce, nullptr, nullptr, nullptr, &result));
  EXPECT_EQ(tutti_debugging_is_checking_numerics(), 0);
  EXPECT_OK(tutti_debugging_enable_check_numerics(nullptr));
  EXPECT_OK(tutti_debugging_enable_check_numerics(nullptr));
  EXPECT_EQ(tutti_debugging_is_checking_numerics(), 1);
  EXPECT_FAILS(tutti_strategy_run(strategy, Reduce, nullptr, nullptr, nullptr, &result),
               TUTTI_INVALID_ARGUMENT,
               "all_reduce: the input of replica 1 in step 2, float32[2], is not finite: the first "
               "of 1 NaN, 0 +Inf and 0 -Inf among 2 elements is nan at [1]");
  tutti_debugging_disable_check_numerics();
  tutti_check_numerics_options options = TUTTI_CHECK_NUMERICS_OPTIONS_INIT;
  options.whole_process = 7;
  EXPECT_FAILS(tutti_debugging_enable_check_numerics(&options), TUTTI_INVALID_ARGUMENT,
               "whole_process");
  EXPECT_EQ(tutti_debugging_is_checking_numerics(), 0);
  EXPECT_OK(tutti_strategy_run(strategy, Reduce, nullptr, nullptr, nullptr, &result));
}

TEST_F(DebuggingTest, PlacementsAreLoggedWhereAskedFor) {
  EXPECT_EQ(tutti_debugging_is_logging_device_placement(), 0);
  tutti_debugging_set_log_device_placement(1);
  EXPECT_EQ(tutti_debugging_is_logging_device_placement(), 1);
  ::testing::internal::CaptureStderr();
  {
    const Strategy strategy = MirroredOver(2);
    Value result;
    EXPECT_OK(tutti_strategy_run(strategy, Reduce, nullptr, nullptr, nullptr, &result));
  }
  tutti_debugging_set_log_device_placement(0);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("placement: run #1: replica 0 on CPU:0, replica 1 on CPU:1"));
}

TEST_F(DebuggingTest, WrongDumpsAreNamed) {
  int64_t writer = 0;
  tutti_dump_options options = TUTTI_DUMP_OPTIONS_INIT;
  EXPECT_FAILS(tutti_debugging_enable_dump("", nullptr, &writer), TUTTI_INVALID_ARGUMENT,
               "dump_root is empty");
  EXPECT_FAILS(tutti_debugging_enable_dump("/proc/nothing", nullptr, &writer), TUTTI_NOT_FOUND,
               "dump_root");
  options.mode = 6;
  EXPECT_FAILS(tutti_debugging_enable_dump("/tmp", &options, &writer), TUTTI_INVALID_ARGUMENT,
               "mode is 6; expected 1 to 5");
  EXPECT_FAILS(tutti_debugging_flush_execution_files(writer), TUTTI_FAILED_PRECONDITION,
               "it has ended");
  EXPECT_FAILS(tutti_debugging_flush_non_execution_files(writer), TUTTI_FAILED_PRECONDITION,
               "it has ended");
  tutti_debugging_disable_dump();
  Bytes json;
  EXPECT_FAILS(tutti_debugging_read_dumps("/nothing", &json), TUTTI_NOT_FOUND, "/nothing");
}

}  // namespace
}  // namespace tutti::capi_test
