// Values on devices, updates, and cross-device ops, by the C interface.
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using testing::ElementsAre;

class ExtendedCTest : public CInterfaceTest {
 protected:
  static Value PerReplica(tutti_strategy *strategy, const std::vector<float> &numbers) {
    std::vector<Value> parts;
    std::vector<const tutti_value *> handles;
    for (const float number : numbers) {
      parts.push_back(ValueOf(Floats({number})));
      handles.push_back(parts.back());
    }
    Value value;
    EXPECT_OK(tutti_strategy_create_per_replica(strategy, handles.size(), handles.data(), &value));
    return value;
  }
  static Value Text(const char *text) {
    Value value;
    EXPECT_OK(tutti_value_create_string({text, std::string(text).size()}, &value));
    return value;
  }
  static std::string Print(const tutti_value *value) {
    Bytes text;
    EXPECT_OK(tutti_value_to_string(value, &text));
    return std::string(tutti_bytes_get_view(text).data, tutti_bytes_get_view(text).size);
  }
  static Variable MakeVariable(tutti_strategy *strategy, int32_t aggregation) {
    tutti_variable_options options = TUTTI_VARIABLE_OPTIONS_INIT;
    options.name = "v";
    options.aggregation = aggregation;
    Variable variable;
    EXPECT_OK(tutti_variable_create(strategy, Floats({1}), &options, nullptr, &variable));
    return variable;
  }
};

TEST_F(ExtendedCTest, ValuesAreReducedAndCopiedToDevices) {
  Strategy strategy = MirroredOver(2);
  EXPECT_STREQ(tutti_strategy_get_full_worker_device(strategy, 1),
               "/job:localhost/replica:0/task:0/device:CPU:1");
  EXPECT_EQ(tutti_strategy_get_full_worker_device(strategy, 2), nullptr);
  EXPECT_STREQ(tutti_strategy_get_parameter_device(strategy, 0),
               "/job:localhost/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(tutti_strategy_get_parameter_device(strategy, 2), nullptr);
  Value value = PerReplica(strategy, {1, 2});
  Value result;
  ASSERT_OK(tutti_strategy_reduce_to(strategy, TUTTI_REDUCE_SUM, value, value, nullptr, &result));
  EXPECT_EQ(Print(result), "Mirrored:{0: [3], 1: [3]}");
  Value there = Text("CPU:1");
  ASSERT_OK(tutti_strategy_reduce_to(strategy, TUTTI_REDUCE_MEAN, value, there, nullptr, &result));
  EXPECT_EQ(Print(result), "[1.5]");
  ASSERT_OK(tutti_strategy_broadcast_to(strategy, ValueOf(Floats({5})), value, nullptr, &result));
  EXPECT_EQ(Print(result), "Mirrored:{0: [5], 1: [5]}");
  const tutti_value *both[] = {value, there};
  Value pair;
  ASSERT_OK(tutti_value_create_tuple(2, both, &pair));
  const tutti_value *one[] = {pair};
  Value pairs;
  ASSERT_OK(tutti_value_create_tuple(1, one, &pairs));
  ASSERT_OK(
      tutti_strategy_batch_reduce_to(strategy, TUTTI_REDUCE_SUM, pairs, nullptr, &result));
  EXPECT_EQ(Print(result), "([3],)");
  EXPECT_FAILS(
      tutti_strategy_batch_reduce_to(strategy, TUTTI_REDUCE_SUM, pair, nullptr, &result),
      TUTTI_INVALID_ARGUMENT, "pairs (value, destinations)");
  EXPECT_FAILS(tutti_strategy_reduce_to(strategy, TUTTI_REDUCE_SUM, value, nullptr, nullptr,
                                        &result),
               TUTTI_INVALID_ARGUMENT, "destinations");
}

TEST_F(ExtendedCTest, AVariableIsFoundByItsCopies) {
  Strategy strategy = MirroredOver(2);
  Variable variable = MakeVariable(strategy, TUTTI_AGGREGATION_SUM);
  Variable found;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_OK(tutti_strategy_find_variable(strategy, tutti_variable_get_copy(variable, i), &found));
    EXPECT_EQ(found, variable);
  }
  EXPECT_FAILS(tutti_strategy_find_variable(strategy, Floats({1}), &found), TUTTI_NOT_FOUND,
               "is no copy of a variable of strategy");
}

