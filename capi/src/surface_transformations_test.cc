// What is done with the elements of datasets through the C interface: that arguments arrive where
// they should and results come back.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using SurfaceTest = CInterfaceTest;

// Which comes back when four calls are inside, or a minute has passed.
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  int most = 0;

  bool Meet() {
    std::unique_lock lock(mutex);
    most = std::max(most, ++inside);
    changed.notify_all();
    const bool met =
        changed.wait_for(lock, std::chrono::minutes(1), [this] { return most >= 4; });
    --inside;
    return met;
  }
};

TEST_F(SurfaceTest, AParallelMapCallsForSeveralElementsAtOnce) {
  Meeting meeting;
  const auto meet = [](tutti_context *, const tutti_value *in, tutti_value **out,
                       void *user_data) -> tutti_status * {
    if (!static_cast<Meeting *>(user_data)->Meet()) {
      return tutti_status_create(TUTTI_ABORTED, "no four calls at once");
    }
    return tutti_value_create_int64(10 * NumberIn(in), out);
  };
  Function function;
  ASSERT_OK(tutti_function_create(nullptr, {meet, &meeting, nullptr}, nullptr, &function));
  Dataset dataset = RangeOf(8);
  tutti_map_options options = TUTTI_MAP_OPTIONS_INIT;
  options.num_parallel_calls = 4;
  ASSERT_OK(tutti_dataset_map(&dataset, function, &options));
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  for (int64_t i = 0; i < 8; ++i) {
    Value value;
    ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
    EXPECT_EQ(NumberIn(value), 10 * i);
  }
  EXPECT_EQ(meeting.most, 4);
  ASSERT_OK(tutti_iterator_close(iterator, nullptr));
}

TEST_F(SurfaceTest, AStateIsReducedElementByElement) {
  // (state, element) -> state + element; fails for elements from 4 on.
  const auto add = [](tutti_context *, const tutti_value *in, tutti_value **out,
                      void *) -> tutti_status * {
    Value state, element;
    if (tutti_status *status = tutti_value_child(in, 0, &state)) return status;
    if (tutti_status *status = tutti_value_child(in, 1, &element)) return status;
    if (NumberIn(element) >= 4) return tutti_status_create(TUTTI_NOT_FOUND, "too far");
    return tutti_value_create_int64(NumberIn(state) + NumberIn(element), out);
  };
  const auto halve = [](tutti_context *, const tutti_value *, tutti_value **out,
                        void *) -> tutti_status * { return tutti_value_create_float64(0.5, out); };
  const auto keep = [](tutti_context *, const tutti_value *in, tutti_value **out,
                       void *) -> tutti_status * { return tutti_value_child(in, 0, out); };
  Function adding, halving, keeping;
  ASSERT_OK(tutti_function_create(nullptr, {add, nullptr, nullptr}, nullptr, &adding));
  ASSERT_OK(tutti_function_create(nullptr, {halve, nullptr, nullptr}, nullptr, &halving));
  ASSERT_OK(tutti_function_create(nullptr, {keep, nullptr, nullptr}, nullptr, &keeping));
  Dataset four = RangeOf(4), five = RangeOf(5), none = RangeOf(0), endless = RangeOf(3);
  ASSERT_OK(tutti_dataset_repeat(&endless, -1, nullptr));
  Value initial, state;
  ASSERT_OK(tutti_value_create_int64(10, &initial));
  ASSERT_OK(tutti_dataset_reduce(four, initial, adding, nullptr, &state));
  EXPECT_EQ(NumberIn(state), 16);
  ASSERT_OK(tutti_dataset_reduce(none, initial, adding, nullptr, &state));
  EXPECT_EQ(NumberIn(state), 10);
  EXPECT_FAILS(tutti_dataset_reduce(five, initial, adding, nullptr, &state), TUTTI_NOT_FOUND,
               "reduce: element 4: too far");
  EXPECT_FAILS(tutti_dataset_reduce(four, initial, halving, nullptr, &state),
               TUTTI_INVALID_ARGUMENT, "the state float64[], and it was int64[]");
  EXPECT_FAILS(tutti_dataset_reduce(four, nullptr, adding, nullptr, &state),
               TUTTI_INVALID_ARGUMENT, "initial_state");
  tutti_call_options soon = TUTTI_CALL_OPTIONS_INIT;
  soon.timeout = 10'000'000;
  EXPECT_FAILS(tutti_dataset_reduce(endless, initial, keeping, &soon, &state),
               TUTTI_DEADLINE_EXCEEDED, "");
  Cancellation cancellation;
  ASSERT_OK(tutti_cancellation_create(&cancellation));
  tutti_cancellation_cancel(cancellation, nullptr);
  tutti_call_options cancelled = TUTTI_CALL_OPTIONS_INIT;
  cancelled.cancellation = cancellation;
  EXPECT_FAILS(tutti_dataset_reduce(endless, initial, keeping, &cancelled, &state),
               TUTTI_CANCELLED, "");
}

