package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetFunction;
import org.tutti.data.Padding;
import org.tutti.data.SnapshotOptions;
import org.tutti.distribute.CentralStorageStrategy;
import org.tutti.distribute.ClusterResolver;
import org.tutti.distribute.CommunicationOptions;
import org.tutti.distribute.CrossDeviceOps;
import org.tutti.distribute.GceOptions;
import org.tutti.distribute.InputOptions;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.MultiWorkerMirroredStrategy;
import org.tutti.distribute.OneDeviceStrategy;
import org.tutti.distribute.RunOptions;
import org.tutti.distribute.SlurmOptions;
import org.tutti.distribute.Strategy;

/** What has no value is left out: no call needs a null. */
class NullFreeTest {
  private static final Duration LONG = Duration.ofMinutes(1);

  @TempDir Path folder;

  private static String printed(Dataset dataset) {
    final List<String> rows = new ArrayList<>();
    for (final Value row : dataset) {
      final Tensor tensor = row.asTensor();
      rows.add(tensor.shape().length == 0 ? "" + row.longValue()
          : Arrays.toString(tensor.toLongArray()));
    }
    return String.join(" ", rows);
  }

  private static void says(String what, Runnable failing) {
    final TuttiException e =
        assertThrows(TuttiException.InvalidArgument.class, failing::run);
    assertTrue(e.getMessage().contains(what), e.getMessage());
  }

  @Test
  void runAndItsValues() {
    final CommunicationOptions packs = new CommunicationOptions().bytesPerPack(8).timeout(LONG)
        .implementation(CommunicationOptions.Implementation.RING);
    assertEquals(new CommunicationOptions(8, LONG, CommunicationOptions.Implementation.RING),
        packs);
    try (MirroredStrategy strategy = MirroredStrategy.named("two", "CPU:0", "CPU:1")) {
      final Value ids = strategy.run((replica, none) -> (long) replica.replicaId(), LONG);
      assertEquals(1, strategy.reduce(ReduceOp.SUM, ids, LONG).longValue());
      assertEquals(1, strategy.reduce(ReduceOp.SUM, ids, packs).longValue());
      assertEquals(7,
          strategy.run((replica, x) -> x, 7L, new RunOptions()).longValue());
      assertThrows(TuttiException.DeadlineExceeded.class, () -> strategy.run(
          (replica, none) -> replica.replicaId() == 0 ? replica.allReduce(ReduceOp.SUM, 1L)
              : waited(200), Duration.ofMillis(20)));
      final Value rows = strategy.perReplica(List.of(new long[] {1, 2}, new long[] {3, 4}));
      assertEquals(10, strategy.reduce(ReduceOp.SUM, rows, 0).longValue());
      assertEquals(10, strategy.reduce(ReduceOp.SUM, rows, 0, packs).longValue());
      assertArrayEquals(
          new long[] {1, 2, 3, 4}, strategy.gather(rows, 0, packs).asTensor().toLongArray());
      assertEquals(3, strategy.run(
          (replica, none) -> replica.mergeCall((merging, nothing) -> 3L)).longValue());
      assertEquals(1, strategy.extended().batchReduceTo(ReduceOp.SUM, List.of(
          new CrossDeviceOps.Pair(ids, "CPU:0"))).get(0).longValue());
      assertEquals(1,
          strategy.extended().reduceTo(ReduceOp.SUM, ids, "CPU:0", packs).longValue());
      final Variable variable = Variable.builder(1.0f).strategy(strategy).create();
      strategy.extended().update(variable, (context, v, none) -> v.assign(5.0f));
      strategy.extended().update(variable, (context, v, x) -> v.assignAdd(x), 1.0f, true);
      assertEquals(6, variable.read().toFloatArray()[0]);
      assertEquals(2, strategy.extended().updateNonSlot(
          List.of("CPU:0"), (context, none, x) -> x, 2L).longValue());
      strategy.extended().updateNonSlot("CPU:0", (context, none, x) -> 1L).close();
      Strategy.setCurrent(strategy);
      assertEquals(strategy, Strategy.current());
      Strategy.resetCurrent();
      assertNotEquals(strategy, Strategy.current());
    }
  }