TEST_F(ExtendedCTest, AnUpdateIsOneOfEachCopy) {
  Strategy strategy = MirroredOver(2);
  Variable variable = MakeVariable(strategy, TUTTI_AGGREGATION_NONE);
  EXPECT_EQ(tutti_strategy_created_variable(strategy, variable), 1);
  EXPECT_OK(tutti_strategy_colocate_vars_with(strategy, variable));
  const tutti_fn update = [](tutti_context *context, const tutti_value *in, tutti_value **,
                             void *) -> tutti_status * {
    EXPECT_EQ(tutti_context_get_class(context), TUTTI_CALLBACK_UPDATE);
    Value nested;
    EXPECT_FAILS(tutti_strategy_run(
                     tutti_context_get_strategy(context),
                     [](tutti_context *, const tutti_value *, tutti_value **,
                        void *) -> tutti_status * { return nullptr; },
                     nullptr, nullptr, nullptr, &nested),
                 TUTTI_FAILED_PRECONDITION, "an update function");
    const auto id = static_cast<float>(tutti_context_get_update_replica_id(context));
    Tensor tensor = Floats({id + 10});
    return tutti_variable_assign(tutti_value_get_leaf_variable(in, 0), context, tensor, nullptr);
  };
  Value result;
  ASSERT_OK(tutti_strategy_update(strategy, variable, update, nullptr, nullptr, TUTTI_UNSET,
                                  nullptr, &result));
  EXPECT_THAT(FloatsIn(tutti_variable_get_copy(variable, 0)), ElementsAre(10));
  EXPECT_THAT(FloatsIn(tutti_variable_get_copy(variable, 1)), ElementsAre(11));
  const tutti_fn device = [](tutti_context *context, const tutti_value *, tutti_value **out,
                             void *) -> tutti_status * {
    const std::string name = tutti_context_get_device(context);
    return tutti_value_create_string({name.data(), name.size()}, out);
  };
  ASSERT_OK(tutti_strategy_update_non_slot(strategy, Text("CPU:1"), device, nullptr, nullptr,
                                           TUTTI_FALSE, nullptr, &result));
  EXPECT_EQ(Print(result), "(\"CPU:1\",)");
  EXPECT_FAILS(tutti_strategy_update(strategy, variable, update, nullptr, nullptr, 7, nullptr,
                                     &result),
               TUTTI_INVALID_ARGUMENT, "group");
  Strategy other = MirroredOver(2);
  EXPECT_EQ(tutti_strategy_created_variable(other, variable), 0);
  EXPECT_FAILS(tutti_strategy_colocate_vars_with(other, variable), TUTTI_INVALID_ARGUMENT,
               "belongs to strategy");
  EXPECT_FAILS(tutti_strategy_update(other, variable, update, nullptr, nullptr, TUTTI_UNSET,
                                     nullptr, &result),
               TUTTI_INVALID_ARGUMENT, "belongs to strategy");
  EXPECT_EQ(tutti_context_get_update_replica_id(nullptr), -1);
}

// What the last replica has; counts in the user data.
tutti_status *ReduceToLast(tutti_context *context, tutti_reduce_op, const tutti_value *value,
                           const tutti_value *destinations,
                           const tutti_communication_options *options, tutti_value **out,
                           void *user_data) {
  EXPECT_NE(destinations, nullptr);
  EXPECT_EQ(options->struct_size, sizeof(tutti_communication_options));
  EXPECT_EQ(tutti_context_get_class(context), TUTTI_CALLBACK_UPDATE);
  ++*static_cast<int *>(user_data);
  Value parts;
  tutti_status *status =
      tutti_strategy_local_results(tutti_context_get_strategy(context), value, &parts);
  if (status != nullptr) return status;
  return tutti_value_child(parts, tutti_value_get_child_count(parts) - 1, out);
}

