package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The ranks of a communicator within this process, each on a thread of its own. */
final class Ranks {
  static final Duration LONG = Duration.ofSeconds(60);

  /** What a rank does. */
  interface Body {
    void run(Communicator ranks, int rank) throws Exception;
  }

  private Ranks() {}

  /**
   * Runs {@code body} on {@code size} ranks; what one of them fails with ends the others, and is
   * thrown.
   */
  static void run(int size, Body body) throws Exception {
    final List<Communicator> ranks = Communicator.createLocal(size, null);
    final ExecutorService threads = Executors.newFixedThreadPool(size);
    final Throwable[] first = new Throwable[1];
    final List<java.util.concurrent.Future<?>> ends = new ArrayList<>();
    for (final Communicator rank : ranks) {
      ends.add(threads.submit(() -> {
        try {
          body.run(rank, rank.rank());
        } catch (Throwable failed) {
          synchronized (first) {
            if (first[0] == null) {
              first[0] = failed;
            }
          }
          rank.abort("another rank of the test has failed");
        }
      }));
    }
    try {
      for (final java.util.concurrent.Future<?> end : ends) {
        end.get(LONG.toMillis(), TimeUnit.MILLISECONDS);
      }
    } catch (TimeoutException hangs) {
      ranks.get(0).abort("the test hangs");
      throw hangs;
    } finally {
      threads.shutdown();
      threads.awaitTermination(LONG.toMillis(), TimeUnit.MILLISECONDS);
      ranks.forEach(Communicator::close);
    }
    if (first[0] != null) {
      throw new AssertionError("a rank has failed: " + first[0], first[0]);
    }
  }

  /** Waits for a call that has no result. */
  static void done(ValueFuture call) {
    try (call; Value none = call.get(LONG)) {
      assertEquals(Value.Kind.NONE, none.kind());
    }
  }

  static Tensor ints(long... elements) {
    return Tensor.of(elements);
  }

  static Tensor zeros(long... shape) {
    return Tensor.zeros(DType.INT64, shape);
  }
}
