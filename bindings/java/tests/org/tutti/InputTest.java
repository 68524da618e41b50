package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.tutti.data.Dataset;
import org.tutti.distribute.DistributedDataset;
import org.tutti.distribute.DistributedIterator;
import org.tutti.distribute.InputContext;
import org.tutti.distribute.InputOptions;
import org.tutti.distribute.InputOptions.InputReplicationMode;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.MultiWorkerMirroredStrategy;
import org.tutti.distribute.OneDeviceStrategy;
import org.tutti.distribute.Strategy;

/** Input pipelines of strategies: replication modes, specs of steps, numbers, arrays. */
class InputTest {
  private Strategy strategy;

  @BeforeEach
  void make() {
    strategy = MirroredStrategy.of("CPU:0", "CPU:1");
  }

  @AfterEach
  void close() {
    strategy.close();
  }

  private static List<String> rest(DistributedIterator steps) {
    final List<String> texts = new ArrayList<>();
    while (steps.hasNext()) {
      texts.add(steps.next().toString());
    }
    return texts;
  }

  private DistributedDataset pipelines(InputOptions options) {
    return strategy.distributeFromFunction(input -> {
      assertEquals(2, input.pipelineCount());
      final long start = 10 * input.pipelineId();
      return Dataset.range(start, start + 3, 1).batch(2);
    }, options, null);
  }

  @Test
  void everyReplicaHasAPipelineOfItsOwnWhichIsSavedAndRestored() {
    for (final Boolean onDevice : new Boolean[] {null, true}) {
      try (DistributedDataset dataset = pipelines(
               new InputOptions(null, null, InputReplicationMode.PER_REPLICA, onDevice));
          DistributedIterator steps = dataset.iterator();
          DistributedIterator again = dataset.iterator()) {
        assertEquals("PerReplica:{0: [0 1], 1: [10 11]}", steps.next().toString());
        final byte[] state = steps.save();
        assertEquals(List.of("PerReplica:{0: [2], 1: [12]}"), rest(steps));
        again.restore(state);
        assertEquals(List.of("PerReplica:{0: [2], 1: [12]}"), rest(again));
      }
    }
  }

  // What workers over so many ranks take from there, in so many steps (-1: all); gives the joint
  // position behind them.
  private static byte[] work(int count, byte[] state, int steps, List<Long> taken)
      throws Exception {
    final List<byte[]> saved = new ArrayList<>();
    Ranks.run(count, (ranks, rank) -> {
      try (Strategy over = MultiWorkerMirroredStrategy.over(ranks, Ranks.LONG);
          DistributedDataset dataset = over.distributeFromFunction(
              input -> Dataset.range(0, 24, 1)
                           .shard(input.pipelineCount(), input.pipelineId())
                           .batch(2),
              new InputOptions(), null);
          DistributedIterator iterator = dataset.iterator()) {
        if (state != null) {
          iterator.restore(state);
        }
        final List<Long> mine = new ArrayList<>();
        for (int i = 0; steps < 0 ? iterator.hasNext() : i < steps; ++i) {
          for (final long number : iterator.next().asTensor().toLongArray()) {
            mine.add(number);
          }
        }
        final byte[] joint = iterator.saveJoint(Ranks.LONG);
        synchronized (saved) {
          taken.addAll(mine);
          saved.add(joint);
        }
      }
    });
    for (final byte[] joint : saved) {
      assertArrayEquals(saved.get(0), joint);
    }
    return saved.get(0);
  }

  @Test
  void anyNumberOfWorkersGoesOn() throws Exception {
    final List<Long> taken = new ArrayList<>();
    final byte[] first = work(3, null, 1, taken);
    assertEquals(6, taken.size());
    final byte[] second = work(1, first, 2, taken);
    assertEquals(10, taken.size());
    work(4, second, -1, taken);
    taken.sort(null);
    assertEquals(LongStream.range(0, 24).boxed().toList(), taken);
  }

  @Test
  void aGeneratorHasNoJointPosition() {
    try (DistributedDataset dataset = strategy.distribute(
             Dataset.fromGenerator(() -> List.of(1L, 2L).iterator(), Spec.tensor(DType.INT64))
                 .batch(2));
        DistributedIterator iterator = dataset.iterator()) {
      assertTrue(
          assertThrows(TuttiException.FailedPrecondition.class, iterator::saveJoint).getMessage()
              .contains("from_generator"));
    }
  }

