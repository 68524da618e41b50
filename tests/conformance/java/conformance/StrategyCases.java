package conformance;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.tutti.ReduceOp;
import org.tutti.Tensor;
import org.tutti.Value;
import org.tutti.Variable;
import org.tutti.data.Dataset;
import org.tutti.data.Options;
import org.tutti.distribute.DistributedDataset;
import org.tutti.distribute.DistributedIterator;
import org.tutti.distribute.ReplicaFunction;
import org.tutti.distribute.Strategy;
import org.tutti.distribute.ValueContext;

/** The cases of distribute.json, reduce.json and values.json. */
final class StrategyCases {
  private StrategyCases() {}

  // ---- distribute.json

  static void runDistribute(Fields test) {
    test.known("name", "dataset", "workers", "replicas_per_worker", "expect", "api", "skip_steps",
        "take_steps", "policy");
    if (!test.text("api", "get_next_as_optional").equals("get_next_as_optional")) {
      throw new NotCovered("api " + test.get("api"));
    }
    final Options options = new Options();
    if (test.has("policy")) {
      options.autoShardPolicy(
          constant(Options.AutoShardPolicy.class, "policy", test.text("policy")));
    }
    Workers.run((int) test.integer("workers"), (int) test.integer("replicas_per_worker"),
        (strategy, worker) -> {
          if (test.get("expect") instanceof Fields fields && fields.has("error")) {
            Runner.expectError(fields, () -> steps(test, options, strategy));
          } else {
            compareSteps(steps(test, options, strategy), test.get("expect"), worker);
          }
        });
  }

  /** The values of this worker's replicas, by step. */
  private static List<List<Value>> steps(Fields test, Options options, Strategy strategy) {
    final List<List<Value>> steps = new ArrayList<>();
    final long skip = test.integer("skip_steps", 0);
    final long limit = skip + test.integer("take_steps", Integer.MAX_VALUE);
    final Dataset dataset = Datasets.build(test.fields("dataset")).withOptions(options);
    try (DistributedDataset distributed = strategy.distribute(dataset);
         DistributedIterator iterator = distributed.iterator()) {
      while (steps.size() < limit) {
        final Value step = test.has("api") ? iterator.nextOptional().asOptional().orElse(null)
            : iterator.poll(null);
        if (step == null) {
          break;
        }
        steps.add(strategy.localResults(step));
      }
    }
    return steps.subList((int) Math.min(skip, steps.size()), steps.size());
  }

  private static void compareSteps(List<List<Value>> found, Object expected, int worker) {
    final List<?> wanted = expected instanceof Fields workers
        ? workers.list("worker" + worker).stream().map(List::of).toList() : (List<?>) expected;
    Mismatch.in("worker " + worker, () ->
        Mismatch.check(found.size() == wanted.size(), wanted.size() + " steps", found));
    for (int i = 0; i < found.size(); ++i) {
      final int step = i;
      Mismatch.in("worker " + worker + ", step " + i,
          () -> compareReplicas(found.get(step), (List<?>) wanted.get(step)));
    }
  }

  private static void compareReplicas(List<Value> found, List<?> wanted) {
    Mismatch.check(found.size() == wanted.size(), wanted.size() + " replicas", found);
    for (int i = 0; i < found.size(); ++i) {
      final int replica = i;
      Mismatch.in("replica " + i,
          () -> Values.compare(found.get(replica), wanted.get(replica), null, 0));
    }
  }

  // ---- reduce.json

  static void runReduce(Fields test) {
    test.known("name", "op", "axis", "gather", "per_replica", "expect", "tolerance", "dtype");
    final List<?> given = test.list("per_replica");
    try (Strategy strategy = Workers.mirrored(given.size())) {
      if (test.get("expect") instanceof Fields fields && fields.has("error")) {
        Runner.expectError(fields, () -> reduced(test, given, strategy));
      } else {
        Values.compare(reduced(test, given, strategy), test.get("expect"), Values.dtypeOf(test),
            test.number("tolerance", 0));
      }
    }
  }

  private static Value reduced(Fields test, List<?> given, Strategy strategy) {
    final Value values =
        strategy.distributeValues(context -> Values.data(given.get(context.replicaId())));
    if (test.has("gather")) {
      return strategy.gather(values, (int) test.integer("gather"));
    }
    return strategy.reduce(constant(ReduceOp.class, "op", test.text("op")), values,
        test.has("axis") ? (Integer) (int) test.integer("axis") : null, null);
  }

  private static <T extends Enum<T>> T constant(Class<T> type, String field, String name) {
    return Arrays.stream(type.getEnumConstants()).filter(item -> item.name().equals(name))
        .findFirst().orElseThrow(() -> new NotCovered(field + " " + name));
  }

