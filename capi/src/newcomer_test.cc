// What a program in C meets first: statuses that print themselves, closing nothing, whole values
// between ranks, checkpoints of ranks, examples, elements that cannot be written.
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using Ranks = Handle<tutti_communicator, tutti_communicator_release>;
using ValueHandle = Handle<tutti_value, tutti_value_release>;

class NewcomerTest : public CInterfaceTest {
 protected:
  static std::string Taken(tutti_bytes *bytes) {
    const tutti_string_view view = tutti_bytes_get_view(bytes);
    std::string text(view.data, view.size);
    tutti_bytes_release(bytes);
    return text;
  }
  static std::string TextOf(const tutti_value *value) {
    tutti_bytes *bytes = nullptr;
    EXPECT_OK(tutti_value_to_string(value, &bytes));
    return Taken(bytes);
  }
};

TEST_F(NewcomerTest, AStatusPrintsItselfAndGivesItsCode) {
  EXPECT_EQ(tutti_status_report(nullptr, "nothing"), TUTTI_OK);
  testing::internal::CaptureStderr();
  Dataset dataset = RangeOf(3);
  tutti_dataset *raw = dataset;
  EXPECT_EQ(tutti_status_report(tutti_dataset_batch(&raw, -1, nullptr), "my batches"),
            TUTTI_INVALID_ARGUMENT);
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(printed.rfind("my batches: INVALID_ARGUMENT: ", 0), 0u) << printed;
  EXPECT_EQ(printed.back(), '\n');
}

TEST_F(NewcomerTest, ClosingNothingIsFineWhereReleasingNothingIs) {
  EXPECT_OK(tutti_cluster_close(nullptr, nullptr));
  EXPECT_OK(tutti_communicator_close(nullptr, nullptr));
  EXPECT_OK(tutti_distributed_iterator_close(nullptr, nullptr));
  EXPECT_OK(tutti_iterator_close(nullptr, nullptr));
  EXPECT_OK(tutti_strategy_close(nullptr, nullptr));
  EXPECT_OK(tutti_tf_record_writer_close(nullptr));
}

TEST_F(NewcomerTest, WholeValuesGoBetweenRanks) {
  tutti_communicator *ranks[2] = {};
  ASSERT_OK(tutti_communicator_create_local(nullptr, 2, nullptr, ranks));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ValueHandle mine;
      EXPECT_OK(tutti_value_create_int64(40 + rank, &mine));
      ValueHandle all;
      EXPECT_OK(tutti_communicator_all_gather_value(ranks[rank], mine, nullptr, &all));
      EXPECT_EQ(TextOf(all), "[40, 41]");
      ValueHandle sent;
      const tutti_value *given = nullptr;
      if (rank == 1) given = mine;
      EXPECT_OK(tutti_communicator_broadcast_value(ranks[rank], given, 1, nullptr, &sent));
      EXPECT_EQ(TextOf(sent), "41");
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (tutti_communicator *rank : ranks) {
    EXPECT_OK(tutti_communicator_close(rank, nullptr));
    tutti_communicator_release(rank);
  }
}

TEST_F(NewcomerTest, AValueComesBackFromItsBytes) {
  ValueHandle number;
  ASSERT_OK(tutti_value_create_float64(2.5, &number));
  ValueHandle text;
  ASSERT_OK(tutti_value_create_string({"seven", 5}, &text));
  const char *const keys[] = {"b", "a"};
  const tutti_value *const parts[] = {number, text};
  ValueHandle dict;
  ASSERT_OK(tutti_value_create_dict(2, keys, parts, &dict));
  tutti_bytes *bytes = nullptr;
  ASSERT_OK(tutti_value_serialize(dict, &bytes));
  const std::string serialized = Taken(bytes);
  ValueHandle again;
  ASSERT_OK(tutti_value_parse(nullptr, serialized.data(), serialized.size(), &again));
  EXPECT_EQ(TextOf(again), TextOf(dict));
  ValueHandle none;
  EXPECT_FAILS(tutti_value_parse(nullptr, "\xff\xff", 2, &none), TUTTI_INVALID_ARGUMENT,
               "2 bytes are no value");
}