TEST_F(SurfaceTest, PaddedBatchesHaveTheirShapesAndValues) {
  // 1, 2, ... as vectors of so many zeros.
  const auto zeros = [](tutti_context *, const tutti_value *in, tutti_value **out,
                        void *) -> tutti_status * {
    const int64_t dims[] = {NumberIn(in)};
    Tensor made;
    if (tutti_status *status =
            tutti_tensor_create(nullptr, TUTTI_DTYPE_INT64, 1, dims, nullptr, &made)) {
      return status;
    }
    return tutti_value_create_tensor(made, out);
  };
  const int64_t any[] = {TUTTI_UNKNOWN_DIMENSION}, sizes[] = {3}, one[] = {1};
  Spec vector;
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_INT64, 1, any, &vector));
  tutti_function_options of_vectors = TUTTI_FUNCTION_OPTIONS_INIT;
  of_vectors.output_spec = vector;
  Function function;
  ASSERT_OK(tutti_function_create(nullptr, {zeros, nullptr, nullptr}, &of_vectors, &function));
  Dataset rows;
  ASSERT_OK(tutti_dataset_create_range(nullptr, 1, 4, 1, nullptr, &rows));
  ASSERT_OK(tutti_dataset_map(&rows, function, nullptr));
  const auto text = [](tutti_dataset *dataset) {
    std::string all;
    Iterator iterator;
    EXPECT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
    for (;;) {
      Value value;
      EXPECT_OK(tutti_iterator_next(iterator, nullptr, &value));
      if (!value) break;
      Bytes written;
      EXPECT_OK(tutti_value_to_string(value, &written));
      all += tutti_bytes_get_view(written).data;
    }
    EXPECT_OK(tutti_iterator_close(iterator, nullptr));
    return all;
  };
  const auto again = [&] {
    tutti_dataset_retain(rows);
    return static_cast<tutti_dataset *>(rows);
  };
  Tensor shape;
  ASSERT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, 1, one, sizes, sizeof sizes,
                                          &shape));
  Value shapes, value, other;
  ASSERT_OK(tutti_value_create_tensor(shape, &shapes));
  ASSERT_OK(tutti_value_create_int64(-1, &value));
  ASSERT_OK(tutti_value_create_none(&other));
  tutti_dataset *made = again();
  ASSERT_OK(tutti_dataset_padded_batch(&made, 2, nullptr));
  EXPECT_EQ(text(made), "[[0 0] [0 0]][[0 0 0]]");
  tutti_dataset_release(made);
  tutti_padded_batch_options options = TUTTI_PADDED_BATCH_OPTIONS_INIT;
  options.padded_shapes = shapes;
  options.padding_values = value;
  options.drop_remainder = TUTTI_TRUE;
  made = again();
  ASSERT_OK(tutti_dataset_padded_batch(&made, 2, &options));
  EXPECT_EQ(text(made), "[[0 -1 -1] [0 0 -1]]");
  tutti_dataset_release(made);
  options.padding_values = other;
  made = again();
  ASSERT_OK(tutti_dataset_padded_batch(&made, 2, &options));
  EXPECT_EQ(text(made), "[[0 0 0] [0 0 0]]");
  tutti_dataset_release(made);
  options.padding_values = shapes;
  made = again();
  EXPECT_FAILS(tutti_dataset_padded_batch(&made, 2, &options), TUTTI_INVALID_ARGUMENT,
               "padding_values must be a scalar");
  tutti_dataset_release(made);
}

