package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.distribute.ClusterResolver;
import org.tutti.distribute.ClusterSpec;
import org.tutti.distribute.CommunicationOptions;
import org.tutti.distribute.DistributedDataset;
import org.tutti.distribute.DistributedIterator;
import org.tutti.distribute.InputOptions;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.MultiWorkerMirroredStrategy;
import org.tutti.distribute.OneDeviceStrategy;
import org.tutti.distribute.ReplicaContext;
import org.tutti.distribute.RunOptions;
import org.tutti.distribute.Strategy;

class StrategyTest {
  private MirroredStrategy strategy;

  @BeforeEach
  void make() {
    strategy = MirroredStrategy.of("CPU:0", "CPU:1");
  }

  @AfterEach
  void close() {
    strategy.close();
  }

  @Test
  void everyReplicaRunsTheFunction() {
    final Value ids = strategy.run((replica, none) -> {
      assertTrue(none.isNone());
      assertSame(replica, ReplicaContext.current());
      assertEquals(strategy, Strategy.current());
      return replica.replicaId();
    });
    assertEquals(2, strategy.replicaCount());
    assertEquals(List.of(0L, 1L),
        strategy.localResults(ids).stream().map(Value::longValue).toList());
    assertEquals(1, strategy.reduce(ReduceOp.SUM, ids).longValue());
    assertEquals(0, strategy.reduce(ReduceOp.MEAN, ids).longValue()); // of integers
    assertTrue(strategy.run((replica, none) -> null).isNone());
  }

  @Test
  void outsideOfAllStrategiesIsOneReplicaOnItsOwn() {
    final ReplicaContext alone = ReplicaContext.current();
    assertFalse(Strategy.hasCurrent());
    assertEquals(0, alone.replicaId());
    assertEquals(1, alone.replicaCount());
    assertEquals(-1, alone.globalRows());
    assertEquals(Strategy.defaultStrategy().toString(), alone.strategy().toString());
    assertEquals(3, alone.allReduce(ReduceOp.SUM, 3).longValue());
    assertArrayEquals(
        new float[] {7}, alone.allGather(new float[] {7}, 0).asTensor().toFloatArray());
    assertEquals(5, alone.mergeCall((owner, given) -> {
      assertTrue(Strategy.inCrossReplicaContext());
      assertNull(ReplicaContext.current());
      return given.longValue() + 1;
    }, 4).longValue());
    final IOException thrown = new IOException("no");
    assertSame(thrown, assertThrows(TuttiException.Unknown.class, () -> alone.mergeCall(
        (owner, given) -> {
          throw thrown;
        }, null)).getCause());
    try (Strategy.InScope scope = strategy.scope()) {
      assertTrue(Strategy.hasCurrent());
      assertNull(ReplicaContext.current());
    }
    assertSame(alone, ReplicaContext.current());
  }

  @Test
  void theDefaultStrategysScopeChangesNothing() {
    final Strategy current = Strategy.current();
    try (Strategy.InScope scope = current.scope(); Strategy.InScope again = current.scope()) {
      assertFalse(Strategy.hasCurrent());
      assertFalse(Strategy.inCrossReplicaContext());
    }
    try (Strategy.InScope scope = strategy.scope()) {
      assertThrows(TuttiException.FailedPrecondition.class, current::scope);
    }
  }

  @Test
  void inputOptionsHaveTheDocumentedDefaults() {
    try (Dataset dataset = Dataset.range(4).batch(2)) {
      final InputOptions worker = new InputOptions(
          null, false, InputOptions.InputReplicationMode.PER_WORKER, false);
      strategy.distribute(dataset, worker, null).close();
      strategy.distribute(dataset, new InputOptions(InputOptions.Rebatch.EVEN, true), null).close();
      final InputOptions replica = new InputOptions(
          null, null, InputOptions.InputReplicationMode.PER_REPLICA, null);
      assertThrows(TuttiException.Unimplemented.class,
          () -> strategy.distribute(dataset, replica, null));
      strategy.distributeFromFunction(input -> dataset, replica, null).close();
      final InputOptions placed = new InputOptions(null, null, null, true);
      assertThrows(TuttiException.InvalidArgument.class,
          () -> strategy.distribute(dataset, placed, null));
    }
  }

