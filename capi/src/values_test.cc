// Values and variables of a strategy through the C interface: distributions, sparse updates,
// variables that replicas make.
#include <string>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using ValuesTest = CInterfaceTest;

Tensor PlacesOf(const std::vector<int64_t> &items) {
  Tensor tensor;
  const int64_t count = static_cast<int64_t>(items.size());
  EXPECT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, 1, &count, items.data(),
                                          items.size() * sizeof(int64_t), &tensor));
  return tensor;
}

Value SlicesOf(const std::vector<float> &values, const std::vector<int64_t> &indices) {
  Value slices;
  EXPECT_OK(tutti_value_create_indexed_slices(Floats(values), PlacesOf(indices), nullptr, &slices));
  return slices;
}

TEST_F(ValuesTest, AMirroredValueSaysThatItIsOne) {
  const Strategy strategy = MirroredOver(2);
  const Value value = ValueOf(Floats({1, 2}));
  Value mirrored, differs, mean;
  ASSERT_OK(tutti_strategy_create_mirrored_value(strategy, value, &mirrored));
  EXPECT_EQ(tutti_value_get_leaf_distribution(mirrored, 0), TUTTI_DISTRIBUTION_MIRRORED);
  EXPECT_EQ(tutti_value_get_leaf_component_count(mirrored, 0), 2u);
  const tutti_value *const components[] = {value, value};
  ASSERT_OK(tutti_strategy_create_per_replica(strategy, 2, components, &differs));
  EXPECT_EQ(tutti_value_get_leaf_distribution(differs, 0), TUTTI_DISTRIBUTION_PER_REPLICA);
  EXPECT_EQ(tutti_value_get_leaf_distribution(value, 0), 0);
  EXPECT_EQ(tutti_value_get_leaf_distribution(mirrored, 1), 0);
  ASSERT_OK(tutti_strategy_reduce(strategy, TUTTI_REDUCE_MEAN, mirrored, nullptr, nullptr, &mean));
  EXPECT_EQ(FloatsIn(tutti_value_get_leaf_tensor(mean, 0)), (std::vector<float>{1, 2}));
  EXPECT_FAILS(tutti_strategy_create_mirrored_value(strategy, differs, &mean),
               TUTTI_INVALID_ARGUMENT, "component per replica already");
}

TEST_F(ValuesTest, IndexedSlicesAreCheckedAndNamed) {
  const Value slices = SlicesOf({1, 2}, {3, 1});
  EXPECT_STREQ(tutti_treespec_get_type_name(tutti_value_get_treespec(slices)),
               TUTTI_INDEXED_SLICES_TYPE_NAME);
  Value none;
  EXPECT_FAILS(tutti_value_create_indexed_slices(Floats({1}), PlacesOf({3, 1}), nullptr, &none),
               TUTTI_INVALID_ARGUMENT, "one row of values for each index");
  EXPECT_FAILS(
      tutti_value_create_indexed_slices(Floats({1}), PlacesOf({3}), PlacesOf({3}), &none),
      TUTTI_INVALID_ARGUMENT, "index 3 of indexed slices is outside of their dense_shape");
  EXPECT_FAILS(tutti_value_create_indexed_slices(nullptr, PlacesOf({3}), nullptr, &none),
               TUTTI_INVALID_ARGUMENT, "values");
}

