// The cases of distribute.json: what each replica of each worker gets, step by step.
#include <string>

#include "cases.h"
#include "datasets.h"
#include "strategies.h"

namespace conformance {
namespace {

Dataset WithPolicy(Dataset dataset, const std::string &policy) {
  const int64_t number = policy == "OFF"    ? -1
                         : policy == "AUTO" ? 0
                         : policy == "FILE" ? 1
                         : policy == "DATA" ? 2
                         : policy == "HINT" ? 3
                                            : throw NotCovered("the policy " + policy);
  DataOptions options;
  Check(tutti_data_options_create(options.out()));
  Check(tutti_data_options_set_int64(options.get(), "experimental_distribute.auto_shard_policy",
                                     number));
  Check(tutti_dataset_with_options(dataset.out(), options.get()));
  return dataset;
}

// The steps of one walk over a distributed dataset; none at the end.
class Steps {
 public:
  Steps(const Strategy &strategy, const Dataset &dataset, bool optional) : optional_(optional) {
    DistributedDataset distributed;
    Check(tutti_strategy_distribute_dataset(strategy.get(), dataset.get(), nullptr, nullptr,
                                            distributed.out()));
    Check(tutti_distributed_iterator_create(distributed.get(), nullptr, iterator_.out()));
  }
  Value Next() {
    Value step;
    if (!optional_) {
      Check(tutti_distributed_iterator_next(iterator_.get(), nullptr, step.out()));
      return step;
    }
    Check(tutti_distributed_iterator_next_optional(iterator_.get(), nullptr, step.out()));
    const tutti_value *held = tutti_value_get_leaf_optional(step.get(), 0);
    return held == nullptr ? Value() : Value::Share(held);
  }

 private:
  const bool optional_;
  DistributedIterator iterator_;
};

// What worker `worker` is to get: a list of steps, each a list of one tensor per replica.
Json ExpectedOf(const Json &expect, size_t worker) {
  if (expect.is_array()) return expect;
  Json steps = Json::array();
  for (const Json &tensor : expect.at("worker" + std::to_string(worker))) {
    steps.push_back(Json::array({tensor}));
  }
  return steps;
}

void RunWorker(const Json &test, const Strategy &strategy, size_t worker) {
  Dataset dataset = BuildDataset(test.at("dataset"));
  if (test.contains("policy")) dataset = WithPolicy(std::move(dataset), test.at("policy"));
  Steps steps(strategy, dataset, test.contains("api"));
  for (int64_t i = 0; i < test.value("skip_steps", int64_t{0}); ++i) steps.Next();
  if (test.at("expect").contains("error")) {
    while (steps.Next()) {
    }
    return;
  }
  for (const Json &expected : ExpectedOf(test.at("expect"), worker)) {
    const Value step = steps.Next();
    if (!step) throw Mismatch("the steps end before " + expected.dump());
    CompareLocal(expected, strategy, step);
  }
  if (!test.contains("take_steps") && steps.Next()) throw Mismatch("there are more steps");
}

}  // namespace

void RunDistributeCase(const Json &test) {
  CheckKeys(test, {"name", "dataset", "workers", "replicas_per_worker", "expect", "api",
                   "skip_steps", "take_steps", "policy"});
  if (test.value("api", "get_next_as_optional") != "get_next_as_optional") {
    throw NotCovered("the api " + test.at("api").dump());
  }
  RunWorkers(test.at("workers"), test.at("replicas_per_worker"),
             [&](const Strategy &strategy, size_t worker) {
               FailsAsExpected(test.at("expect"), [&] { RunWorker(test, strategy, worker); });
             });
}

}  // namespace conformance
