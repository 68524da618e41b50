package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.data.ElementFunction;
import org.tutti.data.DatasetFunction;
import org.tutti.data.Padding;
import org.tutti.data.TFRecordDataset;
import org.tutti.data.TFRecordWriter;
import org.tutti.distribute.ClusterResolver;
import org.tutti.distribute.ClusterSpec;
import org.tutti.distribute.MultiWorkerMirroredStrategy;

class DatasetTest {
  static List<Long> numbers(Dataset dataset) {
    final List<Long> numbers = new ArrayList<>();
    for (final Value element : dataset) {
      numbers.add(element.longValue());
    }
    return numbers;
  }

  static List<String> texts(Dataset dataset) {
    final List<String> texts = new ArrayList<>();
    for (final Value element : dataset) {
      texts.add(element.stringValue());
    }
    return texts;
  }

  @Test
  void theEndOfAnIteratorCanBeAskedOrThrown() {
    try (DatasetIterator elements = Dataset.range(2).iterator()) {
      assertEquals(Spec.tensor(DType.INT64), elements.elementSpec());
      assertEquals(0, elements.getNext().longValue());
      assertTrue(elements.hasNext());
      assertThrows(TuttiException.FailedPrecondition.class, elements::nextOptional);
      assertEquals(1, elements.getNext(Duration.ofSeconds(60)).longValue());
      final TuttiException end = assertThrows(TuttiException.class, elements::getNext);
      assertEquals(Code.OUT_OF_RANGE, end.code());
      assertFalse(elements.hasNext());
      assertThrows(NoSuchElementException.class, elements::next);
      assertNull(elements.poll(null));
      assertTrue(elements.nextOptional().asOptional().isEmpty());
    }
  }

  // Java's own order of strings puts the surrogates of the second name before the first.
  @Test
  void keysAreInTheOrderOfTheirBytes() {
    final String before = "\uffee";
    final String after = "\ud83d\ude00";
    assertTrue(before.compareTo(after) > 0);
    final Spec first = Spec.tensor(DType.INT64);
    final Spec second = Spec.tensor(DType.FLOAT64);
    final Spec dict = Spec.dict(Map.of(after, second, before, first));
    assertEquals(List.of(before, after), dict.keys());
    assertEquals(first, dict.get(before));
    assertEquals(List.of(before, after), Value.of(Map.of(after, 1, before, 2)).keys());
  }

  @Test
  void transformationsLeaveTheirDatasetAlone() {
    final Dataset five = Dataset.range(5);
    assertEquals(List.of(3L, 4L), numbers(five.skip(3)));
    assertEquals(List.of(0L, 1L), numbers(five.take(2)));
    assertEquals(List.of(1L, 3L), numbers(five.shard(2, 1)));
    assertEquals(List.of(0L, 2L, 4L), numbers(five.filter(x -> x.longValue() % 2 == 0)));
    assertEquals(List.of(0L, 10L), numbers(five.take(2).map(x -> x.longValue() * 10)));
    assertEquals(List.of(0L, 0L), numbers(five.take(1).repeat(2)));
    assertEquals(List.of(4L, 2L), numbers(Dataset.range(4, 0, -2)));
    assertEquals(List.of(0L, 0L, 1L), numbers(five.take(1).concatenate(five.take(2))));
    assertEquals(5, numbers(five.shuffle(3).prefetch(2)).size());
    assertEquals(numbers(five.shuffle(5, 7)), numbers(five.shuffle(5, 7)));
    assertEquals(List.of(0L, 1L, 2L, 3L, 4L), numbers(five));
    assertEquals(3, five.batch(2).cardinality());
    assertEquals(2, five.batch(2, true).cardinality());
    assertEquals(Dataset.INFINITE, five.repeat().cardinality());
    assertTrue(five.explain().contains("range"));
  }

  /** Runs {@code work} with the stack that a thread of Java has by default. */
  private static void onOwnThread(Runnable work) {
    final Throwable[] thrown = new Throwable[1];
    final Thread thread = new Thread(null, work, "deep", 1 << 20);
    thread.setUncaughtExceptionHandler((ended, failure) -> thrown[0] = failure);
    thread.start();
    try {
      thread.join();
    } catch (InterruptedException interrupted) {
      throw new AssertionError(interrupted);
    }
    if (thrown[0] != null) {
      throw new AssertionError(thrown[0]);
    }
  }

