package org.tutti.internal;

import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.tutti.Code;
import org.tutti.Spec;
import org.tutti.TuttiException;
import org.tutti.Value;

/**
 * What the iterators of datasets and of distributed datasets have in common: Java's way of asking
 * first and taking then, over a library that only gives. Threads: one at a time.
 */
public abstract class ElementIterator extends NativeObject
    implements Iterator<Value>, AutoCloseable {
  private Value ahead; // what hasNext has fetched

  protected ElementIterator(Box box) {
    super(box);
  }

  // ---- the native functions; times in nanoseconds

  /** The box of the next element, 0 at the end. */
  protected abstract long fetchNative(long nanos);

  /** The box of an optional. */
  protected abstract long fetchOptionalNative(long nanos);

  /** The box of a spec. */
  protected abstract long elementSpecNative();

  /** The address of the bytes of the position. */
  protected abstract long saveNative(long nanos);

  /** Goes to a position. */
  protected abstract void restoreNative(byte[] state, long nanos);

  /** Stops the threads. */
  protected abstract void closeNative(long nanos);

  // ---- elements

  /** Whether there is another element; waits for it. */
  @Override
  public final boolean hasNext() {
    if (ahead == null) {
      ahead = fetch(null);
    }
    return ahead != null;
  }

  /** The next element; NoSuchElementException at the end. */
  @Override
  public final Value next() {
    final Value element = poll(null);
    if (element == null) {
      throw new NoSuchElementException("the end of the dataset");
    }
    return element;
  }

  /** The next element; a TuttiException with OUT_OF_RANGE at the end. */
  public final Value getNext() {
    return getNext(null);
  }

  /** As getNext, waiting for at most {@code timeout} (nothing is lost by DEADLINE_EXCEEDED). */
  public final Value getNext(Duration timeout) {
    final Value element = poll(timeout);
    if (element == null) {
      throw TuttiException.of(Code.OUT_OF_RANGE, "the end of the dataset");
    }
    return element;
  }

  /**
   * The next element within {@code timeout} (nothing is lost by DEADLINE_EXCEEDED); null at the
   * end.
   */
  public final Value poll(Duration timeout) {
    final Value element = ahead != null ? ahead : fetch(timeout);
    ahead = null;
    return element;
  }

  private Value fetch(Duration timeout) {
    final long box = fetchNative(Bridge.nanos(timeout));
    return box == 0 ? null : Makers.value(Box.at(box));
  }

  /**
   * The next element as an optional, empty at the end. That of a distributed dataset is distributed
   * inside: a replica without rows has a part with no rows.
   */
  public final Value nextOptional() {
    return nextOptional(null);
  }

  /** As nextOptional, waiting for at most {@code timeout}. */
  public final Value nextOptional(Duration timeout) {
    checkNothingAhead("take it with next()");
    return Makers.value(Box.at(fetchOptionalNative(Bridge.nanos(timeout))));
  }

  /** Structure, dtypes and shapes of an element; of a distributed dataset of one replica's part. */
  public final Spec elementSpec() {
    return Makers.spec(Box.at(elementSpecNative()));
  }

  // ---- the position

  /**
   * The position. Elements that were given count; FAILED_PRECONDITION between a hasNext and its
   * next, when one element is neither.
   */
  public final byte[] save() {
    return save(null);
  }

  /** As save, waiting for at most {@code timeout}. */
  public final byte[] save(Duration timeout) {
    checkNothingAhead("save after next()");
    return Bridge.bytes(saveNative(Bridge.nanos(timeout)));
  }

  /**
   * Goes to a saved position of an iterator over an equal dataset, whose names, prefetch sizes and
   * numbers of parallel calls may be others. InvalidArgument for that of another dataset, or of a
   * release with another format or another version of an operation; the iterator stays where it
   * was.
   */
  public final void restore(byte[] state) {
    restore(state, null);
  }

  /** As restore, waiting for at most {@code timeout}. */
  public final void restore(byte[] state, Duration timeout) {
    restoreNative(state, Bridge.nanos(timeout));
    forgetAhead();
  }

  protected final void checkNothingAhead(String next) {
    if (ahead != null) {
      throw TuttiException.of(Code.FAILED_PRECONDITION,
          "hasNext() has fetched an element that next() has not given yet: " + next);
    }
  }

  private void forgetAhead() {
    if (ahead != null) {
      ahead.close();
      ahead = null;
    }
  }

  // ---- the end

  /** Stops and joins the iterator's threads. */
  @Override
  public final void close() {
    close(null);
  }

  /** As close, waiting for at most {@code timeout} for functions that are running. */
  public final void close(Duration timeout) {
    if (!isClosed()) {
      try {
        closeNative(Bridge.nanos(timeout));
      } finally {
        release();
        forgetAhead();
      }
    }
  }
}
