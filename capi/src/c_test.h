// What tests of the C interface share: owned handles, and checks of statuses.
#ifndef TUTTI_CAPI_SRC_C_TEST_H_
#define TUTTI_CAPI_SRC_C_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti::capi_test {

// Owns one reference: `Handle<tutti_dataset, tutti_dataset_release> dataset; f(&dataset);`
template <class T, void (*Release)(const T *)>
class Handle {
 public:
  Handle() = default;
  Handle(Handle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle &operator=(Handle other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() { Release(handle_); }

  operator T *() const { return handle_; }
  // For out-parameters. What is there is released first, but for datasets, whose transformations
  // replace it.
  T **operator&() {
    if constexpr (!std::is_same_v<T, tutti_dataset>) *this = Handle();
    return &handle_;
  }

 private:
  T *handle_ = nullptr;
};

using Bytes = Handle<tutti_bytes, tutti_bytes_release>;
using Cancellation = Handle<tutti_cancellation, tutti_cancellation_release>;
using Checkpoint = Handle<tutti_checkpoint, tutti_checkpoint_release>;
using CheckpointManager = Handle<tutti_checkpoint_manager, tutti_checkpoint_manager_release>;
using DataOptions = Handle<tutti_data_options, tutti_data_options_release>;
using Dataset = Handle<tutti_dataset, tutti_dataset_release>;
using Function = Handle<tutti_function, tutti_function_release>;
using Future = Handle<tutti_future, tutti_future_release>;
using Iterator = Handle<tutti_iterator, tutti_iterator_release>;
using Reducer = Handle<tutti_reducer, tutti_reducer_release>;
using Runtime = Handle<tutti_runtime, tutti_runtime_release>;
using Spec = Handle<tutti_spec, tutti_spec_release>;
using StatsAggregator = Handle<tutti_stats_aggregator, tutti_stats_aggregator_release>;
using Strategy = Handle<tutti_strategy, tutti_strategy_release>;
using Tensor = Handle<tutti_tensor, tutti_tensor_release>;
using Value = Handle<tutti_value, tutti_value_release>;
using Variable = Handle<tutti_variable, tutti_variable_release>;

// What a call answered; owns the status.
class Answer {
 public:
  Answer(tutti_status *status)  // NOLINT: a call's result is an answer
      : code_(tutti_status_get_code(status)), message_(tutti_status_get_message(status)) {
    tutti_status_release(status);
  }
  tutti_code code() const { return code_; }
  const std::string &message() const { return message_; }

  friend void PrintTo(const Answer &answer, std::ostream *out) {
    *out << tutti_code_get_name(answer.code_) << ": " << answer.message_;
  }

 private:
  tutti_code code_;
  std::string message_;
};

MATCHER(Succeeds, "succeeds") { return arg.code() == TUTTI_OK; }
MATCHER_P2(FailsWith, code, part,
           std::string("fails with ") + tutti_code_get_name(code) + " and \"" + part + "\"") {
  return arg.code() == code && arg.message().find(part) != std::string::npos;
}

#define EXPECT_OK(call) EXPECT_THAT(::tutti::capi_test::Answer(call), Succeeds())
#define ASSERT_OK(call) ASSERT_THAT(::tutti::capi_test::Answer(call), Succeeds())
#define EXPECT_FAILS(call, code, part) \
  EXPECT_THAT(::tutti::capi_test::Answer(call), FailsWith(code, part))

// A mirrored strategy over logical CPUs, and the numbers 0 to n-1.
Strategy MirroredOver(int replicas);
Dataset RangeOf(int64_t n);
// The number in a leaf that is a rank-0 int64 tensor.
int64_t NumberIn(const tutti_value *value, size_t leaf = 0);
// A vector of float32, and the elements of a tensor of them.
Tensor Floats(const std::vector<float> &values);
std::vector<float> FloatsIn(const tutti_tensor *tensor);
Value ValueOf(const tutti_tensor *tensor);

// Starts with the default runtime shut down, and leaves it so.
class CInterfaceTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_OK(tutti_runtime_shutdown(nullptr, nullptr)); }
};

}  // namespace tutti::capi_test

#endif  // TUTTI_CAPI_SRC_C_TEST_H_
