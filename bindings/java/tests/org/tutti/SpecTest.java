package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.tutti.DatasetTest.numbers;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;

/** Specs: nested, compared, united, of values. */
class SpecTest {
  @Test
  void specsNestToAnyDepth() {
    final Spec leaf = Spec.tensor(DType.FLOAT32, Spec.UNKNOWN, 3);
    final Spec nested = Spec.dict(Map.of(
        "z", Spec.tuple(leaf, Spec.list(List.of(Spec.none(), Spec.optional(leaf)))),
        "a", Spec.dict(Map.of("inner", Spec.dataset(Spec.tuple(leaf, leaf))))));
    assertEquals(List.of("a", "z"), nested.keys());
    assertEquals(Spec.Kind.DICT, nested.kind());
    assertEquals(4, nested.leafCount());
    assertEquals(Spec.tuple(leaf, leaf), nested.get("a").get("inner").inner());
    assertEquals(leaf, nested.get("z").get(0));
    assertEquals(Spec.Kind.LIST, nested.get(1).get(1).kind());
    assertEquals(Spec.Kind.NONE, nested.get(1).get(1).get(0).kind());
    assertEquals(leaf, nested.get(1).get(1).get(1).inner());
    assertEquals(Spec.Kind.TENSOR, leaf.kind());
    assertThrows(TuttiException.NotFound.class, () -> nested.get("b"));
    assertThrows(TuttiException.OutOfRange.class, () -> nested.get(2));
    assertThrows(TuttiException.InvalidArgument.class, leaf::keys);
    assertThrows(TuttiException.InvalidArgument.class, leaf::inner);
    final Map<String, Spec> fields = new LinkedHashMap<>();
    fields.put("second", leaf);
    fields.put("first", Spec.tuple());
    assertEquals(List.of("second", "first"), Spec.record("Pair", fields).keys());
    try (Value value = Value.ofData(
             Map.of("a", new Object[] {1L, Map.of("b", new float[2])}, "c", 2.0))) {
      assertEquals(value.spec(), Spec.dict(Map.of(
          "a", Spec.tuple(Spec.tensor(DType.INT64),
              Spec.dict(Map.of("b", Spec.tensor(DType.FLOAT32, 2)))),
          "c", Spec.tensor(DType.FLOAT64))));
    }
  }

  @Test
  void specsAreCompatibleEitherWayAndUnited() {
    final Spec three = Spec.tensor(DType.INT32, 3);
    final Spec four = Spec.tensor(DType.INT32, 4);
    final Spec some = Spec.tensor(DType.INT32, Spec.UNKNOWN);
    final Spec text = Spec.tensor(DType.BYTES);
    for (final UnaryOperator<Spec> over : List.<UnaryOperator<Spec>>of(
             Spec::iterator, Spec::optional, Spec::dataset, spec -> Spec.tuple(spec))) {
      assertTrue(over.apply(three).isCompatibleWith(over.apply(some)));
      assertTrue(over.apply(some).isCompatibleWith(over.apply(three)));
      assertFalse(over.apply(three).isCompatibleWith(over.apply(four)));
      assertFalse(over.apply(three).isCompatibleWith(over.apply(text)));
      assertEquals(
          over.apply(some), over.apply(three).mostSpecificCompatibleType(over.apply(four)));
      assertThrows(TuttiException.InvalidArgument.class,
          () -> over.apply(three).mostSpecificCompatibleType(over.apply(text)));
      assertThrows(NullPointerException.class,
          () -> over.apply(three).mostSpecificCompatibleType(null));
    }
    assertEquals(Spec.tensorOfAnyShape(DType.INT32),
        three.mostSpecificCompatibleType(Spec.tensor(DType.INT32, 4, 5)));
    assertTrue(three.isCompatibleWith(new int[3]));
    assertFalse(three.isCompatibleWith(new int[4]));
    assertTrue(three.isCompatibleWith((Object) some));
    final Spec grid = Spec.dataset(three, 2, Spec.UNKNOWN);
    assertNotEquals(Spec.dataset(three), grid);
    assertFalse(Spec.dataset(three).isCompatibleWith(grid));
    assertArrayEquals(new long[] {2, Spec.UNKNOWN}, Spec.tuple(grid).get(0).shape(0));
    assertArrayEquals(new long[0], Spec.dataset(three).shape(0));
    assertEquals(Spec.Kind.ITERATOR, Spec.tuple(Spec.iterator(three)).get(0).kind());
    assertThrows(NullPointerException.class, () -> Spec.iterator(null));
    assertThrows(NullPointerException.class, () -> Spec.dataset(null));
  }

