package org.tutti.distribute;

import java.time.Duration;

/**
 * Where ClusterResolver.gce looks, and what it does not take from this instance.
 *
 * @param project of the group; null: this instance's
 * @param zone likewise
 * @param port of each task
 * @param taskType the job of all instances
 * @param taskId of this one
 * @param rpcLayer how processes speak
 * @param token null: of this instance's account
 * @param endpoint where the service is; null: Google's
 * @param caFile its certificates; null: the system's
 * @param timeout of a question with all its pages
 */
public record GceOptions(String project, String zone, long port, String taskType, long taskId,
    String rpcLayer, String token, String endpoint, String caFile, Duration timeout) {
  /** Of this instance, which is worker {@code taskId}. */
  public GceOptions(long taskId) {
    this(null, null, 8470, "worker", taskId, "grpc", null, null, null, Duration.ofSeconds(30));
  }

  /** The same of another project and zone. */
  public GceOptions place(String otherProject, String otherZone) {
    return new GceOptions(otherProject, otherZone, port, taskType, taskId, rpcLayer, token,
        endpoint, caFile, timeout);
  }

  /** As below, with the system's certificates. */
  public GceOptions service(String otherToken, String otherEndpoint) {
    return service(otherToken, otherEndpoint, null);
  }

  /** The same with another service than Google's, and what it takes. */
  public GceOptions service(String otherToken, String otherEndpoint, String otherCaFile) {
    return new GceOptions(project, zone, port, taskType, taskId, rpcLayer, otherToken,
        otherEndpoint, otherCaFile, timeout);
  }
}
