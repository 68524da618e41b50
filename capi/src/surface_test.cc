// One look at each noun through the C interface: that arguments arrive where they should and
// results come back.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using SurfaceTest = CInterfaceTest;
using DistributedDataset = Handle<tutti_distributed_dataset, tutti_distributed_dataset_release>;
using DistributedIterator = Handle<tutti_distributed_iterator, tutti_distributed_iterator_release>;
using DeviceSpec = Handle<tutti_device_spec, tutti_device_spec_release>;

std::string TextOf(tutti_status *(*to_string)(const tutti_value *, tutti_bytes **),
                   const tutti_value *value) {
  Bytes text;
  EXPECT_OK(to_string(value, &text));
  return tutti_bytes_get_view(text).data;
}

TEST_F(SurfaceTest, RanksOfACommunicatorReduceBroadcastAndGather) {
  tutti_communicator *ranks[3] = {nullptr, nullptr, nullptr};
  ASSERT_OK(tutti_communicator_create_local(nullptr, 3, nullptr, ranks));
  const auto body = [&](int rank) {
    tutti_communicator *self = ranks[rank];
    EXPECT_EQ(tutti_communicator_get_rank(self), rank);
    EXPECT_EQ(tutti_communicator_get_size(self), 3);
    Tensor mine = Floats({static_cast<float>(rank), 1}), largest = Floats({0, 0});
    EXPECT_OK(tutti_communicator_all_reduce(self, mine, TUTTI_REDUCE_MAX, nullptr, largest));
    EXPECT_EQ(FloatsIn(largest), (std::vector<float>{2, 1}));
    EXPECT_OK(tutti_communicator_all_reduce(self, mine, TUTTI_REDUCE_SUM, nullptr, mine));
    EXPECT_EQ(FloatsIn(mine), (std::vector<float>{3, 3}));
    Tensor sent = Floats({static_cast<float>(10 + rank)}), joined;
    EXPECT_OK(tutti_communicator_broadcast(self, 1, nullptr, sent));
    EXPECT_EQ(FloatsIn(sent), (std::vector<float>{11}));
    const Tensor rows = Floats(std::vector<float>(static_cast<size_t>(rank), 5));
    EXPECT_OK(tutti_communicator_all_gather(self, rows, nullptr, &joined));
    EXPECT_EQ(FloatsIn(joined), (std::vector<float>{5, 5, 5}));
    EXPECT_OK(tutti_communicator_barrier(self, nullptr));
    EXPECT_OK(tutti_communicator_close(self, nullptr));
  };
  std::thread one(body, 1), two(body, 2);
  body(0);
  one.join();
  two.join();
  for (tutti_communicator *rank : ranks) tutti_communicator_release(rank);
}

TEST_F(SurfaceTest, AnAbortReachesEveryRankWithItsMessage) {
  tutti_communicator *ranks[2] = {nullptr, nullptr};
  ASSERT_OK(tutti_communicator_create_local(nullptr, 2, nullptr, ranks));
  std::thread other([&] { tutti_communicator_abort(ranks[1], "no more data"); });
  EXPECT_FAILS(tutti_communicator_barrier(ranks[0], nullptr), TUTTI_ABORTED, "no more data");
  other.join();
  EXPECT_FAILS(tutti_communicator_barrier(ranks[1], nullptr), TUTTI_ABORTED, "no more data");
  for (tutti_communicator *rank : ranks) tutti_communicator_release(rank);
}

TEST_F(SurfaceTest, RecordsAreWrittenCompressedAndReadBack) {
  const std::string path = testing::TempDir() + "tutti_records" + std::to_string(getpid());
  const int64_t dims[] = {2};
  const tutti_string_view texts[] = {{"first", 5}, {"second", 6}};
  Tensor tensor;
  Dataset dataset, read;
  ASSERT_OK(tutti_tensor_create_from_strings(nullptr, 1, dims, 2, texts, &tensor));
  ASSERT_OK(tutti_dataset_create_from_tensor_slices(nullptr, ValueOf(tensor), nullptr, &dataset));
  tutti_tf_record_writer_options how = TUTTI_TF_RECORD_WRITER_OPTIONS_INIT;
  how.compression = TUTTI_COMPRESSION_GZIP;
  Handle<tutti_tf_record_writer, tutti_tf_record_writer_release> writer;
  ASSERT_OK(tutti_tf_record_writer_create(nullptr, path.c_str(), &how, &writer));
  ASSERT_OK(tutti_tf_record_writer_write_dataset(writer, dataset, nullptr));
  ASSERT_OK(tutti_tf_record_writer_write(writer, "third", 5));
  EXPECT_FAILS(tutti_tf_record_writer_write_dataset(writer, RangeOf(1), nullptr),
               TUTTI_INVALID_ARGUMENT, "byte strings");
  ASSERT_OK(tutti_tf_record_writer_close(writer));

  const char *paths[] = {path.c_str()};
  tutti_tf_record_options options = TUTTI_TF_RECORD_OPTIONS_INIT;
  options.compression = TUTTI_COMPRESSION_GZIP;
  ASSERT_OK(tutti_dataset_create_tf_record_from_paths(nullptr, 1, paths, &options, &read));
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(read, nullptr, nullptr, &iterator));
  for (const std::string expected : {"first", "second", "third"}) {
    Value value;
    ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
    const auto *view = static_cast<const tutti_string_view *>(
        tutti_tensor_get_data(tutti_value_get_leaf_tensor(value, 0)));
    EXPECT_EQ(std::string(view->data, view->size), expected);
  }
  std::remove(path.c_str());
}

