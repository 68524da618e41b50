package org.tutti.distribute;

/**
 * How the step of a run is compiled. Nothing is compiled here: replicas run functions of the
 * program, for which these have no effect, as in the reference outside of TPUs.
 *
 * @param enableDynamicBatchSize of TPUs, whether batches may be partial: true by default
 * @param bucketizingDynamicShape of TPUs, whether shapes are padded to few: false by default
 */
public record RunOptions(boolean enableDynamicBatchSize, boolean bucketizingDynamicShape) {
  /** The defaults. */
  public RunOptions() {
    this(true, false);
  }
}
