package org.tutti.distribute;

import java.time.Duration;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;

/**
 * One replica per device, variables on one device: each has one copy, for which the replicas'
 * writes are aggregated, and which is updated once. An ON_READ variable has a copy for each replica
 * all the same, on that device.
 */
public final class CentralStorageStrategy extends Strategy {
  private CentralStorageStrategy(Box box) {
    super(box);
  }

  /** Replicas on devices such as "CPU:0", "CPU:1" (none: all GPUs, else the CPU). */
  public static CentralStorageStrategy of(String... computeDevices) {
    return create(null, null, null, computeDevices);
  }

  /** As of, with variables on a device. */
  public static CentralStorageStrategy on(String parameterDevice, String... computeDevices) {
    return create(null, parameterDevice, null, computeDevices);
  }

  /** As of, with variables on a device (null: the CPU), and a name for messages. */
  public static CentralStorageStrategy create(
      String name, String parameterDevice, Duration timeout, String... computeDevices) {
    return new CentralStorageStrategy(Box.at(Native.strategy_central_storage(
        computeDevices, parameterDevice, null, name, Bridge.nanos(timeout))));
  }
}
