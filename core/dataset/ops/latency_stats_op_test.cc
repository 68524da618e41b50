#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/exec/measured_stage.h"
#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

class LatencyStatsOp : public DatasetTest {
 protected:
  DatasetOptions WithAggregator() const {
    DatasetOptions options;
    options.SetAggregator(aggregator_);
    return options;
  }
  static Ref<Dataset> Under(const Ref<Dataset>& dataset, const DatasetOptions& options) {
    return Ok(dataset->WithOptions(options));
  }
  std::string Text() const { return aggregator_->ToPrometheus(); }
  // Of {"counters"} or {"histograms"}: at a path of names.
  Ref<Value> At(std::initializer_list<PathStep> path) const {
    Result<Ref<Value>> found = aggregator_->Read().value()->Get(path);
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    return found.ok() ? std::move(found).value() : Number(-1);
  }
  std::vector<std::string> Names(const char* group) const {
    const Ref<Value> found = aggregator_->Read().value()->Find(group).value();
    const auto keys = found->spec().keys();
    return {keys.begin(), keys.end()};
  }

  const Ref<StatsAggregator> aggregator_ = MakeRef<StatsAggregator>();
};

TEST_F(LatencyStatsOp, EachElementIsASample) {
  const Ref<Dataset> dataset = Under(Ok(Range(10)->LatencyStats("made")), WithAggregator());
  EXPECT_EQ(All(dataset).size(), 10u);
  EXPECT_EQ(NumberIn(*At({"counters", "made::elements"})), 10);
  EXPECT_EQ(NumberIn(*At({"counters", "made::failures"})), 0);
  EXPECT_EQ(NumberIn(*At({"histograms", "made", "count"})), 10);
  // Whole ones, as they are measured: seconds are rounded.
  const auto nanoseconds = [&](const char* what) {
    return std::llround(At({"histograms", "made", what})->leaf(0).tensor().item<double>() * 1e9);
  };
  EXPECT_GT(nanoseconds("sum"), 0);
  EXPECT_LE(nanoseconds("min"), nanoseconds("max"));
  EXPECT_LE(nanoseconds("min") * 10, nanoseconds("sum"));
  EXPECT_LE(nanoseconds("sum"), nanoseconds("max") * 10);
  int64_t counted = 0;
  const Ref<Value> counts = At({"histograms", "made", "counts"});
  for (const int64_t part : counts->leaf(0).tensor().span<int64_t>()) counted += part;
  EXPECT_EQ(counted, 10);
  const Ref<Value> limits = At({"histograms", "made", "limits"});
  EXPECT_EQ(limits->leaf(0).tensor().span<double>()[0], 64e-9);
  EXPECT_TRUE(std::isinf(limits->leaf(0).tensor().span<double>()[31]));
}

TEST_F(LatencyStatsOp, AtAnyMomentThereAreAsManyAsThereWere) {
  const Ref<Dataset> dataset = Under(Ok(Range(500)->LatencyStats("made")), WithAggregator());
  const Ref<Iterator> iterator = Iterator::Create(dataset, {}, CallOptions()).value();
  for (int64_t i = 1; i <= 500; ++i) {
    ASSERT_TRUE(iterator->Next(CallOptions()).ok());
    EXPECT_EQ(NumberIn(*At({"counters", "made::elements"})), i);
    EXPECT_EQ(NumberIn(*At({"histograms", "made", "count"})), i);
  }
}

TEST_F(LatencyStatsOp, IteratorsAddUpAlsoWhenTheyAreGone) {
  const Ref<Dataset> dataset = Under(Ok(Range(3)->LatencyStats("made")), WithAggregator());
  All(dataset);
  All(dataset);
  EXPECT_EQ(NumberIn(*At({"counters", "made::elements"})), 6);
  EXPECT_EQ(NumberIn(*At({"histograms", "made", "count"})), 6);
}

