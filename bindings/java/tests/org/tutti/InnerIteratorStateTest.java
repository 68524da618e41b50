package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.data.ElementFunction;
import org.tutti.data.DatasetFunction;

/** Positions of iterators over the datasets that functions give. */
class InnerIteratorStateTest {
  /** x -> 10 x, 10 x + 1, ... as many as x is. */
  private static final ElementFunction COUNT = x -> {
    final long first = 10 * x.longValue();
    return Dataset.range(first, first + x.longValue(), 1);
  };

  private static List<Long> rest(DatasetIterator iterator) {
    final List<Long> numbers = new ArrayList<>();
    while (iterator.hasNext()) {
      numbers.add(iterator.next().longValue());
    }
    return numbers;
  }

  /** Saved behind each element and restored into an iterator of its own: what came and the rest. */
  private static void resumesEverywhere(Dataset dataset, boolean ordered) {
    final List<Long> all;
    try (DatasetIterator whole = dataset.iterator()) {
      all = rest(whole);
    }
    assertFalse(all.isEmpty());
    for (int came = 0; came <= all.size(); ++came) {
      try (DatasetIterator first = dataset.iterator();
           DatasetIterator second = dataset.iterator()) {
        final List<Long> found = new ArrayList<>();
        for (int i = 0; i < came; ++i) {
          found.add(first.next().longValue());
        }
        second.restore(first.save());
        found.addAll(rest(second));
        assertEquals(ordered ? all : sorted(all), ordered ? found : sorted(found), "at " + came);
      }
    }
  }

  private static List<Long> sorted(List<Long> numbers) {
    final List<Long> copy = new ArrayList<>(numbers);
    Collections.sort(copy);
    return copy;
  }

  @Test
  void ofFlatMap() {
    resumesEverywhere(Dataset.range(5).flatMap(COUNT), true);
  }

  @Test
  void ofInterleave() {
    resumesEverywhere(Dataset.range(6).interleave(COUNT, 3L, 2), true);
  }

  @Test
  void ofAParallelInterleave() {
    try (DatasetFunction count = DatasetFunction.of(COUNT, null, null, false)) {
      resumesEverywhere(Dataset.range(6).interleave(count, 3L, 2, 2, true), true);
    }
  }

  @Test
  void ofAParallelInterleaveInAnyOrder() {
    try (DatasetFunction count = DatasetFunction.of(COUNT, null, null, false)) {
      resumesEverywhere(Dataset.range(6).interleave(count, 3L, 1, 3, false), false);
    }
  }

  @Test
  void ofWindows() {
    resumesEverywhere(Dataset.range(7).window(3, 2L, 1, false).flatMap(Value::asDataset), true);
  }

  @Test
  void ofGroups() {
    resumesEverywhere(
        Dataset.range(9).groupByWindow(x -> x.longValue() % 3, (key, window) -> window, 2), true);
  }
}
