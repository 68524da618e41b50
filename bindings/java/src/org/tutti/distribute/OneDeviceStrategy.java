package org.tutti.distribute;

import java.time.Duration;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;

/** Everything on one device. */
public final class OneDeviceStrategy extends Strategy {
  private OneDeviceStrategy(Box box) {
    super(box);
  }

  /** On a device such as "CPU:0". */
  public static OneDeviceStrategy of(String device) {
    return create(null, null, device);
  }

  /** As of, with a name for messages. */
  public static OneDeviceStrategy named(String name, String device) {
    return create(name, null, device);
  }

  /** As named, waiting for at most {@code timeout}. */
  public static OneDeviceStrategy create(String name, Duration timeout, String device) {
    return new OneDeviceStrategy(
        Box.at(Native.strategy_one_device(device, name, Bridge.nanos(timeout))));
  }
}
