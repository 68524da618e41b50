package org.tutti.data;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.tutti.Code;
import org.tutti.DType;
import org.tutti.Spec;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Loader;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * A placeholder: an element that is not there yet, a component of it, or what is computed of some.
 *
 * <pre>{@code
 * Dataset.range(5).mapExpr(x -> x.times(2).plus(1))         // 1, 3, 5, 7, 9
 *     .filterExpr(x -> x.mod(3).eq(0));                     // 3, 9
 * }</pre>
 *
 * <p>Dataset.mapExpr, filterExpr and takeWhileExpr call a function once, with placeholders; what it
 * does with them is what runs: without Java, on many elements at once, and it can be serialised.
 * Operands are placeholders, Java's numbers and booleans, and Tensors. Numbers take the dtype of
 * the placeholder that they meet, and are an INVALID_ARGUMENT where that does not hold them; so are
 * two dtypes: cast one. Integers wrap; floorDiv and mod round down. A zero divisor of integers is
 * an INVALID_ARGUMENT of its row alone. A placeholder is for the function that it was given to, and
 * for its thread: FAILED_PRECONDITION elsewhere.
 */
public final class Expr {
  /** The nodes of one trace. */
  private static final class Trace extends NativeObject {
    final Thread thread = Thread.currentThread();

    Trace(Spec input) {
      super(Box.at(Native.expression_create(input)));
    }

    void check() {
      if (isClosed() || Thread.currentThread() != thread) {
        throw TuttiException.of(Code.FAILED_PRECONDITION,
            "a placeholder was used "
                + (isClosed() ? "after the function that it was given to had returned"
                              : "on another thread than the one that traces"));
      }
    }

    void end() {
      release();
    }
  }

  private static final long MISSING = Long.MIN_VALUE;

  private final Trace trace;
  private final long node; // of a leaf
  private final Map<String, Expr> named; // of a dict or a record, by key; else null
  private final List<Expr> parts; // of a structure; else null
  private final Spec.Kind kind; // of a structure

  private Expr(Trace trace, long node) {
    this(trace, node, null, null, null);
  }

  private Expr(Trace trace, long node, Map<String, Expr> named, List<Expr> parts, Spec.Kind kind) {
    this.trace = trace;
    this.node = node;
    this.named = named;
    this.parts = parts;
    this.kind = kind;
  }

  // ---- structures

  /** Component {@code index} of a tuple or a list. */
  public Expr get(int index) {
    if (parts == null || index < 0 || index >= parts.size()) {
      throw TuttiException.of(Code.OUT_OF_RANGE, this + " has no component " + index);
    }
    return parts.get(index);
  }

  /** Component {@code key} of a dict or a record. */
  public Expr get(String key) {
    final Expr found = named == null ? null : named.get(key);
    if (found == null) {
      throw TuttiException.of(Code.NOT_FOUND, this + " has no component '" + key + "'"
          + (named == null ? "" : "; there are " + named.keySet()));
    }
    return found;
  }

  /** The tuple of some, for what a function gives. */
  public static Expr tuple(Expr... components) {
    return new Expr(components[0].trace, -1, null, List.of(components), Spec.Kind.TUPLE);
  }

  /** The dict of some, for what a function gives. */
  public static Expr dict(Map<String, Expr> components) {
    final List<Expr> all = List.copyOf(components.values());
    return new Expr(all.get(0).trace, -1, new LinkedHashMap<>(components), all, Spec.Kind.DICT);
  }

  // ---- operations

