package org.tutti.distribute;

import org.tutti.internal.Bridge;

/** How a dataset is distributed; null: the default. */
public record InputOptions(Rebatch rebatch, Boolean prefetchToDevice) {
  /** How b rows are cut over n replicas. */
  public enum Rebatch {
    /** Slices of ceil(b / n), trailing ones smaller or empty: the default. */
    CEIL,
    /** Slices that differ by one row at most. */
    EVEN
  }

  /** The defaults. */
  public InputOptions() {
    this(null, null);
  }

  int rebatchNumber() {
    return rebatch == null ? 0 : rebatch.ordinal() + 1;
  }

  int prefetchNumber() {
    return Bridge.tristate(prefetchToDevice);
  }
}
