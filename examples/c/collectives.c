/* The collectives, one after the other, between the workers of a job; every result is checked.
 *
 *   tutti run --workers 3 -- collectives [--elements N]
 *
 * The same program stands in examples/python, examples/java and examples/go. All of them make the
 * same calls, so that the workers of one job may be of different languages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

enum { LAYERS = 8, MOST_WORKERS = 256 };

typedef struct {
  tutti_communicator *communicator;
  int64_t rank, size;
  float total; /* 1 + 2 + ... + size */
  int64_t elements;
} worker;

static void check(tutti_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "collectives: %s: %s\n", tutti_code_get_name(tutti_status_get_code(status)),
          tutti_status_get_message(status));
  tutti_status_release(status);
  exit(1);
}

static void fail(const char *what, int64_t place, double found, double expected) {
  fprintf(stderr, "collectives: %s: element %lld: found %g, expected %g\n", what, (long long)place,
          found, expected);
  exit(1);
}

/* A tensor of `count` times the value. */
static tutti_tensor *numbers(int64_t count, float value) {
  tutti_tensor *tensor = NULL;
  void *data = NULL;
  check(tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT32, 1, &count, NULL, &tensor));
  check(tutti_tensor_get_mutable_data(tensor, &data));
  for (int64_t i = 0; i < count; ++i) ((float *)data)[i] = value;
  return tensor;
}

static float *elements_of(tutti_tensor *tensor) {
  void *data = NULL;
  check(tutti_tensor_get_mutable_data(tensor, &data));
  return data;
}

/* That element i is base + i * slope, of `count` of them. */
static void expect(const char *what, const tutti_tensor *tensor, int64_t count, float base,
                   float slope) {
  const float *found = tutti_tensor_get_data(tensor);
  const int64_t found_count = tutti_tensor_get_element_count(tensor);
  if (found_count != count) fail(what, -1, (double)found_count, (double)count);
  for (int64_t i = 0; i < count; ++i) {
    const float expected = base + (float)i * slope;
    if (found[i] != expected) fail(what, i, found[i], expected);
  }
}

static void say(const worker *self, const char *text) {
  if (self->rank == 0) printf("%s\n", text);
  fflush(stdout);
}

/* Many tensors in one call. */
static void many_tensors(const worker *self) {
  const int64_t counts[] = {1, 4, self->elements};
  tutti_tensor *tensors[3], *sums[3];
  for (int i = 0; i < 3; ++i) {
    /* In memory that the workers of one machine share: large ones are summed where they lie. */
    check(tutti_communicator_create_tensor(self->communicator, TUTTI_DTYPE_FLOAT32, 1, &counts[i],
                                           &tensors[i]));
    for (int64_t k = 0; k < counts[i]; ++k) elements_of(tensors[i])[k] = (float)(self->rank + 1);
    sums[i] = numbers(counts[i], 0);
  }
  check(tutti_communicator_all_reduce_many(self->communicator, 3,
                                           (const tutti_tensor *const *)tensors, TUTTI_REDUCE_SUM,
                                           NULL, sums));
  for (int i = 0; i < 3; ++i) {
    expect("all_reduce_many", sums[i], counts[i], self->total, 0);
    tutti_tensor_release(sums[i]);
    tutti_tensor_release(tensors[i]);
  }
  char text[80];
  snprintf(text, sizeof text, "all_reduce_many: three tensors summed over %d workers",
           (int)self->size);
  say(self, text);
}

/* An all_reduce in two halves: everybody has a part of the sum in between. */
static void two_halves(const worker *self) {
  tutti_tensor *rows = numbers(2 * self->size, 0), *part = numbers(2, 0), *joined = NULL;
  for (int64_t i = 0; i < 2 * self->size; ++i) elements_of(rows)[i] = (float)(i * (self->rank + 1));
  check(tutti_communicator_reduce_scatter(self->communicator, rows, TUTTI_REDUCE_SUM, NULL, part));
  expect("reduce_scatter", part, 2, (float)(2 * self->rank) * self->total, self->total);
  check(tutti_communicator_all_gather(self->communicator, part, NULL, &joined));
  expect("all_gather", joined, 2 * self->size, 0, self->total);
  tutti_tensor_release(joined);
  tutti_tensor_release(part);
  tutti_tensor_release(rows);
  say(self, "reduce_scatter and all_gather: the parts of the sum, and the sum");
}

