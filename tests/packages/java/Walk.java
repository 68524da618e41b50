import java.nio.file.Files;
import java.nio.file.Path;
import org.tutti.ReduceOp;
import org.tutti.Value;
import org.tutti.data.Dataset;
import org.tutti.distribute.DistributedDataset;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.ReplicaContext;

/** A program of somebody who has the jar; says which libraries it runs with. */
public final class Walk {
  private Walk() {}

  private static Object step(ReplicaContext replica, Value batch) {
    long sum = 0;
    for (final long number : batch.asTensor().toLongArray()) {
      sum += number;
    }
    return replica.allReduce(ReduceOp.SUM, sum);
  }

  public static void main(String[] arguments) throws Exception {
    try (var strategy = MirroredStrategy.of("CPU:0", "CPU:1");
        DistributedDataset batches = strategy.distribute(Dataset.range(8).batch(4))) {
      for (final Value batch : batches) {
        System.out.println(batch + " " + strategy.run(Walk::step, batch));
      }
    }
    for (final String line : Files.readAllLines(Path.of("/proc/self/maps"))) {
      if (line.contains("libtutti")) {
        System.err.println(line.substring(line.indexOf('/')));
      }
    }
  }
}
