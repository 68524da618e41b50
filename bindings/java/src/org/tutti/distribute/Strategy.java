package org.tutti.distribute;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import org.tutti.Cluster;
import org.tutti.Code;
import org.tutti.Communicator;
import org.tutti.DeviceSpec;
import org.tutti.ReduceOp;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.data.Dataset;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.LibraryResolver;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * The same function on several replicas, concurrently: replica 0 on the thread that calls run, the
 * others on threads of the strategy. Threads: any; of two concurrent runs the later one is
 * FAILED_PRECONDITION.
 */
public class Strategy extends NativeObject implements AutoCloseable {
  Strategy(Box box) {
    super(box);
  }

  /** For the package itself: takes over a native handle. */
  public static Strategy wrap(long box) {
    return new Strategy(Box.at(box));
  }

  /** The strategy outside of every scope: one replica, nothing distributed. */
  public static Strategy defaultStrategy() {
    return new Strategy(Box.at(Native.strategy_default()));
  }

  /** The strategy whose scope or replica function the thread is in, else the default strategy. */
  public static Strategy current() {
    final Object scope = Scope.current();
    if (scope instanceof Strategy strategy) {
      return strategy;
    }
    if (scope instanceof UpdateContext update) {
      return update.strategy();
    }
    return scope instanceof ReplicaContext replica ? replica.strategy() : defaultStrategy();
  }

  /** Whether there is a current strategy other than the default one. */
  public static boolean hasCurrent() {
    return Scope.current() != null
        && !Native.strategy_type_name(current()).equals("DefaultStrategy");
  }

  /**
   * Whether the thread is inside a strategy's scope, a merge function, an update function or
   * cross-device ops.
   */
  public static boolean inCrossReplicaContext() {
    return Scope.current() instanceof Strategy || Scope.current() instanceof UpdateContext;
  }

  // ---- what it is

  /** All replicas of all workers. */
  public int replicaCount() {
    return (int) Native.strategy_num_replicas_in_sync(this);
  }

  /** The replicas of this process. */
  public int localReplicaCount() {
    return (int) Native.strategy_local_replica_count(this);
  }

  /** The devices of this process's replicas. */
  public List<String> devices() {
    final List<String> devices = new ArrayList<>();
    for (int i = 0; i < localReplicaCount(); ++i) {
      devices.add(Native.strategy_worker_device(this, i));
    }
    return devices;
  }

  /** This process's place among the workers, 0 where there is one only. */
  public int worker() {
    return (int) Native.strategy_worker(this);
  }

  /** The workers, this one included. */
  public int workerCount() {
    return (int) Native.strategy_worker_count(this);
  }

  /** What found the workers of a MultiWorkerMirroredStrategy; null for other strategies. */
  public ClusterResolver clusterResolver() {
    final long box = Native.strategy_cluster_resolver(this);
    return box == 0 ? null : new LibraryResolver(Box.at(box));
  }

  /** What the strategy does on devices. */
  public StrategyExtended extended() {
    return new StrategyExtended(this);
  }

  /**
   * Lines that say where replicas and variables are, how the strategy reduces, and, where it was
   * given cross-device ops, how often these were used for tensors of which dtype and shape.
   */
  public String explain() {
    return Bridge.text(Native.strategy_explain(this));
  }

  /** The cluster that the strategy's workers sit in; empty for one of this process alone. */
  public Optional<Cluster> cluster() {
    return Optional.ofNullable(Box.at(Native.strategy_cluster(this))).map(Makers::cluster);
  }

  /**
   * A communicator of the strategy's workers, a rank each, for collectives of the program's own
   * between runs. All strategies of a job give the same one, until its epoch has ended or it was
   * closed: then all workers ask again, and the next is formed with all of them. Of a strategy of
   * this process alone it has one rank.
   */
  public Communicator communicator() {
    return communicator(null);
  }

  /** As above, waiting for at most {@code timeout}. */
  public Communicator communicator(Duration timeout) {
    return Makers.communicator(
        Box.at(Native.strategy_communicator(this, Bridge.nanos(timeout))));
  }

  /** What ends scope. */
  public interface InScope extends AutoCloseable {
    @Override
    void close();
  }

