/* A client in C99 that is linked with the library: values of every kind of leaf, tensors of every
 * dtype, statuses with details, errors that name function and parameter, untouched out-pointers. */
#include "expect.h"

static void versions_agree(void) {
  const uint32_t headers =
      (TUTTI_VERSION_MAJOR << 16) | (TUTTI_VERSION_MINOR << 8) | TUTTI_VERSION_PATCH;
  EXPECT(tutti_api_version() == headers);
  EXPECT(strcmp(tutti_api_version_string(), "0.1.0") == 0);
}

static void tensors_of_every_dtype(void) {
  static const size_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 16};
  const int64_t dims[] = {2, 3};
  for (tutti_dtype dtype = TUTTI_DTYPE_BOOL; dtype <= TUTTI_DTYPE_BYTES; ++dtype) {
    tutti_tensor *tensor = NULL;
    EXPECT(tutti_dtype_get_size(dtype) == sizes[dtype]);
    EXPECT_OK(tutti_tensor_create(NULL, dtype, 2, dims, NULL, &tensor));
    EXPECT(tutti_tensor_get_dtype(tensor) == dtype);
    EXPECT(tutti_tensor_get_rank(tensor) == 2 && tutti_tensor_get_dims(tensor)[1] == 3);
    EXPECT(tutti_tensor_get_strides(tensor)[0] == 3 && tutti_tensor_get_strides(tensor)[1] == 1);
    EXPECT(tutti_tensor_get_byte_size(tensor) == 6 * sizes[dtype]);
    const unsigned char *data = tutti_tensor_get_data(tensor);
    EXPECT((uintptr_t)data % 8 == 0);
    for (size_t i = 0; i < 6 * sizes[dtype]; ++i) EXPECT(data[i] == 0);
    tutti_tensor_release(tensor);
  }
  EXPECT(tutti_dtype_get_size(99) == 0);
  EXPECT(strcmp(tutti_dtype_get_name(TUTTI_DTYPE_BFLOAT16), "bfloat16") == 0);
}

static void errors_name_function_and_parameter(void) {
  tutti_tensor *tensor = (tutti_tensor *)&tensor; /* a mark that must stay */
  const int64_t dims[] = {-1};
  EXPECT_ERROR(tutti_tensor_create(NULL, TUTTI_DTYPE_INT8, 1, dims, NULL, NULL),
               TUTTI_INVALID_ARGUMENT, "tutti_tensor_create: the argument out_tensor is NULL");
  EXPECT_ERROR(tutti_tensor_create(NULL, TUTTI_DTYPE_INT8, 1, NULL, NULL, &tensor),
               TUTTI_INVALID_ARGUMENT, "tutti_tensor_create: the argument dims is NULL");
  EXPECT_ERROR(tutti_tensor_create(NULL, 77, 0, NULL, NULL, &tensor), TUTTI_INVALID_ARGUMENT,
               "77 is no dtype");
  EXPECT_ERROR(tutti_tensor_create(NULL, TUTTI_DTYPE_INT8, 1, dims, NULL, &tensor),
               TUTTI_INVALID_ARGUMENT, "");
  EXPECT_ERROR(tutti_tensor_slice(NULL, 0, 0, 0, &tensor), TUTTI_INVALID_ARGUMENT,
               "tutti_tensor_slice: the argument tensor is NULL");
  EXPECT(tensor == (tutti_tensor *)&tensor);
}

static void getters_take_null(void) {
  EXPECT(tutti_tensor_get_data(NULL) == NULL && tutti_tensor_get_rank(NULL) == 0);
  EXPECT(tutti_value_get_leaf_count(NULL) == 0 && tutti_value_get_leaf_tensor(NULL, 0) == NULL);
  EXPECT(tutti_bytes_get_view(NULL).size == 0);
  EXPECT(tutti_strategy_get_num_replicas_in_sync(NULL) == 0);
  EXPECT(tutti_variable_get_copy(NULL, 0) == NULL && tutti_status_get_cause(NULL, 0) == NULL);
  tutti_tensor_retain(NULL);
  tutti_tensor_release(NULL);
  tutti_dataset_release(NULL);
}

static void statuses_carry_details(void) {
  tutti_status *status = tutti_status_create(TUTTI_NOT_FOUND, "no such file");
  EXPECT_OK(tutti_status_add_int64(status, "offset", 12));
  EXPECT_OK(tutti_status_add_string(status, "file", "a.tfrecord"));
  EXPECT(tutti_status_get_detail_count(status) == 2);
  tutti_detail detail = TUTTI_DETAIL_INIT;
  EXPECT_OK(tutti_status_get_detail(status, 0, &detail));
  EXPECT(strcmp(detail.key, "offset") == 0 && detail.kind == TUTTI_DETAIL_INT64);
  EXPECT(detail.int64_value == 12);
  EXPECT_OK(tutti_status_get_detail(status, 1, &detail));
  EXPECT(detail.kind == TUTTI_DETAIL_STRING && detail.string_value.size == 10);
  EXPECT_ERROR(tutti_status_get_detail(status, 2, &detail), TUTTI_OUT_OF_RANGE, "2");
  tutti_status_retain(status);
  EXPECT_ERROR(tutti_status_add_int64(status, "late", 1), TUTTI_FAILED_PRECONDITION, "");
  tutti_status_release(status);
  tutti_status_release(status);
  EXPECT(strcmp(tutti_code_get_name(TUTTI_DATA_LOSS), "DATA_LOSS") == 0);
  status = tutti_status_create(TUTTI_OK, NULL);
  EXPECT(tutti_status_get_code(status) == TUTTI_UNKNOWN);
  tutti_status_release(status);
}