  private static Object waited(int millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return 0L;
  }

  @Test
  void strategiesAndInput() {
    final InputOptions even = new InputOptions().rebatch(InputOptions.Rebatch.EVEN)
        .prefetchToDevice(false).placeDatasetOnDevice(false)
        .replicationMode(InputOptions.InputReplicationMode.PER_WORKER);
    try (MirroredStrategy strategy = MirroredStrategy.of(
             MirroredStrategy.CrossDeviceOps.REDUCTION_TO_ONE_DEVICE, "CPU:0", "CPU:1")) {
      strategy.distribute(Dataset.range(4).batch(2), even).close();
      strategy.distribute(Dataset.range(4).batch(2), LONG).close();
      strategy.distributeFromFunction(input -> Dataset.range(4), even).close();
    }
    try (CentralStorageStrategy central = CentralStorageStrategy.on("CPU:0", "CPU:0", "CPU:1");
         OneDeviceStrategy one = OneDeviceStrategy.named("one", "CPU:0");
         MultiWorkerMirroredStrategy first = MultiWorkerMirroredStrategy.of(LONG, "CPU:0");
         MultiWorkerMirroredStrategy second =
             MultiWorkerMirroredStrategy.of(new CommunicationOptions(LONG), "CPU:0");
         MultiWorkerMirroredStrategy third =
             MultiWorkerMirroredStrategy.of(ClusterResolver.tfConfig(), "CPU:0")) {
      assertEquals(2, central.replicaCount());
      assertEquals(1, one.replicaCount() * first.replicaCount() * second.replicaCount()
          * third.replicaCount());
    }
  }

  @Test
  void clustersAndCommunicators() {
    final ClusterResolver alone = ClusterResolver.tfConfig();
    Cluster.join(1).close();
    Cluster.join(1, LONG).close();
    Cluster.join(alone, LONG).close();
    Cluster.join(alone, 1).close();
    assertEquals("worker", ClusterResolver.tfConfig("worker", 0).taskType());
    assertEquals(1, alone.withTask("worker", 1).taskId());
    assertEquals(Map.of(), ((ClusterResolver) () -> alone.clusterSpec()).accelerators("worker", 0));
    assertEquals(new SlurmOptions().gpus(2, null), new SlurmOptions().gpus(2));
    assertEquals(new GceOptions(0).service("token", "http://here", null),
        new GceOptions(0).service("token", "http://here"));
    final CommunicationOptions options = new CommunicationOptions(LONG);
    try (Communicator one = Communicator.createLocal(1).get(0);
         Communicator same = one.split(0, 0); Communicator again = one.split(0, 0, LONG);
         Tensor tensor = Tensor.of(new float[] {1, 2})) {
      same.allReduce(tensor, ReduceOp.SUM, tensor, options);
      again.allReduce(List.of(tensor), ReduceOp.SUM, List.of(tensor), options);
      again.allReduceAsync(List.of(tensor), ReduceOp.SUM, List.of(tensor), options).get().close();
      one.reduce(tensor, ReduceOp.SUM, 0, tensor, options);
      assertEquals(2, one.allGather(tensor, options).shape()[0]);
      assertEquals(2, one.gather(tensor, 0, options).shape()[0]);
    }
    final List<Communicator> two = Communicator.createLocal(2);
    try (Tensor given = Tensor.of(new float[] {1, 2}); Tensor got = Tensor.of(new float[] {0});
         Tensor part = Tensor.of(new float[] {0})) {
      final Thread root = new Thread(() -> {
        two.get(0).scatter(given, 0, part);
        two.get(0).reduce(part, ReduceOp.SUM, 0, part);
      });
      root.start();
      two.get(1).scatter(0, got);
      two.get(1).reduce(got, ReduceOp.SUM, 0);
      root.join();
      assertEquals(2, got.toFloatArray()[0]);
      assertEquals(3, part.toFloatArray()[0]);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    } finally {
      two.forEach(Communicator::close);
    }
  }

