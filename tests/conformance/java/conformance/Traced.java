package conformance;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.BinaryOperator;
import java.util.function.Function;
import org.tutti.DType;
import org.tutti.Spec;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetFunction;
import org.tutti.data.Expr;

/** The same functions as expressions, for a run in which they are what they can be. */
final class Traced {
  static final boolean WANTED = System.getenv("CONFORMANCE_TRACES") != null;
  static int made; // how many functions were

  private Traced() {}

  /** The operation with an expression; null where its function is none. */
  static Dataset transform(Dataset dataset, Fields node) {
    final String op = node.text("op");
    if (!WANTED || !node.has("fn") || node.flag("registered")) {
      return null;
    }
    final boolean gives = op.equals("flat_map") || op.equals("interleave");
    final Object arg = node.get("arg");
    final Function<Expr, Expr> function = of(node.text("fn"), arg);
    final Function<Expr, Dataset> maker = ofDatasets(node.text("fn"), arg);
    if (gives ? maker == null : function == null) {
      return null;
    }
    final DatasetFunction traced;
    try (Spec spec = dataset.promisedSpec()) {
      if (spec == null) {
        return null;
      }
      traced = gives ? DatasetFunction.datasetExpression(maker, spec)
                     : DatasetFunction.expression(function, spec);
    } catch (TuttiException noExpression) {
      return null; // of byte strings, of datasets
    }
    try (traced) {
      final Dataset result = apply(dataset, node, op, traced);
      made += result == null ? 0 : 1;
      return result;
    }
  }

  /** The key function of a node; null where it is no expression. */
  static Function<Expr, Expr> key(Dataset dataset, Fields node) {
    final String name = node.text("key_func");
    final boolean ofIndex = name.equals("index_mod");
    final Function<Expr, Expr> key = of(ofIndex ? "mod" : name, node.get("key_arg"));
    return key == null ? null : checked(dataset, ofIndex ? x -> key.apply(x.get(0)) : key);
  }

  // Null where it is none for these elements.
  private static Function<Expr, Expr> checked(Dataset dataset, Function<Expr, Expr> function) {
    try (Spec spec = WANTED ? dataset.promisedSpec() : null) {
      if (spec == null) {
        return null;
      }
      DatasetFunction.expression(function, spec).close();
      ++made;
      return function;
    } catch (TuttiException noExpression) {
      return null;
    }
  }

  /** What reduce gives with an expression; null where its function is none. */
  static Value reduce(Dataset dataset, Object initial, String name) {
    final BinaryOperator<Expr> reducer = reducer(name);
    try (Spec element = WANTED && reducer != null ? dataset.promisedSpec() : null;
         Value state = Value.ofData(initial); Spec before = state.spec()) {
      if (element == null) {
        return null;
      }
      try (Spec pair = Spec.tuple(before, element)) {
        DatasetFunction.expression(x -> reducer.apply(x.get(0), x.get(1)), pair).close();
      } catch (TuttiException noExpression) {
        return null;
      }
      ++made;
      return dataset.reduceExpr(initial, reducer);
    }
  }

  private static BinaryOperator<Expr> reducer(String name) {
    switch (name) {
      case "count":
        return (state, x) -> state.plus(1);
      case "sum":
        return (state, x) -> state.plus(x);
      case "max":
        return (state, x) -> state.max(x);
      case "last":
        return (state, x) -> x;
      case "sum_and_count":
        return (state, x) -> Expr.tuple(state.get(0).plus(x), state.get(1).plus(1));
      case "sum_components":
        return (state, pair) -> state.plus(pair.get(0)).plus(pair.get(1));
      case "to_pair":
        return (state, x) -> Expr.tuple(state, state);
      case "to_float":
        return (state, x) -> state.cast(DType.FLOAT32);
      default:
        return null;
    }
  }

  private static Dataset apply(Dataset dataset, Fields node, String op, DatasetFunction function) {
    switch (op) {
      case "map":
        return dataset.map(function, node.integer("num_parallel_calls", 0),
            (Boolean) node.get("deterministic"));
      case "filter":
        return dataset.filter(function);
      case "take_while":
        return dataset.takeWhile(function);
      case "flat_map":
        return dataset.flatMap(function);
      case "interleave":
        return dataset.interleave(function, (Long) node.get("cycle_length"),
            node.integer("block_length", 1), node.integer("num_parallel_calls", 0),
            (Boolean) node.get("deterministic"));
      default:
        return null;
    }
  }

  private static Function<Expr, Expr> of(String name, Object arg) {
    switch (name) {
      case "add":
        return x -> x.plus(arg);
      case "square":
        return x -> x.times(x);
      case "mod":
        return x -> x.mod(arg);
      case "less":
        return x -> x.lt(arg);
      case "greater":
        return x -> x.gt(arg);
      case "equal":
        return x -> x.eq(arg);
      case "even":
        return x -> x.mod(2).eq(0);
      case "with_square":
        return x -> Expr.tuple(x, x.times(x));
      case "as_dict":
        return x -> Expr.dict(new TreeMap<>(Map.of("x", x, "square", x.times(x))));
      case "swap":
        return x -> Expr.tuple(x.get(1), x.get(0));
      case "add_components":
        return x -> x.get(0).plus(x.get(1));
      case "component":
        return x -> arg instanceof String key ? x.get(key) : x.get(((Long) arg).intValue());
      case "identity":
        return x -> x;
      default:
        return null;
    }
  }

  private static Function<Expr, Dataset> ofDatasets(String name, Object arg) {
    switch (name) {
      case "range":
        return x -> x.range();
      case "count_from":
        return x -> Expr.tuple(x, x.plus(arg), x.times(0).plus(1)).dataset("range");
      case "from_tensor_slices":
        return x -> x.slices();
      case "from_tensors_repeat":
        return x -> x.dataset("from_tensors").repeat((Long) arg);
      default:
        return null;
    }
  }
}
