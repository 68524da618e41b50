// Life and death through the C interface: shutdown and start again, deadlines and cancellations,
// settings.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using LifeTest = CInterfaceTest;

tutti_status *GiveNone(tutti_context *, const tutti_value *, tutti_value **out, void *) {
  return tutti_value_create_none(out);
}

TEST_F(LifeTest, UseAfterShutdownIsRefusedAndReleaseIsNot) {
  Strategy strategy = MirroredOver(2);
  Dataset dataset = RangeOf(4);
  Iterator iterator;
  Value value, kept;
  Future future;
  ASSERT_OK(tutti_future_create(nullptr, &future));
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  ASSERT_OK(tutti_iterator_next(iterator, nullptr, &kept));
  ASSERT_OK(tutti_runtime_shutdown(nullptr, nullptr));
  const char *told = "shut down";
  EXPECT_FAILS(tutti_iterator_next(iterator, nullptr, &value), TUTTI_FAILED_PRECONDITION, told);
  EXPECT_FAILS(tutti_strategy_run(strategy, GiveNone, nullptr, nullptr, nullptr, &value),
               TUTTI_FAILED_PRECONDITION, told);
  EXPECT_FAILS(tutti_future_wait(future, nullptr), TUTTI_FAILED_PRECONDITION, told);
  Iterator another;
  EXPECT_FAILS(tutti_iterator_create(dataset, nullptr, nullptr, &another),
               TUTTI_FAILED_PRECONDITION, told);
  // What was closed by the shutdown counts as closed; data stays readable.
  EXPECT_OK(tutti_iterator_close(iterator, nullptr));
  EXPECT_EQ(NumberIn(kept), 0);
}

TEST_F(LifeTest, TheDefaultRuntimeStartsAgainAfterShutdown) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(tutti_runtime_is_running(nullptr));
    Strategy strategy = MirroredOver(2);
    EXPECT_TRUE(tutti_runtime_is_running(nullptr));
    Value value;
    EXPECT_OK(tutti_strategy_run(strategy, GiveNone, nullptr, nullptr, nullptr, &value));
    EXPECT_OK(tutti_runtime_shutdown(nullptr, nullptr));
  }
}

TEST_F(LifeTest, ShutdownOfTheDefaultRuntimeByItsHandleLetsItStartAgain) {
  Runtime runtime;
  ASSERT_OK(tutti_runtime_get_or_start_default(&runtime));
  ASSERT_OK(tutti_runtime_shutdown(runtime, nullptr));
  ASSERT_OK(tutti_runtime_shutdown(runtime, nullptr));
  EXPECT_FALSE(tutti_runtime_is_running(runtime));
  RangeOf(1);
  EXPECT_TRUE(tutti_runtime_is_running(nullptr));
}

TEST_F(LifeTest, RuntimesLiveSideBySide) {
  Runtime mine;
  ASSERT_OK(tutti_runtime_create(nullptr, &mine));
  Dataset dataset;
  ASSERT_OK(tutti_dataset_create_range(mine, 0, 2, 1, nullptr, &dataset));
  EXPECT_FALSE(tutti_runtime_is_running(nullptr));
  RangeOf(1);
  ASSERT_OK(tutti_runtime_shutdown(nullptr, nullptr));
  Iterator iterator;
  EXPECT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  EXPECT_OK(tutti_runtime_shutdown(mine, nullptr));
}

TEST_F(LifeTest, AWaitEndsAtItsDeadlineAndTheOperationGoesOn) {
  Future future;
  ASSERT_OK(tutti_future_create(nullptr, &future));
  tutti_call_options call = TUTTI_CALL_OPTIONS_INIT;
  call.timeout = TUTTI_TIMEOUT_EXPIRED;
  EXPECT_FAILS(tutti_future_wait(future, &call), TUTTI_DEADLINE_EXCEEDED, "");
  call.timeout = 1000;
  EXPECT_FAILS(tutti_future_wait(future, &call), TUTTI_DEADLINE_EXCEEDED, "");
  Value seven, result;
  EXPECT_FAILS(tutti_future_result(future, &result), TUTTI_FAILED_PRECONDITION, "");
  ASSERT_OK(tutti_value_create_int64(7, &seven));
  ASSERT_OK(tutti_future_complete(future, nullptr, seven));
  call.timeout = TUTTI_TIMEOUT_EXPIRED;
  EXPECT_OK(tutti_future_wait(future, &call));
  EXPECT_OK(tutti_future_result(future, &result));
  EXPECT_EQ(NumberIn(result), 7);
  EXPECT_FAILS(tutti_future_complete(future, nullptr, seven), TUTTI_FAILED_PRECONDITION, "");
}