  @Test
  void datasets() throws Exception {
    final Dataset five = Dataset.range(5);
    assertEquals("0 0 1 1", printed(Dataset.range(2).interleave(
        x -> Dataset.fromTensors(x).repeat(2), 1)));
    assertEquals("0 1 0 1", printed(Dataset.range(2).interleave(
        x -> Dataset.fromTensors(x).repeat(2), 2, 1)));
    DatasetFunction.register("NullFree.parity", x -> x.longValue() % 2, false);
    try (DatasetFunction twice = DatasetFunction.of(
             x -> Dataset.fromTensors(x).repeat(2), "twice");
         DatasetFunction parity = DatasetFunction.registered("NullFree.parity");
         DatasetFunction window = DatasetFunction.of(in -> in.get(1).asDataset().batch(9), false);
         DatasetFunction one = DatasetFunction.of(x -> 1L);
         DatasetFunction sum =
             DatasetFunction.of(in -> in.get(0).longValue() + in.get(1).longValue())) {
      assertEquals("0 1 0 1", printed(Dataset.range(2).interleave(twice)));
      assertEquals("0 0 1 1", printed(Dataset.range(2).interleave(twice, 1, 2)));
      assertEquals("0 0 1 1", printed(Dataset.range(2).interleave(twice, 1, 2, 1)));
      assertEquals("[0, 2] [1, 3]", printed(Dataset.range(4).groupByWindow(parity, window, 2)));
      assertEquals("[0] [1]", printed(Dataset.range(2).groupByWindow(parity, window, one)));
      assertEquals(10, five.reduce(0L, sum).longValue());
      final String path = folder.resolve("shards").toString();
      assertEquals("0 1 2 3 4", printed(
          five.snapshot(path, new SnapshotOptions().compression("GZIP").shardFunc(parity))));
      assertEquals("0 2 4 1 3", printed(five.snapshot(path, new SnapshotOptions()
          .compression("GZIP").shardFunc(parity).readerFunc(flat()))));
    } finally {
      DatasetFunction.unregister("NullFree.parity");
    }
    assertEquals("0 1 2 3 4", printed(five.snapshot(folder.resolve("one").toString(), "NONE")));
    final Dataset sizes =
        Dataset.range(1, 3, 1).map(n -> Tensor.of(new long[(int) n.longValue()]));
    assertEquals("[0, -1, 0, 0]", printed(sizes.paddedBatch(2, new Padding().values(-1L))));
    assertEquals("[0, 0, 0, 0, 0, 0]",
        printed(sizes.paddedBatch(2, new Padding().shapes(new long[] {3}))));
    assertEquals("", printed(sizes.paddedBatch(3, true)));
    assertEquals("", printed(sizes.paddedBatch(3, new Padding().dropRemainder(true))));
    final Dataset fixed = five.shuffle(5, 7, false);
    assertEquals(printed(fixed), printed(fixed));
    final Dataset same = five.shuffle(5, false);
    assertEquals(printed(same), printed(same));
    assertEquals(10, five.shuffleAndRepeat(5, 2).cardinality());
    assertEquals(printed(five.shuffleAndRepeat(5, 2, 1)), printed(five.shuffleAndRepeat(5, 2, 1)));
    assertEquals(2, five.window(2, true).cardinality());
    assertEquals(5, five.window(2, 1).cardinality());
    assertEquals(3, five.window(2, 1, 2, true).cardinality());
    Files.writeString(folder.resolve("a.txt"), "a");
    Files.writeString(folder.resolve("b.txt"), "b");
    int names = 0;
    for (final Value name : Dataset.listFiles(List.of(folder + "/*.txt"), false)) {
      assertTrue(name.stringValue().endsWith(names++ == 0 ? "a.txt" : "b.txt"));
    }
    assertEquals(2, names);
  }