TEST_F(ValuesTest, VariablesAreUpdatedByRowsAndSayWhereTheyAre) {
  const Strategy strategy = MirroredOver(2);
  tutti_variable_options options = TUTTI_VARIABLE_OPTIONS_INIT;
  const int64_t three[] = {3};
  options.name = "table";
  options.dims = three;
  options.rank = 1;
  Variable table;
  EXPECT_FAILS(tutti_variable_create(strategy, Floats({1, 2}), &options, nullptr, &table),
               TUTTI_INVALID_ARGUMENT, "[2], which the shape [3]");
  Variable open;
  options.dims = nullptr;
  options.rank = static_cast<size_t>(TUTTI_UNKNOWN_RANK);
  ASSERT_OK(tutti_variable_create(strategy, Floats({1, 2}), &options, nullptr, &open));
  EXPECT_EQ(tutti_variable_get_rank(open), static_cast<size_t>(TUTTI_UNKNOWN_RANK));
  EXPECT_EQ(tutti_variable_get_dims(open), nullptr);
  EXPECT_EQ(tutti_variable_get_copy(open, 0), nullptr);
  ASSERT_OK(tutti_variable_assign(open, nullptr, Floats({1, 2, 3}), nullptr));
  const int64_t any[] = {-1};
  options.dims = any;
  options.rank = 1;
  ASSERT_OK(tutti_variable_create(strategy, Floats({1, 2}), &options, nullptr, &open));
  ASSERT_EQ(tutti_variable_get_rank(open), 1U);
  EXPECT_EQ(tutti_variable_get_dims(open)[0], -1);
  ASSERT_OK(tutti_variable_assign(open, nullptr, Floats({1, 2, 3}), nullptr));
  Tensor read;
  ASSERT_OK(tutti_variable_read(open, nullptr, nullptr, &read));
  EXPECT_EQ(tutti_tensor_get_dims(read)[0], 3);
  EXPECT_FAILS(tutti_variable_assign_add(open, nullptr, Floats({1}), nullptr),
               TUTTI_INVALID_ARGUMENT, "holds a value of shape [3]");
  options.dims = three;
  ASSERT_OK(tutti_variable_create(strategy, Floats({3, 5, 12}), &options, nullptr, &table));
  EXPECT_EQ(tutti_variable_get_distribution(table), TUTTI_DISTRIBUTION_MIRRORED);
  EXPECT_STREQ(tutti_variable_get_copy_device(table, 1),
               "/job:localhost/replica:0/task:0/device:CPU:1");
  EXPECT_EQ(tutti_variable_get_copy_device(table, 2), nullptr);
  ASSERT_OK(tutti_variable_scatter(table, nullptr, TUTTI_SCATTER_ADD,
                                   SlicesOf({8, 2, 4}, {2, 0, 2}), nullptr));
  EXPECT_EQ(FloatsIn(tutti_variable_get_copy(table, 1)), (std::vector<float>{5, 5, 24}));
  EXPECT_FAILS(tutti_variable_scatter(table, nullptr, TUTTI_SCATTER_ADD, SlicesOf({8}, {3}),
                                      nullptr),
               TUTTI_INVALID_ARGUMENT, "'table': index 3 is outside of the 3 rows");
  EXPECT_FAILS(tutti_variable_scatter(table, nullptr, 8, SlicesOf({8}, {0}), nullptr),
               TUTTI_INVALID_ARGUMENT, "8 is no sparse update");
  EXPECT_FAILS(tutti_variable_scatter(table, nullptr, TUTTI_SCATTER_ADD, ValueOf(Floats({1})),
                                      nullptr),
               TUTTI_INVALID_ARGUMENT, "indexed slices (values, indices, dense_shape)");
  EXPECT_FAILS(tutti_variable_scatter(table, nullptr, TUTTI_SCATTER_ADD, nullptr, nullptr),
               TUTTI_INVALID_ARGUMENT, "sparse_delta");
}

TEST_F(ValuesTest, ReplicasMakeOneVariable) {
  const Strategy strategy = MirroredOver(2);
  const auto make = [](tutti_context *replica, const tutti_value *, tutti_value **out,
                       void *) -> tutti_status * {
    tutti_variable_options options = TUTTI_VARIABLE_OPTIONS_INIT;
    options.name = "made";
    Variable variable;
    if (tutti_status *status = tutti_variable_create_in_context(replica, Floats({1, 2}), &options,
                                                                nullptr, &variable)) {
      return status;
    }
    return tutti_value_create_variable(variable, out);
  };
  Value made;
  ASSERT_OK(tutti_strategy_run(strategy, make, nullptr, nullptr, nullptr, &made));
  const tutti_variable *variable = tutti_value_get_leaf_variable(made, 0);
  ASSERT_NE(variable, nullptr);
  EXPECT_EQ(tutti_variable_get_copy_count(variable), 2u);
  const auto differ = [](tutti_context *replica, const tutti_value *, tutti_value **,
                         void *) -> tutti_status * {
    const auto count = static_cast<size_t>(tutti_context_get_replica_id(replica) + 1);
    Variable none;
    return tutti_variable_create_in_context(replica, Floats(std::vector<float>(count)), nullptr,
                                            nullptr, &none);
  };
  EXPECT_FAILS(tutti_strategy_run(strategy, differ, nullptr, nullptr, nullptr, &made),
               TUTTI_INVALID_ARGUMENT, "replica 1 makes 'Variable' float32[2]");
  Variable none;
  EXPECT_FAILS(
      tutti_variable_create_in_context(nullptr, Floats({1}), nullptr, nullptr, &none),
      TUTTI_INVALID_ARGUMENT, "context");
}

}  // namespace
}  // namespace tutti::capi_test
