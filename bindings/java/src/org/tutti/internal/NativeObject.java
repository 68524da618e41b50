package org.tutti.internal;

import java.lang.ref.Reference;

/**
 * An object of the library. Native functions take it as it is and pin it while they run, so that a
 * close on another thread, or the garbage collector, cannot take it away under them.
 */
public abstract class NativeObject {
  static {
    Loader.load();
  }

  private final long box; // read by the native functions
  private final SafetyNet net;
  private volatile long address; // of what was closed

  protected NativeObject(Box box) {
    this.box = box.address();
    net = new SafetyNet(this, Native::box_close, this.box);
  }

  /** Gives the reference up; calls that are under way keep theirs. */
  protected final void release() {
    if (net.remove()) {
      address = Native.box_close(box);
    }
  }

  /**
   * Each becomes what the other one is. Both are open, and a call under way uses what this one was:
   * who asks for this keeps the other one, which is that now, as long as this one.
   */
  protected final void exchange(NativeObject other) {
    Native.box_exchange(box, other.box);
  }

  /** Whether close() has been called. */
  public final boolean isClosed() {
    return net.isRemoved();
  }

  /** Two wrappers of one native object have one address. */
  protected final long address() {
    long now = Native.box_address(box);
    while (now == 0) { // closed, a moment ago perhaps
      now = address;
      Thread.onSpinWait();
    }
    Reference.reachabilityFence(this);
    return now;
  }
}