TEST_F(LifeTest, TheSettingDefaultTimeoutCountsWhereNoTimeoutIsGiven) {
  ASSERT_OK(tutti_runtime_set(nullptr, "default_timeout", "1ms"));
  Future future;
  ASSERT_OK(tutti_future_create(nullptr, &future));
  EXPECT_FAILS(tutti_future_wait(future, nullptr), TUTTI_DEADLINE_EXCEEDED, "");
}

TEST_F(LifeTest, ACancellationEndsAWaitWithItsMessage) {
  Future future;
  Cancellation cancellation;
  ASSERT_OK(tutti_future_create(nullptr, &future));
  ASSERT_OK(tutti_cancellation_create(&cancellation));
  tutti_call_options call = TUTTI_CALL_OPTIONS_INIT;
  call.cancellation = cancellation;
  std::thread other([&] { tutti_cancellation_cancel(cancellation, "not needed any more"); });
  EXPECT_FAILS(tutti_future_wait(future, &call), TUTTI_CANCELLED, "not needed any more");
  other.join();
  EXPECT_TRUE(tutti_cancellation_is_cancelled(cancellation));
  EXPECT_FALSE(tutti_future_is_done(future));
}

// How a binding notices Ctrl-C.
TEST_F(LifeTest, APolledCancellationEndsAWaitWhenTheHostSaysSo) {
  struct Host {
    std::atomic<int> asked{0};
    tutti_code building = TUTTI_OK;
  } host;
  const auto interrupted = [](void *user_data) -> int32_t {
    auto *host = static_cast<Host *>(user_data);
    tutti_value *value = nullptr;
    host->building = Answer(tutti_value_create_none(&value)).code();
    return host->asked.fetch_add(1) >= 1;
  };
  Future future;
  Cancellation cancellation;
  ASSERT_OK(tutti_future_create(nullptr, &future));
  ASSERT_OK(tutti_cancellation_create_polled(interrupted, &host, &cancellation));
  tutti_call_options call = TUTTI_CALL_OPTIONS_INIT;
  call.cancellation = cancellation;
  EXPECT_FAILS(tutti_future_wait(future, &call), TUTTI_CANCELLED, "");
  EXPECT_GE(host.asked.load(), 2);
  EXPECT_EQ(host.building, TUTTI_FAILED_PRECONDITION);  // it is a notification
}

TEST_F(LifeTest, AnUnknownSettingIsNamedTogetherWithTheKnownOnes) {
  EXPECT_FAILS(tutti_runtime_set(nullptr, "log_levle", "info"), TUTTI_INVALID_ARGUMENT,
               "log_level");
  const char *keys[] = {"no_such_setting"}, *values[] = {"1"};
  tutti_runtime_options options = TUTTI_RUNTIME_OPTIONS_INIT;
  options.setting_count = 1;
  options.setting_keys = keys;
  options.setting_values = values;
  Runtime runtime;
  EXPECT_FAILS(tutti_runtime_create(&options, &runtime), TUTTI_INVALID_ARGUMENT, "no_such_setting");
  EXPECT_EQ(static_cast<tutti_runtime *>(runtime), nullptr);
}

TEST_F(LifeTest, SettingsAreReadBackAndDescribed) {
  ASSERT_OK(tutti_runtime_set(nullptr, "log_level", "error"));
  Bytes value, json;
  ASSERT_OK(tutti_runtime_read_setting(nullptr, "log_level", &value));
  EXPECT_STREQ(tutti_bytes_get_view(value).data, "error");
  ASSERT_OK(tutti_runtime_describe(nullptr, &json));
  EXPECT_THAT(tutti_bytes_get_view(json).data, testing::HasSubstr("\"log_level\""));
}

TEST_F(LifeTest, AnUnknownKeyInDatasetOptionsIsNamed) {
  DataOptions options;
  ASSERT_OK(tutti_data_options_create(&options));
  EXPECT_FAILS(tutti_data_options_set_bool(options, "determinstic", 1), TUTTI_INVALID_ARGUMENT,
               "deterministic");
  EXPECT_FAILS(tutti_data_options_set_int64(options, "deterministic", 1), TUTTI_INVALID_ARGUMENT,
               "deterministic");
}

