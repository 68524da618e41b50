// Sparse and ragged tensors through the C interface.
#include <string>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using CompositesTest = CInterfaceTest;

Tensor Integers(const std::vector<int64_t> &dims, const std::vector<int64_t> &items) {
  Tensor tensor;
  EXPECT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, dims.size(), dims.data(),
                                          items.data(), items.size() * sizeof(int64_t), &tensor));
  return tensor;
}

std::string ShownOf(const tutti_value *value) {
  Bytes text;
  EXPECT_OK(tutti_value_to_string(value, &text));
  return tutti_bytes_get_view(text).data;
}

std::string DenseOf(const tutti_value *value, const tutti_tensor *filler) {
  Tensor dense;
  EXPECT_OK(tutti_value_to_dense(value, filler, &dense));
  Value shown;
  EXPECT_OK(tutti_value_create_tensor(dense, &shown));
  return ShownOf(shown);
}

TEST_F(CompositesTest, SparseTensorsAreMadeReadAndMadeDense) {
  const Tensor indices = Integers({2, 2}, {0, 1, 2, 0}), values = Integers({2}, {5, 6}),
               shape = Integers({2}, {3, 2}), minus = Integers({}, {-1});
  Value sparse;
  ASSERT_OK(tutti_value_create_sparse(indices, values, shape, &sparse));
  EXPECT_STREQ(tutti_treespec_get_type_name(tutti_value_get_treespec(sparse)),
               TUTTI_SPARSE_TYPE_NAME);
  EXPECT_EQ(DenseOf(sparse, nullptr), "[[0 5] [0 0] [6 0]]");
  EXPECT_EQ(DenseOf(sparse, minus), "[[-1 5] [-1 -1] [6 -1]]");
  Value rows;
  ASSERT_OK(tutti_value_to_rows(sparse, &rows));
  ASSERT_EQ(tutti_value_get_child_count(rows), 3u);
  Value row;
  ASSERT_OK(tutti_value_child(rows, 2, &row));
  EXPECT_EQ(DenseOf(row, nullptr), "[6 0]");
  Value none;
  EXPECT_FAILS(tutti_value_create_sparse(indices, values, Integers({2}, {3, 1}), &none),
               TUTTI_INVALID_ARGUMENT, "outside dense_shape [3,1]");
  EXPECT_FAILS(tutti_value_create_sparse(nullptr, values, shape, &none), TUTTI_INVALID_ARGUMENT,
               "indices");
  Tensor dense;
  EXPECT_FAILS(tutti_value_to_dense(row, values, &dense), TUTTI_INVALID_ARGUMENT,
               "the default value is int64[2]");
  Value leaf;
  ASSERT_OK(tutti_value_create_tensor(values, &leaf));
  EXPECT_FAILS(tutti_value_to_dense(leaf, nullptr, &dense), TUTTI_INVALID_ARGUMENT,
               "a sparse or a ragged tensor is needed");
  EXPECT_FAILS(tutti_value_to_rows(leaf, &none), TUTTI_INVALID_ARGUMENT,
               "a sparse or a ragged tensor is needed");
}

TEST_F(CompositesTest, RaggedTensorsAreMadeReadAndMadeDense) {
  Value flat, inner, outer;
  ASSERT_OK(tutti_value_create_tensor(Integers({3}, {1, 2, 3}), &flat));
  ASSERT_OK(tutti_value_create_ragged(flat, Integers({3}, {0, 1, 3}), &inner));
  ASSERT_OK(tutti_value_create_ragged(inner, Integers({3}, {0, 2, 2}), &outer));
  EXPECT_EQ(ShownOf(inner), "tutti.RaggedTensor(values=[1 2 3], row_splits=[0 1 3])");
  EXPECT_EQ(DenseOf(outer, nullptr), "[[[1 0] [2 3]] [[0 0] [0 0]]]");
  Value rows, row;
  ASSERT_OK(tutti_value_to_rows(outer, &rows));
  ASSERT_OK(tutti_value_child(rows, 0, &row));
  EXPECT_EQ(ShownOf(row), "tutti.RaggedTensor(values=[1 2 3], row_splits=[0 1 3])");
  Value none;
  EXPECT_FAILS(tutti_value_create_ragged(flat, Integers({2}, {0, 2}), &none),
               TUTTI_INVALID_ARGUMENT, "end with the number of values, 3, and end with 2");
}

