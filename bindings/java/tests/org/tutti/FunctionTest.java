package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.tutti.DatasetTest.numbers;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.data.DatasetFunction;

/** Functions of datasets: what becomes of their results, and who calls them when. */
class FunctionTest {
  @Test
  void resultsOfFunctionsTakeTheDeclaredDType() {
    final DatasetFunction half = DatasetFunction.of(x -> 0.5 * x.longValue(), "half",
        Spec.tensor(DType.FLOAT32), false);
    for (final Value element : Dataset.range(2).map(half)) {
      assertEquals(DType.FLOAT32, element.asTensor().dtype());
    }
    final DatasetFunction bytes = DatasetFunction.of(rows -> rows.asTensor().toLongArray(), "bytes",
        Spec.tensor(DType.INT8), true);
    assertEquals(List.of(0L, 1L), numbers(Dataset.range(2).map(bytes)));
    assertEquals(Spec.tensor(DType.INT8), Dataset.range(2).map(bytes).elementSpec());
  }

  @Test
  void callsOfAParallelMapAreMadeAtOnceAndMayOvertake() {
    final Spec signature = Spec.tensor(DType.INT64);
    final CyclicBarrier four = new CyclicBarrier(4);
    final DatasetFunction meet = DatasetFunction.of(x -> {
      four.await(60, TimeUnit.SECONDS);
      return x;
    }, "meet", signature, false);
    assertEquals(List.of(0L, 1L, 2L, 3L, 4L, 5L, 6L, 7L),
        numbers(Dataset.range(8).map(meet, 4, null)));
    final CountDownLatch second = new CountDownLatch(1);
    final DatasetFunction hold = DatasetFunction.of(x -> {
      if (x.longValue() == 0) {
        second.await(60, TimeUnit.SECONDS);
      }
      return x;
    }, "hold", signature, false);
    try (DatasetIterator elements = Dataset.range(4).map(hold, 2, false).iterator()) {
      assertEquals(1, elements.getNext().longValue());
      second.countDown();
      long left = 0;
      while (elements.hasNext()) {
        left += 1 + elements.next().longValue();
      }
      assertEquals(8, left);
    }
  }

  @Test
  void slabFunctionsSeeManyRows() {
    final DatasetFunction twice = DatasetFunction.of(rows -> {
      final long[] numbers = rows.asTensor().toLongArray();
      for (int i = 0; i < numbers.length; ++i) {
        numbers[i] *= 2;
      }
      return numbers;
    }, "twice", Spec.tensor(DType.INT64), true);
    assertEquals(List.of(0L, 2L, 4L), numbers(Dataset.range(3).map(twice)));
  }

  @Test
  void registeredFunctionsAreFoundInSerialisedDatasets() {
    DatasetFunction.register("java_test_plus_one", x -> x.longValue() + 1, Spec.tensor(DType.INT64),
        false);
    try {
      final byte[] definition =
          Dataset.range(2).map(DatasetFunction.registered("java_test_plus_one")).serialize();
      assertEquals(List.of(1L, 2L), numbers(Dataset.deserialize(definition)));
    } finally {
      DatasetFunction.unregister("java_test_plus_one");
    }
    assertThrows(
        TuttiException.NotFound.class, () -> DatasetFunction.registered("java_test_plus_one"));
    assertThrows(TuttiException.FailedPrecondition.class,
        () -> Dataset.range(2).map(x -> x.longValue()).serialize());
  }
}
