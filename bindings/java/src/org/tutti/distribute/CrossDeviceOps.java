package org.tutti.distribute;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.ToLongFunction;
import org.tutti.Code;
import org.tutti.ReduceOp;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * How values of a strategy's replicas become one on some devices, and how one gets to several:
 * MirroredStrategy.with takes one. A class of one's own defines reduceImplementation, perhaps the
 * others; they run in cross-replica context, possibly on several threads at once, where run and
 * collectives are FAILED_PRECONDITION. What they give has the dtype and shape of the replicas'
 * values, one tensor or, for several destinations, a distributed value; anything else is
 * INVALID_ARGUMENT for who asked. Where the call has a deadline they run on another thread than the
 * caller's, who gets DEADLINE_EXCEEDED then; what they give later is dropped.
 *
 * <p>Destinations say where: a distributed value and a mirrored variable stand for the replicas'
 * devices, another variable for its device, another value for the host, a text for the device of
 * that name. They are not written.
 */
public abstract class CrossDeviceOps {
  /** A value and where it is to be reduced to. */
  public record Pair(Object value, Object destinations) { }

  /** The library's object for some ops. */
  static final class Reducer extends NativeObject implements AutoCloseable {
    Reducer(long box) {
      super(Box.at(box));
    }

    @Override
    public void close() {
      release();
    }
  }

  /** For classes of one's own. */
  protected CrossDeviceOps() {}

  // Calls `call` with the library's object. What that keeps of a program's ops is the ops; the ops
  // keep nothing of it, so that both can end.
  long with(ToLongFunction<Reducer> call) {
    final String simple = getClass().getSimpleName();
    try (Reducer made = new Reducer(Native.reducer_create(
             new Functions.Ops(this), simple.isEmpty() ? "CrossDeviceOps" : simple))) {
      return call.applyAsLong(made);
    }
  }

  private static Strategy strategy(String what) {
    final Object scope = Scope.current();
    if (scope instanceof Strategy strategy) {
      return strategy;
    }
    if (scope instanceof UpdateContext update) {
      return update.strategy();
    }
    throw TuttiException.of(Code.FAILED_PRECONDITION, what
        + " can be called in cross-replica context only: in a strategy's scope, a merge function "
        + "or an update function");
  }

  /**
   * op of a distributed value or a variable, on the destinations: a tensor on one device, mirrored
   * on several. In cross-replica context only. Of another value MEAN is the value, and SUM
   * INVALID_ARGUMENT with several replicas; so are values and destinations that are none.
   */
  public final Value reduce(ReduceOp op, Object value, Object destinations) {
    return reduce(op, value, destinations, null);
  }

  /** As reduce, with options (null: none). */
  public final Value reduce(
      ReduceOp op, Object value, Object destinations, CommunicationOptions options) {
    final Strategy strategy = strategy("CrossDeviceOps.reduce");
    final long nanos = Bridge.nanos(options, null);
    try (Value given = Value.of(value); Value where = Value.of(destinations)) {
      return Makers.value(Box.at(with(reducer -> Bridge.hinted(options,
          () -> Native.reducer_reduce(reducer, strategy, op.number(), given, where, nanos)))));
    }
  }

  /** reduce of many pairs at once: a result for each. */
  public final List<Value> batchReduce(
      ReduceOp op, List<Pair> pairs, CommunicationOptions options) {
    final Strategy strategy = strategy("CrossDeviceOps.batchReduce");
    final long nanos = Bridge.nanos(options, null);
    try (Value given = valueOf(pairs)) {
      return Makers.value(Box.at(with(reducer -> Bridge.hinted(options,
          () -> Native.reducer_batch_reduce(reducer, strategy, op.number(), given, nanos)))))
          .asList();
    }
  }

  /** A tensor on the destinations. In cross-replica context only. */
  public final Value broadcast(Object tensor, Object destinations) {
    final Strategy strategy = strategy("CrossDeviceOps.broadcast");
    try (Value given = Value.of(tensor); Value where = Value.of(destinations)) {
      return Makers.value(Box.at(with(reducer -> Native.reducer_broadcast(
          reducer, strategy, given, where, Bridge.UNSET))));
    }
  }

  static Value valueOf(List<Pair> pairs) {
    final List<Object> parts = new ArrayList<>();
    for (Pair pair : Objects.requireNonNull(pairs, "a list of pairs is needed, not null")) {
      parts.add(Value.tuple(pair.value(), pair.destinations()));
    }
    return Value.tuple(parts.toArray());
  }

  /**
   * What reduce does.
   *
   * @param op SUM or MEAN, or what an allReduce of replicas asks for
   * @param value a tensor of each replica, distributed
   * @param destinations where the result is to be
   * @param options of the call
   * @return what Value.of takes
   * @throws Exception fails the call
   */
  public abstract Object reduceImplementation(ReduceOp op, Value value, Value destinations,
      CommunicationOptions options) throws Exception;

  /** What batchReduce does; by default reduceImplementation of each pair of values. */
  public List<?> batchReduceImplementation(
      ReduceOp op, List<Pair> pairs, CommunicationOptions options) throws Exception {
    final List<Object> results = new ArrayList<>();
    for (Pair pair : pairs) {
      results.add(reduceImplementation(
          op, (Value) pair.value(), (Value) pair.destinations(), options));
    }
    return results;
  }

  /** What broadcast does; by default the tensor itself for each device. */
  public Object broadcastImplementation(Value tensor, Value destinations) throws Exception {
    return tensor;
  }
}