/* A different number of rows for everybody; as many come from them. */
static void uneven(const worker *self) {
  int64_t send_rows[MOST_WORKERS], received_rows[MOST_WORKERS], count = 0;
  for (int64_t to = 0; to < self->size; ++to) {
    send_rows[to] = 1 + (self->rank + to) % self->size;
    count += send_rows[to];
  }
  tutti_tensor *rows = numbers(count, 0), *came = NULL;
  float *next = elements_of(rows);
  for (int64_t to = 0; to < self->size; ++to) {
    for (int64_t i = 0; i < send_rows[to]; ++i) *next++ = (float)(100 * self->rank + to);
  }
  check(tutti_communicator_all_to_all_uneven(self->communicator, rows, (size_t)self->size,
                                             send_rows, NULL, received_rows, &came));
  if (tutti_tensor_get_element_count(came) != count) {
    fail("all_to_all", -1, (double)tutti_tensor_get_element_count(came), (double)count);
  }
  const float *found = tutti_tensor_get_data(came);
  for (int64_t from = 0; from < self->size; ++from) {
    if (received_rows[from] != send_rows[from]) {
      fail("all_to_all: rows", from, (double)received_rows[from], (double)send_rows[from]);
    }
    for (int64_t i = 0; i < received_rows[from]; ++i, ++found) {
      const float expected = (float)(100 * from + self->rank);
      if (*found != expected) fail("all_to_all", i, *found, expected);
    }
  }
  tutti_tensor_release(came);
  tutti_tensor_release(rows);
  say(self, "all_to_all: uneven rows to everybody");
}

/* Round in a ring; who is odd receives first. */
static void ring(const worker *self) {
  const int64_t next = (self->rank + 1) % self->size;
  const int64_t previous = (self->rank + self->size - 1) % self->size;
  tutti_tensor *mine = numbers(4, (float)self->rank), *came = numbers(4, 0);
  if (self->rank % 2 == 1) {
    check(tutti_communicator_receive(self->communicator, previous, NULL, came));
  }
  check(tutti_communicator_send(self->communicator, mine, next, NULL));
  if (self->rank % 2 == 0) {
    check(tutti_communicator_receive(self->communicator, previous, NULL, came));
  }
  expect("receive", came, 4, (float)previous, 0);
  tutti_tensor_release(came);
  tutti_tensor_release(mine);
  say(self, "send and receive: round in a ring");
}

/* Groups of the even and of the odd ones. */
static void groups(const worker *self) {
  int64_t sum = 0, count = 0;
  for (int64_t rank = self->rank % 2; rank < self->size; rank += 2) {
    sum += rank;
    ++count;
  }
  tutti_communicator *group = NULL;
  tutti_tensor *mine = numbers(4, (float)self->rank);
  check(tutti_communicator_split(self->communicator, self->rank % 2, self->rank, NULL, NULL,
                                 &group));
  if (tutti_communicator_get_size(group) != count) {
    fail("split: size", -1, (double)tutti_communicator_get_size(group), (double)count);
  }
  check(tutti_communicator_all_reduce(group, mine, TUTTI_REDUCE_SUM, NULL, mine));
  expect("all_reduce of a group", mine, 4, (float)sum, 0);
  check(tutti_communicator_close(group, NULL));
  tutti_communicator_release(group);
  tutti_tensor_release(mine);
  say(self, "split: sums of the even ones and of the odd ones");
}

