/* A worker of a job that ends without a word, after it has met the others: the process must end
 * promptly and cleanly all the same, with its connections and the threads behind them.
 *
 *   worker_exits return|exit|fork      with TF_CONFIG
 *
 * With `fork` a child ends first, which has none of the threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

static int is_refused_in_child(tutti_communicator *communicator) {
  tutti_status *status = tutti_communicator_barrier(communicator, NULL);
  const int refused = tutti_status_get_code(status) == TUTTI_FAILED_PRECONDITION;
  tutti_status_release(status);
  tutti_communicator_release(communicator);
  return refused;
}

int main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "return";
  tutti_cluster *cluster = NULL;
  tutti_communicator *communicator = NULL;
  tutti_status *status = tutti_cluster_join(NULL, NULL, NULL, NULL, &cluster);
  if (!status) status = tutti_communicator_create(cluster, NULL, NULL, &communicator);
  if (!status) status = tutti_communicator_barrier(communicator, NULL);
  if (!status && strcmp(way, "fork") == 0) {
    const pid_t child = fork();
    if (child == 0) exit(is_refused_in_child(communicator) ? 0 : 1);
    int how = 0;
    if (child < 0 || waitpid(child, &how, 0) != child || how != 0) return 2;
    status = tutti_communicator_barrier(communicator, NULL);
  }
  if (status) {
    fprintf(stderr, "%s\n", tutti_status_get_message(status));
    return 1;
  }
  if (strcmp(way, "exit") == 0) exit(0);
  return 0;
}
