package org.tutti;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.tutti.distribute.ReplicaContext;
import org.tutti.distribute.Strategy;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * A tensor that lives as long as training does, with one copy per replica.
 *
 * <p>Threads: any; in a replica function a write to an ON_WRITE variable is a step that all
 * replicas must take together.
 */
public final class Variable extends NativeObject implements AutoCloseable {
  /** When the copies are brought together. */
  public enum Synchronization {
    /** ON_WRITE. */
    AUTO,
    /** Never: a single copy, which only a strategy of one replica can have. */
    NONE,
    /** With each write, so that all are always equal. */
    ON_WRITE,
    /** When it is read outside of replica functions. */
    ON_READ
  }

  /** How the replicas' tensors become one. */
  public enum Aggregation {
    /** Not at all: writes that would need it are INVALID_ARGUMENT. */
    NONE,
    /** Added. */
    SUM,
    /** Added, and divided by their number. */
    MEAN,
    /** That of replica 0. */
    ONLY_FIRST_REPLICA
  }

  static {
    Makers.leave(Variable.class, Variable::new);
  }

  private Variable(Box box) {
    super(box);
  }

  /**
   * A variable of the current strategy (see Strategy.scope), with a copy of {@code initial} on
   * every replica: a tensor, a number, a primitive array, a direct buffer.
   */
  public static Variable of(Object initial) {
    return builder(initial).create();
  }

  /** As of, with more to say. */
  public static Builder builder(Object initial) {
    return new Builder(initial);
  }

  /** The options of a variable. */
  public static final class Builder {
    private final Object initial;
    private Strategy strategy;
    private String name;
    private Synchronization synchronization = Synchronization.AUTO;
    private Aggregation aggregation = Aggregation.NONE;
    private Boolean trainable;
    private long[] shape;
    private Duration timeout;

    private Builder(Object initial) {
      this.initial = initial;
    }

    /** Instead of the current one. */
    public Builder strategy(Strategy strategy) {
      this.strategy = strategy;
      return this;
    }

    /** For messages and checkpoints. */
    public Builder name(String name) {
      this.name = name;
      return this;
    }

    /** AUTO by default, which is ON_WRITE. */
    public Builder synchronization(Synchronization synchronization) {
      this.synchronization = synchronization;
      return this;
    }

    /** NONE by default. */
    public Builder aggregation(Aggregation aggregation) {
      this.aggregation = aggregation;
      return this;
    }

    /** True by default, false for ON_READ. */
    public Builder trainable(boolean trainable) {
      this.trainable = trainable;
      return this;
    }

    /**
     * What every value has to fit, -1 for a size that may change from one assignment to the next.
     * Without it the variable keeps the shape of its initial value.
     */
    public Builder shape(long... shape) {
      this.shape = shape.clone();
      return this;
    }

    /** Values of any shape: each assignment may bring another one. */
    public Builder anyShape() {
      this.shape = new long[] {Long.MIN_VALUE}; // facade/strategy.h
      return this;
    }

    /** How long create may wait for other workers and replicas. */
    public Builder timeout(Duration timeout) {
      this.timeout = timeout;
      return this;
    }

    /**
     * The variable. In a replica function all replicas must come here, and get the same one, whose
     * value is that of replica 0; INVALID_ARGUMENT naming both replicas where dtype, shape, name or
     * options differ. INVALID_ARGUMENT for a bad combination.
     */
    public Variable create() {
      final Strategy owner = strategy != null ? strategy : Strategy.current();
      final DeviceSpec device = DeviceSpec.current();
      try (Operand given = new Operand(initial)) {
        return new Variable(Box.at(Native.variable_create(owner, given.tensor, name,
            synchronization.ordinal() + 1, aggregation.ordinal() + 1, Bridge.tristate(trainable),
            shape != null, shape == null ? new long[0] : shape,
            device == null ? null : device.toString(), Bridge.nanos(timeout))));
      }
    }
  }

  // A tensor as it is, which stays open, or one made of another object.
  private static final class Operand implements AutoCloseable {
    final Tensor tensor;
    private final boolean made;

    Operand(Tensor tensor, boolean made) {
      this.tensor = tensor;
      this.made = made;
    }

