package org.tutti.distribute;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * What ClusterResolver.slurm does not take from Slurm.
 *
 * @param jobs the tasks of each job, in the order in which they take Slurm's; empty: every task is
 *     a worker
 * @param tasksPerNode on each node, by its name; empty: as Slurm says
 * @param portBase the first port on each node
 * @param gpusPerNode null: those that nvidia-smi lists, else 0
 * @param gpusPerTask null: those of a node by its tasks
 * @param autoSetGpu whether reading the cluster sets CUDA_VISIBLE_DEVICES
 * @param rpcLayer how processes speak
 */
public record SlurmOptions(Map<String, Long> jobs, Map<String, Long> tasksPerNode, long portBase,
    Long gpusPerNode, Long gpusPerTask, boolean autoSetGpu, String rpcLayer) {
  /** Everything as Slurm says. */
  public SlurmOptions() {
    this(Map.of(), Map.of(), 8888, null, null, true, "grpc");
  }

  /** The same with a job more, whose tasks follow those before it. */
  public SlurmOptions job(String name, long tasks) {
    final Map<String, Long> more = new LinkedHashMap<>(jobs);
    more.put(name, tasks);
    return new SlurmOptions(
        more, tasksPerNode, portBase, gpusPerNode, gpusPerTask, autoSetGpu, rpcLayer);
  }

  /** The same with another first port. */
  public SlurmOptions portBase(long port) {
    return new SlurmOptions(
        jobs, tasksPerNode, port, gpusPerNode, gpusPerTask, autoSetGpu, rpcLayer);
  }

  /** The same with so many tasks on a node. */
  public SlurmOptions tasksPerNode(String node, long tasks) {
    final Map<String, Long> more = new LinkedHashMap<>(tasksPerNode);
    more.put(node, tasks);
    return new SlurmOptions(jobs, more, portBase, gpusPerNode, gpusPerTask, autoSetGpu, rpcLayer);
  }

  /** The same with so many GPUs on each node, shared by its tasks. */
  public SlurmOptions gpus(long perNode) {
    return gpus(perNode, null);
  }

  /** The same with so many GPUs on each node, and for each task (null: by its tasks). */
  public SlurmOptions gpus(long perNode, Long perTask) {
    return new SlurmOptions(jobs, tasksPerNode, portBase, perNode, perTask, autoSetGpu, rpcLayer);
  }

  /** The same; CUDA_VISIBLE_DEVICES is left as it is. */
  public SlurmOptions keepVisibleDevices() {
    return new SlurmOptions(
        jobs, tasksPerNode, portBase, gpusPerNode, gpusPerTask, false, rpcLayer);
  }

  static String text(Map<String, Long> counts) {
    return counts.entrySet().stream()
        .map(entry -> entry.getKey() + ":" + entry.getValue())
        .collect(Collectors.joining(","));
  }

  String tasksPerNodeText() {
    return text(tasksPerNode);
  }
}
