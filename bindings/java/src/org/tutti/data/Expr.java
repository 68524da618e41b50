package org.tutti.data;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
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
    /** The innermost one of each thread. */
    private static final ThreadLocal<Trace> CURRENT = new ThreadLocal<>();

    final Thread thread = Thread.currentThread();
    final Trace around = CURRENT.get();

    Trace(Spec input) {
      super(Box.at(Native.expression_create(input)));
      CURRENT.set(this);
    }

    /** The node that an operand is here; one of a trace around this one is captured. */
    long nodeOf(String what, Expr operand) {
      if (operand.trace == this) {
        return operand.leaf(what);
      }
      Trace outer = around;
      while (outer != null && outer != operand.trace) {
        outer = outer.around;
      }
      if (outer == null) {
        throw TuttiException.of(Code.INVALID_ARGUMENT,
            what + ": a placeholder of another trace is used");
      }
      return Native.expression_capture(this, around, around.nodeOf(what, operand));
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
      CURRENT.set(around);
      release();
    }
  }

  private static final long MISSING = Long.MIN_VALUE;

  private final Trace trace;
  private final long node; // of a leaf
  private final Map<String, Expr> named; // of a dict or a record, by key; else null
  private final List<Expr> parts; // of a structure; else null
  private final Spec.Kind kind; // of a structure
  private final String typeName; // of a sparse or ragged tensor; else null

  private Expr(Trace trace, long node) {
    this(trace, node, null, null, null);
  }

  private Expr(Trace trace, long node, Map<String, Expr> named, List<Expr> parts, Spec.Kind kind) {
    this(trace, node, named, parts, kind, null);
  }

  private Expr(Trace trace, long node, Map<String, Expr> named, List<Expr> parts, Spec.Kind kind,
      String typeName) {
    this.typeName = typeName;
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

  /** Where operations of this are added: the innermost trace, which captures what it needs. */
  private Trace innermost() {
    trace.check();
    return Trace.CURRENT.get();
  }

  private static long operand(Trace trace, String what, Object operand) {
    if (operand instanceof Expr) {
      return trace.nodeOf(what, (Expr) operand);
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
    final Trace inner = innermost();
    final long[] nodes = new long[others.length + 1];
    nodes[0] = inner.nodeOf(name, this);
    for (int i = 0; i < others.length; ++i) {
      nodes[i + 1] = operand(inner, name, others[i]);
    }
    return new Expr(inner, Native.expression_add_operation(inner, name, nodes, numbers,
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

  // ---- texts

  /** Of bytes: how many each has, INT32. */
  public Expr stringLength() {
    return of("string_length");
  }

  /** Of bytes: with ASCII letters in lower case. */
  public Expr lower() {
    return of("string_lower");
  }

  /** Of bytes: with ASCII letters in upper case. */
  public Expr upper() {
    return of("string_upper");
  }

  /** Of bytes: without ASCII blanks at both ends. */
  public Expr strip() {
    return of("string_strip");
  }

  /**
   * Of bytes: {@code length} of them from {@code position} on, counted from the end where it is
   * negative; a negative length: to the end. INVALID_ARGUMENT of its row for a position outside.
   */
  public Expr substr(Object position, Object length) {
    return of("substr", position, length);
  }

  /** Of one text: the parts between {@code separator}, between runs of blanks where it is empty. */
  public Expr split(String separator) {
    return text("string_split", separator);
  }

  /** The same of a vector of texts: a ragged tensor. */
  public Expr splitRows(String separator) {
    return ragged(split(separator), text("string_split_row_splits", separator));
  }

  /** The same into {@code parts}, along a new last axis; INVALID_ARGUMENT of its row for others. */
  public Expr split(String separator, long parts) {
    return operation("string_split", new Object[0], new long[] {-1, parts}, null, false, separator);
  }

  /** Of bytes: this, then the others, with {@code separator} between them. */
  public Expr join(String separator, Object... others) {
    return operation("join_strings", others, new long[0], null, false, separator);
  }

  /**
   * Of bytes: those along axes of a row, along the first one first, all in row-major order where
   * none are given, with what is between them.
   */
  public Expr reduceJoin(String separator, long... axes) {
    return operation("reduce_join", new Object[0], axes, null, false, separator);
  }

  /**
   * Of bytes: whether {@code pattern}, in RE2's syntax, matches all of it. INVALID_ARGUMENT, here,
   * for what is no pattern.
   */
  public Expr regexFullMatch(String pattern) {
    return text("regex_full_match", pattern);
  }

  /**
   * Of bytes: with {@code rewrite}, one text, in place of all that {@code pattern}, in RE2's
   * syntax, matches; {@code "\\0"} in it is what matched, {@code "\\1"} to {@code "\\9"} are the
   * groups. INVALID_ARGUMENT for what is no pattern, and for a group that it has not: here, or of
   * its row where the rewrite is an Expr.
   */
  public Expr regexReplace(String pattern, Object rewrite) {
    return operation("regex_replace", new Object[] {rewrite}, new long[] {1}, null, false, pattern);
  }

  /** The same of the first match alone. */
  public Expr regexReplaceFirst(String pattern, Object rewrite) {
    return operation("regex_replace", new Object[] {rewrite}, new long[] {0}, null, false, pattern);
  }

  /** Of bytes: FarmHash's Fingerprint64 modulo {@code buckets}, INT64. */
  public Expr toHashBucketFast(long buckets) {
    return with("to_hash_bucket_fast", buckets);
  }

  /** Of bytes: SipHash-2-4 under a key of two words, modulo {@code buckets}, INT64. */
  public Expr toHashBucketStrong(long buckets, long key0, long key1) {
    return with("to_hash_bucket_strong", buckets, key0, key1);
  }

  /** Numbers as texts, as Tensor.asStrings() gives them. */
  public Expr asString() {
    return of("as_string");
  }

  /** Of texts: the numbers that they are; INVALID_ARGUMENT of its row for one that is none. */
  public Expr toNumber(DType dtype) {
    return operation("to_number", new Object[0], new long[0], dtype, false, "");
  }

  private Expr text(String name, String text) {
    return operation(name, new Object[0], new long[0], null, false, text);
  }

  // ---- complex numbers

  /** Of floats: the complex number whose real part this is. */
  public Expr complex(Object imaginary) {
    return of("complex", imaginary);
  }

  /** Of complex numbers: the real part. */
  public Expr real() {
    return of("real");
  }

  /** Of complex numbers: the imaginary part. */
  public Expr imag() {
    return of("imag");
  }

  /** Of complex numbers: the angle, from -pi to pi. */
  public Expr angle() {
    return of("angle");
  }

  /** Of complex numbers: the conjugate. */
  public Expr conjugate() {
    return of("conjugate");
  }

  // ---- numbers of a seed, which this is: two integers

  /** Floats in [0, 1) that depend on this seed alone, as Tensor.statelessUniform gives them. */
  public Expr statelessUniform(DType dtype, long... shape) {
    return operation("stateless_random_uniform", new Object[0], shape, dtype, false, "");
  }

  /** The same of a normal distribution of mean 0 and deviation 1. */
  public Expr statelessNormal(DType dtype, long... shape) {
    return operation("stateless_random_normal", new Object[0], shape, dtype, false, "");
  }

  /** The same of a normal distribution without numbers of size 2 or more. */
  public Expr statelessTruncatedNormal(DType dtype, long... shape) {
    return operation(
        "stateless_random_truncated_normal", new Object[0], shape, dtype, false, "");
  }

  /** Integers of INT32, INT64, UINT32 or UINT64, all as likely. */
  public Expr statelessBits(DType dtype, long... shape) {
    return operation("stateless_random_bits", new Object[0], shape, dtype, false, "");
  }

  /** Integers from {@code low} up to, not with, {@code high}. */
  public Expr statelessIntegers(Object low, Object high, DType dtype, long... shape) {
    return operation(
        "stateless_random_integers", new Object[] {low, high}, shape, dtype, false, "");
  }

  // ---- sparse and ragged tensors, for what a function gives

  /** The ragged tensor of these parts, which have to fit each other in each row. */
  public static Expr ragged(Expr values, Expr rowSplits) {
    return composite("tutti.RaggedTensor", List.of("values", "row_splits"),
        List.of(values, rowSplits));
  }

  /** The sparse tensor of these parts, which have to fit each other in each row. */
  public static Expr sparse(Expr indices, Expr values, Expr denseShape) {
    return composite("tutti.SparseTensor", List.of("indices", "values", "dense_shape"),
        List.of(indices, values, denseShape));
  }

  private static Expr composite(String name, List<String> fields, List<Expr> parts) {
    final Map<String, Expr> named = new LinkedHashMap<>();
    for (int i = 0; i < parts.size(); ++i) {
      named.put(fields.get(i), parts.get(i));
    }
    return new Expr(parts.get(0).trace, -1, named, parts, Spec.Kind.RECORD, name);
  }

  /**
   * Of bytes: component {@code leaf}, in the order of names, of what parseExample or decodeCsv
   * gives. A sparse feature has three, indices, values and dense_shape; a ragged one of a vector of
   * Examples two, values and row_splits.
   */
  public Expr call(DatasetFunction function, long leaf) {
    return new Expr(innermost(), Native.expression_add_call(innermost(), function,
        innermost().nodeOf("call", this), leaf));
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
  private Object nodes(Trace of) {
    if (parts == null) {
      return of.nodeOf("the result of a traced function", this);
    }
    if (typeName != null) {
      return composite(of);
    }
    if (kind == Spec.Kind.DICT) {
      final Map<String, Object> items = new LinkedHashMap<>();
      named.forEach((key, part) -> items.put(key, part.nodes(of)));
      return items;
    }
    return Value.tuple(parts.stream().map(part -> part.nodes(of)).toArray());
  }

  private Value composite(Trace of) {
    final Value[] nodes = new Value[parts.size()];
    try {
      for (int i = 0; i < nodes.length; ++i) {
        nodes[i] = Value.of(parts.get(i).nodes(of));
      }
      return Makers.value(Box.at(Native.value_of_named_tuple(
          typeName, named.keySet().toArray(new String[0]), nodes)));
    } finally {
      for (final Value node : nodes) {
        if (node != null) {
          node.close();
        }
      }
    }
  }

  // ---- datasets

  /**
   * A dataset of this for what flatMapExpr and interleaveExpr give: {@code maker} is "range" of a
   * tuple of start, stop and step; "from_tensors" or "from_tensor_slices" of any structure;
   * "element" of a component that is a dataset, such as a window. It has
   * elements only in what that function gives (FAILED_PRECONDITION). NOT_FOUND names the makers.
   */
  public Dataset dataset(String maker) {
    return made(maker, null);
  }

  /** {@code input} by this number: {@code maker} is "repeat", "take" or "skip". As above. */
  public Dataset dataset(String maker, Dataset input) {
    return made(maker, Objects.requireNonNull(input, "a dataset is needed, not null"));
  }

  private Dataset made(String maker, Dataset input) {
    final Trace inner = innermost();
    try (Value nodes = Value.of(nodes(inner))) {
      return new Dataset(Box.at(Native.expression_add_dataset(inner, maker, input, nodes)));
    }
  }

  /** The numbers from 0 up to this, as Dataset.range gives them, for flatMapExpr. */
  public Dataset range() {
    return tuple(times(0), this, times(0).plus(1)).dataset("range");
  }

  /** The slices of this along axis 0, for flatMapExpr. */
  public Dataset slices() {
    return dataset("from_tensor_slices");
  }

  /**
   * The dataset that this component of an element is, such as a window, for flatMapExpr:
   * {@code windows.flatMapExpr(w -> w.elements().batch(8))} makes the batches without the windows.
   * INVALID_ARGUMENT for a tensor.
   */
  public Dataset elements() {
    return dataset("element");
  }

  static DatasetFunction trace(Function<Expr, Expr> function, Spec input) {
    Loader.load();
    final Trace trace = new Trace(input);
    try {
      final Expr result = function.apply(placeholder(trace, input, new long[1]));
      if (result == null) {
        throw TuttiException.of(Code.INVALID_ARGUMENT,
            "a traced function gives what it computes of the placeholder that it is given, and it "
                + "gave null");
      }
      try (Value nodes = Value.of(result.nodes(trace))) {
        return DatasetFunction.at(Native.expression_function(trace, nodes));
      }
    } finally {
      trace.end();
    }
  }

  static DatasetFunction traceDataset(Function<Expr, Dataset> function, Spec input) {
    Loader.load();
    final Trace trace = new Trace(input);
    try {
      final Dataset result = function.apply(placeholder(trace, input, new long[1]));
      if (result == null) {
        throw TuttiException.of(Code.INVALID_ARGUMENT,
            "a traced function gives a dataset here, and it gave null");
      }
      return DatasetFunction.at(Native.expression_dataset_function(trace, result));
    } finally {
      trace.end();
    }
  }
}
