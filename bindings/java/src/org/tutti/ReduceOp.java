package org.tutti;

/** How the values of several replicas or ranks become one. */
public enum ReduceOp {
  /** Added. */
  SUM,
  /** Added, and divided by their number. */
  MEAN,
  /** The smallest, element by element. */
  MIN,
  /** The largest, element by element. */
  MAX,
  /** Multiplied. */
  PROD;

  /** The number of the C interface. */
  public int number() {
    return ordinal() + 1;
  }
}
