package org.tutti.data;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Function;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * Options of a dataset, by name, each of which knows whether it was set.
 *
 * <p>deterministic, experimental_slack and most of experimental_optimization.*: booleans.
 * experimental_external_state_policy, threading.private_threadpool_size,
 * threading.max_intra_op_parallelism, autotune.ram_budget,
 * experimental_distribute.auto_shard_policy, experimental_distribute.num_devices,
 * experimental_optimization.autotune_cpu_budget: numbers. experimental_distribute.share_files: a
 * boolean, with which workers share files where there are fewer than workers, and take the elements
 * of each in turn; without it that is an error. experimental_deterministic and
 * experimental_threading.* are other names of deterministic and threading.*. An unknown name is
 * INVALID_ARGUMENT, which names the nearest. Dataset.explain says which are kept without effect:
 * most of experimental_optimization.*. Its native_functions demands that no operation calls Java:
 * an iterator is FAILED_PRECONDITION otherwise. With experimental_slack the thread of the last
 * prefetch pauses after each experimental_distribute.num_devices elements, which a strategy sets.
 *
 * <p>experimental_stats.*, for what is measured while a dataset is read: the boolean
 * latency_all_edges and profile, the texts prefix and counter_prefix, and the {@link
 * StatsAggregator} for which they are.
 *
 * <p>autotune.ram_budget is how many bytes of elements the buffers of one iterator may hold in all
 * (0: any number). Beyond it prefetch, parallel maps and parallel interleaves wait; what has to
 * keep elements, as shuffle and batch do, is RESOURCE_EXHAUSTED and names the operation that keeps
 * most, and a cache in memory is given up.
 *
 * <p>Those of {@link Dataset#options()} are the dataset's: what is set in them counts for it.
 */
public final class Options extends NativeObject implements AutoCloseable {
  /** How a dataset is divided between workers. */
  public enum AutoShardPolicy {
    /** Each worker takes all. */
    OFF(-1),
    /** FILE where there are files, else DATA: the default. */
    AUTO(0),
    /** Each worker reads files of its own. */
    FILE(1),
    /** Each worker reads all and takes its part. */
    DATA(2),
    /** Where a shard(-1, -1) stands. */
    HINT(3);

    private final int number;

    AutoShardPolicy(int number) {
      this.number = number;
    }
  }

  /**
   * What becomes of state outside of a dataset that is saved, which functions of the program's may
   * have. Unset: nothing is said of it.
   */
  public enum ExternalStatePolicy {
    /** It is thrown away, with a warning. */
    WARN(0),
    /** It is thrown away. */
    IGNORE(1),
    /** To save it is FAILED_PRECONDITION. */
    FAIL(2);

    private final int number;

    ExternalStatePolicy(int number) {
      this.number = number;
    }
  }

  private final Dataset dataset; // whose options these are; null: nobody's

  /** None set. */
  public Options() {
    this(Box.at(Native.data_options_create()), null);
  }

  Options(Box box, Dataset dataset) {
    super(box);
    this.dataset = dataset;
  }

  private Options change(Consumer<Options> change) {
    change.accept(this); // which throws when it is closed, or the change is wrong
    if (dataset != null) {
      dataset.changeOptions(change);
    }
    return this;
  }

  /** What {@code reader} reads of these: a dataset's may have changed since they were asked for. */
  <T> T read(Function<Options, T> reader) {
    if (dataset == null || isClosed()) {
      return reader.apply(this);
    }
    try (Options now = dataset.copyOfOptions()) {
      return reader.apply(now);
    }
  }

  /** Sets a number. */
  public Options set(String key, long number) {
    return change(these -> Native.data_options_set_int64(these, key, number));
  }

  /** Sets a boolean. */
  public Options set(String key, boolean flag) {
    return change(these -> Native.data_options_set_bool(these, key, flag));
  }

  /** Sets a text. */
  public Options set(String key, String text) {
    return change(these -> Native.data_options_set_string(these, key, text));
  }

  /** Sets experimental_stats.aggregator; clear takes it away. */
  public Options statsAggregator(StatsAggregator aggregator) {
    return change(these -> Native.data_options_set_stats_aggregator(these, aggregator));
  }

  /** Sets experimental_stats.profile: iterators measure what explain tells. */
  public Options profile(boolean profile) {
    return set("experimental_stats.profile", profile);
  }

  /** Sets experimental_stats.latency_all_edges: every operation is measured. */
  public Options latencyAllEdges(boolean all) {
    return set("experimental_stats.latency_all_edges", all);
  }

  /** As if it had never been set. */
  public Options clear(String key) {
    return change(these -> Native.data_options_clear(these, key));
  }

  /** Sets experimental_external_state_policy. */
  public Options externalStatePolicy(ExternalStatePolicy policy) {
    return set("experimental_external_state_policy", policy.number);
  }

  /** Sets threading.private_threadpool_size; 0: the library chooses. */
  public Options privateThreadpoolSize(long size) {
    return set("threading.private_threadpool_size", size);
  }

  /** Sets threading.max_intra_op_parallelism; 0: the library chooses. */
  public Options maxIntraOpParallelism(long threads) {
    return set("threading.max_intra_op_parallelism", threads);
  }

  /** Sets what {@code threading} has, and takes away what it has not. */
  public Options threading(ThreadingOptions threading) {
    return put("threading.private_threadpool_size", threading.privateThreadpoolSize())
        .put("threading.max_intra_op_parallelism", threading.maxIntraOpParallelism());
  }

  /** What is set under threading. */
  public ThreadingOptions threading() {
    return new ThreadingOptions(
        get("threading.max_intra_op_parallelism"), get("threading.private_threadpool_size"));
  }

  /** Sets what {@code optimization} has, and takes away what it has not. */
  public Options optimization(OptimizationOptions optimization) {
    for (final String name : OptimizationOptions.NAMES) {
      final Long value = optimization.values().get(name);
      final String key = OptimizationOptions.PREFIX + name;
      if (value == null || name.equals(OptimizationOptions.NUMBER)) {
        put(key, value);
      } else {
        set(key, value != 0);
      }
    }
    return this;
  }

  /** What is set under experimental_optimization. */
  public OptimizationOptions optimization() {
    final Map<String, Long> values = new TreeMap<>();
    for (final String name : OptimizationOptions.NAMES) {
      final Long value = get(OptimizationOptions.PREFIX + name);
      if (value != null) {
        values.put(name, value);
      }
    }
    return new OptimizationOptions(values);
  }

  private Options put(String key, Long number) {
    return number == null ? clear(key) : set(key, number.longValue());
  }

  /** Sets experimental_distribute.auto_shard_policy. */
  public Options autoShardPolicy(AutoShardPolicy policy) {
    return set("experimental_distribute.auto_shard_policy", policy.number);
  }

  /** Sets deterministic. */
  public Options deterministic(boolean deterministic) {
    return set("deterministic", deterministic);
  }

  /** The value, booleans as 0 and 1; null when it was not set. */
  public Long get(String key) {
    return read(these -> Bridge.optional(Native.data_options_read(these, key)));
  }

  /** The text; null when it was not set. */
  public String getText(String key) {
    return read(these -> Bridge.text(Native.data_options_read_string(these, key)));
  }

  /** The experimental_stats.aggregator; null when it was not set. */
  public StatsAggregator statsAggregator() {
    final Box box = read(these -> Box.at(Native.data_options_stats_aggregator(these)));
    return box == null ? null : new StatsAggregator(box);
  }

  /** What the other has set, else what this has; a value that changes is logged as a warning. */
  public Options merge(Options other) {
    return read(these -> other.read(those ->
        new Options(Box.at(Native.data_options_merge(these, those)), null)));
  }

  /** Whether the same options are set, to the same values. */
  @Override
  public boolean equals(Object other) {
    return other == this
        || (other instanceof Options options
            && read(these -> options.read(those -> Native.data_options_equal(these, those))));
  }

  /** Of what is set now. */
  @Override
  public int hashCode() {
    return toString().hashCode();
  }

  /** "deterministic=false, threading.private_threadpool_size=2": what is set. */
  @Override
  public String toString() {
    return isClosed() ? "Options (closed)"
                      : read(these -> Bridge.text(Native.data_options_to_string(these)));
  }

  @Override
  public void close() {
    release();
  }
}