TEST_F(SurfaceTest, ASnapshotIsWrittenOnceAndReadFromThenOn) {
  const std::string path = testing::TempDir() + "tutti_snapshot" + std::to_string(getpid());
  std::filesystem::remove_all(path);
  const auto numbers = [](tutti_dataset *dataset) {
    std::vector<int64_t> all;
    Iterator iterator;
    EXPECT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
    for (;;) {
      Value value;
      EXPECT_OK(tutti_iterator_next(iterator, nullptr, &value));
      if (!value) break;
      all.push_back(NumberIn(value));
    }
    EXPECT_OK(tutti_iterator_close(iterator, nullptr));
    return all;
  };
  // As often as it makes an element, one more.
  std::atomic<int64_t> calls{0};
  const auto plus_calls = [](tutti_context *, const tutti_value *in, tutti_value **out,
                             void *data) -> tutti_status * {
    const int64_t earlier = static_cast<std::atomic<int64_t> *>(data)->fetch_add(1);
    return tutti_value_create_int64(NumberIn(in) + 10 * earlier, out);
  };
  const auto parity = [](tutti_context *, const tutti_value *in, tutti_value **out,
                         void *) -> tutti_status * {
    return tutti_value_create_int64(NumberIn(in) % 2, out);
  };
  const auto itself = [](tutti_context *, const tutti_value *in, tutti_value **out,
                         void *) -> tutti_status * {
    tutti_value_retain(in);
    *out = const_cast<tutti_value *>(in);
    return nullptr;
  };
  const auto flat = [](tutti_context *, const tutti_value *in, tutti_value **out,
                       void *) -> tutti_status * {
    const tutti_dataset *shards = tutti_value_get_leaf_dataset(in, 0);
    tutti_dataset_retain(shards);
    auto *made = const_cast<tutti_dataset *>(shards);
    Function each;
    tutti_status *status = tutti_function_create_registered(nullptr, "snapshot.itself", &each);
    if (!status) status = tutti_dataset_flat_map(&made, each, nullptr);
    if (!status) status = tutti_value_create_dataset(made, out);
    tutti_dataset_release(made);
    return status;
  };
  ASSERT_OK(tutti_function_register(nullptr, "snapshot.itself", {itself, nullptr, nullptr},
                                    nullptr));
  ASSERT_OK(tutti_function_register(nullptr, "snapshot.parity", {parity, nullptr, nullptr},
                                    nullptr));
  Function unknown, known, sharder, reader;
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  options.name = "plus_calls";
  ASSERT_OK(tutti_function_create(nullptr, {plus_calls, &calls, nullptr}, &options, &unknown));
  options.fingerprint = "plus calls, version 1";
  ASSERT_OK(tutti_function_create(nullptr, {plus_calls, &calls, nullptr}, &options, &known));
  ASSERT_OK(tutti_function_create_registered(nullptr, "snapshot.parity", &sharder));
  ASSERT_OK(tutti_function_create(nullptr, {flat, nullptr, nullptr}, nullptr, &reader));

  Dataset refused = RangeOf(3);
  ASSERT_OK(tutti_dataset_map(&refused, unknown, nullptr));
  EXPECT_FAILS(tutti_dataset_snapshot(&refused, path.c_str(), nullptr), TUTTI_INVALID_ARGUMENT,
               "of the function \"plus_calls\" in map nobody can tell that; register it");
  Dataset kept = RangeOf(3), again = RangeOf(3);
  ASSERT_OK(tutti_dataset_map(&kept, known, nullptr));
  ASSERT_OK(tutti_dataset_snapshot(&kept, path.c_str(), nullptr));
  EXPECT_EQ(tutti_dataset_get_cardinality(kept), 3);
  EXPECT_EQ(numbers(kept), (std::vector<int64_t>{0, 11, 22}));
  ASSERT_OK(tutti_dataset_map(&again, known, nullptr));
  ASSERT_OK(tutti_dataset_snapshot(&again, path.c_str(), nullptr));
  EXPECT_EQ(numbers(again), (std::vector<int64_t>{0, 11, 22}));
  EXPECT_EQ(calls, 3);

  tutti_snapshot_options how = TUTTI_SNAPSHOT_OPTIONS_INIT;
  how.compression = "GZIP";
  how.shard_func = sharder;
  how.reader_func = reader;
  Dataset shards = RangeOf(5), wrong = RangeOf(5);
  ASSERT_OK(tutti_dataset_snapshot(&shards, path.c_str(), &how));
  EXPECT_EQ(numbers(shards), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(numbers(shards), (std::vector<int64_t>{0, 2, 4, 1, 3}));
  how.compression = "LZ4";
  EXPECT_FAILS(tutti_dataset_snapshot(&wrong, path.c_str(), &how), TUTTI_INVALID_ARGUMENT,
               "compression must be AUTO, GZIP, SNAPPY or none (NONE), got \"LZ4\"");
  EXPECT_FAILS(tutti_dataset_snapshot(&wrong, nullptr, nullptr), TUTTI_INVALID_ARGUMENT, "path");
  for (const char *name : {"snapshot.itself", "snapshot.parity"}) {
    ASSERT_OK(tutti_function_unregister(nullptr, name));
  }
  std::filesystem::remove_all(path);
}

TEST_F(SurfaceTest, DatasetsOfAFunctionComeInTheirOrder) {
  const auto give = [](tutti_context *, const tutti_value *in, tutti_value **out,
                       void *) -> tutti_status * {
    const int64_t first = 10 * NumberIn(in);
    Dataset made;
    if (tutti_status *status =
            tutti_dataset_create_range(nullptr, first, first + 3, 1, nullptr, &made)) {
      return status;
    }
    return tutti_value_create_dataset(made, out);
  };
  const auto negate = [](tutti_context *, const tutti_value *in, tutti_value **out,
                         void *) -> tutti_status * {
    return tutti_value_create_int64(-NumberIn(in), out);
  };
  Function function, number;
  ASSERT_OK(tutti_function_create(nullptr, {give, nullptr, nullptr}, nullptr, &function));
  ASSERT_OK(tutti_function_create(nullptr, {negate, nullptr, nullptr}, nullptr, &number));
  tutti_interleave_options options = TUTTI_INTERLEAVE_OPTIONS_INIT;
  options.cycle_length = {1, 2};
  options.block_length = 2;
  Dataset flat = RangeOf(3), turns = RangeOf(3), ahead = RangeOf(3), wrong = RangeOf(3);
  ASSERT_OK(tutti_dataset_flat_map(&flat, function, nullptr));
  ASSERT_OK(tutti_dataset_interleave(&turns, function, &options));
  options.num_parallel_calls = 2;
  ASSERT_OK(tutti_dataset_interleave(&ahead, function, &options));
  const auto numbers = [](tutti_dataset *dataset) {
    std::vector<int64_t> all;
    Iterator iterator;
    EXPECT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
    for (;;) {
      Value value;
      EXPECT_OK(tutti_iterator_next(iterator, nullptr, &value));
      if (!value) break;
      all.push_back(NumberIn(value));
    }
    EXPECT_OK(tutti_iterator_close(iterator, nullptr));
    return all;
  };
  EXPECT_EQ(numbers(flat), (std::vector<int64_t>{0, 1, 2, 10, 11, 12, 20, 21, 22}));
  Dataset otherwise = RangeOf(3);
  ASSERT_OK(tutti_dataset_interleave(&otherwise, function, nullptr));
  EXPECT_EQ(numbers(otherwise), (std::vector<int64_t>{0, 10, 20, 1, 11, 21, 2, 12, 22}));
  const std::vector<int64_t> in_turn = {0, 1, 10, 11, 2, 12, 20, 21, 22};
  EXPECT_EQ(numbers(turns), in_turn);
  EXPECT_EQ(numbers(ahead), in_turn);
  options.num_parallel_calls = 3;
  EXPECT_FAILS(tutti_dataset_interleave(&wrong, function, &options), TUTTI_INVALID_ARGUMENT,
               "num_parallel_calls must not be more than cycle_length, got 3 and 2");
  ASSERT_OK(tutti_dataset_flat_map(&wrong, number, nullptr));
  Iterator iterator;
  Value value;
  ASSERT_OK(tutti_iterator_create(wrong, nullptr, nullptr, &iterator));
  EXPECT_FAILS(tutti_iterator_next(iterator, nullptr, &value), TUTTI_INVALID_ARGUMENT, "dataset");
  ASSERT_OK(tutti_iterator_close(iterator, nullptr));
}

TEST_F(SurfaceTest, WindowsOfOneKeyAreGivenToAFunction) {
  const auto mod = [](tutti_context *, const tutti_value *in, tutti_value **out,
                      void *) -> tutti_status * {
    return tutti_value_create_int64(NumberIn(in) % 2, out);
  };
  const auto one_more = [](tutti_context *, const tutti_value *in, tutti_value **out,
                           void *) -> tutti_status * {
    return tutti_value_create_int64(NumberIn(in) + 1, out);
  };
  // (key, window) -> the window without its first element; fails for the key in *data.
  const auto rest = [](tutti_context *, const tutti_value *in, tutti_value **out,
                       void *data) -> tutti_status * {
    Value key, window;
    if (tutti_status *status = tutti_value_child(in, 0, &key)) return status;
    if (tutti_status *status = tutti_value_child(in, 1, &window)) return status;
    if (data != nullptr && NumberIn(key) == *static_cast<int64_t *>(data)) {
      return tutti_status_create(TUTTI_NOT_FOUND, "not this one");
    }
    tutti_dataset *dataset = tutti_value_get_leaf_dataset(window, 0);
    tutti_dataset_retain(dataset);
    tutti_status *status = tutti_dataset_skip(&dataset, 1, nullptr);
    if (status == nullptr) status = tutti_value_create_dataset(dataset, out);
    tutti_dataset_release(dataset);
    return status;
  };
  int64_t failing = 1;
  Function keys, sizes, all, some;
  ASSERT_OK(tutti_function_create(nullptr, {mod, nullptr, nullptr}, nullptr, &keys));
  ASSERT_OK(tutti_function_create(nullptr, {one_more, nullptr, nullptr}, nullptr, &sizes));
  ASSERT_OK(tutti_function_create(nullptr, {rest, nullptr, nullptr}, nullptr, &all));
  ASSERT_OK(tutti_function_create(nullptr, {rest, &failing, nullptr}, nullptr, &some));
  tutti_group_by_window_options options = TUTTI_GROUP_BY_WINDOW_OPTIONS_INIT;
  Dataset dataset = RangeOf(8), own = RangeOf(8), broken = RangeOf(4);
  EXPECT_FAILS(tutti_dataset_group_by_window(&dataset, keys, all, nullptr),
               TUTTI_INVALID_ARGUMENT, "exactly one of window_size and window_size_func");
  options.window_size = {1, 0};
  EXPECT_FAILS(tutti_dataset_group_by_window(&dataset, keys, all, &options),
               TUTTI_INVALID_ARGUMENT, "window_size must be positive, got 0");
  options.window_size = {1, 3};
  EXPECT_FAILS(tutti_dataset_group_by_window(&dataset, nullptr, all, &options),
               TUTTI_INVALID_ARGUMENT, "key_func");
  EXPECT_FAILS(tutti_dataset_group_by_window(&dataset, keys, nullptr, &options),
               TUTTI_INVALID_ARGUMENT, "reduce_func");
  ASSERT_OK(tutti_dataset_group_by_window(&dataset, keys, all, &options));
  ASSERT_OK(tutti_dataset_group_by_window(&broken, keys, some, &options));
  EXPECT_EQ(tutti_dataset_get_cardinality(dataset), TUTTI_CARDINALITY_UNKNOWN);
  options.window_size_func = sizes;
  EXPECT_FAILS(tutti_dataset_group_by_window(&own, keys, all, &options), TUTTI_INVALID_ARGUMENT,
               "both are");
  options.window_size = {0, 0};
  ASSERT_OK(tutti_dataset_group_by_window(&own, keys, all, &options));
  const auto numbers = [](tutti_dataset *walked) {
    std::vector<int64_t> found;
    Iterator iterator;
    EXPECT_OK(tutti_iterator_create(walked, nullptr, nullptr, &iterator));
    for (;;) {
      Value value;
      EXPECT_OK(tutti_iterator_next(iterator, nullptr, &value));
      if (!value) return found;
      found.push_back(NumberIn(value));
    }
  };
  EXPECT_EQ(numbers(dataset), (std::vector<int64_t>{2, 4, 3, 5}));
  EXPECT_EQ(numbers(own), (std::vector<int64_t>{3, 7}));
  Iterator iterator;
  Value value;
  ASSERT_OK(tutti_iterator_create(broken, nullptr, nullptr, &iterator));
  ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
  EXPECT_EQ(NumberIn(value), 2);
  EXPECT_FAILS(tutti_iterator_next(iterator, nullptr, &value), TUTTI_NOT_FOUND,
               "group_by_window: the group of key 1: not this one");
}

// (key, window) -> the window's elements as bytes in the file of its key; gives the file's name.
tutti_status *WriteWindow(tutti_context *, const tutti_value *in, tutti_value **out, void *data) {
  const auto *prefix = static_cast<const std::string *>(data);
  const tutti_string_view text = {prefix->data(), prefix->size()};
  const auto serialize = [](tutti_context *, const tutti_value *x, tutti_value **made,
                            void *) -> tutti_status * {
    Tensor bytes;
    tutti_status *status = tutti_tensor_serialize(tutti_value_get_leaf_tensor(x, 0), &bytes);
    return status != nullptr ? status : tutti_value_create_tensor(bytes, made);
  };
  Value key, window;
  EXPECT_OK(tutti_value_child(in, 0, &key));
  EXPECT_OK(tutti_value_child(in, 1, &window));
  Tensor begin, number, joined;
  EXPECT_OK(tutti_tensor_create_from_strings(nullptr, 0, nullptr, 1, &text, &begin));
  EXPECT_OK(tutti_tensor_as_string(tutti_value_get_leaf_tensor(key, 0), nullptr, &number));
  const tutti_tensor *parts[] = {begin, number};
  EXPECT_OK(tutti_tensor_join_strings(2, parts, "-", &joined));
  const auto *view = static_cast<const tutti_string_view *>(tutti_tensor_get_data(joined));
  const std::string path(view->data, view->size);
  Function function;
  EXPECT_OK(tutti_function_create(nullptr, {serialize, nullptr, nullptr}, nullptr, &function));
  tutti_dataset *dataset = tutti_value_get_leaf_dataset(window, 0);
  tutti_dataset_retain(dataset);
  EXPECT_OK(tutti_dataset_map(&dataset, function, nullptr));
  Handle<tutti_tf_record_writer, tutti_tf_record_writer_release> writer;
  EXPECT_OK(tutti_tf_record_writer_create(nullptr, path.c_str(), nullptr, &writer));
  EXPECT_FAILS(tutti_tf_record_writer_write(writer, "record", 6), TUTTI_FAILED_PRECONDITION, "");
  EXPECT_OK(tutti_tf_record_writer_write_dataset(writer, dataset, nullptr));
  EXPECT_OK(tutti_tf_record_writer_close(writer));
  tutti_dataset_release(dataset);
  Value name;
  EXPECT_OK(tutti_value_create_tensor(joined, &name));
  Dataset names;
  EXPECT_OK(tutti_dataset_create_from_tensors(nullptr, name, nullptr, &names));
  return tutti_value_create_dataset(names, out);
}

TEST_F(SurfaceTest, FunctionsThatGiveDatasetsWriteFilesBeforeTheirFirstElements) {
  std::string prefix = testing::TempDir() + "tutti_windows" + std::to_string(getpid());
  const auto odd = [](tutti_context *, const tutti_value *in, tutti_value **out,
                      void *) -> tutti_status * {
    return tutti_value_create_int64(NumberIn(in) % 2, out);
  };
  Function keys, windows;
  ASSERT_OK(tutti_function_create(nullptr, {odd, nullptr, nullptr}, nullptr, &keys));
  ASSERT_OK(tutti_function_create(nullptr, {WriteWindow, &prefix, nullptr}, nullptr, &windows));
  tutti_group_by_window_options options = TUTTI_GROUP_BY_WINDOW_OPTIONS_INIT;
  options.window_size = {1, INT64_MAX};
  Dataset dataset = RangeOf(5);
  ASSERT_OK(tutti_dataset_group_by_window(&dataset, keys, windows, &options));
  Spec spec;
  ASSERT_OK(tutti_dataset_element_spec(dataset, nullptr, &spec));
  EXPECT_NE(access((prefix + "-0").c_str(), F_OK), 0);
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  for (const int64_t key : {0, 1}) {
    Value name;
    ASSERT_OK(tutti_iterator_next(iterator, nullptr, &name));
    const std::string path = prefix + "-" + std::to_string(key);
    const char *paths[] = {path.c_str()};
    Dataset records;
    ASSERT_OK(tutti_dataset_create_tf_record_from_paths(nullptr, 1, paths, nullptr, &records));
    Iterator reading;
    ASSERT_OK(tutti_iterator_create(records, nullptr, nullptr, &reading));
    for (int64_t number = key; number < 5; number += 2) {
      Value record;
      ASSERT_OK(tutti_iterator_next(reading, nullptr, &record));
      Tensor parsed;
      ASSERT_OK(tutti_tensor_parse(tutti_value_get_leaf_tensor(record, 0), TUTTI_DTYPE_INT64,
                                   &parsed));
      EXPECT_EQ(*static_cast<const int64_t *>(tutti_tensor_get_data(parsed)), number);
    }
    Value end;
    ASSERT_OK(tutti_iterator_next(reading, nullptr, &end));
    EXPECT_FALSE(end);
    unlink(path.c_str());
  }
}

TEST_F(SurfaceTest, BatchesAreTakenApartIntoTheirRows) {
  Dataset rows = RangeOf(7), scalars = RangeOf(7);
  tutti_batch_options whole = TUTTI_BATCH_OPTIONS_INIT;
  whole.drop_remainder = TUTTI_TRUE;
  ASSERT_OK(tutti_dataset_batch(&rows, 3, &whole));
  ASSERT_OK(tutti_dataset_unbatch(&rows, nullptr));
  EXPECT_EQ(tutti_dataset_get_cardinality(rows), 6);
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(rows, nullptr, nullptr, &iterator));
  for (int64_t i = 0; i < 6; ++i) {
    Value value;
    ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
    EXPECT_EQ(NumberIn(value), i);
  }
  EXPECT_FAILS(tutti_dataset_unbatch(&scalars, nullptr), TUTTI_INVALID_ARGUMENT,
               "unbatch: expected tensors of rank 1 or more");
}

