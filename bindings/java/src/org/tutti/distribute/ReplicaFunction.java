package org.tutti.distribute;

import org.tutti.Value;

/** What each replica runs. */
@FunctionalInterface
public interface ReplicaFunction {
  /**
   * Computes the replica's result.
   *
   * @param replica the other replicas, until the function returns
   * @param argument this replica's part of the argument, none where there is none; closed when the
   * function
   *     returns
   * @return what Value.of takes, null for none
   * @throws Exception comes out of run as the cause of a TuttiException
   */
  Object run(ReplicaContext replica, Value argument) throws Exception;
}
