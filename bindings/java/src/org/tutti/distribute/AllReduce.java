package org.tutti.distribute;

import org.tutti.internal.Native;

/**
 * What a strategy does that was given no cross-device ops: each element is read from all replicas
 * and written once, in the order of the replicas.
 */
public final class AllReduce extends LibraryOps {
  /** For any strategy. */
  public AllReduce() {
    super(Native.reducer_all_reduce());
  }
}