  @Test
  void aHundredThousandConcatenatedDatasetsDoWhatTwoDo() {
    onOwnThread(() -> {
      final Dataset one = Dataset.range(1);
      Dataset chain = one;
      for (int i = 1; i < 100_000; ++i) {
        chain = chain.concatenate(one);
      }
      chain = chain.concatenate(Dataset.range(7, 9, 1));
      assertEquals(100_002, chain.cardinality());
      assertEquals(Spec.tensor(DType.INT64), chain.elementSpec());
      assertTrue(chain.explain().contains("100001 parts"));
      final Dataset again = Dataset.deserialize(chain.serialize());
      try (DatasetIterator first = chain.skip(99_999).iterator();
          DatasetIterator second = again.skip(99_999).iterator()) {
        assertEquals(0, first.next().longValue());
        second.restore(first.save());
        assertEquals(7, second.next().longValue());
        assertEquals(8, second.next().longValue());
        assertFalse(second.hasNext());
      }
      chain.close();
      again.close();
    });
  }

  @Test
  void whatIsAppendedToItselfIsWalkedAsFarAsItIsAskedFor() {
    Dataset chain = Dataset.range(3);
    for (int i = 0; i < 40; ++i) {
      chain = chain.concatenate(chain);
    }
    assertEquals(3L << 40, chain.cardinality());
    assertEquals(List.of(0L, 1L, 2L, 0L, 1L), numbers(chain.take(5)));
  }

  @Test
  void aThousandOperationsStandOnEachOtherAndNotOneMore() {
    onOwnThread(() -> {
      Dataset deep = Dataset.range(3);
      for (int i = 1; i < 1000; ++i) {
        deep = deep.take(2);
      }
      assertEquals(List.of(0L, 1L), numbers(Dataset.deserialize(deep.serialize())));
      final Dataset deepest = deep;
      final TuttiException refused =
          assertThrows(TuttiException.InvalidArgument.class, () -> deepest.take(2));
      assertTrue(refused.getMessage().contains("1001 operations deep, and at most 1000"),
          refused.getMessage());
    });
  }

  @Test
  void windowsOfOneKeyAreGivenToAFunction() {
    final Dataset numbers = Dataset.range(10);
    assertEquals("[0 3] [1 4] [2 5] [6 9] [7] [8] ", printed(numbers.groupByWindow(
        x -> x.longValue() % 3, (key, window) -> window.batch(10), 2)));
    final List<Long> asked = new ArrayList<>();
    assertEquals("[0 2] [1 3 5] [4 6] [8] [7 9] ", printed(numbers.groupByWindow(
        x -> (int) x.longValue() % 2, (key, window) -> window.batch(10), key -> {
          asked.add(key.longValue());
          return key.longValue() + 2;
        })));
    assertEquals(List.of(0L, 1L), asked);
    assertEquals("(0, 0) (0, 2) (1, 1) (1, 3) ", printed(Dataset.range(4).groupByWindow(
        x -> x.longValue() % 2,
        (key, window) -> Dataset.zip(Dataset.fromTensors(key).repeat(), window), 9)));
    final TuttiException size = assertThrows(TuttiException.InvalidArgument.class,
        () -> numbers.groupByWindow(x -> x, (key, window) -> window, 0));
    assertTrue(size.getMessage().contains("window_size must be positive"), size.getMessage());
    assertThrows(NullPointerException.class,
        () -> numbers.groupByWindow(x -> x, null, 2));
    final IllegalStateException own = new IllegalStateException("one");
    final Dataset failing = Dataset.range(4).groupByWindow(x -> x.longValue() % 2,
        (key, window) -> {
          if (key.longValue() == 0) {
            throw own;
          }
          return window;
        }, 2);
    try (DatasetIterator iterator = failing.iterator()) {
      final TuttiException thrown = assertThrows(TuttiException.class, iterator::next);
      assertSame(own, thrown.getCause());
      assertTrue(thrown.getMessage().contains("the group of key 0"), thrown.getMessage());
      assertEquals(1, iterator.next().longValue());
      assertEquals(3, iterator.next().longValue());
      assertFalse(iterator.hasNext());
    }
    try (DatasetFunction keys = DatasetFunction.of(x -> x.longValue() % 2, null, null, false);
         DatasetFunction reduce =
             DatasetFunction.of(in -> in.get(1).asDataset().batch(9), null, null, false);
         DatasetFunction sizes =
             DatasetFunction.of(key -> key.longValue() + 1, null, null, false)) {
      assertEquals("[0 2] [1 3] ", printed(Dataset.range(4).groupByWindow(keys, reduce, 2L, null)));
      assertEquals("[0] [2] [1 3] ",
          printed(Dataset.range(4).groupByWindow(keys, reduce, null, sizes)));
      assertThrows(TuttiException.InvalidArgument.class,
          () -> Dataset.range(4).groupByWindow(keys, reduce, 2L, sizes));
      assertThrows(TuttiException.InvalidArgument.class,
          () -> Dataset.range(4).groupByWindow(keys, reduce, null, null));
    }
  }

