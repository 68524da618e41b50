package org.tutti.distribute;

/** What ClusterResolver.gce asks instead of Compute Engine, for JSON as Compute Engine's. */
public interface GceService {
  /**
   * The running instances of a group, with "items" and "nextPageToken".
   *
   * @param page "" for the first one, else the nextPageToken of the one before
   */
  String listInstances(String project, String zone, String group, String page) throws Exception;

  /** One of them, with "networkInterfaces". */
  String getInstance(String project, String zone, String name) throws Exception;
}