TEST_F(LatencyStatsOp, FailuresCountAndAreNoSamples) {
  const Ref<Function> some = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) % 4 == 1) return InvalidArgument("not this one");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  const Ref<Dataset> dataset =
      Under(Ok(Ok(Ok(Range(8)->Map(some))->LatencyStats("tried"))->OnError("skip")),
            WithAggregator());
  EXPECT_EQ(All(dataset).size(), 6u);
  EXPECT_EQ(NumberIn(*At({"counters", "tried::elements"})), 6);
  EXPECT_EQ(NumberIn(*At({"counters", "tried::failures"})), 2);
}

TEST_F(LatencyStatsOp, ElementsThatArePassedOverDoNotCount) {
  const Ref<Dataset> dataset =
      Under(Ok(Ok(Range(8)->LatencyStats("made"))->Skip(5)), WithAggregator());
  EXPECT_EQ(All(dataset).size(), 3u);
  EXPECT_EQ(NumberIn(*At({"counters", "made::elements"})), 3);
}

TEST_F(LatencyStatsOp, AllEdgesAreMeasuredUnderTheirNamesOrDepths) {
  DatasetOptions options = WithAggregator();
  ASSERT_TRUE(options.SetBool("experimental_stats.latency_all_edges", true).ok());
  ASSERT_TRUE(options.SetText("experimental_stats.prefix", "train").ok());
  ASSERT_TRUE(options.SetText("experimental_stats.counter_prefix", "number").ok());
  const Ref<Dataset> dataset =
      Under(Ok(Ok(Ok(Range(10)->Map(AddOne(), Named("plus")))->Batch(4))->LatencyStats("all")),
            options);
  EXPECT_EQ(All(dataset).size(), 3u);
  EXPECT_EQ(Names("histograms"),
            (std::vector<std::string>{"train::all", "train::record_latency::batch/3",
                                      "train::record_latency::latency_stats/4",
                                      "train::record_latency::plus",
                                      "train::record_latency::range/1"}));
  EXPECT_EQ(NumberIn(*At({"counters", "train::number::record_latency::plus::elements"})), 10);
  EXPECT_EQ(NumberIn(*At({"counters", "train::number::record_latency::batch/3::elements"})), 3);
  EXPECT_EQ(NumberIn(*At({"counters", "train::number::all::elements"})), 3);
}

TEST_F(LatencyStatsOp, WithoutAnAggregatorThereIsNoStage) {
  const Ref<Dataset> dataset = Ok(Range(3)->LatencyStats("made"));
  const DatasetOptions none;
  const DatasetOptions some = WithAggregator();
  ExecContext context{datasets_.get(), &environment_->memory(), &none};
  EXPECT_EQ(MakeStage(dataset->node(), context).value()->node().op().name, "range");
  EXPECT_EQ(All(dataset).size(), 3u);
  EXPECT_EQ(Text(), "");
  context.options = &some;
  EXPECT_EQ(MakeStage(dataset->node(), context).value()->node().op().name, "latency_stats");
}

TEST_F(LatencyStatsOp, APositionGoesOnWithAnAggregatorAndWithout) {
  const Ref<Dataset> plain = Ok(Range(5)->LatencyStats("made"));
  const Ref<Dataset> measured = Under(plain, WithAggregator());
  Ref<Iterator> iterator = Iterator::Create(measured, {}, CallOptions()).value();
  EXPECT_EQ(NumberIn(*iterator->Next(CallOptions()).value()), 0);
  const std::string state = iterator->Save(CallOptions()).value();
  iterator = Iterator::Create(plain, {}, CallOptions()).value();
  ASSERT_TRUE(iterator->Restore(state, CallOptions()).ok());
  EXPECT_EQ(NumberIn(*iterator->Next(CallOptions()).value()), 1);
}