    Operand(Object given) {
      made = !(given instanceof Tensor);
      if (!made) {
        tensor = (Tensor) given;
      } else if (given instanceof Value value) {
        tensor = value.asTensor().again();
      } else {
        tensor = given == null ? null : Value.tensorOf(given);
        if (tensor == null) {
          throw TuttiException.of(Code.INVALID_ARGUMENT, "a tensor, a number, a primitive array or "
              + "a direct buffer is needed, not " + given);
        }
      }
    }

    @Override
    public void close() {
      if (made) {
        tensor.close();
      }
    }
  }

  // ---- reading

  /**
   * A copy of the value: in a replica function of this replica's copy; outside, of the first one
   * (ON_WRITE) or of the copies aggregated (ON_READ).
   */
  public Tensor read() {
    return read(null);
  }

  /** As read, waiting for at most {@code timeout}. */
  public Tensor read(Duration timeout) {
    return Makers.tensor(Box.at(Native.variable_read(this, Bridge.nanos(timeout))));
  }

  /**
   * The live memory of this replica's copy (outside: of the first), read-only. INVALID_ARGUMENT for
   * byte strings.
   */
  public Tensor data() {
    return Makers.tensor(Box.at(Native.variable_data(this)));
  }

  /**
   * The live memory of all copies of this process. Byte strings, and a shape that leaves sizes
   * open, have none (OUT_OF_RANGE): Strategy.localResults gives them.
   */
  public List<Tensor> copies() {
    final List<Tensor> copies = new ArrayList<>();
    for (long i = 0; i < Native.variable_copy_count(this); ++i) {
      copies.add(Makers.tensor(Box.at(Native.variable_copy(this, i))));
    }
    return copies;
  }

  // ---- writing

  /**
   * Sets the value. In a replica function ON_WRITE aggregates the replicas' tensors, and all
   * replicas must come here; ON_READ writes this replica's copy. Outside every copy gets it. A
   * number is converted to the variable's dtype, which must hold it (Tensor.convert).
   */
  public Variable assign(Object value) {
    return assign(value, null);
  }

  /** As assign, waiting for at most {@code timeout} for the other replicas. */
  public Variable assign(Object value, Duration timeout) {
    try (Operand operand = converted(value)) {
      Native.variable_assign(this, operand.tensor, Bridge.nanos(timeout));
    }
    return this;
  }

  /** Adds, as assign. */
  public Variable assignAdd(Object delta) {
    return assignAdd(delta, null);
  }

  /** As assignAdd, waiting for at most {@code timeout} for the other replicas. */
  public Variable assignAdd(Object delta, Duration timeout) {
    try (Operand operand = converted(delta)) {
      Native.variable_assign_add(this, operand.tensor, Bridge.nanos(timeout));
    }
    return this;
  }

  /** Subtracts, as assign. */
  public Variable assignSub(Object delta) {
    return assignSub(delta, null);
  }

  /** As assignSub, waiting for at most {@code timeout} for the other replicas. */
  public Variable assignSub(Object delta, Duration timeout) {
    try (Operand operand = converted(delta)) {
      Native.variable_assign_sub(this, operand.tensor, Bridge.nanos(timeout));
    }
    return this;
  }

  /** How a sparse update changes a row by a row of values. */
  public enum Scatter {
    /** Added. */
    ADD,
    /** Subtracted. */
    SUB,
    /** Set; of an index that comes several times the last counts. */
    UPDATE,
    /** The smaller ones. */
    MIN,
    /** The larger ones. */
    MAX,
    /** Multiplied. */
    MUL,
    /** Divided; by an integer 0 is INVALID_ARGUMENT. */
    DIV
  }

  /**
   * Changes the rows that {@code sparseDelta} names: Value.indexedSlices of the variable's dtype
   * and row shape, of which every one counts, in their order, also where an index comes several
   * times. INVALID_ARGUMENT naming an index that is outside, before anything is written. In a
   * replica function ON_WRITE joins the slices of all replicas in their order, and all must come
   * here: all for SUM, divided by the number of replicas for MEAN, replica 0's for
   * ONLY_FIRST_REPLICA; SUM and MEAN are for ADD and SUB, else it is UNIMPLEMENTED. ON_READ changes
   * this replica's copy. Outside every copy is changed; ON_READ with SUM is INVALID_ARGUMENT.
   */
  public Variable scatter(Scatter how, Value sparseDelta) {
    return scatter(how, sparseDelta, null);
  }

