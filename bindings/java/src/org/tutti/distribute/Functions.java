package org.tutti.distribute;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.tutti.DeviceSpec;
import org.tutti.ReduceOp;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.Variable;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Callback;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;

/** The lambdas of this package as callbacks, each with the scope that it runs in. */
final class Functions {
  private Functions() {}

  static Value argumentOf(long box) {
    return box == 0 ? null : Makers.value(Box.at(box));
  }

  // The address of the value, with a reference for the library. What the function gave stays open:
  // it may belong to somebody else, another replica for one.
  static long resultOf(Object result) {
    if (result == null) {
      return 0;
    }
    if (result instanceof Value value) {
      return Native.value_retain(value);
    }
    try (Value value = Value.of(result)) {
      return Native.value_retain(value);
    }
  }

  /** What run throws for an exception of a function, where no library is in between. */
  static TuttiException failureOf(Exception failed) {
    return TuttiException.of(Bridge.codeOf(failed), failed.toString(), Map.of(), failed);
  }

  static final class Replica extends Callback {
    private final ReplicaFunction function;
    private final boolean leavesDeviceScope;

    // leavesDeviceScope: the caller is in a scope that its replicas are not.
    Replica(ReplicaFunction function, boolean leavesDeviceScope) {
      this.leavesDeviceScope = leavesDeviceScope;
      this.function = Objects.requireNonNull(function, "a replica function is needed, not null");
    }

    @Override
    public long call(int kind, long context, long in) throws Throwable {
      final ReplicaContext replica = new ReplicaContext(context);
      final Object before = Scope.enter(replica);
      // It begins on its replica's device; replica 0's thread is the caller's.
      final DeviceSpec.Scope devices =
          leavesDeviceScope ? DeviceSpec.scope((DeviceSpec) null) : null;
      try (Value argument = argumentOf(in)) {
        return resultOf(function.run(replica, argument));
      } finally {
        if (devices != null) {
          devices.close();
        }
        Scope.leave(before);
        replica.end();
      }
    }
  }

  /** A function in cross-replica context. */
  interface CrossReplica {
    Object call(Strategy strategy, Value argument) throws Exception;
  }

  static final class Cross extends Callback {
    private final CrossReplica function;

    Cross(CrossReplica function) {
      this.function = function;
    }

    @Override
    public long call(int kind, long context, long in) throws Throwable {
      final Strategy strategy = Strategy.wrap(Native.context_strategy(context));
      final Object before = Scope.enter(strategy);
      try (Value argument = argumentOf(in)) {
        return resultOf(function.call(strategy, argument));
      } finally {
        Scope.leave(before);
      }
    }
  }

  /** For one device of a variable, or with a null variable for a device. */
  static final class Update extends Callback {
    private final UpdateFunction function;
    private final Variable variable;
    private final boolean inDeviceScope = DeviceSpec.current() != null;

    Update(UpdateFunction function, Variable variable) {
      this.function = Objects.requireNonNull(function, "an update function is needed, not null");
      this.variable = variable;
    }

    @Override
    public long call(int kind, long context, long in) throws Throwable {
      final UpdateContext update =
          new UpdateContext(Strategy.wrap(Native.context_strategy(context)), context);
      final Object before = Scope.enter(update);
      // It begins on the device that it updates.
      final DeviceSpec.Scope devices =
          inDeviceScope ? DeviceSpec.scope((DeviceSpec) null) : null;
      final int place = variable == null ? 0 : 1; // of the argument among those of the function
      try (Value given = argumentOf(in);
           Value argument = given != null && given.kind() == Value.Kind.TUPLE
                   && given.size() > place ? given.get(place) : Value.of(null)) {
        return resultOf(function.update(update, variable, argument));
      } finally {
        if (devices != null) {
          devices.close();
        }
        Scope.leave(before);
        update.end();
      }
    }
  }

  /** Cross-device ops of a program; the library asks as facade/extended.h says. */
  static final class Ops extends Callback {
    private final CrossDeviceOps ops;

    Ops(CrossDeviceOps ops) {
      this.ops = ops;
    }

    @Override
    public long call(int kind, long context, long in) throws Throwable {
      final Object before = Scope.enter(Strategy.wrap(Native.context_strategy(context)));
      try (Value given = argumentOf(in);
           Value value = given.get(1);
           Value destinations = given.get(2)) {
        final String[] asked = given.get(0).stringValue().split(" ");
        if (asked[0].equals("broadcast")) {
          return resultOf(ops.broadcastImplementation(value, destinations));
        }
        final ReduceOp op = ReduceOp.values()[Integer.parseInt(asked[1]) - 1];
        final int implementation = Math.max(Integer.parseInt(asked[2]) - 1, 0);
        final CommunicationOptions options = new CommunicationOptions(Long.parseLong(asked[3]),
            null, CommunicationOptions.Implementation.values()[implementation]);
        if (asked[0].equals("reduce")) {
          return resultOf(ops.reduceImplementation(op, value, destinations, options));
        }
        final List<CrossDeviceOps.Pair> pairs = new ArrayList<>();
        for (Value pair : value.asList()) {
          pairs.add(new CrossDeviceOps.Pair(pair.get(0), pair.get(1)));
        }
        return resultOf(
            Value.tuple(ops.batchReduceImplementation(op, pairs, options).toArray()));
      } finally {
        Scope.leave(before);
      }
    }
  }
}