  /**
   * Cross-replica context with this as the current strategy of the thread, until the scope is
   * closed: variables that are made there have a copy per replica. Inside a replica function or
   * another strategy's scope it is FAILED_PRECONDITION. That of the default strategy changes
   * nothing: its context holds outside of all scopes. That of a MultiWorkerMirroredStrategy is a
   * device scope, too: "/CPU:0".
   */
  public InScope scope() {
    final Object before = Scope.current();
    if (before instanceof ReplicaContext) {
      throw TuttiException.of(Code.FAILED_PRECONDITION,
          "a strategy's scope cannot be entered inside a replica function");
    }
    if (before == null && Native.strategy_type_name(this).equals("DefaultStrategy")) {
      return () -> { }; // it holds where no scope is
    }
    if (before instanceof UpdateContext update && update.strategy().equals(this)) {
      return () -> { };
    }
    if (before != null && !before.equals(this)) {
      throw TuttiException.of(Code.FAILED_PRECONDITION, "the scope of " + this
          + " cannot be entered inside that of " + before + ": leave that one first");
    }
    final Object left = Scope.enter(this);
    final String device = deviceOfScope();
    final DeviceSpec.Scope devices = device == null ? null : DeviceSpec.scope(device);
    return () -> {
      if (devices != null) {
        devices.close();
      }
      Scope.leave(left);
    };
  }

  // What is done in a scope is done on this device, but for what replicas do; null: as outside.
  String deviceOfScope() {
    return null;
  }

  /**
   * Enters the scope of a strategy for good, for this thread; null goes back to the default. Inside
   * a scope, a replica function or a merge function it is FAILED_PRECONDITION.
   */
  public static void setCurrent(Strategy strategy) {
    if (Scope.isEntered()) {
      throw TuttiException.of(Code.FAILED_PRECONDITION,
          "setCurrent must not be called inside a strategy's scope");
    }
    Scope.pin(strategy);
  }

  /** Takes back what setCurrent said: the thread has the default strategy again. */
  public static void resetCurrent() {
    setCurrent(null);
  }

  // ---- running

  /** Runs a function without an argument, as run(function, argument). */
  public Value run(ReplicaFunction function) {
    return run(function, null, null, null);
  }

  /**
   * As run(function), for at most {@code timeout}, as in run(function, argument, timeout). An
   * argument that is a Duration itself is given as Value.of(duration).
   */
  public Value run(ReplicaFunction function, Duration timeout) {
    return run(function, null, null, timeout);
  }

  /**
   * Calls {@code function} once per replica, concurrently, and returns when no call is running any
   * more.
   *
   * <p>argument: what Value.of takes, of several a tuple (Value.tuple); replica i gets component i
   * of every distributed part and the value itself of every other. Results are joined leaf by leaf:
   * equal objects and strings stay one value, tensors and numbers become distributed (with one
   * replica they stay what they are). An exception of a replica stops the others and is the cause
   * of what is thrown here.
   */
  public Value run(ReplicaFunction function, Object argument) {
    return run(function, argument, null, null);
  }

  /**
   * As run, for at most {@code timeout} (DEADLINE_EXCEEDED), which is looked at when a replica
   * enters a collective and when all have returned, and ends what they wait for.
   */
  public Value run(ReplicaFunction function, Object argument, Duration timeout) {
    return run(function, argument, null, timeout);
  }

  /** As run(function, argument), with options. */
  public Value run(ReplicaFunction function, Object argument, RunOptions options) {
    return run(function, argument, options, null);
  }

  /** As above, with options (null: the defaults). */
  public Value run(
      ReplicaFunction function, Object argument, RunOptions options, Duration timeout) {
    // The default strategy runs where the scopes say.
    final boolean leavesDeviceScope = DeviceSpec.current() != null
        && !Native.strategy_type_name(this).equals("DefaultStrategy");
    final Functions.Replica callback = new Functions.Replica(function, leavesDeviceScope);
    final long result;
    if (argument == null || argument instanceof Value) {
      result = run(callback, (Value) argument, options, Bridge.nanos(timeout));
    } else {
      try (Value given = Value.of(argument)) {
        result = run(callback, given, options, Bridge.nanos(timeout));
      }
    }
    return valueOf(result);
  }