TEST_F(SurfaceTest, LinesOfTextAreRead) {
  const std::string path = testing::TempDir() + "tutti_lines" + std::to_string(getpid());
  std::ofstream(path, std::ios::binary) << "first\r\n\nlast";
  const tutti_string_view name = {path.data(), path.size()};
  Tensor tensor;
  Dataset names, lines;
  ASSERT_OK(tutti_tensor_create_from_strings(nullptr, 0, nullptr, 1, &name, &tensor));
  ASSERT_OK(tutti_dataset_create_from_tensors(nullptr, ValueOf(tensor), nullptr, &names));
  tutti_text_line_options options = TUTTI_TEXT_LINE_OPTIONS_INIT;
  options.name = "lines";
  options.buffer_size = 2;
  ASSERT_OK(tutti_dataset_create_text_line(nullptr, names, &options, &lines));
  EXPECT_EQ(tutti_dataset_get_cardinality(lines), TUTTI_CARDINALITY_UNKNOWN);
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(lines, nullptr, nullptr, &iterator));
  for (const std::string expected : {"first", "", "last"}) {
    Value value;
    ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
    const auto *view = static_cast<const tutti_string_view *>(
        tutti_tensor_get_data(tutti_value_get_leaf_tensor(value, 0)));
    EXPECT_EQ(std::string(view->data, view->size), expected);
  }
  std::remove(path.c_str());
  Iterator gone;
  ASSERT_OK(tutti_iterator_create(lines, nullptr, nullptr, &gone));
  Value value;
  EXPECT_FAILS(tutti_iterator_next(gone, nullptr, &value), TUTTI_NOT_FOUND, path.c_str());
  options.compression = static_cast<tutti_compression>(9);
  Dataset refused;
  EXPECT_FAILS(tutti_dataset_create_text_line(nullptr, names, &options, &refused),
               TUTTI_INVALID_ARGUMENT, "compression 9 is not known");
}

TEST_F(SurfaceTest, AnIteratorGoesOnFromItsSavedPosition) {
  Dataset dataset = RangeOf(5);
  const int64_t seed = 3;
  ASSERT_OK(tutti_dataset_shuffle(&dataset, 5, &seed, nullptr));
  Iterator iterator, again;
  Value value, expected, found;
  Bytes state;
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
  ASSERT_OK(tutti_iterator_save(iterator, nullptr, &state));
  ASSERT_OK(tutti_iterator_next(iterator, nullptr, &expected));
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &again));
  const tutti_string_view bytes = tutti_bytes_get_view(state);
  ASSERT_OK(tutti_iterator_restore(again, bytes.data, bytes.size, nullptr));
  ASSERT_OK(tutti_iterator_next_optional(again, nullptr, &found));
  const tutti_value *held = tutti_value_get_leaf_optional(found, 0);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(NumberIn(held), NumberIn(expected));
  EXPECT_OK(tutti_iterator_close(again, nullptr));
  EXPECT_FAILS(tutti_iterator_next(again, nullptr, &value), TUTTI_FAILED_PRECONDITION, "close");
}

TEST_F(SurfaceTest, APositionIsOfTheRowsAndNotOfHowSoonTheyAreMade) {
  const auto prefetched = [](int64_t size, const char *name) {
    Dataset dataset = RangeOf(50);
    tutti_transform_options options = TUTTI_TRANSFORM_OPTIONS_INIT;
    options.name = name;
    EXPECT_OK(tutti_dataset_prefetch(&dataset, size, &options));
    return dataset;
  };
  const Dataset two = prefetched(2, "two"), eight = prefetched(8, nullptr);
  Iterator iterator, again;
  Value value, found;
  Bytes state;
  ASSERT_OK(tutti_iterator_create(two, nullptr, nullptr, &iterator));
  for (int i = 0; i < 3; ++i) ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
  ASSERT_OK(tutti_iterator_save(iterator, nullptr, &state));
  const tutti_string_view bytes = tutti_bytes_get_view(state);
  ASSERT_OK(tutti_iterator_create(eight, nullptr, nullptr, &again));
  ASSERT_OK(tutti_iterator_restore(again, bytes.data, bytes.size, nullptr));

  std::string earlier(bytes.data, bytes.size);
  earlier.replace(0, 8, "TUTTI-I1");
  EXPECT_FAILS(tutti_iterator_restore(again, earlier.data(), earlier.size(), nullptr),
               TUTTI_INVALID_ARGUMENT,
               "an iterator's state in the format TUTTI-I1, and TUTTI-I2 is read here: an earlier "
               "release saved it; start the iterator afresh, or restore with the release that "
               "saved it");
  ASSERT_OK(tutti_iterator_next(again, nullptr, &found));
  EXPECT_EQ(NumberIn(found), 3);
}

