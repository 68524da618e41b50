package conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.tutti.DType;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;

/**
 * Walks over a dataset: what its iterators give, call by call, compared with what a case expects. A
 * case says by its {@code api} how it iterates, by its {@code dtype} and {@code tolerance} how it
 * compares.
 */
final class Walks {
  private final String api; // null: as Java does
  private final DType dtype; // null: not said
  private final double tolerance;

  Walks(Fields test) {
    api = test.text("api", null);
    if (api != null && !api.equals("get_next") && !api.equals("get_next_as_optional")) {
      throw new NotCovered("api " + api);
    }
    dtype = Values.dtypeOf(test);
    tolerance = test.number("tolerance", 0);
  }

  static boolean isError(Object expected) {
    return expected instanceof Fields fields && fields.has("error");
  }

  static List<Value> elements(Dataset dataset) {
    final List<Value> elements = new ArrayList<>();
    try (DatasetIterator iterator = dataset.iterator()) {
      iterator.forEachRemaining(elements::add);
    }
    return elements;
  }

  /**
   * One walk that gives the list {@code expected}, in which {"error": CODE} is a call that fails;
   * or {"multiset": [...]}, in any order.
   */
  void walk(Dataset dataset, Object expected) {
    if (expected instanceof List<?> list) {
      list(dataset, list, null);
    } else {
      multiset(dataset, ((Fields) expected).known("multiset").list("multiset"));
    }
  }

  /**
   * {"passes": [[...], ...], "takes": [n, null]}: one walk after another, walk i given up behind n
   * elements.
   */
  void passes(Dataset dataset, Fields expected) {
    final List<?> passes = expected.known("passes", "takes").list("passes");
    final List<?> takes = expected.has("takes") ? expected.list("takes") : List.of();
    for (int i = 0; i < passes.size(); ++i) {
      final List<?> items = (List<?>) passes.get(i);
      final Long take = i < takes.size() ? (Long) takes.get(i) : null;
      Mismatch.in("pass " + i, () -> list(dataset, items, take));
    }
  }

  // take: how many elements are read, null: all.
  private void list(Dataset dataset, List<?> expected, Long take) {
    final int count = expected.size();
    Mismatch.check(take == null || count <= take, expected, take + " elements that are taken");
    try (DatasetIterator iterator = dataset.iterator()) {
      for (int i = 0; i < count; ++i) {
        final Object item = expected.get(i);
        Mismatch.in("element " + i, () -> call(iterator, item));
      }
      // Nothing is compared behind an error that stands last, nor behind what is taken.
      if ((take == null || count < take) && (count == 0 || !isError(expected.get(count - 1)))) {
        checkEnd(iterator, count);
      }
    }
  }

  private void call(DatasetIterator iterator, Object expected) {
    if (isError(expected)) {
      Runner.expectError((Fields) expected, () -> next(iterator));
      return;
    }
    final Value element = next(iterator);
    Mismatch.check(element != null, expected, "the end");
    Values.compare(element, expected, dtype, tolerance);
  }

  private void multiset(Dataset dataset, List<?> expected) {
    final List<Object> left = new ArrayList<>(expected);
    try (DatasetIterator iterator = dataset.iterator()) {
      for (Value element = next(iterator); element != null; element = next(iterator)) {
        final Value found = element;
        final Optional<Object> match =
            left.stream().filter(item -> isEqual(found, item)).findFirst();
        Mismatch.check(match.isPresent(), "one of " + left, found);
        left.remove(match.get());
      }
      Mismatch.check(left.isEmpty(), left, "the end");
      checkEnd(iterator, expected.size());
    }
  }

  private boolean isEqual(Value found, Object expected) {
    try {
      Values.compare(found, expected, dtype, tolerance);
      return true;
    } catch (Mismatch mismatch) {
      return false;
    }
  }

  // The next element; null at the end.
  private Value next(DatasetIterator iterator) {
    if (api == null) {
      return iterator.hasNext() ? iterator.next() : null;
    }
    if (api.equals("get_next_as_optional")) {
      return iterator.nextOptional().asOptional().orElse(null);
    }
    try {
      return iterator.getNext();
    } catch (TuttiException.OutOfRange end) {
      return null;
    }
  }

  // With an `api` the end comes again.
  private void checkEnd(DatasetIterator iterator, int count) {
    for (int i = 0; i < (api == null ? 1 : 2); ++i) {
      final Value more = next(iterator);
      Mismatch.check(more == null, "the end after " + count + " elements", more);
    }
  }
}
