package org.tutti;

import java.time.Duration;
import java.util.Arrays;

/** A job of several processes: run under `tutti run`, each worker prints what it has computed. */
public final class ClusterProgram {
  private static final Duration LONG = Duration.ofSeconds(60);

  private ClusterProgram() {}

  /** The program. */
  public static void main(String[] arguments) {
    try (Cluster cluster = Cluster.join(null, 0, LONG);
         Communicator ranks = Communicator.create(cluster, "all", LONG)) {
      final Tensor mine = Tensor.of(new float[] {ranks.rank() + 1, 10});
      final Tensor sum = ranks.allReduce(mine, ReduceOp.SUM);
      final Tensor all = ranks.allGather(mine, LONG);
      ranks.broadcast(mine, 1, LONG);
      ranks.barrier(LONG);
      cluster.check();
      final String results = Arrays.toString(sum.toFloatArray()) + " "
          + Arrays.toString(all.toFloatArray()) + " " + Arrays.toString(mine.toFloatArray());
      try {
        ranks.allReduce(Tensor.zeros(DType.FLOAT32, ranks.rank() + 1), ReduceOp.SUM);
      } catch (TuttiException.InvalidArgument mismatch) {
        System.out.println("rank " + ranks.rank() + " of " + cluster.workerCount() + ": " + results
            + ", then the shapes differed");
      }
    }
  }
}
