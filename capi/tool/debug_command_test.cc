// tutti debug, on a dump that the library has made.
#include "capi/tool/debug_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "capi/tool/dump_views.h"

namespace tutti::tool {
namespace {

using ::testing::HasSubstr;

void Must(tutti_status* status) {
  EXPECT_EQ(status, nullptr) << tutti_status_get_message(status);
  tutti_status_release(status);
}

// Replica 1 brings a NaN.
tutti_status* Step(tutti_context* context, const tutti_value*, tutti_value** out, void*) {
  const float gradient[] = {1, tutti_context_get_replica_id(context) == 1 ? std::nanf("") : 2};
  const int64_t dims[] = {2};
  tutti_tensor* tensor = nullptr;
  tutti_value* value = nullptr;
  Must(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_FLOAT32, 1, dims, gradient,
                                     sizeof(gradient), &tensor));
  Must(tutti_value_create_tensor(tensor, &value));
  tutti_tensor_release(tensor);
  tutti_status* status = tutti_context_all_reduce(context, TUTTI_REDUCE_SUM, value, nullptr, out);
  tutti_value_release(value);
  return status;
}

class DebugCommandTest : public ::testing::Test {
 protected:
  DebugCommandTest() {
    char name[] = "/tmp/tutti-debug-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~DebugCommandTest() override { std::filesystem::remove_all(root_); }

  void MakeDump() {
    tutti_dump_options options = TUTTI_DUMP_OPTIONS_INIT;
    options.mode = TUTTI_DEBUG_CONCISE_HEALTH;
    int64_t writer = 0;
    Must(tutti_debugging_enable_dump(root_.c_str(), &options, &writer));
    const char* devices[] = {"CPU:0", "CPU:1"};
    tutti_strategy* strategy = nullptr;
    Must(tutti_strategy_create_mirrored(nullptr, 2, devices, nullptr, nullptr, &strategy));
    tutti_value* result = nullptr;
    Must(tutti_strategy_run(strategy, Step, nullptr, nullptr, nullptr, &result));
    tutti_value_release(result);
    tutti_strategy_release(strategy);
    Must(tutti_debugging_flush_execution_files(writer));
    tutti_debugging_disable_dump();
    Must(tutti_runtime_shutdown(nullptr, nullptr));
  }
  // What the command prints.
  std::string Output(const std::vector<std::string>& words, int status = 0) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(DebugCommand(words), status);
    return ::testing::internal::GetCapturedStdout();
  }

  std::string root_;
};

TEST_F(DebugCommandTest, NamesTheFirstThatIsNotFiniteAndWhereItWent) {
  MakeDump();
  const std::string text = Output({root_});
  EXPECT_THAT(text, HasSubstr("first not finite: step 1, all_reduce, the input of replica 1, "
                              "float32, pid"));
  EXPECT_THAT(text, HasSubstr("  step  tensors  not finite        NaN"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\n     1 +[0-9]+ +[1-9][0-9]* +[1-9][0-9]* +0 +0\n"));
  EXPECT_THAT(text, HasSubstr(": 1 NaN, 0 +Inf, 0 -Inf among 2\n"));
  EXPECT_THAT(text, HasSubstr("then: step 1, all_reduce, the result of finite inputs"));
  EXPECT_THAT(text, HasSubstr("then: step 1, run, the result of replica 0"));
}

TEST_F(DebugCommandTest, GivesEverythingAsJson) {
  MakeDump();
  const nlohmann::json dump = nlohmann::json::parse(Output({"--json", root_}));
  EXPECT_EQ(dump.at("first_not_finite").at("replica"), 1);
  EXPECT_GE(dump.at("events").size(), 5u);
}

TEST_F(DebugCommandTest, DrawsATimelineAndHealthOverSteps) {
  MakeDump();
  const std::string trace = root_ + "/trace.json", svg = root_ + "/health.svg";
  Output({root_, "-o", trace, "--svg", svg});
  const auto read = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const nlohmann::json timeline = nlohmann::json::parse(read(trace));
  bool seen = false;
  for (const nlohmann::json& event : timeline.at("traceEvents")) {
    if (event.at("name") != "all_reduce (not finite)" || event.at("tid") != 2) continue;
    seen = true;
    EXPECT_EQ(event.at("ph"), "i");
    EXPECT_EQ(event.at("args").at("nan"), 1);
    EXPECT_EQ(event.at("args").at("step"), 1);
  }
  EXPECT_TRUE(seen) << timeline.dump();
  EXPECT_THAT(read(svg), HasSubstr("<title>step 1: "));
  EXPECT_THAT(read(svg), HasSubstr("#c62828"));
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(Output({root_, "-o", root_ + "/no/trace.json"}, 1), HasSubstr("first not finite"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("/no/trace.json"));
}

TEST_F(DebugCommandTest, TellsWorkersApart) {
  const DumpJson dump = DumpJson::parse(R"({"processes": [
      {"host": "a", "pid": 7, "worker": 1, "task": "worker:1", "mode": "CURT_HEALTH", "events": 1},
      {"host": "b", "pid": 7, "worker": 0, "task": "worker:0", "mode": "CURT_HEALTH", "events": 1},
      {"host": "c", "pid": 8, "worker": null, "task": null, "mode": "CURT_HEALTH", "events": 0}],
    "events": [
      {"process": 0, "time_us": 5, "op": "run", "name": "x", "replica": 3, "step": 2,
       "dtype": "float32", "has_nan_or_infinity": true},
      {"process": 1, "time_us": 9, "op": "run", "name": "x", "replica": null, "step": null,
       "dtype": "float32", "has_nan_or_infinity": false}]})");
  EXPECT_EQ(DumpedProcessText(dump["processes"][0]), "worker 1, pid 7 on a");
  EXPECT_EQ(DumpedProcessText(dump["processes"][2]), "pid 8 on c");
  const nlohmann::json trace = nlohmann::json::parse(MakeDumpTrace(dump));
  std::vector<int64_t> pids;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "i") continue;
    pids.push_back(event.at("pid"));
    EXPECT_EQ(event.at("ts"), event.at("pid") == 0 ? 4 : 0);
  }
  EXPECT_THAT(pids, ::testing::ElementsAre(1, 0));
  const std::vector<StepHealth> health = HealthOverSteps(dump);
  ASSERT_EQ(health.size(), 2u);
  EXPECT_EQ(health[0].step, -1);
  EXPECT_EQ(health[1].not_finite, 1);
  EXPECT_THAT(HealthTable(health, 1), HasSubstr("\n     2        1           1"));
  EXPECT_THAT(HealthTable(health, 1), HasSubstr("of 2 steps"));
  EXPECT_EQ(HealthTable({}, 5), "");
  EXPECT_THAT(DrawHealth("a < b", {}), HasSubstr("a &lt; b"));
}

TEST_F(DebugCommandTest, SaysWhatIsDamagedAndWhatIsMissing) {
  MakeDump();
  for (const auto& entry : std::filesystem::directory_iterator(root_)) {
    if (entry.path().string().find(".execution-") == std::string::npos) continue;
    std::filesystem::resize_file(entry.path(), entry.file_size() - 3);
  }
  EXPECT_THAT(Output({root_}), HasSubstr("damaged: tutti_debug."));
  ::testing::internal::CaptureStderr();
  Output({root_ + "/nothing"}, 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("tutti debug: "));
}

}  // namespace
}  // namespace tutti::tool
