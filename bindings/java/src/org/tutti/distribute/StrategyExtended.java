package org.tutti.distribute;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.tutti.Code;
import org.tutti.ReduceOp;
import org.tutti.Tensor;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.Variable;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;

/**
 * What a strategy does on devices, for libraries that are built upon it. Destinations are as in
 * CrossDeviceOps. All calls are made in cross-replica context; elsewhere they are
 * FAILED_PRECONDITION.
 */
public final class StrategyExtended {
  private final Strategy strategy;

  StrategyExtended(Strategy strategy) {
    this.strategy = strategy;
  }

  // ---- devices

  /** The devices of this process's replicas, "/job:localhost/replica:0/task:0/device:CPU:0". */
  public List<String> workerDevices() {
    final List<String> devices = new ArrayList<>();
    for (int i = 0; i < strategy.localReplicaCount(); ++i) {
      devices.add(Native.strategy_full_worker_device(strategy, i));
    }
    return devices;
  }

  /** The devices that variables lie on, in the same form. */
  public List<String> parameterDevices() {
    final List<String> devices = new ArrayList<>();
    for (String device = Native.strategy_parameter_device(strategy, 0); device != null;
         device = Native.strategy_parameter_device(strategy, devices.size())) {
      devices.add(device);
    }
    return devices;
  }

  /**
   * Where what belongs to no single one of the variables goes: the parameter devices.
   * INVALID_ARGUMENT for a variable of another strategy.
   */
  public List<String> nonSlotDevices(List<Variable> variables) {
    for (Variable variable : variables) {
      if (!variableCreatedInScope(variable)) {
        throw TuttiException.of(Code.INVALID_ARGUMENT, "nonSlotDevices: variable "
            + variable.name() + " belongs to another strategy than " + strategy);
      }
    }
    return parameterDevices();
  }

  /** False: shapes may differ from step to step. */
  public boolean experimentalRequireStaticShapes() {
    return false;
  }

  // ---- values

  /**
   * SUM or MEAN of what the replicas of all workers have in {@code value}, on the destinations: a
   * tensor on one device, mirrored on several. Of a value that is not distributed MEAN is the
   * value, and SUM INVALID_ARGUMENT with several replicas; so are another number of components,
   * other shapes or dtypes, a variable of another strategy, destinations that are none.
   */
  public Value reduceTo(ReduceOp op, Object value, Object destinations) {
    return reduceTo(op, value, destinations, null, null);
  }

  /** As reduceTo, with options. */
  public Value reduceTo(
      ReduceOp op, Object value, Object destinations, CommunicationOptions options) {
    return reduceTo(op, value, destinations, options, null);
  }

  /** As reduceTo, with options (null: the strategy's), for at most {@code timeout}. */
  public Value reduceTo(ReduceOp op, Object value, Object destinations,
      CommunicationOptions options, Duration timeout) {
    final long nanos = CommunicationOptions.nanosOf(strategy, options, timeout);
    try (Value given = Value.of(value); Value where = Value.of(destinations)) {
      return Makers.value(Box.at(Bridge.hinted(options, () -> Native.strategy_reduce_to(
          strategy, op.number(), given, where, nanos))));
    }
  }

  /** reduceTo of many pairs at once: a result for each. */
  public List<Value> batchReduceTo(ReduceOp op, List<CrossDeviceOps.Pair> pairs) {
    return batchReduceTo(op, pairs, null, null);
  }

  /** As above, with options (null: the strategy's), for at most {@code timeout}. */
  public List<Value> batchReduceTo(ReduceOp op, List<CrossDeviceOps.Pair> pairs,
      CommunicationOptions options, Duration timeout) {
    final long nanos = CommunicationOptions.nanosOf(strategy, options, timeout);
    try (Value given = CrossDeviceOps.valueOf(pairs)) {
      return Makers.value(Box.at(Bridge.hinted(options, () -> Native.strategy_batch_reduce_to(
          strategy, op.number(), given, nanos)))).asList();
    }
  }

  /** A tensor on the destinations of this process. */
  public Value broadcastTo(Object tensor, Object destinations) {
    try (Value given = Value.of(tensor); Value where = Value.of(destinations)) {
      return Makers.value(Box.at(
          Native.strategy_broadcast_to(strategy, given, where, Bridge.UNSET)));
    }
  }