  private long run(Functions.Replica callback, Value given, RunOptions options, long nanos) {
    final DeviceSpec device = DeviceSpec.current();
    if (options == null && device == null) {
      return Native.strategy_run(this, callback, given, nanos);
    }
    final RunOptions chosen = options == null ? new RunOptions() : options;
    return Native.strategy_run_with_options(this, callback, given,
        Bridge.tristate(chosen.enableDynamicBatchSize()),
        Bridge.tristate(chosen.bucketizingDynamicShape()),
        device == null ? null : device.toString(), nanos);
  }

  private static Value valueOf(long box) {
    return box == 0 ? Value.of(null) : Makers.value(Box.at(box));
  }

  // ---- values

  /** Reduces every leaf over all replicas: SUM or MEAN, equal shapes. */
  public Value reduce(ReduceOp op, Object value) {
    return reduce(op, value, null, null, null);
  }

  /** As reduce, waiting for at most {@code timeout}. */
  public Value reduce(ReduceOp op, Object value, Duration timeout) {
    return reduce(op, value, null, null, timeout);
  }

  /** As reduce, with options. */
  public Value reduce(ReduceOp op, Object value, CommunicationOptions options) {
    return reduce(op, value, null, options, null);
  }

  /** As reduce; also along {@code axis} inside each replica. */
  public Value reduce(ReduceOp op, Object value, int axis) {
    return reduce(op, value, axis, null, null);
  }

  /** As above, with options. */
  public Value reduce(ReduceOp op, Object value, int axis, CommunicationOptions options) {
    return reduce(op, value, axis, options, null);
  }

  /** As reduce; also along {@code axis} inside each replica. */
  public Value reduce(ReduceOp op, Object value, Integer axis, Duration timeout) {
    return reduce(op, value, axis, null, timeout);
  }

  /** As above, with options (null: the strategy's). */
  public Value reduce(ReduceOp op, Object value, Integer axis, CommunicationOptions options,
      Duration timeout) {
    final long nanos = CommunicationOptions.nanosOf(this, options, timeout);
    try (Value given = Value.of(value)) {
      return valueOf(Bridge.hinted(options, () -> Native.strategy_reduce(
          this, op.number(), given, axis == null ? null : Long.valueOf(axis), nanos)));
    }
  }

  /** Joins every distributed leaf along {@code axis}, in replica order. */
  public Value gather(Object value, int axis) {
    return gather(value, axis, null, null);
  }

  /** As gather, with options. */
  public Value gather(Object value, int axis, CommunicationOptions options) {
    return gather(value, axis, options, null);
  }

  /** As gather, waiting for at most {@code timeout}. */
  public Value gather(Object value, int axis, Duration timeout) {
    return gather(value, axis, null, timeout);
  }

  /** As above, with options (null: the strategy's). */
  public Value gather(Object value, int axis, CommunicationOptions options, Duration timeout) {
    final long nanos = CommunicationOptions.nanosOf(this, options, timeout);
    try (Value given = Value.of(value)) {
      return valueOf(Bridge.hinted(
          options, () -> Native.strategy_gather(this, given, axis, nanos)));
    }
  }

  /** The values of this process's replicas, in order. */
  public List<Value> localResults(Object value) {
    try (Value given = Value.of(value)) {
      return valueOf(Native.strategy_local_results(this, given)).asList();
    }
  }

  /** A distributed value of one value per replica of this process, all of one structure. */
  public Value perReplica(List<?> values) {
    Objects.requireNonNull(values, "a list of values is needed, not null");
    try (Value list = Value.of(values)) {
      return valueOf(
          Native.strategy_create_per_replica(this, list.asList().toArray(new Value[0])));
    }
  }

  /**
   * {@code value} on every replica of this process: a structure whose leaves are mirrored, and are
   * read as they are. INVALID_ARGUMENT for what has a component or a copy per replica already.
   */
  public Value mirrored(Object value) {
    try (Value given = Value.of(value)) {
      return valueOf(Native.strategy_create_mirrored_value(this, given));
    }
  }

  /**
   * A distributed value from one call of {@code function} per replica of this process, in order.
   */
  public Value distributeValues(Function<ValueContext, Object> function) {
    return distributeValues(function, null);
  }

