package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.tutti.DatasetTest.numbers;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.data.Expr;
import org.tutti.data.Padding;
import org.tutti.data.SnapshotOptions;

/** Traced functions of reduce, of keys and shards, and those of interleave. */
class TracedKeysTest {
  private static void refused(Code code, String why, Runnable call) {
    final TuttiException thrown = assertThrows(TuttiException.class, call::run);
    assertEquals(code, thrown.code(), thrown.getMessage());
    assertTrue(thrown.getMessage().contains(why), thrown.getMessage());
  }

  @Test
  void reduceComputesTheNextState() {
    final Dataset numbers = Dataset.range(5);
    assertEquals(10, numbers.reduceExpr(0L, (sum, x) -> sum.plus(x)).longValue());
    final Value both = numbers.enumerate(1).reduceExpr(
        Map.of("largest", -1L, "sum", 0L),
        (state, pair) -> Expr.dict(Map.of("largest", state.get("largest").max(pair.get(1)),
            "sum", state.get("sum").plus(pair.get(0).times(pair.get(1))))),
        Duration.ofSeconds(60));
    assertEquals(4, both.get("largest").longValue());
    assertEquals(40, both.get("sum").longValue());
    assertEquals(7, Dataset.range(0).reduceExpr(7L, Expr::plus).longValue());
    refused(Code.INVALID_ARGUMENT, "int64", // two dtypes
        () -> numbers.reduceExpr(0L, (sum, x) -> sum.plus(x).cast(DType.FLOAT32)));
    refused(Code.INVALID_ARGUMENT, "it gave null", () -> numbers.reduceExpr(0L, (sum, x) -> null));
    assertThrows(NullPointerException.class, () -> numbers.reduceExpr(0L, null));
  }

  @Test
  void windowsAreGroupedByTracedKeys() {
    final Dataset numbers = Dataset.range(6);
    final Dataset grouped =
        numbers.groupByWindowExpr(x -> x.mod(2), (key, window) -> window.batch(3), 3).unbatch();
    assertEquals(List.of(0L, 2L, 4L, 1L, 3L, 5L), numbers(grouped));
    assertTrue(grouped.explain().contains("(x % 2)"), grouped.explain());
    assertEquals(List.of(0L, 2L, 1L, 3L, 4L, 5L),
        numbers(numbers.groupByWindowExpr(
            x -> x.mod(2), (key, window) -> window, key -> key.plus(1))));
    assertEquals(List.of(0L, 2L, 1L, 3L, 4L, 5L),
        numbers(numbers.groupByWindowExpr(x -> x.mod(2).cast(DType.UINT64),
            (key, window) -> window, key -> key.plus(1).cast(DType.INT64))));
    final Dataset all = numbers.groupByWindowAllExpr(
        x -> x.mod(2), (key, window) -> window.batch(3), 3);
    assertEquals(List.of(0L, 2L, 4L, 1L, 3L, 5L), numbers(all.unbatch()));
    assertTrue(!all.explain().contains("callback"), all.explain());
    assertEquals(List.of(0L, 2L, 4L, 1L, 3L, 5L),
        numbers(Dataset.deserialize(all.serialize()).unbatch()));
    assertThrows(NullPointerException.class,
        () -> numbers.groupByWindowAllExpr(x -> x, null, 2));
    assertThrows(NullPointerException.class,
        () -> numbers.groupByWindowExpr(null, (key, window) -> window, 2));
    assertThrows(NullPointerException.class,
        () -> numbers.groupByWindowExpr(x -> x, null, 2));
  }

