// Callbacks: what each class of them may call, and that `destroy` runs exactly once.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

// A callback's user_data that counts how often it was destroyed.
struct Counted {
  std::atomic<int> destroyed{0};
  static void Destroy(void *self) { static_cast<Counted *>(self)->destroyed.fetch_add(1); }
};

tutti_status *Identity(tutti_context *, const tutti_value *in, tutti_value **out, void *) {
  tutti_value_retain(in);
  *out = const_cast<tutti_value *>(in);
  return nullptr;
}

tutti_status *GiveNone(tutti_context *, const tutti_value *, tutti_value **out, void *) {
  return tutti_value_create_none(out);
}

class DestroyTest : public CInterfaceTest {
 protected:
  tutti_callback Callback(tutti_fn fn) { return {fn, &counted_, &Counted::Destroy}; }
  // Shutdown runs what is outstanding.
  int DestroyedAfterShutdown() {
    EXPECT_OK(tutti_runtime_shutdown(nullptr, nullptr));
    return counted_.destroyed.load();
  }
  Counted counted_;
};

TEST_F(DestroyTest, RunsOnceWhenTheFunctionIsReleased) {
  Function function;
  ASSERT_OK(tutti_function_create(nullptr, Callback(Identity), nullptr, &function));
  function = Function();
  EXPECT_EQ(DestroyedAfterShutdown(), 1);
}

TEST_F(DestroyTest, RunsOnceWhenADatasetThatHoldsTheFunctionIsReleased) {
  {
    Function function;
    ASSERT_OK(tutti_function_create(nullptr, Callback(Identity), nullptr, &function));
    Dataset dataset = RangeOf(3);
    ASSERT_OK(tutti_dataset_map(&dataset, function, nullptr));
    function = Function();
    Iterator iterator;
    ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
    Value value;
    ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
    EXPECT_EQ(counted_.destroyed.load(), 0);
  }
  EXPECT_EQ(DestroyedAfterShutdown(), 1);
}

TEST_F(DestroyTest, RunsOnceWhenMakingAFunctionFails) {
  Function function;
  EXPECT_FAILS(tutti_function_create(nullptr, Callback(nullptr), nullptr, &function),
               TUTTI_INVALID_ARGUMENT, "tutti_function_create: the argument callback is NULL");
  EXPECT_EQ(static_cast<tutti_function *>(function), nullptr);
  EXPECT_EQ(DestroyedAfterShutdown(), 1);
}

TEST_F(DestroyTest, RunsOnceWhenTheOptionsAreWrong) {
  Function function;
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  options.slab = 9;
  EXPECT_FAILS(tutti_function_create(nullptr, Callback(Identity), &options, &function),
               TUTTI_INVALID_ARGUMENT, "slab is 9");
  EXPECT_EQ(DestroyedAfterShutdown(), 1);
}

TEST_F(DestroyTest, RunsOnceWhenTheNameIsTaken) {
  ASSERT_OK(tutti_function_register(nullptr, "twice", {Identity, nullptr, nullptr}, nullptr));
  EXPECT_FAILS(tutti_function_register(nullptr, "twice", Callback(Identity), nullptr),
               TUTTI_ALREADY_EXISTS, "twice");
  EXPECT_EQ(DestroyedAfterShutdown(), 1);
}

TEST_F(DestroyTest, RunsOnceForBothFunctionsOfAGeneratorThatCannotBeMade) {
  Dataset dataset;
  EXPECT_FAILS(tutti_dataset_create_from_generator(nullptr, Callback(Identity), Callback(Identity),
                                                   nullptr, nullptr, &dataset),
               TUTTI_INVALID_ARGUMENT, "the argument spec is NULL");
  EXPECT_EQ(DestroyedAfterShutdown(), 2);
}

TEST_F(DestroyTest, RunsOnceForMemoryThatCannotBeWrapped) {
  char memory[4];
  const int64_t dims[] = {100};
  Tensor tensor;
  EXPECT_FAILS(tutti_tensor_wrap(nullptr, memory, sizeof(memory), TUTTI_DTYPE_FLOAT32, 1, dims,
                                 {&Counted::Destroy, &counted_}, nullptr, &tensor),
               TUTTI_INVALID_ARGUMENT, "");
  EXPECT_EQ(DestroyedAfterShutdown(), 1);
}