  @Test
  void specsComeFromValuesAndTypes() {
    try (DatasetIterator iterator = Dataset.range(3).iterator()) {
      final Spec spec = Spec.of(iterator);
      assertEquals(Spec.iterator(Spec.tensor(DType.INT64)), spec);
      assertEquals(Spec.tensor(DType.INT64), spec.inner());
      assertTrue(spec.isCompatibleWith(iterator));
      assertFalse(spec.isCompatibleWith(Dataset.range(3)));
    }
    assertEquals(
        Spec.dataset(Spec.tensor(DType.INT64, Spec.UNKNOWN)), Spec.of(Dataset.range(3).batch(2)));
    assertEquals(Spec.optional(Spec.tensor(DType.FLOAT64)), Spec.of(Optional.of(2.5)));
    assertEquals(Spec.none(), Spec.of(null));
    assertNull(Spec.of(Optional.empty()).inner());
    try (Value empty = Value.emptyOptional(Spec.tensor(DType.INT64, 3))) {
      assertTrue(empty.asOptional().isEmpty());
      assertEquals(Spec.optional(Spec.tensor(DType.INT64, 3)), empty.spec());
      assertEquals(empty.spec(), Dataset.fromTensors(empty).elementSpec());
    }
    assertEquals(List.of(Tensor.class, Dataset.class, Optional.class, DatasetIterator.class,
                     Void.class, Value.class, Value.class),
        List.of(Spec.tensor(DType.INT8), Spec.variant(), Spec.optional(Spec.none()),
                Spec.iterator(Spec.none()), Spec.none(), Spec.tuple(), Spec.dict(Map.of()))
            .stream().map(Spec::valueType).toList());
    assertEquals(Spec.tensor(DType.INT8, 2), Spec.ofTypes(DType.INT8, new long[] {2}));
    assertEquals(Spec.tuple(Spec.tensorOfAnyShape(DType.INT8), Spec.list(List.of(
                     Spec.tensorOfAnyShape(DType.BYTES)))),
        Spec.ofTypes(new Object[] {DType.INT8, List.of(DType.BYTES)}));
    assertEquals(Spec.dict(Map.of("a", Spec.tensor(DType.BOOL),
                     "b", Spec.tuple(Spec.tensor(DType.INT64, 1)))),
        Spec.ofTypes(Map.of("a", DType.BOOL, "b", new Object[] {DType.INT64}),
            Map.of("a", new long[0], "b", List.of(new long[] {1}))));
    for (final Executable wrong : List.<Executable>of(() -> Spec.ofTypes("int8"),
             () -> Spec.ofTypes(null), () -> Spec.ofTypes(DType.INT8, "[2]"),
             () -> Spec.ofTypes(new Object[] {DType.INT8}, List.of()),
             () -> Spec.ofTypes(Map.of("a", DType.INT8), Map.of("b", new long[0])),
             () -> Spec.ofTypes(List.of(DType.INT8), new long[0]))) {
      assertThrows(TuttiException.InvalidArgument.class, wrong);
    }
  }

  @Test
  void aDatasetComesBackFromItsVariant() {
    try (Value variant = Dataset.range(3).toVariant()) {
      assertTrue(Spec.variant().isCompatibleWith(variant));
      assertNull(Spec.variant().inner());
      assertEquals(
          List.of(0L, 1L, 2L), numbers(Dataset.fromVariant(variant, Spec.tensor(DType.INT64))));
      final var other = assertThrows(TuttiException.InvalidArgument.class,
          () -> Dataset.fromVariant(variant, Spec.tensor(DType.BYTES)));
      assertTrue(
          other.getMessage().contains("expected a dataset of bytes[], found one of int64[]"),
          other.getMessage());
      assertThrows(NullPointerException.class, () -> Dataset.fromVariant(variant, null));
    }
    try (Value number = Value.of(1L)) {
      assertThrows(TuttiException.InvalidArgument.class,
          () -> Dataset.fromVariant(number, Spec.tensor(DType.INT64)));
    }
    assertThrows(
        NullPointerException.class, () -> Dataset.fromVariant(null, Spec.tensor(DType.INT64)));
  }
}