  @Test
  void callsOfAStrategyTakeOptionsForCollectives() {
    final CommunicationOptions hints = new CommunicationOptions(
        8, Duration.ofSeconds(60), CommunicationOptions.Implementation.RING);
    final Value values = strategy.run((replica, none) -> new float[] {replica.replicaId()});
    assertArrayEquals(new float[] {1},
        strategy.reduce(ReduceOp.SUM, values, null, hints, null).asTensor().toFloatArray());
    assertArrayEquals(new float[] {0, 1},
        strategy.gather(values, 0, hints, null).asTensor().toFloatArray());
    assertArrayEquals(new float[] {0, 1},
        strategy.gather(values, 0, null, Duration.ofSeconds(60)).asTensor().toFloatArray());
  }

  @Test
  void bytesPerPackOfOneCallDecideHowManyCallsAreMade() {
    for (final int[] packs : new int[][] {{0, 1}, {8, 2}, {1, 3}}) {
      final CommunicationOptions hints =
          new CommunicationOptions(packs[0], null, CommunicationOptions.Implementation.AUTO);
      // Replicas that disagree get an error, whose number counts the calls before it.
      final TuttiException failed = assertThrows(TuttiException.InvalidArgument.class,
          () -> strategy.run((replica, none) -> {
            replica.allReduce(
                ReduceOp.SUM, List.of(new float[] {1, 2}, 3f, 4f), hints).close();
            return replica.allReduce(ReduceOp.SUM, 1f, new CommunicationOptions(
                1 + replica.replicaId(), null, CommunicationOptions.Implementation.AUTO));
          }));
      assertTrue(failed.getMessage().contains("all_reduce #" + (packs[1] + 1)
          + " has a bytes_per_pack of 2, rank 0 one of 1"), failed.getMessage());
    }
  }

  @Test
  void aStrategyMayBeSetForTheThread() {
    try {
      Strategy.setCurrent(strategy);
      assertEquals(strategy, Strategy.current());
      assertTrue(Strategy.hasCurrent());
      assertNull(ReplicaContext.current());
      try (Strategy.InScope again = strategy.scope()) {
        assertThrows(
            TuttiException.FailedPrecondition.class, () -> Strategy.setCurrent(null));
      }
      try (MirroredStrategy other = MirroredStrategy.of("CPU:0")) {
        assertThrows(TuttiException.FailedPrecondition.class, other::scope);
        Strategy.setCurrent(other);
        assertEquals(other, Strategy.current());
      }
      Strategy.setCurrent(strategy);
      strategy.run((replica, none) -> {
        assertThrows(
            TuttiException.FailedPrecondition.class, () -> Strategy.setCurrent(null));
        return null;
      });
      assertEquals(strategy, Strategy.current());
    } finally {
      Strategy.setCurrent(null);
    }
    assertFalse(Strategy.hasCurrent());
    assertNotNull(ReplicaContext.current());
  }

  @Test
  void runTakesOptions() {
    assertEquals(new RunOptions(true, false), new RunOptions());
    final Value ids = strategy.run(
        (replica, given) -> given.longValue() + replica.replicaId(), 5, new RunOptions(false, true),
        null);
    assertEquals(List.of(5L, 6L),
        strategy.localResults(ids).stream().map(Value::longValue).toList());
  }

  @Test
  void callsOfACommunicatorTakeOptions() {
    final List<String> lines = Collections.synchronizedList(new ArrayList<>());
    TuttiRuntime.setLogSink((level, line) -> lines.add(level + " " + line));
    try (Communicator alone = Communicator.createLocal(1, "alone").get(0)) {
      final CommunicationOptions hints =
          new CommunicationOptions(1, Duration.ZERO, CommunicationOptions.Implementation.NCCL);
      final Tensor value = Tensor.of(new float[] {1, 2});
      final List<Tensor> two = List.of(value, Tensor.of(new float[] {3}));
      alone.allReduce(value, ReduceOp.SUM, value, hints, null);
      alone.allReduce(two, ReduceOp.SUM, two, hints, null);
      alone.allReduceAsync(two, ReduceOp.SUM, two, hints, null).get(null);
      alone.reduce(value, ReduceOp.SUM, 0, value, hints, null);
      assertArrayEquals(new float[] {1, 2}, alone.allGather(value, hints, null).toFloatArray());
      assertArrayEquals(new float[] {1, 2}, alone.gather(value, 0, hints, null).toFloatArray());
      assertThrows(NullPointerException.class,
          () -> alone.allReduce(null, ReduceOp.SUM, two, hints, null));
      // The hints of a call that never began are nobody's, so that these are one call.
      alone.allReduce(two, ReduceOp.SUM, two);
      // 1 + 2 + 2 + 1 + 1 + 1 + 1 calls were made before.
      assertEquals(10L, assertThrows(TuttiException.InvalidArgument.class,
          () -> alone.reduce(value, ReduceOp.SUM, 5, value)).details().get("sequence"));
    } finally {
      TuttiRuntime.setLogSink(null);
    }
    assertEquals(1, lines.stream().filter(line -> line.contains("NCCL")).count(), lines.toString());
  }

