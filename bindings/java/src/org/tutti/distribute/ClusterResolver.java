package org.tutti.distribute;

import java.time.Duration;
import java.util.Map;
import java.util.function.Supplier;
import org.tutti.TuttiRuntime;
import org.tutti.internal.Answers;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.LibraryResolver;
import org.tutti.internal.Native;

/**
 * Finds which processes a job has, and which of them this one is.
 *
 * <p>One of your own says at least which tasks there are: a lambda that gives a ClusterSpec, or a
 * class that also says which task this process is. It is asked anew at each question, on the thread
 * that asks: when a strategy is made, or a cluster joined.
 * Threads: any, for those of the library.
 */
@FunctionalInterface
public interface ClusterResolver extends AutoCloseable {
  /** The variable TF_CONFIG, read anew at each question. */
  static ClusterResolver tfConfig() {
    return tfConfig(null, null, null, null);
  }

  /** As tfConfig, for this task. */
  static ClusterResolver tfConfig(String taskType, long taskId) {
    return tfConfig(taskType, taskId, null, null);
  }

  /** As tfConfig; what is not null beats the variable. */
  static ClusterResolver tfConfig(
      String taskType, Long taskId, String rpcLayer, String environment) {
    return new LibraryResolver(
        Box.at(Native.cluster_resolver_tf_config(taskType, taskId, rpcLayer, environment)));
  }

  /** What the arguments say. */
  static ClusterResolver simple(ClusterSpec spec, String taskType, Long taskId) {
    return simple(spec, null, taskType, taskId, null, null, null);
  }

  /**
   * As simple, with the address of the master, the accelerators of a worker by types of devices
   * (Map.of("GPU", 2L); null: none) and the protocol ("grpc").
   */
  static ClusterResolver simple(ClusterSpec spec, String master, String taskType, Long taskId,
      String environment, Map<String, Long> accelerators, String rpcLayer) {
    return new LibraryResolver(Box.at(Native.cluster_resolver_simple(
        spec, master, taskType, taskId, environment, Answers.json(accelerators), rpcLayer)));
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

  /** As kubernetes; {@code client} is asked instead of the API server. */
  static ClusterResolver kubernetes(KubernetesOptions options, KubernetesClient client) {
    if (client == null) {
      return kubernetes(options);
    }
    return new LibraryResolver(Box.at(Native.cluster_resolver_kubernetes_client(
        new Answers(question -> client.listPods(question.get(1), question.get(2))),
        options.labelsText(), options.port(), options.rpcLayer(), options.taskType(),
        options.taskId(), Bridge.tristate(options.hostIp()), options.timeout().toNanos())));
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

  /** As gce, where {@code service} is asked instead of Compute Engine. */
  static ClusterResolver gce(String instanceGroup, GceOptions options, GceService service) {
    return gce(instanceGroup, options, service, null);
  }

  /** As gce, with the token of each request from {@code credentials}. */
  static ClusterResolver gce(
      String instanceGroup, GceOptions options, Supplier<String> credentials) {
    return gce(instanceGroup, options, null, credentials);
  }

  /**
   * As gce.
   *
   * @param service is asked instead of Compute Engine; null: none is
   * @param credentials gives the token of each request, instead of the option; null: none does
   */
  static ClusterResolver gce(String instanceGroup, GceOptions options, GceService service,
      Supplier<String> credentials) {
    final Answers answers = new Answers(question -> switch (question.get(0)) {
      case "token" -> credentials.get();
      case "list_instances" -> service.listInstances(
          question.get(1), question.get(2), question.get(3), question.get(4));
      default -> service.getInstance(question.get(1), question.get(2), question.get(3));
    });
    return new LibraryResolver(Box.at(Native.cluster_resolver_gce_service(instanceGroup, answers,
        service != null, credentials != null, options.project(), options.zone(), options.port(),
        options.taskType(), options.taskId(), options.rpcLayer(), options.endpoint(),
        options.caFile(), options.timeout().toNanos())));
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

  /** As clusterSpec; the wait for a service is over after {@code timeout}, or an interrupt. */
  default ClusterSpec clusterSpec(Duration timeout) {
    return LibraryResolver.with(this, resolver -> resolver.clusterSpec(timeout));
  }

  /** The same resolver, which says that this is the task; this one stays as it is. */
  default ClusterResolver withTask(String taskType, long taskId) {
    return withTask(taskType, taskId, null);
  }

  /** The same resolver, which says what is not null of the task; this one stays as it is. */
  default ClusterResolver withTask(String taskType, Long taskId, String rpcLayer) {
    return LibraryResolver.with(this, resolver -> resolver.withTask(taskType, taskId, rpcLayer));
  }

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

  /** The address of a task, as the resolver's rpcLayer says. */
  default String master(String taskType, long taskId) {
    return master(taskType, taskId, null);
  }

  /** The address of a task. */
  default String master(String taskType, Long taskId, String rpcLayer) {
    return LibraryResolver.with(this, resolver -> resolver.master(taskType, taskId, rpcLayer));
  }

  /** The accelerators of this task; by default those of this machine. */
  default long numAccelerators() {
    return TuttiRuntime.devices("GPU").size();
  }

  /**
   * The accelerators of a task by types of devices; by default those of this machine, for every
   * task. {@code config} is taken, and without effect.
   */
  default Map<String, Long> accelerators(String taskType, Long taskId, Object config) {
    final long gpus = numAccelerators();
    return gpus == 0 ? Map.of() : Map.of("GPU", gpus);
  }

  /** As below, of a task. */
  default Map<String, Long> accelerators(String taskType, long taskId) {
    return accelerators(taskType, taskId, null);
  }

  /** "" here, "google" there. */
  default String environment() {
    return "";
  }

  @Override
  default void close() {}
}
