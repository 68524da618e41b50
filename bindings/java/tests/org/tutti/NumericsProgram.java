package org.tutti;

import org.tutti.distribute.MultiWorkerMirroredStrategy;

/**
 * A job in which one replica of one worker brings a NaN, then fails an assertion, and then returns
 * a NaN; every worker says in one line who it was.
 */
public final class NumericsProgram {
  private NumericsProgram() {}

  private static String refused(Runnable run) {
    try {
      run.run();
      return "nothing was refused";
    } catch (TuttiException.InvalidArgument error) {
      return error.getMessage().replace('\n', ' ');
    }
  }

  /** The program of each of four workers. */
  public static void main(String[] arguments) {
    Debugging.enableCheckNumerics();
    try (MultiWorkerMirroredStrategy strategy = MultiWorkerMirroredStrategy.of("CPU:0", "CPU:1")) {
      final String brought = refused(
          ()
              -> strategy.run((replica, none)
                                  -> replica.allReduce(ReduceOp.SUM,
                                      new float[] {1, replica.replicaId() == 5 ? Float.NaN : 2})));
      final String asserted = refused(() -> strategy.run((replica, none) -> {
        replica.allReduce(ReduceOp.SUM, 1.0f);
        Debugging.assertNoneEqual(replica.replicaId(), 5, "ids", 0);
        return replica.allReduce(ReduceOp.SUM, 1.0f);
      }));
      final String returned = refused(() -> strategy.run((replica, none) -> {
        replica.allReduce(ReduceOp.SUM, 1.0f);
        return replica.replicaId() == 5 ? Float.NaN : 2f;
      }));
      System.out.println(brought + "; " + asserted + "; " + returned);
    }
  }
}