  @Test
  void crossDeviceOpsMayBeNull() {
    try (MirroredStrategy mirrored = MirroredStrategy.create(null, null, "CPU:0", "CPU:1")) {
      assertEquals(2, mirrored.replicaCount());
      assertNull(mirrored.clusterResolver());
    }
  }

  @Test
  void aWorkerAloneHasItsResolver() {
    final ClusterResolver given = ClusterResolver.simple(
        ClusterSpec.of(Map.of("worker", List.of("localhost:1234"))), "worker", 0L);
    try (MultiWorkerMirroredStrategy alone =
             MultiWorkerMirroredStrategy.create(given, null, "CPU:0")) {
      assertSame(given, alone.clusterResolver());
    }
    try (MultiWorkerMirroredStrategy alone = MultiWorkerMirroredStrategy.of("CPU:0")) {
      assertEquals("", alone.clusterResolver().master());
    }
  }

  @Test
  void replicasReduceAndGatherTogether() {
    strategy.run((replica, none) -> {
      final float id = replica.replicaId();
      final Value sum = replica.allReduce(ReduceOp.SUM, Map.of("a", new float[] {id, 1}));
      assertArrayEquals(new float[] {1, 2}, sum.get("a").asTensor().toFloatArray());
      final Value all = replica.allGather(new float[] {id}, 0);
      assertArrayEquals(new float[] {0, 1}, all.asTensor().toFloatArray());
      return null;
    });
  }

  @Test
  void aMergeCallRunsOnceForAllReplicas() {
    final Value merged = strategy.run((replica, none) -> replica.mergeCall((owner, ids) -> {
      assertEquals(strategy, owner);
      assertTrue(Strategy.inCrossReplicaContext());
      assertEquals(Value.Kind.DISTRIBUTED, ids.kind());
      return owner.reduce(ReduceOp.SUM, ids);
    }, replica.replicaId() + 1));
    assertEquals(3, merged.longValue());
  }

  @Test
  void aMergeCallOfDifferentFunctionsFailsOnAllReplicas() {
    assertThrows(TuttiException.InvalidArgument.class, () -> strategy.run((replica, none) ->
        replica.replicaId() == 0 ? replica.mergeCall((owner, ids) -> 1, 0)
            : replica.mergeCall((owner, ids) -> 2, 0)));
  }

  @Test
  void anExceptionOfAReplicaIsTheCause() {
    final IOException thrown = new IOException("the disk is full");
    final TuttiException caught =
        assertThrows(TuttiException.Unknown.class, () -> strategy.run((replica, none) -> {
          if (replica.replicaId() == 1) {
            throw thrown; // on a thread of the library
          }
          return replica.allReduce(ReduceOp.SUM, 1.0);
        }));
    assertSame(thrown, caught.getCause());
    assertThrows(TuttiException.FailedPrecondition.class, () -> strategy.run((replica, none) -> {
      throw new IllegalStateException("not now");
    }));
    assertThrows(TuttiException.OutOfRange.class,
        () -> strategy.run((replica, none) -> new int[1][replica.replicaId() + 1].length
            + List.of().get(0).hashCode()));
  }

  @Test
  void anErrorWithDetailsComesThrough() {
    final TuttiException caught = assertThrows(TuttiException.class,
        () -> strategy.run((replica, none) -> {
          throw TuttiException.of(Code.DATA_LOSS, "cut off", Map.of("row", 7L), null);
        }));
    assertEquals(Code.DATA_LOSS, caught.code());
    assertEquals(7L, caught.details().get("row"));
  }

  @Test
  void aContextEndsWithItsFunction() {
    final AtomicReference<ReplicaContext> kept = new AtomicReference<>();
    strategy.run((replica, none) -> {
      if (replica.replicaId() == 0) {
        kept.set(replica);
      }
      return null;
    });
    assertThrows(TuttiException.FailedPrecondition.class, () -> kept.get().replicaId());
    assertThrows(TuttiException.FailedPrecondition.class,
        () -> kept.get().allReduce(ReduceOp.SUM, 1));
    assertNotNull(kept.get().toString());
  }

