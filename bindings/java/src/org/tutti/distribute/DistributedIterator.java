package org.tutti.distribute;

import java.time.Duration;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.ElementIterator;
import org.tutti.internal.Native;

/**
 * One walk over a distributed dataset. Give its batches to run as they are, whole or in parts:
 * their values and tensors tell it the rows of the step (ReplicaContext.globalRows). Threads: one
 * at a time.
 */
public final class DistributedIterator extends ElementIterator {
  DistributedIterator(Box box) {
    super(box);
  }

  /** As saveJoint with a timeout, without one: the setting default_timeout holds. */
  public byte[] saveJoint() {
    return saveJoint(null);
  }

  /**
   * The position of all workers, the same bytes on each; all call it behind the same step. Any
   * number of workers goes on from it by restore, which all of them call then, with every element
   * that is left once: what the workers had left is dealt to those that go on, in turn where
   * several share it. FAILED_PRECONDITION where that cannot be promised: for data that all workers
   * read whole (policy OFF), a generator's, an order that is not deterministic, PER_REPLICA.
   */
  public byte[] saveJoint(Duration timeout) {
    checkNothingAhead("saveJoint after next()");
    return Bridge.bytes(Native.distributed_iterator_save_joint(this, Bridge.nanos(timeout)));
  }

  /** As below, for people. */
  public String explain() {
    return explain("text");
  }

  /**
   * What this worker's pipelines have done so far, as "text", "json" or "svg"; as that of a
   * dataset's iterator ({@link org.tutti.data.DatasetIterator#explain(String)}): a row of the run
   * is a step, and the consumer is who asks for steps. Where that one waits and the pipelines are
   * in time, the bottleneck is the other workers, or what lies between. As "json" it is what {@link
   * org.tutti.data.Dataset#gatherReport} adds up over all ranks. A restore begins anew. Threads:
   * any.
   */
  public String explain(String format) {
    return Bridge.text(Native.distributed_iterator_explain(this, format));
  }

  @Override
  protected long fetchNative(long nanos) {
    return Native.distributed_iterator_next(this, nanos);
  }

  @Override
  protected long fetchOptionalNative(long nanos) {
    return Native.distributed_iterator_next_optional(this, nanos);
  }

  @Override
  protected long elementSpecNative() {
    return Native.distributed_iterator_element_spec(this);
  }

  @Override
  protected long saveNative(long nanos) {
    return Native.distributed_iterator_save(this, nanos);
  }

  @Override
  protected void restoreNative(byte[] state, long nanos) {
    Native.distributed_iterator_restore(this, state, nanos);
  }

  @Override
  protected void closeNative(long nanos) {
    Native.distributed_iterator_close(this, nanos);
  }
}
