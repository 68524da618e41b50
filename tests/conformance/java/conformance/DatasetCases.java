package conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;
import org.tutti.Spec;
import org.tutti.Value;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;

/** The cases of dataset.json. */
final class DatasetCases {
  private DatasetCases() {}

  static void run(Fields test) {
    test.known("name", "dataset", "expect", "dtype", "terminal", "iterate", "tolerance");
    final Fields node = test.fields("dataset");
    final Object expected = test.get("expect");
    if (expected instanceof Fields fields && fields.has("error")) {
      Runner.expectError(fields, () -> elements(Datasets.build(node)));
    } else if (test.flag("terminal")) {
      runTerminal(node, expected);
    } else if (expected instanceof Fields properties) {
      checkProperties(properties, node);
    } else {
      final List<?> wanted = test.list("expect");
      final Dataset dataset = Datasets.build(node);
      for (long i = 0; i < test.integer("iterate", 1); ++i) {
        compare(elements(dataset), wanted, test.text("dtype", null), test.number("tolerance", 0));
      }
    }
  }

  private static List<Value> elements(Dataset dataset) {
    final List<Value> elements = new ArrayList<>();
    try (DatasetIterator iterator = dataset.iterator()) {
      iterator.forEachRemaining(elements::add);
    }
    return elements;
  }

  private static void compare(List<Value> found, List<?> wanted, String dtype, double tolerance) {
    Mismatch.check(found.size() == wanted.size(), wanted.size() + " elements", found);
    for (int i = 0; i < found.size(); ++i) {
      final int element = i;
      Mismatch.in("element " + i,
          () -> Values.compare(found.get(element), wanted.get(element), dtype, tolerance));
    }
  }

  private static void runTerminal(Fields node, Object expected) {
    final String op = node.text("op");
    if (!op.equals("cardinality") && !op.equals("element_spec")) {
      throw new NotCovered("op " + op);
    }
    final Dataset dataset = Datasets.build(node.known("op", "input").fields("input"));
    if (op.equals("cardinality")) {
      final long cardinality = dataset.cardinality();
      final Object found = cardinality == Dataset.INFINITE ? "INFINITE"
          : cardinality == Dataset.UNKNOWN ? "UNKNOWN" : (Object) cardinality;
      Mismatch.check(found.equals(expected), expected, found);
    } else {
      final Spec found = dataset.elementSpec();
      final Spec wanted = Values.spec((Fields) expected);
      Mismatch.check(found.equals(wanted), wanted, found);
    }
  }

  private static List<Long> numbers(Fields node) {
    return elements(Datasets.build(node)).stream().map(Value::longValue).toList();
  }

  private static void checkProperties(Fields expected, Fields node) {
    expected.known("permutation_of", "not_identity", "two_equal_halves",
        "two_different_permutations", "same_when_built_again", "two_permutations_of");
    final List<Long> found = numbers(node);
    final List<Long> first = found.subList(0, found.size() / 2);
    final List<Long> second = found.subList(found.size() / 2, found.size());
    if (expected.has("permutation_of")) {
      final String text = expected.text("permutation_of"); // "range(1000)"
      final long count = Long.parseLong(text.substring("range(".length(), text.length() - 1));
      final List<Long> range = LongStream.range(0, count).boxed().toList();
      Mismatch.check(sorted(found).equals(range), expected, found);
      Mismatch.check(!expected.flag("not_identity") || !found.equals(range), expected, found);
    }
    if (expected.has("two_permutations_of")) {
      final List<?> wanted = expected.list("two_permutations_of").stream().sorted().toList();
      Mismatch.check(
          sorted(first).equals(wanted) && sorted(second).equals(wanted), expected, found);
    }
    if (expected.has("two_equal_halves")) {
      Mismatch.check(first.equals(second), expected, found);
    }
    if (expected.has("two_different_permutations")) {
      Mismatch.check(
          sorted(first).equals(sorted(second)) && !first.equals(second), expected, found);
    }
    if (expected.has("same_when_built_again")) {
      final List<Long> again = numbers(node);
      Mismatch.check(found.equals(again), found, again);
    }
  }

  private static List<Long> sorted(List<Long> numbers) {
    return numbers.stream().sorted().toList();
  }
}
