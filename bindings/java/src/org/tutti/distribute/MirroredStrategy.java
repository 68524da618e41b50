package org.tutti.distribute;

import java.time.Duration;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;

/** One replica per device, variables mirrored on all. */
public final class MirroredStrategy extends Strategy {
  /** How gradients are brought together. */
  public enum CrossDeviceOps {
    /** The library chooses. */
    AUTO,
    /** All to one device and back, as ReductionToOneDevice. */
    REDUCTION_TO_ONE_DEVICE
  }

  private MirroredStrategy(Box box) {
    super(box);
  }

  /** On devices such as "CPU:0", "CPU:1"; none: all GPUs, else the CPU. */
  public static MirroredStrategy of(String... devices) {
    return create(null, CrossDeviceOps.AUTO, devices);
  }

  /** As of, with another way to bring gradients together. */
  public static MirroredStrategy of(CrossDeviceOps ops, String... devices) {
    return create(null, ops, devices);
  }

  /** As of, with a name for messages. */
  public static MirroredStrategy named(String name, String... devices) {
    return create(name, CrossDeviceOps.AUTO, devices);
  }

  /** As of, with a name for messages; ops: null for AUTO. */
  public static MirroredStrategy create(String name, CrossDeviceOps ops, String... devices) {
    return create(name, ops, null, devices);
  }

  /** As above, waiting for at most {@code timeout}. */
  public static MirroredStrategy create(
      String name, CrossDeviceOps ops, Duration timeout, String... devices) {
    return new MirroredStrategy(
        Box.at(Native.strategy_mirrored(
            devices, ops == null ? 1 : ops.ordinal() + 1, null, name, Bridge.nanos(timeout))));
  }

  /**
   * As of, with cross-device ops (null: the library chooses), by which reduce and reduceTo, writes
   * of replicas into variables and their allReduce of SUM and MEAN go: explain says for which
   * tensors.
   */
  public static MirroredStrategy with(
      org.tutti.distribute.CrossDeviceOps ops, String... devices) {
    return ops == null ? of(devices) : new MirroredStrategy(Box.at(ops.with(reducer ->
        Native.strategy_mirrored(devices, 1, reducer, null, Bridge.UNSET))));
  }
}