TEST_F(ExtendedCTest, AProgramsReducerIsUsedByItsStrategy) {
  static int destroyed = 0;
  destroyed = 0;
  int calls = 0;
  tutti_reducer_functions functions = TUTTI_REDUCER_FUNCTIONS_INIT;
  functions.name = "Last";
  functions.user_data = &calls;
  functions.destroy = [](void *) { ++destroyed; };
  Reducer reducer;
  EXPECT_FAILS(tutti_reducer_create(nullptr, &functions, &reducer), TUTTI_INVALID_ARGUMENT,
               "reduce is NULL");
  EXPECT_EQ(destroyed, 1);
  functions.reduce = &ReduceToLast;
  ASSERT_OK(tutti_reducer_create(nullptr, &functions, &reducer));
  const char *devices[] = {"CPU:0", "CPU:1"};
  tutti_strategy_options options = TUTTI_STRATEGY_OPTIONS_INIT;
  options.reducer = reducer;
  Strategy strategy;
  ASSERT_OK(tutti_strategy_create_mirrored(nullptr, 2, devices, &options, nullptr, &strategy));
  Value value = PerReplica(strategy, {1, 5});
  Value result;
  ASSERT_OK(tutti_strategy_reduce(strategy, TUTTI_REDUCE_SUM, value, nullptr, nullptr, &result));
  EXPECT_EQ(Print(result), "[5]");
  ASSERT_OK(tutti_reducer_reduce(reducer, strategy, TUTTI_REDUCE_SUM, value, value, nullptr,
                                 &result));
  EXPECT_EQ(Print(result), "Mirrored:{0: [5], 1: [5]}");
  ASSERT_OK(tutti_reducer_broadcast(reducer, strategy, ValueOf(Floats({7})), value, nullptr,
                                    &result));
  EXPECT_EQ(Print(result), "Mirrored:{0: [7], 1: [7]}");
  const tutti_value *both[] = {value, value};
  Value pair;
  ASSERT_OK(tutti_value_create_tuple(2, both, &pair));
  const tutti_value *twice[] = {pair, pair};
  Value pairs;
  ASSERT_OK(tutti_value_create_tuple(2, twice, &pairs));
  ASSERT_OK(tutti_reducer_batch_reduce(reducer, strategy, TUTTI_REDUCE_MEAN, pairs, nullptr,
                                       &result));
  EXPECT_EQ(calls, 4);
  Bytes text;
  ASSERT_OK(tutti_strategy_explain(strategy, &text));
  EXPECT_THAT(std::string(tutti_bytes_get_view(text).data),
              testing::HasSubstr("reductions: Last, as given"));
  EXPECT_EQ(destroyed, 1);
}

// Waits until the test lets it go.
struct HeldReducer {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  int cancelled = 0;
  int entered = 0;
  int ended = 0;
};

tutti_status *ReduceWhenLet(tutti_context *context, tutti_reduce_op, const tutti_value *value,
                            const tutti_value *, const tutti_communication_options *,
                            tutti_value **out, void *user_data) {
  auto *held = static_cast<HeldReducer *>(user_data);
  std::unique_lock<std::mutex> lock(held->mutex);
  ++held->entered;
  held->changed.wait(lock, [held] { return held->open; });
  held->cancelled += tutti_context_is_cancelled(context);
  ++held->ended;
  held->changed.notify_all();
  *out = const_cast<tutti_value *>(tutti_value_get_leaf_component(value, 0, 0));
  tutti_value_retain(*out);
  return nullptr;
}

