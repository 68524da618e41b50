package org.tutti.data;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.tutti.DType;
import org.tutti.Spec;
import org.tutti.Tensor;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Loader;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/** A function for Dataset.map and filter: a lambda, one that is registered, or a native one. */
public final class DatasetFunction extends NativeObject implements AutoCloseable {
  private DatasetFunction(Box box) {
    super(box);
  }

  /** A lambda, called for each row, whose first result says what the others are like. */
  public static DatasetFunction of(ElementFunction function) {
    return of(function, null, null, false);
  }

  /** The same, whose results are converted to a spec as by Tensor.convert. */
  public static DatasetFunction of(ElementFunction function, Spec signature) {
    return of(function, null, signature, false);
  }

  /** A lambda with a name for messages. */
  public static DatasetFunction of(ElementFunction function, String name) {
    return of(function, name, null, false);
  }

  /** A lambda; slab: it gets and gives many rows at once, as below. */
  public static DatasetFunction of(ElementFunction function, boolean slab) {
    return of(function, null, null, slab);
  }

  /**
   * A lambda. name: for messages, or null; signature: the spec of one row's result, to which
   * results are converted as by Tensor.convert, null: the first row decides; slab: it gets and
   * gives many rows at once, every leaf with one more leading dimension.
   */
  public static DatasetFunction of(
      ElementFunction function, String name, Spec signature, boolean slab) {
    return new DatasetFunction(
        Box.at(Native.function_create(new ElementCallback(function), name, null, signature, slab,
            "a function of Java's; mapExpr and its like are native")));
  }

  /** As below, called for each row, whose first result says what the others are like. */
  public static void register(String name, ElementFunction function) {
    register(name, function, null, false);
  }

  /** As below; slab: it gets and gives many rows at once. */
  public static void register(String name, ElementFunction function, boolean slab) {
    register(name, function, null, slab);
  }

  /** Makes {@code name} mean the function, so that a serialised dataset finds it again. */
  public static void register(String name, ElementFunction function, Spec signature, boolean slab) {
    Loader.load();
    Native.function_register(name, new ElementCallback(function), signature, slab);
  }

  /** Frees the name; datasets that use the function keep it. */
  public static void unregister(String name) {
    Loader.load();
    Native.function_unregister(name);
  }

  /** The function registered as {@code name}; NOT_FOUND names the nearest ones. */
  public static DatasetFunction registered(String name) {
    return new DatasetFunction(Box.at(Native.function_registered(name)));
  }

  /** How many values of a feature an Example has, and what they become. */
  public enum FeatureKind {
    /** As many as its shape says: a tensor. */
    FIXED,
    /** Any number of steps of its shape: a tensor as long as the longest of several Examples. */
    SEQUENCE,
    /** Any number of scalars: a sparse tensor. */
    VAR_LEN,
    /** Any number of steps of its shape: a ragged tensor, and of one Example a tensor. */
    RAGGED
  }

  /**
   * One feature; defaultValue is converted to its dtype as by Tensor.convert. A fixed one's has its
   * shape; null: it is required. A sequence's is a scalar, which stands behind the values of
   * Examples that are shorter than the longest; null: 0, or nothing.
   */
  public record Feature(DType dtype, long[] shape, Tensor defaultValue, FeatureKind kind) {
    /** A fixed one. */
    public Feature(DType dtype, long[] shape, Tensor defaultValue) {
      this(dtype, shape, defaultValue, FeatureKind.FIXED);
    }

    /** A required one. */
    public Feature(DType dtype, long... shape) {
      this(dtype, shape, null);
    }

    /** Any number of steps of a shape, padded by a default, which may be null. */
    public static Feature sequence(DType dtype, Tensor defaultValue, long... shape) {
      return new Feature(dtype, shape, defaultValue, FeatureKind.SEQUENCE);
    }

    /** Any number of scalars, sparse. */
    public static Feature varLen(DType dtype) {
      return new Feature(dtype, new long[0], null, FeatureKind.VAR_LEN);
    }

    /** Any number of steps of a shape, ragged. */
    public static Feature ragged(DType dtype, long... shape) {
      return new Feature(dtype, shape, null, FeatureKind.RAGGED);
    }
  }

  /**
   * From a serialised tf.train.Example (bytes of any shape; a scalar or a vector where a feature is
   * sparse or ragged) to a dict of its features; runs without a callback, and Expr.call calls it,
   * too.
   */
  public static DatasetFunction parseExample(Map<String, Feature> features) {
    return Parsers.withFeatures(List.copyOf(features.entrySet()), Native::function_parse_example);
  }