TEST_F(LifeTest, DatasetOptionsAreComparedClearedAndPutIntoADataset) {
  DataOptions one, other;
  ASSERT_OK(tutti_data_options_create(&one));
  ASSERT_OK(tutti_data_options_create(&other));
  EXPECT_TRUE(tutti_data_options_equal(one, other));
  ASSERT_OK(tutti_data_options_set_bool(one, "experimental_deterministic", 0));
  EXPECT_FALSE(tutti_data_options_equal(one, other));
  EXPECT_FALSE(tutti_data_options_equal(one, nullptr));
  Bytes text;
  ASSERT_OK(tutti_data_options_to_string(one, &text));
  EXPECT_STREQ(tutti_bytes_get_view(text).data, "deterministic=false");
  Dataset dataset = RangeOf(4);
  ASSERT_OK(tutti_dataset_replace_options(&dataset, one));
  ASSERT_OK(tutti_data_options_clear(one, "deterministic"));
  EXPECT_TRUE(tutti_data_options_equal(one, other));
  DataOptions found;
  ASSERT_OK(tutti_dataset_options(dataset, &found));
  tutti_optional_int64 value = {0, 0};
  ASSERT_OK(tutti_data_options_read(found, "deterministic", &value));
  EXPECT_EQ(value.present, 1);
  ASSERT_OK(tutti_data_options_clear(found, "deterministic"));
  DataOptions again;
  ASSERT_OK(tutti_dataset_options(dataset, &again));
  EXPECT_FALSE(tutti_data_options_equal(found, again)) << "a copy changed the dataset";
  ASSERT_OK(tutti_dataset_replace_options(&dataset, other));
  DataOptions none;
  ASSERT_OK(tutti_dataset_options(dataset, &none));
  EXPECT_TRUE(tutti_data_options_equal(none, other));
  EXPECT_FAILS(tutti_data_options_clear(one, "deterministc"), TUTTI_INVALID_ARGUMENT,
               "did you mean 'deterministic'?");
}

TEST_F(LifeTest, AnAggregatorHasWhatADatasetMeasured) {
  StatsAggregator aggregator, found;
  ASSERT_OK(tutti_stats_aggregator_create(&aggregator));
  DataOptions options;
  ASSERT_OK(tutti_data_options_create(&options));
  ASSERT_OK(tutti_data_options_get_stats_aggregator(options, &found));
  EXPECT_TRUE(found == nullptr);
  Bytes prefix;
  ASSERT_OK(tutti_data_options_read_string(options, "experimental_stats.prefix", &prefix));
  EXPECT_TRUE(prefix == nullptr);
  ASSERT_OK(tutti_data_options_set_stats_aggregator(options, aggregator));
  ASSERT_OK(tutti_data_options_set_string(options, "experimental_stats.prefix", "train"));
  ASSERT_OK(tutti_data_options_read_string(options, "experimental_stats.prefix", &prefix));
  EXPECT_STREQ(tutti_bytes_get_view(prefix).data, "train");
  ASSERT_OK(tutti_data_options_get_stats_aggregator(options, &found));
  EXPECT_EQ(static_cast<tutti_stats_aggregator *>(found),
            static_cast<tutti_stats_aggregator *>(aggregator));

  Dataset dataset = RangeOf(4);
  ASSERT_OK(tutti_dataset_latency_stats(&dataset, "made", nullptr));
  ASSERT_OK(tutti_dataset_with_options(&dataset, options));
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  for (int i = 0; i < 3; ++i) {
    Value element;
    ASSERT_OK(tutti_iterator_next(iterator, nullptr, &element));
  }
  Value read;
  ASSERT_OK(tutti_stats_aggregator_read(aggregator, &read));
  Bytes shown;
  ASSERT_OK(tutti_value_to_string(read, &shown));
  EXPECT_THAT(tutti_bytes_get_view(shown).data,
              testing::HasSubstr("'train::made::elements': 3, 'train::made::failures': 0"));
  EXPECT_THAT(tutti_bytes_get_view(shown).data, testing::HasSubstr("'train::made': {'count': 3"));
  Bytes text;
  ASSERT_OK(tutti_stats_aggregator_to_prometheus(aggregator, &text));
  EXPECT_THAT(tutti_bytes_get_view(text).data,
              testing::HasSubstr("tutti_dataset_total{name=\"train::made::elements\"} 3\n"));

  EXPECT_FAILS(tutti_data_options_set_string(options, "deterministic", "yes"),
               TUTTI_INVALID_ARGUMENT, "is no text");
  EXPECT_FAILS(tutti_data_options_set_stats_aggregator(options, nullptr), TUTTI_INVALID_ARGUMENT,
               "aggregator");
  ASSERT_OK(tutti_data_options_clear(options, "experimental_stats.aggregator"));
  ASSERT_OK(tutti_data_options_get_stats_aggregator(options, &found));
  EXPECT_TRUE(found == nullptr);
}

