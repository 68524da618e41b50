// One look at each noun through the C interface: that arguments arrive where they should and
// results come back. Datasets have files of their own: surface_sources_test.cc, and
// surface_transformations_test.cc.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
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
