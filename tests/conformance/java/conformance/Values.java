package conformance;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.DoubleBinaryOperator;
import org.tutti.DType;
import org.tutti.Spec;
import org.tutti.Tensor;
import org.tutti.Value;

/** The values and specs of the vectors, as the library takes them, and compared with its own. */
final class Values {
  private Values() {}

  static DType dtype(String name) {
    for (final DType dtype : DType.values()) {
      if (dtype.name().equals(name.toUpperCase(Locale.ROOT))) {
        return dtype;
      }
    }
    throw new NotCovered("dtype " + name);
  }

  /** That of a whole case; null where it is not said. */
  static DType dtypeOf(Fields test) {
    return test.has("dtype") ? dtype(test.text("dtype")) : null;
  }

  // ---- values

  /** What Value.ofData takes: a tensor, an array for a tuple, a map for a dict. */
  static Object data(Object described) {
    if (described instanceof Fields fields && fields.has("t")) {
      return fields.list("t").stream().map(Values::data).toArray();
    }
    if (described instanceof Fields fields && fields.has("d")) {
      final Map<String, Object> parts = new TreeMap<>();
      fields.fields("d").all().forEach((key, part) -> parts.put(key, data(part)));
      return parts;
    }
    if (described instanceof Fields fields && fields.has("sparse")) {
      final Fields parts = sparse(fields);
      final List<?> sizes = parts.list("dense_shape");
      try (Tensor indices = integers(parts.get("indices"));
           Tensor places = indices.reshape(parts.list("values").size(), sizes.size());
           Tensor values = tensor(parts.get("values")); Tensor shape = integers(sizes)) {
        return Value.sparse(places, values, shape);
      }
    }
    if (described instanceof Fields fields && fields.has("ragged")) {
      final Ragged ragged = new Ragged(fields.known("ragged").list("ragged"));
      Value value = Value.of(tensor(ragged.items));
      for (int level = ragged.splits.size() - 1; level >= 0; --level) {
        value = Value.ragged(value, integers(ragged.splits.get(level)));
      }
      return value;
    }
    return described == null ? null : tensor(described);
  }

  private static Fields sparse(Fields described) {
    return described.known("sparse").fields("sparse").known("indices", "values", "dense_shape");
  }

  private static Tensor integers(Object described) {
    return new Leaf(described).tensor(DType.INT64);
  }

  /** Nested lists as the row splits of each level, the outermost first, and the items of all. */
  private static final class Ragged {
    final List<List<Long>> splits = new ArrayList<>();
    List<?> items;

    Ragged(List<?> lists) {
      items = lists;
      while (items.stream().anyMatch(item -> item instanceof List<?>)) {
        final List<Object> next = new ArrayList<>();
        final List<Long> own = new ArrayList<>(List.of(0L));
        for (final Object list : items) {
          next.addAll((List<?>) list);
          own.add((long) next.size());
        }
        splits.add(own);
        items = next;
      }
    }
  }

  /** Shapes of padded_batch, as paddedBatch takes them: long[] for a list, -1 for null in it. */
  static Object sizes(Object described) {
    if (described instanceof Fields fields && fields.has("t")) {
      return fields.list("t").stream().map(Values::sizes).toArray();
    }
    if (described instanceof Fields fields && fields.has("d")) {
      final Map<String, Object> parts = new TreeMap<>();
      fields.fields("d").all().forEach((key, part) -> parts.put(key, sizes(part)));
      return parts;
    }
    return described == null ? null
                             : ((List<?>) described).stream()
                                   .mapToLong(size -> size == null ? -1 : (Long) size)
                                   .toArray();
  }

  /** One tensor; a bare integer is int32 and a bare real float32. */
  static Tensor tensor(Object described) {
    final Leaf leaf = new Leaf(described);
    if (leaf.dtype == null && leaf.isText()) {
      return leaf.tensor(DType.BYTES);
    }
    if (leaf.dtype == null && !leaf.items.isEmpty() && leaf.items.get(0) instanceof Boolean) {
      return leaf.tensor(DType.BOOL);
    }
    return leaf.tensor(
        leaf.dtype != null ? leaf.dtype : leaf.isInteger() ? DType.INT32 : DType.FLOAT32);
  }

  /** Nested lists of numbers or texts, laid flat. */
  private static final class Leaf {
    final DType dtype; // null: not said
    final List<Long> shape = new ArrayList<>();
    final List<Object> items = new ArrayList<>();

    Leaf(Object described) {
      if (described instanceof Fields fields && !fields.has("bytes")) {
        fields.known("dtype", "v");
        dtype = dtype(fields.text("dtype"));
        add(fields.get("v"), 0);
      } else {
        dtype = null;
        add(described, 0);
      }
      if (items.size() != shape.stream().reduce(1L, (x, y) -> x * y)) {
        throw new IllegalArgumentException("rows of unequal lengths: " + described);
      }
    }