TEST_F(LifeTest, AnIteratorTellsWhatItDidAndAJobWhatItsRanksMeasured) {
  StatsAggregator aggregator;
  ASSERT_OK(tutti_stats_aggregator_create(&aggregator));
  DataOptions options;
  ASSERT_OK(tutti_data_options_create(&options));
  ASSERT_OK(tutti_data_options_set_bool(options, "experimental_stats.profile", TUTTI_TRUE));
  ASSERT_OK(tutti_data_options_set_stats_aggregator(options, aggregator));
  Dataset dataset = RangeOf(4);
  ASSERT_OK(tutti_dataset_latency_stats(&dataset, "made", nullptr));
  ASSERT_OK(tutti_dataset_progress(&dataset, "train", nullptr));
  ASSERT_OK(tutti_dataset_with_options(&dataset, options));
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  for (int i = 0; i < 5; ++i) {
    Value element;
    ASSERT_OK(tutti_iterator_next(iterator, nullptr, &element));
  }
  Bytes text, json, svg, again, plan;
  ASSERT_OK(tutti_iterator_explain(iterator, "text", &text));
  EXPECT_THAT(tutti_bytes_get_view(text).data, testing::HasSubstr("run: 4 rows in "));
  ASSERT_OK(tutti_iterator_explain(iterator, "json", &json));
  const tutti_string_view report = tutti_bytes_get_view(json);
  ASSERT_OK(tutti_dataset_explain_report(report.data, report.size, "json", &again));
  EXPECT_STREQ(tutti_bytes_get_view(again).data, report.data);
  ASSERT_OK(tutti_dataset_explain_as(dataset, "svg", &svg));
  EXPECT_THAT(tutti_bytes_get_view(svg).data, testing::StartsWith("<svg "));
  ASSERT_OK(tutti_dataset_explain(dataset, &plan));
  EXPECT_THAT(tutti_bytes_get_view(plan).data, testing::HasSubstr("run: 4 rows in "));
  Bytes none;
  EXPECT_FAILS(tutti_iterator_explain(iterator, "yaml", &none), TUTTI_INVALID_ARGUMENT,
               "the formats are text, json and svg");
  EXPECT_FAILS(tutti_dataset_explain_report("{}", 2, "text", &none), TUTTI_INVALID_ARGUMENT,
               "this is no report");

  tutti_communicator *alone = nullptr;
  ASSERT_OK(tutti_communicator_create_local(nullptr, 1, nullptr, &alone));
  Value sum;
  ASSERT_OK(tutti_stats_aggregator_gather(aggregator, alone, nullptr, &sum));
  Bytes shown;
  ASSERT_OK(tutti_value_to_string(sum, &shown));
  EXPECT_THAT(tutti_bytes_get_view(shown).data,
              testing::AllOf(testing::HasSubstr("'made::elements': 4"),
                             testing::HasSubstr("'ranks': [{'counters': ")));
  EXPECT_FAILS(tutti_stats_aggregator_gather(aggregator, nullptr, nullptr, &sum),
               TUTTI_INVALID_ARGUMENT, "communicator");
  Bytes job;
  ASSERT_OK(tutti_dataset_gather_report(report.data, report.size, "json", alone, nullptr, &job));
  EXPECT_STREQ(tutti_bytes_get_view(job).data, report.data);
  EXPECT_FAILS(tutti_dataset_gather_report("{}", 2, "text", alone, nullptr, &none),
               TUTTI_INVALID_ARGUMENT, "this is no report");
  EXPECT_FAILS(tutti_dataset_gather_report(report.data, report.size, "yaml", alone, nullptr, &none),
               TUTTI_INVALID_ARGUMENT, "the formats are text, json and svg");
  EXPECT_FAILS(
      tutti_dataset_gather_report(report.data, report.size, "text", nullptr, nullptr, &none),
      TUTTI_INVALID_ARGUMENT, "communicator");
  tutti_communicator_release(alone);
}

