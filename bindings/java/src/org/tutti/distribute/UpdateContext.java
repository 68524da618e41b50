package org.tutti.distribute;

import org.tutti.Code;
import org.tutti.TuttiException;
import org.tutti.internal.Native;

/**
 * Where an update function runs (StrategyExtended.update), for one device: reads and writes of
 * variables on its thread are those of the copy there. It is cross-replica context, in which run
 * and collectives are FAILED_PRECONDITION, and ends with the function. Threads: the function's
 * own.
 */
public final class UpdateContext {
  private final Thread thread = Thread.currentThread();
  private final Strategy strategy;
  private long context;

  UpdateContext(Strategy strategy, long context) {
    this.strategy = strategy;
    this.context = context;
  }

  void end() {
    context = 0;
  }

  private long context() {
    if (context == 0 || Thread.currentThread() != thread) {
      throw TuttiException.of(Code.FAILED_PRECONDITION,
          "an update context belongs to the thread of its function, until that returns");
    }
    return context;
  }

  /** That of the update function that the thread is in, else null. */
  public static UpdateContext current() {
    return Scope.current() instanceof UpdateContext update ? update : null;
  }

  /** The number of the copy, 0 .. devices-1. */
  public int updateReplicaId() {
    return (int) Native.context_update_replica_id(context());
  }

  /** The device of the copy, "CPU:0". */
  public String device() {
    return Native.context_device(context());
  }

  /** The strategy whose update this is. */
  public Strategy strategy() {
    return strategy;
  }
}