  /** As scatter, waiting for at most {@code timeout} for the other replicas. */
  public Variable scatter(Scatter how, Value sparseDelta, Duration timeout) {
    Native.variable_scatter(this, how.ordinal() + 1, sparseDelta, Bridge.nanos(timeout));
    return this;
  }

  /** Adds rows, as scatter. */
  public Variable scatterAdd(Value sparseDelta) {
    return scatter(Scatter.ADD, sparseDelta);
  }

  /** Subtracts rows, as scatter. */
  public Variable scatterSub(Value sparseDelta) {
    return scatter(Scatter.SUB, sparseDelta);
  }

  /** Sets rows, as scatter. */
  public Variable scatterUpdate(Value sparseDelta) {
    return scatter(Scatter.UPDATE, sparseDelta);
  }

  /** Sets rows to the smaller ones, as scatter. */
  public Variable scatterMin(Value sparseDelta) {
    return scatter(Scatter.MIN, sparseDelta);
  }

  /** Sets rows to the larger ones, as scatter. */
  public Variable scatterMax(Value sparseDelta) {
    return scatter(Scatter.MAX, sparseDelta);
  }

  /** Multiplies rows, as scatter. */
  public Variable scatterMul(Value sparseDelta) {
    return scatter(Scatter.MUL, sparseDelta);
  }

  /** Divides rows, as scatter. */
  public Variable scatterDiv(Value sparseDelta) {
    return scatter(Scatter.DIV, sparseDelta);
  }

  // A number takes the variable's dtype.
  private Operand converted(Object given) {
    final Operand operand = new Operand(given);
    if (given instanceof Number && operand.tensor.dtype() != dtype()) {
      try (operand) {
        return new Operand(operand.tensor.convert(dtype()), true);
      }
    }
    return operand;
  }

  // ---- what it is

  /** The name. */
  public String name() {
    return Native.variable_name(this);
  }

  /** "name", "name/replica_1", ... */
  public List<String> copyNames() {
    final List<String> names = new ArrayList<>();
    for (long i = 0; i < Native.variable_copy_count(this); ++i) {
      names.add(Native.variable_copy_name(this, i));
    }
    return names;
  }

  /** Where this process's copies are placed: "/job:localhost/replica:0/task:0/device:CPU:0". */
  public List<String> copyDevices() {
    final List<String> devices = new ArrayList<>();
    for (long i = 0; i < Native.variable_copy_count(this); ++i) {
      devices.add(Native.variable_copy_device(this, i));
    }
    return devices;
  }

  /** Where this replica's copy (outside: the first) is placed. */
  public String device() {
    final ReplicaContext replica = ReplicaContext.current();
    final List<String> devices = copyDevices();
    return devices.get(replica == null ? 0 : replica.replicaId() % devices.size());
  }

  /** MIRRORED or SYNC_ON_READ; null where the strategy has no copies. */
  public Value.Distribution distribution() {
    return Value.Distribution.of(Native.variable_distribution(this));
  }

  /** What the elements are. */
  public DType dtype() {
    return DType.of(Native.variable_dtype(this));
  }

  /** The size of every axis, -1 where it may change; null for any shape. */
  public long[] shape() {
    final int rank = (int) Native.variable_rank(this);
    if (rank < 0) {
      return null;
    }
    final long[] shape = new long[rank];
    for (int i = 0; i < shape.length; ++i) {
      shape[i] = Native.variable_dim(this, i);
    }
    return shape;
  }

  /** When the copies are brought together. */
  public Synchronization synchronization() {
    return Synchronization.values()[Native.variable_synchronization(this) - 1];
  }

  /** How the replicas' tensors become one. */
  public Aggregation aggregation() {
    return Aggregation.values()[Native.variable_aggregation(this) - 1];
  }

  /** Whether training changes it. */
  public boolean isTrainable() {
    return Native.variable_is_trainable(this);
  }

  /** The strategy that it belongs to. */
  public Strategy strategy() {
    return Strategy.wrap(Native.variable_strategy(this));
  }

  /** Wrappers of the same variable are equal. */
  @Override
  public boolean equals(Object other) {
    return other == this || (other instanceof Variable variable && variable.address() == address());
  }

  @Override
  public int hashCode() {
    return Long.hashCode(address());
  }

  /** For people. */
  @Override
  public String toString() {
    return isClosed() ? "Variable (closed)" : Bridge.text(Native.variable_to_string(this));
  }

  @Override
  public void close() {
    release();
  }
}
