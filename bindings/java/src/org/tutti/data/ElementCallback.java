package org.tutti.data;

import java.util.Iterator;
import java.util.Objects;
import org.tutti.Value;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Callback;
import org.tutti.internal.Native;

/** The lambdas of this package as callbacks. */
final class ElementCallback extends Callback {
  private final ElementFunction function;

  ElementCallback(ElementFunction function) {
    this.function = Objects.requireNonNull(function, "a function is needed, not null");
  }

  @Override
  public long call(int kind, long context, long in) throws Throwable {
    try (Value element = new Value(Box.at(in))) {
      return dataOf(function.apply(element));
    }
  }

  // The address of the value, with a reference for the library. What the function gave stays open.
  private static long dataOf(Object result) {
    if (result == null) {
      return 0;
    }
    if (result instanceof Value value) {
      return Native.value_retain(value);
    }
    try (Value value = Value.ofData(result)) {
      return Native.value_retain(value);
    }
  }

  /** Iterations over what an Iterable gives, each with an iterator of its own. */
  static final class Generator extends Callback {
    private final Iterable<?> elements;

    Generator(Iterable<?> elements) {
      this.elements = Objects.requireNonNull(elements, "an Iterable is needed, not null");
    }

    @Override
    public long call(int kind, long context, long in) throws Throwable {
      if (kind == GENERATOR_START) {
        final Iterator<?> iterator = elements.iterator();
        try (Value state =
                 new Value(Box.at(Native.value_of_object(Bridge.numberOf(iterator))))) {
          return Native.value_retain(state);
        }
      }
      try (Value state = new Value(Box.at(in))) {
        final Iterator<?> iterator = state.asObject(Iterator.class);
        return iterator.hasNext() ? dataOf(iterator.next()) : 0;
      }
    }
  }
}
