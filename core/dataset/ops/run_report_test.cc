// What explain tells after a run, and what AUTOTUNE makes of what is measured.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/dataset/exec/autotuner.h"
#include "core/dataset/graph/run_report.h"
#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void SleepMicroseconds(int64_t us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

// How long it sleeps, and how many are in it at once.
struct Slow {
  explicit Slow(int64_t sleep_us) : us(sleep_us) {}
  const int64_t us;
  std::mutex mutex;
  int64_t inside = 0;
  int64_t most_inside = 0;
};

Ref<TestFunction> Sleeps(Slow* slow) {
  return MakeFunction(
      [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
        Slow& slow = *static_cast<Slow*>(data);
        {
          std::lock_guard lock(slow.mutex);
          slow.most_inside = std::max(slow.most_inside, ++slow.inside);
        }
        SleepMicroseconds(slow.us);
        std::lock_guard lock(slow.mutex);
        --slow.inside;
        return Number(NumberIn(in));
      },
      {.data = slow, .spec = Int64Scalar(), .name = "sleeps"});
}

class RunReportTest : public DatasetTest {
 protected:
  Ref<Dataset> Measured(const Ref<Dataset>& dataset, const char* key = nullptr, int64_t value = 0) {
    DatasetOptions options;
    EXPECT_TRUE(options.SetBool("experimental_stats.profile", true).ok());
    if (key != nullptr) {
      EXPECT_TRUE(options.SetInt(key, value).ok());
    }
    return Ok(dataset->WithOptions(options));
  }
  Ref<Iterator> Walk(const Ref<Dataset>& dataset) {
    return Iterator::Create(dataset, {}, CallOptions()).value();
  }
  // All elements; a consumer that sleeps so long after each.
  void Read(Iterator& iterator, int64_t rest_us = 0) {
    while (true) {
      const Result<Ref<Value>> element = iterator.Next(CallOptions());
      ASSERT_TRUE(element.ok()) << element.status().ToString();
      if (!*element) return;
      if (rest_us > 0) SleepMicroseconds(rest_us);
    }
  }
  RunReport ReportOf(const Ref<Dataset>& dataset, int64_t rest_us = 0) {
    const Ref<Iterator> iterator = Walk(dataset);
    Read(*iterator, rest_us);
    return iterator->Explain();
  }
  static const RunReport::Step& StepOf(const RunReport& report, std::string_view op) {
    for (const RunReport::Step& step : report.steps) {
      if (step.op == op) return step;
    }
    ADD_FAILURE() << "no " << op;
    return report.steps[0];
  }
};

TEST_F(RunReportTest, EachOperationHasItsRowsBytesAndCalls) {
  const Ref<Dataset> dataset =
      Measured(Ok(Ok(Range(100)->Map(AddOne(), Named("next")))->Batch(8)));
  const RunReport report = ReportOf(dataset);
  ASSERT_EQ(report.steps.size(), 3u);
  EXPECT_EQ(report.run.rows, 13);
  EXPECT_EQ(report.steps[0].totals.rows, 13);
  EXPECT_EQ(report.steps[1].totals.rows, 100);
  EXPECT_EQ(report.steps[1].totals.function_rows, 100);
  EXPECT_TRUE(report.steps[1].calls_host);
  EXPECT_EQ(report.steps[2].totals.rows, 100);
  EXPECT_DOUBLE_EQ(report.steps[2].totals.bytes, 800);
  EXPECT_EQ(report.steps[0].inputs, std::vector<int64_t>{1});
  EXPECT_THAT(report.ToText(), AllOf(HasSubstr("map 'next'"), HasSubstr("100 callback calls"),
                                     HasSubstr("run: 13 rows in "), HasSubstr("bottleneck: ")));
  // The dataset tells of the last one.
  EXPECT_THAT(dataset->Explain(), HasSubstr("run: 13 rows in "));
  EXPECT_THAT(Range(3)->Explain(), Not(HasSubstr("run:")));
}

TEST_F(RunReportTest, NothingIsMeasuredWhereNobodyAsked) {
  const Ref<Dataset> dataset = Ok(Range(10)->Batch(2));
  const RunReport report = ReportOf(dataset);
  EXPECT_FALSE(report.measured);
  EXPECT_EQ(report.steps[0].totals.rows, 0);
  EXPECT_EQ(report.ToText(), dataset->Explain());
  EXPECT_THAT(dataset->Explain(), Not(HasSubstr("run:")));
}

