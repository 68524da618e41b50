package org.tutti;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.tutti.distribute.CommunicationOptions;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * One rank of a group that computes together. All ranks make the same calls in the same order; a
 * mismatch is INVALID_ARGUMENT on all of them. Results are equal in every bit on all ranks. An
 * error, a timeout and an abort end the epoch: later calls of every rank fail with the first error.
 *
 * <p>Rows are along axis 0. A result has the dtype and the shape that the call gives it, and
 * overlaps nothing but where the call says that it may be its value. BYTES are for allGather and
 * gather.
 *
 * <p>A method that ends in Async returns at once. Its call runs on a thread of the communicator's
 * own, in the order of issue, and counts among the calls of the rank; one without Async waits for
 * its turn behind it. Wrong arguments are thrown at once, everything else by {@link
 * ValueFuture#get}. Until the call is done its tensors must not be written and its results not
 * read; closing them is fine. The timeout (null: the setting default_timeout) counts from the
 * issue. Giving up the wait, by a timeout or an interrupt of the waiting thread, or closing the
 * future leaves the call alone.
 *
 * <p>Threads: any for Async, abort, revoke, shrink, grow and close; else one at a time.
 */
public final class Communicator extends NativeObject implements AutoCloseable {
  static {
    Makers.leave(Communicator.class, Communicator::new);
  }

  private Communicator(Box box) {
    super(box);
  }


  /** {@code size} ranks within this process. */
  public static List<Communicator> createLocal(int size) {
    return createLocal(size, null);
  }

  /** One rank per worker of the cluster; every worker makes the call. */
  public static Communicator create(Cluster cluster) {
    return create(cluster, null, null);
  }

  /** As above, under a name, which is the same on all workers. */
  public static Communicator create(Cluster cluster, String name) {
    return create(cluster, name, null);
  }

  /** {@code size} ranks within this process. */
  public static List<Communicator> createLocal(int size, String name) {
    if (size < 1 || size > 65536) {
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

  /** As split, of a group that gets its name from where it comes from. */
  public Communicator split(long color, long key) {
    return split(color, key, null, null);
  }

  /** As above, for at most {@code timeout}. */
  public Communicator split(long color, long key, Duration timeout) {
    return split(color, key, null, timeout);
  }

  /** As split with a timeout, without one: the setting default_timeout holds. */
  public Communicator split(long color, long key, String name) {
    return split(color, key, name, null);
  }

  /**
   * Ranks of one color form a communicator of their own, ordered by key and then by rank; every
   * rank calls it. A negative color is in none and gets null. A name of null says where the group
   * comes from. Its errors leave this communicator alone; the split itself is a call of it, beside
   * which this rank issues nothing.
   */
  public Communicator split(long color, long key, String name, Duration timeout) {
    final Box box =
        Box.at(Native.communicator_split(this, color, key, name, Bridge.nanos(timeout)));
    return box == null ? null : new Communicator(box);
  }

  /**
   * Zeros in memory that all ranks of one machine map: calls of this tensor, and of views of it,
   * need no copy into shared memory, where it lies so on all ranks (small calls copy it all the
   * same: that is faster). Where ranks share no memory it is a tensor like any other. It outlives
   * the communicator.
   */
  public Tensor createTensor(DType dtype, long... shape) {
    return Makers.tensor(Box.at(Native.communicator_create_tensor(this, dtype.number(), shape)));
  }

  // ---- collectives

  /** Folds {@code value} of all ranks into a new tensor, on its GPU where it lies on one. */
  public Tensor allReduce(Tensor value, ReduceOp op) {
    final Tensor result = value.cudaDevice() >= 0
        ? Tensor.zerosOn(value.device(), value.dtype(), value.shape())
        : Tensor.zeros(value.dtype(), value.shape());
    try {
      allReduce(value, op, result, (Duration) null);
      return result;
    } catch (RuntimeException failed) {
      result.close();
      throw failed;
    }
  }

  /** As allReduce with a timeout, without one: the setting default_timeout holds. */
  public void allReduce(Tensor value, ReduceOp op, Tensor result) {
    allReduce(value, op, result, (Duration) null);
  }

  /** Folds {@code value} of all ranks into {@code result}, which may be {@code value} itself. */
  public void allReduce(Tensor value, ReduceOp op, Tensor result, Duration timeout) {
    Native.communicator_all_reduce(this, value, op.number(), Bridge.nanos(timeout), result);
  }

  /** As allReduce with a timeout, without one: the setting default_timeout holds. */
  public void allReduce(List<Tensor> values, ReduceOp op, List<Tensor> results) {
    allReduce(values, op, results, (Duration) null);
  }

  /**
   * Several tensors, of any dtypes and shapes, in one call: each of {@code results}, which may be
   * its value, from the value at the same place.
   */
  public void allReduce(
      List<Tensor> values, ReduceOp op, List<Tensor> results, Duration timeout) {
    Native.communicator_all_reduce_many(
        this, array(values), op.number(), Bridge.nanos(timeout), array(results));
  }

  /** As allReduce, with options, whose timeout counts. */
  public void allReduce(Tensor value, ReduceOp op, Tensor result, CommunicationOptions options) {
    allReduce(value, op, result, options, null);
  }

  /** As above, with options (null: none), whose timeout counts where {@code timeout} is null. */
  public void allReduce(Tensor value, ReduceOp op, Tensor result, CommunicationOptions options,
      Duration timeout) {
    final long nanos = Bridge.nanos(options, timeout);
    Bridge.hinted(options, () -> {
      Native.communicator_all_reduce(this, value, op.number(), nanos, result);
      return 0;
    });
  }

  /** As allReduce of several, with options: bytesPerPack makes a call per pack. */
  public void allReduce(List<Tensor> values, ReduceOp op, List<Tensor> results,
      CommunicationOptions options) {
    allReduce(values, op, results, options, null);
  }

  /** As above, with options (null: none): bytesPerPack makes a call per pack. */
  public void allReduce(List<Tensor> values, ReduceOp op, List<Tensor> results,
      CommunicationOptions options, Duration timeout) {
    final long nanos = Bridge.nanos(options, timeout);
    Bridge.hinted(options, () -> {
      Native.communicator_all_reduce_many(
          this, array(values), op.number(), nanos, array(results));
      return 0;
    });
  }

  /** As reduce, of a rank that is not the root and gets no result. */
  public void reduce(Tensor value, ReduceOp op, int root) {
    reduce(value, op, root, null, (Duration) null);
  }

  /** As reduce with a timeout, without one: the setting default_timeout holds. */
  public void reduce(Tensor value, ReduceOp op, int root, Tensor result) {
    reduce(value, op, root, result, (Duration) null);
  }

  /**
   * Folds {@code value} of all ranks into {@code result} of rank {@code root}, which may be its
   * {@code value}; the others may give null for {@code result}.
   */
  public void reduce(Tensor value, ReduceOp op, int root, Tensor result, Duration timeout) {
    Native.communicator_reduce(this, value, op.number(), root, Bridge.nanos(timeout), result);
  }

  /** As reduce, with options, whose timeout counts. */
  public void reduce(Tensor value, ReduceOp op, int root, Tensor result,
      CommunicationOptions options) {
    reduce(value, op, root, result, options, null);
  }

  /** As above, with options (null: none), whose timeout counts where {@code timeout} is null. */
  public void reduce(Tensor value, ReduceOp op, int root, Tensor result,
      CommunicationOptions options, Duration timeout) {
    final long nanos = Bridge.nanos(options, timeout);
    Bridge.hinted(options, () -> {
      Native.communicator_reduce(this, value, op.number(), root, nanos, result);
      return 0;
    });
  }

  /** As reduceScatter with a timeout, without one: the setting default_timeout holds. */
  public void reduceScatter(Tensor value, ReduceOp op, Tensor result) {
    reduceScatter(value, op, result, null);
  }

  /**
   * Folds {@code value} [size * m, ...] of all ranks; rank r gets rows [r * m, (r + 1) * m) of that
   * in {@code result} [m, ...]. Rows that the ranks cannot share evenly are INVALID_ARGUMENT.
   */
  public void reduceScatter(Tensor value, ReduceOp op, Tensor result, Duration timeout) {
    Native.communicator_reduce_scatter(this, value, op.number(), Bridge.nanos(timeout), result);
  }

  /** As broadcast with a timeout, without one: the setting default_timeout holds. */
  public void broadcast(Tensor tensor, int root) {
    broadcast(tensor, root, null);
  }

  /** Copies the tensor of rank {@code root} into that of every other rank. */
  public void broadcast(Tensor tensor, int root, Duration timeout) {
    Native.communicator_broadcast(this, root, Bridge.nanos(timeout), tensor);
  }

  /** As allGather with a timeout, without one: the setting default_timeout holds. */
  public Tensor allGather(Tensor value) {
    return allGather(value, (Duration) null);
  }

  /** Joins {@code value} of all ranks along axis 0, whose size may differ. */
  public Tensor allGather(Tensor value, Duration timeout) {
    return Makers.tensor(
        Box.at(Native.communicator_all_gather(this, value, Bridge.nanos(timeout))));
  }

  /** As allGather, with options, whose timeout counts. */
  public Tensor allGather(Tensor value, CommunicationOptions options) {
    return allGather(value, options, null);
  }

  /** As above, with options (null: none), whose timeout counts where {@code timeout} is null. */
  public Tensor allGather(Tensor value, CommunicationOptions options, Duration timeout) {
    final long nanos = Bridge.nanos(options, timeout);
    return Makers.tensor(Box.at(Bridge.hinted(
        options, () -> Native.communicator_all_gather(this, value, nanos))));
  }

  /** As allGatherInto with a timeout, without one: the setting default_timeout holds. */
  public void allGatherInto(Tensor value, Tensor result) {
    allGatherInto(value, result, null);
  }

  /**
   * Joins {@code value} [m, ...], equal on all ranks, into {@code result} [size * m, ...] in rank
   * order.
   */
  public void allGatherInto(Tensor value, Tensor result, Duration timeout) {
    Native.communicator_all_gather_into(this, value, Bridge.nanos(timeout), result);
  }

  /** As gather with a timeout, without one: the setting default_timeout holds. */
  public Tensor gather(Tensor value, int root) {
    return gather(value, root, (Duration) null);
  }

  /** Joins as allGather does, at rank {@code root} only: the others get null. */
  public Tensor gather(Tensor value, int root, Duration timeout) {
    final Box box = Box.at(Native.communicator_gather(this, value, root, Bridge.nanos(timeout)));
    return box == null ? null : Makers.tensor(box);
  }

  /** As gather, with options, whose timeout counts. */
  public Tensor gather(Tensor value, int root, CommunicationOptions options) {
    return gather(value, root, options, null);
  }

  /** As above, with options (null: none), whose timeout counts where {@code timeout} is null. */
  public Tensor gather(Tensor value, int root, CommunicationOptions options, Duration timeout) {
    final long nanos = Bridge.nanos(options, timeout);
    final Box box = Box.at(Bridge.hinted(
        options, () -> Native.communicator_gather(this, value, root, nanos)));
    return box == null ? null : Makers.tensor(box);
  }

  /** As scatter, of a rank that is not the root and gives no value. */
  public void scatter(int root, Tensor result) {
    scatter(null, root, result, null);
  }

  /** As scatter with a timeout, without one: the setting default_timeout holds. */
  public void scatter(Tensor value, int root, Tensor result) {
    scatter(value, root, result, null);
  }

  /**
   * Rank r gets rows [r * m, (r + 1) * m) of the root's {@code value} [size * m, ...] in {@code
   * result} [m, ...]. The others may give null for {@code value}.
   */
  public void scatter(Tensor value, int root, Tensor result, Duration timeout) {
    Native.communicator_scatter(this, value, root, Bridge.nanos(timeout), result);
  }

  /** As allToAll with a timeout, without one: the setting default_timeout holds. */
  public void allToAll(Tensor value, Tensor result) {
    allToAll(value, result, null);
  }

  /**
   * Rows [p * m, (p + 1) * m) of {@code value} [size * m, ...] go to rank p; {@code result} of the
   * same shape gets rank p's rows for this rank there.
   */
  public void allToAll(Tensor value, Tensor result, Duration timeout) {
    Native.communicator_all_to_all(this, value, Bridge.nanos(timeout), result);
  }

  /** As allToAll with a timeout, without one: the setting default_timeout holds. */
  public Received allToAll(Tensor value, long[] sendRows) {
    return allToAll(value, sendRows, null);
  }

  /**
   * The first sendRows[0] rows of {@code value} go to rank 0, the next sendRows[1] to rank 1 and so
   * on; together they are all of its rows.
   */
  public Received allToAll(Tensor value, long[] sendRows, Duration timeout) {
    Objects.requireNonNull(sendRows, "a number of rows for each rank is needed, not null");
    final long[] rows = new long[sendRows.length];
    final Box box = Box.at(Native.communicator_all_to_all_uneven(
        this, value, sendRows, Bridge.nanos(timeout), rows));
    return new Received(Makers.tensor(box), rows);
  }

  /**
   * What an uneven allToAll brought.
   *
   * @param tensor the rows that came, in rank order
   * @param rows how many came from each rank
   */
  public record Received(Tensor tensor, long[] rows) implements AutoCloseable {
    @Override
    public void close() {
      tensor.close();
    }
  }

  /** As send with a timeout, without one: the setting default_timeout holds. */
  public void send(Tensor tensor, int to) {
    send(tensor, to, null);
  }

  /**
   * A tensor to rank {@code to}, which calls receive with the same dtype and shape; neither returns
   * before both have come and the bytes have moved. No other rank takes part. Two ranks that send
   * to each other at once wait for each other: let one of them receive first.
   */
  public void send(Tensor tensor, int to, Duration timeout) {
    Native.communicator_send(this, tensor, to, Bridge.nanos(timeout));
  }

  /** As receive with a timeout, without one: the setting default_timeout holds. */
  public void receive(int from, Tensor tensor) {
    receive(from, tensor, null);
  }

  /** What rank {@code from} sends, into {@code tensor}. */
  public void receive(int from, Tensor tensor, Duration timeout) {
    Native.communicator_receive(this, from, Bridge.nanos(timeout), tensor);
  }

  /** As barrier with a timeout, without one: the setting default_timeout holds. */
  public void barrier() {
    barrier(null);
  }

  /** Returns when every rank has called it. */
  public void barrier(Duration timeout) {
    Native.communicator_barrier(this, Bridge.nanos(timeout));
  }

  // ---- the same at once, with a future

  /** As allReduceAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture allReduceAsync(Tensor value, ReduceOp op, Tensor result) {
    return allReduceAsync(value, op, result, (Duration) null);
  }

  /** As allReduce; the future's value is none. */
  public ValueFuture allReduceAsync(Tensor value, ReduceOp op, Tensor result, Duration timeout) {
    return future(Native.communicator_all_reduce_async(
        this, value, op.number(), Bridge.nanos(timeout), result));
  }

  /** As allReduceAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture allReduceAsync(List<Tensor> values, ReduceOp op, List<Tensor> results) {
    return allReduceAsync(values, op, results, (Duration) null);
  }

  /** As allReduce of several tensors; the future's value is none. */
  public ValueFuture allReduceAsync(
      List<Tensor> values, ReduceOp op, List<Tensor> results, Duration timeout) {
    return future(Native.communicator_all_reduce_many_async(
        this, array(values), op.number(), Bridge.nanos(timeout), array(results)));
  }

  /** As above, with options, whose timeout counts; of several packs it is the last one's future. */
  public ValueFuture allReduceAsync(List<Tensor> values, ReduceOp op, List<Tensor> results,
      CommunicationOptions options) {
    return allReduceAsync(values, op, results, options, null);
  }

  /** As above, with options (null: none); of several packs it is the future of the last. */
  public ValueFuture allReduceAsync(List<Tensor> values, ReduceOp op, List<Tensor> results,
      CommunicationOptions options, Duration timeout) {
    final long nanos = Bridge.nanos(options, timeout);
    return future(Bridge.hinted(options, () -> Native.communicator_all_reduce_many_async(
        this, array(values), op.number(), nanos, array(results))));
  }

  /** As reduceAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture reduceAsync(Tensor value, ReduceOp op, int root, Tensor result) {
    return reduceAsync(value, op, root, result, null);
  }

  /** As reduce; the future's value is none. */
  public ValueFuture reduceAsync(
      Tensor value, ReduceOp op, int root, Tensor result, Duration timeout) {
    return future(Native.communicator_reduce_async(
        this, value, op.number(), root, Bridge.nanos(timeout), result));
  }

  /** As reduceScatterAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture reduceScatterAsync(Tensor value, ReduceOp op, Tensor result) {
    return reduceScatterAsync(value, op, result, null);
  }

  /** As reduceScatter; the future's value is none. */
  public ValueFuture reduceScatterAsync(
      Tensor value, ReduceOp op, Tensor result, Duration timeout) {
    return future(Native.communicator_reduce_scatter_async(
        this, value, op.number(), Bridge.nanos(timeout), result));
  }

  /** As broadcastAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture broadcastAsync(Tensor tensor, int root) {
    return broadcastAsync(tensor, root, null);
  }

  /** As broadcast; the future's value is none. */
  public ValueFuture broadcastAsync(Tensor tensor, int root, Duration timeout) {
    return future(
        Native.communicator_broadcast_async(this, root, Bridge.nanos(timeout), tensor));
  }

  /** As allGatherAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture allGatherAsync(Tensor value) {
    return allGatherAsync(value, null);
  }

  /** As allGather; the future's value is the tensor. */
  public ValueFuture allGatherAsync(Tensor value, Duration timeout) {
    return future(Native.communicator_all_gather_async(this, value, Bridge.nanos(timeout)));
  }

  /** As allGatherIntoAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture allGatherIntoAsync(Tensor value, Tensor result) {
    return allGatherIntoAsync(value, result, null);
  }

  /** As allGatherInto; the future's value is none. */
  public ValueFuture allGatherIntoAsync(Tensor value, Tensor result, Duration timeout) {
    return future(
        Native.communicator_all_gather_into_async(this, value, Bridge.nanos(timeout), result));
  }

  /** As gatherAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture gatherAsync(Tensor value, int root) {
    return gatherAsync(value, root, null);
  }

  /** As gather; the future's value is the tensor at the root, none at the others. */
  public ValueFuture gatherAsync(Tensor value, int root, Duration timeout) {
    return future(Native.communicator_gather_async(this, value, root, Bridge.nanos(timeout)));
  }

  /** As scatterAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture scatterAsync(Tensor value, int root, Tensor result) {
    return scatterAsync(value, root, result, null);
  }

  /** As scatter; the future's value is none. */
  public ValueFuture scatterAsync(Tensor value, int root, Tensor result, Duration timeout) {
    return future(
        Native.communicator_scatter_async(this, value, root, Bridge.nanos(timeout), result));
  }

  /** As allToAllAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture allToAllAsync(Tensor value, Tensor result) {
    return allToAllAsync(value, result, null);
  }

  /** As allToAll of equal parts; the future's value is none. */
  public ValueFuture allToAllAsync(Tensor value, Tensor result, Duration timeout) {
    return future(
        Native.communicator_all_to_all_async(this, value, Bridge.nanos(timeout), result));
  }

  /** As sendAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture sendAsync(Tensor tensor, int to) {
    return sendAsync(tensor, to, null);
  }

  /** As send; the future's value is none. */
  public ValueFuture sendAsync(Tensor tensor, int to, Duration timeout) {
    return future(Native.communicator_send_async(this, tensor, to, Bridge.nanos(timeout)));
  }

  /** As receiveAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture receiveAsync(int from, Tensor tensor) {
    return receiveAsync(from, tensor, null);
  }

  /** As receive; the future's value is none. */
  public ValueFuture receiveAsync(int from, Tensor tensor, Duration timeout) {
    return future(Native.communicator_receive_async(this, from, Bridge.nanos(timeout), tensor));
  }

  /** As barrierAsync with a timeout, without one: the setting default_timeout holds. */
  public ValueFuture barrierAsync() {
    return barrierAsync(null);
  }

  /** As barrier; the future's value is none. */
  public ValueFuture barrierAsync(Duration timeout) {
    return future(Native.communicator_barrier_async(this, Bridge.nanos(timeout)));
  }

  private static ValueFuture future(long box) {
    return new ValueFuture(Box.at(box));
  }

  // ---- whole values

  /**
   * What every rank brings, in their order: what Value.of makes a value of, another one on each
   * rank. It travels as bytes that every language reads (Value.serialize); large tensors go better
   * by allGather. A value that cannot be sent is an error on all ranks, and the epoch goes on.
   */
  public List<Value> allGatherValue(Object value) {
    return allGatherValue(value, null);
  }

  /** As above, waiting for at most {@code timeout}. */
  public List<Value> allGatherValue(Object value, Duration timeout) {
    try (Value mine = Value.of(value)) {
      return Makers.value(Box.at(
          Native.communicator_all_gather_value(this, mine, Bridge.nanos(timeout)))).asList();
    }
  }

  /**
   * What rank {@code root} brings, on every rank; the others' value is not looked at. Else as
   * allGatherValue.
   */
  public Value broadcastValue(Object value, int root) {
    return broadcastValue(value, root, null);
  }

  /** As above, waiting for at most {@code timeout}. */
  public Value broadcastValue(Object value, int root, Duration timeout) {
    try (Value mine = Value.of(value)) {
      return Makers.value(Box.at(
          Native.communicator_broadcast_value(this, mine, root, Bridge.nanos(timeout))));
    }
  }

  /** For people: the rank, of how many, and how they reach each other. */
  @Override
  public String toString() {
    return isClosed() ? "closed communicator" : "communicator, rank " + rank() + " of " + size()
        + ", epoch " + epoch() + ", " + transport();
  }

  static Tensor[] array(List<Tensor> tensors) {
    return Objects.requireNonNull(tensors, "a list of tensors is needed, not null")
        .toArray(new Tensor[0]);
  }

  // ---- the epoch

  /**
   * For a rank that goes because of an error of its own: ends the epoch with what it says, as
   * {@link #abort}, so that the others do not only hear that it has left. Not for errors that are
   * themselves about a peer, which the others know.
   */
  public void fail(Throwable cause) {
    Objects.requireNonNull(cause, "a cause is needed, not null");
    if (!Bridge.isAboutAPeer(cause)) {
      abort("rank " + rank() + " has left by " + cause);
    }
  }

  /** Ends the epoch: calls in flight and later ones fail on every rank with ABORTED. */
  public void abort(String message) {
    Objects.requireNonNull(message, "a message is needed, not null");
    Native.communicator_abort(this, message);
  }

  /**
   * Ends the epoch gently: no rank begins another call, those under way may end, and those that
   * wait for a rank that will not come fail with ABORTED. Others hear of it in the background.
   */
  public void revoke(String message) {
    Objects.requireNonNull(message, "a message is needed, not null");
    Native.communicator_revoke(this, message);
  }

  /** As shrink with a timeout, without one: the setting default_timeout holds. */
  public Communicator shrink() {
    return shrink(null);
  }

  /**
   * The next epoch, in an elastic job (the setting elastic) or within a process: of the ranks that
   * are left, in their old order. All of them call it but those that close this communicator, which
   * nobody waits for; this epoch is revoked. An error tells of another death meanwhile, or that a
   * rank gave the call up: then all that are left call it again. This communicator is still to be
   * closed. FAILED_PRECONDITION in a job that is not elastic.
   */
  public Communicator shrink(Duration timeout) {
    return new Communicator(Box.at(Native.communicator_shrink(this, Bridge.nanos(timeout))));
  }

  /** As grow with a timeout, without one: the setting default_timeout holds. */
  public Communicator grow(int least) {
    return grow(least, null);
  }

  /**
   * As shrink, of all workers that are there, in their order, newcomers too: those create a
   * communicator of this name. Waits until there are {@code least} ranks (0: whoever is there).
   * FAILED_PRECONDITION within a process, and for a part of another communicator (split).
   */
  public Communicator grow(int least, Duration timeout) {
    return new Communicator(Box.at(Native.communicator_grow(this, least, Bridge.nanos(timeout))));
  }

  /**
   * Leaves; peers that still need this rank fail with UNAVAILABLE. An interrupted thread leaves all
   * the same, and its flag stays set.
   */
  @Override
  public void close() {
    close(null);
  }

  /** As close, waiting for at most {@code timeout}. */
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