TEST_F(SurfaceTest, WindowsAreDatasetsOfTheirOwn) {
  tutti_window_options options = TUTTI_WINDOW_OPTIONS_INIT;
  options.shift = {1, 2};
  options.stride = 2;
  options.drop_remainder = TUTTI_TRUE;
  Dataset windows = RangeOf(9), plain = RangeOf(7), wrong = RangeOf(7);
  ASSERT_OK(tutti_dataset_window(&windows, 3, &options));
  ASSERT_OK(tutti_dataset_window(&plain, 3, nullptr));
  EXPECT_EQ(tutti_dataset_get_cardinality(windows), 3);
  EXPECT_EQ(tutti_dataset_get_cardinality(plain), 3);
  std::vector<Value> elements(3);
  {
    Iterator iterator;
    ASSERT_OK(tutti_iterator_create(windows, nullptr, nullptr, &iterator));
    for (Value &element : elements) ASSERT_OK(tutti_iterator_next(iterator, nullptr, &element));
    ASSERT_OK(tutti_iterator_close(iterator, nullptr));
  }
  // The iterator is gone.
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(tutti_value_get_leaf_kind(elements[i], 0), TUTTI_LEAF_DATASET);
    tutti_dataset *window = tutti_value_get_leaf_dataset(elements[i], 0);
    EXPECT_EQ(tutti_dataset_get_cardinality(window), 3);
    for (int pass = 0; pass < 2; ++pass) {
      Iterator inner;
      ASSERT_OK(tutti_iterator_create(window, nullptr, nullptr, &inner));
      for (int64_t k = 0; k < 3; ++k) {
        Value number;
        ASSERT_OK(tutti_iterator_next(inner, nullptr, &number));
        EXPECT_EQ(NumberIn(number), 2 * i + 2 * k);
      }
      ASSERT_OK(tutti_iterator_close(inner, nullptr));
    }
  }
  options.stride = 0;
  EXPECT_FAILS(tutti_dataset_window(&wrong, 3, &options), TUTTI_INVALID_ARGUMENT,
               "window: stride must be positive, got 0");
}

}  // namespace
}  // namespace tutti::capi_test
