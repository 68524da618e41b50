package org.tutti.distribute;

import java.util.function.ToLongFunction;
import org.tutti.ReduceOp;
import org.tutti.Value;
import org.tutti.internal.Bridge;
import org.tutti.internal.Loader;
import org.tutti.internal.Native;

/** Cross-device ops of the library's. */
abstract class LibraryOps extends CrossDeviceOps {
  static {
    Loader.load();
  }

  private final Reducer reducer;

  LibraryOps(long box) {
    reducer = new Reducer(box);
  }

  @Override
  final long with(ToLongFunction<Reducer> call) {
    return call.applyAsLong(reducer);
  }

  @Override
  public final Object reduceImplementation(
      ReduceOp op, Value value, Value destinations, CommunicationOptions options) {
    return reduce(op, value, destinations, options);
  }

  @Override
  public final String toString() {
    return Bridge.text(Native.reducer_to_string(reducer));
  }
}
