package org.tutti.distribute;

/** What ClusterResolver.kubernetes asks instead of the API server. Threads: those that ask. */
@FunctionalInterface
public interface KubernetesClient {
  /**
   * The pods of a label selector, as the JSON of a PodList.
   *
   * @param page "" for the first one, else what metadata.continue of the one before said
   */
  String listPods(String labelSelector, String page) throws Exception;
}
