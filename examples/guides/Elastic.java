import org.tutti.Cluster;
import org.tutti.Communicator;
import org.tutti.ReduceOp;
import org.tutti.Tensor;
import org.tutti.TuttiException;
import org.tutti.Value;

/**
 * Elastic jobs: the others go on when a worker dies, and another process takes its place.
 *
 * <pre>tutti run --workers 3 --elastic --max-restarts 1 -- java -cp tutti.jar Elastic.java</pre>
 */
public final class Elastic {
  private Elastic() {}

  // The furthest step that a rank has come to, which is 0 of a newcomer.
  private static long furthest(Communicator ranks, long step) {
    return ranks.allGatherValue(step).stream().mapToLong(Value::longValue).max().orElseThrow();
  }

  /** The program. */
  public static void main(String[] arguments) {
    try (Cluster cluster = Cluster.join()) {
      Communicator ranks = Communicator.create(cluster); // a newcomer waits here for a grow
      long step = furthest(ranks, 0);
      long total = 0;
      while (step < 5) {
        if (step == 2 && cluster.worker() == 2 && System.getenv("TUTTI_RESTART").equals("0")) {
          Runtime.getRuntime().halt(9);
        }
        try (Tensor sum = ranks.allReduce(Tensor.scalar(1L), ReduceOp.SUM)) {
          total = sum.longValue();
          ++step;
        } catch (TuttiException.Unavailable | TuttiException.Aborted loss) {
          // All come together again, and say how far they are. Who is content with those that are
          // left calls shrink() instead.
          final Communicator grown = ranks.grow(cluster.workerCount());
          ranks.close();
          ranks = grown;
          step = furthest(ranks, step);
        }
      }
      System.out.println("worker " + cluster.worker() + ": " + total + " ranks at the end");
      ranks.close();
    }
  }
}