TEST_F(NewcomerTest, AnExampleHasTheBytesOfItsMessage) {
  ValueHandle one;
  ASSERT_OK(tutti_value_create_int64(1, &one));
  const char *const keys[] = {"a"};
  const tutti_value *const parts[] = {one};
  ValueHandle features;
  ASSERT_OK(tutti_value_create_dict(1, keys, parts, &features));
  tutti_bytes *bytes = nullptr;
  ASSERT_OK(tutti_example_create(features, &bytes));
  EXPECT_EQ(Taken(bytes), std::string("\x0a\x0c\x0a\x0a\x0a\x01\x61\x12\x05\x1a\x03\x0a\x01\x01"));
  EXPECT_FAILS(tutti_example_create(one, &bytes), TUTTI_INVALID_ARGUMENT, "a dict of tensors");
}

TEST_F(NewcomerTest, AViewThatCannotBeWrittenIsOne) {
  const int64_t dims[] = {2};
  Tensor tensor;
  ASSERT_OK(tutti_tensor_create(nullptr, TUTTI_DTYPE_INT64, 1, dims, nullptr, &tensor));
  Tensor fixed;
  ASSERT_OK(tutti_tensor_as_read_only(tensor, &fixed));
  EXPECT_EQ(tutti_tensor_is_read_only(fixed), 1);
  EXPECT_EQ(tutti_tensor_get_data(fixed), tutti_tensor_get_data(tensor));
  void *data = nullptr;
  EXPECT_FAILS(tutti_tensor_get_mutable_data(fixed, &data), TUTTI_FAILED_PRECONDITION,
               "read-only");
  EXPECT_OK(tutti_tensor_get_mutable_data(tensor, &data));
}

TEST_F(NewcomerTest, AStrategyOfOneProcessHasACommunicatorOfOneRank) {
  Strategy strategy = MirroredOver(2);
  tutti_cluster *cluster = nullptr;
  ASSERT_OK(tutti_strategy_get_cluster(strategy, &cluster));
  EXPECT_EQ(cluster, nullptr);
  Ranks ranks;
  ASSERT_OK(tutti_strategy_communicator(strategy, nullptr, &ranks));
  EXPECT_EQ(tutti_communicator_get_size(ranks), 1);
  EXPECT_OK(tutti_communicator_close(ranks, nullptr));
}

TEST_F(NewcomerTest, RanksSaveACheckpointTogether) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tutti_XXXXXX").string();
  const std::string folder = mkdtemp(pattern.data());
  tutti_communicator *ranks[2] = {};
  ASSERT_OK(tutti_communicator_create_local(nullptr, 2, nullptr, ranks));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      int64_t seven = 7;
      Tensor weights;
      EXPECT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, 0, nullptr, &seven,
                                              sizeof(seven), &weights));
      Handle<tutti_checkpoint, tutti_checkpoint_release> checkpoint;
      EXPECT_OK(tutti_checkpoint_create_for_communicator(ranks[rank], &checkpoint));
      EXPECT_OK(tutti_checkpoint_add_tensor(checkpoint, "w", weights));
      const std::string prefix = folder + "/ckpt";
      EXPECT_OK(tutti_checkpoint_save(checkpoint, prefix.c_str(), 3, nullptr));
      void *data = nullptr;
      EXPECT_OK(tutti_tensor_get_mutable_data(weights, &data));
      *static_cast<int64_t *>(data) = 0;
      int64_t step = 0;
      EXPECT_OK(tutti_checkpoint_restore(checkpoint, prefix.c_str(), nullptr, &step));
      EXPECT_EQ(step, 3);
      EXPECT_EQ(*static_cast<int64_t *>(data), 7);
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (tutti_communicator *rank : ranks) {
    EXPECT_OK(tutti_communicator_close(rank, nullptr));
    tutti_communicator_release(rank);
  }
  std::filesystem::remove_all(folder);
}