  private static DatasetFunction flat() {
    return DatasetFunction.of(shards -> shards.asDataset().flatMap(shard -> shard), "flat");
  }

  @Test
  void assertions() {
    Debugging.assertEqual(1L, 1L, "same");
    says("other", () -> Debugging.assertEqual(1L, 2L, "other"));
    says("other", () -> Debugging.assertNoneEqual(1L, 1L, "other"));
    says("other", () -> Debugging.assertLess(1L, 1L, "other"));
    says("other", () -> Debugging.assertLessEqual(2L, 1L, "other"));
    says("other", () -> Debugging.assertGreater(1L, 1L, "other"));
    says("other", () -> Debugging.assertGreaterEqual(1L, 2L, "other"));
    says("other", () -> Debugging.assertPositive(0L, "other"));
    says("other", () -> Debugging.assertNegative(0L, "other"));
    says("other", () -> Debugging.assertNonPositive(1L, "other"));
    says("other", () -> Debugging.assertNonNegative(-1L, "other"));
    Debugging.assertNear(1.0f, 1.5f, 0.0f, 1.0f);
    try (Tensor x = Tensor.of(new float[] {1, 2})) {
      assertSame(x, Debugging.assertAllFinite(x));
      assertSame(x, Debugging.checkNumerics(x));
      says("float32[2]", () -> Debugging.assertInteger(x));
      says("rank 1", () -> Debugging.assertScalar(x));
      Debugging.assertRank(x, 1);
      says("rank 2 or more", () -> Debugging.assertRankAtLeast(x, 2));
      says("one of 0, 2", () -> Debugging.assertRankIn(x, 0, 2));
      Debugging.assertType(x, DType.FLOAT32);
      assertEquals(DType.FLOAT32, Debugging.assertSameFloatDType(List.of(x)));
      says("two", () -> Debugging.assertShapes(List.of(new Debugging.Shaped(x, "3")), "two"));
    }
    Debugging.assertTrue(true);
    says("17", () -> Debugging.assertTrue(false, 17L));
    final Debugging.DumpOptions dump = Debugging.DumpOptions.of(Debugging.Mode.SHAPE)
        .circularBufferSize(5).opRegex("all_reduce").dtypes(dtype -> dtype == DType.FLOAT32);
    assertEquals(5, dump.circularBufferSize());
    assertEquals("all_reduce", dump.opRegex());
  }

  @Test
  void processAndSpecs() {
    assertEquals(List.of("/physical_device:CPU:0"), TuttiRuntime.visibleDevices());
    assertFalse(TuttiRuntime.physicalDevices().isEmpty());
    assertFalse(TuttiRuntime.devices().isEmpty());
    TuttiRuntime.setVisibleDevices(TuttiRuntime.visibleDevices());
    TuttiRuntime.setRandomSeed(5);
    final String order = printed(Dataset.range(20).shuffle(20));
    TuttiRuntime.setRandomSeed(5);
    assertEquals(order, printed(Dataset.range(20).shuffle(20)));
    TuttiRuntime.resetRandomSeed();
    TuttiRuntime.setLogSink((level, line) -> { });
    TuttiRuntime.resetLogSink();
    assertEquals("/job:ps", new DeviceSpec().withJob("ps").toString());
    try (DeviceSpec.Scope outer = DeviceSpec.scope("CPU:0");
         DeviceSpec.Scope inner = DeviceSpec.noScope()) {
      assertNull(DeviceSpec.current());
    }
    assertEquals(Spec.tuple(Spec.tensorOfAnyShape(DType.INT8), Spec.tensor(DType.INT8, 2)),
        Spec.ofTypes(new Object[] {DType.INT8, DType.INT8},
            new Object[] {Spec.ANY_SHAPE, new long[] {2}}));
  }
}
