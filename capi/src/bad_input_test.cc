// Bad input through the C interface: each error has its code, says what was wrong and where, and
// carries what programs need as details.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

// A file in the test's temporary folder that goes with the test.
class File {
 public:
  explicit File(const std::string &name, const std::string &bytes = "")
      : path_(testing::TempDir() + "tutti_" + name + std::to_string(getpid())) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string &path() const { return path_; }
  std::string Read() const {
    std::ifstream stream(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }
  void Write(const std::string &bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

 private:
  const std::string path_;
};

using Writer = Handle<tutti_tf_record_writer, tutti_tf_record_writer_release>;

class BadInputTest : public CInterfaceTest {
 protected:
  static void WriteRecords(const std::string &path, const std::vector<std::string> &records) {
    Writer writer;
    ASSERT_OK(tutti_tf_record_writer_create(nullptr, path.c_str(), nullptr, &writer));
    for (const std::string &record : records) {
      ASSERT_OK(tutti_tf_record_writer_write(writer, record.data(), record.size()));
    }
    ASSERT_OK(tutti_tf_record_writer_close(writer));
  }
  static Dataset Records(const std::string &path) {
    const char *paths[] = {path.c_str()};
    Dataset records;
    EXPECT_OK(tutti_dataset_create_tf_record_from_paths(nullptr, 1, paths, nullptr, &records));
    return records;
  }
  // Reads elements until one fails; null when none does.
  static tutti_status *FirstFailure(const tutti_dataset *dataset) {
    Iterator iterator;
    tutti_status *status = tutti_iterator_create(dataset, nullptr, nullptr, &iterator);
    while (status == nullptr) {
      Value value;
      status = tutti_iterator_next(iterator, nullptr, &value);
      if (status == nullptr && static_cast<tutti_value *>(value) == nullptr) break;
    }
    return status;
  }
  static bool HasDetail(const tutti_status *status, const std::string &key) {
    for (size_t i = 0; i < tutti_status_get_detail_count(status); ++i) {
      tutti_detail detail = TUTTI_DETAIL_INIT;
      EXPECT_OK(tutti_status_get_detail(status, i, &detail));
      if (key == detail.key) return true;
    }
    return false;
  }
};

TEST_F(BadInputTest, AMissingFileIsNotFoundAndNamed) {
  EXPECT_FAILS(FirstFailure(Records("/no/such/file.tfrecord")), TUTTI_NOT_FOUND,
               "/no/such/file.tfrecord");
}

TEST_F(BadInputTest, PatternsThatMatchNothingAreNotFoundAndNamed) {
  const char *patterns[] = {"/no/such/digits-*"};
  Dataset files;
  ASSERT_OK(tutti_dataset_create_list_files(nullptr, 1, patterns, nullptr, &files));
  EXPECT_FAILS(FirstFailure(files), TUTTI_NOT_FOUND, "/no/such/digits-*");
}

TEST_F(BadInputTest, ATruncatedRecordNamesFileOffsetAndIndex) {
  const File file("truncated");
  WriteRecords(file.path(), {"the first", "the second"});
  const std::string whole = file.Read();
  file.Write(whole.substr(0, whole.size() - 3));
  tutti_status *status = FirstFailure(Records(file.path()));
  for (const char *key : {"file", "offset", "index"}) EXPECT_TRUE(HasDetail(status, key)) << key;
  EXPECT_FAILS(status, TUTTI_DATA_LOSS, file.path());
}

TEST_F(BadInputTest, ACorruptRecordNamesFileOffsetAndIndex) {
  const File file("corrupt");
  WriteRecords(file.path(), {"the first", "the second"});
  std::string bytes = file.Read();
  bytes[14] ^= 1;  // in the data of the first record
  file.Write(bytes);
  tutti_status *status = FirstFailure(Records(file.path()));
  for (const char *key : {"file", "offset", "index"}) EXPECT_TRUE(HasDetail(status, key)) << key;
  EXPECT_FAILS(status, TUTTI_DATA_LOSS, file.path());
}

TEST_F(BadInputTest, AMalformedExampleIsInvalidArgument) {
  const File file("malformed");
  WriteRecords(file.path(), {"\x0a\xff\xff"});
  tutti_feature label = TUTTI_FEATURE_INIT;
  label.key = "label";
  label.dtype = TUTTI_DTYPE_INT64;
  const tutti_feature *features[] = {&label};
  Function parse;
  ASSERT_OK(tutti_function_create_parse_example(nullptr, 1, features, &parse));
  Dataset examples = Records(file.path());
  ASSERT_OK(tutti_dataset_map(&examples, parse, nullptr));
  EXPECT_FAILS(FirstFailure(examples), TUTTI_INVALID_ARGUMENT, "xample");
}

TEST_F(BadInputTest, AnAssertionOfRowsNamesFileAndElement) {
  const File file("rows", "good\nbad\ngood\n");
  Tensor bad;
  const tutti_string_view text = {"bad", 3};
  ASSERT_OK(tutti_tensor_create_from_strings(nullptr, 0, nullptr, 1, &text, &bad));
  tutti_assertion_options options = TUTTI_ASSERTION_OPTIONS_INIT;
  options.message = "lines";
  Function check;
  EXPECT_FAILS(tutti_function_create_assertion(nullptr, TUTTI_ASSERTION_NONE_EQUAL, nullptr, 0,
                                               nullptr, &options, &check),
               TUTTI_INVALID_ARGUMENT, "expected one of the two");
  EXPECT_FAILS(tutti_function_create_assertion(nullptr, 99, bad, 0, nullptr, &options, &check),
               TUTTI_INVALID_ARGUMENT, "none of number 99");
  ASSERT_OK(tutti_function_create_assertion(nullptr, TUTTI_ASSERTION_NONE_EQUAL, bad, 0, nullptr,
                                            &options, &check));
  Tensor name;
  const tutti_string_view path = {file.path().data(), file.path().size()};
  ASSERT_OK(tutti_tensor_create_from_strings(nullptr, 0, nullptr, 1, &path, &name));
  Dataset files, lines;
  ASSERT_OK(tutti_dataset_create_from_tensors(nullptr, ValueOf(name), nullptr, &files));
  ASSERT_OK(tutti_dataset_create_text_line(nullptr, files, nullptr, &lines));
  ASSERT_OK(tutti_dataset_map(&lines, check, nullptr));
  tutti_status *failure = FirstFailure(lines);
  for (const char *key : {"source_file", "source_record", "index", "node", "row"}) {
    EXPECT_TRUE(HasDetail(failure, key)) << key;
  }
  EXPECT_FAILS(failure, TUTTI_INVALID_ARGUMENT,
               "map: element 1 (record 1 of \"" + file.path() +
                   "\"): lines: assert_none_equal: x != y does not hold at []");
}

TEST_F(BadInputTest, AFeatureOfADTypeThatExamplesDoNotHaveIsRefused) {
  tutti_feature feature = TUTTI_FEATURE_INIT;
  feature.key = "z";
  feature.dtype = TUTTI_DTYPE_COMPLEX64;
  const tutti_feature *features[] = {&feature};
  Function parse;
  EXPECT_FAILS(tutti_function_create_parse_example(nullptr, 1, features, &parse),
               TUTTI_INVALID_ARGUMENT, "complex64");
}

TEST_F(BadInputTest, AWrongDTypeNamesBoth) {
  Strategy strategy = MirroredOver(2);
  Tensor floats, integers;
  Variable variable;
  ASSERT_OK(tutti_tensor_create(nullptr, TUTTI_DTYPE_FLOAT32, 0, nullptr, nullptr, &floats));
  ASSERT_OK(tutti_tensor_create(nullptr, TUTTI_DTYPE_INT32, 0, nullptr, nullptr, &integers));
  ASSERT_OK(tutti_variable_create(strategy, floats, nullptr, nullptr, &variable));
  EXPECT_FAILS(tutti_variable_assign(variable, nullptr, integers, nullptr), TUTTI_INVALID_ARGUMENT,
               "int32");
  EXPECT_FAILS(tutti_tensor_copy_into(floats, integers), TUTTI_INVALID_ARGUMENT, "float32");
}

TEST_F(BadInputTest, UnequalShapesInABatchNameBoth) {
  struct Shapes {
    int64_t next = 2;
  } shapes;
  // Elements int8[2], int8[3].
  const auto grow = [](tutti_context *, const tutti_value *, tutti_value **out,
                       void *user_data) -> tutti_status * {
    const int64_t dims[] = {static_cast<Shapes *>(user_data)->next++};
    Tensor tensor;
    if (tutti_status *status =
            tutti_tensor_create(nullptr, TUTTI_DTYPE_INT8, 1, dims, nullptr, &tensor)) {
      return status;
    }
    return tutti_value_create_tensor(tensor, out);
  };
  Function function;
  ASSERT_OK(tutti_function_create(nullptr, {grow, &shapes, nullptr}, nullptr, &function));
  Dataset dataset = RangeOf(2);
  ASSERT_OK(tutti_dataset_map(&dataset, function, nullptr));
  ASSERT_OK(tutti_dataset_batch(&dataset, 2, nullptr));
  tutti_status *status = FirstFailure(dataset);
  EXPECT_THAT(tutti_status_get_message(status), testing::HasSubstr("[2]"));
  EXPECT_FAILS(status, TUTTI_INVALID_ARGUMENT, "[3]");
}

TEST_F(BadInputTest, ACallbackThatFailsEndsTheElementAndTheNextOneComes) {
  const auto odd_fails = [](tutti_context *, const tutti_value *in, tutti_value **out,
                            void *) -> tutti_status * {
    if (NumberIn(in) % 2 == 1) return tutti_status_create(TUTTI_ABORTED, "an odd number");
    return tutti_value_create_int64(NumberIn(in), out);
  };
  Function function;
  ASSERT_OK(tutti_function_create(nullptr, {odd_fails, nullptr, nullptr}, nullptr, &function));
  Dataset dataset = RangeOf(3);
  ASSERT_OK(tutti_dataset_map(&dataset, function, nullptr));
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  Value zero, one, two, end;
  EXPECT_OK(tutti_iterator_next(iterator, nullptr, &zero));
  EXPECT_FAILS(tutti_iterator_next(iterator, nullptr, &one), TUTTI_ABORTED, "an odd number");
  EXPECT_OK(tutti_iterator_next(iterator, nullptr, &two));
  EXPECT_EQ(NumberIn(two), 2);
  EXPECT_OK(tutti_iterator_next(iterator, nullptr, &end));
  EXPECT_EQ(static_cast<tutti_value *>(end), nullptr);
}

TEST_F(BadInputTest, AMemoryLimitHoldsForEveryWayOfMakingATensor) {
  const char *key = "memory_limit";
  const char *value = "1M";
  tutti_runtime_options options = TUTTI_RUNTIME_OPTIONS_INIT;
  options.setting_count = 1;
  options.setting_keys = &key;
  options.setting_values = &value;
  Runtime runtime;
  ASSERT_OK(tutti_runtime_create(&options, &runtime));
  const std::string bytes(2 << 20, 'x');
  const int64_t dims[] = {2 << 20};
  const int64_t one[] = {1};
  const tutti_string_view text = {bytes.data(), bytes.size()};
  Tensor tensor;
  EXPECT_FAILS(tutti_tensor_create(runtime, TUTTI_DTYPE_INT8, 1, dims, nullptr, &tensor),
               TUTTI_RESOURCE_EXHAUSTED, "memory");
  EXPECT_FAILS(tutti_tensor_create_from_data(runtime, TUTTI_DTYPE_INT8, 1, dims, bytes.data(),
                                             bytes.size(), &tensor),
               TUTTI_RESOURCE_EXHAUSTED, "memory");
  EXPECT_FAILS(tutti_tensor_create_from_strings(runtime, 1, one, 1, &text, &tensor),
               TUTTI_RESOURCE_EXHAUSTED, "memory");
}

TEST_F(BadInputTest, AStringWithoutBytesIsNamed) {
  const int64_t dims[] = {3};
  tutti_string_view texts[] = {{"a", 1}, {nullptr, 0}, {nullptr, 5}};
  Tensor tensor;
  EXPECT_FAILS(tutti_tensor_create_from_strings(nullptr, 1, dims, 3, texts, &tensor),
               TUTTI_INVALID_ARGUMENT, "strings[2] has 5 bytes and a null pointer");
  texts[2].size = 0;
  ASSERT_OK(tutti_tensor_create_from_strings(nullptr, 1, dims, 3, texts, &tensor));
}

TEST_F(BadInputTest, AMismatchedCollectiveFailsOnAllRanksWithOneErrorThatNamesBothSides) {
  tutti_communicator *ranks[2] = {nullptr, nullptr};
  ASSERT_OK(tutti_communicator_create_local(nullptr, 2, nullptr, ranks));
  std::string messages[2];
  const auto reduce = [&](int rank) {
    const int64_t dims[] = {rank == 0 ? 8 : 4};
    Tensor tensor;
    ASSERT_OK(tutti_tensor_create(nullptr, TUTTI_DTYPE_FLOAT32, 1, dims, nullptr, &tensor));
    const Answer answer =
        tutti_communicator_all_reduce(ranks[rank], tensor, TUTTI_REDUCE_SUM, nullptr, tensor);
    EXPECT_EQ(answer.code(), TUTTI_INVALID_ARGUMENT);
    messages[rank] = answer.message();
  };
  std::thread other(reduce, 1);
  reduce(0);
  other.join();
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_THAT(messages[0], testing::AllOf(testing::HasSubstr("[8]"), testing::HasSubstr("[4]")));
  for (tutti_communicator *rank : ranks) tutti_communicator_release(rank);
}

TEST_F(BadInputTest, AnUnbatchedDatasetCannotBeDistributed) {
  Strategy strategy = MirroredOver(2);
  tutti_distributed_dataset *distributed = nullptr;
  EXPECT_FAILS(
      tutti_strategy_distribute_dataset(strategy, RangeOf(4), nullptr, nullptr, &distributed),
      TUTTI_INVALID_ARGUMENT, "batch");
  EXPECT_EQ(distributed, nullptr);
}

TEST_F(BadInputTest, ADeviceTwiceAndAnUnknownDeviceAreNamed) {
  const char *twice[] = {"CPU:1", "CPU:1"}, *unknown[] = {"CPU:0", "FPGA:3"};
  Strategy strategy;
  EXPECT_FAILS(tutti_strategy_create_mirrored(nullptr, 2, twice, nullptr, nullptr, &strategy),
               TUTTI_INVALID_ARGUMENT, "CPU:1");
  EXPECT_THAT(
      Answer(tutti_strategy_create_mirrored(nullptr, 2, unknown, nullptr, nullptr, &strategy))
          .message(),
      testing::HasSubstr("FPGA"));
}

TEST_F(BadInputTest, ABrokenStateOrDefinitionIsRefusedAndTheIteratorStays) {
  Dataset dataset = RangeOf(3), other;
  Iterator iterator;
  Value first, second;
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  ASSERT_OK(tutti_iterator_next(iterator, nullptr, &first));
  EXPECT_FAILS(tutti_iterator_restore(iterator, "garbage", 7, nullptr), TUTTI_INVALID_ARGUMENT, "");
  EXPECT_FAILS(tutti_iterator_restore(iterator, nullptr, 7, nullptr), TUTTI_INVALID_ARGUMENT,
               "tutti_iterator_restore: the argument state is NULL");
  EXPECT_FAILS(tutti_dataset_deserialize(nullptr, "garbage", 7, &other), TUTTI_INVALID_ARGUMENT,
               "");
  ASSERT_OK(tutti_iterator_next(iterator, nullptr, &second));
  EXPECT_EQ(NumberIn(second), 1);
}

}  // namespace
}  // namespace tutti::capi_test
