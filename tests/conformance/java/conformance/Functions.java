package conformance;

import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.DoubleBinaryOperator;
import org.tutti.Code;
import org.tutti.DType;
import org.tutti.Spec;
import org.tutti.Tensor;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.data.Dataset;
import org.tutti.data.ElementFunction;
import org.tutti.data.ReduceFunction;
import org.tutti.data.TFRecordDataset;
import org.tutti.data.TFRecordWriter;
import org.tutti.data.TextLineDataset;
import org.tutti.data.WindowFunction;

/** The functions that the vectors name with {@code fn} and {@code arg}. */
final class Functions {
  private Functions() {}

  static ElementFunction of(Fields node) {
    final String name = node.text("fn");
    final Object arg = node.get("arg");
    switch (name) {
      case "add":
        return elementwise(null, arg, (x, y) -> x + y);
      case "square":
        return element -> square(element);
      case "mod":
        return elementwise(null, arg, (x, y) -> x - Math.floor(x / y) * y);
      case "less":
        return elementwise(DType.BOOL, arg, (x, y) -> x < y ? 1 : 0);
      case "greater":
        return elementwise(DType.BOOL, arg, (x, y) -> x > y ? 1 : 0);
      case "equal":
        return elementwise(DType.BOOL, arg, (x, y) -> x == y ? 1 : 0);
      case "even":
        return elementwise(DType.BOOL, 2, (x, y) -> x % y == 0 ? 1 : 0);
      case "always_true":
        return element -> true;
      case "identity":
        return element -> element;
      case "fail_at":
        return failAt(((Number) arg).doubleValue());
      case "fill_self":
        return element -> fillSelf(element);
      case "upper":
        return element -> element.stringValue().toUpperCase(Locale.ROOT);
      case "length":
        return element -> (long) element.bytesValue().length;
      case "with_square":
        return element -> new Object[] {element, square(element)};
      case "as_dict":
        return element -> Map.of("x", element, "square", square(element));
      case "swap":
        return element -> new Object[] {element.get(1), element.get(0)};
      case "add_components":
        return element -> sum(element.get(0).asTensor(), element.get(1).asTensor());
      case "component":
        return arg instanceof String key ? element -> element.get(key)
            : element -> element.get(((Long) arg).intValue());
      case "constant":
        final Object constant = Values.data(arg);
        return element -> constant;
      case "range":
        return element -> Dataset.range(element.longValue());
      case "count_from":
        return element -> Dataset.range(
            element.longValue(), element.longValue() + ((Long) arg), 1);
      case "text_lines":
        return element -> TextLineDataset.of(element.stringValue());
      case "records":
        return element -> Datasets.numbersOf(TFRecordDataset.of(element.stringValue()));
      case "from_tensor_slices":
        return element -> Dataset.fromTensorSlices(element);
      case "from_tensors_repeat":
        return element -> Dataset.fromTensors(element).repeat((Long) arg);
      case "batch":
        return element -> element.asDataset().batch((Long) arg);
      case "zip":
        return element -> Dataset.zip(element);
      case "zip_batch":
        return element -> Dataset.zip(element).batch((Long) arg);
      case "shard_mod":
        return elementwise(null, arg, (x, y) -> x % y);
      case "flat":
        return element -> element.asDataset().flatMap(shard -> shard);
      case "interleaved":
        return element -> element.asDataset().interleave(shard -> shard, (Long) arg, 1);
      case "fill_self_slices":
        return element -> Dataset.fromTensorSlices(fillSelf(element));
      default:
        throw new NotCovered("function " + name);
    }
  }

  /** group_by_window's key of an element. */
  static ElementFunction key(Fields node) {
    final String name = node.text("key_func");
    final Map<String, Object> named = new TreeMap<>();
    named.put("fn", name.equals("index_mod") ? "mod" : name);
    if (node.has("key_arg")) {
      named.put("arg", node.get("key_arg"));
    }
    final ElementFunction key = of(new Fields(named));
    return name.equals("index_mod") ? element -> key.apply(element.get(0)) : key;
  }

  /** A function of key and window. */
  static WindowFunction ofWindow(Fields node) {
    if (node.text("reduce_func").equals("write_and_read")) {
      final String prefix = node.text("reduce_arg");
      return (key, window) -> writtenAndRead(prefix, key, window);
    }
    final long arg = node.integer("reduce_arg");
    switch (node.text("reduce_func")) {
      case "window_batch":
        return (key, window) -> window.batch(arg);
      case "window_take":
        return (key, window) -> window.take(arg);
      case "window_padded_batch":
        return (key, window) -> window.paddedBatch(arg);
      case "key_and_batch":
        return (key, window) -> Dataset.zip(
            new Object[] {Dataset.fromTensors(key).repeat(), window.batch(arg)});
      default:
        throw new NotCovered("function " + node.text("reduce_func"));
    }
  }

