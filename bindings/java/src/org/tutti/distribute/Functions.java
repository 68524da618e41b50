package org.tutti.distribute;

import java.util.Map;
import java.util.Objects;
import org.tutti.DeviceSpec;
import org.tutti.TuttiException;
import org.tutti.Value;
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
    private final DeviceSpec device = DeviceSpec.current();

    Replica(ReplicaFunction function) {
      this.function = Objects.requireNonNull(function, "a replica function is needed, not null");
    }

    @Override
    public long call(int kind, long context, long in) throws Throwable {
      final ReplicaContext replica = new ReplicaContext(context);
      final Object before = Scope.enter(replica);
      final DeviceSpec.Scope devices = device == null ? null : DeviceSpec.scope(device);
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
}
