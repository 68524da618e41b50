package org.tutti;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.tutti.train.Checkpoint;

/**
 * A job of several processes: run under {@code tutti run}, each worker prints what it has computed.
 */
public final class ClusterProgram {
  private static final Duration LONG = Duration.ofSeconds(60);

  private ClusterProgram() {}

  // What each of two ranks gets by calls between them, some of them under way at once.
  private static String exchanged(Communicator ranks) {
    final int rank = ranks.rank();
    final Tensor gradient = Tensor.of(new long[] {rank, 5});
    final Tensor moved = Tensor.of(new long[] {rank});
    try (BucketPlan plan = BucketPlan.of(ranks, List.of(gradient), ReduceOp.SUM);
         ValueFuture move = rank == 0 ? ranks.sendAsync(moved, 1, LONG)
                                 : ranks.receiveAsync(0, moved, LONG);
         ValueFuture all = ranks.gatherAsync(moved, 1, LONG);
         Communicator turned = splitBehind(ranks, move, all)) {
      plan.ready(0);
      plan.await(LONG);
      // All rows of rank 0 and one of rank 1 go to rank 1.
      try (Communicator.Received rows = turned.allToAll(
               Tensor.of(new long[] {10 * rank, 10 * rank + 1}),
               rank == 0 ? new long[] {2, 0} : new long[] {1, 1}, LONG)) {
        return " " + turned.rank() + Arrays.toString(gradient.toLongArray())
            + Arrays.toString(rows.rows()) + Arrays.toString(rows.tensor().toLongArray())
            + Arrays.toString(moved.toLongArray());
      }
    }
  }

  // In a split nothing else is under way.
  private static Communicator splitBehind(Communicator ranks, ValueFuture move, ValueFuture all) {
    try (Value none = move.get(LONG); Value joined = all.get(LONG)) {
      if (!none.isNone() || joined.isNone() != (ranks.rank() == 0)) {
        throw new AssertionError("only rank 1 gets a tensor");
      }
    }
    return ranks.split(0, -ranks.rank(), "turned", LONG); // rank 1 comes first
  }

  // What a checkpoint is told that would save as if this process were alone.
  private static void refuseAlone() {
    try (Checkpoint alone = new Checkpoint(Map.of("w", Tensor.zeros(DType.FLOAT32, 2)))) {
      alone.save("never/written");
      throw new AssertionError("it was saved");
    } catch (TuttiException.FailedPrecondition refused) {
      final String text = refused.getMessage();
      if (!text.contains(" of 2 of a job") || !text.contains("overwrite each other's files; give "
              + "the checkpoint the communicator or the cluster")) {
        throw refused;
      }
    }
  }

  /** The program. */
  public static void main(String[] arguments) {
    String told = "nothing";
    try (Cluster cluster = Cluster.join(LONG);
         Communicator ranks = Communicator.create(cluster, "all", LONG)) {
      final Tensor mine = Tensor.of(new float[] {ranks.rank() + 1, 10});
      final Tensor sum = ranks.allReduce(mine, ReduceOp.SUM);
      final Tensor all = ranks.allGather(mine, LONG);
      ranks.broadcast(mine, 1, LONG);
      ranks.barrier(LONG);
      cluster.check();
      refuseAlone();
      final String results = Arrays.toString(sum.toFloatArray()) + " "
          + Arrays.toString(all.toFloatArray()) + " " + Arrays.toString(mine.toFloatArray());
      final String more = exchanged(ranks);
      try {
        ranks.allReduce(Tensor.zeros(DType.FLOAT32, ranks.rank() + 1), ReduceOp.SUM);
      } catch (TuttiException.InvalidArgument mismatch) {
        told = "rank " + ranks.rank() + " of " + cluster.workerCount() + ": " + results + more
            + ", then the shapes differed";
      }
      Thread.currentThread().interrupt(); // who is asked to stop still says goodbye
    }
    System.out.println(Thread.interrupted() ? told : "the interrupt is forgotten");
  }
}