TEST_F(RunReportTest, ASlowMapIsNamedWithWhatWouldHelp) {
  Slow slow(500);
  const RunReport report = ReportOf(Measured(Ok(Range(40)->Map(Sleeps(&slow)))));
  EXPECT_THAT(report.verdict, AllOf(StartsWith("map: calls the program per row: "),
                                    HasSubstr("as an expression it would be native"),
                                    HasSubstr("num_parallel_calls=AUTOTUNE")));
}

TEST_F(RunReportTest, ASlowSourceIsNamedBelowAMap) {
  struct Count {
    int64_t next = 0;
  } count;
  const Ref<Function> start = MakeFunction(
      [](Context&, const Value&, void*) -> Result<Ref<Value>> { return Number(0); });
  const Ref<Function> next = MakeFunction(
      [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
        SleepMicroseconds(500);
        const int64_t number = static_cast<Count*>(data)->next++;
        return number < 40 ? Number(number) : Ref<Value>();
      },
      {.data = &count});
  const Ref<Dataset> dataset =
      Ok(Dataset::FromGenerator(datasets_, start, next, Int64Scalar()));
  const RunReport report = ReportOf(Measured(Ok(Ok(dataset->Map(AddOne()))->Prefetch(4))));
  EXPECT_THAT(report.verdict, AllOf(StartsWith("from_generator: the source is what is slow"),
                                    HasSubstr("interleave")));
  EXPECT_GT(StepOf(report, "prefetch").totals.buffer_empty, 0.5);
}

TEST_F(RunReportTest, ASlowConsumerHasNothingToGain) {
  RunReport report;
  // Where other programs have the processor for long, it seems to wait.
  for (int i = 0; i < 10 && (i == 0 || report.bottleneck >= 0); ++i) {
    report = ReportOf(Measured(Ok(Ok(Range(30)->Map(AddOne()))->Prefetch(4))), 3000);
  }
  EXPECT_THAT(report.verdict, AllOf(StartsWith("the consumer: "), HasSubstr("nothing to gain")));
  EXPECT_EQ(report.bottleneck, -1);
}

// One after the other as they come, as Python's lock: who lets it go does not get it back before
// those who wait, and wakes nobody but the next.
class FairLock {
 public:
  void lock() {
    std::unique_lock hold(mutex_);
    const uint64_t ticket = next_++;
    Turn(ticket).wait(hold, [&] { return served_ == ticket; });
  }
  void unlock() {
    const std::lock_guard hold(mutex_);
    Turn(++served_).notify_one();
  }

 private:
  static constexpr size_t kMostWaiting = 8;
  std::condition_variable& Turn(uint64_t ticket) { return turns_[ticket % kMostWaiting]; }

  std::mutex mutex_;
  std::array<std::condition_variable, kMostWaiting> turns_;
  uint64_t next_ = 0;
  uint64_t served_ = 0;
};

// What Python's lock does to a parallel map: one call computes at a time.
TEST_F(RunReportTest, CallsBehindOneLockAreNamed) {
  static FairLock lock;
  const Ref<Function> locked = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        std::lock_guard one(lock);
        timespec now{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        const int64_t begin = now.tv_sec * kSecondNs + now.tv_nsec;
        do {
          clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        } while (now.tv_sec * kSecondNs + now.tv_nsec - begin < 3'000'000);
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  // Where other programs have the processor for long, calls behind a lock look like others.
  std::string verdict;
  for (int i = 0; i < 10 && verdict.find("take turns") == std::string::npos; ++i) {
    const RunReport report = ReportOf(Measured(Ok(Range(30)->Map(locked, Parallel(4)))));
    EXPECT_EQ(StepOf(report, "map").totals.parallelism, 4);
    verdict = report.verdict;
  }
  EXPECT_THAT(verdict, AllOf(StartsWith("map: calls the program per row"),
                             HasSubstr("its 4 calls take turns"), HasSubstr("Python's"),
                             HasSubstr("as an expression it would be native")));
}

TEST_F(RunReportTest, AReportGoesThroughJsonAndBecomesAPicture) {
  const RunReport report = ReportOf(Measured(Ok(Ok(Range(20)->Map(AddOne()))->Batch(4))));
  const Result<RunReport> read = RunReport::FromJson(report.ToJson());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->ToJson(), report.ToJson());
  EXPECT_EQ(read->verdict, report.verdict);
  EXPECT_THAT(report.ToSvg(), AllOf(StartsWith("<svg xmlns="), HasSubstr("bottleneck: ")));
  EXPECT_THAT(report.As("yaml").status().message(),
              HasSubstr("the format is 'yaml'; the formats are text, json and svg"));
}

