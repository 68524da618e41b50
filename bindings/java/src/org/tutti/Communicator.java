package org.tutti;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * One rank of a group that computes together. All ranks make the same calls in the same order; a
 * mismatch is INVALID_ARGUMENT on all of them. Threads: one at a time.
 */
public final class Communicator extends NativeObject implements AutoCloseable {
  private Communicator(Box box) {
    super(box);
  }

  /** `size` ranks within this process. */
  public static List<Communicator> createLocal(int size, String name) {
    if (size < 0 || size > 65536) {
      throw TuttiException.of(
          Code.INVALID_ARGUMENT, "a communicator of " + size + " ranks cannot be made");
    }
    final long[] boxes = new long[size];
    Native.communicator_create_local(size, name, boxes);
    final List<Communicator> ranks = new ArrayList<>();
    for (final long box : boxes) {
      ranks.add(new Communicator(Box.at(box)));
    }
    return ranks;
  }

  /** One rank per worker of the cluster; every worker makes the call with the same name. */
  public static Communicator create(Cluster cluster, String name, Duration timeout) {
    return new Communicator(
        Box.at(Native.communicator_create(cluster, name, Bridge.nanos(timeout))));
  }

  /** This rank. */
  public int rank() {
    return (int) Native.communicator_rank(this);
  }

  /** How many ranks there are. */
  public int size() {
    return (int) Native.communicator_size(this);
  }

  /** How often the group has been made anew. */
  public long epoch() {
    return Native.communicator_epoch(this);
  }

  /** How the ranks reach each other: "in_process", "shared_memory", "tcp" or "mixed". */
  public String transport() {
    return Native.communicator_transport(this);
  }

  /** Folds `value` of all ranks into a new tensor. */
  public Tensor allReduce(Tensor value, ReduceOp op) {
    final Tensor result = Tensor.zeros(value.dtype(), value.shape());
    try {
      allReduce(value, op, result, null);
      return result;
    } catch (RuntimeException failed) {
      result.close();
      throw failed;
    }
  }

  /** Folds `value` of all ranks into `result`, which may be `value` itself. */
  public void allReduce(Tensor value, ReduceOp op, Tensor result, Duration timeout) {
    Native.communicator_all_reduce(this, value, op.number(), Bridge.nanos(timeout), result);
  }

  /** Copies the tensor of rank `root` into that of every other rank. */
  public void broadcast(Tensor tensor, int root, Duration timeout) {
    Native.communicator_broadcast(this, root, Bridge.nanos(timeout), tensor);
  }

  /** Joins `value` of all ranks along axis 0, whose size may differ. */
  public Tensor allGather(Tensor value, Duration timeout) {
    return new Tensor(
        Box.at(Native.communicator_all_gather(this, value, Bridge.nanos(timeout))));
  }

  /** Returns when every rank has called it. */
  public void barrier(Duration timeout) {
    Native.communicator_barrier(this, Bridge.nanos(timeout));
  }

  /** Ends the epoch: calls in flight and later ones fail on every rank with ABORTED. */
  public void abort(String message) {
    Objects.requireNonNull(message, "a message is needed, not null");
    Native.communicator_abort(this, message);
  }

  /** Leaves; peers that still need this rank fail with UNAVAILABLE. */
  @Override
  public void close() {
    close(null);
  }

  /** As close, waiting for at most `timeout`. */
  public void close(Duration timeout) {
    if (!isClosed()) {
      try {
        Native.communicator_close(this, Bridge.nanos(timeout));
      } finally {
        release();
      }
    }
  }
}
