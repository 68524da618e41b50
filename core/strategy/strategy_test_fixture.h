// What the tests of this room share: an environment with eight logical CPUs, functions from
// lambdas, short ways to make and look at values, and the steps that replicas take together.

#ifndef TUTTI_CORE_STRATEGY_STRATEGY_TEST_FIXTURE_H_
#define TUTTI_CORE_STRATEGY_STRATEGY_TEST_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/real_environment.h"
#include "core/device/device.h"
#include "core/function/function.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/strategy.h"
#include "core/tensor/value.h"

namespace tutti {

// A hang, not a time that anything should take.
inline constexpr int64_t kHangNs = 60 * kSecondNs;

class LambdaFunction final : public Function {
 public:
  using Body = std::function<Result<Ref<Value>>(Context&, const Value&)>;
  // Without a spec the first call tells.
  explicit LambdaFunction(Body body, std::string name = {},
                          Ref<const ElementSpec> output_spec = nullptr)
      : Function(std::move(name)), body_(std::move(body)), output_spec_(std::move(output_spec)) {}

  Status Call(Context& context, const Value& in, Ref<Value>* out) override {
    TUTTI_ASSIGN_OR_RETURN(*out, body_(context, in));
    return OkStatus();
  }
  Granularity granularity() const override { return Granularity::kRow; }
  bool calls_host() const override { return true; }
  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec*) const override {
    return output_spec_;
  }

 private:
  const Body body_;
  const Ref<const ElementSpec> output_spec_;
};

inline Ref<Function> Fn(LambdaFunction::Body body, std::string name = {}) {
  return MakeRef<LambdaFunction>(std::move(body), std::move(name));
}

// A replica's function.
inline Ref<Function> ReplicaFn(
    std::function<Result<Ref<Value>>(ReplicaContext&, const Value&)> body) {
  return Fn([body = std::move(body)](Context& context, const Value& in) {
    return body(*AsReplicaContext(&context), in);
  });
}

template <typename T>
Ref<Value> ScalarOf(T number) {
  return Value::OfTensor(Tensor::Scalar<T>(number));
}
template <typename T>
Ref<Value> VectorOf(std::initializer_list<T> numbers) {
  return Value::OfTensor(Tensor::Vector<T>(numbers));
}

class StrategyTest : public testing::Test {
 protected:
  void SetUp() override {
    environment_ = MakeRef<RealEnvironment>();
    devices_ = DeviceSet::Create(8, nullptr).value();
  }
  void TearDown() override {
    const Status status = environment_->Shutdown(WithinReason());
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  CallOptions WithinReason() const {
    return CallOptions::WithTimeout(environment_->clock(), kHangNs);
  }

  Ref<Strategy> Mirrored(size_t replicas) {
    std::vector<std::string> names;
    for (size_t i = 0; i < replicas; ++i) names.push_back("CPU:" + std::to_string(i));
    return Strategy::CreateMirrored(environment_, *devices_, names).value();
  }

  // Runs and expects success.
  Ref<Value> MustRun(const Ref<Strategy>& strategy, const Ref<Function>& fn,
                     const Ref<Value>& args = nullptr) {
    Result<Ref<Value>> result = strategy->Run(*fn, args.get(), WithinReason());
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    return result.ok() ? *result : Value::None();
  }
  Status RunStatus(const Ref<Strategy>& strategy, const Ref<Function>& fn,
                   const Ref<Value>& args = nullptr) {
    return strategy->Run(*fn, args.get(), WithinReason()).status();
  }

  // The printed form of a value, for comparison.
  static std::string Text(const Ref<Value>& value) { return value->ToString(); }
  // One text per local replica.
  std::vector<std::string> Local(const Ref<Strategy>& strategy, const Ref<Value>& value) {
    Result<Ref<Value>> results = strategy->LocalResults(*value);
    std::vector<std::string> texts;
    if (!results.ok()) return {results.status().ToString()};
    for (const Ref<Value>& result : (*results)->AllChildren()) texts.push_back(Text(result));
    return texts;
  }

  Ref<RealEnvironment> environment_;
  Ref<DeviceSet> devices_;
};

// The code and parts of the message of a failed status.
inline testing::AssertionResult Fails(const Status& status, StatusCode code,
                                      std::initializer_list<const char*> parts = {}) {
  if (status.code() != code) {
    return testing::AssertionFailure()
           << "expected " << StatusCodeName(code) << ", got " << status.ToString();
  }
  for (const char* part : parts) {
    if (status.message().find(part) == std::string_view::npos) {
      return testing::AssertionFailure() << "no \"" << part << "\" in " << status.ToString();
    }
  }
  return testing::AssertionSuccess();
}

// Lets threads of a test wait for each other.
class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// With the two steps that replicas take together.
class LockstepTest : public StrategyTest {
 protected:
  static Result<Ref<Value>> Sum(ReplicaContext& replica, const CallOptions& options = {}) {
    return replica.AllReduce(ReduceOp::kSum, *ScalarOf<int64_t>(replica.replica_id()), options);
  }
  static Result<Ref<Value>> Merge(ReplicaContext& replica, const CallOptions& options = {}) {
    static const char identity = 0;
    const Ref<Function> merge =
        Fn([](Context&, const Value& in) { return in.At(0); }, "first_part");
    return replica.MergeCall(*merge, &identity, Value::Tuple({ScalarOf(1)}).get(), options);
  }
  void ExpectStillWorks(const Ref<Strategy>& strategy) {
    const Ref<Value> result =
        MustRun(strategy, ReplicaFn([](ReplicaContext& replica, const Value&) {
                  (void)Merge(replica);
                  return Sum(replica);
                }));
    const auto n = static_cast<int64_t>(strategy->num_local_replicas());
    EXPECT_THAT(Local(strategy, result), testing::Each(std::to_string(n * (n - 1) / 2)));
  }
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_STRATEGY_TEST_FIXTURE_H_