/* Three calls under way, the last one waited for first. */
static void futures(const worker *self) {
  tutti_tensor *tensors[3];
  tutti_future *under_way[3];
  for (int i = 0; i < 3; ++i) {
    tensors[i] = numbers(self->elements, (float)(self->rank * (i + 1)));
    check(tutti_communicator_all_reduce_async(self->communicator, tensors[i], TUTTI_REDUCE_SUM,
                                              NULL, tensors[i], &under_way[i]));
  }
  for (int i = 2; i >= 0; --i) {
    tutti_value *none = NULL;
    check(tutti_future_wait(under_way[i], NULL));
    check(tutti_future_result(under_way[i], &none));
    tutti_value_release(none);
    tutti_future_release(under_way[i]);
    expect("all_reduce_async", tensors[i], self->elements,
           (self->total - (float)self->size) * (float)(i + 1), 0);
    tutti_tensor_release(tensors[i]);
  }
  say(self, "futures: three sums, waited for in another order");
}

/* Gradients are reduced while the backward pass makes more of them, last layer first. The plan
 * makes them, like the layers, in memory that all workers of a machine map. */
static void backward(const worker *self) {
  tutti_tensor *layers[LAYERS];
  for (int i = 0; i < LAYERS; ++i) layers[i] = numbers(self->elements, 0);
  tutti_bucket_plan_options options = TUTTI_BUCKET_PLAN_OPTIONS_INIT;
  options.own_tensors = TUTTI_TRUE;
  tutti_bucket_plan *plan = NULL;
  check(tutti_bucket_plan_create(self->communicator, LAYERS, layers, TUTTI_REDUCE_SUM, &options,
                                 &plan));
  tutti_tensor *gradients[LAYERS];
  for (int i = 0; i < LAYERS; ++i) {
    tutti_tensor_release(layers[i]);
    check(tutti_bucket_plan_get_tensor(plan, (size_t)i, &gradients[i]));
  }
  for (int step = 0; step < 2; ++step) {
    for (int i = 0; i < LAYERS; ++i) {
      float *gradient = elements_of(gradients[i]);
      for (int64_t j = 0; j < self->elements; ++j) {
        gradient[j] = (float)((self->rank + 1) * (i + step)); /* what a layer would give */
      }
      check(tutti_bucket_plan_ready(plan, (size_t)i));
    }
    check(tutti_bucket_plan_wait(plan, NULL));
    for (int i = 0; i < LAYERS; ++i) {
      expect("bucket plan", gradients[i], self->elements, self->total * (float)(i + step), 0);
    }
  }
  tutti_bucket_plan_release(plan);
  for (int i = 0; i < LAYERS; ++i) tutti_tensor_release(gradients[i]);
  char text[80];
  snprintf(text, sizeof text, "bucket plan: %d gradients, two steps", LAYERS);
  say(self, text);
}

int main(int argc, char **argv) {
  worker self = {.elements = 1000};
  if (argc == 3 && strcmp(argv[1], "--elements") == 0) self.elements = atoll(argv[2]);
  if ((argc != 1 && argc != 3) || self.elements < 1 || self.elements > 1000000) {
    fprintf(stderr, "usage: collectives [--elements N], N from 1 to 1000000\n");
    return 2;
  }
  tutti_cluster *cluster = NULL;
  tutti_communicator_options options = TUTTI_COMMUNICATOR_OPTIONS_INIT;
  options.name = "collectives";
  check(tutti_cluster_join(NULL, NULL, NULL, NULL, &cluster));
  check(tutti_communicator_create(cluster, &options, NULL, &self.communicator));
  self.rank = tutti_communicator_get_rank(self.communicator);
  self.size = tutti_communicator_get_size(self.communicator);
  self.total = (float)(self.size * (self.size + 1) / 2);
  if (self.size < 2 || self.size > MOST_WORKERS) {
    fprintf(stderr, "collectives: needs two workers or more: tutti run --workers 2 -- ...\n");
    return 1;
  }
  many_tensors(&self);
  two_halves(&self);
  uneven(&self);
  ring(&self);
  groups(&self);
  futures(&self);
  backward(&self);
  printf("worker %d of %d (C): all right\n", (int)self.rank, (int)self.size);
  check(tutti_communicator_close(self.communicator, NULL));
  tutti_communicator_release(self.communicator);
  check(tutti_cluster_close(cluster, NULL));
  tutti_cluster_release(cluster);
  return 0;
}
