// Checkpoints through the C interface.
#include <stdlib.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using DistributedDataset = Handle<tutti_distributed_dataset, tutti_distributed_dataset_release>;
using DistributedIterator = Handle<tutti_distributed_iterator, tutti_distributed_iterator_release>;

class CheckpointTest : public CInterfaceTest {
 protected:
  CheckpointTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~CheckpointTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string &name) const { return folder_ + "/" + name; }

  static Tensor Int64(int64_t value) {
    Tensor tensor;
    EXPECT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, 0, nullptr, &value,
                                            sizeof(value), &tensor));
    return tensor;
  }
  static int64_t In(const tutti_variable *variable) {
    Tensor tensor;
    EXPECT_OK(tutti_variable_read(variable, nullptr, nullptr, &tensor));
    return *static_cast<const int64_t *>(tutti_tensor_get_data(tensor));
  }
  static Variable VariableOf(tutti_strategy *strategy, int64_t value) {
    Variable variable;
    EXPECT_OK(tutti_variable_create(strategy, Int64(value), nullptr, nullptr, &variable));
    return variable;
  }
  static void Set(tutti_variable *variable, int64_t value) {
    EXPECT_OK(tutti_variable_assign(variable, nullptr, Int64(value), nullptr));
  }
  static std::string Text(const tutti_bytes *bytes) {
    const tutti_string_view view = tutti_bytes_get_view(bytes);
    return std::string(view.data, view.size);
  }

  std::string folder_;
};

TEST_F(CheckpointTest, AVariableATensorAndAPositionComeBack) {
  Strategy strategy = MirroredOver(2);
  Variable weights = VariableOf(strategy, 5);
  Tensor step = Int64(7);
  Dataset dataset = RangeOf(8);
  ASSERT_OK(tutti_dataset_batch(&dataset, 2, nullptr));
  DistributedDataset distributed;
  DistributedIterator steps;
  Iterator plain;
  ASSERT_OK(tutti_strategy_distribute_dataset(strategy, dataset, nullptr, nullptr, &distributed));
  ASSERT_OK(tutti_distributed_iterator_create(distributed, nullptr, &steps));
  ASSERT_OK(tutti_iterator_create(RangeOf(8), nullptr, nullptr, &plain));
  Checkpoint checkpoint;
  ASSERT_OK(tutti_checkpoint_create(strategy, &checkpoint));
  ASSERT_OK(tutti_checkpoint_add_variable(checkpoint, "weights", weights));
  ASSERT_OK(tutti_checkpoint_add_tensor(checkpoint, "step", step));
  ASSERT_OK(tutti_checkpoint_add_distributed_iterator(checkpoint, "data", steps));
  ASSERT_OK(tutti_checkpoint_add_iterator(checkpoint, "plain", plain));
  EXPECT_FAILS(tutti_checkpoint_add_variable(checkpoint, "data", weights), TUTTI_ALREADY_EXISTS,
               "\"data\"");

  Value batch, second;
  ASSERT_OK(tutti_distributed_iterator_next(steps, nullptr, &batch));
  ASSERT_OK(tutti_iterator_next(plain, nullptr, &batch));
  const std::string prefix = Path("ckpt-3");
  ASSERT_OK(tutti_checkpoint_save(checkpoint, prefix.c_str(), 3, nullptr));
  ASSERT_OK(tutti_iterator_next(plain, nullptr, &batch));
  EXPECT_EQ(NumberIn(batch), 1);
  ASSERT_OK(tutti_distributed_iterator_next(steps, nullptr, &batch));
  Set(weights, 6);
  void *memory = nullptr;
  ASSERT_OK(tutti_tensor_get_mutable_data(step, &memory));
  *static_cast<int64_t *>(memory) = 8;

  int64_t saved_step = 0;
  ASSERT_OK(tutti_checkpoint_restore(checkpoint, prefix.c_str(), nullptr, &saved_step));
  EXPECT_EQ(saved_step, 3);
  EXPECT_EQ(In(weights), 5);
  EXPECT_EQ(*static_cast<const int64_t *>(tutti_tensor_get_data(step)), 7);
  ASSERT_OK(tutti_iterator_next(plain, nullptr, &second));
  EXPECT_EQ(NumberIn(second), 1);
  ASSERT_OK(tutti_distributed_iterator_next(steps, nullptr, &second));
  Bytes first_text, second_text;
  ASSERT_OK(tutti_value_to_string(batch, &first_text));
  ASSERT_OK(tutti_value_to_string(second, &second_text));
  EXPECT_EQ(Text(first_text), Text(second_text));
}

