package org.tutti.distribute;

import org.tutti.TuttiRuntime;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.LibraryResolver;
import org.tutti.internal.Native;

/**
 * Finds which processes a job has, and which of them this one is.
 *
 * <p>One of your own says at least which tasks there are: a lambda that gives a ClusterSpec, or a
 * class that also says which task this process is. It is asked when a strategy is made or a cluster
 * joined.
 * Threads: any, for those of the library.
 */
@FunctionalInterface
public interface ClusterResolver extends AutoCloseable {
  /** The variable TF_CONFIG, read anew at each question. */
  static ClusterResolver tfConfig() {
    return tfConfig(null, null, null);
  }

  /** As tfConfig; what is not null beats the variable. */
  static ClusterResolver tfConfig(String taskType, Long taskId, String rpcLayer) {
    return new LibraryResolver(
        Box.at(Native.cluster_resolver_tf_config(taskType, taskId, rpcLayer, null)));
  }

  /** What the arguments say. */
  static ClusterResolver simple(ClusterSpec spec, String taskType, Long taskId) {
    return simple(spec, null, taskType, taskId, null, null, null);
  }

  /** As simple, with the address of the master and the protocol ("grpc"). */
  static ClusterResolver simple(ClusterSpec spec, String master, String taskType, Long taskId,
      String environment, Long numAccelerators, String rpcLayer) {
    return new LibraryResolver(Box.at(Native.cluster_resolver_simple(
        spec, master, taskType, taskId, environment, numAccelerators, rpcLayer)));
  }

  /** What srun tells each task of a step, read anew at each question; every task is a worker. */
  static ClusterResolver slurm() {
    return slurm(new SlurmOptions());
  }

  /**
   * What srun tells each task of a step, read anew at each question. Reading the cluster puts this
   * task's part of the node's GPUs into CUDA_VISIBLE_DEVICES. What it is asked fails with
   * FAILED_PRECONDITION where Slurm has not started this process, or started fewer tasks or has
   * fewer GPUs than are asked for.
   */
  static ClusterResolver slurm(SlurmOptions options) {
    return new LibraryResolver(Box.at(Native.cluster_resolver_slurm(
        SlurmOptions.text(options.jobs()), options.tasksPerNodeText(), options.portBase(),
        options.gpusPerNode(), options.gpusPerTask(), Bridge.tristate(options.autoSetGpu()),
        options.rpcLayer(), null, null)));
  }

  /**
   * The running pods of each job, in the natural order of their names, asked of Kubernetes anew at
   * each question as the pod's service account, which needs the right to list pods.
   */
  static ClusterResolver kubernetes(KubernetesOptions options) {
    return new LibraryResolver(Box.at(Native.cluster_resolver_kubernetes(options.labelsText(),
        options.port(), options.rpcLayer(), options.taskType(), options.taskId(),
        Bridge.tristate(options.hostIp()), options.accountFolder(), options.namespace(),
        options.timeout().toNanos())));
  }

  /**
   * The running instances of a group, in the natural order of their names, asked of Google Compute
   * Engine anew at each question.
   */
  static ClusterResolver gce(String instanceGroup, GceOptions options) {
    return new LibraryResolver(Box.at(Native.cluster_resolver_gce(instanceGroup, options.project(),
        options.zone(), options.port(), options.taskType(), options.taskId(), options.rpcLayer(),
        options.token(), options.endpoint(), options.caFile(), options.timeout().toNanos())));
  }

  /**
   * Several resolvers as one, each asked anew at each question: its cluster has the jobs of all of
   * them, and whatever else it is asked the first one answers. Lists of one job are joined in
   * order; where one has gaps all keep their indices, and a task that comes twice is NOT_FOUND when
   * the cluster is read.
   */
  static ClusterResolver union(ClusterResolver first, ClusterResolver... others) {
    return union(null, null, null, first, others);
  }

  /** As union; what is not null beats what the first resolver says. */
  static ClusterResolver union(String taskType, Long taskId, String rpcLayer,
      ClusterResolver first, ClusterResolver... others) {
    return new UnionResolver(taskType, taskId, rpcLayer, first, others);
  }

  /** The tasks of the cluster as they are now. */
  ClusterSpec clusterSpec();

  /** The job of this process, "worker" and so on; null when it is not known. */
  default String taskType() {
    return null;
  }

  /** The index of this process within its job; null when it is not known. */
  default Long taskId() {
    return null;
  }

  /** How processes speak, "grpc"; null when it is not known. */
  default String rpcLayer() {
    return null;
  }

  /** The address of the master, "" for an empty cluster. */
  default String master() {
    return master(null, null, null);
  }

  /** The address of a task. */
  default String master(String taskType, Long taskId, String rpcLayer) {
    return LibraryResolver.with(this, resolver -> resolver.master(taskType, taskId, rpcLayer));
  }

  /** The accelerators of this task; by default those of this machine. */
  default long numAccelerators() {
    return TuttiRuntime.devices("GPU").size();
  }

  /** "" here, "google" there. */
  default String environment() {
    return "";
  }

  @Override
  default void close() {}
}
