// Sources of datasets, positions in them and their definitions through the C interface: that
// arguments arrive where they should and results come back.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <tuple>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using SurfaceTest = CInterfaceTest;

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

}  // namespace
}  // namespace tutti::capi_test