TEST_F(SurfaceTest, ATensorIsConvertedToADTypeThatHoldsIt) {
  const int64_t dims[] = {2}, numbers[] = {7, 3000000000};
  Tensor wide, same, real, narrow;
  ASSERT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, 1, dims, numbers,
                                          sizeof(numbers), &wide));
  ASSERT_OK(tutti_tensor_convert(wide, TUTTI_DTYPE_INT64, &same));
  EXPECT_EQ(tutti_tensor_get_data(same), tutti_tensor_get_data(wide));
  ASSERT_OK(tutti_tensor_convert(wide, TUTTI_DTYPE_FLOAT32, &real));
  EXPECT_EQ(static_cast<const float *>(tutti_tensor_get_data(real))[0], 7.0f);
  EXPECT_FAILS(tutti_tensor_convert(wide, TUTTI_DTYPE_INT32, &narrow), TUTTI_INVALID_ARGUMENT,
               "3000000000 does not fit into int32");
  EXPECT_FAILS(tutti_tensor_convert(real, TUTTI_DTYPE_INT64, &narrow), TUTTI_INVALID_ARGUMENT,
               "7 is a float, which never becomes an integer");
  EXPECT_FAILS(tutti_tensor_convert(real, 99, &narrow), TUTTI_INVALID_ARGUMENT, "dtype");
}

// What a function or a generator gives is converted to the dtype of the spec.
TEST_F(SurfaceTest, ResultsAreConvertedToTheDeclaredDType) {
  Spec spec;
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_FLOAT32, 0, nullptr, &spec));
  const auto half = [](tutti_context *, const tutti_value *in, tutti_value **out,
                       void *) -> tutti_status * {
    return tutti_value_create_float64(0.5 * static_cast<double>(NumberIn(in)), out);
  };
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  options.output_spec = spec;
  Function function;
  ASSERT_OK(tutti_function_create(nullptr, {half, nullptr, nullptr}, &options, &function));
  Dataset mapped = RangeOf(2);
  ASSERT_OK(tutti_dataset_map(&mapped, function, nullptr));
  const auto start = [](tutti_context *, const tutti_value *, tutti_value **out,
                        void *) -> tutti_status * {
    return tutti_value_create_string({"state", 5}, out);
  };
  const auto next = [](tutti_context *, const tutti_value *, tutti_value **out,
                       void *user_data) -> tutti_status * {
    auto *count = static_cast<int *>(user_data);
    return ++*count > 2 ? nullptr : tutti_value_create_int64(*count, out);
  };
  int count = 0;
  Dataset generated;
  ASSERT_OK(tutti_dataset_create_from_generator(nullptr, {start, nullptr, nullptr},
                                                {next, &count, nullptr}, spec, nullptr,
                                                &generated));
  for (const auto &[dataset, first, step] :
       {std::tuple(&mapped, 0.0f, 0.5f), std::tuple(&generated, 1.0f, 1.0f)}) {
    Iterator iterator;
    ASSERT_OK(tutti_iterator_create(*dataset, nullptr, nullptr, &iterator));
    for (int i = 0; i < 2; ++i) {
      Value value;
      ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
      const tutti_tensor *tensor = tutti_value_get_leaf_tensor(value, 0);
      ASSERT_EQ(tutti_tensor_get_dtype(tensor), TUTTI_DTYPE_FLOAT32);
      EXPECT_EQ(*static_cast<const float *>(tutti_tensor_get_data(tensor)),
                first + step * static_cast<float>(i));
    }
  }
}

