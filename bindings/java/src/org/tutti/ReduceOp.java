package org.tutti;

/** How the values of several replicas or ranks become one. */
public enum ReduceOp {
  SUM, MEAN, MIN, MAX, PROD;

  /** The number of the C interface. */
  public int number() {
    return ordinal() + 1;
  }
}