TEST_F(ExtendedCTest, AReducerThatDoesNotComeBackFreesItsCallerAtTheDeadline) {
  static HeldReducer held;  // a thread may come to it when the test has ended
  tutti_reducer_functions functions = TUTTI_REDUCER_FUNCTIONS_INIT;
  functions.name = "Held";
  functions.user_data = &held;
  functions.reduce = &ReduceWhenLet;
  Reducer reducer;
  ASSERT_OK(tutti_reducer_create(nullptr, &functions, &reducer));
  const char *devices[] = {"CPU:0", "CPU:1"};
  tutti_strategy_options options = TUTTI_STRATEGY_OPTIONS_INIT;
  options.reducer = reducer;
  Strategy strategy;
  ASSERT_OK(tutti_strategy_create_mirrored(nullptr, 2, devices, &options, nullptr, &strategy));
  {
    Value value = PerReplica(strategy, {1, 5});
    tutti_call_options call = TUTTI_CALL_OPTIONS_INIT;
    call.timeout = 20'000'000;
    Value result;
    EXPECT_FAILS(tutti_strategy_reduce(strategy, TUTTI_REDUCE_SUM, value, nullptr, &call, &result),
                 TUTTI_DEADLINE_EXCEEDED, "reduce: Held");
    EXPECT_FAILS(tutti_reducer_reduce(reducer, strategy, TUTTI_REDUCE_MAX, value, value, &call,
                                      &result),
                 TUTTI_DEADLINE_EXCEEDED, "reduce: Held");
    const auto step = [](tutti_context *context, const tutti_value *, tutti_value **out,
                         void *) -> tutti_status * {
      return tutti_context_all_reduce(context, TUTTI_REDUCE_MIN, ValueOf(Floats({2})), nullptr,
                                      out);
    };
    // Where the replicas have not met by the deadline, the message is about that.
    std::string message;
    while (message.find("all_reduce: Held") == std::string::npos &&
           call.timeout < 60'000'000'000) {
      tutti_status *status =
          tutti_strategy_run(strategy, step, nullptr, nullptr, &call, &result);
      EXPECT_EQ(tutti_status_get_code(status), TUTTI_DEADLINE_EXCEEDED);
      message = tutti_status_get_message(status);
      tutti_status_release(status);
      call.timeout *= 2;
    }
    EXPECT_THAT(message, testing::HasSubstr("all_reduce: Held"));
  }
  // What the ops were handed is theirs until they come back, whatever has ended meanwhile.
  strategy = Strategy();
  reducer = Reducer();
  std::unique_lock<std::mutex> lock(held.mutex);
  held.open = true;
  held.changed.notify_all();
  held.changed.wait(lock, [&] { return held.ended > 0 && held.ended == held.entered; });
  EXPECT_EQ(held.cancelled, held.ended);
}

TEST_F(ExtendedCTest, BadInputIsNamed) {
  Strategy strategy = MirroredOver(2);
  Strategy other = MirroredOver(3);
  Value value = PerReplica(strategy, {1, 5});
  Value three = PerReplica(other, {1, 2, 3});
  Value result;
  EXPECT_FAILS(tutti_strategy_reduce(strategy, TUTTI_REDUCE_SUM, three, nullptr, nullptr, &result),
               TUTTI_INVALID_ARGUMENT, "has 3 components, and the strategy has 2 replicas");
  EXPECT_FAILS(tutti_strategy_gather(strategy, value, 1, nullptr, &result), TUTTI_INVALID_ARGUMENT,
               "axis 1 is not in [0, 1)");
  Variable foreign = MakeVariable(other, TUTTI_AGGREGATION_SUM);
  EXPECT_FAILS(tutti_strategy_colocate_vars_with(strategy, foreign), TUTTI_INVALID_ARGUMENT,
               "belongs to strategy");
  const char *twice[] = {"CPU:0", "CPU:0"};
  EXPECT_FAILS(tutti_strategy_create_mirrored(nullptr, 2, twice, nullptr, nullptr, &other),
               TUTTI_INVALID_ARGUMENT, "name each device once");
  const char *absent[] = {"CPU:0", "GPU:77"};
  EXPECT_FAILS(tutti_strategy_create_mirrored(nullptr, 2, absent, nullptr, nullptr, &other),
               TUTTI_INVALID_ARGUMENT, "GPU:77");
  tutti_reducer_functions functions = TUTTI_REDUCER_FUNCTIONS_INIT;
  functions.name = "Wide";
  functions.reduce = [](tutti_context *, tutti_reduce_op, const tutti_value *, const tutti_value *,
                        const tutti_communication_options *, tutti_value **out,
                        void *) -> tutti_status * {
    return tutti_value_create_tensor(Floats({1, 2}), out);
  };
  Reducer reducer;
  ASSERT_OK(tutti_reducer_create(nullptr, &functions, &reducer));
  EXPECT_FAILS(tutti_reducer_reduce(reducer, strategy, TUTTI_REDUCE_SUM, value, value, nullptr,
                                    &result),
               TUTTI_INVALID_ARGUMENT, "Wide gave float32[2]; expected float32[1]");
}