// How it looks where calls have the lock before they begin: one at a time, and all of it computing.
TEST_F(RunReportTest, CallsThatComeOneAtATimeAreNamed) {
  RunReport report = ReportOf(Measured(Ok(Range(30)->Map(AddOne(), Parallel(4)))));
  RunReport::Step& map = report.steps[0];
  map.totals.function_ns = map.self_ns = 80'000'000;
  map.totals.computing = 1;
  RunProfile::Totals run = {.turns = 30, .rows = 30, .waited_ns = 80'000'000,
                            .elapsed_ns = 80'000'000};
  report.run = run;
  report.SetConsumer(run, "nobody");
  EXPECT_EQ(report.bottleneck, 0);
  EXPECT_THAT(report.verdict, AllOf(HasSubstr("its 4 calls take turns: on average 1.0 are under "
                                              "way and 1.0 compute"),
                                    HasSubstr("Python's")));
  EXPECT_THAT(report.ToText(), HasSubstr("  <== the bottleneck\n"));
  // Two at once that compute all the time have the cores for themselves.
  map.totals.function_ns = map.self_ns = 160'000'000;
  report.SetConsumer(run, "nobody");
  EXPECT_THAT(report.verdict, HasSubstr("they compute all the time"));
  // Four of which hardly one computes may wait for anything, and nothing else is said.
  map.totals.function_ns = map.self_ns = 320'000'000;
  map.totals.computing = 0.05;
  report.SetConsumer(run, "nobody");
  EXPECT_THAT(report.verdict,
              AllOf(HasSubstr("on average 4.0 are under way and 0.2 compute, the others wait: for "
                              "I/O, where more num_parallel_calls would help, or for a lock or a "
                              "processor, where they would not"),
                    Not(HasSubstr("take turns"))));
}

TEST_F(RunReportTest, AConsumerBehindTellsWhatLiesBetween) {
  RunReport report = ReportOf(Measured(Range(30)));
  report.run = {.turns = 30, .rows = 30, .waited_ns = 10, .elapsed_ns = 1000};
  report.SetConsumer({.turns = 30, .rows = 30, .waited_ns = 900, .elapsed_ns = 1000}, "the others");
  EXPECT_EQ(report.verdict,
            "the others; the consumer waits 90 % of the time, and this pipeline takes 1 %");
  EXPECT_EQ(report.bottleneck, -1);
  report.SetConsumer({.turns = 30, .rows = 30, .waited_ns = 50, .elapsed_ns = 1000}, "the others");
  EXPECT_THAT(report.verdict, StartsWith("the consumer: "));
}

TEST_F(RunReportTest, RunsAreAddedUpAndTheSlowestIsTold) {
  const Ref<Dataset> dataset = Measured(Ok(Range(20)->Map(AddOne())));
  RunReport fast = ReportOf(dataset);
  RunReport slow = ReportOf(dataset);
  fast.run = {.turns = 21, .rows = 20, .waited_ns = 100, .elapsed_ns = 1000};
  slow.run = {.turns = 21, .rows = 20, .waited_ns = 900, .elapsed_ns = 1100};
  fast.verdict = "fast";
  slow.verdict = "slow";
  slow.bottleneck = 1;
  const RunReport sum = RunReport::Sum({{"rank 0", fast}, {"rank 1", slow}});
  EXPECT_EQ(sum.run.rows, 40);
  EXPECT_EQ(sum.run.elapsed_ns, 1100);
  EXPECT_EQ(sum.run.waited_ns, 900);
  EXPECT_EQ(sum.steps[0].totals.rows, 40);
  EXPECT_EQ(sum.steps[0].self_ns, fast.steps[0].self_ns + slow.steps[0].self_ns);
  EXPECT_EQ(sum.bottleneck, 1);
  EXPECT_EQ(sum.verdict, "rank 1: slow");
  EXPECT_THAT(sum.ToText(),
              AllOf(HasSubstr("  rank 0: 20 rows in 1 us, waited 100 ns (10 %); fast\n"),
                    HasSubstr("  rank 1: 20 rows in 1.1 us, waited 900 ns (82 %); slow\n")));
  const RunReport read = RunReport::FromJson(sum.ToJson()).value();
  EXPECT_EQ(read.ToJson(), sum.ToJson());
  EXPECT_EQ(read.ToText(), sum.ToText());
  // Of sums the parts stay apart.
  EXPECT_EQ(RunReport::Sum({{"a", sum}, {"b", fast}}).parts[1].name, "a, rank 1");
  // What has another plan is not added.
  const RunReport other = ReportOf(Measured(Range(3)));
  const RunReport both = RunReport::Sum({{"rank 0", other}, {"rank 1", slow}});
  EXPECT_EQ(both.steps[0].totals.rows, 20);
  EXPECT_EQ(both.plan_of, "rank 1");
  EXPECT_THAT(both.ToText(), HasSubstr("plans differ; above is that of rank 1\n"));
  EXPECT_EQ(RunReport::Sum({{"rank 0", slow}}).ToJson(), slow.ToJson());
}