TEST_F(SurfaceTest, RowsOfADatabaseAreTuples) {
  // An empty file is a database without tables.
  const std::string path = testing::TempDir() + "/tutti_c_rows.db";
  ASSERT_TRUE(std::ofstream(path).good());
  const tutti_dtype types[] = {TUTTI_DTYPE_INT16, TUTTI_DTYPE_BYTES};
  Dataset rows;
  ASSERT_OK(tutti_dataset_create_sql(nullptr, "sqlite", path.c_str(),
                                     "values (7, 'ada'), (70000, ''), (8, null)", 2, types, nullptr,
                                     &rows));
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(rows, nullptr, nullptr, &iterator));
  const auto expect_row = [&](int16_t number, std::string_view text) {
    Value row;
    ASSERT_OK(tutti_iterator_next(iterator, nullptr, &row));
    const tutti_tensor *first = tutti_value_get_leaf_tensor(row, 0);
    ASSERT_EQ(tutti_tensor_get_dtype(first), TUTTI_DTYPE_INT16);
    EXPECT_EQ(*static_cast<const int16_t *>(tutti_tensor_get_data(first)), number);
    const auto *found = static_cast<const tutti_string_view *>(
        tutti_tensor_get_data(tutti_value_get_leaf_tensor(row, 1)));
    EXPECT_EQ(std::string_view(found->data, found->size), text);
  };
  expect_row(7, "ada");
  Value none;
  EXPECT_FAILS(tutti_iterator_next(iterator, nullptr, &none), TUTTI_INVALID_ARGUMENT,
               "70000 does not fit int16");
  expect_row(8, "");
  Dataset refused;
  EXPECT_FAILS(tutti_dataset_create_sql(nullptr, "mysql", path.c_str(), "select 1", 2, types,
                                        nullptr, &refused),
               TUTTI_INVALID_ARGUMENT, "the only driver_name is \"sqlite\"");
  EXPECT_FAILS(tutti_dataset_create_sql(nullptr, "sqlite", path.c_str(), nullptr, 2, types, nullptr,
                                        &refused),
               TUTTI_INVALID_ARGUMENT, "query");
  EXPECT_FAILS(tutti_dataset_create_sql(nullptr, "sqlite", path.c_str(), "select 1", 2, nullptr,
                                        nullptr, &refused),
               TUTTI_INVALID_ARGUMENT, "output_types");
}

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
  static std::atomic<int64_t> calls{0};
  const auto plus_calls = [](tutti_context *, const tutti_value *in, tutti_value **out,
                             void *) -> tutti_status * {
    return tutti_value_create_int64(NumberIn(in) + 10 * calls++, out);
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
  ASSERT_OK(tutti_function_create(nullptr, {plus_calls, nullptr, nullptr}, &options, &unknown));
  options.fingerprint = "plus calls, version 1";
  ASSERT_OK(tutti_function_create(nullptr, {plus_calls, nullptr, nullptr}, &options, &known));
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

TEST_F(SurfaceTest, TextsAreMadeOfNumbersAndJoined) {
  const float numbers[] = {1.5f, -2.0f};
  const int64_t dims[] = {2};
  Tensor floats, texts, joined, bytes, wrong;
  ASSERT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_FLOAT32, 1, dims, numbers,
                                          sizeof(numbers), &floats));
  tutti_tensor_as_string_options options = TUTTI_TENSOR_AS_STRING_OPTIONS_INIT;
  options.precision = {1, 1};
  options.width = {1, 5};
  options.fill = "0";
  ASSERT_OK(tutti_tensor_as_string(floats, &options, &texts));
  const tutti_tensor *both[] = {texts, texts};
  ASSERT_OK(tutti_tensor_join_strings(2, both, " ", &joined));
  const auto *views = static_cast<const tutti_string_view *>(tutti_tensor_get_data(joined));
  EXPECT_EQ(std::string(views[0].data, views[0].size), "001.5 001.5");
  EXPECT_EQ(std::string(views[1].data, views[1].size), "-02.0 -02.0");
  options.fill = "x";
  EXPECT_FAILS(tutti_tensor_as_string(floats, &options, &wrong), TUTTI_INVALID_ARGUMENT, "fill");
  EXPECT_FAILS(tutti_tensor_join_strings(0, nullptr, nullptr, &wrong), TUTTI_INVALID_ARGUMENT,
               "no inputs");
  const tutti_tensor *none[] = {texts, nullptr};
  EXPECT_FAILS(tutti_tensor_join_strings(2, none, nullptr, &wrong), TUTTI_INVALID_ARGUMENT,
               "tensors");
  ASSERT_OK(tutti_tensor_serialize(floats, &bytes));
  EXPECT_FAILS(tutti_tensor_parse(bytes, TUTTI_DTYPE_INT64, &wrong), TUTTI_INVALID_ARGUMENT,
               "out_type is int64");
  EXPECT_FAILS(tutti_tensor_parse(bytes, 99, &wrong), TUTTI_INVALID_ARGUMENT, "dtype");
}

