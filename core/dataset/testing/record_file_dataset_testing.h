// The fixture of tests that iterate over datasets of byte strings from files.
#ifndef TUTTI_CORE_DATASET_TESTING_RECORD_FILE_DATASET_TESTING_H_
#define TUTTI_CORE_DATASET_TESTING_RECORD_FILE_DATASET_TESTING_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/real_environment.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/testing/record_file_testing.h"
#include "core/function/function.h"
#include "core/function/function_registry.h"

namespace tutti {

class RecordFileDatasetTest : public ::testing::Test {
 protected:
  RecordFileDatasetTest()
      : environment_(MakeRef<RealEnvironment>()),
        datasets_(DatasetEnvironment::Create(environment_, MakeRef<FunctionRegistry>())) {}
  ~RecordFileDatasetTest() override {
    const Status shut_down = environment_->Shutdown(CallOptions());
    EXPECT_TRUE(shut_down.ok()) << shut_down.ToString();
  }

  static Ref<Iterator> Iterate(const Ref<Dataset>& dataset) {
    Result<Ref<Iterator>> iterator = Iterator::Create(dataset, {}, CallOptions());
    EXPECT_TRUE(iterator.ok()) << iterator.status().ToString();
    return std::move(iterator).value();
  }

  // The next element, "!" when it fails, "." at the end.
  static std::string Next(Iterator& iterator, std::vector<Status>* errors = nullptr) {
    const Result<Ref<Value>> element = iterator.Next(CallOptions());
    if (!element.ok()) {
      if (errors != nullptr) errors->push_back(element.status());
      return "!";
    }
    if (element.value() == nullptr) return ".";
    return std::string(element.value()->leaf().tensor().item<BytesView>().text());
  }
  // The elements up to the end, at most `limit`.
  static std::vector<std::string> Rest(Iterator& iterator, std::vector<Status>* errors = nullptr,
                                       size_t limit = 100'000) {
    std::vector<std::string> all;
    while (all.size() < limit) {
      std::string text = Next(iterator, errors);
      if (text == ".") break;
      all.push_back(std::move(text));
    }
    return all;
  }
  static std::vector<std::string> All(const Ref<Dataset>& dataset,
                                      std::vector<Status>* errors = nullptr) {
    return Rest(*Iterate(dataset), errors);
  }

  // Interrupts an iteration at every element: what a new iterator gives after Restore must be what
  // this one gives.
  static void ExpectResumesEverywhere(const Ref<Dataset>& dataset) {
    const std::vector<std::string> all = All(dataset);
    const Ref<Iterator> iterator = Iterate(dataset);
    for (size_t i = 0; i <= all.size(); ++i) {
      const Result<std::string> state = iterator->Save(CallOptions());
      ASSERT_TRUE(state.ok()) << state.status().ToString();
      const Ref<Iterator> other = Iterate(dataset);
      const Status restored = other->Restore(*state, CallOptions());
      ASSERT_TRUE(restored.ok()) << restored.ToString();
      EXPECT_EQ(Rest(*other), std::vector<std::string>(all.begin() + i, all.end())) << "at " << i;
      Next(*iterator);
    }
  }

  const Ref<RealEnvironment> environment_;
  const Ref<DatasetEnvironment> datasets_;
  const TempFolder folder_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_RECORD_FILE_DATASET_TESTING_H_