  private long leaf(String what) {
    trace.check();
    if (parts != null) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          what + ": a component is needed, not a structure of " + parts.size()
              + "; get() gives one");
    }
    return node;
  }

  private long operand(String what, Object operand) {
    if (operand instanceof Expr) {
      final Expr other = (Expr) operand;
      if (other.trace != trace) {
        throw TuttiException.of(Code.INVALID_ARGUMENT,
            what + ": a placeholder of another trace is used");
      }
      return other.leaf(what);
    }
    final boolean weak = operand instanceof Number || operand instanceof Boolean;
    final Object number = operand instanceof Integer || operand instanceof Short
            || operand instanceof Byte ? (Object) ((Number) operand).longValue()
        : operand instanceof Float ? (Object) ((Float) operand).doubleValue() : operand;
    try (Value value = Value.ofData(number)) {
      return Native.expression_add_constant(trace, value.asTensor(), Bridge.tristate(weak));
    }
  }

  /**
   * The operation of that name (tutti/expression.h lists them) of this and {@code others}, told
   * numbers, a dtype (null: none) and a text; the methods below are such operations.
   */
  public Expr operation(String name, Object[] others, long[] numbers, DType dtype, boolean keepDims,
      String text) {
    final long[] nodes = new long[others.length + 1];
    nodes[0] = leaf(name);
    for (int i = 0; i < others.length; ++i) {
      nodes[i + 1] = operand(name, others[i]);
    }
    return new Expr(trace, Native.expression_add_operation(trace, name, nodes, numbers,
        dtype == null ? 0 : dtype.number(), Bridge.tristate(keepDims), text));
  }

  private Expr of(String name, Object... others) {
    return operation(name, others, new long[0], null, false, "");
  }

  private Expr with(String name, long... numbers) {
    return operation(name, new Object[0], numbers, null, false, "");
  }

  /** this + other. */
  public Expr plus(Object other) {
    return of("add", other);
  }

  /** this - other. */
  public Expr minus(Object other) {
    return of("subtract", other);
  }

  /** this * other. */
  public Expr times(Object other) {
    return of("multiply", other);
  }

  /** this / other, of floats. */
  public Expr div(Object other) {
    return of("divide", other);
  }

  /** The quotient, rounded down. */
  public Expr floorDiv(Object other) {
    return of("floor_divide", other);
  }

  /** What floorDiv leaves, of the sign of {@code other}. */
  public Expr mod(Object other) {
    return of("remainder", other);
  }

  /** this to the power of other. */
  public Expr pow(Object other) {
    return of("power", other);
  }

  /** The smaller one. */
  public Expr min(Object other) {
    return of("minimum", other);
  }

  /** The larger one. */
  public Expr max(Object other) {
    return of("maximum", other);
  }

  /** -this. */
  public Expr negative() {
    return of("negative");
  }

  /** Without the sign. */
  public Expr abs() {
    return of("absolute");
  }

  /** The root, of floats. */
  public Expr sqrt() {
    return of("sqrt");
  }

  /** e to this power, of floats. */
  public Expr exp() {
    return of("exp");
  }

  /** The natural logarithm, of floats. */
  public Expr log() {
    return of("log");
  }

  /** this == other. */
  public Expr eq(Object other) {
    return of("equal", other);
  }

  /** this != other. */
  public Expr ne(Object other) {
    return of("not_equal", other);
  }

  /** this &lt; other. */
  public Expr lt(Object other) {
    return of("less", other);
  }

  /** this &lt;= other. */
  public Expr le(Object other) {
    return of("less_equal", other);
  }

  /** this &gt; other. */
  public Expr gt(Object other) {
    return of("greater", other);
  }

  /** this &gt;= other. */
  public Expr ge(Object other) {
    return of("greater_equal", other);
  }

  /** Both, of booleans. */
  public Expr and(Object other) {
    return of("logical_and", other);
  }

  /** One or both, of booleans. */
  public Expr or(Object other) {
    return of("logical_or", other);
  }

  /** Not, of booleans. */
  public Expr not() {
    return of("logical_not");
  }

  /** Of a boolean: {@code yes} where it is true, {@code no} elsewhere. */
  public Expr where(Object yes, Object no) {
    return of("where", yes, no);
  }

  /** In another dtype, as Tensor.cast does it. */
  public Expr cast(DType dtype) {
    return operation("cast", new Object[0], new long[0], dtype, false, "");
  }

  /** Under another shape of a row; one size may be -1. */
  public Expr reshape(long... shape) {
    return with("reshape", shape);
  }

  /** The axes of a row in another order; without any, turned round. */
  public Expr transpose(long... axes) {
    return with("transpose", axes);
  }

  /** The place {@code index} along axis 0 of a row, from its end where it is negative. */
  public Expr at(long index) {
    return with("index", 0, index);
  }

  /** The places from {@code start} before {@code stop} along axis 0 of a row; null: to the end. */
  public Expr slice(Long start, Long stop) {
    return with("slice", start == null ? MISSING : start, stop == null ? MISSING : stop, 1);
  }

  /** What stands at {@code places}, integers, along axis 0 of a row. */
  public Expr take(Object places) {
    return of("take", places);
  }

  /** This and others side by side along a new axis 0 of a row. */
  public Expr stack(Object... others) {
    return of("stack", others);
  }

  /** This and others one after the other along axis 0 of a row. */
  public Expr concat(Object... others) {
    return of("concatenate", others);
  }

  /** The sum over axes of a row, all where none are given, in this dtype. */
  public Expr sum(long... axes) {
    return with("sum", axes);
  }

  /** The mean over axes of a row, of floats. */
  public Expr mean(long... axes) {
    return with("mean", axes);
  }

  /** The smallest over axes of a row. */
  public Expr smallest(long... axes) {
    return with("min", axes);
  }

  /** The largest over axes of a row. */
  public Expr largest(long... axes) {
    return with("max", axes);
  }

  /** Of integers: along a new last axis 1 at that place and 0 elsewhere. */
  public Expr oneHot(long depth, DType dtype) {
    return operation("one_hot", new Object[0], new long[] {depth}, dtype, false, "");
  }

  /** Of bytes: numbers that lie in them, along a new last axis. */
  public Expr decodeRaw(DType dtype) {
    return operation("decode_raw", new Object[0], new long[0], dtype, false, "");
  }

  /** Of bytes: component {@code leaf}, in the order of names, of what parseExample gives. */
  public Expr call(DatasetFunction function, long leaf) {
    return new Expr(trace, Native.expression_add_call(trace, function, leaf("call"), leaf));
  }

  /** What it is in one row. */
  public Spec spec() {
    return Makers.spec(Box.at(Native.expression_spec(trace, leaf("spec"))));
  }

  /** For people: "((x * 2) + 1)". */
  @Override
  public String toString() {
    if (trace.isClosed()) {
      return "Expr (of a trace that has ended)";
    }
    if (parts == null) {
      return Bridge.text(Native.expression_to_string(trace, node));
    }
    return named == null ? parts.toString() : named.toString();
  }

  // ---- tracing

  private static Expr placeholder(Trace trace, Spec spec, long[] next) {
    if (spec.size() == 0) {
      return new Expr(trace, Native.expression_add_parameter(trace, next[0]++));
    }
    final List<Expr> parts = new ArrayList<>();
    for (int i = 0; i < spec.size(); ++i) {
      try (Spec part = spec.get(i)) {
        parts.add(placeholder(trace, part, next));
      }
    }
    final Spec.Kind kind = spec.kind();
    Map<String, Expr> named = null;
    if (kind == Spec.Kind.DICT || kind == Spec.Kind.RECORD) {
      final List<String> keys = spec.keys();
      named = new LinkedHashMap<>();
      for (int i = 0; i < keys.size(); ++i) {
        named.put(keys.get(i), parts.get(i));
      }
    }
    return new Expr(trace, -1, named, parts, kind);
  }

  /** The structure of a result, with nodes as its leaves. */
  private Object nodes() {
    if (parts == null) {
      return node;
    }
    if (kind == Spec.Kind.DICT) {
      final Map<String, Object> items = new LinkedHashMap<>();
      named.forEach((key, part) -> items.put(key, part.nodes()));
      return items;
    }
    return Value.tuple(parts.stream().map(Expr::nodes).toArray());
  }

  static DatasetFunction trace(Function<Expr, Expr> function, Spec input) {
    Loader.load();
    final Trace trace = new Trace(input);
    try {
      final Expr result = function.apply(placeholder(trace, input, new long[1]));
      if (result == null || result.trace != trace) {
        throw TuttiException.of(Code.INVALID_ARGUMENT,
            "a traced function gives what it computes of the placeholder that it is given, and it "
                + "gave " + result);
      }
      try (Value nodes = Value.of(result.nodes())) {
        return DatasetFunction.at(Native.expression_function(trace, nodes));
      }
    } finally {
      trace.end();
    }
  }
}