  @Test
  void randomOrdersComeOneBehindTheOther() {
    final Dataset nine = Dataset.range(9);
    final List<Long> both = numbers(nine.shuffleAndRepeat(9, 2, 5L));
    assertEquals(numbers(nine.shuffle(9, 5).repeat(2)), both);
    final List<Long> first = new ArrayList<>(both.subList(0, 9));
    assertFalse(first.equals(both.subList(9, 18)));
    first.sort(null);
    assertEquals(numbers(nine), first);
    assertEquals(Dataset.INFINITE, nine.shuffleAndRepeat(2).cardinality());
    assertThrows(TuttiException.InvalidArgument.class, () -> nine.shuffleAndRepeat(0));
  }

  @Test
  void paddedBatchesHaveTheirShapesAndValues() {
    final Spec vector = Spec.tensor(DType.INT64, Spec.UNKNOWN);
    final Dataset filled = Dataset.range(1, 4, 1).map(x -> {
      final long[] copies = new long[(int) x.longValue()];
      Arrays.fill(copies, x.longValue());
      return copies;
    }, vector);
    assertEquals("[[1 0] [2 2]] [[3 3 3]] ", printed(filled.paddedBatch(2)));
    assertEquals("[[1 -1 -1 -1] [2 2 -1 -1]] ",
        printed(filled.paddedBatch(2, new long[] {4}, -1L, true)));
    assertEquals("[[1 7 7] [2 2 7] [3 3 3]] ",
        printed(filled.paddedBatch(3, new long[] {-1}, 7L, false)));
    final Dataset pairs = Dataset.zip(filled, Dataset.range(1, 4, 1));
    assertEquals("([[1 -1 -1] [2 2 -1]], [1 2]) ([[3 3 3]], [3]) ",
        printed(pairs.paddedBatch(2, new Object[] {new long[] {3}, null},
            new Object[] {-1L, null}, false)));
    final TuttiException wrongType = assertThrows(
        TuttiException.class, () -> filled.paddedBatch(2, null, 1.5, false));
    assertEquals(Code.INVALID_ARGUMENT, wrongType.code());
    assertThrows(TuttiException.class, () -> filled.paddedBatch(0));
    final ElementFunction length = row -> row.asTensor().elementCount();
    assertEquals("[[1 0] [2 2]] [[3 3 3]] ", printed(
        filled.bucketBySequenceLength(length, new long[] {3}, new long[] {2, 2})));
    assertEquals("[[1 -1] [2 2]] [[3 3 3 -1]] ", printed(filled.bucketBySequenceLength(length,
        new long[] {3, 5}, new long[] {2, 2, 1}, new Padding().values(-1L), true, false)));
    assertThrows(TuttiException.class,
        () -> filled.bucketBySequenceLength(length, new long[] {3, 3}, new long[] {2, 2, 1}));
    final List<Dataset> both = List.of(Dataset.range(3), Dataset.range(10, 13, 1));
    final Dataset choices = Dataset.fromTensorSlices(new long[] {1, 1, 0, 1});
    assertEquals("10 11 0 12 ", printed(Dataset.chooseFromDatasets(both, choices)));
    assertEquals("10 11 0 1 12 2 ",
        printed(Dataset.sampleFromDatasets(both, (double[]) null, 9L, false, false)));
    assertEquals("10 11 12 ",
        printed(Dataset.sampleFromDatasets(both, new double[] {0, 1}, 9)));
    assertEquals(6, Dataset.sampleFromDatasets(both).cardinality());
    final Dataset vectors = Dataset.fromTensorSlices(new double[][] {{0, 1}, {1, 0}, {0, 1}});
    assertEquals(printed(Dataset.chooseFromDatasets(both, Dataset.fromTensorSlices(
                     new long[] {1, 0, 1}))),
        printed(Dataset.sampleFromDatasets(both, vectors, null, false, true)));
    assertEquals("0 1 2 ", printed(Dataset.range(3).assertCardinality(3)));
    assertThrows(TuttiException.class, () -> printed(Dataset.range(3).assertCardinality(2)));
    final TuttiException tooLarge = assertThrows(TuttiException.class,
        () -> printed(filled.named("mine").paddedBatch(3, new long[] {2}, null, false)));
    assertTrue(tooLarge.getMessage().contains("mine")
        && tooLarge.getMessage().contains("[3]") && tooLarge.getMessage().contains("[2]"),
        tooLarge.getMessage());
  }