TEST_F(SurfaceTest, RandomOrdersComeOneBehindTheOther) {
  const int64_t seed = 5;
  Dataset both = RangeOf(6), apart = RangeOf(6), wrong = RangeOf(6);
  ASSERT_OK(tutti_dataset_shuffle_and_repeat(&both, 6, 3, &seed, nullptr));
  ASSERT_OK(tutti_dataset_shuffle(&apart, 6, &seed, nullptr));
  ASSERT_OK(tutti_dataset_repeat(&apart, 3, nullptr));
  EXPECT_EQ(tutti_dataset_get_cardinality(both), 18);
  Iterator iterator, other;
  ASSERT_OK(tutti_iterator_create(both, nullptr, nullptr, &iterator));
  ASSERT_OK(tutti_iterator_create(apart, nullptr, nullptr, &other));
  std::vector<std::vector<int64_t>> orders(3);
  for (std::vector<int64_t> &order : orders) {
    for (int i = 0; i < 6; ++i) {
      Value value, same;
      ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
      ASSERT_OK(tutti_iterator_next(other, nullptr, &same));
      EXPECT_EQ(NumberIn(value), NumberIn(same));
      order.push_back(NumberIn(value));
    }
    std::vector<int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_FAILS(tutti_dataset_shuffle_and_repeat(&wrong, 0, 1, nullptr, nullptr),
               TUTTI_INVALID_ARGUMENT, "buffer_size");
  ASSERT_OK(tutti_dataset_shuffle_and_repeat(&wrong, 2, -1, nullptr, nullptr));
  EXPECT_EQ(tutti_dataset_get_cardinality(wrong), TUTTI_CARDINALITY_INFINITE);
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

TEST_F(SurfaceTest, ADefinitionIsSerialisedWithTheNamesOfItsFunctions) {
  const auto negate = [](tutti_context *, const tutti_value *in, tutti_value **out,
                         void *) -> tutti_status * {
    return tutti_value_create_int64(-NumberIn(in), out);
  };
  ASSERT_OK(tutti_function_register(nullptr, "negate", {negate, nullptr, nullptr}, nullptr));
  Function named, anonymous, unknown;
  ASSERT_OK(tutti_function_create_registered(nullptr, "negate", &named));
  ASSERT_OK(tutti_function_create(nullptr, {negate, nullptr, nullptr}, nullptr, &anonymous));
  EXPECT_FAILS(tutti_function_create_registered(nullptr, "negat", &unknown), TUTTI_NOT_FOUND,
               "negate");
  Dataset dataset = RangeOf(3), unnamed = RangeOf(3), copy;
  Bytes definition, plan;
  ASSERT_OK(tutti_dataset_map(&dataset, named, nullptr));
  ASSERT_OK(tutti_dataset_map(&unnamed, anonymous, nullptr));
  EXPECT_FAILS(tutti_dataset_serialize(unnamed, &definition), TUTTI_FAILED_PRECONDITION, "map");
  ASSERT_OK(tutti_dataset_serialize(dataset, &definition));
  const tutti_string_view bytes = tutti_bytes_get_view(definition);
  ASSERT_OK(tutti_dataset_deserialize(nullptr, bytes.data, bytes.size, &copy));
  ASSERT_OK(tutti_dataset_skip(&copy, 2, nullptr));
  Iterator iterator;
  Value value;
  ASSERT_OK(tutti_iterator_create(copy, nullptr, nullptr, &iterator));
  ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
  EXPECT_EQ(NumberIn(value), -2);
  ASSERT_OK(tutti_dataset_explain(dataset, &plan));
  EXPECT_THAT(tutti_bytes_get_view(plan).data, testing::HasSubstr("range"));
  EXPECT_OK(tutti_function_unregister(nullptr, "negate"));
  EXPECT_FAILS(tutti_function_unregister(nullptr, "negate"), TUTTI_NOT_FOUND, "negate");
}

TEST_F(SurfaceTest, ALongChainDoesWhatAShortOneDoesAndADeepOneIsRefused) {
  const Dataset one = RangeOf(1);
  Dataset chain = RangeOf(1), copy, doubled = RangeOf(3), deep = RangeOf(3);
  for (int i = 1; i < 100'000; ++i) {
    ASSERT_OK(tutti_dataset_concatenate(&chain, one, nullptr));
  }
  EXPECT_EQ(tutti_dataset_get_cardinality(chain), 100'000);
  Bytes definition, plan, state;
  Spec spec;
  ASSERT_OK(tutti_dataset_element_spec(chain, nullptr, &spec));
  ASSERT_OK(tutti_dataset_explain(chain, &plan));
  EXPECT_THAT(tutti_bytes_get_view(plan).data, testing::HasSubstr("100000 parts"));
  ASSERT_OK(tutti_dataset_serialize(chain, &definition));
  tutti_string_view bytes = tutti_bytes_get_view(definition);
  ASSERT_OK(tutti_dataset_deserialize(nullptr, bytes.data, bytes.size, &copy));
  Iterator iterator, again;
  Value value, end;
  ASSERT_OK(tutti_iterator_create(chain, nullptr, nullptr, &iterator));
  for (int i = 1; i < 100'000; ++i) ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
  ASSERT_OK(tutti_iterator_save(iterator, nullptr, &state));
  ASSERT_OK(tutti_iterator_create(copy, nullptr, nullptr, &again));
  bytes = tutti_bytes_get_view(state);
  ASSERT_OK(tutti_iterator_restore(again, bytes.data, bytes.size, nullptr));
  ASSERT_OK(tutti_iterator_next(again, nullptr, &value));
  EXPECT_EQ(NumberIn(value), 0);
  ASSERT_OK(tutti_iterator_next(again, nullptr, &end));
  EXPECT_EQ(static_cast<tutti_value *>(end), nullptr);

  for (int i = 0; i < 40; ++i) ASSERT_OK(tutti_dataset_concatenate(&doubled, doubled, nullptr));
  EXPECT_EQ(tutti_dataset_get_cardinality(doubled), int64_t{3} << 40);
  ASSERT_OK(tutti_iterator_create(doubled, nullptr, nullptr, &iterator));
  for (int i = 0; i < 5; ++i) ASSERT_OK(tutti_iterator_next(iterator, nullptr, &value));
  EXPECT_EQ(NumberIn(value), 1);

  for (int i = 1; i < 1000; ++i) ASSERT_OK(tutti_dataset_take(&deep, 2, nullptr));
  EXPECT_FAILS(tutti_dataset_take(&deep, 2, nullptr), TUTTI_INVALID_ARGUMENT,
               "take: this dataset would be 1001 operations deep, and at most 1000");
}

TEST_F(SurfaceTest, SpecsDescribeElements) {
  const int64_t dims[] = {TUTTI_UNKNOWN_DIMENSION, 64};
  Spec images, labels, pair, found, optional;
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_FLOAT32, 2, dims, &images));
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_INT64, TUTTI_UNKNOWN_RANK, nullptr, &labels));
  Handle<tutti_treespec, tutti_treespec_release> leaf, tree;
  ASSERT_OK(tutti_treespec_create_leaf(&leaf));
  const tutti_treespec *children[] = {leaf, leaf};
  const char *keys[] = {"label", "image"};
  ASSERT_OK(tutti_treespec_create_dict(2, keys, children, &tree));
  const tutti_spec *leaves[] = {images, labels};
  ASSERT_OK(tutti_spec_create_from_leaves(tree, 2, leaves, &pair));
  EXPECT_EQ(tutti_spec_get_leaf_dims(pair, 0)[1], 64);
  EXPECT_EQ(tutti_spec_get_leaf_rank(pair, 1), TUTTI_UNKNOWN_RANK);
  EXPECT_EQ(tutti_spec_get_leaf_dims(pair, 1), nullptr);
  Bytes text;
  ASSERT_OK(tutti_spec_to_string(pair, &text));
  EXPECT_THAT(tutti_bytes_get_view(text).data, testing::HasSubstr("'image': float32[?,64]"));
  Dataset dataset = RangeOf(3);
  ASSERT_OK(tutti_dataset_batch(&dataset, 2, nullptr));
  ASSERT_OK(tutti_dataset_element_spec(dataset, nullptr, &found));
  EXPECT_EQ(tutti_spec_get_leaf_dtype(found, 0), TUTTI_DTYPE_INT64);
  EXPECT_TRUE(tutti_spec_is_compatible(labels, found));
  EXPECT_TRUE(tutti_spec_is_compatible(found, labels));
  EXPECT_FALSE(tutti_spec_is_compatible(images, labels));
  EXPECT_FALSE(tutti_spec_is_compatible(images, nullptr));
  ASSERT_OK(tutti_spec_create_optional(found, &optional));
  EXPECT_TRUE(tutti_spec_equal(tutti_spec_get_leaf_inner(optional, 0), found));
}

