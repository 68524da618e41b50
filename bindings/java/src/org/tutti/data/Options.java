package org.tutti.data;

import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * Options of a dataset, by name, each of which knows whether it was set.
 *
 * <p>deterministic, experimental_slack, experimental_optimization.apply_default_optimizations:
 * booleans. threading.private_threadpool_size, threading.max_intra_op_parallelism,
 * autotune.ram_budget, experimental_distribute.auto_shard_policy,
 * experimental_distribute.num_devices: numbers. An unknown name is INVALID_ARGUMENT.
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

  /** None set. */
  public Options() {
    super(Box.at(Native.data_options_create()));
  }

  Options(Box box) {
    super(box);
  }

  /** Sets a number. */
  public Options set(String key, long number) {
    Native.data_options_set_int64(this, key, number);
    return this;
  }

  /** Sets a boolean. */
  public Options set(String key, boolean flag) {
    Native.data_options_set_bool(this, key, flag);
    return this;
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
    return Bridge.optional(Native.data_options_read(this, key));
  }

  /** What the other has set, else what this has; a value that changes is logged as a warning. */
  public Options merge(Options other) {
    return new Options(Box.at(Native.data_options_merge(this, other)));
  }

  @Override
  public void close() {
    release();
  }
}
