package org.tutti.distribute;

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
    return new OneDeviceStrategy(Box.at(Native.strategy_one_device(device, null, Bridge.UNSET)));
  }
}
