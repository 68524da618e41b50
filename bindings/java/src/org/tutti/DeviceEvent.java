package org.tutti;

import java.time.Duration;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * A point in the work of a stream of a GPU. Until it is recorded it counts as reached. Threads:
 * any; record one at a time.
 */
public final class DeviceEvent extends NativeObject implements AutoCloseable {
  private DeviceEvent(Box box) {
    super(box);
  }

  /** An event of the GPU {@code device}. */
  public static DeviceEvent on(String device) {
    return new DeviceEvent(Box.at(Native.event_create(device, Bridge.tristate(false))));
  }

  /** One that elapsed takes. */
  public static DeviceEvent timed(String device) {
    return new DeviceEvent(Box.at(Native.event_create(device, Bridge.tristate(true))));
  }

  /**
   * It is reached when what has been given to {@code stream} is done. INVALID_ARGUMENT for a stream
   * of another device.
   */
  public void record(DeviceStream stream) {
    Native.event_record(this, stream);
  }

  /** Whether it is reached. */
  public boolean isReached() {
    return Native.event_query(this) != 0;
  }

  /** Waits until it is reached, or a timeout (null: none); errors as DeviceStream.synchronize. */
  public void synchronize(Duration timeout) {
    Native.event_synchronize(this, Bridge.nanos(timeout));
  }

  /** The time of the device from this event to a later one; both timed, and reached. */
  public Duration elapsed(DeviceEvent end) {
    return Duration.ofNanos(Native.event_read_elapsed(this, end));
  }

  /** Ends the reference. */
  @Override
  public void close() {
    release();
  }
}
