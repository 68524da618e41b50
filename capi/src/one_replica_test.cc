// Strategies of one replica: the steps of their datasets are plain, and tell run the rows of the
// step as those of several replicas do.
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using DistributedDataset = Handle<tutti_distributed_dataset, tutti_distributed_dataset_release>;
using DistributedIterator = Handle<tutti_distributed_iterator, tutti_distributed_iterator_release>;

class OneReplicaTest : public CInterfaceTest {
 protected:
  // The default strategy, one of one device, and a mirrored one.
  static Strategy Make(int which) {
    Strategy strategy;
    if (which == 0) {
      EXPECT_OK(tutti_strategy_create_default(nullptr, &strategy));
    }
    if (which == 1) {
      EXPECT_OK(tutti_strategy_create_one_device(nullptr, "CPU:1", nullptr, nullptr, &strategy));
    }
    return which == 2 ? MirroredOver(1) : std::move(strategy);
  }
  // {'x': 0 to 6 as float32} in batches of four.
  static Dataset Batches() {
    Dataset dataset;
    Value numbers, all;
    numbers = ValueOf(Floats({0, 1, 2, 3, 4, 5, 6}));
    const char *key = "x";
    const tutti_value *part = numbers;
    EXPECT_OK(tutti_value_create_dict(1, &key, &part, &all));
    EXPECT_OK(tutti_dataset_create_from_tensor_slices(nullptr, all, nullptr, &dataset));
    EXPECT_OK(tutti_dataset_batch(&dataset, 4, nullptr));
    return dataset;
  }
  static DistributedIterator StepsOf(tutti_strategy *strategy, tutti_tristate prefetch) {
    tutti_input_options options = TUTTI_INPUT_OPTIONS_INIT;
    options.prefetch_to_device = prefetch;
    DistributedDataset dataset;
    DistributedIterator iterator;
    EXPECT_OK(
        tutti_strategy_distribute_dataset(strategy, Batches(), &options, nullptr, &dataset));
    EXPECT_OK(tutti_distributed_iterator_create(dataset, nullptr, &iterator));
    return iterator;
  }
  // What a replica is told when it is given `args`.
  static int64_t RowsSeen(tutti_strategy *strategy, const tutti_value *args) {
    const auto rows = [](tutti_context *replica, const tutti_value *, tutti_value **out,
                         void *) -> tutti_status * {
      return tutti_value_create_int64(tutti_context_get_global_rows(replica), out);
    };
    Value seen;
    EXPECT_OK(tutti_strategy_run(strategy, rows, nullptr, args, nullptr, &seen));
    return NumberIn(seen);
  }
};

TEST_F(OneReplicaTest, AStepIsPlainAndTellsRunItsRowsByAnyPart) {
  for (int which = 0; which < 3; ++which) {
    for (const tutti_tristate prefetch : {TUTTI_TRUE, TUTTI_FALSE}) {
      Strategy strategy = Make(which);
      DistributedIterator iterator = StepsOf(strategy, prefetch);
      for (const int64_t rows : {4, 3}) {
        Value step, leaf, alone, list, rebuilt, reduced, gathered;
        ASSERT_OK(tutti_distributed_iterator_next(iterator, nullptr, &step));
        EXPECT_EQ(tutti_value_get_leaf_kind(step, 0), TUTTI_LEAF_TENSOR);
        EXPECT_EQ(tutti_value_get_leaf_component_count(step, 0), 0u);
        EXPECT_EQ(RowsSeen(strategy, step), rows);
        ASSERT_OK(tutti_value_leaf(step, 0, &leaf));
        EXPECT_EQ(RowsSeen(strategy, leaf), rows);
        const tutti_tensor *tensor = nullptr;
        ASSERT_OK(tutti_value_find_tensor(step, "x", &tensor));
        EXPECT_EQ(tutti_tensor_get_dims(tensor)[0], rows);
        ASSERT_OK(tutti_value_create_tensor(tensor, &alone));
        EXPECT_EQ(RowsSeen(strategy, alone), rows);
        const tutti_value *parts[] = {alone, step};
        ASSERT_OK(tutti_value_create_list(2, parts, &list));
        EXPECT_EQ(RowsSeen(strategy, list), rows);
        const tutti_value *own = leaf;
        ASSERT_OK(
            tutti_value_create_from_leaves(tutti_value_get_treespec(step), 1, &own, &rebuilt));
        EXPECT_EQ(RowsSeen(strategy, rebuilt), rows);

        Tensor copy;
        Value copied;
        ASSERT_OK(tutti_tensor_copy(tensor, &copy));
        ASSERT_OK(tutti_value_create_tensor(copy, &copied));
        EXPECT_EQ(RowsSeen(strategy, copied), -1);
        ASSERT_OK(tutti_strategy_reduce(strategy, TUTTI_REDUCE_SUM, step, nullptr, nullptr,
                                        &reduced));
        EXPECT_EQ(RowsSeen(strategy, reduced), -1);
        ASSERT_OK(tutti_strategy_gather(strategy, step, 0, nullptr, &gathered));
        EXPECT_EQ(FloatsIn(tutti_value_get_leaf_tensor(gathered, 0)), FloatsIn(tensor));
        EXPECT_EQ(RowsSeen(strategy, gathered), -1);
      }
      Value end;
      ASSERT_OK(tutti_distributed_iterator_next(iterator, nullptr, &end));
      EXPECT_EQ(static_cast<tutti_value *>(end), nullptr);
    }
  }
}

