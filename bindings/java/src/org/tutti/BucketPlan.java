package org.tutti;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
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
   * A plan for `gradients`, in the order in which the backward pass makes them (last layer first),
   * which are reduced in place. All ranks give the same dtypes and shapes in the same order, and
   * the same bytesPerPack: of a bucket; 0 for 4 MiB. A tensor that is there twice or read-only is
   * refused.
   */
  public BucketPlan(
      Communicator communicator, List<Tensor> gradients, ReduceOp op, long bytesPerPack) {
    this(communicator, gradients, op, bytesPerPack, false);
  }

  private BucketPlan(Communicator communicator, List<Tensor> gradients, ReduceOp op,
      long bytesPerPack, boolean ownTensors) {
    super(Box.at(Native.bucket_plan_create(
        Objects.requireNonNull(communicator, "a communicator is needed, not null"),
        Communicator.array(gradients), op.number(), bytesPerPack, ownTensors)));
  }

  /**
   * A plan that makes its gradients: zeros of the dtypes and shapes of `like`, side by side in
   * memory that all ranks of one machine map, so that large buckets are reduced where they lie.
   * tensor(i) is gradient i.
   */
  public static BucketPlan ofOwnTensors(
      Communicator communicator, List<Tensor> like, ReduceOp op, long bytesPerPack) {
    return new BucketPlan(communicator, like, op, bytesPerPack, true);
  }

  /** What is reduced as gradient `index`. It outlives the plan. */
  public Tensor tensor(int index) {
    if (index < 0) {
      throw TuttiException.of(
          Code.INVALID_ARGUMENT, "there is no gradient " + index + "; they count from 0");
    }
    return new Tensor(Box.at(Native.bucket_plan_tensor(this, index)));
  }

  /** How many calls a step makes. */
  public int bucketCount() {
    return (int) Native.bucket_plan_bucket_count(this);
  }

  /**
   * Gradient `index` is complete in this step, and is not touched until await has returned. One
   * that is ready already is FAILED_PRECONDITION. Does not wait.
   */
  public void ready(int index) {
    if (index < 0) {
      throw TuttiException.of(
          Code.INVALID_ARGUMENT, "gradient " + index + " cannot be ready; they count from 0");
    }
    Native.bucket_plan_ready(this, index);
  }

  /**
   * Waits until all gradients are ready and reduced, and begins the next step. Any failure, a
   * timeout and an interrupt too, ends the epoch of the communicator for all ranks.
   */
  public void await(Duration timeout) {
    Native.bucket_plan_wait(this, Bridge.nanos(timeout));
  }

  /** Calls that are under way go on. */
  @Override
  public void close() {
    release();
  }
}
