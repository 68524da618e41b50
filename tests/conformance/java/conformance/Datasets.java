package conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.DoubleBinaryOperator;
import org.tutti.DType;
import org.tutti.Spec;
import org.tutti.Tensor;
import org.tutti.data.Dataset;
import org.tutti.data.ElementFunction;
import org.tutti.data.TFRecordDataset;

/** The datasets that trees of ops describe. */
final class Datasets {
  private Datasets() {}

  static Dataset build(Fields node) {
    final String op = node.text("op");
    switch (op) {
      case "range":
        node.known("op", "start", "stop", "step", "output_type");
        return Dataset.range(node.integer("start", 0), node.integer("stop"),
            node.integer("step", 1), Values.dtype(node.text("output_type", "int64")));
      case "from_tensors":
        return Dataset.fromTensors(Values.data(node.known("op", "value").get("value")));
      case "from_tensor_slices":
        return Dataset.fromTensorSlices(Values.data(node.known("op", "value").get("value")));
      case "from_generator":
        final List<Object> elements = new ArrayList<>();
        node.known("op", "elements").list("elements")
            .forEach(element -> elements.add(Values.data(element)));
        return Dataset.fromGenerator(elements, Values.specOf(elements));
      case "records":
        return TFRecordDataset.of(RecordFiles.of(node.known("op", "files").list("files")))
            .map(record -> RecordFiles.numberOf(record.bytesValue()), Spec.tensor(DType.INT64));
      case "zip":
        return Dataset.zip(structure(node.known("op", "inputs").fields("inputs")));
      default:
        if (!node.has("input")) {
          throw new NotCovered("op " + op);
        }
        return transform(build(node.fields("input")), node);
    }
  }

  // Datasets, arrays for tuples and maps for dicts of them.
  private static Object structure(Fields described) {
    if (described.has("t")) {
      return described.list("t").stream().map(part -> structure((Fields) part)).toArray();
    }
    if (described.has("d")) {
      final Map<String, Object> parts = new TreeMap<>();
      described.fields("d").all().forEach((key, part) -> parts.put(key, structure((Fields) part)));
      return parts;
    }
    return build(described);
  }

  /** One op with an `input`, which is `dataset`. */
  private static Dataset transform(Dataset dataset, Fields node) {
    final String op = node.text("op");
    switch (op) {
      case "map":
        node.known("op", "input", "fn", "arg");
        return dataset.map(function(node), signature(node.text("fn"), dataset));
      case "filter":
        return dataset.filter(function(node.known("op", "input", "fn", "arg")));
      case "apply":
        final Fields inner = node.known("op", "input", "transformation").fields("transformation");
        return dataset.apply(given -> transform(given, inner));
      case "concatenate":
        return dataset.concatenate(build(node.known("op", "input", "other").fields("other")));
      case "batch":
        node.known("op", "input", "batch_size", "drop_remainder");
        return dataset.batch(node.integer("batch_size"), node.flag("drop_remainder"));
      case "repeat":
        return dataset.repeat(node.known("op", "input", "count").integer("count", -1));
      case "enumerate":
        return dataset.enumerate(node.known("op", "input", "start").integer("start", 0));
      case "prefetch":
        return dataset.prefetch(
            node.known("op", "input", "buffer_size").integer("buffer_size", Dataset.AUTOTUNE));
      case "shard":
        node.known("op", "input", "num_shards", "index");
        return dataset.shard(node.integer("num_shards"), node.integer("index"));
      case "skip":
        return dataset.skip(node.known("op", "input", "count").integer("count"));
      case "take":
        return dataset.take(node.known("op", "input", "count").integer("count"));
      case "shuffle":
        node.known("op", "input", "buffer_size", "seed", "reshuffle_each_iteration");
        return dataset.shuffle(node.integer("buffer_size"), (Long) node.get("seed"),
            (Boolean) node.get("reshuffle_each_iteration"));
      default:
        throw new NotCovered("op " + op);
    }
  }

  private static ElementFunction function(Fields node) {
    final String name = node.text("fn");
    final Object arg = node.get("arg");
    switch (name) {
      case "add":
        return elementwise(null, arg, (x, y) -> x + y);
      case "square":
        return elementwise(null, 0, (x, unused) -> x * x);
      case "less":
        return elementwise(DType.BOOL, arg, (x, y) -> x < y ? 1 : 0);
      case "equal":
        return elementwise(DType.BOOL, arg, (x, y) -> x == y ? 1 : 0);
      case "always_true":
        return element -> true;
      case "fill_self":
        return element -> {
          final Tensor x = element.asTensor();
          try (Tensor zeros = Tensor.zeros(x.dtype(), x.longValue())) {
            return Values.elementwise(zeros, x.dtype(), x.doubleValue(), (zero, y) -> y);
          }
        };
      case "upper":
        return element -> element.stringValue().toUpperCase(Locale.ROOT);
      case "component":
        return element -> element.get(((Long) arg).intValue());
      case "constant":
        final Object constant = Values.data(arg);
        return element -> constant;
      default:
        throw new NotCovered("function " + name);
    }
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

  /** The output spec of a map function; null where the first row tells it. */
  private static Spec signature(String name, Dataset dataset) {
    switch (name) {
      case "upper":
        return Spec.tensor(DType.BYTES);
      case "add":
      case "square":
        return dataset.elementSpec();
      case "fill_self":
        return Spec.tensor(dataset.elementSpec().dtype(0), Spec.UNKNOWN);
      default:
        return null;
    }
  }
}
