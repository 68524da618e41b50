package org.tutti.data;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import org.tutti.Code;
import org.tutti.Spec;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Callback;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;

/** The lambdas of this package as callbacks. */
final class ElementCallback extends Callback {
  private static final int LEAF_TENSOR = 1;

  private final ElementFunction function;

  ElementCallback(ElementFunction function) {
    this.function = Objects.requireNonNull(function, "a function is needed, not null");
  }

  @Override
  public long call(int kind, long context, long in) throws Throwable {
    try (Value element = Makers.value(Box.at(in))) {
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

  /** What a function makes of arguments, anew for each iteration. */
  static final class Arguments<T> implements Iterable<T> {
    private final java.util.function.Function<List<Value>, ? extends Iterable<T>> generator;
    private final List<Value> args = new ArrayList<>();

    Arguments(
        java.util.function.Function<List<Value>, ? extends Iterable<T>> generator, List<?> args) {
      this.generator = Objects.requireNonNull(generator, "a function is needed, not null");
      for (final Object arg : args) {
        final Value value = Value.ofData(arg);
        this.args.add(value);
        try (Spec spec = value.spec()) {
          for (int leaf = 0; leaf < spec.leafCount(); ++leaf) {
            if (Native.spec_leaf_kind(spec, leaf) != LEAF_TENSOR) {
              throw TuttiException.of(Code.INVALID_ARGUMENT,
                  "the arguments of a generator are tensors and structures of them, not " + value
                      + "; what else it needs is the function's own to capture");
            }
          }
        }
      }
    }

    @Override
    public Iterator<T> iterator() {
      return generator.apply(args.stream().map(Value::of).toList()).iterator();
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
                 Makers.value(Box.at(Native.value_of_object(Bridge.numberOf(iterator))))) {
          return Native.value_retain(state);
        }
      }
      try (Value state = Makers.value(Box.at(in))) {
        final Iterator<?> iterator = state.asObject(Iterator.class);
        return iterator.hasNext() ? dataOf(iterator.next()) : 0;
      }
    }
  }
}
