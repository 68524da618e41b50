package org.tutti.distribute;

import org.tutti.Value;

/** What runs once for all replicas, in cross-replica context. */
@FunctionalInterface
public interface MergeFunction {
  /**
   * Computes the result, of which each replica gets its part.
   *
   * @param strategy whose replicas they are
   * @param argument the replicas' arguments, distributed where they differ
   * @return what Value.of takes, null for none
   * @throws Exception fails the merge call of every replica
   */
  Object merge(Strategy strategy, Value argument) throws Exception;
}
