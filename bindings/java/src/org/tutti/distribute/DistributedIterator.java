package org.tutti.distribute;

import org.tutti.internal.Box;
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
