package conformance;

import java.util.List;
import java.util.Map;
import java.util.Set;

/** An object of the vectors. */
record Fields(Map<String, Object> all) {
  /** A case that names anything else is not covered. */
  Fields known(String... names) {
    final Set<String> known = Set.of(names);
    for (final String name : all.keySet()) {
      if (!known.contains(name)) {
        throw new NotCovered(name);
      }
    }
    return this;
  }

  boolean has(String name) {
    return all.get(name) != null;
  }

  Object get(String name) {
    return all.get(name);
  }

  Fields fields(String name) {
    return (Fields) needed(name);
  }

  List<?> list(String name) {
    return (List<?>) needed(name);
  }

  String text(String name) {
    return (String) needed(name);
  }

  String text(String name, String otherwise) {
    return has(name) ? text(name) : otherwise;
  }

  long integer(String name) {
    return (Long) needed(name);
  }

  long integer(String name, long otherwise) {
    return has(name) ? integer(name) : otherwise;
  }

  double number(String name, double otherwise) {
    return has(name) ? ((Number) needed(name)).doubleValue() : otherwise;
  }

  boolean flag(String name) {
    return has(name) && (Boolean) needed(name);
  }

  private Object needed(String name) {
    if (!has(name)) {
      throw new IllegalArgumentException("there is no field '" + name + "' in " + this);
    }
    return all.get(name);
  }

  @Override
  public String toString() {
    return all.toString();
  }
}