TEST_F(CompositesTest, TheirNamesAreTaken) {
  const char *fields[] = {"x"};
  Value leaf, none;
  ASSERT_OK(tutti_value_create_tensor(Integers({1}, {1}), &leaf));
  const tutti_value *children[] = {leaf};
  EXPECT_FAILS(
      tutti_value_create_named_tuple(TUTTI_RAGGED_TYPE_NAME, 1, fields, children, &none),
      TUTTI_INVALID_ARGUMENT, "tutti.RaggedTensor is the name of ragged tensors");
}

TEST_F(CompositesTest, SpecsAreOfTheWhole) {
  const int64_t dims[] = {TUTTI_UNKNOWN_DIMENSION, 6};
  Spec sparse, ragged, leaf, none;
  ASSERT_OK(tutti_spec_create_sparse(TUTTI_DTYPE_INT64, 2, dims, &sparse));
  Bytes text;
  ASSERT_OK(tutti_spec_to_string(sparse, &text));
  EXPECT_STREQ(tutti_bytes_get_view(text).data, "sparse(int64[?,6])");
  ASSERT_EQ(tutti_spec_get_leaf_count(sparse), 3u);
  const tutti_spec *whole = tutti_spec_get_leaf_inner(sparse, 2);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(tutti_spec_get_leaf_rank(whole, 0), 2);
  EXPECT_EQ(tutti_spec_get_leaf_dims(whole, 0)[1], 6);
  ASSERT_OK(tutti_spec_leaf(sparse, 2, &leaf));
  EXPECT_NE(tutti_spec_get_leaf_inner(leaf, 0), nullptr);
  EXPECT_FAILS(tutti_spec_leaf(sparse, 3, &none), TUTTI_OUT_OF_RANGE, "there is no leaf 3");
  // From its leaves it is the same again.
  Spec leaves[3], again;
  const tutti_spec *parts[3];
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_OK(tutti_spec_leaf(sparse, i, &leaves[i]));
    parts[i] = leaves[i];
  }
  ASSERT_OK(tutti_spec_create_from_leaves(tutti_spec_get_treespec(sparse), 3, parts, &again));
  EXPECT_EQ(tutti_spec_equal(sparse, again), 1);
  ASSERT_OK(tutti_spec_create_ragged(TUTTI_DTYPE_INT64, TUTTI_UNKNOWN_RANK, nullptr, 2,
                                     TUTTI_DTYPE_INT32, &ragged));
  EXPECT_EQ(tutti_spec_get_leaf_count(ragged), 3u);
  EXPECT_FAILS(tutti_spec_create_ragged(TUTTI_DTYPE_INT64, 2, dims, 2, TUTTI_DTYPE_INT64, &none),
               TUTTI_INVALID_ARGUMENT, "a ragged_rank of 2 for the shape [?,6]");
  EXPECT_FAILS(tutti_spec_create_sparse(99, 2, dims, &none), TUTTI_INVALID_ARGUMENT, "no dtype");
}

TEST_F(CompositesTest, BatchesAreSparse) {
  tutti_dataset *dataset = nullptr;
  ASSERT_OK(tutti_dataset_create_range(nullptr, 0, 3, 1, nullptr, &dataset));
  Value row_shape;
  ASSERT_OK(tutti_value_create_tensor(Integers({0}, {}), &row_shape));
  EXPECT_FAILS(tutti_dataset_dense_to_sparse_batch(&dataset, 0, row_shape, nullptr),
               TUTTI_INVALID_ARGUMENT, "batch_size must be positive");
  EXPECT_FAILS(tutti_dataset_dense_to_sparse_batch(&dataset, 2, nullptr, nullptr),
               TUTTI_INVALID_ARGUMENT, "row_shape");
  ASSERT_OK(tutti_dataset_dense_to_sparse_batch(&dataset, 2, row_shape, nullptr));
  Iterator iterator;
  ASSERT_OK(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  Value batch;
  ASSERT_OK(tutti_iterator_next(iterator, nullptr, &batch));
  EXPECT_EQ(ShownOf(batch),
            "tutti.SparseTensor(indices=[[0] [1]], values=[0 1], dense_shape=[2])");
  tutti_dataset_release(dataset);
}

}  // namespace
}  // namespace tutti::capi_test