TEST_F(NewcomerTest, AFunctionThatFailsNamesTheRecordOfTheFile) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tutti_XXXXXX").string();
  const std::string folder = mkdtemp(pattern.data());
  const std::string path = folder + "/three";
  Handle<tutti_tf_record_writer, tutti_tf_record_writer_release> writer;
  ASSERT_OK(tutti_tf_record_writer_create(nullptr, path.c_str(), nullptr, &writer));
  for (int i = 0; i < 3; ++i) ASSERT_OK(tutti_tf_record_writer_write(writer, "bytes", 5));
  ASSERT_OK(tutti_tf_record_writer_close(writer));
  const auto refuse = [](tutti_context *, const tutti_value *, tutti_value **,
                         void *) -> tutti_status * {
    return tutti_status_create(TUTTI_NOT_FOUND, "never");
  };
  Function function;
  ASSERT_OK(tutti_function_create(nullptr, {refuse, nullptr, nullptr}, nullptr, &function));
  const char *const paths[] = {path.c_str()};
  tutti_dataset *records = nullptr;
  ASSERT_OK(tutti_dataset_create_tf_record_from_paths(nullptr, 1, paths, nullptr, &records));
  ASSERT_OK(tutti_dataset_map(&records, function, nullptr));
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(records, nullptr, nullptr, &iterator));
  for (int i = 0; i < 3; ++i) {
    ValueHandle element;
    EXPECT_FAILS(tutti_iterator_next(iterator, nullptr, &element), TUTTI_NOT_FOUND,
                 "element " + std::to_string(i) + " (record " + std::to_string(i) + " of \"" +
                     path + "\"): never");
  }
  EXPECT_OK(tutti_iterator_close(iterator, nullptr));
  tutti_dataset_release(records);
  std::filesystem::remove_all(folder);
}

TEST_F(NewcomerTest, InAJobOfSeveralACheckpointForOneselfIsRefused) {
  setenv("TF_CONFIG", R"({"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]},
                          "task": {"type": "worker", "index": 1}})", 1);
  std::string pattern = (std::filesystem::temp_directory_path() / "tutti_XXXXXX").string();
  const std::string folder = mkdtemp(pattern.data());
  Strategy strategy;
  ASSERT_OK(tutti_strategy_create_default(nullptr, &strategy));
  Tensor weights;
  const int64_t dims[] = {2};
  ASSERT_OK(tutti_tensor_create(nullptr, TUTTI_DTYPE_INT64, 1, dims, nullptr, &weights));
  Handle<tutti_checkpoint, tutti_checkpoint_release> mine;
  ASSERT_OK(tutti_checkpoint_create(strategy, &mine));
  ASSERT_OK(tutti_checkpoint_add_tensor(mine, "w", weights));
  EXPECT_FAILS(tutti_checkpoint_save(mine, (folder + "/a").c_str(), 1, nullptr),
               TUTTI_FAILED_PRECONDITION, "worker 1 of 2 of a job, as TF_CONFIG says");
  EXPECT_FAILS(tutti_checkpoint_write(mine, (folder + "/a.safetensors").c_str(), nullptr),
               TUTTI_FAILED_PRECONDITION, "overwrite each other's files; give the checkpoint the "
               "communicator or the cluster");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  // With ranks of its own it is taken.
  tutti_communicator *alone = nullptr;
  ASSERT_OK(tutti_communicator_create_local(nullptr, 1, nullptr, &alone));
  Handle<tutti_checkpoint, tutti_checkpoint_release> own;
  ASSERT_OK(tutti_checkpoint_create_for_communicator(alone, &own));
  ASSERT_OK(tutti_checkpoint_add_tensor(own, "w", weights));
  EXPECT_OK(tutti_checkpoint_save(own, (folder + "/b").c_str(), 1, nullptr));
  EXPECT_OK(tutti_communicator_close(alone, nullptr));
  tutti_communicator_release(alone);
  std::filesystem::remove_all(folder);
  unsetenv("TF_CONFIG");
}

}  // namespace
}  // namespace tutti::capi_test