  @Test
  void argumentsAreClosedWithTheFunction() {
    final AtomicReference<Value> kept = new AtomicReference<>();
    strategy.run((replica, value) -> {
      kept.set(value);
      return null;
    }, List.of(1, 2));
    assertThrows(TuttiException.FailedPrecondition.class, () -> kept.get().size());
  }

  @Test
  void whatAFunctionGivesStaysOpen() {
    try (Tensor shared = Tensor.of(new float[] {1}); Value value = Value.of("same")) {
      strategy.run((replica, none) -> shared);
      assertEquals("same", strategy.run((replica, none) -> value).stringValue());
      assertEquals(1, shared.floatValue());
      final Object marker = new Object();
      assertSame(marker, strategy.run((replica, none) -> marker).asObject(Object.class));
    }
  }

  @Test
  void variablesAreMirrored() {
    try (Strategy.InScope scope = strategy.scope();
         Variable weights = Variable.builder(new float[] {1, 2})
                                .name("weights").aggregation(Variable.Aggregation.SUM).create()) {
      strategy.run((replica, none) -> {
        weights.assignSub(new float[] {1, replica.replicaId()});
        return null;
      });
      assertArrayEquals(new float[] {-1, 1}, weights.read().toFloatArray());
      assertEquals(2, weights.copies().size());
      assertEquals(List.of("weights", "weights/replica_1"), weights.copyNames());
      assertTrue(weights.data().isReadOnly());
      assertEquals(strategy, weights.strategy());
      weights.assign(new float[] {5, 6}).assignAdd(new float[] {1, 1});
      assertArrayEquals(new float[] {6, 7}, weights.read().toFloatArray());
      assertThrows(TuttiException.InvalidArgument.class,
          () -> weights.assign(new double[] {1, 2}), "wrong dtype");
    }
    assertEquals(1, Strategy.current().replicaCount());
  }

  @Test
  void scopesOfTwoStrategiesDoNotNest() {
    try (OneDeviceStrategy other = OneDeviceStrategy.of("CPU:0");
         Strategy.InScope scope = strategy.scope()) {
      assertThrows(TuttiException.FailedPrecondition.class, other::scope);
      strategy.scope().close();
    }
  }

  @Test
  void batchesAreCutOverTheReplicas() {
    try (Dataset rows = Dataset.range(10).batch(4);
         DistributedDataset steps = strategy.distribute(rows)) {
      final List<Long> sums = new ArrayList<>();
      for (final Value batch : steps) {
        strategy.run((replica, numbers) -> {
          assertEquals(batch.get(0).asTensor().elementCount() * 2, replica.globalRows());
          return null;
        }, batch);
        final Value sum = strategy.run((replica, numbers) -> {
          long total = 0;
          for (final long number : numbers.asTensor().toLongArray()) {
            total += number;
          }
          return replica.allReduce(ReduceOp.SUM, total);
        }, batch);
        sums.add(strategy.localResults(sum).get(1).longValue());
        batch.close();
      }
      assertEquals(List.of(6L, 22L, 17L), sums);
    }
  }

  @Test
  void aDistributedIteratorGoesBackToASavedPosition() {
    try (DistributedDataset steps = strategy.distribute(Dataset.range(8).batch(2));
         DistributedIterator first = steps.iterator();
         DistributedIterator second = steps.iterator()) {
      first.next();
      final byte[] state = first.save();
      final String expected = first.next().toString();
      assertTrue(first.hasNext());
      assertThrows(TuttiException.FailedPrecondition.class, first::save);
      second.restore(state);
      assertEquals(expected, second.next().toString());
    }
  }

  @Test
  void theEndOfADistributedIteratorIsOutOfRange() {
    try (DistributedDataset steps = strategy.distribute(Dataset.range(2).batch(2));
         DistributedIterator iterator = steps.iterator()) {
      assertEquals(2, iterator.getNext().size());
      assertEquals(Code.OUT_OF_RANGE,
          assertThrows(TuttiException.class, iterator::getNext).code());
    }
  }

  @Test
  void datasetsAndValuesAreMadePerReplica() {
    final Value ids = strategy.distributeValues(context -> context.replicaId() * 10.0);
    assertEquals(10, strategy.reduce(ReduceOp.SUM, ids).doubleValue());
    final Value given = strategy.perReplica(List.of(1, 2));
    assertEquals(2, given.get(1).longValue());
    try (DistributedDataset steps = strategy.distributeFromFunction(context -> {
      assertEquals(2, context.perReplicaBatchSize(4));
      return Dataset.range(4);
    })) {
      assertEquals("PerReplica:{0: int64[] 0, 1: int64[] 1}".replace("int64[] ", ""),
          steps.iterator().next().toString().replace("int64[] ", ""));
    }
  }

