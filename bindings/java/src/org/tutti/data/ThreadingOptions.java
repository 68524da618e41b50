package org.tutti.data;

/**
 * The options under threading; null: not set, 0: the library chooses. They are equal when the same
 * ones are set, to the same values.
 *
 * @param maxIntraOpParallelism calls that one operation makes at once
 * @param privateThreadpoolSize calls that the parallel maps of one iterator make at once, in all
 */
public record ThreadingOptions(Long maxIntraOpParallelism, Long privateThreadpoolSize) {
  /** None set. */
  public ThreadingOptions() {
    this(null, null);
  }
}
