package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.tutti.data.Dataset;
import org.tutti.data.ElementFunction;

/** Specs that only an element can tell. */
class ElementSpecTest {
  private static ElementFunction from(long good) {
    return x -> {
      if (x.longValue() < good) {
        throw new IllegalStateException(x.longValue() + " is bad");
      }
      return x;
    };
  }

  @Test
  void anElementThatFailsDoesNotDecide() {
    assertEquals(Spec.tensor(DType.INT64, Spec.UNKNOWN),
        Dataset.range(5).map(from(2)).batch(2).elementSpec());
    assertEquals(Spec.tensor(DType.INT64),
        Dataset.range(5).map(from(2)).skip(2).map(from(0)).elementSpec());
    assertEquals(Spec.tensor(DType.INT64), Dataset.range(5).map(from(2))
        .interleave(x -> Dataset.range(x.longValue())).elementSpec());
  }

  @Test
  void whereAllFailTheFirstFailureComesAndWhatToDo() {
    final RuntimeException failed = assertThrows(
        RuntimeException.class, () -> Dataset.range(5).map(from(9)).elementSpec());
    assertTrue(failed.toString().contains("0 is bad"), failed.toString());
    assertTrue(failed.toString().contains("give its function an output spec"), failed.toString());
  }
}