  /** As distributeValues, for at most {@code timeout}. */
  public Value distributeValues(Function<ValueContext, Object> function, Duration timeout) {
    Objects.requireNonNull(function, "a function is needed, not null");
    return valueOf(Native.strategy_create_values(this,
        new Functions.Cross((strategy, given) -> function.apply(new ValueContext(given))),
        Bridge.nanos(timeout)));
  }

  // ---- datasets

  /**
   * Cuts every batch of {@code dataset} over the replicas: b rows into slices of ceil(b /
   * replicas), trailing slices empty, never across batches. Several workers share the data by the
   * dataset's auto_shard_policy.
   */
  public DistributedDataset distribute(Dataset dataset) {
    return distribute(dataset, new InputOptions(), null);
  }

  /** As distribute, otherwise. */
  public DistributedDataset distribute(Dataset dataset, InputOptions options) {
    return distribute(dataset, options, null);
  }

  /** As distribute, waiting for at most {@code timeout}. */
  public DistributedDataset distribute(Dataset dataset, Duration timeout) {
    return distribute(dataset, new InputOptions(), timeout);
  }

  /** As distribute, otherwise. */
  public DistributedDataset distribute(Dataset dataset, InputOptions options, Duration timeout) {
    return new DistributedDataset(Box.at(Native.strategy_distribute_dataset(this, dataset,
        options.rebatchNumber(), options.prefetchNumber(), options.modeNumber(),
        options.placeNumber(), Bridge.nanos(timeout))));
  }

  /** One dataset per input pipeline; its elements go to the replicas one each, in turn. */
  public DistributedDataset distributeFromFunction(Function<InputContext, Dataset> function) {
    return distributeFromFunction(function, new InputOptions(), null);
  }

  /** As below, as long as it takes. */
  public DistributedDataset distributeFromFunction(
      Function<InputContext, Dataset> function, InputOptions options) {
    return distributeFromFunction(function, options, null);
  }

  /**
   * As distributeFromFunction, otherwise; nothing is rebatched. With PER_REPLICA the function is
   * called for each replica of this process, which gets what its own dataset gives. Where the data
   * ends in the middle of a step, replicas without any get batches of 0 rows, and zeros for
   * elements of rank 0.
   */
  public DistributedDataset distributeFromFunction(
      Function<InputContext, Dataset> function, InputOptions options, Duration timeout) {
    Objects.requireNonNull(function, "a function is needed, not null");
    return new DistributedDataset(Box.at(Native.strategy_distribute_datasets_from_function(this,
        new Functions.Cross((strategy, given) -> function.apply(new InputContext(given))),
        options.prefetchNumber(), options.modeNumber(), options.placeNumber(),
        Bridge.nanos(timeout))));
  }

  /**
   * The slices of tensors along axis 0, as of Dataset.fromTensorSlices, to batch and distribute:
   * what Value.of takes, of equal sizes along axis 0.
   */
  public Dataset makeNumpyDataset(Object tensors) {
    Objects.requireNonNull(tensors, "tensors are needed, not null");
    return Dataset.fromTensorSlices(tensors);
  }

  // ---- the end

  /** Stops and joins the replica threads; later calls are FAILED_PRECONDITION. */
  @Override
  public void close() {
    close(null);
  }

  /** As close, waiting for at most {@code timeout}. */
  public void close(Duration timeout) {
    if (!isClosed()) {
      try {
        Native.strategy_close(this, Bridge.nanos(timeout));
      } finally {
        release();
      }
    }
  }

  /** Wrappers of the same strategy are equal. */
  @Override
  public final boolean equals(Object other) {
    return other == this || (other instanceof Strategy strategy && strategy.address() == address());
  }

  @Override
  public final int hashCode() {
    return Long.hashCode(address());
  }

  @Override
  public String toString() {
    return isClosed() ? "Strategy (closed)" : Native.strategy_type_name(this) + " of "
        + replicaCount() + (replicaCount() == 1 ? " replica on " : " replicas on ")
        + String.join(", ", devices())
        + (workerCount() > 1 ? ", worker " + worker() + " of " + workerCount() : "");
  }
}
