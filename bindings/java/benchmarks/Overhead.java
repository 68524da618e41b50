import java.util.Map;
import org.tutti.DType;
import org.tutti.ReduceOp;
import org.tutti.Spec;
import org.tutti.Tensor;
import org.tutti.Value;
import org.tutti.data.Dataset;
import org.tutti.distribute.DistributedIterator;
import org.tutti.distribute.MirroredStrategy;

/**
 * What a call costs from Java: prints one line per measurement, the best of several rounds.
 *
 * <pre>java -Dorg.tutti.library.path=BUILD/bindings/java -cp BUILD/bindings/java/tutti.jar Overhead.java
 * </pre>
 */
public final class Overhead {
  private static final int ROUNDS = 9;

  private Overhead() {}

  /** Does `count` of something; the time of one is printed. */
  interface Work {
    void run() throws Exception;
  }

  private static double measure(String name, int count, Work work) throws Exception {
    double best = Double.MAX_VALUE;
    for (int round = 0; round < ROUNDS; ++round) {
      final long start = System.nanoTime();
      work.run();
      best = Math.min(best, (System.nanoTime() - start) / (double) count);
    }
    System.out.printf("%-58s %9.2f us%n", name, best / 1000);
    return best;
  }

  private static void strategies() throws Exception {
    for (final String[] devices : new String[][] {{"CPU:0"}, {"CPU:0", "CPU:1"}}) {
      try (MirroredStrategy strategy = MirroredStrategy.of(devices)) {
        measure("run of an empty function, " + devices.length + " replicas", 2000, () -> {
          for (int i = 0; i < 2000; ++i) {
            strategy.run((replica, none) -> null).close();
          }
        });
      }
    }
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1")) {
      for (final int size : new int[] {256, 1 << 18}) {
        final int count = size == 256 ? 2000 : 50;
        measure("all_reduce of " + size * 4 / 1024 + " KiB, 2 replicas", count,
            () -> strategy.run((replica, none) -> {
              final Tensor tensor = Tensor.zeros(DType.FLOAT32, size);
              for (int i = 0; i < count; ++i) {
                replica.allReduce(ReduceOp.SUM, tensor).close();
              }
              return null;
            }));
      }
      final Dataset rows = Dataset.range(2000).batch(2);
      measure("next() of a distributed iterator, 2 replicas", 1000, () -> {
        try (DistributedIterator steps = strategy.distribute(rows).iterator()) {
          for (Value step = steps.poll(null); step != null; step = steps.poll(null)) {
            step.close();
          }
        }
      });
    }
  }

  private static Work walk(Dataset dataset) {
    return () -> {
      for (final Value element : dataset) {
        element.close();
      }
    };
  }

  private static void datasets() throws Exception {
    final int rows = 100_000;
    final Dataset numbers = Dataset.range(rows);
    final Spec spec = Spec.tensor(DType.INT64);
    measure("one element: range", rows, walk(numbers));
    measure("one batch of 128: range", rows / 128, walk(numbers.batch(128)));
    final double base = measure("  per row of the batches", rows, walk(numbers.batch(128)));
    final double same = measure("a callback per row: range, map(identity), batch(128)", rows,
        walk(numbers.map(x -> x, spec).batch(128)));
    System.out.printf("%-58s %9.2f us%n", "  one crossing of a row callback", (same - base) / 1000);
  }

  private static void crossings() throws Exception {
    final Tensor tensor = Tensor.zeros(DType.FLOAT32, 256);
    final float[] array = new float[256];
    measure("a small native function: dtype()", 1_000_000, () -> {
      for (int i = 0; i < 1_000_000; ++i) {
        tensor.dtype();
      }
    });
    measure("an array of 1 KiB becomes a tensor", 20_000, () -> {
      for (int i = 0; i < 20_000; ++i) {
        Tensor.of(array).close();
      }
    });
    measure("a view of a tensor", 1_000_000, () -> {
      for (int i = 0; i < 1_000_000; ++i) {
        tensor.asFloatBuffer();
      }
    });
    measure("a part of a value as a buffer", 20_000, () -> {
      try (Value value = Value.of(Map.of("a", tensor))) {
        for (int i = 0; i < 20_000; ++i) {
          try (Value part = value.get("a")) {
            part.asFloatBuffer();
          }
        }
      }
    });
  }

  /** The program. */
  public static void main(String[] arguments) throws Exception {
    crossings();
    strategies();
    datasets();
  }
}