  // ---- values.json

  static void runValues(Fields test) {
    test.known("name", "replicas", "value_fn", "args", "run", "local", "reduce", "expect",
        "variable", "run_assign_add", "run_scatter", "read", "copies_equal", "error", "mirrored");
    final ReplicaFunction function = replicaFunction(test.text("run", "identity"));
    try (Strategy strategy = Workers.mirrored((int) test.integer("replicas"))) {
      if (test.has("variable")) {
        runVariable(test, strategy);
        return;
      }
      final Object argument = argument(test, strategy);
      final Value result = test.has("mirrored") && !test.has("run") ? (Value) argument
          : strategy.run(function, argument);
      if (test.has("local")) {
        compareReplicas(strategy.localResults(result), test.list("local"));
      }
      if (test.has("reduce")) {
        final ReduceOp op = constant(ReduceOp.class, "reduce", test.text("reduce"));
        Values.compare(strategy.reduce(op, result), test.get("expect"), null, 0);
      }
    }
  }

  private static ReplicaFunction replicaFunction(String name) {
    switch (name) {
      case "identity":
        return (replica, x) -> x;
      case "double":
        return (replica, x) -> Values.elementwise(
            x.asTensor(), x.asTensor().dtype(), 2, (number, two) -> number * two);
      case "all_reduce_sum":
        return (replica, x) -> replica.allReduce(ReduceOp.SUM, x);
      case "replica_id":
        return (replica, none) -> replica.replicaId();
      default:
        throw new NotCovered("run " + name);
    }
  }

  private static Object argument(Fields test, Strategy strategy) {
    if (test.has("value_fn")) {
      return strategy.distributeValues(valueFunction(test.fields("value_fn")));
    }
    if (test.has("mirrored")) {
      final Value mirrored = strategy.mirrored(Values.tensor(test.get("mirrored")));
      Mismatch.check(mirrored.distribution() == Value.Distribution.MIRRORED,
          Value.Distribution.MIRRORED, mirrored.distribution());
      return mirrored;
    }
    if (!test.has("args")) {
      return null;
    }
    if (test.list("args").size() != 1) {
      throw new NotCovered("several args");
    }
    return Values.data(test.list("args").get(0));
  }

  private static Function<ValueContext, Object> valueFunction(Fields described) {
    final Map.Entry<String, Object> only = described.all().entrySet().iterator().next();
    final Object argument = only.getValue();
    switch (only.getKey()) {
      case "constant":
        return context -> Values.data(argument);
      case "component_of":
        return context -> {
          final Tensor all = Values.tensor(argument);
          final long[] rest = Arrays.copyOfRange(all.shape(), 1, all.shape().length);
          return all.slice(0, context.replicaId(), context.replicaId() + 1).reshape(rest);
        };
      case "replica_id":
        return ValueContext::replicaId;
      case "num_replicas":
        return ValueContext::replicaCount;
      default:
        throw new NotCovered("value_fn " + only.getKey());
    }
  }

  private static void runVariable(Fields test, Strategy strategy) {
    final Fields described =
        test.fields("variable").known("value", "synchronization", "aggregation",
            "made_in_replicas");
    final Variable.Builder builder =
        Variable.builder(Values.tensor(described.get("value")))
            .strategy(strategy)
            .synchronization(constant(Variable.Synchronization.class, "synchronization",
                described.text("synchronization")))
            .aggregation(constant(
                Variable.Aggregation.class, "aggregation", described.text("aggregation")));
    final Variable outside = described.flag("made_in_replicas") ? null : builder.create();
    final ReplicaFunction add = (replica, none) -> {
      final Variable written = outside == null ? builder.create() : outside;
      if (test.has("run_scatter")) {
        final Fields how = test.fields("run_scatter").known("op", "values", "indices");
        written.scatter(constant(Variable.Scatter.class, "op", how.text("op")),
            Value.indexedSlices(Values.tensor(how.list("values").get(replica.replicaId())),
                Values.tensor(how.list("indices").get(replica.replicaId())), null));
      } else {
        written.assignAdd(Values.tensor(test.list("run_assign_add").get(replica.replicaId())));
      }
      return written;
    };
    if (test.has("error")) {
      Runner.expectError(new Fields(Map.of("error", test.text("error"))), () -> strategy.run(add));
      return;
    }
    final Variable variable = strategy.run(add).asVariable();
    Values.compare(Values.onHost(variable.read()), test.get("read"), null, 0);
    if (test.flag("copies_equal")) {
      variable.copies().forEach(
          copy -> Values.compare(Values.onHost(copy), test.get("read"), null, 0));
    }
  }
}