TEST_F(SurfaceTest, SpecsOfWhatHoldsElementsAreComparedAndUnited) {
  const int64_t three[] = {3}, four[] = {4}, unknown[] = {TUTTI_UNKNOWN_DIMENSION};
  Spec threes, fours, any, text;
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_INT32, 1, three, &threes));
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_INT32, 1, four, &fours));
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_INT32, 1, unknown, &any));
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_BYTES, 0, nullptr, &text));
  for (const auto create : {&tutti_spec_create_iterator, &tutti_spec_create_dataset,
                            &tutti_spec_create_optional}) {
    Spec of_threes, of_fours, of_any, of_text, of_unknown, common, none;
    ASSERT_OK(create(threes, &of_threes));
    ASSERT_OK(create(fours, &of_fours));
    ASSERT_OK(create(any, &of_any));
    ASSERT_OK(create(text, &of_text));
    ASSERT_OK(create(nullptr, &of_unknown));
    EXPECT_EQ(tutti_spec_get_leaf_inner(of_unknown, 0), nullptr);
    EXPECT_TRUE(tutti_spec_is_compatible(of_unknown, of_text));
    EXPECT_TRUE(tutti_spec_is_compatible(of_threes, of_any));
    EXPECT_FALSE(tutti_spec_is_compatible(of_threes, of_fours));
    ASSERT_OK(tutti_spec_most_specific(of_threes, of_fours, &common));
    EXPECT_TRUE(tutti_spec_equal(common, of_any));
    EXPECT_FAILS(tutti_spec_most_specific(of_threes, of_text, &none), TUTTI_INVALID_ARGUMENT,
                 "most_specific_compatible_type: expected int32[3], found bytes[]");
    EXPECT_FAILS(tutti_spec_most_specific(of_threes, nullptr, &none), TUTTI_INVALID_ARGUMENT, "");
  }
  Spec scalar, grid;
  ASSERT_OK(tutti_spec_create_dataset(threes, &scalar));
  ASSERT_OK(tutti_spec_create_dataset_of_shape(threes, 1, four, &grid));
  EXPECT_EQ(tutti_spec_get_leaf_rank(scalar, 0), 0);
  EXPECT_EQ(tutti_spec_get_leaf_dims(grid, 0)[0], 4);
  EXPECT_FALSE(tutti_spec_equal(scalar, grid));
  EXPECT_FAILS(tutti_spec_create_dataset_of_shape(threes, -2, nullptr, &grid),
               TUTTI_INVALID_ARGUMENT, "rank is -2");
}

TEST_F(SurfaceTest, AnEmptyOptionalSaysWhatItWouldHold) {
  Spec number, found;
  Value empty;
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_INT64, 0, nullptr, &number));
  ASSERT_OK(tutti_value_create_empty_optional(number, &empty));
  EXPECT_EQ(tutti_value_get_leaf_kind(empty, 0), TUTTI_LEAF_OPTIONAL);
  EXPECT_EQ(tutti_value_get_leaf_optional(empty, 0), nullptr);
  ASSERT_OK(tutti_spec_create_from_value(empty, &found));
  EXPECT_TRUE(tutti_spec_equal(tutti_spec_get_leaf_inner(found, 0), number));
  EXPECT_FAILS(tutti_value_create_empty_optional(nullptr, &empty), TUTTI_INVALID_ARGUMENT, "");
}