TEST_F(LifeTest, ReadersTakeANumberOfParallelReads) {
  const char *const files[] = {"a"};
  tutti_tf_record_options records = TUTTI_TF_RECORD_OPTIONS_INIT;
  records.num_parallel_reads = TUTTI_AUTOTUNE;
  Dataset dataset;
  ASSERT_OK(tutti_dataset_create_tf_record_from_paths(nullptr, 1, files, &records, &dataset));
  records.num_parallel_reads = -2;
  Dataset refused;
  EXPECT_FAILS(tutti_dataset_create_tf_record_from_paths(nullptr, 1, files, &records, &refused),
               TUTTI_INVALID_ARGUMENT, "num_parallel_reads must be a number of files");
  Dataset names;
  ASSERT_OK(tutti_dataset_create_tf_record_from_paths(nullptr, 0, nullptr, nullptr, &names));
  tutti_fixed_length_record_options fixed = TUTTI_FIXED_LENGTH_RECORD_OPTIONS_INIT;
  fixed.num_parallel_reads = 2;
  ASSERT_OK(tutti_dataset_create_fixed_length_record(nullptr, names, 2, &fixed, &refused));
  fixed.num_parallel_reads = -3;
  Dataset none;
  EXPECT_FAILS(tutti_dataset_create_fixed_length_record(nullptr, names, 2, &fixed, &none),
               TUTTI_INVALID_ARGUMENT, "num_parallel_reads must be a number of files");
  tutti_text_line_options lines = TUTTI_TEXT_LINE_OPTIONS_INIT;
  lines.num_parallel_reads = TUTTI_AUTOTUNE;
  Dataset text;
  ASSERT_OK(tutti_dataset_create_text_line(nullptr, names, &lines, &text));
  lines.num_parallel_reads = -2;
  EXPECT_FAILS(tutti_dataset_create_text_line(nullptr, names, &lines, &none),
               TUTTI_INVALID_ARGUMENT, "num_parallel_reads must be a number of files");
}

TEST_F(LifeTest, AFailedTransformationLeavesTheDatasetAsItWas) {
  Dataset dataset = RangeOf(4);
  tutti_dataset *const before = dataset;
  EXPECT_FAILS(tutti_dataset_batch(&dataset, 0, nullptr), TUTTI_INVALID_ARGUMENT, "batch_size");
  EXPECT_FAILS(tutti_dataset_shard(&dataset, 2, 2, nullptr), TUTTI_INVALID_ARGUMENT, "");
  EXPECT_FAILS(tutti_dataset_map(&dataset, nullptr, nullptr), TUTTI_INVALID_ARGUMENT,
               "tutti_dataset_map: the argument function is NULL");
  EXPECT_EQ(static_cast<tutti_dataset *>(dataset), before);
  EXPECT_EQ(tutti_dataset_get_cardinality(dataset), 4);
}

TEST_F(LifeTest, LogLinesGoToTheSinkAndItsUserDataMayGoAfterwards) {
  struct Lines {
    std::atomic<int> count{0};
  };
  auto lines = std::make_unique<Lines>();
  const auto log = [](tutti_log_level level, tutti_string_view line, void *user_data) {
    EXPECT_EQ(level, TUTTI_LOG_WARNING);
    EXPECT_THAT(std::string(line.data, line.size), testing::HasSubstr("deterministic"));
    static_cast<Lines *>(user_data)->count.fetch_add(1);
  };
  ASSERT_OK(tutti_runtime_set_log_sink(nullptr, log, lines.get()));
  DataOptions yes, no, merged;
  ASSERT_OK(tutti_data_options_create(&yes));
  ASSERT_OK(tutti_data_options_create(&no));
  ASSERT_OK(tutti_data_options_set_bool(yes, "deterministic", 1));
  ASSERT_OK(tutti_data_options_set_bool(no, "deterministic", 0));
  ASSERT_OK(tutti_data_options_merge(yes, no, &merged));
  EXPECT_EQ(lines->count.load(), 1);
  ASSERT_OK(tutti_runtime_set_log_sink(nullptr, nullptr, nullptr));
  lines.reset();
  tutti_optional_int64 value = {0, 0};
  ASSERT_OK(tutti_data_options_read(merged, "deterministic", &value));
  EXPECT_EQ(value.present, 1);
  EXPECT_EQ(value.value, 0);
}

