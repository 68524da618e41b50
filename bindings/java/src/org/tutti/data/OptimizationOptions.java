package org.tutti.data;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.tutti.Code;
import org.tutti.TuttiException;

/**
 * The options under experimental_optimization, by their names without that, booleans as 0 and 1:
 * what is not there is not set. They are equal when the same ones are set, to the same values.
 * Immutable. native_functions demands native functions; with apply_default_optimizations 0 batches
 * of windows are not made without the windows; the others are kept without effect.
 *
 * @param values by name
 */
public record OptimizationOptions(Map<String, Long> values) {
  static final String PREFIX = "experimental_optimization.";
  /** The one that is a number. */
  static final String NUMBER = "autotune_cpu_budget";
  static final List<String> NAMES = List.of("apply_default_optimizations", "autotune",
      "autotune_buffers", NUMBER, "filter_fusion", "filter_with_random_uniform_fusion",
      "hoist_random_uniform", "map_and_batch_fusion", "map_and_filter_fusion", "map_fusion",
      "map_parallelization", "map_vectorization.enabled", "map_vectorization.use_choose_fastest",
      "native_functions", "noop_elimination", "parallel_batch", "reorder_data_discarding_ops",
      "shuffle_and_repeat_fusion");

  /** INVALID_ARGUMENT for a name that there is not. */
  public OptimizationOptions {
    for (final String name : values.keySet()) {
      if (!NAMES.contains(name)) {
        throw TuttiException.of(Code.INVALID_ARGUMENT,
            "there is no option '" + name + "' of optimization; there are " + NAMES);
      }
    }
    values = Map.copyOf(values);
  }

  /** None set. */
  public OptimizationOptions() {
    this(Map.of());
  }

  /** The same with a switch. */
  public OptimizationOptions with(String name, boolean on) {
    return with(name, on ? 1 : 0);
  }

  /** The same with a number. */
  public OptimizationOptions with(String name, long number) {
    final Map<String, Long> changed = new TreeMap<>(values);
    changed.put(name, number);
    return new OptimizationOptions(changed);
  }
}