TEST_F(CheckpointTest, ObjectsAreSavedInTheOrderOfTheirNamesInWhateverOrderTheyWereAdded) {
  Strategy strategy = MirroredOver(2);
  std::vector<std::string> lists;
  for (const std::vector<const char *> &order :
       {std::vector<const char *>{"b", "\u00e9", "a/0", "a-1"},
        std::vector<const char *>{"a-1", "b", "a/0", "\u00e9"}}) {
    Checkpoint checkpoint;
    ASSERT_OK(tutti_checkpoint_create(strategy, &checkpoint));
    std::vector<Variable> variables(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      variables[i] = VariableOf(strategy, static_cast<int64_t>(i));
      ASSERT_OK(tutti_checkpoint_add_variable(checkpoint, order[i], variables[i]));
    }
    const std::string prefix = Path("ckpt-" + std::to_string(lists.size()));
    ASSERT_OK(tutti_checkpoint_save(checkpoint, prefix.c_str(), 1, nullptr));
    std::ifstream file(prefix + ".json");
    const std::string manifest((std::istreambuf_iterator<char>(file)), {});
    lists.push_back(manifest.substr(manifest.find("\"names\"")));
    lists.back().resize(lists.back().find(']'));
    std::erase_if(lists.back(), [](char c) { return std::isspace(static_cast<unsigned char>(c)); });
  }
  EXPECT_EQ(lists[0], "\"names\":[\"a-1\",\"a/0\",\"b\",\"\u00e9\"");
  EXPECT_EQ(lists[1], lists[0]);
}

TEST_F(CheckpointTest, AManagerKeepsTheLastFewAndFindsTheLatest) {
  Strategy strategy = MirroredOver(2);
  Variable weights = VariableOf(strategy, 0);
  Checkpoint checkpoint;
  ASSERT_OK(tutti_checkpoint_create(strategy, &checkpoint));
  ASSERT_OK(tutti_checkpoint_add_variable(checkpoint, "weights", weights));
  tutti_checkpoint_manager_options options = TUTTI_CHECKPOINT_MANAGER_OPTIONS_INIT;
  options.max_to_keep = 2;
  CheckpointManager manager;
  ASSERT_OK(tutti_checkpoint_manager_create(checkpoint, Path("run").c_str(), &options, &manager));
  int64_t step = 0;
  Bytes latest;
  ASSERT_OK(tutti_checkpoint_manager_restore_latest(manager, nullptr, &step));
  EXPECT_EQ(step, -1);
  ASSERT_OK(tutti_checkpoint_manager_latest(manager, &latest));
  EXPECT_EQ(latest, nullptr);
  for (int64_t i = 1; i <= 4; ++i) {
    Set(weights, i);
    Bytes prefix;
    ASSERT_OK(tutti_checkpoint_manager_save(manager, i, nullptr, &prefix));
    EXPECT_EQ(Text(prefix), Path("run/ckpt-" + std::to_string(i)));
  }
  Set(weights, 0);
  ASSERT_OK(tutti_checkpoint_manager_restore_latest(manager, nullptr, &step));
  EXPECT_EQ(step, 4);
  EXPECT_EQ(In(weights), 4);
  Value all;
  ASSERT_OK(tutti_checkpoint_manager_list(manager, &all));
  Bytes text;
  ASSERT_OK(tutti_value_to_string(all, &text));
  EXPECT_NE(Text(text).find("run/ckpt-3"), std::string::npos) << Text(text);
  EXPECT_EQ(Text(text).find("run/ckpt-2"), std::string::npos) << Text(text);

  options.max_to_keep = -2;
  EXPECT_FAILS(tutti_checkpoint_manager_create(checkpoint, folder_.c_str(), &options, &manager),
               TUTTI_INVALID_ARGUMENT, "max_to_keep");
}