    private void add(Object described, int depth) {
      if (described instanceof List<?> list) {
        if (shape.size() == depth) {
          shape.add((long) list.size());
        }
        list.forEach(item -> add(item, depth + 1));
      } else if (described instanceof Fields fields) {
        items.add(fields.known("bytes").text("bytes"));
      } else if (described instanceof String text) {
        if (!text.equals("nan")) {
          throw new IllegalArgumentException("'" + text + "' is no number");
        }
        items.add(Double.NaN);
      } else {
        items.add(described);
      }
    }

    boolean isText() {
      return !items.isEmpty() && items.get(0) instanceof String;
    }

    boolean isInteger() {
      return items.stream().noneMatch(item -> item instanceof Double);
    }

    long[] dims() {
      return shape.stream().mapToLong(size -> size).toArray();
    }

    private static Number number(Object item) {
      return item instanceof Boolean flag ? (Number) (flag ? 1L : 0L) : (Number) item;
    }

    double[] reals() {
      return items.stream().mapToDouble(item -> number(item).doubleValue()).toArray();
    }

    long[] integers() {
      return items.stream().mapToLong(item -> number(item).longValue()).toArray();
    }

    Tensor tensor(DType wanted) {
      if (wanted == DType.BYTES) {
        try (Tensor flat = Tensor.of(items.toArray(new String[0]))) {
          return flat.reshape(dims());
        }
      }
      try (Tensor wide = isInteger() ? Tensor.of(integers()) : Tensor.of(reals());
           Tensor here = onHost(wide); Tensor flat = here.cast(wanted)) {
        return flat.reshape(dims());
      }
    }
  }

  /** In a replica's function numbers are placed on its device. */
  static Tensor onHost(Tensor tensor) {
    return tensor.cudaDevice() < 0 ? tensor : tensor.copyTo("CPU:0");
  }

  /** Of every element; in float64, which holds the small numbers of the vectors exactly. */
  static Tensor elementwise(Tensor x, DType dtype, double y, DoubleBinaryOperator compute) {
    final double[] numbers = x.toDoubleArray();
    for (int i = 0; i < numbers.length; ++i) {
      numbers[i] = compute.applyAsDouble(numbers[i], y);
    }
    try (Tensor flat = onHost(Tensor.of(numbers)); Tensor wide = flat.reshape(x.shape())) {
      return wide.cast(dtype);
    }
  }

  // ---- comparing

  /** By value and shape, and by dtype where it is said (else null). */
  static void compare(Value found, Object expected, DType dtype, double tolerance) {
    if (expected instanceof Fields fields && fields.has("t")) {
      final List<?> parts = fields.list("t");
      Mismatch.check(
          found.kind() == Value.Kind.TUPLE && found.size() == parts.size(), expected, found);
      for (int i = 0; i < parts.size(); ++i) {
        compare(found.get(i), parts.get(i), dtype, tolerance);
      }
    } else if (expected instanceof Fields fields && fields.has("d")) {
      final Map<String, Object> parts = fields.fields("d").all();
      Mismatch.check(found.kind() == Value.Kind.DICT && found.size() == parts.size()
          && parts.keySet().containsAll(found.keys()), expected, found);
      parts.forEach((key, part) -> compare(found.get(key), part, dtype, tolerance));
    } else if (expected instanceof Fields fields && fields.has("ds")) {
      Mismatch.check(found.kind() == Value.Kind.DATASET, expected, found);
      final Iterator<?> parts = fields.list("ds").iterator();
      for (final Value element : found.asDataset()) {
        Mismatch.check(parts.hasNext(), expected, element);
        compare(element, parts.next(), dtype, tolerance);
      }
      Mismatch.check(!parts.hasNext(), expected, found);
    } else if (expected instanceof Fields fields && fields.has("sparse")) {
      final Fields parts = sparse(fields);
      Mismatch.check(found.isSparse(), expected, found);
      compare(found.get("indices"), parts.get("indices"), DType.INT64, 0);
      compare(found.get("values"), parts.get("values"), dtype, tolerance);
      compare(found.get("dense_shape"), parts.get("dense_shape"), DType.INT64, 0);
    } else if (expected instanceof Fields fields && fields.has("ragged")) {
      final Ragged wanted = new Ragged(fields.list("ragged"));
      Value level = found;
      for (final List<Long> splits : wanted.splits) {
        Mismatch.check(level.isRagged(), expected, found);
        compare(level.get("row_splits"), splits, null, 0);
        level = level.get("values");
      }
      compare(level, wanted.items, dtype, tolerance);
    } else {
      Mismatch.check(found.kind() == Value.Kind.TENSOR, expected, found);
      compare(found.asTensor(), expected, dtype, tolerance);
    }
  }

