// Where things are placed, and what physical devices are presented as.
#include <string>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

class PlacementTest : public CInterfaceTest {
 protected:
  static std::string TextOf(const tutti_bytes *bytes) {
    const tutti_string_view view = tutti_bytes_get_view(bytes);
    return std::string(view.data, view.size);
  }
  static std::string DeviceOf(const tutti_tensor *tensor) {
    Bytes text;
    EXPECT_OK(tutti_device_of_tensor(tensor, &text));
    return TextOf(text);
  }
};

TEST_F(PlacementTest, TensorsAndVariablesLieWhereTheyAreSaidTo) {
  constexpr const char *kCpu1 = "/job:localhost/replica:0/task:0/device:CPU:1";
  Bytes place;
  ASSERT_OK(tutti_device_place(nullptr, "/device:cpu:1", &place));
  EXPECT_EQ(TextOf(place), kCpu1);

  Tensor given = Floats({1, 2});
  Tensor placed;
  ASSERT_OK(tutti_device_place_tensor(nullptr, "CPU:1", given, &placed));
  EXPECT_EQ(DeviceOf(placed), kCpu1);
  EXPECT_EQ(tutti_tensor_get_data(placed), tutti_tensor_get_data(given));
  EXPECT_TRUE(tutti_tensor_equal(placed, given));
  EXPECT_EQ(DeviceOf(given), "/job:localhost/replica:0/task:0/device:CPU:0");

  Strategy strategy;
  Variable variable;
  ASSERT_OK(tutti_strategy_create_default(nullptr, &strategy));
  tutti_variable_options options = TUTTI_VARIABLE_OPTIONS_INIT;
  options.device = "CPU:1";
  ASSERT_OK(tutti_variable_create(strategy, given, &options, nullptr, &variable));
  EXPECT_EQ(DeviceOf(tutti_variable_get_copy(variable, 0)), kCpu1);
  // A strategy with devices of its own places its copies on them.
  Strategy mirrored = MirroredOver(2);
  Variable copies;
  options.device = "GPU:77";
  ASSERT_OK(tutti_variable_create(mirrored, given, &options, nullptr, &copies));
  EXPECT_EQ(DeviceOf(tutti_variable_get_copy(copies, 1)), kCpu1);
}

TEST_F(PlacementTest, OneDeviceHasAllThatAStrategyMakes) {
  constexpr const char *kCpu3 = "/job:localhost/replica:0/task:0/device:CPU:3";
  Strategy strategy;
  Variable variable;
  Value nothing;
  ASSERT_OK(tutti_strategy_create_one_device(nullptr, "CPU:3", nullptr, nullptr, &strategy));
  ASSERT_OK(tutti_variable_create(strategy, Floats({1}), nullptr, nullptr, &variable));
  EXPECT_EQ(DeviceOf(tutti_variable_get_copy(variable, 0)), kCpu3);
  EXPECT_STREQ(tutti_strategy_get_worker_device(strategy, 0), "/device:CPU:3");
  const auto add = [](tutti_context *replica, const tutti_value *, tutti_value **out,
                      void *user_data) -> tutti_status * {
    auto *mine = static_cast<tutti_variable *>(user_data);
    EXPECT_OK(tutti_variable_assign_add(mine, replica, Floats({2}), nullptr));
    return tutti_value_create_none(out);
  };
  tutti_variable *const given = variable;
  ASSERT_OK(tutti_strategy_run(strategy, add, given, nullptr, nullptr, &nothing));
  EXPECT_EQ(FloatsIn(tutti_variable_get_copy(variable, 0)), std::vector<float>{3});
}

