package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.tutti.DatasetTest.numbers;

import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetFunction;
import org.tutti.data.Expr;

/** Functions that are traced. */
class ExpressionTest {
  @Test
  void mapAndFilter() {
    final Dataset odd = Dataset.range(10).mapExpr(x -> x.times(2).plus(1))
        .filterExpr(x -> x.mod(3).eq(0).and(x.gt(3)));
    assertEquals(List.of(9L, 15L), numbers(odd));
    assertTrue(odd.explain().contains("native ((x * 2) + 1)"), odd.explain());
    assertEquals(List.of(9L, 4L, 1L, 7L),
        numbers(Dataset.range(-3, 3, 1).takeWhileExpr(x -> x.lt(1)).mapExpr(x -> x.lt(0).where(
            x.negative().pow(2), x.floorDiv(-2).minus(1).max(7).min(9)))));
  }

  @Test
  void structuresAndShapes() {
    final Dataset dataset = Dataset.range(4).batch(2).enumerate(10).mapExpr(x -> {
      final Expr batch = x.get(1);
      final Expr sums =
          batch.sum().plus(batch.at(-1)).plus(batch.slice(1L, null).smallest());
      final Expr first = batch.stack(batch).transpose().reshape(-1).concat(batch).take(0);
      return Expr.dict(Map.of("place", x.get(0), "pair", Expr.tuple(sums.plus(first),
          batch.cast(DType.FLOAT64).mean().sqrt().div(2.0).exp().log())));
    });
    assertEquals("{'pair': (int64[], float64[]), 'place': int64[]}",
        dataset.elementSpec().toString());
    final Value element = dataset.iterator().next();
    assertEquals(3, element.get("pair").get(0).longValue()); // 1 + 1 + 1 + 0
    assertEquals(List.of(1L, 1L), numbers(
        Dataset.range(2).mapExpr(x -> x.oneHot(2, DType.INT64).largest().abs())));
    final Spec number = Spec.tensor(DType.INT64);
    try (Spec pair = Spec.dict(Map.of("a", number, "b", number));
         DatasetFunction function = DatasetFunction.expression(x -> {
           assertEquals("(x[\"a\"] != 1)", x.get("a").ne(1).toString());
           assertEquals(Spec.tensor(DType.BOOL), x.get("a").le(x.get("b")).spec());
           return x.get("a").ge(x.get("b")).or(true).not();
         }, pair)) {
      assertTrue(!function.isClosed());
    }
  }

  @Test
  void bytes() {
    try (Spec text = Spec.tensor(DType.BYTES);
         DatasetFunction parse = DatasetFunction.parseExample(
             Map.of("a", new DatasetFunction.Feature(DType.INT64)));
         DatasetFunction parsed =
             DatasetFunction.expression(x -> x.call(parse, 0).plus(1), text);
         DatasetFunction raw =
             DatasetFunction.expression(x -> x.decodeRaw(DType.UINT8), text)) {
      assertTrue(!parsed.isClosed() && !raw.isClosed());
    }
  }

  @Test
  void functionsThatGiveDatasetsCapturePlaceholders() {
    final Dataset numbers = Dataset.range(4);
    final Dataset sums = numbers.flatMapExpr(x -> x.range().mapExpr(y -> y.plus(x)));
    assertEquals(List.of(1L, 2L, 3L, 3L, 4L, 5L), numbers(sums));
    assertTrue(sums.explain().contains("native range -> map"), sums.explain());
    assertEquals(numbers(sums), numbers(Dataset.deserialize(sums.serialize())));
    assertEquals(List.of(11L, 21L, 22L), numbers(Dataset.range(3).flatMapExpr(
        x -> x.range().flatMapExpr(y -> y.plus(1).range().takeWhileExpr(z -> z.lt(1)).mapExpr(
            z -> x.times(10).plus(y).plus(1).plus(z))))));
    assertEquals(List.of(1L, 2L, 2L, 3L, 3L, 3L), numbers(numbers.flatMapExpr(
        x -> x.dataset("repeat", x.dataset("from_tensors")))));
    assertEquals("range(start=0, stop=4, step=1, dtype=int64): 4 elements of int64[]\n",
        numbers.explain());
    assertEquals("int64[]", numbers.promisedSpec().toString());
    assertNull(numbers.map(x -> x).promisedSpec());
    assertTrue(numbers.map(x -> x).explain().contains("a function of Java's"));
    final Dataset[] kept = new Dataset[1];
    numbers.flatMapExpr(x -> {
      kept[0] = x.range();
      return kept[0];
    });
    final TuttiException thrown =
        assertThrows(TuttiException.class, () -> kept[0].iterator());
    assertTrue(thrown.getMessage().contains("made of placeholders"), thrown.getMessage());
    assertEquals(Code.NOT_FOUND, assertThrows(TuttiException.class,
        () -> numbers.flatMapExpr(x -> x.dataset("shuffle"))).code());
  }

  @Test
  void whatDoesNotFitIsAnError() {
    final Dataset numbers = Dataset.range(3);
    final Expr[] kept = new Expr[1];
    refused(Code.INVALID_ARGUMENT, "0.5 does not become int64", x -> x.plus(0.5));
    refused(Code.INVALID_ARGUMENT, "two dtypes meet", x -> x.cast(DType.INT32).plus(x));
    refused(Code.OUT_OF_RANGE, "no component 0", x -> x.get(0));
    refused(Code.NOT_FOUND, "no component 'a'", x -> x.get("a"));
    refused(Code.INVALID_ARGUMENT, "it gave null", x -> {
      kept[0] = x;
      return null;
    });
    refused(Code.INVALID_ARGUMENT, "another trace", x -> x.plus(kept[0]));
    refused(Code.FAILED_PRECONDITION, "had returned", x -> kept[0].plus(1));
    final TuttiException thrown = assertThrows(
        TuttiException.class, () -> numbers(numbers.mapExpr(x -> x.floorDiv(x.minus(x)))));
    assertTrue(thrown.getMessage().contains("element 0: floor_divide: the divisor is zero"),
        thrown.getMessage());
  }

  private static void refused(Code code, String why, Function<Expr, Expr> function) {
    final TuttiException thrown =
        assertThrows(TuttiException.class, () -> Dataset.range(3).mapExpr(function));
    assertEquals(code, thrown.code(), thrown.getMessage());
    assertTrue(thrown.getMessage().contains(why), thrown.getMessage());
  }
}
