package org.tutti.distribute;

import java.time.Duration;
import org.tutti.Code;
import org.tutti.ReduceOp;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;

/**
 * What a replica function reaches the other replicas through; ends when the function returns
 * (FAILED_PRECONDITION afterwards). Threads: the replica's own.
 */
public sealed class ReplicaContext permits DefaultReplicaContext {
  private static final ReplicaContext DEFAULT = new DefaultReplicaContext();

  private final Thread thread = Thread.currentThread();
  private long context;

  ReplicaContext(long context) {
    this.context = context;
  }

  void end() {
    context = 0;
  }

  // Only the replica's thread gets an address, so that it cannot end under a call.
  private long context() {
    if (Thread.currentThread() != thread) {
      throw TuttiException.of(Code.FAILED_PRECONDITION,
          "a replica context belongs to the replica's own thread, " + thread.getName());
    }
    if (context == 0) {
      throw TuttiException.of(Code.FAILED_PRECONDITION,
          "this replica context has ended: it lives as long as the replica function runs");
    }
    return context;
  }

  /**
   * The context of the replica function that the thread is in; null in cross-replica context (a
   * strategy's scope, a merge function). Outside of both it is that of the default strategy: one
   * replica on its own, on any thread.
   */
  public static ReplicaContext current() {
    final Object scope = Scope.current();
    if (scope == null) {
      return DEFAULT;
    }
    return scope instanceof ReplicaContext replica ? replica : null;
  }

  /** The replica among all replicas in sync, 0 .. n-1. */
  public int replicaId() {
    return (int) Native.context_replica_id(context());
  }

  /** All replicas of all workers. */
  public int replicaCount() {
    return (int) Native.context_replica_count(context());
  }

  /**
   * Rows of this step over all replicas of all workers, when run was given a batch of a distributed
   * iterator or values and tensors of one; else -1, as for what was computed of a batch, for
   * buffers and copies, and for batches of different steps. Scale a loss by 1 / globalRows and sum:
   * the mean of means is wrong when batches are uneven.
   */
  public long globalRows() {
    return Native.context_global_rows(context());
  }

  /** The device of this replica, "CPU:0". */
  public String device() {
    return Native.context_device(context());
  }

  /** Whether the call was cancelled, ran out of time or failed in another replica: return soon. */
  public boolean isCancelled() {
    return Native.context_is_cancelled(context());
  }

  /** The strategy that runs the function. */
  public Strategy strategy() {
    return Strategy.wrap(Native.context_strategy(context()));
  }

  /**
   * Reduces every tensor of {@code value} over all replicas; each gets the same bits. All replicas
   * must call it with the same structure, dtypes and shapes; otherwise all get INVALID_ARGUMENT
   * naming both sides. ABORTED when another replica failed.
   */
  public Value allReduce(ReduceOp op, Object value) {
    return allReduce(op, value, (Duration) null);
  }

  /** As allReduce, waiting for at most {@code timeout}. */
  public Value allReduce(ReduceOp op, Object value, Duration timeout) {
    return reduced(op, value, nanos(timeout), null);
  }

  /** As allReduce, with options of the call. */
  public Value allReduce(ReduceOp op, Object value, CommunicationOptions options) {
    return reduced(op, value, CommunicationOptions.nanosIn(this, options), options);
  }

  Value reduced(ReduceOp op, Object value, long nanos, CommunicationOptions options) {
    final long address = context();
    try (Value operand = Value.of(value)) {
      return Makers.value(Box.at(Bridge.hinted(options,
          () -> Native.context_all_reduce(address, op.number(), operand, nanos))));
    }
  }

  private long nanos(Duration timeout) {
    return timeout != null ? Bridge.nanos(timeout) : CommunicationOptions.nanosIn(this, null);
  }

  /** Joins every tensor of {@code value} of all replicas along {@code axis}, in replica order. */
  public Value allGather(Object value, int axis) {
    return allGather(value, axis, (Duration) null);
  }

  /** As allGather, waiting for at most {@code timeout}. */
  public Value allGather(Object value, int axis, Duration timeout) {
    return gathered(value, axis, nanos(timeout), null);
  }

  /** As allGather, with options of the call. */
  public Value allGather(Object value, int axis, CommunicationOptions options) {
    return gathered(value, axis, CommunicationOptions.nanosIn(this, options), options);
  }

  Value gathered(Object value, int axis, long nanos, CommunicationOptions options) {
    final long address = context();
    try (Value operand = Value.of(value)) {
      return Makers.value(Box.at(Bridge.hinted(options,
          () -> Native.context_all_gather(address, operand, axis, nanos))));
    }
  }

  /**
   * Runs {@code function} once for all replicas, on the thread that called run, in cross-replica
   * context. It gets the replicas' arguments as one value, distributed where they differ; of its
   * result each replica gets its own part. All replicas must make the same number of merge calls
   * with the same function (the same lambda expression).
   */
  public Value mergeCall(MergeFunction function, Object argument) {
    return mergeCall(function, argument, null);
  }

  /** As mergeCall, without an argument. */
  public Value mergeCall(MergeFunction function) {
    return mergeCall(function, null, null);
  }

  /** As mergeCall, waiting for at most {@code timeout}. */
  public Value mergeCall(MergeFunction function, Object argument, Duration timeout) {
    final long address = context();
    // The name of a lambda expression's class is its own, whichever replica made the lambda.
    final String name = function.getClass().getName();
    final Functions.Cross merge = new Functions.Cross(function::merge);
    try (Value given = argument == null ? null : Value.of(argument)) {
      final long result =
          Native.merge_call(address, merge, name, given, Bridge.nanos(timeout));
      return result == 0 ? Value.of(null) : Makers.value(Box.at(result));
    }
  }

  @Override
  public String toString() {
    return Thread.currentThread() != thread || context == 0 ? "ReplicaContext that has ended"
        : "ReplicaContext " + replicaId() + " of " + replicaCount();
  }
}
