package org.tutti.distribute;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.tutti.internal.Answers;

/**
 * What ClusterResolver.kubernetes asks for.
 *
 * @param jobLabels the label selectors of each job's pods
 * @param port of each task
 * @param rpcLayer how processes speak
 * @param taskType of this process; null: that of the pod with this machine's name
 * @param taskId likewise
 * @param hostIp whether addresses are those of the pods' nodes
 * @param accountFolder of the service account; null: the pod's
 * @param namespace null: the account's
 * @param timeout of a question with all its pages
 */
public record KubernetesOptions(Map<String, List<String>> jobLabels, long port, String rpcLayer,
    String taskType, Long taskId, boolean hostIp, String accountFolder, String namespace,
    Duration timeout) {
  /** The pods with the label job-name=tensorflow are workers. */
  public KubernetesOptions() {
    this(Map.of("worker", List.of("job-name=tensorflow")));
  }

  /** The pods with these labels. */
  public KubernetesOptions(Map<String, List<String>> jobLabels) {
    this(jobLabels, 8470, "grpc", null, null, false, null, null, Duration.ofSeconds(30));
  }

  /** The same, and which task this process is. */
  public KubernetesOptions task(String type, long id) {
    return new KubernetesOptions(
        jobLabels, port, rpcLayer, type, id, hostIp, accountFolder, namespace, timeout);
  }

  /** The same with the service account of another folder and namespace. */
  public KubernetesOptions account(String folder, String name) {
    return new KubernetesOptions(
        jobLabels, port, rpcLayer, taskType, taskId, hostIp, folder, name, timeout);
  }

  String labelsText() {
    return jobLabels.entrySet().stream()
        .map(entry -> Answers.quoted(entry.getKey()) + ": "
            + entry.getValue().stream().map(Answers::quoted)
                .collect(Collectors.joining(", ", "[", "]")))
        .collect(Collectors.joining(", ", "{", "}"));
  }
}
