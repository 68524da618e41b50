package org.tutti;

import java.time.Duration;
import java.util.Arrays;

/** An elastic job: the workers revoke an epoch, and go on in the next ones. */
public final class ElasticProgram {
  private static final Duration LONG = Duration.ofSeconds(60);

  private ElasticProgram() {}

  private static String sum(Communicator ranks) {
    return Arrays.toString(
        ranks.allReduce(Tensor.of(new long[] {ranks.rank() + 1}), ReduceOp.SUM).toLongArray());
  }

  /** The program; TUTTI_ELASTIC=1 is set. */
  public static void main(String[] arguments) {
    try (Cluster cluster = Cluster.join(LONG);
         Communicator first = Communicator.create(cluster, "all", LONG)) {
      String story = sum(first);
      if (first.rank() == 1) {
        first.revoke("another epoch");
      }
      try (ValueFuture never = first.barrierAsync(LONG)) {
        never.get(LONG);
      } catch (TuttiException.Aborted revoked) {
        story += revoked.getMessage().contains("another epoch");
      }
      try (Communicator second = first.shrink(LONG)) {
        story += second.size() + sum(second) + (second.epoch() > first.epoch());
        try (Communicator third = second.grow(2, LONG)) {
          story += third.size() + sum(third) + (third.epoch() > second.epoch());
          Debugging.enableCheckNumerics();
          try {
            final float mine = third.rank() == 1 ? Float.NaN : 1;
            third.allReduce(Tensor.of(new float[] {1, mine}), ReduceOp.SUM);
          } catch (TuttiException.InvalidArgument named) {
            story += named.getMessage().contains("rank 1: all_reduce #")
                && named.getMessage().contains("the input, float32[2], is not finite");
          }
          Debugging.disableCheckNumerics();
          try (Communicator fourth = third.shrink(LONG)) {
            story += fourth.size() + sum(fourth);
          }
        }
      }
      System.out.println("rank " + first.rank() + ": " + story);
    }
  }
}