TEST_F(SurfaceTest, ADatasetComesBackFromItsVariant) {
  Dataset dataset = RangeOf(3), back;
  Spec number, text, variant, found;
  Value value, none;
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_INT64, 0, nullptr, &number));
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_BYTES, 0, nullptr, &text));
  ASSERT_OK(tutti_spec_create_dataset(nullptr, &variant));
  ASSERT_OK(tutti_value_create_dataset(dataset, &value));
  ASSERT_OK(tutti_spec_create_from_value(value, &found));
  EXPECT_TRUE(tutti_spec_is_compatible(variant, found));
  ASSERT_OK(tutti_dataset_create_from_variant(value, number, nullptr, &back));
  EXPECT_EQ(tutti_dataset_get_cardinality(back), 3);
  EXPECT_FAILS(tutti_dataset_create_from_variant(value, text, nullptr, &back),
               TUTTI_INVALID_ARGUMENT, "expected a dataset of bytes[], found one of int64[]");
  ASSERT_OK(tutti_value_create_none(&none));
  EXPECT_FAILS(tutti_dataset_create_from_variant(none, number, nullptr, &back),
               TUTTI_INVALID_ARGUMENT, "found none");
  EXPECT_FAILS(tutti_dataset_create_from_variant(value, nullptr, nullptr, &back),
               TUTTI_INVALID_ARGUMENT, "");
}

TEST_F(SurfaceTest, DeviceSpecsAreReadMergedAndListed) {
  DeviceSpec outer, inner, merged;
  ASSERT_OK(tutti_device_spec_parse("/job:ps/task:2/device:CPU:0", &outer));
  ASSERT_OK(tutti_device_spec_parse("gpu:1", &inner));
  ASSERT_OK(tutti_device_spec_merge(outer, inner, &merged));
  EXPECT_STREQ(tutti_device_spec_get_text(merged), "/job:ps/task:2/device:GPU:1");
  tutti_device_fields fields = TUTTI_DEVICE_FIELDS_INIT;
  ASSERT_OK(tutti_device_spec_get_fields(merged, &fields));
  EXPECT_STREQ(fields.job, "ps");
  EXPECT_EQ(fields.task.value, 2);
  EXPECT_EQ(fields.replica.present, 0);
  EXPECT_FAILS(tutti_device_spec_parse("/device:", &inner), TUTTI_INVALID_ARGUMENT, "");
  Bytes names;
  ASSERT_OK(tutti_device_list(nullptr, "CPU", &names));
  EXPECT_STREQ(tutti_bytes_get_view(names).data, "CPU:0");
}

TEST_F(SurfaceTest, DevicesAndPluginsDescribeThemselves) {
  setenv("TUTTI_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  const auto text = [](const Bytes &bytes) {
    return std::string(tutti_bytes_get_view(bytes).data);
  };
  Bytes names, cpu, plugins, none;
  ASSERT_OK(tutti_device_list(nullptr, "GPU", &names));
  EXPECT_EQ(text(names), "");
  ASSERT_OK(tutti_device_describe(nullptr, "/device:CPU:0", &cpu));
  EXPECT_THAT(text(cpu), testing::HasSubstr("{\"name\": \"CPU:0\", \"type\": \"CPU\", \"memory\""));
  ASSERT_OK(tutti_device_describe_plugins(nullptr, &plugins));
  EXPECT_THAT(text(plugins), testing::HasSubstr("{\"name\": \"cuda\", \"file\": \""));
  EXPECT_THAT(text(plugins), testing::HasSubstr("\"devices\": 0"));
  EXPECT_THAT(text(plugins), testing::HasSubstr("\"nccl_reason\": "));
  EXPECT_FAILS(tutti_device_describe(nullptr, "GPU:0", &none), TUTTI_NOT_FOUND,
               "this machine has no GPU:0");
  EXPECT_FAILS(tutti_device_describe(nullptr, "GPU:0", &none), TUTTI_NOT_FOUND,
               "there is no NVIDIA driver");
  EXPECT_FAILS(tutti_device_describe(nullptr, "XPU", &none), TUTTI_INVALID_ARGUMENT, "");
  unsetenv("TUTTI_CUDA_DRIVER");
}

TEST_F(SurfaceTest, TensorsTravelThroughDlpackWithoutACopy) {
  Tensor tensor = Floats({1, 2, 3}), back;
  DLManagedTensorVersioned *managed = nullptr;
  ASSERT_OK(tutti_tensor_to_dlpack(tensor, nullptr, &managed));
  ASSERT_OK(tutti_tensor_from_dlpack(nullptr, managed, &back));
  EXPECT_EQ(tutti_tensor_get_data(back), tutti_tensor_get_data(tensor));
  tutti_dlpack_options options = TUTTI_DLPACK_OPTIONS_INIT;
  options.copy = TUTTI_TRUE;
  DLManagedTensor *old = nullptr;
  ASSERT_OK(tutti_tensor_to_dlpack_unversioned(tensor, &options, &old));
  ASSERT_OK(tutti_tensor_from_dlpack_unversioned(nullptr, old, &back));
  EXPECT_NE(tutti_tensor_get_data(back), tutti_tensor_get_data(tensor));
  EXPECT_TRUE(tutti_tensor_equal(back, tensor));
}

