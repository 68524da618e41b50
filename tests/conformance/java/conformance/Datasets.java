package conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.tutti.Code;
import org.tutti.DType;
import org.tutti.Spec;
import org.tutti.TuttiException;
import org.tutti.data.Compression;
import org.tutti.data.Dataset;
import org.tutti.data.FixedLengthRecordDataset;
import org.tutti.data.DatasetFunction;
import org.tutti.data.Expr;
import org.tutti.data.Options;
import org.tutti.data.Padding;
import org.tutti.data.SqlDataset;
import org.tutti.data.TFRecordDataset;
import org.tutti.data.TextLineDataset;

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
        return fromGenerator(node);
      case "records":
        return records(node);
      case "text_lines":
        return textLines(node);
      case "fixed_length_records":
        return fixedLengthRecords(node);
      case "paths":
        return names(node.known("op", "files"));
      case "list_files":
        node.known("op", "file_pattern", "shuffle", "seed");
        return Dataset.listFiles(
            node.list("file_pattern").stream().map(pattern -> (String) pattern).toList(),
            (Boolean) node.get("shuffle"), (Long) node.get("seed"));
      case "sql": // `database` is a file by now
        node.known("op", "database", "query", "output_types", "driver_name");
        return SqlDataset.of(node.text("driver_name", "sqlite"), node.text("database"),
            node.text("query"), node.list("output_types").stream()
                                    .map(type -> Values.dtype((String) type))
                                    .toArray(DType[]::new));
      case "zip":
        return Dataset.zip(structure(node.known("op", "inputs").fields("inputs")));
      case "choose_from_datasets":
        node.known("op", "inputs", "choices", "stop_on_empty_dataset");
        return Dataset.chooseFromDatasets(inputs(node), build(node.fields("choices")),
            !node.has("stop_on_empty_dataset") || node.flag("stop_on_empty_dataset"));
      case "sample_from_datasets":
        node.known("op", "inputs", "weights", "seed", "stop_on_empty_dataset",
            "rerandomize_each_iteration");
        final boolean redraws =
            !node.has("rerandomize_each_iteration") || node.flag("rerandomize_each_iteration");
        if (node.get("weights") instanceof Fields) {
          return Dataset.sampleFromDatasets(inputs(node), build(node.fields("weights")),
              (Long) node.get("seed"), node.flag("stop_on_empty_dataset"), redraws);
        }
        return Dataset.sampleFromDatasets(inputs(node), weights(node), (Long) node.get("seed"),
            node.flag("stop_on_empty_dataset"), redraws);
      default:
        if (!node.has("input")) {
          throw new NotCovered("op " + op);
        }
        final Fields input = node.fields("input");
        return transform(build(op.equals("snapshot") ? kept(input) : input), node);
    }
  }

  // Of a tuple.
  private static List<Dataset> inputs(Fields node) {
    return node.fields("inputs").list("t").stream().map(part -> build((Fields) part)).toList();
  }

  private static double[] weights(Fields node) {
    return node.has("weights")
        ? node.list("weights").stream().mapToDouble(w -> ((Number) w).doubleValue()).toArray()
        : null;
  }

  private static long[] numbers(Fields node, String name) {
    return node.list(name).stream().mapToLong(number -> (Long) number).toArray();
  }

  private static Dataset names(Fields node) {
    return Dataset.fromTensorSlices(node.list("files").toArray(new String[0]));
  }

  // An unknown name is what Java has no constant for: its own word for INVALID_ARGUMENT.
  private static Compression compression(Fields node) {
    try {
      return Compression.valueOf(node.text("compression_type", "NONE"));
    } catch (IllegalArgumentException unknown) {
      throw TuttiException.of(Code.INVALID_ARGUMENT, unknown.getMessage());
    }
  }

  /** The numbers that records hold. */
  static Dataset numbersOf(Dataset records) {
    return records.map(
        record -> RecordFiles.numberOf(record.bytesValue()), Spec.tensor(DType.INT64));
  }

  private static Dataset records(Fields node) {
    node.known("op", "files", "compression_type", "buffer_size", "num_parallel_reads");
    try (Dataset names = Dataset.fromTensorSlices(RecordFiles.of(node.list("files")))) {
      return numbersOf(TFRecordDataset.of(names, compression(node), node.integer("buffer_size", 0),
          node.integer("num_parallel_reads", 0), null));
    }
  }

  private static Dataset textLines(Fields node) {
    node.known("op", "files", "compression_type", "buffer_size", "num_parallel_reads");
    try (Dataset names = names(node)) {
      return TextLineDataset.of(names, compression(node), node.integer("buffer_size", 0),
          node.integer("num_parallel_reads", 0), null);
    }
  }

  private static Dataset fixedLengthRecords(Fields node) {
    node.known("op", "files", "record_bytes", "header_bytes", "footer_bytes", "compression_type",
        "buffer_size", "num_parallel_reads");
    try (Dataset names = names(node)) {
      return FixedLengthRecordDataset.of(names, node.integer("record_bytes"),
          node.integer("header_bytes", 0), node.integer("footer_bytes", 0), compression(node),
          node.integer("buffer_size", 0), node.integer("num_parallel_reads", 0), null);
    }
  }

  // The same, with functions that are registered: what is kept goes by their names.
  private static Fields kept(Fields node) {
    final Map<String, Object> all = new TreeMap<>(node.all());
    if (node.has("input")) {
      all.put("input", kept(node.fields("input")));
    }
    if (node.text("op").equals("map")) {
      all.put("registered", true);
    }
    return new Fields(all);
  }

  private static DatasetFunction registered(Fields node, String fn, Object arg, Spec signature) {
    final String name = fn + " " + arg + " gives " + signature;
    try {
      DatasetFunction.register(name, Functions.of(node), signature, false);
    } catch (TuttiException error) {
      if (error.code() != Code.ALREADY_EXISTS) {
        throw error;
      }
    }
    return DatasetFunction.registered(name);
  }

  private static Dataset snapshot(Dataset dataset, Fields node) {
    node.known("op", "input", "path", "compression", "shard_func", "shard_arg", "reader_func",
        "reader_arg");
    final String compression =
        node.all().containsKey("compression") ? (String) node.get("compression") : "AUTO";
    try (DatasetFunction reader = ofSnapshot(node, "reader");
         DatasetFunction shard = ofSnapshot(node, "shard")) {
      return dataset.snapshot(node.text("path"), compression, reader, shard);
    }
  }

  // Null where there is none.
  private static DatasetFunction ofSnapshot(Fields node, String which) {
    if (!node.has(which + "_func")) {
      return null;
    }
    final Map<String, Object> all = new TreeMap<>();
    all.put("fn", node.get(which + "_func"));
    all.put("arg", node.get(which + "_arg"));
    final Fields described = new Fields(all);
    return registered(described, described.text("fn"), described.get("arg"), null);
  }

  // The i-th iteration gives list i, later ones the last.
  private static Dataset fromGenerator(Fields node) {
    final boolean byPass = node.has("elements_by_pass");
    node.known("op", byPass ? "elements_by_pass" : "elements", "signature");
    final List<?> lists =
        byPass ? node.list("elements_by_pass") : List.of(node.list("elements"));
    final List<List<Object>> passes = new ArrayList<>();
    final List<Object> all = new ArrayList<>();
    for (final Object list : lists) {
      final List<Object> pass = new ArrayList<>();
      ((List<?>) list).forEach(element -> pass.add(Values.data(element)));
      passes.add(pass);
      all.addAll(pass);
    }
    final AtomicInteger started = new AtomicInteger();
    return Dataset.fromGenerator(
        () -> passes.get(Math.min(started.getAndIncrement(), passes.size() - 1)).iterator(),
        node.has("signature") ? Values.spec(node.fields("signature")) : Values.specOf(all),
        lists.toString());
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

  private static final Map<String, Long> AUTO_SHARD =
      Map.of("OFF", -1L, "AUTO", 0L, "FILE", 1L, "DATA", 2L, "HINT", 3L);
  private static final Map<String, Long> EXTERNAL_STATE =
      Map.of("WARN", 0L, "IGNORE", 1L, "FAIL", 2L);

  /** The number of an option's value, which is a policy's name, a boolean or a number. */
  static Long number(String key, Object value) {
    if (value instanceof String name) {
      final Long number = key.equals("experimental_external_state_policy")
          ? EXTERNAL_STATE.get(name)
          : AUTO_SHARD.get(name);
      if (number == null) {
        throw new NotCovered("policy " + name);
      }
      return number;
    }
    return value instanceof Boolean flag ? (Long) (flag ? 1L : 0L) : (Long) value;
  }

  /** Options by name. */
  static Options options(Fields described) {
    final Options options = new Options();
    described.all().forEach((key, value) -> {
      if (value instanceof Boolean flag) {
        options.set(key, flag);
      } else {
        options.set(key, number(key, value));
      }
    });
    return options;
  }

  /** One op with an {@code input}, which is {@code dataset}. */
  private static Dataset transform(Dataset dataset, Fields node) {
    final Dataset traced = Traced.transform(dataset, node);
    if (traced != null) {
      return traced;
    }
    final String op = node.text("op");
    switch (op) {
      case "map":
        node.known("op", "input", "fn", "arg", "registered", "num_parallel_calls",
            "deterministic");
        final Spec signature = Functions.signature(node, dataset);
        try (DatasetFunction made = node.flag("registered")
                 ? registered(node, node.text("fn"), node.get("arg"), signature)
                 : DatasetFunction.of(Functions.of(node), null, signature, false)) {
          return dataset.map(made, node.integer("num_parallel_calls", 0),
              (Boolean) node.get("deterministic"));
        }
      case "flat_map":
        node.known("op", "input", "fn", "arg");
        try (DatasetFunction made = DatasetFunction.of(
                 Functions.of(node), null, Functions.ofDatasets(node, dataset), false)) {
          return dataset.flatMap(made);
        }
      case "interleave":
        node.known("op", "input", "fn", "arg", "cycle_length", "block_length",
            "num_parallel_calls", "deterministic");
        try (DatasetFunction made = DatasetFunction.of(
                 Functions.of(node), null, Functions.ofDatasets(node, dataset), false)) {
          return dataset.interleave(made, (Long) node.get("cycle_length"),
              node.integer("block_length", 1), node.integer("num_parallel_calls", 0),
              (Boolean) node.get("deterministic"));
        }
      case "group_by_window":
        node.known("op", "input", "key_func", "key_arg", "reduce_func", "reduce_arg",
            "window_size");
        final Function<Expr, Expr> key = Traced.key(dataset, node);
        if (key != null) {
          return dataset.groupByWindowExpr(
              key, Functions.ofWindow(node), node.integer("window_size"));
        }
        return dataset.groupByWindow(
            Functions.key(node), Functions.ofWindow(node), node.integer("window_size"));
      case "bucket_by_sequence_length":
        node.known("op", "input", "key_func", "key_arg", "bucket_boundaries",
            "bucket_batch_sizes", "pad_to_bucket_boundary", "no_padding", "drop_remainder");
        final Padding padding = new Padding().dropRemainder(node.flag("drop_remainder"));
        final Function<Expr, Expr> length = Traced.key(dataset, node);
        if (length != null) {
          return dataset.bucketBySequenceLengthExpr(length, numbers(node, "bucket_boundaries"),
              numbers(node, "bucket_batch_sizes"), padding, node.flag("pad_to_bucket_boundary"),
              node.flag("no_padding"));
        }
        return dataset.bucketBySequenceLength(Functions.key(node),
            numbers(node, "bucket_boundaries"), numbers(node, "bucket_batch_sizes"), padding,
            node.flag("pad_to_bucket_boundary"), node.flag("no_padding"));
      case "dense_to_sparse_batch":
        node.known("op", "input", "batch_size", "row_shape");
        return dataset.denseToSparseBatch(
            node.integer("batch_size"), (long[]) Values.sizes(node.get("row_shape")));
      case "padded_batch":
        node.known("op", "input", "batch_size", "padded_shapes", "padding_values",
            "drop_remainder");
        return dataset.paddedBatch(node.integer("batch_size"),
            Values.sizes(node.get("padded_shapes")), Values.data(node.get("padding_values")),
            node.flag("drop_remainder"));
      case "snapshot":
        return snapshot(dataset, node);
      case "apply":
        final Fields inner = node.known("op", "input", "transformation").fields("transformation");
        return dataset.apply(given -> transform(given, inner));
      case "shuffle":
        node.known("op", "input", "buffer_size", "seed", "reshuffle_each_iteration");
        return dataset.shuffle(node.integer("buffer_size"), (Long) node.get("seed"),
            (Boolean) node.get("reshuffle_each_iteration"));
      case "shuffle_and_repeat":
        node.known("op", "input", "buffer_size", "count", "seed");
        return dataset.shuffleAndRepeat(
            node.integer("buffer_size"), node.integer("count", -1), (Long) node.get("seed"));
      case "window_lists": // each window as one batch
        final Map<String, Object> windows = new TreeMap<>(node.all());
        windows.put("op", "window");
        return transform(
            transform(dataset, new Fields(windows)),
            new Fields(Map.of("op", "flat_map", "fn", "zip_batch", "arg", node.get("size"))));
      case "with_options":
        return dataset.withOptions(
            options(node.known("op", "input", "options").fields("options")));
      default:
        final Dataset made = PlainOps.transform(dataset, node);
        if (made == null) {
          throw new NotCovered("op " + op);
        }
        return made;
    }
  }
}