  @Test
  void aStateIsReducedElementByElement() {
    try (Value sum = Dataset.range(5).reduce(10L, (state, x) -> state.longValue() + x.longValue());
         Value initial = Dataset.range(0).reduce(7L, (state, x) -> x);
         Value last = Dataset.range(4).reduce(-1L, (state, x) -> x)) {
      assertEquals(20, sum.longValue());
      assertEquals(7, initial.longValue());
      assertEquals(3, last.longValue());
    }
    final Dataset pairs = Dataset.range(3).enumerate(10);
    try (Value all = pairs.reduce(new Object[] {0L, 0L}, (state, pair) -> new Object[] {
             state.get(0).longValue() + pair.get(0).longValue(),
             state.get(1).longValue() + pair.get(1).longValue()})) {
      assertEquals("(33, 3)", all.toString());
    }
    final TuttiException other = assertThrows(TuttiException.class,
        () -> Dataset.range(3).reduce(0L, (state, x) -> 0.5));
    assertEquals(Code.INVALID_ARGUMENT, other.code());
    assertTrue(other.getMessage().contains("float64") && other.getMessage().contains("int64"),
        other.getMessage());
    final IllegalStateException own = new IllegalStateException("two");
    final TuttiException thrown = assertThrows(TuttiException.class,
        () -> Dataset.range(3).reduce(0L, (state, x) -> {
          if (x.longValue() == 2) {
            throw own;
          }
          return state;
        }));
    assertSame(own, thrown.getCause());
    assertTrue(thrown.getMessage().contains("element 2"), thrown.getMessage());
    final TuttiException late = assertThrows(TuttiException.class,
        () -> Dataset.range(3).repeat().reduce(
            0L, (state, x) -> state, Duration.ofMillis(20)));
    assertEquals(Code.DEADLINE_EXCEEDED, late.code());
    assertThrows(NullPointerException.class,
        () -> Dataset.range(3).reduce(0L, (org.tutti.data.ReduceFunction) null));
  }

  static String printed(Dataset dataset) {
    final StringBuilder all = new StringBuilder();
    for (final Value element : dataset) {
      all.append(element).append(' ');
    }
    return all.toString();
  }

  @Test
  void datasetsOfAFunctionComeInTheirOrder() {
    assertEquals(List.of(0L, 0L, 1L, 0L, 1L, 2L),
        numbers(Dataset.range(4).flatMap(x -> Dataset.range(x.longValue()))));
    final List<Long> want = List.of(0L, 1L, 10L, 11L, 2L, 12L, 20L, 21L, 22L);
    final ElementFunction count = x -> {
      final long first = 10 * x.longValue();
      return Dataset.range(first, first + 3, 1);
    };
    final Dataset three = Dataset.range(3);
    assertEquals(want, numbers(three.interleave(count, 2L, 2)));
    assertEquals(List.of(0L, 10L, 20L, 1L, 11L, 21L, 2L, 12L, 22L),
        numbers(three.interleave(count)));
    try (DatasetFunction made = DatasetFunction.of(count, null, null, false)) {
      assertEquals(want, numbers(three.interleave(made, 2L, 2, 2, true)));
      assertThrows(TuttiException.class, () -> three.interleave(made, 2L, 1, 3, null));
    }
    final TuttiException refused = assertThrows(
        TuttiException.class, () -> numbers(three.flatMap(x -> x.longValue())));
    assertTrue(refused.getMessage().contains("dataset"), refused.getMessage());
    assertThrows(
        TuttiException.class, () -> numbers(three.interleave(x -> x.longValue(), 2L, 2)));
  }

