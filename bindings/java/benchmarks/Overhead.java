import java.time.Duration;
import java.util.Locale;
import org.tutti.Cluster;
import org.tutti.Communicator;
import org.tutti.DType;
import org.tutti.ReduceOp;
import org.tutti.Spec;
import org.tutti.Tensor;
import org.tutti.Value;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.distribute.MirroredStrategy;

/**
 * What a call costs from Java. tests/benchmarks/overhead.py runs it beside the other languages.
 *
 * <pre>java -Dorg.tutti.library.path=BUILD/bindings/java -cp BUILD/bindings/java/tutti.jar
 *     Overhead.java MEASURE SECONDS SAMPLES</pre>
 *
 * The count doubles until a loop takes SECONDS, over and over until the compiler has had its time;
 * then every sample is one such loop, and its time per call in microseconds is a line of the
 * output.
 */
public final class Overhead {
  private static final long ALL = 1L << 62;
  private static final int WARM_UP = 15;

  private Overhead() {}

  /** Does something {@code count} times. */
  interface Work {
    void run(long count) throws Exception;
  }

  private static double seconds;
  private static int samples;
  private static long counted;

  private static void measure(Work work) throws Exception {
    final long begin = System.nanoTime();
    long count = 1;
    for (;;) {
      final long start = System.nanoTime();
      work.run(count);
      final long end = System.nanoTime();
      if (end - start < seconds * 1e9) {
        count *= 2;
      } else if (end - begin >= WARM_UP * seconds * 1e9) {
        break;
      }
    }
    for (int i = 0; i < samples; ++i) {
      final long start = System.nanoTime();
      work.run(count);
      System.out.printf(Locale.ROOT, "%.4f%n", (System.nanoTime() - start) / 1e3 / count);
    }
  }

  // ---- replicas

  private static void allReduce(int elements) throws Exception {
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1")) {
      measure(count -> strategy.run((replica, none) -> {
        try (Tensor tensor = Tensor.zeros(DType.FLOAT32, elements);
             Value operand = Value.of(tensor)) {
          for (long i = 0; i < count; ++i) {
            replica.allReduce(ReduceOp.SUM, operand).close();
          }
        }
        return null;
      }).close());
    }
  }

  private static void runs(String... devices) throws Exception {
    try (MirroredStrategy strategy = MirroredStrategy.of(devices)) {
      measure(count -> {
        for (long i = 0; i < count; ++i) {
          strategy.run((replica, none) -> null).close();
        }
      });
    }
  }

  private static void mergeCall() throws Exception {
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0")) {
      measure(count -> strategy.run((replica, none) -> {
        for (long i = 0; i < count; ++i) {
          replica.mergeCall((merging, merged) -> null).close();
        }
        return null;
      }).close());
    }
  }

  private static void getter() throws Exception {
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0")) {
      measure(count -> {
        for (long i = 0; i < count; ++i) {
          counted += strategy.replicaCount();
        }
      });
    }
  }

  /** Both of two processes make as many calls; the first of them prints. */
  private static void betweenProcesses(int elements) {
    final long count = (long) (seconds * 100000) + 1;
    final Duration patience = Duration.ofSeconds(60);
    try (Cluster cluster = Cluster.join(patience);
         Communicator ranks = Communicator.create(cluster, "overhead", patience);
         Tensor tensor = Tensor.zeros(DType.FLOAT32, elements)) {
      for (int sample = -WARM_UP; sample < samples; ++sample) {
        final long start = System.nanoTime();
        for (long i = 0; i < count; ++i) {
          ranks.allReduce(tensor, ReduceOp.SUM, tensor);
        }
        if (sample >= 0 && ranks.rank() == 0) {
          System.out.printf(Locale.ROOT, "%.4f%n", (System.nanoTime() - start) / 1e3 / count);
        }
      }
    }
  }

  // ---- datasets

  private static void elements(Dataset dataset, int rowsPerElement) throws Exception {
    try (DatasetIterator iterator = dataset.iterator()) {
      measure(count -> {
        for (long i = 0; i < count; i += rowsPerElement) {
          iterator.next().close();
        }
      });
    }
  }

  private static void batches(Dataset dataset) throws Exception {
    try (DatasetIterator iterator = dataset.iterator()) {
      measure(count -> {
        for (long i = 0; i < count; ++i) {
          try (Value batch = iterator.next()) {
            counted += batch.asLongBuffer().get(0);
          }
        }
      });
    }
  }

  /** The program. */
  public static void main(String[] arguments) throws Exception {
    seconds = Double.parseDouble(arguments[1]);
    samples = Integer.parseInt(arguments[2]);
    switch (arguments[0]) {
      case "getter" -> getter();
      case "all_reduce_1_KiB" -> allReduce(256);
      case "all_reduce_1_MiB" -> allReduce(262144);
      case "processes_1_KiB" -> betweenProcesses(256);
      case "run_1_replica" -> runs("CPU:0");
      case "run_2_replicas" -> runs("CPU:0", "CPU:1");
      case "merge_call" -> mergeCall();
      case "element" -> elements(Dataset.range(ALL), 1);
      case "batch_of_128" -> batches(Dataset.range(ALL).batch(128));
      case "map_of_a_row" -> elements(
          Dataset.range(ALL).map(x -> x, Spec.tensor(DType.INT64)).batch(128), 128);
      default -> throw new IllegalArgumentException("no measure '" + arguments[0] + "'");
    }
  }
}
