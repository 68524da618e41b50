package org.tutti;

import org.tutti.data.Dataset;

/**
 * Ends while daemon threads iterate over new datasets: they get errors, and cannot start the
 * default runtime again behind the package's shutdown hook.
 */
public final class ExitProgram {
  private ExitProgram() {}

  private static void iterate(Runnable began) {
    try {
      while (true) {
        long sum = 0;
        for (Value element : Dataset.range(100).map(x -> x.longValue() + 1).prefetch(2)) {
          sum += element.longValue();
          if (sum > 10) {
            began.run();
            break;
          }
        }
      }
    } catch (TuttiException refused) {
      if (refused.code() != Code.FAILED_PRECONDITION) {
        throw refused;
      }
    }
  }

  // Until the end of the default runtime is told.
  private static void makeDatasets() {
    while (true) {
      try {
        Dataset.range(3).close();
      } catch (TuttiException refused) {
        if (refused.getMessage().contains("is about to exit")) {
          return;
        }
      }
    }
  }

  /** The program. */
  public static void main(String[] arguments) throws InterruptedException {
    final java.util.concurrent.CountDownLatch began = new java.util.concurrent.CountDownLatch(4);
    final Thread[] threads = new Thread[3];
    for (int i = 0; i < threads.length; i++) {
      threads[i] = new Thread(i == 0 ? ExitProgram::makeDatasets
                                     : () -> iterate(began::countDown));
      threads[i].setDaemon(true);
      threads[i].start();
    }
    began.await();
    // The process is there until its hooks have returned.
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      try {
        for (Thread thread : threads) {
          thread.join();
        }
        System.out.println("all threads were refused");
      } catch (InterruptedException interrupted) {
        System.out.println("interrupted");
      }
    }));
  }
}