  /** The window's elements, written to a file of their key and read from it. */
  private static Dataset writtenAndRead(String prefix, Value key, Dataset window) {
    final String path;
    try (Tensor begin = Tensor.of(new String[] {prefix}, new long[] {});
         Tensor number = key.asTensor().asStrings();
         Tensor joined = Tensor.joinStrings("", begin, number);
         Value text = Value.of(joined)) {
      path = text.stringValue();
    }
    try (TFRecordWriter writer = new TFRecordWriter(path)) {
      writer.write(window.map(x -> x.asTensor().serialize(), Spec.tensor(DType.BYTES)));
    }
    return TFRecordDataset.of(path).map(
        x -> Tensor.parse(x.asTensor(), DType.INT64), Spec.tensor(DType.INT64));
  }

  /** A function of state and element. */
  static ReduceFunction reducer(String name) {
    switch (name) {
      case "count":
        return (state, x) -> oneMore(state);
      case "sum":
        return (state, x) -> sum(state.asTensor(), x.asTensor());
      case "max":
        return (state, x) -> state.doubleValue() < x.doubleValue() ? x : state;
      case "last":
        return (state, x) -> x;
      case "append":
        return (state, x) -> {
          final double[] numbers = state.asTensor().toDoubleArray();
          final double[] all = Arrays.copyOf(numbers, numbers.length + 1);
          all[numbers.length] = x.doubleValue();
          try (Tensor wide = Tensor.of(all)) {
            return wide.cast(state.asTensor().dtype());
          }
        };
      case "sum_and_count":
        return (state, x)
                   -> new Object[] {
                       sum(state.get(0).asTensor(), x.asTensor()), oneMore(state.get(1))};
      case "sum_components":
        return (state, pair) -> {
          try (Tensor first = sum(state.asTensor(), pair.get(0).asTensor())) {
            return sum(first, pair.get(1).asTensor());
          }
        };
      case "to_pair":
        return (state, x) -> new Object[] {state, state};
      case "to_float":
        return (state, x) -> state.asTensor().cast(DType.FLOAT32);
      default:
        throw new NotCovered("function " + name);
    }
  }

  private static Tensor oneMore(Value value) {
    final Tensor x = value.asTensor();
    return Values.elementwise(x, x.dtype(), 1, (number, one) -> number + one);
  }

  // dtype: of the result, null: the element's.
  private static ElementFunction elementwise(
      DType dtype, Object arg, DoubleBinaryOperator compute) {
    final double y = ((Number) arg).doubleValue();
    return element -> {
      final Tensor x = element.asTensor();
      return Values.elementwise(x, dtype != null ? dtype : x.dtype(), y, compute);
    };
  }

  private static Tensor square(Value element) {
    final Tensor x = element.asTensor();
    return Values.elementwise(x, x.dtype(), 0, (number, unused) -> number * number);
  }

  private static Tensor fillSelf(Value element) {
    final Tensor x = element.asTensor();
    try (Tensor zeros = Tensor.zeros(x.dtype(), x.longValue())) {
      return Values.elementwise(zeros, x.dtype(), x.doubleValue(), (zero, y) -> y);
    }
  }

  private static ElementFunction failAt(double wrong) {
    return element -> {
      if (element.asTensor().doubleValue() == wrong) {
        throw TuttiException.of(
            Code.INVALID_ARGUMENT, "fail_at: this is the element " + element);
      }
      return element;
    };
  }

  private static Tensor sum(Tensor x, Tensor y) {
    final double[] numbers = x.toDoubleArray();
    final double[] others = y.toDoubleArray();
    for (int i = 0; i < numbers.length; ++i) {
      numbers[i] += others[i];
    }
    try (Tensor flat = Values.onHost(Tensor.of(numbers)); Tensor wide = flat.reshape(x.shape())) {
      return wide.cast(x.dtype());
    }
  }

  /** The output spec of a function that gives datasets; null where the first one tells it. */
  static Spec ofDatasets(Fields node, Dataset dataset) {
    switch (node.text("fn")) {
      case "identity":
        return dataset.elementSpec();
      case "range":
      case "count_from":
        return Spec.dataset(Spec.tensor(DType.INT64));
      default:
        return null;
    }
  }

  /** The output spec of a map function; null where the first row tells it. */
  static Spec signature(Fields node, Dataset dataset) {
    switch (node.text("fn")) {
      case "upper":
        return Spec.tensor(DType.BYTES);
      case "length":
        return Spec.tensor(DType.INT64);
      case "add":
      case "square":
      case "mod":
      case "identity":
      case "fail_at":
        return dataset.elementSpec();
      case "fill_self":
        return Spec.tensor(dataset.elementSpec().dtype(0), Spec.UNKNOWN);
      case "with_square":
        return Spec.tuple(dataset.elementSpec(), dataset.elementSpec());
      case "as_dict":
        return Spec.dict(Map.of("x", dataset.elementSpec(), "square", dataset.elementSpec()));
      case "swap":
        return Spec.tuple(dataset.elementSpec().get(1), dataset.elementSpec().get(0));
      case "add_components":
        return dataset.elementSpec().get(0);
      case "component":
        return node.get("arg") instanceof String key ? dataset.elementSpec().get(key)
            : dataset.elementSpec().get((int) node.integer("arg"));
      default:
        return null;
    }
  }
}