TEST_F(DestroyTest, RunsOnceForWrappedMemoryWhenItsLastViewIsGone) {
  float memory[4] = {1, 2, 3, 4};
  const int64_t dims[] = {4};
  Tensor tensor, view;
  ASSERT_OK(tutti_tensor_wrap(nullptr, memory, sizeof(memory), TUTTI_DTYPE_FLOAT32, 1, dims,
                              {&Counted::Destroy, &counted_}, nullptr, &tensor));
  EXPECT_EQ(tutti_tensor_get_data(tensor), memory);
  ASSERT_OK(tutti_tensor_slice(tensor, 0, 1, 3, &view));
  tensor = Tensor();
  EXPECT_EQ(counted_.destroyed.load(), 0);
  EXPECT_EQ(tutti_tensor_get_data(view), memory + 1);
  view = Tensor();
  EXPECT_EQ(DestroyedAfterShutdown(), 1);
}

TEST_F(DestroyTest, RunsOnceForANotificationThatIsRefusedAndForOneThatIsNeverDue) {
  Future future;
  ASSERT_OK(tutti_future_create(nullptr, &future));
  EXPECT_FAILS(tutti_future_on_ready(future, {nullptr, &counted_, &Counted::Destroy}),
               TUTTI_INVALID_ARGUMENT, "NULL");
  ASSERT_OK(tutti_future_on_ready(future, {[](void *) {}, &counted_, &Counted::Destroy}));
  future = Future();
  EXPECT_EQ(DestroyedAfterShutdown(), 2);
}

TEST_F(DestroyTest, RunsOnTheReleasingThreadAfterShutdown) {
  Function function;
  ASSERT_OK(tutti_function_create(nullptr, Callback(Identity), nullptr, &function));
  ASSERT_OK(tutti_runtime_shutdown(nullptr, nullptr));
  EXPECT_EQ(counted_.destroyed.load(), 0);
  function = Function();
  EXPECT_EQ(counted_.destroyed.load(), 1);
}

// ---- what each class may call ----

using ClassTest = CInterfaceTest;

// Maps with `fn`, whose user_data is `user_data`, and gives what reading one element answers.
Answer FirstOfMap(tutti_fn fn, void *user_data) {
  Function function;
  if (tutti_status *status =
          tutti_function_create(nullptr, {fn, user_data, nullptr}, nullptr, &function)) {
    return status;
  }
  Dataset dataset = RangeOf(1);
  if (tutti_status *status = tutti_dataset_map(&dataset, function, nullptr)) return status;
  Iterator iterator;
  if (tutti_status *status = tutti_iterator_create(dataset, nullptr, nullptr, &iterator)) {
    return status;
  }
  Value value;
  return tutti_iterator_next(iterator, nullptr, &value);
}

TEST_F(ClassTest, ADatasetCallbackMayNotIterate) {
  Dataset dataset = RangeOf(3);
  Iterator other;
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &other));
  const auto iterate = [](tutti_context *context, const tutti_value *, tutti_value **out,
                          void *iterator) -> tutti_status * {
    EXPECT_EQ(tutti_context_get_class(context), TUTTI_CALLBACK_DATASET);
    EXPECT_EQ(tutti_context_get_replica_id(context), -1);
    return tutti_iterator_next(static_cast<tutti_iterator *>(iterator), nullptr, out);
  };
  EXPECT_THAT(FirstOfMap(iterate, other),
              FailsWith(TUTTI_FAILED_PRECONDITION, "tutti_iterator_next"));
}

TEST_F(ClassTest, ADatasetCallbackMayBuildDatasetsAndValues) {
  const auto build = [](tutti_context *context, const tutti_value *, tutti_value **out,
                        void *) -> tutti_status * {
    tutti_dataset *inner = nullptr;
    tutti_status *status =
        tutti_dataset_create_range(tutti_context_get_runtime(context), 0, 3, 1, nullptr, &inner);
    if (status == nullptr) status = tutti_dataset_batch(&inner, 2, nullptr);
    tutti_dataset_release(inner);
    return status != nullptr ? status : tutti_value_create_int64(7, out);
  };
  EXPECT_THAT(FirstOfMap(build, nullptr), Succeeds());
}