  @Test
  void aPredicateEndsADatasetAndEqualElementsComeOnce() {
    final Dataset numbers = Dataset.fromTensorSlices(List.of(3L, 1L, 3L, 9L, 1L));
    assertEquals(List.of(3L, 1L, 3L), numbers(numbers.takeWhile(x -> x.longValue() < 5)));
    assertEquals(List.of(3L, 1L, 9L), numbers(numbers.unique()));
  }

  @Test
  void failedElementsAreSkippedAsManyAsMayBe(@TempDir Path folder) {
    final Dataset bad = Dataset.range(8).map(x -> {
      if (x.longValue() % 3 == 2) {
        throw new IllegalStateException(x.longValue() + " is bad");
      }
      return x;
    });
    assertEquals(List.of(0L, 1L, 3L, 4L, 6L, 7L), numbers(bad.onError("skip")));
    final TuttiException more =
        assertThrows(TuttiException.class, () -> numbers(bad.onError("skip", 1)));
    assertTrue(more.getMessage().contains("1 element that failed was skipped"), more.getMessage());
    assertTrue(more.getMessage().contains("5 is bad"), more.getMessage());
    assertThrows(TuttiException.class, () -> numbers(bad.onError("fail")));
    final String file = folder.resolve("refused.tfrecord").toString();
    assertEquals(
        List.of(0L, 1L, 3L, 4L, 6L, 7L), numbers(bad.onError("quarantine:" + file)));
    try (DatasetFunction parse = DatasetFunction.parseExample(
             Map.of("value", new DatasetFunction.Feature(DType.INT64)))) {
      assertEquals(List.of(2L, 5L),
          numbers(TFRecordDataset.of(file).map(parse).map(row -> row.get("value"))));
    }
    final TuttiException refused =
        assertThrows(TuttiException.class, () -> bad.onError("ignore"));
    assertTrue(refused.getMessage().contains("'fail'"), refused.getMessage());
  }

  @Test
  void batchesAreTakenApartIntoTheirRows() {
    assertEquals(List.of(0L, 1L, 2L, 3L, 4L), numbers(Dataset.range(5).batch(2).unbatch()));
    assertEquals(4, Dataset.range(5).batch(2, true).unbatch().cardinality());
    final TuttiException refused =
        assertThrows(TuttiException.class, () -> Dataset.range(3).unbatch());
    assertTrue(refused.getMessage().contains("rank 1 or more"), refused.getMessage());
  }

  @Test
  void aSnapshotIsWrittenOnceAndReadFromThenOn(@TempDir Path folder) {
    final AtomicLong calls = new AtomicLong();
    DatasetFunction.register("DatasetTest.plusCalls",
        x -> x.longValue() + 10 * calls.getAndIncrement(), Spec.tensor(DType.INT64), false);
    DatasetFunction.register("DatasetTest.parity", x -> x.longValue() % 2, null, false);
    final String path = folder.resolve("snap").toString();
    try (DatasetFunction plusCalls = DatasetFunction.registered("DatasetTest.plusCalls");
         DatasetFunction parity = DatasetFunction.registered("DatasetTest.parity");
         DatasetFunction flat = DatasetFunction.of(
             shards -> shards.asDataset().flatMap(shard -> shard), "flat", null, false)) {
      final List<Long> first = List.of(0L, 11L, 22L);
      assertEquals(first, numbers(Dataset.range(3).map(plusCalls).snapshot(path)));
      assertEquals(first, numbers(Dataset.range(3).map(plusCalls).snapshot(path)));
      assertEquals(3, calls.get());
      final Dataset shards = Dataset.range(5).snapshot(path, "GZIP", flat, parity);
      assertEquals(List.of(0L, 1L, 2L, 3L, 4L), numbers(shards));
      assertEquals(List.of(0L, 2L, 4L, 1L, 3L), numbers(shards));
      assertEquals(List.of(0L, 1L, 2L, 3L, 4L),
          numbers(Dataset.range(5).snapshot(path, null, null, parity)));
    } finally {
      DatasetFunction.unregister("DatasetTest.plusCalls");
      DatasetFunction.unregister("DatasetTest.parity");
    }
    final TuttiException lambda = assertThrows(TuttiException.class,
        () -> Dataset.range(3).map(x -> x.longValue() + 1).snapshot(path));
    assertTrue(lambda.getMessage().contains("register it"), lambda.getMessage());
    final TuttiException generator = assertThrows(TuttiException.class,
        () -> Dataset.fromGenerator(List.of(1L), Spec.tensor(DType.INT64)).snapshot(path));
    assertTrue(generator.getMessage().contains("a name"), generator.getMessage());
    assertEquals(List.of(1L),
        numbers(Dataset.fromGenerator(List.of(1L), Spec.tensor(DType.INT64), "one")
                    .snapshot(path)));
    final TuttiException wrong = assertThrows(
        TuttiException.class, () -> Dataset.range(3).snapshot(path, "LZ4", null, null));
    assertEquals(Code.INVALID_ARGUMENT, wrong.code());
    assertThrows(NullPointerException.class, () -> Dataset.range(3).snapshot(null));
  }