TEST_F(PlacementTest, WhatIsNotThereIsAnErrorOfWhatIsPlacedThere) {
  Strategy strategy;
  Variable variable;
  Value ran;
  Bytes place;
  Tensor given = Floats({1});
  Tensor placed;
  ASSERT_OK(tutti_strategy_create_default(nullptr, &strategy));
  tutti_variable_options options = TUTTI_VARIABLE_OPTIONS_INIT;
  tutti_run_options run_options = TUTTI_RUN_OPTIONS_INIT;
  const auto nothing = [](tutti_context *, const tutti_value *, tutti_value **out,
                          void *) -> tutti_status * { return tutti_value_create_none(out); };
  const auto run = [&] {
    return tutti_strategy_run_with_options(strategy, nothing, nullptr, nullptr, &run_options,
                                           nullptr, &ran);
  };
  options.device = run_options.device = "GPU:77";
  EXPECT_FAILS(tutti_variable_create(strategy, given, &options, nullptr, &variable),
               TUTTI_NOT_FOUND, "no GPU:77; it has CPU:0 to CPU:1023");
  EXPECT_FAILS(run(), TUTTI_NOT_FOUND, "no GPU:77");
  EXPECT_FAILS(tutti_device_place(nullptr, "GPU:77", &place), TUTTI_NOT_FOUND, "no GPU:77");
  EXPECT_FAILS(tutti_device_place_tensor(nullptr, "GPU:77", given, &placed), TUTTI_NOT_FOUND,
               "no GPU:77");
  EXPECT_FAILS(tutti_device_place(nullptr, "/job:ps/device:CPU:0", &place), TUTTI_UNIMPLEMENTED,
               "another task");
  EXPECT_FAILS(tutti_device_place(nullptr, "/tsk:1", &place), TUTTI_INVALID_ARGUMENT, "tsk");

  ASSERT_OK(tutti_runtime_set(nullptr, "soft_device_placement", "1"));
  EXPECT_OK(tutti_variable_create(strategy, given, &options, nullptr, &variable));
  EXPECT_OK(run());
  ASSERT_OK(tutti_device_place(nullptr, "GPU:77", &place));
  EXPECT_EQ(TextOf(place), "/job:localhost/replica:0/task:0/device:CPU:0");
}

TEST_F(PlacementTest, PhysicalDevicesAreConfiguredUntilDevicesAreUsed) {
  Runtime runtime;
  Bytes names;
  tutti_optional_int64 count = {1, 1};
  ASSERT_OK(tutti_runtime_create(nullptr, &runtime));
  ASSERT_OK(tutti_device_list_physical(runtime, "CPU", &names));
  EXPECT_EQ(TextOf(names), "/physical_device:CPU:0");
  ASSERT_OK(tutti_device_read_logical(runtime, "CPU:0", &count));
  EXPECT_EQ(count.present, 0);
  const int64_t none[] = {0, 0, 0};
  const int64_t limit[] = {1 << 20};
  EXPECT_FAILS(tutti_device_set_logical(runtime, "CPU:0", 1, limit), TUTTI_INVALID_ARGUMENT,
               "leave memory_limit out");
  EXPECT_FAILS(tutti_device_set_logical(runtime, "GPU:77", 1, limit), TUTTI_NOT_FOUND,
               "no physical device");
  ASSERT_OK(tutti_device_set_logical(runtime, "/physical_device:CPU:0", 3, none));
  ASSERT_OK(tutti_device_read_logical(runtime, "CPU:0", &count));
  EXPECT_EQ(count.value, 3);
  ASSERT_OK(tutti_device_set_visible(runtime, "GPU", 0, nullptr));
  EXPECT_FAILS(tutti_device_set_visible(runtime, nullptr, 0, nullptr), TUTTI_INVALID_ARGUMENT,
               "cannot be hidden");
  const char *missing[] = {nullptr};
  EXPECT_FAILS(tutti_device_set_visible(runtime, "GPU", 1, missing), TUTTI_INVALID_ARGUMENT,
               "names");
  ASSERT_OK(tutti_device_list_visible(runtime, nullptr, &names));
  EXPECT_EQ(TextOf(names), "/physical_device:CPU:0");
  ASSERT_OK(tutti_device_list(runtime, "CPU", &names));
  EXPECT_EQ(TextOf(names), "CPU:0\nCPU:1\nCPU:2");
  EXPECT_FAILS(tutti_device_set_logical(runtime, "CPU:0", 2, none), TUTTI_FAILED_PRECONDITION,
               "in use already");
  EXPECT_OK(tutti_device_set_logical(runtime, "CPU:0", 3, none));
  EXPECT_OK(tutti_runtime_shutdown(runtime, nullptr));
}

}  // namespace
}  // namespace tutti::capi_test