TEST_F(ExtendedCTest, TheLibrarysReducers) {
  Reducer all_reduce, one_device, packs, nccl;
  ASSERT_OK(tutti_reducer_create_all_reduce(nullptr, &all_reduce));
  const tutti_fn first = [](tutti_context *, const tutti_value *in, tutti_value **out,
                            void *) -> tutti_status * { return tutti_value_child(in, 0, out); };
  ASSERT_OK(tutti_reducer_create_reduction_to_one_device(nullptr, "CPU:0",
                                                         {first, nullptr, nullptr}, &one_device));
  ASSERT_OK(tutti_reducer_create_hierarchical_copy_all_reduce(nullptr, 0, &packs));
  ASSERT_OK(tutti_reducer_create_nccl_all_reduce(nullptr, 1, &nccl));
  Reducer none;
  EXPECT_FAILS(tutti_reducer_create_nccl_all_reduce(nullptr, -1, &none), TUTTI_INVALID_ARGUMENT,
               "num_packs is -1");
  EXPECT_FAILS(tutti_reducer_create_reduction_to_one_device(
                   nullptr, "CPU:5000", {nullptr, nullptr, nullptr}, &none),
               TUTTI_NOT_FOUND, "CPU:5000");
  Bytes text;
  ASSERT_OK(tutti_reducer_to_string(one_device, &text));
  EXPECT_STREQ(tutti_bytes_get_view(text).data,
               "ReductionToOneDevice(reduce_to_device=CPU:0, accumulation_fn)");
  Strategy strategy = MirroredOver(2);
  Value value = PerReplica(strategy, {1, 5});
  for (const auto &[reducer, sum] :
       std::vector<std::pair<tutti_reducer *, std::string>>{
           {all_reduce, "[6]"}, {one_device, "[1]"}, {packs, "[6]"}, {nccl, "[6]"}}) {
    Value result;
    ASSERT_OK(tutti_reducer_reduce(reducer, strategy, TUTTI_REDUCE_SUM, value, Text("CPU:0"),
                                   nullptr, &result));
    EXPECT_EQ(Print(result), sum);
  }
}

TEST_F(ExtendedCTest, CentralStorageHasOneCopy) {
  const char *devices[] = {"CPU:0", "CPU:1"};
  Strategy strategy;
  ASSERT_OK(tutti_strategy_create_central_storage(nullptr, 2, devices, "CPU:2", nullptr, nullptr,
                                                  &strategy));
  EXPECT_STREQ(tutti_strategy_get_parameter_device(strategy, 0),
               "/job:localhost/replica:0/task:0/device:CPU:2");
  Variable variable = MakeVariable(strategy, TUTTI_AGGREGATION_SUM);
  EXPECT_EQ(tutti_variable_get_copy_count(variable), 1u);
  const tutti_fn add = [](tutti_context *context, const tutti_value *, tutti_value **,
                          void *variable) -> tutti_status * {
    Tensor tensor = Floats({static_cast<float>(tutti_context_get_replica_id(context) + 1)});
    return tutti_variable_assign_add(static_cast<tutti_variable *>(variable), context, tensor,
                                     nullptr);
  };
  Value result;
  ASSERT_OK(tutti_strategy_run(strategy, add, variable, nullptr, nullptr, &result));
  EXPECT_THAT(FloatsIn(tutti_variable_get_copy(variable, 0)), ElementsAre(4));
  EXPECT_FAILS(tutti_strategy_create_central_storage(nullptr, 0, nullptr, "CPU:5000", nullptr,
                                                     nullptr, &strategy),
               TUTTI_INVALID_ARGUMENT, "CPU:5000");
}

}  // namespace
}  // namespace tutti::capi_test
