package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.distribute.DistributedDataset;
import org.tutti.distribute.DistributedIterator;
import org.tutti.distribute.InputOptions;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.OneDeviceStrategy;
import org.tutti.distribute.ReplicaContext;
import org.tutti.distribute.Strategy;

/** Strategies of one replica: their steps are plain, and know their rows all the same. */
class OneReplicaTest {
  private static final long[] LABELS = {1, 0, 1, 1, 0, 1, 0};

  private List<Strategy> strategies;

  @BeforeEach
  void make() {
    strategies = List.of(
        Strategy.defaultStrategy(), OneDeviceStrategy.of("CPU:1"), MirroredStrategy.of("CPU:0"));
  }

  @AfterEach
  void close() {
    strategies.subList(1, 3).forEach(Strategy::close);
  }

  /** Seven rows of image and label, in batches of four. */
  private static Dataset digits() {
    final float[] images = new float[14];
    for (int i = 0; i < images.length; ++i) {
      images[i] = i * i % 11 / 8f;
    }
    return Dataset
        .fromTensorSlices(Map.of("image", Tensor.of(images, 7, 2), "label", Tensor.of(LABELS)))
        .batch(4);
  }

  private static long rowsOf(Strategy strategy, Object argument) {
    final Value rows = strategy.run((replica, given) -> replica.globalRows(), argument);
    return strategy.localResults(rows).get(0).longValue();
  }

  @Test
  void stepsArePlainAndOfTheSpecThatIsTold() {
    for (final Strategy strategy : strategies) {
      try (DistributedDataset steps = strategy.distribute(digits());
           DistributedIterator iterator = steps.iterator()) {
        final Value first = iterator.next();
        assertEquals(Value.Kind.DICT, first.kind());
        assertEquals(Value.Kind.TENSOR, first.get("image").kind());
        assertArrayEquals(
            new long[] {1, 0, 1, 1}, first.get("label").asTensor().toLongArray());
        assertArrayEquals(
            new long[] {0, 1, 0}, iterator.next().get("label").asTensor().toLongArray());
        assertFalse(iterator.hasNext());
        assertEquals(steps.elementSpec().toString(), iterator.elementSpec().toString());
        assertTrue(steps.elementSpec().toString().contains("float32[?,2]"),
            steps.elementSpec().toString());
      }
      try (DistributedDataset steps = strategy.distributeFromFunction(given -> Dataset.range(2))) {
        final Value number = steps.iterator().next();
        assertEquals(0, number.longValue());
        assertEquals(1, rowsOf(strategy, number));
      }
    }
  }

  @Test
  void theRowsOfTheStepReachTheReplicaByWhateverPartOfTheBatch() {
    for (final Strategy strategy : strategies) {
      for (final boolean ahead : new boolean[] {true, false}) {
        final InputOptions options = new InputOptions(null, ahead);
        try (DistributedDataset steps = strategy.distribute(digits(), options, null)) {
          final List<Long> rows = new ArrayList<>();
          for (final Value batch : steps) {
            final long whole = rowsOf(strategy, batch);
            rows.add(whole);
            final Value image = batch.get("image");
            assertEquals(whole, rowsOf(strategy, image));
            assertEquals(whole, rowsOf(strategy, image.asTensor()));
            assertEquals(whole, rowsOf(strategy, Map.of("x", List.of(image, 1.5), "y", "text")));
            assertEquals(whole,
                rowsOf(strategy, Value.tuple(new float[9], batch.get("label").asTensor())));
            assertEquals(whole, rowsOf(strategy, strategy.localResults(batch).get(0)));
          }
          assertEquals(List.of(4L, 3L), rows);
        }
      }
    }
  }

  @Test
  void optionalsAndRestoredPositionsKnowTheirRows() {
    for (final Strategy strategy : strategies) {
      try (DistributedDataset steps = strategy.distribute(Dataset.range(7).batch(4));
           DistributedIterator first = steps.iterator();
           DistributedIterator second = steps.iterator()) {
        assertEquals(4, rowsOf(strategy, first.nextOptional().asOptional().get()));
        second.restore(first.save());
        for (final DistributedIterator walk : List.of(first, second)) {
          final Value last = walk.nextOptional().asOptional().get();
          assertArrayEquals(new long[] {4, 5, 6}, last.asTensor().toLongArray());
          assertEquals(3, rowsOf(strategy, last));
          assertEquals(Optional.empty(), walk.nextOptional().asOptional());
        }
      }
    }
  }

  @Test
  void whatIsMadeOfABatchHasNoRows() {
    for (final Strategy strategy : strategies) {
      try (DistributedDataset steps = strategy.distribute(digits());
           DistributedIterator iterator = steps.iterator();
           MirroredStrategy two = MirroredStrategy.of("CPU:0", "CPU:1")) {
        final Value first = iterator.next();
        final Value image = first.get("image");
        assertEquals(-1, rowsOf(strategy, Value.tuple(first, iterator.next())));
        assertEquals(-1, rowsOf(strategy, image.asTensor().toFloatArray()));
        assertEquals(-1, rowsOf(strategy, image.asFloatBuffer()));
        assertEquals(-1, rowsOf(strategy, image.asTensor().slice(0, 0, 4)));
        assertEquals(-1, rowsOf(strategy, strategy.run((replica, given) -> given, image)));
        assertEquals(-1, rowsOf(strategy, strategy.reduce(ReduceOp.SUM, image)));
        assertEquals(-1, rowsOf(strategy, strategy.gather(image, 0)));
        assertEquals(4, strategy.gather(first, 0).get("image").asTensor().shape()[0]);
        assertEquals(-1, rowsOf(two, image));
      }
    }
  }

  private static float[] change(Value batch, long rows, float[] weights) {
    final float[] images = batch.get("image").asTensor().toFloatArray();
    final long[] labels = batch.get("label").asTensor().toLongArray();
    final float[] sum = new float[2];
    for (int row = 0; row < labels.length; ++row) {
      final float error =
          weights[0] * images[2 * row] + weights[1] * images[2 * row + 1] - labels[row];
      sum[0] += error * images[2 * row];
      sum[1] += error * images[2 * row + 1];
    }
    return new float[] {sum[0] * (0.5f / rows), sum[1] * (0.5f / rows)};
  }

  @Test
  void trainingGivesTheSameBitsWithAndWithoutAStrategy() {
    final float[] expected = new float[2];
    try (DatasetIterator batches = digits().iterator()) {
      while (batches.hasNext()) {
        final Value batch = batches.next();
        final float[] change = change(batch, batch.get("label").asTensor().shape()[0], expected);
        expected[0] -= change[0];
        expected[1] -= change[1];
      }
    }
    for (final Strategy strategy : strategies) {
      final float[] weights = new float[2];
      try (DistributedDataset steps = strategy.distribute(digits())) {
        for (final Value batch : steps) {
          final Value sum = strategy.run((ReplicaContext replica, Value given)
              -> replica.allReduce(ReduceOp.SUM, change(given, replica.globalRows(), weights)),
              batch);
          final float[] change = sum.asTensor().toFloatArray();
          weights[0] -= change[0];
          weights[1] -= change[1];
        }
      }
      assertArrayEquals(expected, weights, 0, strategy.toString());
    }
  }
}
