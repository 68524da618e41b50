package org.tutti.distribute;

import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/** Finds which processes a job has, and which of them this one is. Threads: any. */
public final class ClusterResolver extends NativeObject implements AutoCloseable {
  ClusterResolver(Box box) {
    super(box);
  }

  /** The variable TF_CONFIG, read anew at each question. */
  public static ClusterResolver tfConfig() {
    return tfConfig(null, null, null);
  }

  /** As tfConfig; what is not null beats the variable. */
  public static ClusterResolver tfConfig(String taskType, Long taskId, String rpcLayer) {
    return new ClusterResolver(
        Box.at(Native.cluster_resolver_tf_config(taskType, taskId, rpcLayer, null)));
  }

  /** What the arguments say. */
  public static ClusterResolver simple(ClusterSpec spec, String taskType, Long taskId) {
    return new ClusterResolver(Box.at(
        Native.cluster_resolver_simple(spec, null, taskType, taskId, null, null, null)));
  }

  /** As simple, with the address of the master and the protocol ("grpc"). */
  public static ClusterResolver simple(ClusterSpec spec, String master, String taskType, Long taskId,
      String environment, Long numAccelerators, String rpcLayer) {
    return new ClusterResolver(Box.at(Native.cluster_resolver_simple(
        spec, master, taskType, taskId, environment, numAccelerators, rpcLayer)));
  }

  /** The tasks of the cluster as they are now. */
  public ClusterSpec clusterSpec() {
    return new ClusterSpec(Box.at(Native.cluster_resolver_cluster_spec(this)));
  }

  /** The job of this process, "worker" and so on; null when it is not known. */
  public String taskType() {
    return Bridge.text(Native.cluster_resolver_task_type(this));
  }

  /** The index of this process within its job; null when it is not known. */
  public Long taskId() {
    return Bridge.optional(Native.cluster_resolver_task_id(this));
  }

  /** How processes speak, "grpc"; null when it is not known. */
  public String rpcLayer() {
    return Bridge.text(Native.cluster_resolver_rpc_layer(this));
  }

  /** The address of the master, "" for an empty cluster. */
  public String master() {
    return master(null, null, null);
  }

  /** The address of a task. */
  public String master(String taskType, Long taskId, String rpcLayer) {
    return Bridge.text(Native.cluster_resolver_master(this, taskType, taskId, rpcLayer));
  }

  /** The accelerators of this task. */
  public long numAccelerators() {
    return Native.cluster_resolver_num_accelerators(this);
  }

  /** "" here, "google" there. */
  public String environment() {
    return Bridge.text(Native.cluster_resolver_environment(this));
  }

  @Override
  public void close() {
    release();
  }
}
