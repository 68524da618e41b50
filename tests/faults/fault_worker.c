/* One worker of a job that does nothing but collectives, so that tests can kill, stop and starve
 * it.
 *
 *   fault_worker [--seconds S] [--least CALLS] [--timeout S] [--impatient W] [--elements N]
 *                [--fork-child]
 *
 * The cluster comes from TF_CONFIG, everything else from TUTTI_* variables. The workers add up
 * float32[N], again and again, and check every sum: worker w brings w + call % 1000 in every
 * element. They stop together, after S seconds of worker 0's (0: never) and as many calls at least,
 * or once worker 0, being ready, gets a SIGUSR1.
 * The timeout is one of each call but that which joins the job; with --impatient, of the sums of
 * worker W alone. Lines on stdout, each with the
 * monotonic time in nanoseconds behind '@':
 *
 *   ready @T
 *   done calls=C @T
 *   error CODE rank=R calls=C @T: MESSAGE
 *
 * Exit status: 0 done, 2 wrong arguments, 3 a call failed, 4 a wrong sum. With --fork-child the
 * worker has a child that holds every descriptor open and sleeps, as a data loader might. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

static int64_t calls = 0;
static tutti_call_options limit = TUTTI_CALL_OPTIONS_INIT;

static volatile sig_atomic_t told_to_stop = 0;

static void stop(int number) {
  (void)number;
  told_to_stop = 1;
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t rank_of(const tutti_status *status) {
  for (size_t i = 0; i < tutti_status_get_detail_count(status); ++i) {
    tutti_detail detail = TUTTI_DETAIL_INIT;
    tutti_status_release(tutti_status_get_detail(status, i, &detail));
    if (detail.kind == TUTTI_DETAIL_INT64 && strcmp(detail.key, "rank") == 0) {
      return detail.int64_value;
    }
  }
  return -1;
}

static void check(tutti_status *status) {
  if (status == NULL) return;
  printf("error %s rank=%" PRId64 " calls=%" PRId64 " @%" PRId64 ": %s\n",
         tutti_code_get_name(tutti_status_get_code(status)), rank_of(status), calls, now_ns(),
         tutti_status_get_message(status));
  fflush(stdout);
  tutti_status_release(status);
  tutti_status_release(tutti_runtime_shutdown(NULL, NULL));
  exit(3);
}

static void fork_child(void) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return;
  /* It may outlive a killed parent by a while, as such children do, and not for ever. */
  signal(SIGTERM, SIG_DFL);
  while (getppid() == parent) usleep(100000);
  sleep(5);
  _exit(0);
}

/* One sum over all workers; worker 0 says in the last element whether to go on. */
static int add_up(tutti_communicator *communicator, tutti_tensor *in, tutti_tensor *out,
                  int64_t elements, int go_on) {
  const int64_t workers = tutti_communicator_get_size(communicator);
  const float mine = (float)(tutti_communicator_get_rank(communicator) + calls % 1000);
  const float sum = (float)(workers * (workers - 1) / 2 + workers * (calls % 1000));
  void *data = NULL;
  check(tutti_tensor_get_mutable_data(in, &data));
  float *numbers = data;
  for (int64_t i = 0; i < elements; ++i) numbers[i] = mine;
  numbers[elements] = (float)go_on;
  check(tutti_communicator_all_reduce(communicator, in, TUTTI_REDUCE_SUM, &limit, out));
  const float *sums = tutti_tensor_get_data(out);
  for (int64_t i = 0; i < elements; ++i) {
    if (sums[i] == sum) continue;
    printf("wrong sum: call %" PRId64 ", element %" PRId64 ": %g instead of %g\n", calls, i,
           (double)sums[i], (double)sum);
    exit(4);
  }
  ++calls;
  return sums[elements] != 0.0F;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
                                          {"least", required_argument, NULL, 'l'},
                                          {"timeout", required_argument, NULL, 't'},
                                          {"impatient", required_argument, NULL, 'i'},
                                          {"elements", required_argument, NULL, 'n'},
                                          {"fork-child", no_argument, NULL, 'f'},
                                          {NULL, 0, NULL, 0}};
  double seconds = 0;
  int64_t least = 0;
  int64_t elements = 1000;
  int64_t impatient = -1;
  int with_child = 0;
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == 's') {
      seconds = atof(optarg);
    } else if (option == 'l') {
      least = atoll(optarg);
    } else if (option == 't') {
      limit.timeout = (int64_t)(atof(optarg) * 1e9);
    } else if (option == 'i') {
      impatient = atoll(optarg);
    } else if (option == 'n') {
      elements = atoll(optarg);
    } else if (option == 'f') {
      with_child = 1;
    } else {
      return 2;
    }
  }

  tutti_cluster *cluster = NULL;
  tutti_communicator *communicator = NULL;
  tutti_tensor *in = NULL, *out = NULL;
  const int64_t dims[] = {elements + 1};
  check(tutti_cluster_join(NULL, NULL, NULL, NULL, &cluster));
  const int64_t timeout = limit.timeout;
  if (impatient >= 0) limit.timeout = 0;
  check(tutti_communicator_create(cluster, NULL, &limit, &communicator));
  if (tutti_communicator_get_rank(communicator) == impatient) limit.timeout = timeout;
  check(tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT32, 1, dims, NULL, &in));
  check(tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT32, 1, dims, NULL, &out));
  if (with_child) fork_child();
  add_up(communicator, in, out, elements, 1);
  const struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  printf("ready @%" PRId64 "\n", now_ns());
  fflush(stdout);

  const int leads = tutti_communicator_get_rank(communicator) == 0;
  const int64_t end_ns = now_ns() + (int64_t)(seconds * 1e9);
  while (add_up(communicator, in, out, elements,
                leads && !told_to_stop && (seconds == 0 || calls < least || now_ns() < end_ns))) {
  }
  printf("done calls=%" PRId64 " @%" PRId64 "\n", calls, now_ns());
  tutti_tensor_release(out);
  tutti_tensor_release(in);
  check(tutti_communicator_close(communicator, NULL));
  tutti_communicator_release(communicator);
  check(tutti_cluster_close(cluster, NULL));
  tutti_cluster_release(cluster);
  check(tutti_runtime_shutdown(NULL, NULL));
  return 0;
}
