package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Constructor;
import java.lang.reflect.Modifier;
import java.nio.ReadOnlyBufferException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetFunction;
import org.tutti.data.DatasetIterator;
import org.tutti.data.ExampleWriter;
import org.tutti.data.TFRecordDataset;
import org.tutti.data.TextLineDataset;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.internal.Box;
import org.tutti.train.Checkpoint;

/** What a newcomer meets first: elements, messages, whole values, checkpoints without a
 * strategy. */
class NewcomerTest {
  private static final Duration LONG = Duration.ofMinutes(1);

  @TempDir Path folder;

  // What is reached through an element belongs to the dataset: another pass reads the same memory.
  @Test
  void elementsAreReadOnly() {
    final Dataset dataset = Dataset.fromTensors(new long[] {1, 2, 3});
    for (int pass = 0; pass < 2; ++pass) {
      for (final Value element : dataset) {
        final Tensor tensor = element.asTensor();
        assertArrayEquals(new long[] {1, 2, 3}, tensor.toLongArray());
        assertTrue(tensor.isReadOnly());
        assertThrows(ReadOnlyBufferException.class, () -> element.asLongBuffer().put(0, 99));
        assertThrows(
            ReadOnlyBufferException.class, () -> tensor.slice(0, 0, 2).asLongBuffer().put(0, 99));
        try (Communicator alone = Communicator.createLocal(1).get(0);
             Tensor nines = Tensor.of(new long[] {9, 9, 9})) {
          assertThrows(TuttiException.FailedPrecondition.class,
              () -> alone.allReduce(nines, ReduceOp.SUM, tensor, LONG));
        }
        try (Tensor copy = tensor.copy()) {
          copy.asLongBuffer().put(0, 99);
          assertTrue(copy.asReadOnly().isReadOnly());
        }
      }
    }
  }

  @Test
  void aWaitThatTakesLongNamesTheTensor() throws Exception {
    final BlockingQueue<String> lines = new LinkedBlockingQueue<>();
    TuttiRuntime.setLogSink((level, line) -> lines.add(line));
    TuttiRuntime.setDefault("wait_warning", "20ms");
    try (Communicator alone = Communicator.createLocal(1).get(0);
         BucketPlan plan = BucketPlan.of(alone,
             List.of(Tensor.zeros(DType.FLOAT32, 2), Tensor.zeros(DType.FLOAT64, 3)), ReduceOp.SUM,
             new BucketPlan.Options().names(List.of("bias", "weight")))) {
      assertEquals("bucket plan of 2 tensors (SUM) in 1 buckets, 0 steps", plan.toString());
      plan.ready(0);
      final CompletableFuture<Void> late = CompletableFuture.runAsync(() -> {
        String line = "";
        while (!line.contains("not ready: 1 (weight)")) {
          try {
            line = lines.poll(60, TimeUnit.SECONDS);
          } catch (InterruptedException ended) {
            throw new IllegalStateException(ended);
          }
        }
        plan.ready(1);
      });
      plan.await();
      late.get(60, TimeUnit.SECONDS);
    } finally {
      TuttiRuntime.setDefault("wait_warning", "30s");
      TuttiRuntime.setLogSink(null);
    }
  }

  @Test
  void checkpointsOfACommunicatorAreOfAllRanks() throws Exception {
    Ranks.run(2, (ranks, rank) -> {
      final Tensor weights = Tensor.of(new double[] {5, 6});
      try (DatasetIterator steps = Dataset.range(9).shard(2, rank).iterator();
           Checkpoint checkpoint = new Checkpoint(ranks, Map.of("w", weights, "steps", steps))) {
        steps.next();
        final String path = checkpoint.save(folder.resolve("ckpt").toString(), LONG);
        weights.asDoubleBuffer().put(0, 0);
        steps.next();
        checkpoint.restore(path, LONG);
        assertEquals(2 + rank, steps.next().longValue());
        assertArrayEquals(new double[] {5, 6}, weights.toDoubleArray());
      }
    });
    assertTrue(Files.exists(folder.resolve("ckpt-1.worker-1-of-2.safetensors")));
  }

  @Test
  void aRunThatTakesTooLongFailsThoughNobodyWaits() {
    try (var strategy = MirroredStrategy.of("CPU:0")) {
      assertThrows(TuttiException.DeadlineExceeded.class, () -> strategy.run((replica, none) -> {
        TimeUnit.MILLISECONDS.sleep(30);
        return 1;
      }, null, Duration.ofMillis(5)));
    }
  }

  @Test
  void aStateOfAnotherDatasetSaysWhatDiffers() {
    try (DatasetIterator two = Dataset.range(9).batch(2).iterator();
         DatasetIterator three = Dataset.range(9).batch(3).iterator()) {
      final byte[] state = two.save();
      final String text =
          assertThrows(TuttiException.InvalidArgument.class, () -> three.restore(state))
              .getMessage();
      assertTrue(text.contains("was batch(batch_size=2) and is batch(batch_size=3) here"), text);
    }
  }