  @Test
  void windowsAreDatasetsOfTheirOwn() {
    assertEquals(3, Dataset.range(7).window(3).cardinality());
    assertEquals(List.of(0L, 1L, 2L, 2L, 3L, 4L, 4L, 5L, 6L),
        numbers(Dataset.range(7).window(3, 2L, 1, true).flatMap(Value::asDataset)));
    assertEquals(List.of(0L, 2L, 4L),
        numbers(Dataset.range(7).window(3, null, 2, true).flatMap(Value::asDataset)));
    final List<Dataset> kept = new ArrayList<>();
    for (final Value window : Dataset.range(5).window(2)) {
      kept.add(window.asDataset());
    }
    for (int pass = 0; pass < 2; ++pass) {
      assertEquals(List.of(2L, 3L), numbers(kept.get(1)));
      assertEquals(List.of(4L), numbers(kept.get(2)));
    }
    assertEquals(Spec.dataset(Spec.tensor(DType.INT64)), Dataset.range(5).window(2).elementSpec());
    final TuttiException refused =
        assertThrows(TuttiException.class, () -> Dataset.range(3).window(2, 0L, 1, false));
    assertTrue(refused.getMessage().contains("shift must be positive, got 0"),
        refused.getMessage());
  }

  @Test
  void aCacheIsFilledByTheFirstCompletePass(@TempDir Path folder) {
    final int[] calls = {0};
    final Dataset cached = Dataset.range(3).map(x -> {
      ++calls[0];
      return x.longValue();
    }, Spec.tensor(DType.INT64)).cache();
    assertEquals(List.of(0L, 1L, 2L), numbers(cached));
    assertEquals(List.of(0L, 1L, 2L), numbers(cached));
    assertEquals(3, calls[0]);
    final String path = folder.resolve("kept").toString();
    assertEquals(List.of(0L, 1L), numbers(Dataset.range(2).cache(path)));
    assertEquals(List.of(0L, 1L), numbers(Dataset.range(9).cache(path)));
  }

  @Test
  void theNextTransformationMayHaveAName() {
    final Dataset named = Dataset.range(5).named("evens");
    final TuttiException refused = assertThrows(TuttiException.class, () -> named.take(-2));
    assertTrue(refused.getMessage().contains("evens"), refused.getMessage());
    // One transformation alone has it.
    assertEquals(2, named.take(3).skip(1).explain().split("evens", -1).length);
  }

