package org.tutti;

import org.tutti.distribute.MultiWorkerMirroredStrategy;

/** A job in which one replica of one worker brings a NaN; every worker says who it was. */
public final class NumericsProgram {
  private NumericsProgram() {}

  /** The program of each of four workers. */
  public static void main(String[] arguments) {
    Debugging.enableCheckNumerics();
    try (MultiWorkerMirroredStrategy strategy = MultiWorkerMirroredStrategy.of("CPU:0", "CPU:1")) {
      strategy.run((replica, none) -> replica.allReduce(ReduceOp.SUM,
          new float[] {1, replica.replicaId() == 5 ? Float.NaN : 2}));
    } catch (TuttiException.InvalidArgument error) {
      System.out.println(error.getMessage());
    }
  }
}
