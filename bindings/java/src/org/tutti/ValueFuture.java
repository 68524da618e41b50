package org.tutti;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Callback;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.StageOfValue;

/**
 * A result that comes later. As a CompletionStage it goes with the JDK's own futures: what is hung
 * on it runs on the JDK's threads, and each value belongs to the future, which stays open until
 * then. Threads: any.
 */
public final class ValueFuture extends StageOfValue implements AutoCloseable {
  private CompletableFuture<Value> stage; // made when it is asked for

  /** One that this program completes. */
  public ValueFuture() {
    super(Box.at(Native.future_create()));
  }

  ValueFuture(Box box) {
    super(box);
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

  @Override
  protected synchronized CompletableFuture<Value> stage() {
    if (stage == null) {
      final CompletableFuture<Value> made = new CompletableFuture<>();
      onReady(() -> made.completeAsync(this::get)); // not here, where nothing may wait
      stage = made;
    }
    return stage;
  }

  /** Waits for the result. */
  public Value get() {
    return get(null);
  }

  /** Waits for the result; a timeout (null: none) leaves the future as it is. */
  public Value get(Duration timeout) {
    Native.future_wait(this, Bridge.nanos(timeout));
    final long result = Native.future_result(this);
    return result == 0 ? Value.of(null) : Makers.value(Box.at(result));
  }

  /**
   * Calls {@code action} once it is done, on a thread of the library; it may only look, not wait.
   */
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

  /** For people: whether it is done. */
  @Override
  public String toString() {
    return isClosed() ? "closed future" : isDone() ? "future, done" : "future, under way";
  }

  @Override
  public void close() {
    release();
  }
}