static int destroyed;
static void count_destroyed(void *object) { destroyed += *(int *)object; }

static void host_objects_are_found_by_their_tag(void) {
  static int one = 1;
  static const char mine = 0, other = 0;
  tutti_status *status =
      tutti_status_create_with_host_object(TUTTI_ABORTED, "thrown", &mine, &one, count_destroyed);
  EXPECT(tutti_status_get_host_object(status, &mine) == &one);
  EXPECT(tutti_status_get_host_object(status, &other) == NULL);
  tutti_status_release(status);
}

static void values_are_structures_of_leaves(void) {
  tutti_value *leaves[3] = {NULL, NULL, NULL}, *pair = NULL, *dict = NULL, *part = NULL;
  const tutti_tensor *tensor = NULL;
  const char *keys[] = {"label", "image"};
  tutti_string_view text = {"seven", 5};
  EXPECT_OK(tutti_value_create_int64(7, &leaves[0]));
  EXPECT_OK(tutti_value_create_string(text, &leaves[1]));
  EXPECT_OK(tutti_value_create_none(&leaves[2]));
  EXPECT_OK(tutti_value_create_tuple(2, (const tutti_value *const *)leaves, &pair));
  const tutti_value *children[] = {pair, leaves[2]};
  EXPECT_OK(tutti_value_create_dict(2, keys, children, &dict));
  EXPECT(tutti_value_get_kind(dict) == TUTTI_NODE_DICT && tutti_value_get_child_count(dict) == 2);
  EXPECT(tutti_value_get_leaf_count(dict) == 3);
  EXPECT(tutti_value_get_leaf_kind(dict, 0) == TUTTI_LEAF_NONE); /* "image" sorts first */
  EXPECT(tutti_value_get_leaf_kind(dict, 2) == TUTTI_LEAF_STRING);
  EXPECT(strcmp(tutti_treespec_get_key(tutti_value_get_treespec(dict), 0), "image") == 0);
  EXPECT_OK(tutti_value_find_tensor(dict, "label/0", &tensor));
  EXPECT(*(const int64_t *)tutti_tensor_get_data(tensor) == 7);
  EXPECT_ERROR(tutti_value_find_tensor(dict, "label", &tensor), TUTTI_INVALID_ARGUMENT, "label");
  EXPECT_ERROR(tutti_value_find(dict, "lable", &part), TUTTI_NOT_FOUND, "label");
  EXPECT_OK(tutti_value_find(dict, "label/1", &part));
  EXPECT(tutti_value_get_leaf_string(part, 0).size == 5);
  tutti_value_release(part);
  part = NULL;
  EXPECT_ERROR(tutti_value_child(pair, 2, &part), TUTTI_OUT_OF_RANGE, "");
  EXPECT(part == NULL);
  const char *twice[] = {"a", "a"};
  EXPECT_ERROR(tutti_value_create_dict(2, twice, children, &part), TUTTI_INVALID_ARGUMENT, "a");
  tutti_bytes *shown = NULL;
  EXPECT_OK(tutti_value_to_string(dict, &shown));
  EXPECT(strstr(tutti_bytes_get_view(shown).data, "'label'") != NULL);
  tutti_bytes_release(shown);
  tutti_value_release(dict);
  tutti_value_release(pair);
  for (int i = 0; i < 3; ++i) tutti_value_release(leaves[i]);
}

static void mutable_tensors_are_never_shared(void) {
  const int64_t dims[] = {4};
  tutti_tensor *tensor = NULL, *view = NULL;
  void *data = NULL;
  EXPECT_OK(tutti_tensor_create(NULL, TUTTI_DTYPE_INT32, 1, dims, NULL, &tensor));
  const void *before = tutti_tensor_get_data(tensor);
  EXPECT_OK(tutti_tensor_make_mutable(&tensor));
  EXPECT(tutti_tensor_get_data(tensor) == before); /* nobody else held it */
  tutti_tensor *shared = tensor;
  tutti_tensor_retain(shared);
  EXPECT_OK(tutti_tensor_make_mutable(&tensor));
  EXPECT(tensor != shared);
  EXPECT_OK(tutti_tensor_get_mutable_data(tensor, &data));
  ((int32_t *)data)[1] = 5;
  EXPECT(((const int32_t *)tutti_tensor_get_data(shared))[1] == 0);
  EXPECT_OK(tutti_tensor_slice(tensor, 0, 1, 3, &view));
  EXPECT(((const int32_t *)tutti_tensor_get_data(view))[0] == 5);
  EXPECT_ERROR(tutti_tensor_slice(tensor, 0, 3, 5, &view), TUTTI_OUT_OF_RANGE, "");
  tutti_tensor_release(view);
  tutti_tensor_release(shared);
  tutti_tensor_release(tensor);
}

int main(void) {
  versions_agree();
  tensors_of_every_dtype();
  errors_name_function_and_parameter();
  getters_take_null();
  statuses_carry_details();
  host_objects_are_found_by_their_tag();
  values_are_structures_of_leaves();
  mutable_tensors_are_never_shared();
  EXPECT_OK(tutti_runtime_shutdown(NULL, NULL));
  EXPECT(destroyed == 1);
  return 0;
}