  @Test
  void aStrategyHasACommunicator() {
    try (var strategy = MirroredStrategy.of("CPU:0", "CPU:1");
         Communicator ranks = strategy.communicator()) {
      assertTrue(strategy.cluster().isEmpty());
      assertEquals("communicator, rank 0 of 1, epoch 1, in_process", ranks.toString());
    }
  }

  @Test
  void wholeValuesGoBetweenRanks() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final List<Value> all =
          ranks.allGatherValue(Map.of("rank", rank, "name", "worker " + rank), LONG);
      for (int i = 0; i < 3; ++i) {
        assertEquals(i, all.get(i).get("rank").intValue());
        assertEquals("worker " + i, all.get(i).get("name").stringValue());
      }
      final Value config = ranks.broadcastValue(rank == 1 ? Map.of("rate", 0.5) : null, 1, LONG);
      assertEquals(0.5, config.get("rate").doubleValue());
      assertEquals(config.toString(), Value.parse(config.serialize()).toString());
    });
  }

  @Test
  void examplesAreWritten() {
    assertEquals("0a0c0a0a0a016112051a030a0101",
        HexFormat.of().formatHex(ExampleWriter.makeExample(Map.of("a", 1L))));
    final String path = folder.resolve("train.tfrecord").toString();
    try (ExampleWriter examples = new ExampleWriter(path)) {
      for (long i = 0; i < 2; ++i) {
        examples.write(Map.of("image", new float[][] {{i, 1}, {2, 3}}, "label", i));
      }
    }
    long label = 0;
    for (final Value parsed : TFRecordDataset.of(path).map(DatasetFunction.parseExample(
             Map.of("image", new DatasetFunction.Feature(DType.FLOAT32, 2, 2),
                 "label", new DatasetFunction.Feature(DType.INT64))))) {
      assertArrayEquals(
          new float[] {label, 1, 2, 3}, parsed.get("image").asTensor().toFloatArray());
      assertEquals(label++, parsed.get("label").longValue());
    }
    assertEquals(2, label);
  }

  @Test
  void aFailedFunctionNamesTheRecordOfAFile() throws Exception {
    final Path lines = Files.writeString(folder.resolve("lines.txt"), "1\n2\nx\n");
    for (final int calls : new int[] {0, 2}) {
      final Dataset numbers = TextLineDataset.of(lines.toString()).map(
          line -> Long.parseLong(line.stringValue()), calls);
      final String text = assertThrows(TuttiException.class, () -> {
        for (final Value number : numbers) {
          assertTrue(number.longValue() > 0);
        }
      }).getMessage();
      assertTrue(text.contains("element 2 (record 2 of \"" + lines + "\")"), text);
    }
  }

  @Test
  void arraysOfArraysAreMatrices() {
    assertArrayEquals(new long[] {2, 3},
        Value.of(new double[][] {{1, 2, 3}, {4, 5, 6}}).asTensor().shape());
    assertArrayEquals(new long[] {1, 2, 1},
        Value.of(new int[][][] {{{7}, {8}}}).asTensor().shape());
    assertArrayEquals(new float[] {1, 2, 3, 4},
        Tensor.of(new float[][] {{1, 2}, {3, 4}}).toFloatArray());
    assertTrue(assertThrows(TuttiException.InvalidArgument.class,
        () -> Tensor.of(new long[][] {{1}, {2, 3}})).getMessage().contains("rows of one length"));
  }

  @Test
  void exceptionsAndClosedObjectsSayWhatTheyAre() {
    final Tensor tensor = Tensor.scalar(1);
    tensor.close();
    final TuttiException closed =
        assertThrows(TuttiException.FailedPrecondition.class, () -> tensor.cast(DType.INT64));
    assertEquals("org.tutti.TuttiException.FailedPrecondition: this Tensor has been closed; use it "
        + "before close()", closed.toString());
  }

  @Test
  void programsSeeNoConstructorsOfThePackage() {
    for (final Class<?> type : List.of(Tensor.class, Value.class, Spec.class, Variable.class,
             Dataset.class, Cluster.class, Communicator.class, ValueFuture.class)) {
      for (final Constructor<?> constructor : type.getDeclaredConstructors()) {
        assertTrue(!Modifier.isPublic(constructor.getModifiers())
            || !List.of(constructor.getParameterTypes()).contains(Box.class), type.toString());
      }
    }
  }

  @Test
  void aFutureIsAStageOfTheJdks() throws Exception {
    try (ValueFuture future = new ValueFuture(); ValueFuture failing = new ValueFuture()) {
      final CompletableFuture<Double> doubled =
          future.thenApply(value -> 2 * value.doubleValue()).toCompletableFuture();
      final CompletableFuture<String> failed =
          failing.handle((value, error) -> error.getCause().getCause().getMessage())
              .toCompletableFuture();
      assertEquals("future, under way", future.toString());
      future.complete(2.5);
      failing.fail(new IllegalStateException("lost"));
      assertEquals(5.0, doubled.get(60, TimeUnit.SECONDS));
      assertEquals("lost", failed.get(60, TimeUnit.SECONDS));
      assertEquals("future, done", future.toString());
    }
  }
}
