package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.tutti.DatasetTest.numbers;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetFunction;
import org.tutti.data.DatasetFunction.Feature;
import org.tutti.data.ExampleWriter;
import org.tutti.data.Expr;

/** Nodes of texts, of seeds and of complex numbers, and features of any length. */
class ExpressionNodesTest {
  private static List<String> printed(Dataset dataset) {
    final List<String> texts = new ArrayList<>();
    dataset.iterator().forEachRemaining(element -> texts.add(element.toString()));
    return texts;
  }

  private static void gives(Dataset source, List<String> want, Function<Expr, Expr> function) {
    assertEquals(want, printed(source.mapExpr(function)));
  }

  @Test
  void texts() {
    final Dataset source = Dataset.fromTensorSlices(List.of(" Ab,c ", "D,e"));
    gives(source, List.of("\"ab,c\"", "\"d,e\""), x -> x.strip().lower());
    gives(source, List.of("6", "3"), x -> x.upper().stringLength());
    gives(source, List.of("\"c \"", "\",e\""), x -> x.substr(-2, -1));
    gives(source, List.of("[\" Ab\" \"c \"]", "[\"D\" \"e\"]"), x -> x.split(","));
    gives(source, List.of("\" Ab+c \"", "\"D+e\""), x -> x.split(",", 2).reduceJoin("+", 0));
    gives(source, List.of("6", "3"), x -> x.stringLength().asString().toNumber(DType.INT64));
    gives(source, List.of("\" Ab,c - Ab,c \"", "\"D,e-D,e\""), x -> x.join("-", x));
    gives(source, List.of("False", "True"), x -> x.regexFullMatch("D,."));
    gives(source, List.of("\" -b,- \"", "\"-,-\""), x -> x.regexReplace("[A-Dce]", "-"));
    gives(source, List.of("\" [Ab],c \"", "\"[D],e\""),
        x -> x.regexReplaceFirst("(\\w+)", "[\\1]"));
    gives(source.skip(1), List.of("\"D,eD,e\""), x -> x.regexReplace(".", x).substr(0, 6));
    gives(Dataset.fromTensorSlices(List.of("a", "b")), List.of("(9, 6)", "(2, 4)"),
        x -> Expr.tuple(x.toHashBucketFast(10), x.toHashBucketStrong(10, 1, 2)));
    assertEquals(Code.INVALID_ARGUMENT, assertThrows(TuttiException.class,
        () -> source.mapExpr(x -> x.regexFullMatch("("))).code());
    final Dataset rows = source.batch(2).mapExpr(x -> x.splitRows(","));
    assertTrue(rows.elementSpec().toString().contains("ragged"), rows.elementSpec().toString());
    assertEquals(1, printed(rows).size());
    final TuttiException thrown = assertThrows(
        TuttiException.class, () -> printed(source.mapExpr(x -> x.substr(4, 1))));
    assertTrue(thrown.getMessage().contains("element 1: substr: there is no position 4"),
        thrown.getMessage());
  }

  @Test
  void seedsAndComplexNumbers() {
    final Dataset draws = Dataset.range(1, 3, 1).mapExpr(x -> {
      final Expr seed = x.stack(2);
      return Expr.tuple(seed.statelessBits(DType.INT32, 2),
          seed.statelessIntegers(-3, 1000, DType.INT32, 2), seed.statelessUniform(DType.FLOAT32, 2),
          seed.statelessNormal(DType.FLOAT64), seed.statelessTruncatedNormal(DType.FLOAT32, 5));
    });
    final String first = printed(draws).get(0);
    assertTrue(first.startsWith("([1105988140 1738052849], [97 284], "), first);
    final long[] seed = {1, 2};
    try (Tensor bits = Tensor.statelessBits(seed, DType.INT32, 2);
         Tensor uniform = Tensor.statelessUniform(seed, DType.FLOAT32, 2);
         Tensor normal = Tensor.statelessNormal(seed, DType.FLOAT64);
         Tensor truncated = Tensor.statelessTruncatedNormal(seed, DType.FLOAT32, 5)) {
      for (final Tensor tensor : List.of(bits, uniform, normal, truncated)) {
        final String text = tensor.toString();
        assertTrue(first.contains(text.substring(text.indexOf("] ") + 2)), first + text);
      }
      assertEquals(Code.NOT_FOUND, assertThrows(TuttiException.class, () -> Tensor.operation(
          "plus", new Tensor[] {bits}, new long[0], null, false, "")).code());
    }
    gives(Dataset.range(3, 4, 1), List.of("(5, -4, 3, True)"), x -> {
      final Expr real = x.cast(DType.FLOAT64);
      final Expr z = real.complex(real.plus(1.0));
      return Expr.tuple(z.abs(), z.conjugate().imag(), z.real(), z.times(z).angle().lt(4.0));
    });
  }

  @Test
  void featuresOfAnyLength() {
    final Dataset source = Dataset.fromTensorSlices(Tensor.of(new byte[][] {
        ExampleWriter.makeExample(Map.of("a", new long[] {1, 2, 3})),
        ExampleWriter.makeExample(Map.of("a", 7L)), new byte[0]}, 3));
    try (DatasetFunction parse = DatasetFunction.parseExample(Map.of(
             "a", Feature.ragged(DType.INT64), "b", Feature.sequence(DType.INT64, null)));
         DatasetFunction sparse =
             DatasetFunction.parseExample(Map.of("a", Feature.varLen(DType.INT64)))) {
      assertEquals(
          List.of("{'a': [1 2 3], 'b': []}", "{'a': [7], 'b': []}", "{'a': [], 'b': []}"),
          printed(source.map(parse)));
      assertEquals(List.of(6L, 7L, 0L), numbers(source.mapExpr(x -> x.call(parse, 0).sum())));
      final Dataset whole = source.mapExpr(
          x -> Expr.sparse(x.call(sparse, 0), x.call(sparse, 1), x.call(sparse, 2)));
      assertTrue(whole.elementSpec().toString().contains("sparse"));
      assertEquals(printed(source.map(sparse)).size(), printed(whole).size());
      final Dataset ragged =
          source.batch(3).mapExpr(x -> Expr.ragged(x.call(parse, 0), x.call(parse, 1)));
      assertTrue(printed(ragged).get(0).contains("[0 3 4 4]"), printed(ragged).toString());
    }
    assertEquals(Code.INVALID_ARGUMENT, assertThrows(TuttiException.class,
        () -> DatasetFunction.parseExample(Map.of("a", new Feature(DType.INT64, new long[] {2},
            null, DatasetFunction.FeatureKind.VAR_LEN)))).code());
  }
}
