// Input pipelines of strategies: replication modes, specs of steps, and what is refused.
#include <string>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using DistributedDataset = Handle<tutti_distributed_dataset, tutti_distributed_dataset_release>;
using DistributedIterator = Handle<tutti_distributed_iterator, tutti_distributed_iterator_release>;

class InputTest : public CInterfaceTest {
 protected:
  // Pipeline i is 10 i, 10 i + 1, 10 i + 2 in batches of two.
  static tutti_status *Pipeline(tutti_context *, const tutti_value *in, tutti_value **out, void *) {
    const tutti_tensor *id = nullptr;
    EXPECT_OK(tutti_value_find_tensor(in, "input_pipeline_id", &id));
    const int64_t start = 10 * *static_cast<const int64_t *>(tutti_tensor_get_data(id));
    Dataset dataset;
    EXPECT_OK(tutti_dataset_create_range(nullptr, start, start + 3, 1, nullptr, &dataset));
    EXPECT_OK(tutti_dataset_batch(&dataset, 2, nullptr));
    return tutti_value_create_dataset(dataset, out);
  }
  static std::string TextOf(const tutti_value *value) {
    Bytes text;
    EXPECT_OK(tutti_value_to_string(value, &text));
    const tutti_string_view view = tutti_bytes_get_view(text);
    return std::string(view.data, view.size);
  }
  static std::string TextOf(const tutti_spec *spec) {
    Bytes text;
    EXPECT_OK(tutti_spec_to_string(spec, &text));
    const tutti_string_view view = tutti_bytes_get_view(text);
    return std::string(view.data, view.size);
  }
};

TEST_F(InputTest, EveryReplicaHasAPipelineOfItsOwnWhichIsSavedAndRestored) {
  Strategy strategy = MirroredOver(2);
  tutti_input_options options = TUTTI_INPUT_OPTIONS_INIT;
  options.replication_mode = TUTTI_INPUT_PER_REPLICA;
  for (const tutti_tristate on_device : {TUTTI_UNSET, TUTTI_TRUE}) {
    options.place_dataset_on_device = on_device;
    DistributedDataset dataset;
    DistributedIterator steps, again;
    Value first, second, restored, end;
    Bytes state;
    ASSERT_OK(tutti_strategy_distribute_datasets_from_function(
        strategy, {&Pipeline, nullptr, nullptr}, &options, nullptr, &dataset));
    ASSERT_OK(tutti_distributed_iterator_create(dataset, nullptr, &steps));
    ASSERT_OK(tutti_distributed_iterator_next(steps, nullptr, &first));
    EXPECT_EQ(TextOf(first), "PerReplica:{0: [0 1], 1: [10 11]}");
    ASSERT_OK(tutti_distributed_iterator_save(steps, nullptr, &state));
    ASSERT_OK(tutti_distributed_iterator_next(steps, nullptr, &second));
    EXPECT_EQ(TextOf(second), "PerReplica:{0: [2], 1: [12]}");
    ASSERT_OK(tutti_distributed_iterator_next(steps, nullptr, &end));
    EXPECT_EQ(static_cast<tutti_value *>(end), nullptr);
    ASSERT_OK(tutti_distributed_iterator_create(dataset, nullptr, &again));
    const tutti_string_view bytes = tutti_bytes_get_view(state);
    ASSERT_OK(tutti_distributed_iterator_restore(again, bytes.data, bytes.size, nullptr));
    ASSERT_OK(tutti_distributed_iterator_next(again, nullptr, &restored));
    EXPECT_EQ(TextOf(restored), TextOf(second));
  }
}

TEST_F(InputTest, TheSpecOfAStepHasThatOfEachReplica) {
  Strategy strategy = MirroredOver(2);
  Dataset batches = RangeOf(6);
  ASSERT_OK(tutti_dataset_batch(&batches, 4, nullptr));
  DistributedDataset dataset;
  DistributedIterator steps;
  ASSERT_OK(tutti_strategy_distribute_dataset(strategy, batches, nullptr, nullptr, &dataset));
  ASSERT_OK(tutti_distributed_iterator_create(dataset, nullptr, &steps));
  const tutti_spec *spec = tutti_distributed_dataset_get_element_spec(dataset);
  EXPECT_EQ(TextOf(spec), "PerReplica(int64[?], int64[?])");
  EXPECT_TRUE(tutti_spec_equal(spec, tutti_distributed_iterator_get_element_spec(steps)));
  EXPECT_EQ(tutti_spec_get_leaf_kind(spec, 0), TUTTI_LEAF_DISTRIBUTED);
  const tutti_spec *parts = tutti_spec_get_leaf_inner(spec, 0);
  ASSERT_EQ(tutti_spec_get_leaf_count(parts), 2u);
  EXPECT_EQ(tutti_spec_get_leaf_dtype(parts, 1), TUTTI_DTYPE_INT64);

  Spec part, made, of_step;
  const int64_t unknown = TUTTI_UNKNOWN_DIMENSION;
  ASSERT_OK(tutti_spec_create_tensor(TUTTI_DTYPE_INT64, 1, &unknown, &part));
  const tutti_spec *both[] = {part, part};
  ASSERT_OK(tutti_spec_create_per_replica(2, both, &made));
  EXPECT_TRUE(tutti_spec_equal(made, spec));
  Value step;
  ASSERT_OK(tutti_distributed_iterator_next(steps, nullptr, &step));
  ASSERT_OK(tutti_spec_create_from_value(step, &of_step));
  EXPECT_EQ(TextOf(of_step), "PerReplica(int64[2], int64[2])");
  EXPECT_TRUE(tutti_spec_is_compatible(made, of_step));
  EXPECT_FALSE(tutti_spec_is_compatible(part, of_step));

  Spec bad;
  EXPECT_FAILS(tutti_spec_create_per_replica(0, nullptr, &bad), TUTTI_INVALID_ARGUMENT,
               "a component for each replica, not none");
  const tutti_spec *nested[] = {part, made};
  EXPECT_FAILS(tutti_spec_create_per_replica(2, nested, &bad), TUTTI_INVALID_ARGUMENT,
               "component 1 of a distributed value is PerReplica");
  const tutti_spec *missing[] = {part, nullptr};
  EXPECT_FAILS(tutti_spec_create_per_replica(2, missing, &bad), TUTTI_INVALID_ARGUMENT,
               "components");
}