  @Test
  void structuresAreBatchedLeafByLeaf() {
    final Dataset rows = Dataset.fromTensorSlices(
        Map.of("x", Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 3, 2), "y", List.of(7, 8, 9)));
    try (DatasetIterator batches = rows.batch(2).iterator()) {
      final Value batch = batches.next();
      assertArrayEquals(new float[] {1, 2, 3, 4}, batch.get("x").asTensor().toFloatArray());
      assertArrayEquals(new long[] {2, 2}, batch.get("x").asTensor().shape());
      assertEquals(8, batch.get("y").asTensor().asIntBuffer().get(1));
      batches.next();
      assertFalse(batches.hasNext());
      assertNull(batches.poll(null));
      assertThrows(NoSuchElementException.class, batches::next);
    }
    assertEquals("{'x': float32[2], 'y': int32[]}", rows.elementSpec().toString());
    assertEquals(Spec.dict(Map.of("x", Spec.tensor(DType.FLOAT32, 2), "y",
        Spec.tensor(DType.INT32))), rows.elementSpec());
    final Value pair = Dataset.zip(Dataset.range(2), Dataset.range(5, 9, 1)).iterator().next();
    assertEquals(5, pair.get(1).longValue());
    assertEquals(3, Dataset.range(1).enumerate(3).iterator().next().get(0).longValue());
  }

  @Test
  void exceptionsOfFunctionsAndGeneratorsAreTheCause() {
    final IOException thrown = new IOException("no");
    final Dataset mapped = Dataset.range(3).map(x -> {
      if (x.longValue() == 1) {
        throw thrown;
      }
      return x.longValue();
    }, Spec.tensor(DType.INT64)).prefetch(2);
    try (DatasetIterator elements = mapped.iterator()) {
      assertEquals(0, elements.next().longValue());
      assertSame(thrown, assertThrows(TuttiException.class, elements::next).getCause());
    }
    final Iterable<Long> broken = () -> new Iterator<>() {
      @Override
      public boolean hasNext() {
        throw new IllegalStateException("broken");
      }

      @Override
      public Long next() {
        return 0L;
      }
    };
    final Dataset generated = Dataset.fromGenerator(broken, Spec.tensor(DType.INT64));
    assertTrue(assertThrows(TuttiException.FailedPrecondition.class,
        () -> generated.iterator().next()).getCause() instanceof IllegalStateException);
  }

  @Test
  void aGeneratorBeginsAnewInEachIteration() {
    final Dataset generated =
        Dataset.fromGenerator(List.of(1L, 2L), Spec.tensor(DType.INT64)).repeat(2);
    assertEquals(List.of(1L, 2L, 1L, 2L), numbers(generated));
    assertThrows(TuttiException.InvalidArgument.class,
        () -> numbers(Dataset.fromGenerator(List.of("x"), Spec.tensor(DType.INT64))));
  }

  @Test
  void aGeneratorGetsItsArguments() {
    final Spec number = Spec.ofTypes(DType.INT64, new long[0]);
    final Dataset counted = Dataset.fromGenerator(args -> {
      try (Value stop = args.get(0)) { // each iteration's own
        return LongStream.range(0, stop.longValue()).boxed().toList();
      }
    }, List.of(3L), number).repeat(2);
    assertEquals(List.of(0L, 1L, 2L, 0L, 1L, 2L), numbers(counted));
    final List<String> kinds = new ArrayList<>();
    numbers(Dataset.fromGenerator(args -> {
      args.forEach(arg -> kinds.add(arg.spec().toString()));
      return List.of(1L);
    }, List.of(new float[2], "text", new Object[] {1, List.of(2L)}), number, "named"));
    assertEquals(List.of("float32[2]", "bytes[]", "(int32[], int64[1])"), kinds);
    for (final Object wrong :
         List.of(Dataset.range(1), Optional.empty(), new Object(), new Object[] {null})) {
      assertThrows(TuttiException.InvalidArgument.class,
          () -> Dataset.fromGenerator(args -> List.of(1L), List.of(wrong), number));
    }
    assertThrows(NullPointerException.class,
        () -> Dataset.fromGenerator(args -> List.of(1L), List.of(), null));
    assertThrows(NullPointerException.class, () -> Dataset.fromGenerator(null, List.of(), number));
  }

  @Test
  void whatIsGeneratedTakesTheDeclaredDTypes() {
    final Dataset pairs = Dataset.fromGenerator(
        List.of(new Object[] {1L, "foo"}, new Object[] {2, "bar"}, new Object[] {(short) 3, "baz"}),
        Spec.tuple(Spec.tensor(DType.INT32), Spec.tensor(DType.BYTES)));
    final List<String> found = new ArrayList<>();
    for (final Value pair : pairs) {
      assertEquals(DType.INT32, pair.get(0).asTensor().dtype());
      found.add(pair.get(0).longValue() + pair.get(1).stringValue());
    }
    assertEquals(List.of("1foo", "2bar", "3baz"), found);
    final Dataset floats =
        Dataset.fromGenerator(List.of(new double[] {0.1}), Spec.tensor(DType.FLOAT32, 1));
    try (DatasetIterator iterator = floats.iterator(); Value row = iterator.next()) {
      assertEquals(Tensor.of(new float[] {0.1f}), row.asTensor());
    }
    final var beyond = assertThrows(TuttiException.InvalidArgument.class,
        () -> numbers(Dataset.fromGenerator(List.of(1, 3000000000L), Spec.tensor(DType.INT32))));
    assertTrue(beyond.getMessage().contains("element 1"), beyond.getMessage());
    assertTrue(beyond.getMessage().contains("3000000000 does not fit into int32; int64 holds it"),
        beyond.getMessage());
    final var real = assertThrows(TuttiException.InvalidArgument.class,
        () -> numbers(Dataset.fromGenerator(List.of(2.5), Spec.tensor(DType.INT64))));
    assertTrue(real.getMessage().contains("2.5 is a float, which never becomes an integer"),
        real.getMessage());
  }

  @Test
  void anIteratorGoesBackToASavedPosition() {
    final Dataset shuffled = Dataset.range(20).shuffle(20, 3);
    try (DatasetIterator first = shuffled.iterator();
         DatasetIterator second = shuffled.iterator()) {
      for (int i = 0; i < 7; ++i) {
        first.next();
      }
      second.restore(first.save());
      while (first.hasNext()) {
        assertEquals(first.next().longValue(), second.next().longValue());
      }
      assertTrue(second.nextOptional().asOptional().isEmpty());
    }
  }

  @Test
  void aPositionIsOfTheRowsAndNotOfHowSoonTheyAreMade() {
    try (DatasetIterator first = Dataset.range(50).prefetch(2).iterator();
         DatasetIterator second = Dataset.range(50).prefetch(8).iterator()) {
      for (int i = 0; i < 3; ++i) {
        first.next();
      }
      final byte[] state = first.save();
      second.restore(state);
      state[7] = '1';
      final String message = assertThrows(TuttiException.InvalidArgument.class,
          () -> second.restore(state)).getMessage();
      assertTrue(message.contains("an iterator's state in the format TUTTI-I1, and TUTTI-I2 is "
          + "read here: an earlier release saved it; start the iterator afresh"), message);
      assertEquals(3, second.next().longValue());
    }
  }

  @Test
  void aDatasetSaysHowManyElementsItHas() {
    assertEquals("Dataset of 1 element", Dataset.range(1).toString());
    assertEquals("Dataset of 3 elements", Dataset.range(3).toString());
    assertEquals("Dataset of infinitely many elements", Dataset.range(3).repeat().toString());
    assertEquals(
        "Dataset of an unknown number of elements", TFRecordDataset.of("none").toString());
  }

  @Test
  void aNameWithANulIsRefusedAndNotCutOff() {
    final Throwable refused =
        assertThrows(IllegalArgumentException.class, () -> new TFRecordWriter("/tmp/a\0b"));
    assertEquals("\"/tmp/a\\0b\": a text with a NUL in it cannot be a name", refused.getMessage());
  }

  @Test
  void resolversSayWhoTakesPart() {
    final ClusterSpec spec = ClusterSpec.parse("{\"worker\": [\"a:1\", \"b:2\"]}");
    assertEquals(Map.of("worker", Map.of(0L, "a:1", 1L, "b:2")), spec.jobs());
    final ClusterResolver resolver = ClusterResolver.simple(spec, "worker", 1L);
    assertEquals("worker", resolver.taskType());
    assertEquals(1L, resolver.taskId());
    assertEquals(spec, resolver.clusterSpec());
    assertTrue(resolver.master("worker", 0L, "grpc").contains("a:1"));
    assertNull(ClusterResolver.simple(spec, null, null).taskId());
    assertThrows(TuttiException.InvalidArgument.class, () -> ClusterSpec.parse("[1]"));
  }

  @Test
  void withoutAClusterAMultiWorkerStrategyIsAlone() {
    try (MultiWorkerMirroredStrategy strategy = MultiWorkerMirroredStrategy.of("CPU:0", "CPU:1")) {
      assertEquals(1, strategy.workerCount());
      assertEquals(3, strategy.reduce(ReduceOp.SUM,
          strategy.run((replica, none) -> replica.replicaId() + 1)).longValue());
    }
  }
}