TEST_F(OneReplicaTest, OptionalStepsAndThoseBehindARestoredPositionKnowTheirRows) {
  Strategy strategy = Make(2);
  DistributedIterator iterator = StepsOf(strategy, TUTTI_TRUE);
  DistributedIterator again = StepsOf(strategy, TUTTI_FALSE);
  Value first, second, restored;
  Bytes state;
  ASSERT_OK(tutti_distributed_iterator_next_optional(iterator, nullptr, &first));
  EXPECT_EQ(RowsSeen(strategy, tutti_value_get_leaf_optional(first, 0)), 4);
  ASSERT_OK(tutti_distributed_iterator_save(iterator, nullptr, &state));
  const tutti_string_view bytes = tutti_bytes_get_view(state);
  ASSERT_OK(tutti_distributed_iterator_restore(again, bytes.data, bytes.size, nullptr));
  ASSERT_OK(tutti_distributed_iterator_next_optional(iterator, nullptr, &second));
  ASSERT_OK(tutti_distributed_iterator_next(again, nullptr, &restored));
  EXPECT_EQ(RowsSeen(strategy, tutti_value_get_leaf_optional(second, 0)), 3);
  EXPECT_EQ(RowsSeen(strategy, restored), 3);
}

TEST_F(OneReplicaTest, TrainingGivesTheSameBitsUnderEveryStrategy) {
  // x is to be 1: the weight goes down the gradient of the squared error.
  struct Model {
    float weight = 0;
    float Change(const tutti_value *batch, int64_t rows) const {
      float sum = 0;
      for (const float x : FloatsIn(tutti_value_get_leaf_tensor(batch, 0))) {
        sum += (weight * x - 1) * x;
      }
      return 0.1f / static_cast<float>(rows) * sum;
    }
  };
  Model expected;
  Iterator batches;
  ASSERT_OK(tutti_iterator_create(Batches(), nullptr, nullptr, &batches));
  while (true) {
    Value batch;
    ASSERT_OK(tutti_iterator_next(batches, nullptr, &batch));
    if (batch == nullptr) break;
    const int64_t rows = tutti_tensor_get_dims(tutti_value_get_leaf_tensor(batch, 0))[0];
    expected.weight -= expected.Change(batch, rows);
  }
  EXPECT_GT(expected.weight, 0.1f);
  const auto step = [](tutti_context *replica, const tutti_value *in, tutti_value **out,
                       void *model) -> tutti_status * {
    const float change =
        static_cast<Model *>(model)->Change(in, tutti_context_get_global_rows(replica));
    return tutti_context_all_reduce(replica, TUTTI_REDUCE_SUM, ValueOf(Floats({change})), nullptr,
                                    out);
  };
  for (int which = 0; which < 3; ++which) {
    Model model;
    Strategy strategy = Make(which);
    DistributedIterator iterator = StepsOf(strategy, TUTTI_TRUE);
    while (true) {
      Value batch, change;
      ASSERT_OK(tutti_distributed_iterator_next(iterator, nullptr, &batch));
      if (batch == nullptr) break;
      ASSERT_OK(tutti_strategy_run(strategy, step, &model, batch, nullptr, &change));
      model.weight -= FloatsIn(tutti_value_get_leaf_tensor(change, 0))[0];
    }
    EXPECT_EQ(model.weight, expected.weight) << tutti_strategy_get_type_name(strategy);
  }
}

}  // namespace
}  // namespace tutti::capi_test