TEST_F(SurfaceTest, ReplicasMergeGatherAndKeepVariables) {
  Strategy strategy = MirroredOver(2);
  EXPECT_EQ(tutti_strategy_get_num_replicas_in_sync(strategy), 2);
  EXPECT_STREQ(tutti_strategy_get_worker_device(strategy, 1), "/device:CPU:1");
  EXPECT_EQ(tutti_strategy_get_worker_device(strategy, 2), nullptr);
  const Value components[] = {ValueOf(Floats({1, 2})), ValueOf(Floats({3, 4}))};
  const tutti_value *handles[] = {components[0], components[1]};
  Value distributed, joined, summed, local;
  ASSERT_OK(tutti_strategy_create_per_replica(strategy, 2, handles, &distributed));
  EXPECT_EQ(tutti_value_get_leaf_component_count(distributed, 0), 2u);
  EXPECT_THAT(TextOf(tutti_value_to_string, distributed), testing::HasSubstr("PerReplica"));
  ASSERT_OK(tutti_strategy_gather(strategy, distributed, 0, nullptr, &joined));
  EXPECT_EQ(FloatsIn(tutti_value_get_leaf_tensor(joined, 0)), (std::vector<float>{1, 2, 3, 4}));
  const int64_t axis = 0;
  ASSERT_OK(
      tutti_strategy_reduce(strategy, TUTTI_REDUCE_MEAN, distributed, &axis, nullptr, &summed));
  EXPECT_EQ(
      *static_cast<const float *>(tutti_tensor_get_data(tutti_value_get_leaf_tensor(summed, 0))),
      2.5f);
  ASSERT_OK(tutti_strategy_local_results(strategy, distributed, &local));
  EXPECT_EQ(tutti_value_get_child_count(local), 2u);

  tutti_variable_options options = TUTTI_VARIABLE_OPTIONS_INIT;
  options.name = "w";
  options.aggregation = TUTTI_AGGREGATION_MEAN;
  Variable variable;
  ASSERT_OK(tutti_variable_create(strategy, Floats({0, 0}), &options, nullptr, &variable));
  const auto assign = [](tutti_context *replica, const tutti_value *in, tutti_value **out,
                         void *variable) -> tutti_status * {
    const tutti_tensor *mine = tutti_value_get_leaf_tensor(in, 0);
    if (tutti_status *status = tutti_variable_assign(static_cast<tutti_variable *>(variable),
                                                     replica, mine, nullptr)) {
      return status;
    }
    return tutti_context_all_gather(replica, in, 0, nullptr, out);
  };
  Value gathered;
  ASSERT_OK(tutti_strategy_run(strategy, assign, variable, distributed, nullptr, &gathered));
  EXPECT_EQ(
      FloatsIn(tutti_value_get_leaf_tensor(tutti_value_get_leaf_component(gathered, 0, 1), 0)),
      (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(FloatsIn(tutti_variable_get_copy(variable, 0)), (std::vector<float>{2, 3}));
  EXPECT_TRUE(tutti_tensor_equal(tutti_variable_get_copy(variable, 0),
                                 tutti_variable_get_copy(variable, 1)));
  EXPECT_STREQ(tutti_variable_get_copy_name(variable, 1), "w/replica_1");
  EXPECT_EQ(tutti_variable_get_synchronization(variable), TUTTI_SYNCHRONIZATION_ON_WRITE);
  EXPECT_EQ(tutti_variable_get_strategy(variable), static_cast<tutti_strategy *>(strategy));
}

TEST_F(SurfaceTest, DatasetsFromAFunctionAreDealtOutAndResumed) {
  Strategy strategy = MirroredOver(2);
  const auto make = [](tutti_context *context, const tutti_value *in, tutti_value **out,
                       void *) -> tutti_status * {
    const tutti_tensor *replicas = nullptr;
    EXPECT_EQ(tutti_context_get_class(context), TUTTI_CALLBACK_CROSS_REPLICA);
    EXPECT_OK(tutti_value_find_tensor(in, "num_replicas_in_sync", &replicas));
    EXPECT_EQ(*static_cast<const int64_t *>(tutti_tensor_get_data(replicas)), 2);
    Dataset dataset = RangeOf(12);
    EXPECT_OK(tutti_dataset_batch(&dataset, 2, nullptr));
    return tutti_value_create_dataset(dataset, out);
  };
  DistributedDataset dataset;
  ASSERT_OK(tutti_strategy_distribute_datasets_from_function(strategy, {make, nullptr, nullptr},
                                                             nullptr, nullptr, &dataset));
  EXPECT_EQ(tutti_distributed_dataset_get_cardinality(dataset), 3);
  DistributedIterator iterator, again;
  Value step, expected;
  Bytes state;
  ASSERT_OK(tutti_distributed_iterator_create(dataset, nullptr, &iterator));
  ASSERT_OK(tutti_distributed_iterator_next(iterator, nullptr, &step));
  ASSERT_OK(tutti_distributed_iterator_save(iterator, nullptr, &state));
  const tutti_string_view bytes = tutti_bytes_get_view(state);
  ASSERT_OK(tutti_distributed_iterator_create(dataset, nullptr, &again));
  ASSERT_OK(tutti_distributed_iterator_restore(again, bytes.data, bytes.size, nullptr));
  ASSERT_OK(tutti_distributed_iterator_next(again, nullptr, &expected));
  const tutti_tensor *second =
      tutti_value_get_leaf_tensor(tutti_value_get_leaf_component(expected, 0, 1), 0);
  EXPECT_EQ(static_cast<const int64_t *>(tutti_tensor_get_data(second))[0], 6);
  EXPECT_OK(tutti_distributed_iterator_close(again, nullptr));
}

}  // namespace
}  // namespace tutti::capi_test