  @Test
  void whatIsDocumentedAsRefusedIs() {
    final InputOptions replica =
        new InputOptions(null, null, InputReplicationMode.PER_REPLICA, null);
    try (Dataset batches = Dataset.range(4).batch(2);
        Strategy one = OneDeviceStrategy.of("CPU:0")) {
      assertTrue(assertThrows(TuttiException.Unimplemented.class,
          () -> strategy.distribute(batches, replica, null))
                     .getMessage().contains("from_function of a MirroredStrategy"));
      assertTrue(assertThrows(TuttiException.Unimplemented.class,
          () -> one.distributeFromFunction(input -> Dataset.range(4), replica, null))
                     .getMessage().contains("OneDeviceStrategy"));
    }
    assertTrue(assertThrows(TuttiException.InvalidArgument.class,
        () -> pipelines(new InputOptions(null, null, null, true)))
                   .getMessage().contains("needs the replication mode PER_REPLICA"));
    assertTrue(assertThrows(TuttiException.InvalidArgument.class,
        () -> pipelines(new InputOptions(null, true, InputReplicationMode.PER_REPLICA, true)))
                   .getMessage().contains("set prefetch_to_device to false"));
  }

  @Test
  void theSpecOfAStepHasThatOfEachReplica() {
    try (Dataset batches = Dataset.range(6).batch(4);
        DistributedDataset dataset = strategy.distribute(batches);
        DistributedIterator steps = dataset.iterator(); Spec spec = dataset.elementSpec();
        Spec part = Spec.tensor(DType.INT64, Spec.UNKNOWN)) {
      assertEquals("PerReplica(int64[?], int64[?])", spec.toString());
      assertEquals(spec, steps.elementSpec());
      assertEquals(Spec.Kind.PER_REPLICA, spec.kind());
      assertEquals(Value.class, spec.valueType());
      assertEquals(Spec.tuple(part, part), spec.inner());
      assertEquals(spec, Spec.perReplica(part, part));
      assertTrue(assertThrows(TuttiException.InvalidArgument.class, () -> Spec.perReplica())
                     .getMessage().contains("a component for each replica"));
      assertTrue(assertThrows(TuttiException.InvalidArgument.class, () -> Spec.perReplica(spec))
                     .getMessage().contains("not distributed itself"));
    }
  }

  @Test
  void contextsHaveTheDocumentedDefaults() {
    final InputContext context = new InputContext();
    assertEquals(new InputContext(0, 1, 1), context);
    assertEquals(16, context.perReplicaBatchSize(16));
    assertTrue(assertThrows(TuttiException.InvalidArgument.class,
        () -> new InputContext(0, 1, 3).perReplicaBatchSize(16))
                   .getMessage().contains("cannot be divided by 3 replicas"));
  }

  @Test
  void numbersFillUpTheLastStepWithZeros() {
    try (DistributedDataset dataset =
             strategy.distributeFromFunction(input -> Dataset.range(1, 4, 1));
        DistributedIterator steps = dataset.iterator()) {
      assertEquals(List.of("PerReplica:{0: 1, 1: 2}", "PerReplica:{0: 3, 1: 0}"), rest(steps));
    }
  }

  @Test
  void tensorsBecomeADatasetOfTheirSlices() {
    final Map<String, Object> tensors =
        Map.of("x", Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 3, 2), "y", new long[] {7, 8, 9});
    try (Dataset rows = strategy.makeNumpyDataset(tensors);
        DistributedIterator steps = strategy.distribute(rows.batch(2)).iterator()) {
      final Value first = steps.next();
      assertEquals("PerReplica:{0: [7], 1: [8]}", first.get("y").toString());
      assertEquals("PerReplica:{0: [[1 2]], 1: [[3 4]]}", first.get("x").toString());
      assertEquals("PerReplica:{0: [9], 1: []}", steps.next().get("y").toString());
    }
    assertThrows(NullPointerException.class, () -> strategy.makeNumpyDataset(null));
    assertThrows(TuttiException.InvalidArgument.class,
        () -> strategy.makeNumpyDataset(new Object[] {new long[] {1}, new long[] {1, 2}}));
  }

  @Test
  void theOptionalOfAStepIsEmptyAtTheEnd() {
    try (Dataset batches = Dataset.range(2).batch(2);
        DistributedIterator steps = strategy.distribute(batches).iterator()) {
      assertEquals(
          "PerReplica:{0: [0], 1: [1]}", steps.nextOptional().asOptional().get().toString());
      assertTrue(steps.nextOptional().asOptional().isEmpty());
    }
  }
}
