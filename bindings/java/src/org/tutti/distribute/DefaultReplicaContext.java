package org.tutti.distribute;

import java.time.Duration;
import org.tutti.ReduceOp;
import org.tutti.Value;

/** The replica context outside of every strategy: one replica, which has nobody to wait for. */
final class DefaultReplicaContext extends ReplicaContext {
  DefaultReplicaContext() {
    super(0);
  }

  @Override
  public int replicaId() {
    return 0;
  }

  @Override
  public int replicaCount() {
    return 1;
  }

  @Override
  public long globalRows() {
    return -1;
  }

  @Override
  public String device() {
    return "";
  }

  @Override
  public boolean isCancelled() {
    return false;
  }

  @Override
  public Strategy strategy() {
    return Strategy.current();
  }

  @Override
  Value reduced(ReduceOp op, Object value, long nanos, CommunicationOptions options) {
    return Value.of(value);
  }

  @Override
  Value gathered(Object value, int axis, long nanos, CommunicationOptions options) {
    return Value.of(value);
  }

  @Override
  public Value mergeCall(MergeFunction function, Object argument, Duration timeout) {
    final Strategy strategy = Strategy.current();
    final Object before = Scope.enter(strategy);
    try (Value given = Value.of(argument)) {
      return Value.of(function.merge(strategy, given));
    } catch (RuntimeException failed) {
      throw failed;
    } catch (Exception failed) {
      throw Functions.failureOf(failed);
    } finally {
      Scope.leave(before);
    }
  }

  @Override
  public String toString() {
    return "ReplicaContext of the default strategy";
  }
}