  static void compare(Tensor found, Object expected, DType dtype, double tolerance) {
    final Leaf wanted = new Leaf(expected);
    final DType type = wanted.dtype != null ? wanted.dtype : dtype;
    final long[] shape = found.shape();
    final boolean same;
    if (type != null && type != found.dtype()) {
      same = false;
    } else if (wanted.items.isEmpty() && wanted.shape.size() == 1) {
      same = shape.length > 0 && shape[0] == 0; // no rows, of any shape
    } else if (!Arrays.equals(shape, wanted.dims())
        || wanted.isText() != (found.dtype() == DType.BYTES)) {
      same = false;
    } else if (wanted.isText()) {
      same = texts(found).equals(wanted.items);
    } else {
      same = near(found.toDoubleArray(), wanted.reals(), tolerance);
    }
    Mismatch.check(same, expected, found);
  }

  private static List<String> texts(Tensor tensor) {
    final List<String> texts = new ArrayList<>();
    for (long i = 0; i < tensor.elementCount(); ++i) {
      texts.add(new String(tensor.bytes(i), StandardCharsets.UTF_8));
    }
    return texts;
  }

  private static boolean near(double[] found, double[] wanted, double tolerance) {
    for (int i = 0; i < wanted.length; ++i) {
      final boolean bothNan = Double.isNaN(found[i]) && Double.isNaN(wanted[i]);
      if (!bothNan && !(Math.abs(found[i] - wanted[i]) <= tolerance)) {
        return false;
      }
    }
    return true;
  }

  // ---- specs

  /** The spec of {"shape": [...], "dtype": D} per leaf. */
  static Spec spec(Fields described) {
    if (described.has("t")) {
      return Spec.tuple(
          described.list("t").stream().map(part -> spec((Fields) part)).toArray(Spec[]::new));
    }
    if (described.has("d")) {
      final Map<String, Spec> parts = new TreeMap<>();
      described.fields("d").all().forEach((key, part) -> parts.put(key, spec((Fields) part)));
      return Spec.dict(parts);
    }
    if (described.has("ds")) {
      return Spec.dataset(spec(described.known("ds").fields("ds")));
    }
    if (described.has("sparse")) {
      final Fields whole = described.known("sparse").fields("sparse").known("shape", "dtype");
      return Spec.sparse(dtype(whole.text("dtype")), (long[]) sizes(whole.get("shape")));
    }
    if (described.has("ragged")) {
      final Fields whole = described.known("ragged").fields("ragged").known("shape", "dtype");
      final long[] shape = (long[]) sizes(whole.get("shape"));
      return Spec.ragged(dtype(whole.text("dtype")), shape.length - 1, shape);
    }
    final DType dtype = dtype(described.known("shape", "dtype").text("dtype"));
    return !described.has("shape") ? Spec.tensorOfAnyShape(dtype)
        : Spec.tensor(dtype, described.list("shape").stream()
            .mapToLong(size -> size == null ? Spec.UNKNOWN : (Long) size).toArray());
  }

  /** The spec that all of some data fit. */
  static Spec specOf(List<Object> elements) {
    if (elements.isEmpty()) {
      throw new NotCovered("a generator of no elements, whose spec nothing tells");
    }
    final Object first = elements.get(0);
    if (first instanceof Object[] parts) {
      final Spec[] specs = new Spec[parts.length];
      for (int i = 0; i < specs.length; ++i) {
        final int part = i;
        specs[i] = specOf(elements.stream().map(element -> ((Object[]) element)[part]).toList());
      }
      return Spec.tuple(specs);
    }
    if (first instanceof Map<?, ?> parts) {
      final Map<String, Spec> specs = new TreeMap<>();
      for (final Object key : parts.keySet()) {
        specs.put((String) key, specOf(
            elements.stream().map(element -> (Object) ((Map<?, ?>) element).get(key)).toList()));
      }
      return Spec.dict(specs);
    }
    final long[] shape = ((Tensor) first).shape();
    for (final Object element : elements) {
      final long[] other = ((Tensor) element).shape();
      if (other.length != shape.length) {
        return Spec.tensorOfAnyShape(((Tensor) first).dtype());
      }
      for (int i = 0; i < shape.length; ++i) {
        shape[i] = other[i] == shape[i] ? shape[i] : Spec.UNKNOWN;
      }
    }
    return Spec.tensor(((Tensor) first).dtype(), shape);
  }
}
