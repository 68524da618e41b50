/* Structs of other ages: a smaller one, as a program compiled against an older header passes it,
 * and a larger one, as a newer program does. */
#include "expect.h"

/* tutti_batch_options before drop_remainder was added, and after two more fields. */
typedef struct old_batch_options {
  size_t struct_size;
  const char *name;
} old_batch_options;
typedef struct new_batch_options {
  tutti_batch_options known;
  int64_t unknown;
} new_batch_options;

static tutti_status *batch(const void *options) {
  tutti_dataset *dataset = NULL;
  tutti_status *status = tutti_dataset_create_range(NULL, 0, 5, 1, NULL, &dataset);
  if (!status) status = tutti_dataset_batch(&dataset, 2, (const tutti_batch_options *)options);
  if (!status) EXPECT(tutti_dataset_get_cardinality(dataset) == 3);
  tutti_dataset_release(dataset);
  return status;
}

static void options_in(void) {
  const old_batch_options older = {sizeof(older), "older"};
  EXPECT_OK(batch(&older));
  new_batch_options newer = {TUTTI_BATCH_OPTIONS_INIT, 0};
  newer.known.struct_size = sizeof(newer);
  EXPECT_OK(batch(&newer));
  newer.unknown = 1;
  EXPECT_ERROR(batch(&newer), TUTTI_INVALID_ARGUMENT,
               "tutti_dataset_batch: the options struct has");
  tutti_batch_options none = TUTTI_BATCH_OPTIONS_INIT;
  none.struct_size = 0;
  EXPECT_ERROR(batch(&none), TUTTI_INVALID_ARGUMENT, "struct_size is 0");
  tutti_batch_options bad = TUTTI_BATCH_OPTIONS_INIT;
  bad.drop_remainder = 3;
  EXPECT_ERROR(batch(&bad), TUTTI_INVALID_ARGUMENT, "drop_remainder is 3");
}

static void calls_in(void) {
  struct {
    size_t struct_size;
    int64_t timeout;
  } older = {sizeof(older), 1000000000};
  tutti_dataset *dataset = NULL;
  tutti_iterator *iterator = NULL;
  tutti_value *value = NULL;
  EXPECT_OK(tutti_dataset_create_range(NULL, 0, 1, 1, NULL, &dataset));
  EXPECT_OK(tutti_iterator_create(dataset, NULL, NULL, &iterator));
  EXPECT_OK(tutti_iterator_next(iterator, (const tutti_call_options *)&older, &value));
  EXPECT(value != NULL);
  tutti_value_release(value);
  tutti_call_options bad = TUTTI_CALL_OPTIONS_INIT;
  bad.timeout = -5;
  EXPECT_ERROR(tutti_iterator_next(iterator, &bad, &value), TUTTI_INVALID_ARGUMENT, "-5");
  tutti_iterator_release(iterator);
  tutti_dataset_release(dataset);
}

/* The library fills what both sides know and leaves the rest alone. */
static void structs_out(void) {
  tutti_status *status = tutti_status_create(TUTTI_ABORTED, "");
  EXPECT_OK(tutti_status_add_int64(status, "rank", 3));
  struct {
    size_t struct_size;
    const char *key;
    tutti_detail_kind kind;
    int32_t guard[8];
  } older;
  memset(&older, 0x5a, sizeof(older));
  older.struct_size = offsetof(tutti_detail, kind) + sizeof(older.kind);
  EXPECT_OK(tutti_status_get_detail(status, 0, (tutti_detail *)&older));
  EXPECT(strcmp(older.key, "rank") == 0 && older.kind == TUTTI_DETAIL_INT64);
  for (int i = 0; i < 8; ++i) EXPECT(older.guard[i] == 0x5a5a5a5a);
  struct {
    tutti_detail known;
    int64_t guard;
  } newer = {TUTTI_DETAIL_INIT, 0x77};
  newer.known.struct_size = sizeof(newer);
  EXPECT_OK(tutti_status_get_detail(status, 0, &newer.known));
  EXPECT(newer.known.int64_value == 3 && newer.guard == 0x77);
  EXPECT(newer.known.struct_size == sizeof(newer));
  tutti_status_release(status);
}

int main(void) {
  options_in();
  calls_in();
  structs_out();
  EXPECT_OK(tutti_runtime_shutdown(NULL, NULL));
  return 0;
}