TEST_F(RunReportTest, WhatIsNoReportIsRefused) {
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]"),
                                  std::string("{\"format\": \"tutti-explain\"}"),
                                  std::string("{\"format\": \"tutti-explain\", \"version\": 9}")}) {
    EXPECT_EQ(RunReport::FromJson(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  std::string json = ReportOf(Ok(Range(3)->Batch(2))).ToJson();
  const size_t inputs = json.find("\"inputs\": [");
  ASSERT_NE(inputs, std::string::npos);
  json.insert(inputs + 11, "7,");
  EXPECT_THAT(RunReport::FromJson(json).status().message(), HasSubstr("this is no report"));
}

TEST_F(RunReportTest, ARestoreBeginsAnew) {
  const Ref<Iterator> iterator = Walk(Measured(Range(10)));
  const std::string begin = iterator->Save(CallOptions()).value();
  Read(*iterator);
  EXPECT_EQ(iterator->Explain().run.rows, 10);
  ASSERT_TRUE(iterator->Restore(begin, CallOptions()).ok());
  EXPECT_EQ(iterator->Explain().run.rows, 0);
  Read(*iterator);
  EXPECT_EQ(iterator->Explain().run.rows, 10);
}

TEST_F(RunReportTest, WhatComesTwiceIsToldOnce) {
  const Ref<Dataset> range = Range(4);
  const Ref<Value> both = Value::Tuple({Value::OfLeaf(Leaf(LeafKind::kDataset, range)),
                                        Value::OfLeaf(Leaf(LeafKind::kDataset, range))});
  const RunReport report = ReportOf(Measured(Ok(Dataset::Zip(datasets_, *both))));
  EXPECT_EQ(report.steps.size(), 2u);
  EXPECT_EQ(report.steps[1].totals.rows, 8);
  EXPECT_THAT(report.ToText(), HasSubstr("(as above)"));
}

// ---- AUTOTUNE.

TEST_F(RunReportTest, AutotuneMakesMoreCallsWhereTheConsumerWaits) {
  Slow slow(2000);
  const RunReport report =
      ReportOf(Measured(Ok(Range(400)->Map(Sleeps(&slow), Parallel(kAutotune)))));
  const RunReport::Step& map = StepOf(report, "map");
  EXPECT_GT(slow.most_inside, static_cast<int64_t>(std::thread::hardware_concurrency()));
  EXPECT_LE(slow.most_inside, kMostTunedCalls);
  ASSERT_GE(map.decisions.size(), 2u);
  EXPECT_THAT(map.decisions[1], HasSubstr("the consumer waited "));
  EXPECT_THAT(report.ToText(), HasSubstr("chosen: num_parallel_calls: "));
}

TEST_F(RunReportTest, TheCpuBudgetHolds) {
  Slow slow(1000);
  ReportOf(Measured(Ok(Range(200)->Map(Sleeps(&slow), Parallel(kAutotune))),
                    "experimental_optimization.autotune_cpu_budget", 1));
  EXPECT_EQ(slow.most_inside, 1);
}

TEST_F(RunReportTest, WithoutAutotuneItIsAConstant) {
  Slow slow(1000);
  DatasetOptions options;
  ASSERT_TRUE(options.SetBool("experimental_optimization.autotune", false).ok());
  const RunReport report = ReportOf(
      Ok(Ok(Range(200)->Map(Sleeps(&slow), Parallel(kAutotune)))->WithOptions(options)));
  EXPECT_LE(slow.most_inside, static_cast<int64_t>(std::thread::hardware_concurrency()));
  EXPECT_TRUE(report.steps[0].decisions.empty());
}

TEST_F(RunReportTest, ABufferThatWasFullAndIsEmptyGrows) {
  const Ref<Iterator> iterator = Walk(Measured(Ok(Range(5000)->Prefetch(kAutotune))));
  // By turns a consumer that rests and one that hurries.
  for (int i = 0; i < 4000; ++i) {
    ASSERT_TRUE(iterator->Next(CallOptions()).ok());
    if (i % 400 == 0) SleepMicroseconds(2000);
  }
  const RunReport report = iterator->Explain();
  EXPECT_THAT(report.ToText(), HasSubstr("buffer_size: 8 -> 16, it was full and then empty"));
  EXPECT_LE(StepOf(report, "prefetch").totals.buffer_size, kMostTunedElements);
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_F(RunReportTest, TheRamBudgetHoldsForWhatIsTuned) {
  constexpr int64_t kElement = 1 << 20;
  constexpr int64_t kBudget = 8 << 20;
  const Ref<Function> large = MakeFunction([](Context&, const Value& in, void*) {
    std::vector<int64_t> numbers(kElement / 8, NumberIn(in));
    return Result<Ref<Value>>(Value::OfTensor(
        Tensor::FromSpan<int64_t>(Shape({kElement / 8}), std::span<const int64_t>(numbers))
            .value()));
  });
  const Ref<Dataset> dataset = Ok(Ok(Range(1200)->Map(large, Parallel(kAutotune)))->Prefetch(-1));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // What is freed goes back at once: the heap of a thread would keep some of each. (Sanitizers have
  // an allocator of their own.)
  ASSERT_EQ(mallopt(M_MMAP_THRESHOLD, kElement / 4), 1);
#endif
  const int64_t before = ResidentBytes();
  const Ref<Iterator> iterator = Walk(Measured(dataset, "autotune.ram_budget", kBudget));
  int64_t most = 0;
  for (int i = 0; i < 1200; ++i) {
    ASSERT_TRUE(iterator->Next(CallOptions()).ok());
    if (i % 100 == 0) SleepMicroseconds(60000);  // buffers fill, and grow when they are empty
    most = std::max(most, ResidentBytes() - before);
  }
  // What is on its way through calls is not held: one element for each of them, and its copy.
  // Without a budget 60 MiB and more are held. Sanitizers keep what was freed for a while.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(most, kBudget + 2 * kMostTunedCalls * kElement + (8 << 20));
#else
  EXPECT_GT(most, 0);
#endif
}

// ---- progress.

// What is written to standard error while it lives, on a terminal.
class Terminal {
 public:
  Terminal() : master_(posix_openpt(O_RDWR | O_NOCTTY)), former_(dup(STDERR_FILENO)) {
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    const int end = open(ptsname(master_), O_RDWR | O_NOCTTY);
    dup2(end, STDERR_FILENO);
    close(end);
  }
  ~Terminal() {
    if (former_ >= 0) Text();
  }
  std::string Text() {
    std::string text(4096, '\0');
    (void)fcntl(master_, F_SETFL, O_NONBLOCK);
    const ssize_t got = read(master_, text.data(), text.size());
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    dup2(former_, STDERR_FILENO);
    close(std::exchange(former_, -1));
    close(master_);
    return text;
  }

 private:
  const int master_;
  int former_;
};

TEST_F(RunReportTest, ProgressTellsATerminalHowFarItIs) {
  const Ref<Dataset> dataset = Ok(Range(50)->Progress("train"));
  Terminal terminal;
  const auto elements = All(dataset);
  const std::string text = terminal.Text();
  EXPECT_EQ(elements.size(), 50u);
  EXPECT_THAT(text, AllOf(HasSubstr("train: 50 of 50 (100 %), "), HasSubstr(" a second, in ")));
}

TEST_F(RunReportTest, ProgressIsQuietWhereThereIsNoTerminal) {
  const Ref<Dataset> dataset = Ok(Range(50)->Progress("train"));
  EXPECT_EQ(Numbers(dataset), Numbers(Range(50)));
  // A position of the one is one of the other.
  const Ref<Iterator> iterator = Walk(dataset);
  ASSERT_TRUE(iterator->Next(CallOptions()).ok());
  const std::string state = iterator->Save(CallOptions()).value();
  Terminal terminal;
  const Ref<Iterator> shown = Walk(dataset);
  const Status restored = shown->Restore(state, CallOptions());
  int64_t rest = 0;
  while (shown->Next(CallOptions()).value()) ++rest;
  const std::string text = terminal.Text();
  ASSERT_TRUE(restored.ok()) << restored.ToString();
  EXPECT_EQ(rest, 49);
  EXPECT_THAT(text, AllOf(HasSubstr("train: 49, "), Not(HasSubstr(" of 50"))));
}

TEST_F(RunReportTest, AProgressNeedsALabelOfOneLine) {
  for (const char* label : {"", "a\nb", "\x1b[2J"}) {
    EXPECT_THAT(Range(3)->Progress(label).status().message(),
                HasSubstr("expected one line of text"));
  }
}

}  // namespace
}  // namespace tutti
