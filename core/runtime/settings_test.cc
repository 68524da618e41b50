#include "core/runtime/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/base/disk.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const char* NoVariables(const char*) { return nullptr; }

TEST(Settings, HaveDefaults) {
  Settings settings;
  EXPECT_EQ(*settings.Text("log_level"), "warning");
  EXPECT_EQ(settings.Level("log_level"), LogLevel::kWarning);
  EXPECT_EQ(settings.Number("logical_cpu_devices"), 1);
  EXPECT_EQ(settings.Number("memory_limit"), 0);
  EXPECT_EQ(settings.Number("default_timeout"), 0);
}

TEST(Settings, PreferArgumentToVariableToFileToDefault) {
  const std::unique_ptr<Disk> disk = MakeMemoryDisk();
  ASSERT_TRUE(disk->WriteFile("/tutti.conf",
                              "# ours\n"
                              "logical_cpu_devices = 2\n"
                              "memory_limit = 1GiB   # generous\n"
                              "\n"
                              "log_level = error\n")
                  .ok());
  const auto variables = [](const char* name) -> const char* {
    if (std::strcmp(name, "TUTTI_CONFIG_FILE") == 0) return "/tutti.conf";
    if (std::strcmp(name, "TUTTI_LOGICAL_CPU_DEVICES") == 0) return "3";
    if (std::strcmp(name, "TUTTI_MEMORY_LIMIT") == 0) return "2GiB";
    return nullptr;
  };
  Settings settings;
  ASSERT_TRUE(settings.Load({{"logical_cpu_devices", "4"}}, variables, *disk).ok());
  EXPECT_EQ(settings.Number("logical_cpu_devices"), 4);
  EXPECT_EQ(settings.Number("memory_limit"), int64_t{2} << 30);
  EXPECT_EQ(settings.Level("log_level"), LogLevel::kError);
  EXPECT_EQ(settings.Number("compute_threads"), 0);
  EXPECT_EQ(settings.ToJson(),
            "{\"collective_table\": {\"value\": \"\", \"source\": \"default\"}, "
            "\"compute_threads\": {\"value\": \"0\", \"source\": \"default\"}, "
            "\"cuda_plugin\": {\"value\": \"\", \"source\": \"default\"}, "
            "\"default_timeout\": {\"value\": \"none\", \"source\": \"default\"}, "
            "\"elastic\": {\"value\": \"0\", \"source\": \"default\"}, "
            "\"flight_recorder_dir\": {\"value\": \"\", \"source\": \"default\"}, "
            "\"join_timeout\": {\"value\": \"5m\", \"source\": \"default\"}, "
            "\"join_warning\": {\"value\": \"10s\", \"source\": \"default\"}, "
            "\"log_level\": {\"value\": \"error\", \"source\": \"file\"}, "
            "\"logical_cpu_devices\": {\"value\": \"4\", \"source\": \"argument\"}, "
            "\"logical_gpu_devices\": {\"value\": \"1\", \"source\": \"default\"}, "
            "\"memory_limit\": {\"value\": \"2GiB\", \"source\": \"variable\"}, "
            "\"metrics_port\": {\"value\": \"0\", \"source\": \"default\"}, "
            "\"replicas\": {\"value\": \"0\", \"source\": \"default\"}, "
            "\"reproducible\": {\"value\": \"0\", \"source\": \"default\"}, "
            "\"silence_limit\": {\"value\": \"3s\", \"source\": \"default\"}, "
            "\"soft_device_placement\": {\"value\": \"0\", \"source\": \"default\"}, "
            "\"transport\": {\"value\": \"auto\", \"source\": \"default\"}, "
            "\"wait_warning\": {\"value\": \"30s\", \"source\": \"default\"}}");
}

TEST(Settings, RefuseAnUnknownKeyAndNameTheNearestAndAllOthers) {
  Settings settings;
  const Status status = settings.Change("log_levle", "info");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("unknown setting \"log_levle\""), HasSubstr("\"log_level\"?"),
                    HasSubstr("compute_threads, cuda_plugin")));
  EXPECT_EQ(settings.Text("nonsense").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(settings.Load({{"nonsense", "1"}}, &NoVariables, *MakeMemoryDisk()).code(),
            StatusCode::kInvalidArgument);
}

TEST(Settings, RefuseABadValueAndSayWhereItStoodAndWhatIsExpected) {
  Settings settings;
  const auto variables = [](const char* name) -> const char* {
    return std::strcmp(name, "TUTTI_LOGICAL_CPU_DEVICES") == 0 ? "many" : nullptr;
  };
  const Status variable = settings.Load({}, variables, *MakeMemoryDisk());
  EXPECT_EQ(variable.message(),
            "variable TUTTI_LOGICAL_CPU_DEVICES: setting logical_cpu_devices is \"many\", expected "
            "a whole number from 1 to 1024");
  EXPECT_EQ(settings.Change("log_level", "loud").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(settings.Change("default_timeout", "-1s").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(settings.Change("memory_limit", "a lot").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(settings.Change("compute_threads", "-1").code(), StatusCode::kInvalidArgument);
}

TEST(Settings, NameFileAndLineOfABadFile) {
  const std::unique_ptr<Disk> disk = MakeMemoryDisk();
  const auto variables = [](const char* name) -> const char* {
    return std::strcmp(name, "TUTTI_CONFIG_FILE") == 0 ? "/tutti.conf" : nullptr;
  };
  Settings settings;
  EXPECT_EQ(settings.Load({}, variables, *disk).code(), StatusCode::kNotFound);
  ASSERT_TRUE(disk->WriteFile("/tutti.conf", "\nlog_level warning\n").ok());
  EXPECT_THAT(std::string(settings.Load({}, variables, *disk).message()),
              HasSubstr("/tutti.conf:2: expected key = value"));
  ASSERT_TRUE(disk->WriteFile("/tutti.conf", "colour = blue").ok());
  EXPECT_THAT(std::string(settings.Load({}, variables, *disk).message()),
              HasSubstr("/tutti.conf:1: unknown setting \"colour\""));
}

TEST(Settings, CannotChangeWhatIsFixedAtStart) {
  Settings settings;
  EXPECT_EQ(settings.Change("logical_cpu_devices", "2").code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(settings.Change("default_timeout", "1.5s").ok());
  EXPECT_EQ(settings.Number("default_timeout"), 1'500'000'000);
}

TEST(Settings, FindMisspeltVariables) {
  const char* const environment[] = {"TUTTI_LOG_LEVL=debug", "TUTTI_LOG_LEVEL=debug",
                                     "TUTTI_JOB_SECRET=x",   "TUTTI_SOMETHING_OF_MINE=1",
                                     "TUTI_LOG_LEVEL=1",     "PATH=/bin", nullptr};
  EXPECT_EQ(Settings::FindMisspelt(environment),
            std::vector<std::string>{
                "the variable TUTTI_LOG_LEVL is not known; did you mean TUTTI_LOG_LEVEL?"});
  EXPECT_TRUE(Settings::FindMisspelt(nullptr).empty());
}

}  // namespace
}  // namespace tutti
