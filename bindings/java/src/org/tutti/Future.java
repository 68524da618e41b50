package org.tutti;

import java.time.Duration;
import java.util.Objects;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Callback;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/** A result that comes later. Threads: any. */
public final class Future extends NativeObject implements AutoCloseable {
  /** One that this program completes. */
  public Future() {
    super(Box.at(Native.future_create()));
  }

  /** Whether it has a result or has failed. */
  public boolean isDone() {
    return Native.future_is_done(this);
  }

  /** Gives the result; a second completion is FAILED_PRECONDITION. */
  public void complete(Object result) {
    try (Value value = Value.of(result)) {
      Native.future_complete(this, null, value);
    }
  }

  /** Fails it: get throws a TuttiException with this as its cause. */
  public void fail(Throwable failure) {
    Objects.requireNonNull(failure, "an exception is needed, not null");
    try (Value none = Value.of(null)) {
      Native.future_complete(this, failure, none);
    }
  }

  /** Waits for the result; a timeout (null: none) leaves the future as it is. */
  public Value get(Duration timeout) {
    Native.future_wait(this, Bridge.nanos(timeout));
    final long result = Native.future_result(this);
    return result == 0 ? Value.of(null) : new Value(Box.at(result));
  }

  /** Calls `action` once it is done, on a thread of the library; it may only look, not wait. */
  public void onReady(Runnable action) {
    Objects.requireNonNull(action, "an action is needed, not null");
    Native.future_on_ready(this, new Callback() {
      @Override
      public long call(int kind, long context, long in) {
        try {
          action.run();
        } catch (Throwable failed) {
          final Thread thread = Thread.currentThread();
          thread.getUncaughtExceptionHandler().uncaughtException(thread, failed);
        }
        return 0;
      }
    });
  }

  @Override
  public void close() {
    release();
  }
}