TEST_F(LatencyStatsOp, PrometheusReadsTheText) {
  const Ref<Dataset> dataset =
      Under(Ok(Range(10)->LatencyStats("a \"b\"\\\nc")), WithAggregator());
  All(dataset);
  const std::string name = R"({name="a \"b\"\\\nc)";
  EXPECT_THAT(Text(), HasSubstr("# TYPE tutti_dataset_total counter\n"));
  EXPECT_THAT(Text(), HasSubstr("tutti_dataset_total" + name + "::elements\"} 10\n"));
  EXPECT_THAT(Text(), HasSubstr("# TYPE tutti_dataset_latency_seconds histogram\n"));
  EXPECT_THAT(Text(), HasSubstr("tutti_dataset_latency_seconds_bucket" + name +
                                "\",le=\"0.000000064\"} "));
  EXPECT_THAT(Text(), HasSubstr("le=\"68.719476736\"} 10\n"));
  EXPECT_THAT(Text(), HasSubstr("le=\"+Inf\"} 10\n"));
  EXPECT_THAT(Text(), HasSubstr("tutti_dataset_latency_seconds_count" + name + "\"} 10\n"));
}

TEST_F(LatencyStatsOp, SamplesAreInTheBucketOfTheirLimit) {
  for (const auto& [ns, bucket] : std::vector<std::pair<int64_t, int>>{
           {0, 0}, {1, 0}, {64, 0}, {65, 1}, {128, 1}, {129, 2}, {int64_t{1} << 36, 30},
           {(int64_t{1} << 36) + 1, 31}, {int64_t{1} << 60, 31}}) {
    EXPECT_EQ(LatencyHistogram::BucketOf(ns), bucket) << ns;
    EXPECT_LE(ns, LatencyHistogram::LimitNs(bucket));
    if (bucket > 0) {
      EXPECT_GT(ns, LatencyHistogram::LimitNs(bucket - 1));
    }
  }
}

TEST_F(LatencyStatsOp, OptionsOfStatisticsAreComparedMergedAndSaved) {
  DatasetOptions one = WithAggregator();
  DatasetOptions other = WithAggregator();
  EXPECT_EQ(one, other);
  ASSERT_TRUE(one.SetText("experimental_stats.prefix", "a").ok());
  EXPECT_FALSE(one == other);
  ASSERT_TRUE(other.SetText("experimental_stats.prefix", "b").ok());
  EXPECT_EQ(one.Conflicts(other), std::vector<std::string>{"experimental_stats.prefix"});
  std::vector<std::string> changed;
  EXPECT_EQ(one.Merge(other, &changed), other);
  EXPECT_EQ(changed, std::vector<std::string>{"experimental_stats.prefix"});
  other.SetAggregator(MakeRef<StatsAggregator>());
  EXPECT_EQ(one.Conflicts(other),
            (std::vector<std::string>{"experimental_stats.prefix",
                                      "experimental_stats.aggregator"}));
  EXPECT_EQ(one.ToString(),
            "experimental_stats.prefix=\"a\", experimental_stats.aggregator=StatsAggregator");

  // The texts are in a definition, the aggregator is not.
  const std::string saved = Under(Range(3), one)->Serialize().value();
  const Ref<Dataset> read = Ok(Dataset::Deserialize(datasets_, saved));
  EXPECT_EQ(read->options().Get(DatasetOptions::Text::kStatsPrefix), "a");
  EXPECT_FALSE(read->options().aggregator());

  ASSERT_TRUE(one.Clear("experimental_stats.prefix").ok());
  ASSERT_TRUE(one.Clear("experimental_stats.aggregator").ok());
  EXPECT_TRUE(one.empty());
}

TEST_F(LatencyStatsOp, WrongTagsAndOptionsAreRefused) {
  EXPECT_THAT(Range(3)->LatencyStats("").status().message(), HasSubstr("the tag is empty"));
  DatasetOptions options;
  EXPECT_THAT(options.SetText("experimental_stats.prefixx", "a").message(),
              HasSubstr("did you mean 'experimental_stats.prefix'?"));
  EXPECT_THAT(options.SetText("deterministic", "a").message(), HasSubstr("is no text"));
  EXPECT_THAT(options.SetInt("experimental_stats.prefix", 1).message(), HasSubstr("is a text"));
  EXPECT_THAT(options.SetBool("experimental_stats.aggregator", true).message(),
              HasSubstr("is a StatsAggregator"));
  EXPECT_THAT(options.ReadText("deterministic").status().message(), HasSubstr("is no text"));
}

}  // namespace
}  // namespace tutti
