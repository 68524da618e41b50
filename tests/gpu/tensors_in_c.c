/* Tensors on GPUs, streams and events by the C interface, with a fake driver that has two GPUs
 * (TUTTI_CUDA_DRIVER). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

static int failures = 0;

static void Fail(int line, const char *what) {
  fprintf(stderr, "line %d: %s\n", line, what);
  ++failures;
}

#define CHECK(condition)                            \
  do {                                              \
    if (!(condition)) Fail(__LINE__, #condition);   \
  } while (0)

static void CheckOk(int line, tutti_status *status) {
  if (status == NULL) return;
  Fail(line, tutti_status_get_message(status));
  tutti_status_release(status);
}
#define OK(call) CheckOk(__LINE__, call)

static void CheckRefused(int line, tutti_status *status, tutti_code code, const char *part) {
  if (status == NULL) {
    Fail(line, "succeeded");
    return;
  }
  if (tutti_status_get_code(status) != code ||
      strstr(tutti_status_get_message(status), part) == NULL) {
    Fail(line, tutti_status_get_message(status));
  }
  tutti_status_release(status);
}
#define REFUSED(call, code, part) CheckRefused(__LINE__, call, code, part)

static tutti_status *Nothing(tutti_context *context, const tutti_value *in, tutti_value **out,
                             void *user_data) {
  (void)context, (void)in, (void)out, (void)user_data;
  return NULL;
}

/* Ranks whose tensors lie on the host and on a GPU hear of it, both. */
static void CheckRanksThatDisagree(tutti_tensor *here, tutti_tensor *there) {
  tutti_communicator *ranks[2] = {NULL, NULL};
  tutti_future *futures[2] = {NULL, NULL};
  OK(tutti_communicator_create_local(NULL, 2, NULL, ranks));
  OK(tutti_communicator_all_reduce_async(ranks[0], here, TUTTI_REDUCE_SUM, NULL, here,
                                         &futures[0]));
  OK(tutti_communicator_all_reduce_async(ranks[1], there, TUTTI_REDUCE_SUM, NULL, there,
                                         &futures[1]));
  for (int rank = 0; rank < 2; ++rank) {
    tutti_value *none = NULL;
    OK(tutti_future_wait(futures[rank], NULL));
    REFUSED(tutti_future_result(futures[rank], &none), TUTTI_INVALID_ARGUMENT,
            "rank 1: all_reduce #1 got tensors on a GPU, rank 0 on the host");
    tutti_future_release(futures[rank]);
    tutti_communicator_release(ranks[rank]);
  }
}

/* With an NCCL of 2.17 the plugin says which one would do. */
static void CheckOldNccl(void) {
  const char *nccl = getenv("TUTTI_NCCL_LIBRARY");
  if (nccl == NULL || strstr(nccl, "2_17") == NULL) return;
  tutti_bytes *plugins = NULL;
  OK(tutti_device_describe_plugins(NULL, &plugins));
  const char *told = tutti_bytes_get_view(plugins).data;
  CHECK(strstr(told, "NCCL 2.17.3 (") != NULL);
  CHECK(strstr(told, "is too old; 2.18 or newer is needed: install one") != NULL);
  tutti_bytes_release(plugins);
}

/* What it costs to run on two GPUs. */
static void TimeRuns(void) {
  const char *devices[] = {"GPU:0", "GPU:1"};
  tutti_strategy *strategy = NULL;
  enum { kRuns = 300 };
  OK(tutti_strategy_create_mirrored(NULL, 2, devices, NULL, NULL, &strategy));
  struct timespec began = {0, 0}, ended = {0, 0};
  for (int i = -kRuns / 10; i < kRuns; ++i) {
    tutti_value *none = NULL;
    if (i == 0) timespec_get(&began, TIME_UTC);
    OK(tutti_strategy_run(strategy, Nothing, NULL, NULL, NULL, &none));
    tutti_value_release(none);
  }
  timespec_get(&ended, TIME_UTC);
  const double seconds = (double)(ended.tv_sec - began.tv_sec) +
                         1e-9 * (double)(ended.tv_nsec - began.tv_nsec);
  printf("  run of an empty function on GPU:0 and GPU:1: %.2f us\n", 1e6 * seconds / kRuns);
  tutti_strategy_release(strategy);
}