// ---- Programs that end, or run out of memory. ----

TEST(LifeDeathTest, TheDefaultRuntimeThatHasEndedDoesNotStartAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    const Dataset before = RangeOf(3);
    Iterator iterator;
    EXPECT_OK(tutti_iterator_create(before, nullptr, nullptr, &iterator));
    EXPECT_OK(tutti_runtime_end_default(nullptr));
    EXPECT_FALSE(tutti_runtime_is_running(nullptr));
    Dataset after;
    EXPECT_FAILS(tutti_dataset_create_range(nullptr, 0, 3, 1, nullptr, &after),
                 TUTTI_FAILED_PRECONDITION, "is about to exit");
    EXPECT_FAILS(tutti_runtime_set(nullptr, "log_level", "info"), TUTTI_FAILED_PRECONDITION, "");
    EXPECT_OK(tutti_runtime_shutdown(nullptr, nullptr));
    EXPECT_OK(tutti_runtime_end_default(nullptr));
    Runtime own;
    EXPECT_OK(tutti_runtime_create(nullptr, &own));
    EXPECT_OK(tutti_dataset_create_range(own, 0, 3, 1, nullptr, &after));
    EXPECT_OK(tutti_runtime_shutdown(own, nullptr));
    return testing::Test::HasFailure() ? 1 : 42;
  };
  EXPECT_EXIT(exit(run()), testing::ExitedWithCode(42), "");
}

// The sanitizers need more address space than any limit would leave.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// So much address space is left.
void LimitMemory(uint64_t bytes) {
  uint64_t pages = 0;
  FILE *const statm = fopen("/proc/self/statm", "r");
  ASSERT_NE(statm, nullptr);
  EXPECT_EQ(fscanf(statm, "%lu", &pages), 1);
  fclose(statm);
  const rlim_t limit = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limits{limit, limit};
  EXPECT_EQ(setrlimit(RLIMIT_AS, &limits), 0);
}

int RunOutOfMemory(bool prefetches) {
  tutti_call_options hang = TUTTI_CALL_OPTIONS_INIT;
  hang.timeout = 60'000'000'000;
  Dataset dataset = RangeOf(1'000'000'000);
  EXPECT_OK(tutti_dataset_shuffle(&dataset, 50'000'000, nullptr, nullptr));
  if (prefetches) {
    EXPECT_OK(tutti_dataset_prefetch(&dataset, 2, nullptr));
  }
  Iterator iterator;
  EXPECT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  LimitMemory(256 << 20);
  Value value;
  for (int i = 0; i < 2; ++i) {
    EXPECT_FAILS(tutti_iterator_next(iterator, &hang, &value), TUTTI_RESOURCE_EXHAUSTED, "");
  }
  Bytes state;
  const Answer saved = tutti_iterator_save(iterator, &hang, &state);
  EXPECT_TRUE(saved.code() == TUTTI_OK || saved.code() == TUTTI_RESOURCE_EXHAUSTED)
      << testing::PrintToString(saved);
  EXPECT_OK(tutti_iterator_close(iterator, &hang));
  // The memory is there again.
  Dataset small = RangeOf(3);
  Iterator other;
  EXPECT_OK(tutti_iterator_create(small, nullptr, nullptr, &other));
  EXPECT_OK(tutti_iterator_next(other, &hang, &value));
  EXPECT_OK(tutti_runtime_shutdown(nullptr, &hang));
  return testing::Test::HasFailure() ? 1 : 42;
}

TEST(LifeDeathTest, MemoryThatRunsOutIsAnErrorAndCloseReturns) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit(RunOutOfMemory(false)), testing::ExitedWithCode(42), "");
}

TEST(LifeDeathTest, MemoryThatRunsOutOnAThreadOfPrefetchIsAnErrorAndCloseReturns) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit(RunOutOfMemory(true)), testing::ExitedWithCode(42), "");
}
#endif

}  // namespace
}  // namespace tutti::capi_test
