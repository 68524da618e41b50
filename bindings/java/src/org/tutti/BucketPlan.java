package org.tutti;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * Gradients that are reduced between the ranks of a communicator while the backward pass goes on.
 *
 * <p>Consecutive gradients share a bucket; a bucket whose gradients are all ready travels as one
 * asynchronous allReduce, behind the buckets before it. So all ranks make the same calls in the
 * same order, whatever the order in which they report gradients.
 *
 * <p>Threads: any for ready; await: one at a time.
 */
public final class BucketPlan extends NativeObject implements AutoCloseable {
  /**
   * How gradients are packed; immutable.
   *
   * @param bytesPerPack how large a bucket grows, the same on all ranks; 0 for 4 MiB
   * @param names of the gradients, for warnings and errors: as many as there are, or none
   */
  public record Options(long bytesPerPack, List<String> names) {
    /** The defaults. */
    public Options() {
      this(0, List.of());
    }

    /** With a copy of the names. */
    public Options {
      names = List.copyOf(names);
    }

    /** The same with another size. */
    public Options bytesPerPack(long bytes) {
      return new Options(bytes, names);
    }

    /** The same with names. */
    public Options names(List<String> given) {
      return new Options(bytesPerPack, given);
    }
  }

  private BucketPlan(Communicator communicator, List<Tensor> gradients, ReduceOp op,
      Options options, boolean ownTensors) {
    super(Box.at(Native.bucket_plan_create(
        Objects.requireNonNull(communicator, "a communicator is needed, not null"),
        Communicator.array(gradients), op.number(), options.bytesPerPack(), ownTensors,
        options.names().toArray(new String[0]))));
  }

  /**
   * A plan for {@code gradients}, in the order in which the backward pass makes them (last layer
   * first), which are reduced in place. All ranks give the same dtypes and shapes in the same
   * order. A tensor that is there twice or read-only is refused.
   */
  public static BucketPlan of(Communicator communicator, List<Tensor> gradients, ReduceOp op) {
    return of(communicator, gradients, op, new Options());
  }

  /** As above, with options. */
  public static BucketPlan of(
      Communicator communicator, List<Tensor> gradients, ReduceOp op, Options options) {
    return new BucketPlan(communicator, gradients, op, options, false);
  }

  /**
   * A plan that makes its gradients: zeros of the dtypes and shapes of {@code like}, side by side
   * in memory that all ranks of one machine map, so that large buckets are reduced where they lie.
   * tensor(i) is gradient i.
   */
  public static BucketPlan ofOwnTensors(
      Communicator communicator, List<Tensor> like, ReduceOp op) {
    return ofOwnTensors(communicator, like, op, new Options());
  }

  /** As above, with options. */
  public static BucketPlan ofOwnTensors(
      Communicator communicator, List<Tensor> like, ReduceOp op, Options options) {
    return new BucketPlan(communicator, like, op, options, true);
  }

  /** What is reduced as gradient {@code index}. It outlives the plan. */
  public Tensor tensor(int index) {
    if (index < 0) {
      throw TuttiException.of(
          Code.INVALID_ARGUMENT, "there is no gradient " + index + "; they count from 0");
    }
    return Makers.tensor(Box.at(Native.bucket_plan_tensor(this, index)));
  }

  /** How many calls a step makes. */
  public int bucketCount() {
    return (int) Native.bucket_plan_bucket_count(this);
  }

  /**
   * Gradient {@code index} is complete in this step, and is not touched until await has returned.
   * One that is ready already is FAILED_PRECONDITION. Does not wait.
   */
  public void ready(int index) {
    if (index < 0) {
      throw TuttiException.of(
          Code.INVALID_ARGUMENT, "gradient " + index + " cannot be ready; they count from 0");
    }
    Native.bucket_plan_ready(this, index);
  }

  /**
   * Waits until all gradients are ready and reduced, and begins the next step. Any failure, an
   * interrupt too, ends the epoch of the communicator for all ranks. Where a gradient does not
   * become ready the log warns of it, by its name, after the setting wait_warning (30 s).
   */
  public void await() {
    await(null);
  }

  /** As await, for at most {@code timeout}, beyond which the epoch ends, too. */
  public void await(Duration timeout) {
    Native.bucket_plan_wait(this, Bridge.nanos(timeout));
  }

  /** For people: how many gradients in how many buckets. */
  @Override
  public String toString() {
    return isClosed() ? "closed bucket plan" : Bridge.text(Native.bucket_plan_to_string(this));
  }

  /** Calls that are under way go on. */
  @Override
  public void close() {
    release();
  }
}
