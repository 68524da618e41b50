package conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.tutti.DType;
import org.tutti.Debugging;
import org.tutti.Tensor;
import org.tutti.Value;
import org.tutti.data.Assertion;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetFunction;

/** The cases of debugging.json and debugging_own.json. */
final class DebuggingCases {
  private static final Map<String, BiConsumer<Object, Object>> COMPARISONS =
      Map.of("equal", Debugging::assertEqual, "none_equal", Debugging::assertNoneEqual, "less",
          Debugging::assertLess, "less_equal", Debugging::assertLessEqual, "greater",
          Debugging::assertGreater, "greater_equal", Debugging::assertGreaterEqual, "near",
          Debugging::assertNear);
  private static final Map<String, Consumer<Object>> CONDITIONS =
      Map.of("positive", Debugging::assertPositive, "negative", Debugging::assertNegative,
          "non_positive", Debugging::assertNonPositive, "non_negative",
          Debugging::assertNonNegative, "all_finite", x -> Debugging.assertAllFinite(x, "checked"),
          "check_numerics", x -> Debugging.checkNumerics(x, "checked"), "integer",
          x -> Debugging.assertInteger(x, "checked"), "scalar",
          x -> Debugging.assertScalar(x, "checked"));

  private DebuggingCases() {}

  static void run(Fields test) {
    if (test.has("is_numeric")) {
      test.known("name", "is_numeric", "expect");
      final DType dtype = Values.dtype(test.text("is_numeric"));
      try (Tensor tensor =
               dtype == DType.BYTES ? Tensor.of(new String[] {"text"}) : Tensor.zeros(dtype, 1)) {
        final boolean found = Debugging.isNumericTensor(tensor);
        Mismatch.check(test.get("expect").equals(found), test.get("expect"), found);
      }
      return;
    }
    if (test.get("ok").equals(true)) {
      check(test);
      return;
    }
    final Map<String, Object> expected = new TreeMap<>();
    expected.put("error", test.text("error", "INVALID_ARGUMENT"));
    if (test.has("message_names")) {
      expected.put("message_names", test.list("message_names"));
    }
    Runner.expectError(new Fields(expected), () -> check(test));
  }

  private static void check(Fields test) {
    final String name = test.text("assert");
    if (name.equals("shapes")) {
      test.known("name", "assert", "shapes", "ok", "error", "message_names");
      shapes(test.list("shapes"));
      return;
    }
    test.known("name", "assert", "rows", "x", "y", "ok", "error", "message_names");
    if (test.has("rows")) {
      rows(name, test);
    } else if (COMPARISONS.containsKey(name)) {
      COMPARISONS.get(name).accept(Values.data(test.get("x")), Values.data(test.get("y")));
    } else if (CONDITIONS.containsKey(name)) {
      CONDITIONS.get(name).accept(Values.data(test.get("x")));
    } else {
      throw new NotCovered("assert " + name);
    }
  }

  /** x is the rows of a dataset, which pass through a native function. */
  private static void rows(String name, Fields test) {
    final Assertion assertion = Assertion.of(name.equals("check_numerics")
            ? Assertion.Check.NUMERICS
            : Assertion.Check.valueOf(name.toUpperCase(Locale.ROOT)));
    long rows = 0;
    try (Value y = test.has("y") ? Value.ofData(Values.data(test.get("y"))) : null;
         DatasetFunction check = DatasetFunction.assertion(
             y == null ? assertion : assertion.with(y.asTensor()));
         Dataset dataset = Dataset.fromTensorSlices(Values.data(test.get("x"))).map(check)) {
      for (final Value ignored : dataset) {
        ++rows;
      }
    }
    Mismatch.check(rows == test.integer("rows"), test.integer("rows"), rows);
  }

  private static void shapes(List<?> pairs) {
    final List<Debugging.Shaped> shaped = new ArrayList<>();
    for (final Object pair : pairs) {
      final long[] dims =
          ((List<?>) ((List<?>) pair).get(0)).stream().mapToLong(d -> ((Number) d).longValue())
              .toArray();
      final List<String> axes = ((List<?>) ((List<?>) pair).get(1))
                                    .stream()
                                    .map(axis -> axis == null ? "." : axis.toString())
                                    .toList();
      shaped.add(
          new Debugging.Shaped(Tensor.zeros(DType.FLOAT32, dims), String.join(",", axes)));
    }
    Debugging.assertShapes(shaped, null, null, 0);
  }
}