  /**
   * What the value is a part of: the variable that a tensor of its copies is one of, by its memory,
   * else the value itself.
   */
  public Object valueContainer(Object value) {
    if (!(value instanceof Tensor tensor)) {
      return value;
    }
    try {
      return Makers.variable(Box.at(Native.strategy_find_variable(strategy, tensor)));
    } catch (TuttiException failed) {
      if (failed.code() != Code.NOT_FOUND) {
        throw failed;
      }
      return value;
    }
  }

  // ---- updates

  /** As below, without an argument, with grouped results and without limit. */
  public Value update(Variable variable, UpdateFunction function) {
    return update(variable, function, null, true, null);
  }

  /** As below, as long as it takes. */
  public Value update(
      Variable variable, UpdateFunction function, Object argument, boolean group) {
    return update(variable, function, argument, group, null);
  }

  /** As below, with grouped results and without limit. */
  public Value update(Variable variable, UpdateFunction function, Object argument) {
    return update(variable, function, argument, true, null);
  }

  /**
   * Calls {@code function} for each device of this process that the variable has a copy on, one
   * after the other, in an update context: reads and writes of variables are those of the copy on
   * that device, whatever their aggregation, and each device gets its component of what is
   * distributed in the argument.
   *
   * <p>group: the results as one value, mirrored where no argument differs between devices; else a
   * tuple with one for each device. The first error ends it. INVALID_ARGUMENT for a variable of
   * another strategy, and for distributed arguments where there is one copy.
   */
  public Value update(Variable variable, UpdateFunction function, Object argument, boolean group,
      Duration timeout) {
    Objects.requireNonNull(variable, "a variable is needed, not null");
    try (Value given = argument == null ? null : Value.tuple(argument)) {
      return valueOf(Native.strategy_update(strategy, variable,
          new Functions.Update(function, variable), given, Bridge.tristate(group),
          Bridge.nanos(timeout)));
    }
  }

  /** As below, without an argument, with grouped results and without limit. */
  public Value updateNonSlot(Object colocateWith, UpdateFunction function) {
    return updateNonSlot(colocateWith, function, null, true, null);
  }

  /** As below, with grouped results and without limit. */
  public Value updateNonSlot(Object colocateWith, UpdateFunction function, Object argument) {
    return updateNonSlot(colocateWith, function, argument, true, null);
  }

  /**
   * The same without a variable, on each device that {@code colocateWith} stands for: destinations,
   * or what nonSlotDevices gave.
   */
  public Value updateNonSlot(Object colocateWith, UpdateFunction function, Object argument,
      boolean group, Duration timeout) {
    try (Value where = Value.of(colocateWith);
         Value given = argument == null ? null : Value.tuple(argument)) {
      return valueOf(Native.strategy_update_non_slot(strategy, where,
          new Functions.Update(function, null), given, Bridge.tristate(group),
          Bridge.nanos(timeout)));
    }
  }

  private static Value valueOf(long box) {
    return box == 0 ? Value.of(null) : Makers.value(Box.at(box));
  }

  // ---- variables

  /**
   * A scope, inside that of the strategy alone (FAILED_PRECONDITION), in which variables are made
   * where {@code variable} lies; INVALID_ARGUMENT when that belongs to another strategy. All
   * variables of a strategy lie on its parameter devices.
   */
  public Strategy.InScope colocateVarsWith(Variable variable) {
    if (!strategy.equals(Scope.current())) {
      throw TuttiException.of(Code.FAILED_PRECONDITION,
          "colocateVarsWith must be used inside the scope of " + strategy);
    }
    Native.strategy_colocate_vars_with(strategy, variable);
    return () -> { };
  }

  /** Whether a variable was made in this strategy's scope. */
  public boolean variableCreatedInScope(Variable variable) {
    return Native.strategy_created_variable(strategy, variable) != 0;
  }

  // ---- replicas

  /** Strategy.run. */
  public Value callForEachReplica(ReplicaFunction function, Object argument) {
    return strategy.run(function, argument);
  }
}
