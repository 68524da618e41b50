// What the tests of distributed datasets over several workers share: record files, and the steps of
// each worker as text.

#ifndef TUTTI_CORE_STRATEGY_TEAM_DATASET_TEST_FIXTURE_H_
#define TUTTI_CORE_STRATEGY_TEAM_DATASET_TEST_FIXTURE_H_

#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/records/tf_record.h"
#include "core/dataset/testing/record_file_testing.h"
#include "core/strategy/distributed_dataset.h"
#include "core/strategy/distributed_iterator.h"
#include "core/strategy/team_test_fixture.h"

namespace tutti {

// ---- Datasets. ----

inline Ref<Dataset> WithPolicy(const Ref<Dataset>& dataset, AutoShardPolicy policy) {
  DatasetOptions options;
  EXPECT_TRUE(
      options.SetInt("experimental_distribute.auto_shard_policy", static_cast<int64_t>(policy))
          .ok());
  return dataset->WithOptions(options).value();
}

inline Ref<Dataset> Range(TestWorker& worker, int64_t stop) {
  return Dataset::Range(worker.datasets, 0, stop, 1).value();
}

// A record file per list.
class RecordFiles {
 public:
  explicit RecordFiles(const std::vector<std::vector<int64_t>>& files) {
    for (size_t i = 0; i < files.size(); ++i) {
      std::string contents;
      for (const int64_t number : files[i]) contents += TfRecordFrame(LittleEndian(number));
      paths_.push_back(folder_.Write(Format("{}.tfrecord", i), contents));
    }
  }

  // The numbers in the files.
  Ref<Dataset> Read(TestWorker& worker, bool with_spec = true) const {
    std::vector<BytesView> views;
    for (const std::string& path : paths_) views.push_back(BytesView{path.data(), path.size()});
    const Ref<Dataset> files =
        Dataset::FromTensorSlices(
            worker.datasets,
            Value::OfTensor(
                Tensor::FromStrings(Shape({static_cast<int64_t>(views.size())}), views).value()))
            .value();
    const Ref<Dataset> records = MakeTfRecordDataset(*files, {}).value();
    const Ref<Function> decode = MakeRef<LambdaFunction>(
        [](Context&, const Value& in) -> Result<Ref<Value>> {
          const std::string_view bytes = in.leaf().tensor().item<BytesView>().text();
          int64_t number = 0;
          std::memcpy(&number, bytes.data(), sizeof(number));
          if (number < 0) return DataLoss("record {} is negative", number);
          return ScalarOf(number);
        },
        "", with_spec ? ElementSpec::OfTensor(DType::kInt64, PartialShape::Scalar()) : nullptr);
    return records->Map(decode).value();
  }

 private:
  TempFolder folder_;
  std::vector<std::string> paths_;
};

// ---- Steps, as text: one per local replica, then the rows of the whole step. ----

inline std::string StepText(TestWorker& worker, const Ref<Value>& step) {
  std::string text;
  for (const std::string& part : LocalTexts(worker.strategy, step)) text += part + " ";
  return text + Format("of {}", GlobalRows(*step, worker.strategy->num_local_replicas()));
}

inline Ref<DistributedDataset> Distribute(TestWorker& worker, const Ref<Dataset>& dataset,
                                          InputOptions options = {}) {
  Result<Ref<DistributedDataset>> result =
      DistributedDataset::Create(worker.strategy, *dataset, options, worker.Hang());
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return result.value();
}

inline Ref<DistributedIterator> Iterate(TestWorker& worker,
                                        const Ref<DistributedDataset>& dataset) {
  return DistributedIterator::Create(dataset, worker.Hang()).value();
}

inline std::string NextText(TestWorker& worker, DistributedIterator& iterator) {
  const Result<Ref<Value>> step = iterator.Next(worker.Hang());
  if (!step.ok()) return step.status().ToString();
  return *step ? StepText(worker, *step) : "end";
}

inline std::vector<std::string> RestOf(TestWorker& worker, DistributedIterator& iterator) {
  std::vector<std::string> steps;
  while (true) {
    steps.push_back(NextText(worker, iterator));
    if (steps.back() == "end" || steps.size() > 200) break;
  }
  EXPECT_EQ(NextText(worker, iterator), "end") << "the end must stay";
  return steps;
}

inline std::vector<std::string> AllSteps(TestWorker& worker,
                                         const Ref<DistributedDataset>& dataset) {
  const Ref<DistributedIterator> iterator = Iterate(worker, dataset);
  std::vector<std::string> steps = RestOf(worker, *iterator);
  EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  return steps;
}

using MakeDataset = std::function<Ref<Dataset>(TestWorker&)>;

// The steps of each worker.
inline std::vector<std::vector<std::string>> StepsOfJob(size_t workers, int64_t replicas,
                                                        const MakeDataset& make,
                                                        InputOptions options = {}) {
  TestJob job(workers, replicas);
  std::vector<std::vector<std::string>> steps(workers);
  job.OnWorkers([&](TestWorker& worker) {
    steps[static_cast<size_t>(worker.index)] =
        AllSteps(worker, Distribute(worker, make(worker), options));
  });
  return steps;
}

class TeamDatasetTest : public testing::TestWithParam<JobSize> {
 protected:
  size_t workers() const { return GetParam().workers; }
  int64_t replicas() const { return GetParam().replicas; }
  int64_t total() const { return static_cast<int64_t>(workers()) * replicas(); }
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_TEAM_DATASET_TEST_FIXTURE_H_
