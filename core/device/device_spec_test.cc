#include "core/device/device_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti {
namespace {

using ::testing::HasSubstr;

DeviceSpec Spec(std::string_view text) { return DeviceSpec::Parse(text).value(); }

std::string Merged(std::vector<std::string> scopes) {
  return DeviceSpec::ParseNested(scopes).value().ToString();
}

TEST(DeviceSpec, ReadsEveryField) {
  const DeviceSpec spec = Spec("/job:ps/replica:0/task:3/device:cpu:1");
  EXPECT_EQ(spec.job, "ps");
  EXPECT_EQ(spec.replica, 0);
  EXPECT_EQ(spec.task, 3);
  EXPECT_EQ(spec.device_type, "CPU");
  EXPECT_EQ(spec.device_index, 1);
  EXPECT_EQ(spec.ToString(), "/job:ps/replica:0/task:3/device:CPU:1");
}

TEST(DeviceSpec, ReadsShortForms) {
  EXPECT_EQ(Spec("/GPU:0").ToString(), "/device:GPU:0");
  EXPECT_EQ(Spec("CPU:1").ToString(), "/device:CPU:1");
  EXPECT_EQ(Spec("cpu").device_type, "CPU");
  EXPECT_EQ(Spec("/job:worker/gpu:2").ToString(), "/job:worker/device:GPU:2");
  EXPECT_EQ(Spec(""), DeviceSpec());
}

TEST(DeviceSpec, AWordThatIsNoPartIsRefusedWithTheNearest) {
  const auto refusal = [](std::string_view text) {
    const Status refused = DeviceSpec::Parse(text).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << text;
    return std::string(refused.message());
  };
  EXPECT_THAT(refusal("/job:worker/tsk:1"), HasSubstr("\"tsk:1\" is no part of a device, did you "
                                                      "mean 'task'?"));
  EXPECT_THAT(refusal("foo"), HasSubstr("\"foo\" is no part of a device;"));
  EXPECT_THAT(refusal("/gpo:0"), HasSubstr("did you mean 'gpu'?"));
  EXPECT_EQ(Spec("/device:FPGA:0").device_type, "FPGA");
}

TEST(DeviceSpec, LeavesOutWhatMayBeAny) {
  const DeviceSpec spec = Spec("/job:ps/task:*/device:GPU:*");
  EXPECT_FALSE(spec.task.has_value());
  EXPECT_FALSE(spec.device_index.has_value());
  EXPECT_EQ(spec.ToString(), "/job:ps/device:GPU:*");
  EXPECT_EQ(Spec(spec.ToString()), spec);
  EXPECT_EQ(Spec("/device:*:1").device_index, 1);
  EXPECT_EQ(Spec("/device:*:1").ToString(), "/device:*:1");
}

TEST(DeviceSpec, MergesScopesWithTheInnerWinning) {
  EXPECT_EQ(Merged({"/job:foo", "/job:bar/task:0/device:gpu:2"}), "/job:bar/task:0/device:GPU:2");
  EXPECT_EQ(Merged({"/job:train", "/device:GPU:1"}), "/job:train/device:GPU:1");
  EXPECT_EQ(Merged({"/job:foo", "/task:1", "/device:CPU:0", "/task:2"}),
            "/job:foo/task:2/device:CPU:0");
  EXPECT_EQ(Merged({}), "");
  DeviceSpec outer;
  outer.job = "ps";
  outer.device_type = "CPU";
  DeviceSpec inner;
  inner.device_type = "GPU";
  const DeviceSpec merged = outer.MergedWith(inner);
  EXPECT_EQ(merged.job, "ps");
  EXPECT_EQ(merged.device_type, "GPU");
  EXPECT_EQ(outer.device_type, "CPU");
}

TEST(DeviceSpec, RefusesNonsenseNamingThePart) {
  const auto message = [](std::string_view text) {
    const Status status = DeviceSpec::Parse(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  EXPECT_THAT(message("/device:"), HasSubstr("\"device:\" has no device type"));
  EXPECT_THAT(message("/device:CPU:0/device:GPU:0"),
              HasSubstr("\"device:GPU:0\" comes on top of another"));
  EXPECT_THAT(message("/CPU:0/GPU:0"), HasSubstr("comes on top of another"));
  EXPECT_THAT(message("/job:a/job:b"), HasSubstr("\"job:b\" comes on top of another"));
  EXPECT_THAT(message("/task:1/task:2"), HasSubstr("\"task:2\""));
  EXPECT_THAT(message("/replica:*/replica:2"), HasSubstr("\"replica:2\""));
  EXPECT_THAT(message("/task:x"), HasSubstr("has no index"));
  EXPECT_THAT(message("/task:"), HasSubstr("has no index"));
  EXPECT_THAT(message("/task:-1"), HasSubstr("has no index"));
  EXPECT_THAT(message("/device:CPU:"), HasSubstr("has no index"));
  EXPECT_THAT(message("/device:CPU:0:1"), HasSubstr("has no index"));
  EXPECT_THAT(message("CPU:99999999999"), HasSubstr("has no index"));
  EXPECT_THAT(message("/job:"), HasSubstr("has no job name"));
  EXPECT_THAT(message("/job:1a"), HasSubstr("has no job name"));
  EXPECT_THAT(message("//CPU:0"), HasSubstr("has no device type"));
  EXPECT_THAT(message("/CPU:0/"), HasSubstr("an empty part follows a slash"));
  EXPECT_THAT(message("/"), HasSubstr("an empty part"));
  EXPECT_THAT(message("/color:red"), HasSubstr("\"color:red\""));
  const std::string scopes[] = {"/job:a", "/device:"};
  EXPECT_FALSE(DeviceSpec::ParseNested(scopes).ok());
}

}  // namespace
}  // namespace tutti
