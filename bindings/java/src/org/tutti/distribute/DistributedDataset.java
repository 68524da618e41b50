package org.tutti.distribute;

import java.time.Duration;
import org.tutti.Spec;
import org.tutti.Value;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * A dataset over the replicas of a strategy. Its elements are steps, whose leaves are distributed
 * values, or, where this process has one replica, tensors.
 */
public final class DistributedDataset extends NativeObject
    implements Iterable<Value>, AutoCloseable {
  DistributedDataset(Box box) {
    super(box);
  }

  /** A walk over the elements of its own. */
  @Override
  public DistributedIterator iterator() {
    return iterator(null);
  }

  /** As iterator, waiting for at most {@code timeout}. */
  public DistributedIterator iterator(Duration timeout) {
    return new DistributedIterator(
        Box.at(Native.distributed_iterator_create(this, Bridge.nanos(timeout))));
  }

  /**
   * What a step is: leaves of kind PER_REPLICA, or, where this process has one replica, plain ones.
   */
  public Spec elementSpec() {
    return Makers.spec(Box.at(Native.distributed_dataset_element_spec(this)));
  }

  /** The number of elements; -1 infinite, -2 unknown. */
  public long cardinality() {
    return Native.distributed_dataset_cardinality(this);
  }

  /** The plan for people. */
  public String explain() {
    return Bridge.text(Native.distributed_dataset_explain(this));
  }

  /**
   * As above, or, as "json" or "svg", the plan of this worker's part alone, with what the iterator
   * that was made last has done.
   */
  public String explain(String format) {
    return Bridge.text(Native.distributed_dataset_explain_as(this, format));
  }

  @Override
  public void close() {
    release();
  }
}
