package org.tutti;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.tutti.distribute.ReplicaContext;
import org.tutti.distribute.UpdateContext;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * A device name, /job:worker/replica:0/task:1/device:GPU:0, of which every part may be left out
 * (null). Immutable.
 *
 * @param job "worker", "ps" and so on
 * @param replica of the job
 * @param task of the job
 * @param deviceType "CPU" or "GPU", in upper case
 * @param deviceIndex among the devices of that type
 */
public record DeviceSpec(
    String job, Long replica, Long task, String deviceType, Long deviceIndex) {
  private static final int REPLICA = 0;
  private static final int TASK = 1;
  private static final int DEVICE_INDEX = 2;

  private static final ThreadLocal<DeviceSpec> CURRENT = new ThreadLocal<>();
  private static final Map<String, DeviceSpec> BY_NAME = new ConcurrentHashMap<>();

  /** INVALID_ARGUMENT names the part that cannot be. */
  public DeviceSpec {
    try (Handle made = new Handle(
             Native.device_spec_create(job, replica, task, deviceType, deviceIndex))) {
      job = Native.device_spec_job(made);
      deviceType = Native.device_spec_type(made);
    }
  }

  /** Of which nothing is known: {@code new DeviceSpec().withJob("ps").withTask(0L)}. */
  public DeviceSpec() {
    this(null, null, null, null, null);
  }

  private static final class Handle extends NativeObject implements AutoCloseable {
    Handle(long box) {
      super(Box.at(box));
    }

    DeviceSpec spec() {
      return new DeviceSpec(Native.device_spec_job(this), number(REPLICA), number(TASK),
          Native.device_spec_type(this), number(DEVICE_INDEX));
    }

    private Long number(int part) {
      final long number = Native.device_spec_number(this, part);
      return number < 0 ? null : number;
    }

    @Override
    public void close() {
      release();
    }
  }

  private Handle handle() {
    return new Handle(Native.device_spec_create(job, replica, task, deviceType, deviceIndex));
  }

  /**
   * The spec of "/job:ps/device:GPU:0", "/GPU:0" or "CPU:1"; INVALID_ARGUMENT names the part that
   * does not read.
   */
  public static DeviceSpec parse(String text) {
    try (Handle parsed = new Handle(Native.device_spec_parse(text))) {
      return parsed.spec();
    }
  }

  /** {@code inner} where it says something, else this one: how nested scopes combine. */
  public DeviceSpec merge(DeviceSpec inner) {
    try (Handle left = handle(); Handle right = inner.handle();
         Handle merged = new Handle(Native.device_spec_merge(left, right))) {
      return merged.spec();
    }
  }

  /** As merge, of a name. */
  public DeviceSpec merge(String inner) {
    return merge(parse(inner));
  }

  /** The same with another job. */
  public DeviceSpec withJob(String job) {
    return new DeviceSpec(job, replica, task, deviceType, deviceIndex);
  }

  /** The same with another replica. */
  public DeviceSpec withReplica(Long replica) {
    return new DeviceSpec(job, replica, task, deviceType, deviceIndex);
  }

  /** The same with another task. */
  public DeviceSpec withTask(Long task) {
    return new DeviceSpec(job, replica, task, deviceType, deviceIndex);
  }

  /** The same with another device type. */
  public DeviceSpec withDeviceType(String deviceType) {
    return new DeviceSpec(job, replica, task, deviceType, deviceIndex);
  }

  /** The same with another device index. */
  public DeviceSpec withDeviceIndex(Long deviceIndex) {
    return new DeviceSpec(job, replica, task, deviceType, deviceIndex);
  }

  /** The full form, "/job:ps/device:GPU:0". */
  @Override
  public String toString() {
    try (Handle handle = handle()) {
      return Native.device_spec_text(handle);
    }
  }

  // ---- scopes

  /** What ends a device scope. */
  public interface Scope extends AutoCloseable {
    @Override
    void close();
  }

  /**
   * A device scope of the thread, until it is closed: {@code try (var scope =
   * DeviceSpec.scope("CPU:1"))}. Nested scopes merge, the inner one wins; null clears. A replica or
   * update function begins on its device, whatever scope it is called in.
   *
   * <p>What is made inside lies on that device: tensors, variables and datasets, and what run runs,
   * where no strategy's scope says otherwise, for a strategy has devices of its own. A device that
   * is not there is no error here, but NOT_FOUND of what is made on it first, which names the
   * devices that there are (TuttiRuntime.setSoftDevicePlacement takes the CPU instead); a device of
   * another job is UNIMPLEMENTED.
   */
  public static Scope scope(String name) {
    return scope(name == null ? null : parse(name));
  }

  /** A scope that clears those around it, as outside of any. */
  public static Scope noScope() {
    return scope((DeviceSpec) null);
  }

  /** As above, of a spec. */
  public static Scope scope(DeviceSpec spec) {
    final DeviceSpec before = CURRENT.get();
    final DeviceSpec outer = current();
    set(spec == null || outer == null ? spec : outer.merge(spec));
    return () -> set(before);
  }

  private static void set(DeviceSpec spec) {
    if (spec == null) {
      CURRENT.remove();
    } else {
      CURRENT.set(spec);
    }
  }

  /**
   * The full name of the device on which something is made here, null outside of any scope.
   * NOT_FOUND for one that is not there.
   */
  public static String place() {
    final DeviceSpec spec = current();
    return spec == null ? null : Bridge.text(Native.device_place(spec.toString()));
  }

  /**
   * What the device scopes around here say together. Outside of any null, and in a replica or
   * update function its device.
   */
  public static DeviceSpec current() {
    final DeviceSpec spec = CURRENT.get();
    if (spec != null) {
      return spec;
    }
    final ReplicaContext replica = ReplicaContext.current();
    if (replica != null && replica.getClass() == ReplicaContext.class) { // no default one
      return BY_NAME.computeIfAbsent(replica.device(), DeviceSpec::parse);
    }
    final UpdateContext update = UpdateContext.current();
    return update == null ? null : BY_NAME.computeIfAbsent(update.device(), DeviceSpec::parse);
  }
}
