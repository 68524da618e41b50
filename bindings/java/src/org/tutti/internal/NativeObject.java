package org.tutti.internal;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;

/**
 * An object of the library. Native functions take it as it is and pin it while they run, so that a
 * close on another thread, or the garbage collector, cannot take it away under them.
 */
public abstract class NativeObject {
  static {
    Loader.load();
  }

  private static final Cleaner CLEANER = Cleaner.create();

  private final long box; // read by the native functions

  protected NativeObject(Box box) {
    this.box = box.address();
    CLEANER.register(this, new Deletion(this.box));
  }

  private record Deletion(long box) implements Runnable {
    @Override
    public void run() {
      Native.box_delete(box);
    }
  }

  /** Runs once `owner` cannot be reached any more. */
  static void whenUnreachable(Object owner, Runnable action) {
    CLEANER.register(owner, action);
  }

  /** Gives the reference up; calls that are under way keep theirs. */
  protected final void release() {
    Native.box_close(box);
    Reference.reachabilityFence(this);
  }

  /** Whether close() has been called. */
  public final boolean isClosed() {
    final boolean closed = Native.box_is_closed(box);
    Reference.reachabilityFence(this);
    return closed;
  }

  /** Two wrappers of one native object have one address. */
  protected final long address() {
    final long address = Native.box_address(box);
    Reference.reachabilityFence(this);
    return address;
  }
}
