package org.tutti.distribute;

import org.tutti.internal.Bridge;

/**
 * How a dataset is distributed; null: the default.
 *
 * @param rebatch how b rows are cut over n replicas
 * @param prefetchToDevice whether what a thread makes before it is asked for, the element that each
 *     replica gets next, lies on the replica's device, and slices of one more step on the host,
 *     where batches are cut; else only the former are made, on the host, which for CPUs is the same
 *     memory: true by default, false with placeDatasetOnDevice
 * @param replicationMode how many input pipelines there are: PER_WORKER by default
 * @param placeDatasetOnDevice makes nothing ahead; needs PER_REPLICA, and no prefetchToDevice, else
 *     it is INVALID_ARGUMENT: false by default
 */
public record InputOptions(Rebatch rebatch, Boolean prefetchToDevice,
    InputReplicationMode replicationMode, Boolean placeDatasetOnDevice) {
  /** How b rows are cut over n replicas. */
  public enum Rebatch {
    /** Slices of ceil(b / n), trailing ones smaller or empty: the default. */
    CEIL,
    /** Slices that differ by one row at most. */
    EVEN
  }

  /** How many input pipelines there are. */
  public enum InputReplicationMode {
    /** One for each worker, which feeds all its replicas: the default. */
    PER_WORKER,
    /** One for each replica: of distributeFromFunction of a mirrored strategy only. */
    PER_REPLICA
  }

  /** The defaults. */
  public InputOptions() {
    this(null, null);
  }

  /** The defaults but for these two. */
  public InputOptions(Rebatch rebatch, Boolean prefetchToDevice) {
    this(rebatch, prefetchToDevice, null, null);
  }

  /** The same, cut another way. */
  public InputOptions rebatch(Rebatch way) {
    return new InputOptions(way, prefetchToDevice, replicationMode, placeDatasetOnDevice);
  }

  /** The same, made ahead on the replicas' devices or not. */
  public InputOptions prefetchToDevice(boolean ahead) {
    return new InputOptions(rebatch, ahead, replicationMode, placeDatasetOnDevice);
  }

  /** The same with other pipelines. */
  public InputOptions replicationMode(InputReplicationMode mode) {
    return new InputOptions(rebatch, prefetchToDevice, mode, placeDatasetOnDevice);
  }

  /** The same, with the dataset on the device or not. */
  public InputOptions placeDatasetOnDevice(boolean placed) {
    return new InputOptions(rebatch, prefetchToDevice, replicationMode, placed);
  }

  int rebatchNumber() {
    return rebatch == null ? 0 : rebatch.ordinal() + 1;
  }

  int prefetchNumber() {
    return Bridge.tristate(prefetchToDevice);
  }

  int modeNumber() {
    return replicationMode == null ? 0 : replicationMode.ordinal() + 1;
  }

  int placeNumber() {
    return Bridge.tristate(placeDatasetOnDevice);
  }
}
