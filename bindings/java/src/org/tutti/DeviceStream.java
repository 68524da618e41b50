package org.tutti;

import java.time.Duration;
import java.util.function.Supplier;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * A stream of a GPU, on which work is done in the order of the calls, later than they return.
 * Threads: any.
 */
public final class DeviceStream extends NativeObject implements AutoCloseable {
  private static final ThreadLocal<DeviceStream> ORDER = new ThreadLocal<>();

  private DeviceStream(Box box) {
    super(box);
  }

  /**
   * A new stream of the GPU {@code device}, "GPU:0". INVALID_ARGUMENT for a CPU, NOT_FOUND names
   * the devices that there are.
   */
  public static DeviceStream on(String device) {
    return new DeviceStream(Box.at(Native.stream_create(device)));
  }

  /**
   * A stream of another library's on the same device, by CUDA's handle: 1 is the default stream, 2
   * that of the calling thread; INVALID_ARGUMENT for 0 and for another device's. It stays its
   * owner's, who must not destroy it before close().
   */
  public static DeviceStream wrap(String device, long handle) {
    return new DeviceStream(Box.at(Native.stream_wrap(device, handle)));
  }

  /** The stream on which the library works on a device by itself. */
  public static DeviceStream of(String device) {
    return new DeviceStream(Box.at(Native.device_stream(device)));
  }

  /** The same of the device that CUDA numbers so, as DLPack does. */
  public static DeviceStream ofCudaDevice(long index) {
    return new DeviceStream(Box.at(Native.device_find_stream(index)));
  }

  /** CUDA's handle. */
  public long handle() {
    return Native.stream_handle(this);
  }

  /** The device's short name, "GPU:0". */
  public String device() {
    return Native.stream_device(this);
  }

  /** Waits until all that has been given to it is done; DATA_LOSS for an error of that work. */
  public void synchronize() {
    synchronize(null);
  }

  /** The same until a timeout (null: none), which is DEADLINE_EXCEEDED; the work goes on. */
  public void synchronize(Duration timeout) {
    Native.stream_synchronize(this, Bridge.nanos(timeout));
  }

  /** What is given to it later runs after the event, of whichever device. Does not wait. */
  public void waitFor(DeviceEvent event) {
    Native.stream_wait_event(this, event);
  }

  /** What is given to it later runs after all that {@code earlier} has now. Does not wait. */
  public void waitFor(DeviceStream earlier) {
    Native.stream_wait_stream(this, earlier);
  }

  /**
   * Makes calls of communicators in the order of this stream, on this thread: each comes behind
   * what has been given to the stream before, and what is given to it afterwards comes behind the
   * results: after the call, or after its future is done. INVALID_ARGUMENT for calls whose tensors
   * do not lie on its GPU. A scope inside another one takes its place.
   *
   * @return what {@code calls} gives
   */
  public <T> T order(Supplier<T> calls) {
    final DeviceStream before = ORDER.get();
    Native.order_calls(this);
    ORDER.set(this);
    try {
      return calls.get();
    } finally {
      ORDER.set(before);
      Native.order_calls(before);
    }
  }

  /** The same without a result. */
  public void order(Runnable calls) {
    order(() -> {
      calls.run();
      return null;
    });
  }

  /** Ends the reference; what was given to the stream goes on. */
  @Override
  public void close() {
    release();
  }
}