TEST_F(ClassTest, ANotificationMayReadAResultButNotBuildOrWait) {
  struct Answers {
    tutti_code building = TUTTI_OK, waiting = TUTTI_OK, reading = TUTTI_UNKNOWN;
    tutti_future *future;
  } answers;
  Future future;
  ASSERT_OK(tutti_future_create(nullptr, &future));
  answers.future = future;
  const auto notify = [](void *user_data) {
    auto *answers = static_cast<Answers *>(user_data);
    tutti_value *value = nullptr;
    answers->building = Answer(tutti_value_create_int64(1, &value)).code();
    answers->waiting = Answer(tutti_future_wait(answers->future, nullptr)).code();
    value = nullptr;
    answers->reading = Answer(tutti_future_result(answers->future, &value)).code();
    tutti_value_release(value);
  };
  ASSERT_OK(tutti_future_on_ready(future, {notify, &answers, nullptr}));
  ASSERT_OK(tutti_future_complete(future, nullptr, nullptr));
  ASSERT_OK(tutti_runtime_shutdown(nullptr, nullptr));
  EXPECT_EQ(answers.building, TUTTI_FAILED_PRECONDITION);
  EXPECT_EQ(answers.waiting, TUTTI_FAILED_PRECONDITION);
  EXPECT_EQ(answers.reading, TUTTI_OK);
}

TEST_F(ClassTest, AReplicaCallbackMayNotRunOrShutDown) {
  Strategy strategy = MirroredOver(2);
  const auto run_again = [](tutti_context *context, const tutti_value *, tutti_value **out,
                            void *) -> tutti_status * {
    EXPECT_EQ(tutti_context_get_class(context), TUTTI_CALLBACK_REPLICA);
    EXPECT_FAILS(tutti_runtime_shutdown(nullptr, nullptr), TUTTI_FAILED_PRECONDITION,
                 "tutti_runtime_shutdown");
    return tutti_strategy_run(tutti_context_get_strategy(context), GiveNone, nullptr, nullptr,
                              nullptr, out);
  };
  Value value;
  EXPECT_FAILS(tutti_strategy_run(strategy, run_again, nullptr, nullptr, nullptr, &value),
               TUTTI_FAILED_PRECONDITION, "tutti_strategy_run");
}

TEST_F(ClassTest, ReplicaFunctionsAreRefusedOutsideOfReplicas) {
  Value value, out;
  ASSERT_OK(tutti_value_create_int64(1, &value));
  EXPECT_FAILS(tutti_context_all_reduce(nullptr, TUTTI_REDUCE_SUM, value, nullptr, &out),
               TUTTI_FAILED_PRECONDITION, "tutti_context_all_reduce");
  Strategy strategy = MirroredOver(2);
  const auto in_merge = [](tutti_context *context, const tutti_value *args, tutti_value **out,
                           void *) -> tutti_status * {
    EXPECT_EQ(tutti_context_get_class(context), TUTTI_CALLBACK_CROSS_REPLICA);
    EXPECT_FAILS(tutti_context_all_reduce(context, TUTTI_REDUCE_SUM, args, nullptr, out),
                 TUTTI_FAILED_PRECONDITION, "tutti_context_all_reduce");
    return Identity(context, args, out, nullptr);
  };
  struct Merge {
    tutti_fn fn;
  } merge{in_merge};
  const auto replica = [](tutti_context *context, const tutti_value *in, tutti_value **out,
                          void *user_data) -> tutti_status * {
    return tutti_context_merge_call(context, static_cast<Merge *>(user_data)->fn, nullptr, in,
                                    nullptr, out);
  };
  EXPECT_OK(tutti_strategy_run(strategy, replica, &merge, value, nullptr, &out));
  EXPECT_EQ(NumberIn(out), 1);
}

// ---- runs ----

// Lets a replica callback wait until the test has done something.
class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;  // guards open_
  std::condition_variable changed_;
  bool open_ = false;
};

