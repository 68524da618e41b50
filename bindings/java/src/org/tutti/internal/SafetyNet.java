package org.tutti.internal;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;

/**
 * Gives back what belongs to an object that nobody closed, once the object cannot be reached.
 *
 * <p>java.lang.ref.Cleaner does that, too, with one list under one lock and one more object. Most
 * objects are closed: their net is taken away then, and the collector never hears of it.
 */
final class SafetyNet extends PhantomReference<Object> {
  /** What is done with the handle. */
  interface Action {
    void run(long handle);
  }

  /** A list of the nets that wait; a thread puts its own into always the same one. */
  private static final class Row {
    SafetyNet first; // guarded by this
  }

  private static final Row[] ROWS = new Row[32];
  private static final ReferenceQueue<Object> FALLEN = new ReferenceQueue<>();

  static {
    for (int i = 0; i < ROWS.length; ++i) {
      ROWS[i] = new Row();
    }
    final Thread thread = new Thread(null, SafetyNet::catchAll, "tutti-safety-net", 0, false);
    thread.setDaemon(true);
    thread.setContextClassLoader(null);
    thread.setPriority(Thread.MAX_PRIORITY - 2);
    thread.start();
  }

  private final Action action;
  private final long handle;
  private final Row row;
  private SafetyNet next; // these two guarded by row
  private SafetyNet previous;
  private volatile boolean removed; // written under row

  SafetyNet(Object owner, Action action, long handle) {
    super(owner, FALLEN);
    this.action = action;
    this.handle = handle;
    row = ROWS[(int) Thread.currentThread().getId() & (ROWS.length - 1)];
    synchronized (row) {
      next = row.first;
      if (next != null) {
        next.previous = this;
      }
      row.first = this;
    }
  }

  /** Takes it away; true for the first who does. */
  boolean remove() {
    synchronized (row) {
      if (removed) {
        return false;
      }
      removed = true;
      if (previous == null) {
        row.first = next;
      } else {
        previous.next = next;
      }
      if (next != null) {
        next.previous = previous;
      }
      next = null;
      previous = null;
      return true;
    }
  }

  boolean isRemoved() {
    return removed;
  }

  private static void catchAll() {
    while (true) {
      try {
        final SafetyNet net = (SafetyNet) FALLEN.remove();
        if (net.remove()) {
          net.action.run(net.handle);
        }
      } catch (InterruptedException | RuntimeException goOn) {
        // The next one is not to blame.
      }
    }
  }
}
