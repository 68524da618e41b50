package org.tutti.distribute;

import org.tutti.TuttiRuntime;
import org.tutti.internal.Box;
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