TEST_F(ClassTest, ASecondRunWhileOneIsRunningIsRefused) {
  struct Gates {
    Gate started, finish;
  } gates;
  Strategy strategy = MirroredOver(2);
  const auto wait = [](tutti_context *context, const tutti_value *, tutti_value **out,
                       void *user_data) -> tutti_status * {
    auto *gates = static_cast<Gates *>(user_data);
    if (tutti_context_get_replica_id(context) == 0) gates->started.Open();
    gates->finish.Wait();
    return tutti_value_create_none(out);
  };
  std::thread first([&] {
    Value value;
    EXPECT_OK(tutti_strategy_run(strategy, wait, &gates, nullptr, nullptr, &value));
  });
  gates.started.Wait();
  Value value;
  EXPECT_FAILS(tutti_strategy_run(strategy, GiveNone, nullptr, nullptr, nullptr, &value),
               TUTTI_FAILED_PRECONDITION, "run");
  gates.finish.Open();
  first.join();
  EXPECT_OK(tutti_strategy_run(strategy, GiveNone, nullptr, nullptr, nullptr, &value));
  Value again;
  tutti_run_options options = TUTTI_RUN_OPTIONS_INIT;
  options.bucketizing_dynamic_shape = TUTTI_TRUE;
  EXPECT_OK(tutti_strategy_run_with_options(strategy, GiveNone, nullptr, nullptr, &options, nullptr,
                                            &again));
  EXPECT_OK(tutti_strategy_run_with_options(strategy, GiveNone, nullptr, nullptr, nullptr, nullptr,
                                            &again));
  options.enable_dynamic_batch_size = 7;
  EXPECT_FAILS(tutti_strategy_run_with_options(strategy, GiveNone, nullptr, nullptr, &options,
                                               nullptr, &again),
               TUTTI_INVALID_ARGUMENT, "enable_dynamic_batch_size");
}

TEST_F(ClassTest, ARunReturnsOnlyWhenNoCallbackIsRunningAlsoWhenCancelled) {
  struct State {
    Cancellation cancellation;
    std::atomic<int> running{0};
  } state;
  ASSERT_OK(tutti_cancellation_create(&state.cancellation));
  Strategy strategy = MirroredOver(3);
  const auto until_cancelled = [](tutti_context *context, const tutti_value *in, tutti_value **out,
                                  void *user_data) -> tutti_status * {
    auto *state = static_cast<State *>(user_data);
    state->running.fetch_add(1);
    if (tutti_context_get_replica_id(context) == 1) {
      tutti_cancellation_cancel(state->cancellation, "enough");
      while (!tutti_context_is_cancelled(context)) std::this_thread::yield();
    }
    tutti_status *status = tutti_context_all_reduce(context, TUTTI_REDUCE_SUM, in, nullptr, out);
    state->running.fetch_sub(1);
    return status;
  };
  tutti_call_options call = TUTTI_CALL_OPTIONS_INIT;
  call.cancellation = state.cancellation;
  Value one, value;
  ASSERT_OK(tutti_value_create_int64(1, &one));
  EXPECT_FAILS(tutti_strategy_run(strategy, until_cancelled, &state, one, &call, &value),
               TUTTI_CANCELLED, "enough");
  EXPECT_EQ(state.running.load(), 0);
}

TEST_F(ClassTest, AnErrorOfACallbackComesBackAsItselfWithItsHostObject) {
  static const char tag = 0;
  static int thrown = 0;
  Strategy strategy = MirroredOver(2);
  const auto fail = [](tutti_context *context, const tutti_value *, tutti_value **out,
                       void *) -> tutti_status * {
    if (tutti_context_get_replica_id(context) == 0) return tutti_value_create_none(out);
    return tutti_status_create_with_host_object(TUTTI_DATA_LOSS, "mine", &tag, &thrown, nullptr);
  };
  tutti_value *value = nullptr;
  tutti_status *status = tutti_strategy_run(strategy, fail, nullptr, nullptr, nullptr, &value);
  EXPECT_EQ(tutti_status_get_code(status), TUTTI_DATA_LOSS);
  EXPECT_EQ(tutti_status_get_host_object(status, &tag), &thrown);
  EXPECT_EQ(value, nullptr);
  int64_t replica = -1;
  for (size_t i = 0; i < tutti_status_get_detail_count(status); ++i) {
    tutti_detail detail = TUTTI_DETAIL_INIT;
    ASSERT_OK(tutti_status_get_detail(status, i, &detail));
    if (std::string(detail.key) == "replica") replica = detail.int64_value;
  }
  EXPECT_EQ(replica, 1);
  tutti_status_release(status);
}

}  // namespace
}  // namespace tutti::capi_test
