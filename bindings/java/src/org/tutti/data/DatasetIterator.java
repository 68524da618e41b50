package org.tutti.data;

import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
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

  /**
   * The plan with what this iterator has done so far, for people; see {@link #explain(String)}.
   */
  public String explain() {
    return explain("text");
  }

  /**
   * The plan with what this iterator has done so far, as "text", "json" or "svg". Where the option
   * experimental_stats.profile is set: of each operation its rows and about their bytes, the time
   * in it and in which it waited for its input, its function's calls and whether they are
   * callbacks, calls at once, how full its buffer was; and the bottleneck, with the change that
   * would help. What AUTOTUNE has chosen is there in any case. A restore begins anew. Threads: any.
   */
  public String explain(String format) {
    return Bridge.text(Native.iterator_explain(this, format));
  }

  @Override
  protected void closeNative(long nanos) {
    Native.iterator_close(this, nanos);
  }
}