int main(void) {
  const int64_t dims[] = {2, 2};
  const float numbers[] = {1, 2, 3, 4};
  /* A machine with one GPU presents it as two. */
  tutti_bytes *physical = NULL;
  OK(tutti_device_list_physical(NULL, "GPU", &physical));
  const tutti_string_view names = tutti_bytes_get_view(physical);
  const int several = memchr(names.data, '\n', names.size) != NULL;
  tutti_bytes_release(physical);
  const int64_t limits[] = {0, 0};
  if (!several) OK(tutti_device_set_logical(NULL, "GPU:0", 2, limits));
  tutti_tensor *here = NULL, *there = NULL, *second = NULL, *back = NULL, *made = NULL;
  OK(tutti_tensor_create_from_data(NULL, TUTTI_DTYPE_FLOAT32, 2, dims, numbers, sizeof(numbers),
                                   &here));
  OK(tutti_tensor_copy_to(NULL, here, "GPU:0", NULL, NULL, &there));
  CHECK(tutti_tensor_get_cuda_device(here) == -1 && tutti_tensor_get_cuda_device(there) == 0);
  CHECK(tutti_tensor_get_data(there) == NULL && tutti_tensor_get_address(there) != 0);
  CHECK((int64_t)(intptr_t)tutti_tensor_get_data(here) == tutti_tensor_get_address(here));
  CHECK(tutti_tensor_equal(here, there));

  /* What needs the host's memory says so, and leaves outputs as they were. */
  void *data = NULL;
  const char *sentence = "float32[2,2] lies on GPU:0, and this needs elements in the host's memory";
  REFUSED(tutti_tensor_get_mutable_data(there, &data), TUTTI_FAILED_PRECONDITION, sentence);
  REFUSED(tutti_tensor_cast(there, TUTTI_DTYPE_INT32, &made), TUTTI_FAILED_PRECONDITION, sentence);
  REFUSED(tutti_tensor_serialize(there, &made), TUTTI_FAILED_PRECONDITION, sentence);
  tutti_value *value = NULL;
  tutti_dataset *dataset = NULL;
  OK(tutti_value_create_tensor(there, &value));
  REFUSED(tutti_dataset_create_from_tensors(NULL, value, NULL, &dataset),
          TUTTI_FAILED_PRECONDITION, sentence);
  tutti_communicator *ranks[1] = {NULL};
  OK(tutti_communicator_create_local(NULL, 1, NULL, ranks));
  OK(tutti_communicator_all_reduce(ranks[0], there, TUTTI_REDUCE_SUM, NULL, there));
  OK(tutti_communicator_all_gather(ranks[0], there, NULL, &made));
  CHECK(tutti_tensor_get_cuda_device(made) == 0 && tutti_tensor_equal(here, made));
  tutti_tensor_release(made);
  made = NULL;
  REFUSED(tutti_communicator_all_reduce(ranks[0], there, TUTTI_REDUCE_SUM, NULL, here),
          TUTTI_INVALID_ARGUMENT, "the tensors of a rank's call lie on one device");
  CHECK(data == NULL && made == NULL && dataset == NULL);
  CheckRanksThatDisagree(here, there);
  CheckOldNccl();

  /* Made there, and in pinned memory. */
  tutti_tensor_options options = TUTTI_TENSOR_OPTIONS_INIT;
  options.device = "GPU:1";
  OK(tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT32, 2, dims, &options, &second));
  OK(tutti_tensor_copy_into(there, second));
  CHECK(tutti_tensor_equal(here, second));
  options.pinned = TUTTI_TRUE;
  REFUSED(tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT32, 2, dims, &options, &made),
          TUTTI_INVALID_ARGUMENT, "memory of GPU:1 cannot be pinned");
  options.device = NULL;
  OK(tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT32, 2, dims, &options, &made));
  CHECK(tutti_tensor_get_data(made) != NULL);
  OK(tutti_tensor_copy_into(second, made));
  CHECK(tutti_tensor_equal(here, made));

  /* Streams and events. */
  tutti_stream *stream = NULL, *other = NULL, *own = NULL, *again = NULL;
  tutti_event *begin = NULL, *end = NULL;
  tutti_event_options timed = TUTTI_EVENT_OPTIONS_INIT;
  timed.timed = TUTTI_TRUE;
  OK(tutti_stream_create(NULL, "GPU:0", &stream));
  OK(tutti_stream_create(NULL, "GPU:1", &other));
  OK(tutti_device_get_stream(NULL, "GPU:1", &own));
  OK(tutti_device_find_stream(NULL, several, &again));
  CHECK(!several || tutti_stream_get_handle(own) == tutti_stream_get_handle(again));
  CHECK(strcmp(tutti_stream_get_device(stream), "GPU:0") == 0);
  OK(tutti_event_create(NULL, "GPU:0", &timed, &begin));
  OK(tutti_event_create(NULL, "GPU:0", &timed, &end));
  OK(tutti_event_record(begin, stream));
  tutti_tensor_copy_options by = TUTTI_TENSOR_COPY_OPTIONS_INIT;
  by.stream = stream;
  OK(tutti_tensor_copy_to(NULL, second, "GPU:0", &by, NULL, &back));
  OK(tutti_event_record(end, stream));
  OK(tutti_stream_wait_event(other, end));
  OK(tutti_stream_wait_stream(own, stream));
  OK(tutti_event_synchronize(end, NULL));
  int64_t reached = 0, nanoseconds = -1;
  OK(tutti_event_query(end, &reached));
  OK(tutti_event_read_elapsed(begin, end, &nanoseconds));
  CHECK(reached == 1 && nanoseconds >= 0);
  OK(tutti_stream_synchronize(stream, NULL));
  CHECK(tutti_tensor_equal(here, back));
  by.stream = other;
  tutti_tensor *none = NULL;
  if (several) {
    REFUSED(tutti_tensor_copy_to(NULL, back, "GPU:0", &by, NULL, &none), TUTTI_INVALID_ARGUMENT,
            "the stream is one of GPU:1");
  }
  /* Collectives in the order of a stream; the first error ends the epoch. */
  tutti_communicator *ordered[1] = {NULL};
  tutti_call_options call = TUTTI_CALL_OPTIONS_INIT;
  tutti_future *future = NULL;
  call.stream = stream;
  OK(tutti_communicator_create_local(NULL, 1, NULL, ordered));
  OK(tutti_communicator_all_reduce(ordered[0], there, TUTTI_REDUCE_SUM, &call, there));
  OK(tutti_communicator_broadcast_async(ordered[0], 0, &call, there, &future));
  OK(tutti_future_wait(future, NULL));
  tutti_future_release(future);
  OK(tutti_stream_synchronize(stream, &call));
  CHECK(tutti_tensor_equal(here, there));
  if (several) {
    call.stream = other;
    REFUSED(tutti_communicator_all_reduce(ordered[0], there, TUTTI_REDUCE_SUM, &call, there),
            TUTTI_INVALID_ARGUMENT,
            "the stream is one of GPU:1, and the tensors lie on GPU:0; pass one of theirs");
  }
  tutti_communicator_release(ordered[0]);

  tutti_stream *refused = NULL;
  REFUSED(tutti_stream_wrap(NULL, "GPU:0", 0, &refused), TUTTI_INVALID_ARGUMENT, "stream 0");
  if (several) {
    REFUSED(tutti_stream_wrap(NULL, "GPU:0", tutti_stream_get_handle(other), &refused),
            TUTTI_INVALID_ARGUMENT, "belongs to another device");
  }
  REFUSED(tutti_stream_create(NULL, "CPU:0", &refused), TUTTI_INVALID_ARGUMENT, "has no streams");
  REFUSED(tutti_stream_create(NULL, "GPU:9", &refused), TUTTI_NOT_FOUND, "GPU:0 to GPU:1");
  CHECK(none == NULL && refused == NULL);

  /* What a device's tensors take, and the most that they took. */
  int64_t used = -1, peak = -1;
  OK(tutti_device_read_used_bytes(NULL, "GPU:1", &used));
  OK(tutti_device_reset_peak_bytes(NULL, "GPU:1"));
  OK(tutti_device_read_peak_bytes(NULL, "GPU:1", &peak));
  CHECK(used == 16 && peak == 16);
  REFUSED(tutti_device_reset_peak_bytes(NULL, "CPU:0"), TUTTI_INVALID_ARGUMENT, "name a GPU");
  REFUSED(tutti_device_read_used_bytes(NULL, "GPU:9", &used), TUTTI_NOT_FOUND, "no GPU:9");
  REFUSED(tutti_device_read_logical_limit(NULL, "GPU:0", 7, &used), TUTTI_OUT_OF_RANGE,
          "logical device 7");
  CHECK(used == 16);

  tutti_event_release(begin);
  tutti_event_release(end);
  tutti_stream_release(stream);
  tutti_stream_release(other);
  tutti_stream_release(own);
  tutti_stream_release(again);
  tutti_communicator_release(ranks[0]);
  tutti_value_release(value);
  tutti_tensor_release(here);
  tutti_tensor_release(there);
  tutti_tensor_release(second);
  tutti_tensor_release(back);
  tutti_tensor_release(made);
  TimeRuns();
  OK(tutti_runtime_shutdown(NULL, NULL));
  if (failures == 0) printf("all as it should be\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
