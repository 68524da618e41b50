package org.tutti.data;

import org.tutti.internal.Box;
import org.tutti.internal.ElementIterator;
import org.tutti.internal.Native;

/** One walk over a dataset. Threads: one at a time. */
public final class DatasetIterator extends ElementIterator {
  DatasetIterator(Box box) {
    super(box);
  }

  @Override
  protected long fetchNative(long nanos) {
    return Native.iterator_next(this, nanos);
  }

  @Override
  protected long fetchOptionalNative(long nanos) {
    return Native.iterator_next_optional(this, nanos);
  }

  @Override
  protected long elementSpecNative() {
    return Native.iterator_element_spec(this);
  }

  @Override
  protected long saveNative(long nanos) {
    return Native.iterator_save(this, nanos);
  }

  @Override
  protected void restoreNative(byte[] state, long nanos) {
    Native.iterator_restore(this, state, nanos);
  }

  @Override
  protected void closeNative(long nanos) {
    Native.iterator_close(this, nanos);
  }
}
