package org.tutti.data;

import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.tutti.Spec;
import org.tutti.Value;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/** One walk over a dataset. Threads: one at a time. */
public final class DatasetIterator extends NativeObject
    implements Iterator<Value>, AutoCloseable {
  private Value ahead; // what hasNext has fetched

  DatasetIterator(Box box) {
    super(box);
  }

  /** Whether there is another element; waits for it. */
  @Override
  public boolean hasNext() {
    if (ahead == null) {
      ahead = fetch(null);
    }
    return ahead != null;
  }

  /** The next element; NoSuchElementException at the end. */
  @Override
  public Value next() {
    final Value element = poll(null);
    if (element == null) {
      throw new NoSuchElementException("the end of the dataset");
    }
    return element;
  }

  /** The next element within `timeout` (nothing is lost by DEADLINE_EXCEEDED); null at the end. */
  public Value poll(Duration timeout) {
    final Value element = ahead != null ? ahead : fetch(timeout);
    ahead = null;
    return element;
  }

  private Value fetch(Duration timeout) {
    final long box = Native.iterator_next(this, Bridge.nanos(timeout));
    return box == 0 ? null : new Value(Box.at(box));
  }

  /** The next element as an optional, empty at the end. */
  public Value nextOptional() {
    return new Value(Box.at(Native.iterator_next_optional(this, Bridge.UNSET)));
  }

  /** Structure, dtypes and shapes of an element. */
  public Spec elementSpec() {
    return new Spec(Box.at(Native.iterator_element_spec(this)));
  }

  /**
   * The position. Elements that were given count; FAILED_PRECONDITION between a hasNext and its next,
   * when one element is neither.
   */
  public byte[] save() {
    checkNothingAhead();
    return Bridge.bytes(Native.iterator_save(this, Bridge.UNSET));
  }

  /** Goes to a saved position of an iterator over an equal dataset. */
  public void restore(byte[] state) {
    Native.iterator_restore(this, state, Bridge.UNSET);
    ahead = null;
  }

  private void checkNothingAhead() {
    if (ahead != null) {
      throw org.tutti.TuttiException.of(org.tutti.Code.FAILED_PRECONDITION,
          "hasNext() has fetched an element that next() has not given yet: save after next()");
    }
  }

  /** Stops and joins the iterator's threads. */
  @Override
  public void close() {
    if (!isClosed()) {
      try {
        Native.iterator_close(this, Bridge.UNSET);
      } finally {
        release();
      }
    }
  }
}
