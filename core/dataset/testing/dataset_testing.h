// What tests of datasets share: environments, functions from lambdas, and elements as text.
#ifndef TUTTI_CORE_DATASET_TESTING_DATASET_TESTING_H_
#define TUTTI_CORE_DATASET_TESTING_DATASET_TESTING_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/real_environment.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/graph/dataset.h"
#include "core/function/function.h"
#include "core/function/function_registry.h"

namespace tutti {

// A function of the host from a lambda (Context&, const Value&) -> Result<Ref<Value>>, which counts
// its calls.
class TestFunction final : public Function {
 public:
  using Body = Result<Ref<Value>> (*)(Context&, const Value&, void* data);

  TestFunction(Body body, void* data, Ref<const ElementSpec> spec, Granularity granularity,
               std::string name, std::string fingerprint)
      : Function(std::move(name)),
        body_(body),
        data_(data),
        spec_(std::move(spec)),
        granularity_(granularity),
        fingerprint_(std::move(fingerprint)) {}

  Status Call(Context& context, const Value& in, Ref<Value>* out) override {
    ++calls;
    const CallbackScope scope(CallbackClass::kDataset);
    TUTTI_ASSIGN_OR_RETURN(*out, body_(context, in, data_));
    return OkStatus();
  }
  Granularity granularity() const override { return granularity_; }
  bool calls_host() const override { return true; }
  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec*) const override { return spec_; }

  std::string_view fingerprint() const override { return fingerprint_; }

  std::atomic<int64_t> calls{0};

 private:
  const Body body_;
  void* const data_;
  const Ref<const ElementSpec> spec_;
  const Granularity granularity_;
  const std::string fingerprint_;
};

struct FunctionParts {
  void* data = nullptr;
  Ref<const ElementSpec> spec = nullptr;
  Granularity granularity = Granularity::kRow;
  std::string name = {};
  std::string fingerprint = {};
};

inline Ref<TestFunction> MakeFunction(TestFunction::Body body, FunctionParts parts = {}) {
  return MakeRef<TestFunction>(body, parts.data, std::move(parts.spec), parts.granularity,
                               std::move(parts.name), std::move(parts.fingerprint));
}

inline ShuffleOptions Seed(int64_t seed, bool reshuffle_each_iteration = true) {
  ShuffleOptions options;
  options.seed = seed;
  options.reshuffle_each_iteration = reshuffle_each_iteration;
  return options;
}
inline MapOptions Parallel(int64_t num_parallel_calls) {
  MapOptions options;
  options.num_parallel_calls = num_parallel_calls;
  return options;
}
inline MapOptions Named(std::string name) {
  MapOptions options;
  options.name = std::move(name);
  return options;
}

inline Ref<const ElementSpec> Int64Scalar() {
  return ElementSpec::OfTensor(DType::kInt64, PartialShape::Scalar());
}

inline int64_t NumberIn(const Value& value) { return value.leaf(0).tensor().item<int64_t>(); }
inline Ref<Value> Number(int64_t number) { return Value::OfTensor(Tensor::Scalar(number)); }

// x -> x + 1, by row and by slab.
inline Ref<TestFunction> AddOne(Ref<const ElementSpec> spec = Int64Scalar()) {
  return MakeFunction([](Context&, const Value& in,
                         void*) -> Result<Ref<Value>> { return Number(NumberIn(in) + 1); },
                      {.spec = std::move(spec), .name = "add_one"});
}

class DatasetTest : public ::testing::Test {
 protected:
  DatasetTest()
      : environment_(MakeRef<RealEnvironment>()),
        functions_(MakeRef<FunctionRegistry>()),
        datasets_(DatasetEnvironment::Create(environment_, functions_)) {}
  ~DatasetTest() override {
    const Status shut_down = environment_->Shutdown(CallOptions());
    EXPECT_TRUE(shut_down.ok()) << shut_down.ToString();
  }

  // Fails the test when there is no dataset.
  static Ref<Dataset> Ok(Result<Ref<Dataset>> dataset) {
    EXPECT_TRUE(dataset.ok()) << dataset.status().ToString();
    return dataset.ok() ? std::move(dataset).value() : nullptr;
  }
  Ref<Dataset> Range(int64_t stop) { return Ok(Dataset::Range(datasets_, 0, stop, 1)); }
  Ref<Dataset> Range(int64_t start, int64_t stop) {
    return Ok(Dataset::Range(datasets_, start, stop, 1));
  }
  static Ref<Iterator> Iterate(const Ref<Dataset>& dataset) {
    Result<Ref<Iterator>> iterator = Iterator::Create(dataset, {}, CallOptions());
    EXPECT_TRUE(iterator.ok()) << iterator.status().ToString();
    return std::move(iterator).value();
  }

  // From then on none of its threads calls a function, as one may for a moment of an iterator that
  // was only released.
  static void Close(Iterator& iterator) {
    const Status closed = iterator.Close(CallOptions());
    EXPECT_TRUE(closed.ok()) << closed.ToString();
  }

  // The next element as text, "!" and the message when it fails, "." at the end.
  static std::string Next(Iterator& iterator, const CallOptions& call = CallOptions()) {
    const Result<Ref<Value>> element = iterator.Next(call);
    if (!element.ok()) return "!" + std::string(element.status().message());
    if (!element.value()) return ".";
    return (*element)->ToString();
  }
  static std::vector<std::string> Take(Iterator& iterator, int64_t count) {
    std::vector<std::string> all;
    while (static_cast<int64_t>(all.size()) < count) {
      all.push_back(Next(iterator));
      if (all.back() == ".") {
        all.pop_back();
        break;
      }
    }
    return all;
  }
  static std::vector<std::string> All(Iterator& iterator) { return Take(iterator, 100'000); }
  static std::vector<std::string> All(const Ref<Dataset>& dataset) {
    const Ref<Iterator> iterator = Iterate(dataset);
    std::vector<std::string> all = All(*iterator);
    Close(*iterator);
    return all;
  }
  // Scalars of int64 as numbers.
  static std::vector<int64_t> Numbers(const Ref<Dataset>& dataset, int64_t most = 100'000) {
    const Ref<Iterator> iterator = Iterate(dataset);
    std::vector<int64_t> numbers;
    while (static_cast<int64_t>(numbers.size()) < most) {
      const Result<Ref<Value>> element = iterator->Next(CallOptions());
      EXPECT_TRUE(element.ok()) << element.status().ToString();
      if (!element.ok() || !element.value()) break;
      numbers.push_back(NumberIn(**element));
    }
    Close(*iterator);
    return numbers;
  }
  static std::string SpecText(const Ref<Dataset>& dataset) {
    const Result<Ref<const ElementSpec>> spec = dataset->GetElementSpec(CallOptions());
    return spec.ok() ? (*spec)->ToString() : std::string(spec.status().message());
  }

  const Ref<RealEnvironment> environment_;
  const Ref<FunctionRegistry> functions_;
  const Ref<DatasetEnvironment> datasets_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_DATASET_TESTING_H_