  @Test
  void elementsAreBucketedByTracedLengths() {
    final long[] boundaries = {1, 2};
    final long[] sizes = {2, 3, 9};
    final Dataset buckets =
        Dataset.range(8).bucketBySequenceLengthExpr(x -> x.mod(3), boundaries, sizes);
    assertEquals(List.of(0L, 3L, 1L, 4L, 7L, 6L, 2L, 5L), numbers(buckets.unbatch()));
    assertEquals(List.of(0L, 3L, 1L, 4L, 7L),
        numbers(Dataset.range(8).bucketBySequenceLengthExpr(x -> x.mod(3), boundaries, sizes,
            new Padding().dropRemainder(true), false, true).unbatch()));
    refused(Code.INVALID_ARGUMENT, "",
        () -> numbers(Dataset.range(8).bucketBySequenceLengthExpr(
            x -> x.cast(DType.FLOAT32), boundaries, sizes).unbatch()));
  }

  @Test
  void snapshotsAreShardedByTracedNumbers(@TempDir Path folder) {
    final Dataset kept = Dataset.range(5).snapshotExpr(
        folder.toString(), x -> x.mod(2), new SnapshotOptions("NONE", null, null));
    assertEquals(List.of(0L, 1L, 2L, 3L, 4L), numbers(kept));
    assertEquals(List.of(0L, 1L, 2L, 3L, 4L), numbers(kept)); // one element of each shard in turn
    // The function is data: another process finds the same folder.
    assertEquals(List.of(0L, 1L, 2L, 3L, 4L), numbers(Dataset.deserialize(kept.serialize())));
    assertEquals(1, folder.toFile().list().length);
  }

  @Test
  void interleaveTakesTracedDatasets() {
    final Dataset numbers = Dataset.range(4);
    assertEquals(List.of(1L, 2L, 3L, 2L, 3L, 3L), numbers(numbers.interleaveExpr(
        x -> x.dataset("repeat", x.dataset("from_tensors")))));
    final Dataset one = numbers.interleaveExpr(x -> x.range().mapExpr(y -> y.plus(x)), 1, 1);
    assertEquals(List.of(1L, 2L, 3L, 3L, 4L, 5L), numbers(one));
    assertTrue(one.explain().contains("native range -> map"), one.explain());
    assertEquals(numbers(one), numbers(Dataset.deserialize(one.serialize())));
    assertEquals(List.of(0L, 0L, 1L, 0L, 1L, 2L).stream().sorted().toList(),
        numbers(numbers.interleaveExpr(x -> x.range(), 2L, 1, 2, false)).stream().sorted()
            .toList());
    // What is of the outermost function, in the middle one and in the innermost.
    assertEquals(List.of(0L, 1L, 10L, 11L), numbers(Dataset.range(2).flatMapExpr(
        x -> Dataset.range(2).interleaveExpr(y -> y.plus(1).range().filterExpr(
            z -> z.eq(y)).mapExpr(z -> x.times(10).plus(z)), 1, 1))));
    assertEquals(List.of(0L, 0L, 0L, 1L, 0L, 1L), numbers(Dataset.range(3).flatMapExpr(
        x -> Dataset.range(2).flatMapExpr(y -> x.range()))));
    assertThrows(NullPointerException.class, () -> numbers.interleaveExpr(null));
  }

  @Test
  void batchesOfWindowsAreMadeWithoutTheWindows() {
    final Dataset windows = Dataset.range(7).window(3, 2L, 1, true);
    final Dataset batches = windows.flatMapExpr(w -> w.elements().batch(3));
    assertTrue(batches.explain().contains("native element -> batch"), batches.explain());
    assertEquals(List.of(0L, 1L, 2L, 2L, 3L, 4L, 4L, 5L, 6L), numbers(batches.unbatch()));
    assertEquals(numbers(batches.unbatch()),
        numbers(Dataset.deserialize(batches.serialize()).unbatch()));
    try (DatasetIterator iterator = batches.iterator()) {
      assertTrue(iterator.explain().contains("made in one operation"), iterator.explain());
    }
    final TuttiException refused = assertThrows(TuttiException.class,
        () -> Dataset.range(3).flatMapExpr(x -> x.elements()));
    assertTrue(refused.getMessage().contains("is a tensor"), refused.getMessage());
  }
}