TEST_F(InputTest, NumbersFillUpTheLastStepWithZeros) {
  Strategy strategy = MirroredOver(2);
  const auto numbers = [](tutti_context *, const tutti_value *, tutti_value **out,
                          void *) -> tutti_status * {
    Dataset dataset;
    EXPECT_OK(tutti_dataset_create_range(nullptr, 1, 4, 1, nullptr, &dataset));
    return tutti_value_create_dataset(dataset, out);
  };
  DistributedDataset dataset;
  DistributedIterator steps;
  Value first, last;
  ASSERT_OK(tutti_strategy_distribute_datasets_from_function(
      strategy, {numbers, nullptr, nullptr}, nullptr, nullptr, &dataset));
  ASSERT_OK(tutti_distributed_iterator_create(dataset, nullptr, &steps));
  ASSERT_OK(tutti_distributed_iterator_next(steps, nullptr, &first));
  ASSERT_OK(tutti_distributed_iterator_next(steps, nullptr, &last));
  EXPECT_EQ(TextOf(last), "PerReplica:{0: 3, 1: 0}");
}

TEST_F(InputTest, AJointPositionOfAStrategyOverACommunicatorIsGoneTo) {
  tutti_communicator *rank = nullptr;
  ASSERT_OK(tutti_communicator_create_local(nullptr, 1, nullptr, &rank));
  Strategy strategy;
  ASSERT_OK(tutti_strategy_create_for_communicator(rank, "alone", nullptr, &strategy));
  EXPECT_EQ(tutti_strategy_get_worker_count(strategy), 1);
  Dataset numbers = RangeOf(6);
  ASSERT_OK(tutti_dataset_batch(&numbers, 2, nullptr));
  DistributedDataset dataset;
  DistributedIterator steps, again;
  Value first, second, restored;
  Bytes state;
  ASSERT_OK(tutti_strategy_distribute_dataset(strategy, numbers, nullptr, nullptr, &dataset));
  ASSERT_OK(tutti_distributed_iterator_create(dataset, nullptr, &steps));
  ASSERT_OK(tutti_distributed_iterator_next(steps, nullptr, &first));
  ASSERT_OK(tutti_distributed_iterator_save_joint(steps, nullptr, &state));
  ASSERT_OK(tutti_distributed_iterator_next(steps, nullptr, &second));
  // Another number of replicas goes on with every element, too.
  Strategy other = MirroredOver(2);
  DistributedDataset wider;
  ASSERT_OK(tutti_strategy_distribute_dataset(other, numbers, nullptr, nullptr, &wider));
  ASSERT_OK(tutti_distributed_iterator_create(wider, nullptr, &again));
  const tutti_string_view bytes = tutti_bytes_get_view(state);
  ASSERT_OK(tutti_distributed_iterator_restore(again, bytes.data, bytes.size, nullptr));
  ASSERT_OK(tutti_distributed_iterator_next(again, nullptr, &restored));
  EXPECT_EQ(TextOf(second), "[2 3]");
  EXPECT_EQ(TextOf(restored), "PerReplica:{0: [2], 1: [3]}");
  EXPECT_FAILS(tutti_strategy_create_for_communicator(nullptr, nullptr, nullptr, &strategy),
               TUTTI_INVALID_ARGUMENT, "communicator");
  tutti_communicator_release(rank);
}

TEST_F(InputTest, OptionsAreRefusedAsDocumented) {
  Strategy strategy = MirroredOver(2);
  Dataset dataset = RangeOf(4);
  ASSERT_OK(tutti_dataset_batch(&dataset, 2, nullptr));
  tutti_input_options options = TUTTI_INPUT_OPTIONS_INIT;
  DistributedDataset distributed;
  const auto from_function = [&] {
    return tutti_strategy_distribute_datasets_from_function(
        strategy, {&Pipeline, nullptr, nullptr}, &options, nullptr, &distributed);
  };
  options.replication_mode = TUTTI_INPUT_PER_REPLICA;
  EXPECT_FAILS(
      tutti_strategy_distribute_dataset(strategy, dataset, &options, nullptr, &distributed),
      TUTTI_UNIMPLEMENTED, "use PER_WORKER");
  options.place_dataset_on_device = TUTTI_TRUE;
  options.prefetch_to_device = TUTTI_TRUE;
  EXPECT_FAILS(from_function(), TUTTI_INVALID_ARGUMENT, "set prefetch_to_device to false");
  options.prefetch_to_device = TUTTI_UNSET;
  EXPECT_OK(from_function());
  options.replication_mode = TUTTI_INPUT_PER_WORKER;
  EXPECT_FAILS(from_function(), TUTTI_INVALID_ARGUMENT, "needs the replication mode PER_REPLICA");
  options.replication_mode = 3;
  EXPECT_FAILS(from_function(), TUTTI_INVALID_ARGUMENT, "the option replication_mode is 3");
}

}  // namespace
}  // namespace tutti::capi_test