TEST_F(CheckpointTest, ADamagedLatestIsNamedAndChangesNothing) {
  Strategy strategy = MirroredOver(2);
  Variable weights = VariableOf(strategy, 1);
  Checkpoint checkpoint;
  ASSERT_OK(tutti_checkpoint_create(strategy, &checkpoint));
  ASSERT_OK(tutti_checkpoint_add_variable(checkpoint, "weights", weights));
  CheckpointManager manager;
  ASSERT_OK(tutti_checkpoint_manager_create(checkpoint, folder_.c_str(), nullptr, &manager));
  ASSERT_OK(tutti_checkpoint_manager_save(manager, 1, nullptr, nullptr));
  std::filesystem::resize_file(Path("ckpt-1.safetensors"), 20);
  Set(weights, 2);
  int64_t step = 17;
  EXPECT_FAILS(tutti_checkpoint_manager_restore_latest(manager, nullptr, &step), TUTTI_DATA_LOSS,
               "ckpt-1.safetensors");
  EXPECT_EQ(step, 17);
  EXPECT_EQ(In(weights), 2);
}

TEST_F(CheckpointTest, OneFileIsWrittenAndReadBack) {
  Strategy strategy = MirroredOver(2);
  Variable weights = VariableOf(strategy, 1);
  Checkpoint checkpoint;
  ASSERT_OK(tutti_checkpoint_create(strategy, &checkpoint));
  ASSERT_OK(tutti_checkpoint_add_variable(checkpoint, "weights", weights));
  const std::string path = Path("model.safetensors");
  ASSERT_OK(tutti_checkpoint_write(checkpoint, path.c_str(), nullptr));
  Set(weights, 2);
  ASSERT_OK(tutti_checkpoint_read(checkpoint, path.c_str(), nullptr));
  EXPECT_EQ(In(weights), 1);
  EXPECT_FAILS(tutti_checkpoint_read(checkpoint, Path("none").c_str(), nullptr), TUTTI_NOT_FOUND,
               "none");
  std::ofstream(path) << "no tensors";
  EXPECT_FAILS(tutti_checkpoint_read(checkpoint, path.c_str(), nullptr), TUTTI_INVALID_ARGUMENT,
               path);
}

TEST_F(CheckpointTest, NullsAndReplicaContextsAreRefused) {
  Strategy strategy = MirroredOver(2);
  Checkpoint checkpoint;
  EXPECT_FAILS(tutti_checkpoint_create(nullptr, &checkpoint), TUTTI_INVALID_ARGUMENT, "strategy");
  ASSERT_OK(tutti_checkpoint_create(strategy, &checkpoint));
  EXPECT_FAILS(tutti_checkpoint_add_variable(checkpoint, "x", nullptr), TUTTI_INVALID_ARGUMENT,
               "variable");
  EXPECT_FAILS(tutti_checkpoint_save(checkpoint, nullptr, 1, nullptr), TUTTI_INVALID_ARGUMENT,
               "prefix");
  const auto save = [](tutti_context *, const tutti_value *, tutti_value **,
                       void *user_data) -> tutti_status * {
    return tutti_checkpoint_save(static_cast<tutti_checkpoint *>(user_data), "x", 1, nullptr);
  };
  Value out;
  tutti_checkpoint *raw = checkpoint;
  EXPECT_FAILS(tutti_strategy_run(strategy, save, raw, nullptr, nullptr, &out),
               TUTTI_FAILED_PRECONDITION, "tutti_checkpoint_save");
  ASSERT_OK(tutti_runtime_shutdown(nullptr, nullptr));
  EXPECT_FAILS(tutti_checkpoint_save(checkpoint, Path("x").c_str(), 1, nullptr),
               TUTTI_FAILED_PRECONDITION, "shut down");
}

}  // namespace
}  // namespace tutti::capi_test
