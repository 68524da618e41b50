package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.OneDeviceStrategy;

/** Strategies on GPUs, with a fake driver that has two; a test of its own. */
class GpuStrategies {
  private static final List<String> FULL = List.of("/job:localhost/replica:0/task:0/device:GPU:0",
      "/job:localhost/replica:0/task:0/device:GPU:1");

  @Test
  void variablesLieThereAndReplicasReduceThere() {
    try (MirroredStrategy strategy = MirroredStrategy.of()) {
      assertEquals(FULL, strategy.extended().workerDevices());
      try (Variable variable = Variable.builder(new float[] {1, 2}).strategy(strategy)
               .aggregation(Variable.Aggregation.SUM).create()) {
        assertEquals(FULL, variable.copyDevices());
        final Value totals = strategy.run((replica, none) -> {
          final Tensor own = variable.read();
          assertEquals(replica.replicaId(), own.cudaDevice());
          variable.assignAdd(own);
          return replica.allReduce(ReduceOp.SUM, own);
        });
        for (final Value total : strategy.localResults(totals)) {
          assertTrue(total.asTensor().cudaDevice() >= 0);
          assertArrayEquals(new float[] {2, 4}, total.asTensor().toFloatArray());
        }
        assertArrayEquals(new float[] {3, 6}, variable.read().toFloatArray());
        assertArrayEquals(new float[] {3, 6}, variable.copies().get(1).toFloatArray());
        final Value sum = strategy.reduce(ReduceOp.SUM, totals);
        assertEquals(-1, sum.asTensor().cudaDevice());
        assertArrayEquals(new float[] {4, 8}, sum.asTensor().toFloatArray());
      }
    }
  }

  @Test
  void gpusThatAreNotThereAreRefused() {
    final TuttiException refused = assertThrows(TuttiException.InvalidArgument.class,
        () -> MirroredStrategy.of("GPU:0", "GPU:9"));
    assertTrue(refused.getMessage().contains("no GPU:9; it has CPU:0 to CPU:1023 and GPU:0 to"),
        refused.getMessage());
    assertThrows(TuttiException.NotFound.class, () -> OneDeviceStrategy.of("GPU:9"));
  }
}
