package conformance;

import java.util.List;
import java.util.Objects;
import java.util.stream.LongStream;
import org.tutti.Spec;
import org.tutti.Value;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.data.Options;

/** The cases of dataset.json, dataset_ops.json and dataset_own.json. */
final class DatasetCases {
  private DatasetCases() {}

  static void run(Fields test) {
    checkFields(test);
    final Object expected = test.get("expect");
    try (CaseFolder folder = new CaseFolder()) {
      final Fields node = (Fields) folder.withPaths(test.fields("dataset"));
      if (test.has("before")) {
        ((List<?>) folder.withPaths(test.list("before")))
            .forEach(earlier -> Walks.elements(Datasets.build((Fields) earlier)));
      }
      final Runnable body =
          test.flag("terminal") ? () -> runTerminal(test, node) : () -> runWalks(test, node);
      if (Walks.isError(expected)) {
        Runner.expectError((Fields) expected, body);
      } else {
        body.run();
      }
    }
  }

  // Whether it is what one walk gives, which may be repeated.
  private static boolean isWalk(Object expected) {
    return !(expected instanceof Fields fields) || fields.has("multiset")
        || Walks.isError(expected);
  }

  // What `expect` says decides which fields the case may have besides.
  private static void checkFields(Fields test) {
    final Object expected = test.get("expect");
    if (test.flag("terminal")) {
      test.known("name", "before", "dataset", "expect", "terminal", "dtype", "tolerance");
    } else if (isWalk(expected)) {
      test.known("name", "before", "dataset", "expect", "cardinality", "dtype", "tolerance", "api",
          "iterate");
    } else if (((Fields) expected).has("passes")) {
      test.known(
          "name", "before", "dataset", "expect", "cardinality", "dtype", "tolerance", "api");
    } else {
      test.known("name", "before", "dataset", "expect", "cardinality");
    }
  }

  private static void runWalks(Fields test, Fields node) {
    final Object expected = test.get("expect");
    final Walks walks = new Walks(test);
    final Dataset dataset = Datasets.build(node);
    if (test.has("cardinality")) {
      checkCardinality(dataset, test.get("cardinality"));
    }
    if (isWalk(expected)) {
      for (long i = 0; i < test.integer("iterate", 1); ++i) {
        if (Walks.isError(expected)) {
          Walks.elements(dataset);
        } else {
          walks.walk(dataset, expected);
        }
      }
    } else if (((Fields) expected).has("passes")) {
      walks.passes(dataset, (Fields) expected);
    } else {
      checkProperties((Fields) expected, node);
    }
  }

  private static void checkCardinality(Dataset dataset, Object expected) {
    final long cardinality = dataset.cardinality();
    final Object found = cardinality == Dataset.INFINITE ? "INFINITE"
        : cardinality == Dataset.UNKNOWN ? "UNKNOWN" : (Object) cardinality;
    Mismatch.check(found.equals(expected), expected, found);
  }

  // What the dataset has, or what the first options are once the second are merged into them.
  private static void compareOptions(Fields node, Fields expected) {
    final Options found = node.text("op").equals("options")
        ? Datasets.build(node.known("op", "input", "names").fields("input")).options()
        : Datasets.options(node.known("op", "first", "second", "names").fields("first"))
              .merge(Datasets.options(node.fields("second")));
    for (final Object name : node.list("names")) {
      final String key = (String) name;
      final Long wanted = Datasets.number(key, expected.get(key));
      Mismatch.check(Objects.equals(found.get(key), wanted), wanted, found.get(key));
    }
  }

  private static void reduce(Fields test, Fields node) {
    final Object expected = test.get("expect");
    final Dataset dataset =
        Datasets.build(node.known("op", "input", "initial", "fn").fields("input"));
    final Object initial = Values.data(node.get("initial"));
    final Value traced = Traced.reduce(dataset, initial, node.text("fn"));
    try (Value state = traced != null ? traced
             : dataset.reduce(initial, Functions.reducer(node.text("fn")))) {
      if (!Walks.isError(expected)) {
        Values.compare(state, expected, Values.dtypeOf(test), test.number("tolerance", 0));
      }
    }
  }

  // Two specs of iterators: whether they are compatible, or the spec that values of both fit.
  private static void iteratorSpecs(Fields node, Object expected) {
    final Spec left =
        Spec.iterator(Values.spec(node.known("op", "spec", "with").fields("spec")));
    final Spec right = Spec.iterator(Values.spec(node.fields("with")));
    if (node.text("op").equals("iterator_spec_is_compatible")) {
      final Object found = left.isCompatibleWith(right);
      Mismatch.check(found.equals(expected), expected, found);
      return;
    }
    final Spec common = left.mostSpecificCompatibleType(right);
    if (!Walks.isError(expected)) {
      final Spec wanted = Spec.iterator(Values.spec((Fields) expected));
      Mismatch.check(common.equals(wanted), wanted, common);
    }
  }

  // A variant is a scalar, one leaf, which fits the spec of a dataset of any elements and is the
  // dataset again.
  private static void variant(Fields node, Fields expected) {
    final Dataset dataset = Datasets.build(node.known("op", "input").fields("input"));
    Mismatch.check(expected.known("shape", "dtype").text("dtype").equals("variant")
        && expected.list("shape").isEmpty(), expected, "a variant");
    try (Value variant = dataset.toVariant()) {
      Mismatch.check(Spec.variant().isCompatibleWith(variant), "a variant", variant);
      Mismatch.check(variant.spec().shape(0).length == 0, "a scalar", variant.spec());
      final List<Long> back = Walks.elements(Dataset.fromVariant(variant, dataset.elementSpec()))
          .stream().map(Value::longValue).toList();
      final List<Long> given = numbers(node.fields("input"));
      Mismatch.check(back.equals(given), given, back);
    }
  }

  private static void runTerminal(Fields test, Fields node) {
    final Object expected = test.get("expect");
    final String op = node.text("op");
    if (op.equals("reduce")) {
      reduce(test, node);
      return;
    }
    if (op.equals("options") || op.equals("merge_options")) {
      compareOptions(node, (Fields) expected);
      return;
    }
    if (op.equals("iterator_spec_is_compatible") || op.equals("iterator_spec_most_specific")) {
      iteratorSpecs(node, expected);
      return;
    }
    if (op.equals("to_variant")) {
      variant(node, (Fields) expected);
      return;
    }
    if (!List.of("cardinality", "element_spec", "iterator_element_spec").contains(op)) {
      throw new NotCovered("op " + op);
    }
    final Dataset dataset = Datasets.build(node.known("op", "input").fields("input"));
    if (op.equals("cardinality")) {
      checkCardinality(dataset, expected);
      return;
    }
    final Spec found;
    if (op.equals("iterator_element_spec")) {
      try (DatasetIterator iterator = dataset.iterator()) {
        found = iterator.elementSpec();
      }
    } else {
      found = dataset.elementSpec();
    }
    if (!Walks.isError(expected)) {
      final Spec wanted = Values.spec((Fields) expected);
      Mismatch.check(found.equals(wanted), wanted, found);
    }
  }

  private static List<Long> numbers(Fields node) {
    return Walks.elements(Datasets.build(node)).stream().map(Value::longValue).toList();
  }

  private static void checkProperties(Fields expected, Fields node) {
    expected.known("permutation_of", "buffer", "not_identity", "two_equal_halves",
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
      final long buffer = expected.integer("buffer", count);
      for (int i = 0; i < found.size(); ++i) { // nothing comes before it can be in the buffer
        Mismatch.check(i >= found.get(i) - buffer + 1, expected, found);
      }
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