  @Test
  void aCallEndsAtItsTimeout() {
    assertThrows(TuttiException.DeadlineExceeded.class, () -> strategy.run((replica, none) -> {
      if (replica.replicaId() == 0) {
        return replica.allReduce(ReduceOp.SUM, 1.0);
      }
      while (!replica.isCancelled()) {
        Thread.onSpinWait();
      }
      return null;
    }, null, Duration.ofMillis(50)));
  }

  @Test
  void anInterruptedThreadStopsWaiting() throws Exception {
    final AtomicReference<Throwable> caught = new AtomicReference<>();
    final Thread thread = new Thread(() -> {
      try (ValueFuture never = new ValueFuture()) {
        never.get(null);
      } catch (TuttiException failed) {
        caught.set(failed);
      }
    });
    thread.start();
    thread.interrupt();
    thread.join(60_000);
    assertTrue(caught.get() instanceof TuttiException.Cancelled, () -> "" + caught.get());
  }

  @Test
  void aFutureGivesTheOriginalExceptionAsCause() {
    try (ValueFuture future = new ValueFuture(); ValueFuture failing = new ValueFuture()) {
      future.complete(Map.of("a", 1));
      assertEquals(1, future.get(null).get("a").longValue());
      final IOException thrown = new IOException("no");
      failing.fail(thrown);
      assertSame(thrown,
          assertThrows(TuttiException.class, () -> failing.get(Duration.ofSeconds(60))).getCause());
    }
  }

  @Test
  void anExceptionOfOursThatLeavesACallbackSaysItsCodeOnce() {
    final TuttiException thrown =
        TuttiException.of(Code.UNAVAILABLE, "rank 1 is gone", Map.of("rank", 1L), null);
    try (MirroredStrategy one = MirroredStrategy.of("CPU:0")) {
      final TuttiException caught = assertThrows(TuttiException.Unavailable.class,
          () -> one.run((replica, nothing) -> {
            throw thrown;
          }));
      assertSame(thrown, caught.getCause());
      assertFalse(caught.getMessage().contains("UNAVAILABLE"), caught::getMessage);
      assertEquals(1L, caught.details().get("rank"));
    }
  }

  @Test
  void aClosedStrategyIsAnException() {
    final MirroredStrategy other = MirroredStrategy.of("CPU:0");
    other.close();
    other.close();
    assertThrows(
        TuttiException.FailedPrecondition.class, () -> other.run((replica, none) -> null));
  }

  @Test
  void communicatorsFoldInRankOrder() throws Exception {
    final List<Communicator> ranks = Communicator.createLocal(2, "pair");
    final Tensor[] results = new Tensor[2];
    final Thread thread = new Thread(() ->
        results[1] = ranks.get(1).allReduce(Tensor.of(new double[] {2, 3}), ReduceOp.SUM));
    thread.start();
    results[0] = ranks.get(0).allReduce(Tensor.of(new double[] {1, 1}), ReduceOp.SUM);
    thread.join(60_000);
    assertArrayEquals(new double[] {3, 4}, results[0].toDoubleArray());
    assertEquals(results[0], results[1]);
    ranks.get(0).abort("enough");
    assertThrows(TuttiException.Aborted.class, () -> ranks.get(1).barrier(null));
    ranks.forEach(Communicator::close);
  }

  @Test
  void useAfterShutdownIsAnException() {
    try (TuttiRuntime runtime = TuttiRuntime.create(Map.of("log_level", "error"))) {
      final DatasetIterator iterator;
      final Strategy other;
      try (TuttiRuntime.Scope scope = runtime.asDefault()) {
        iterator = Dataset.range(3).iterator();
        other = MirroredStrategy.of("CPU:0", "CPU:1");
      }
      assertEquals("error", runtime.get("log_level"));
      runtime.shutdown(Duration.ofSeconds(60));
      assertThrows(TuttiException.FailedPrecondition.class, iterator::next);
      assertThrows(
          TuttiException.FailedPrecondition.class, () -> other.run((replica, none) -> null));
      assertThrows(TuttiException.InvalidArgument.class,
          () -> TuttiRuntime.create(Map.of("no_such_setting", "1")));
    }
  }
}