  /**
   * From a serialised tf.train.SequenceExample (bytes, a scalar) to a tuple: a dict of its context
   * features, and a dict of its feature lists, each with the number of its steps in front of a
   * step's shape. A fixed list with a default takes it for steps without values, and is empty where
   * it is missing. The steps of a varLen or ragged list, which may be missing, have any number of
   * values: they are the rows of a sparse tensor [steps, most values] or of a ragged one. A list is
   * no sequence (INVALID_ARGUMENT); INVALID_ARGUMENT at iteration names feature and step. Runs
   * without a callback.
   */
  public static DatasetFunction parseSequenceExample(
      Map<String, Feature> context, Map<String, Feature> lists) {
    final List<Map.Entry<String, Feature>> all = new ArrayList<>(context.entrySet());
    all.addAll(lists.entrySet());
    return Parsers.withFeatures(
        all, made -> Native.function_parse_sequence_example(made, context.size()));
  }

  /**
   * A column of decodeCsv: bytes, an integer or a real floating dtype; defaultValue, a scalar,
   * stands for an empty field, null: the field is required. The name is for messages.
   */
  public record CsvColumn(String name, DType dtype, Tensor defaultValue) {
    /** A required one. */
    public CsvColumn(DType dtype) {
      this("", dtype, null);
    }

    /** One with a default. */
    public CsvColumn(DType dtype, Tensor defaultValue) {
      this("", dtype, defaultValue);
    }
  }

  /**
   * What records of decodeCsv look like. selectColumns: the places of the columns' fields in a
   * record, growing; none: a record has these fields alone.
   */
  public record CsvFormat(
      String fieldDelimiter, boolean quotes, String missing, long... selectColumns) {
    /** RFC 4180: commas, quotes, and nothing stands for a missing value. */
    public CsvFormat() {
      this(",", true, "");
    }
  }

  /** As below, as RFC 4180 has it. */
  public static DatasetFunction decodeCsv(List<CsvColumn> columns) {
    return decodeCsv(columns, new CsvFormat());
  }

  /**
   * From records of comma-separated values (bytes, a line each) to a tuple of columns of the
   * input's shape; runs without a callback, and Expr.call calls it, too. INVALID_ARGUMENT at
   * iteration names record and field; spaces around numbers do not count.
   */
  public static DatasetFunction decodeCsv(List<CsvColumn> columns, CsvFormat format) {
    final List<Map.Entry<String, Feature>> features = new ArrayList<>();
    for (final CsvColumn column : columns) {
      final Feature field = new Feature(column.dtype(), new long[0], column.defaultValue());
      features.add(Map.entry(column.name(), field));
    }
    return Parsers.withFeatures(features,
        made -> Native.function_decode_csv(made, format.selectColumns(), format.fieldDelimiter(),
            format.missing(), Bridge.tristate(format.quotes())));
  }

  /**
   * The native function that {@code function} is: it is called once, now, with placeholders in the
   * place of an element of {@code element}, a tensor of known rank or a structure of some, and what
   * it does with them is what runs. INVALID_ARGUMENT for operations, dtypes and shapes that do not
   * fit.
   */
  public static DatasetFunction expression(Function<Expr, Expr> function, Spec element) {
    return Expr.trace(function, element);
  }

  /**
   * The native function that gives the dataset that {@code function} gives for a placeholder of
   * {@code element}: for flatMap and interleave. The functions inside of it, of mapExpr and its
   * like, use its placeholders as they use their own.
   */
  public static DatasetFunction datasetExpression(Function<Expr, Dataset> function, Spec element) {
    return Expr.traceDataset(function, element);
  }

  /**
   * Gives an element on as it is where an assertion holds for it, and fails where not:
   * INVALID_ARGUMENT that names node, element, leaf and, where elements are read from files, the
   * record (details: index, node, row, source_file, source_record). It looks at many
   * rows at once without calling Java, and is serialisable. What is known of a dataset's elements
   * (paths, dtypes, ranks) is checked where the function is given to it.
   */
  public static DatasetFunction assertion(Assertion assertion) {
    Loader.load();
    return new DatasetFunction(Box.at(Native.function_assertion(assertion.check.number,
        assertion.other, assertion.ranks, assertion.path, assertion.otherPath, assertion.message,
        assertion.summarize, assertion.dtype, assertion.rtol, assertion.atol,
        assertion.shapes)));
  }

  static DatasetFunction at(long address) {
    return new DatasetFunction(Box.at(address));
  }

  @Override
  public void close() {
    release();
  }
}
