package org.tutti;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Callback;
import org.tutti.internal.Loader;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * Threads, memory and settings. The process has a default runtime, which starts with its first use
 * and ends with the process; what is made inside {@link #asDefault} belongs to that runtime
 * instead.
 * Threads: any.
 */
public final class TuttiRuntime extends NativeObject implements AutoCloseable {
  private static final ThreadLocal<TuttiRuntime> CURRENT = new ThreadLocal<>();
  private static final String[] LEVELS = {"off", "debug", "info", "warning", "error"};

  private TuttiRuntime(Box box) {
    super(box);
  }

  /** The version of the library, "0.1.0". */
  public static String version() {
    return Native.api_version();
  }

  /** A runtime of its own, whose settings beat the variables TUTTI_*. */
  public static TuttiRuntime create(Map<String, String> settings) {
    final String[] keys = settings.keySet().toArray(new String[0]);
    final String[] values = new String[keys.length];
    for (int i = 0; i < keys.length; ++i) {
      values[i] = settings.get(keys[i]);
    }
    return new TuttiRuntime(Box.at(Native.runtime_create(keys, values)));
  }

  /**
   * What the open tensors and values of this program stand for, in bytes outside of Java's heap;
   * what two of them share counts twice, and tensors below 4 KiB do not count. As it grows the
   * garbage collector is asked to come by, for those that were not closed.
   */
  public static long offHeapBytes() {
    Loader.load();
    return Native.off_heap_bytes();
  }

  /** What ends asDefault. */
  public interface Scope extends AutoCloseable {
    @Override
    void close();
  }

  /** Makes this the runtime that the thread's calls belong to, until the scope is closed. */
  public Scope asDefault() {
    final long before = Native.ambient_runtime_set(address());
    final TuttiRuntime current = CURRENT.get();
    CURRENT.set(this);
    return new Scope() {
      private final TuttiRuntime kept = TuttiRuntime.this; // while the thread may use it
      private boolean open = true;

      @Override
      public void close() {
        if (open) {
          open = false;
          Native.ambient_runtime_set(before);
          if (current == null) {
            CURRENT.remove();
          } else {
            CURRENT.set(current);
          }
          java.lang.ref.Reference.reachabilityFence(kept);
        }
      }
    };
  }

  /** Whether it can be used. */
  public boolean isRunning() {
    return Native.runtime_is_running(this);
  }

  /**
   * Changes a setting; the value is text. log_level, compute_threads, memory_limit,
   * default_timeout, flight_recorder_dir; replicas, join_timeout, silence_limit, transport,
   * elastic, reproducible (1: sums of floats have the same bits however the ranks are spread over
   * hosts, and the replicas of a strategy over workers) and collective_table for what is made
   * afterwards.
   */
  public void set(String key, String value) {
    Native.runtime_set(this, key, value);
  }

  /** The effective value of a setting. */
  public String get(String key) {
    return Bridge.text(Native.runtime_read_setting(this, key));
  }

  /**
   * For a process that goes because of an error of its own, before it shuts down: the workers of
   * its job hear why, as by {@link Cluster#fail}. Nothing happens without a job, nor for errors
   * that are about a peer, which the others know.
   */
  public void fail(Throwable cause) {
    if (!Bridge.isAboutAPeer(cause)) {
      Native.runtime_fail(this, "the program of a worker has ended by " + cause);
    }
  }

  /** The same for the process's default runtime, if it is running. */
  public static void failDefault(Throwable cause) {
    if (!Bridge.isAboutAPeer(cause)) {
      Native.runtime_fail(null, "the program of a worker has ended by " + cause);
    }
  }

  /** Closes all that belongs to the runtime and joins its threads. */
  public void shutdown(Duration timeout) {
    Native.runtime_shutdown(this, Bridge.nanos(timeout));
  }

  /** As shutdown without a timeout. */
  @Override
  public void close() {
    if (!isClosed()) {
      shutdown(null);
      release();
    }
  }

  // ---- the runtime whose asDefault the thread is in, else the default one

  /**
   * Changes a setting of the default runtime (here and below: or of the one whose asDefault the
   * thread is in).
   */
  public static void setDefault(String key, String value) {
    Native.runtime_set(CURRENT.get(), key, value);
  }

  /** The effective value of a setting of the default runtime. */
  public static String getDefault(String key) {
    return Bridge.text(Native.runtime_read_setting(CURRENT.get(), key));
  }

  /** All settings of the default runtime and where they come from, as JSON. */
  public static String describe() {
    return Bridge.text(Native.runtime_describe(CURRENT.get()));
  }

  /**
   * Which algorithm a collective takes: a row a line, the first that fits a call holds, in the form
   * that the setting collective_table reads. Columns: collective; where the ranks are; how many;
   * up to how many bytes; algorithm; chunk, where there is one to choose. In a group of several
   * processes the table of worker 0 holds.
   */
  public static String describeCollectives() {
    return Bridge.text(Native.runtime_describe_collectives(CURRENT.get()));
  }

  /** The seed behind every dataset operation that was given none. */
  public static void setRandomSeed(long seed) {
    setRandomSeed(Long.valueOf(seed));
  }

  /** Takes back what setRandomSeed said: random seeds again. */
  public static void resetRandomSeed() {
    setRandomSeed(null);
  }

  /** The seed behind every dataset operation that was given none; null: random ones again. */
  public static void setRandomSeed(Long seed) {
    Native.runtime_set_random_seed(CURRENT.get(), seed);
  }

  /** The last records of the flight recorder, as JSON. */
  public static String dumpRecorder() {
    return Bridge.text(Native.runtime_dump_recorder(CURRENT.get()));
  }

  private static List<String> names(long lines) {
    final String names = Bridge.text(lines).strip();
    return names.isEmpty() ? List.of() : List.of(names.split("\\s+"));
  }

  /** The devices of this process. */
  public static List<String> devices() {
    return devices(null);
  }

  /** "/physical_device:CPU:0", ...: the devices of this machine. */
  public static List<String> physicalDevices() {
    return physicalDevices(null);
  }

  /** The physical devices that are used. */
  public static List<String> visibleDevices() {
    return visibleDevices(null);
  }

  /** The devices of this process of a type, "CPU" or "GPU"; null: all. */
  public static List<String> devices(String type) {
    return names(Native.device_list(type));
  }

  /** "/physical_device:CPU:0", ...: the devices of this machine of a type; null: all. */
  public static List<String> physicalDevices(String type) {
    return names(Native.device_list_physical(type));
  }

  /** The physical devices of a type that are used; null: all. */
  public static List<String> visibleDevices(String type) {
    return names(Native.device_list_visible(type));
  }

  /**
   * Uses of a type (null: all) these physical devices only. INVALID_ARGUMENT where no CPU is left:
   * the host cannot be hidden. FAILED_PRECONDITION for a change when devices have been used, by a
   * strategy, a variable, a device scope or a list of devices.
   */
  public static void setVisibleDevices(String type, String... devices) {
    Native.device_set_visible(type, devices);
  }

  /** As above, of all types. */
  public static void setVisibleDevices(List<String> devices) {
    setVisibleDevices(null, devices.toArray(new String[0]));
  }

  /**
   * Presents a physical device as these logical ones, which are then all that there are.
   * Those of a GPU share its memory. INVALID_ARGUMENT for a memory limit of a CPU, and for limits
   * that are together more than a GPU has; FAILED_PRECONDITION as above.
   */
  public static void setLogicalDeviceConfiguration(
      String device, LogicalDeviceConfiguration... logical) {
    final long[] limits = new long[logical.length];
    for (int i = 0; i < limits.length; ++i) {
      limits[i] = logical[i].memoryLimit();
    }
    Native.device_set_logical(device, limits);
  }

  /** As what a physical device was set to be presented; null where it was not set. */
  public static List<LogicalDeviceConfiguration> getLogicalDeviceConfiguration(String device) {
    final Long count = Bridge.optional(Native.device_read_logical(device));
    if (count == null) {
      return null;
    }
    final List<LogicalDeviceConfiguration> all = new ArrayList<>();
    for (long i = 0; i < count; ++i) {
      all.add(new LogicalDeviceConfiguration(Native.device_read_logical_limit(device, i)));
    }
    return all;
  }

  /**
   * The bytes that the tensors of a device ("GPU:0") take; of a CPU those of all tensors and
   * buffers. NOT_FOUND for a device that is not there.
   */
  public static long usedBytes(String device) {
    return Native.device_read_used_bytes(device);
  }

  /** The most that they have been, since the runtime began or {@link #resetPeakBytes}. */
  public static long peakBytes(String device) {
    return Native.device_read_peak_bytes(device);
  }

  /** From now on the peak of a GPU is what is used now. INVALID_ARGUMENT for a CPU. */
  public static void resetPeakBytes(String device) {
    Native.device_reset_peak_bytes(device);
  }

  /**
   * Whether what is made on a device that is not there, or cannot hold tensors, lies on CPU:0; else
   * it is an error.
   */
  public static void setSoftDevicePlacement(boolean enabled) {
    setDefault("soft_device_placement", enabled ? "1" : "0");
  }

  /** Whether that has been switched on. */
  public static boolean getSoftDevicePlacement() {
    return getDefault("soft_device_placement").equals("1");
  }

  /**
   * What is known of a device ("GPU:0"), as a JSON object: name, type and memory (bytes); of a GPU
   * also device_name, compute_capability, multiprocessors, memory_bytes, l2_bytes, bus_id, uuid,
   * integrated, driver_version and kernels. NOT_FOUND for a device that is not there.
   */
  public static String describeDevice(String name) {
    return Bridge.text(Native.device_describe(name));
  }

  /**
   * The plugins for devices, as a JSON list: of each name, file, devices (how many), version (null:
   * not opened), reason, why there are no devices (null: there are), nccl, of version, file and
   * origin, who had it (null: there is none), and nccl_reason, why.
   */
  public static String describePlugins() {
    return Bridge.text(Native.device_describe_plugins());
  }

  /**
   * Sends the lines of the default runtime's log to sink(level, line) instead of standard error;
   * null goes back. It must not call the library; what it throws goes to standard error.
   */
  public static void setLogSink(BiConsumer<String, String> sink) {
    Native.runtime_set_log_sink(CURRENT.get(), sink == null ? null : new Callback() {
      @Override
      public long call(int kind, long context, long in) {
        return 0;
      }

      @Override
      public void log(int level, byte[] line) {
        sink.accept(level < LEVELS.length ? LEVELS[level] : "error", Bridge.text(line));
      }
    });
  }

  /** The lines of the log go to standard error again. */
  public static void resetLogSink() {
    setLogSink(null);
  }

  /** As below, waiting as long as it takes. */
  public static void shutdownDefault() {
    shutdownDefault(null);
  }

  /**
   * Shuts the process's default runtime down, whatever the thread is in; it starts again with its
   * next use. What belonged to it fails with FAILED_PRECONDITION from then on. timeout: how long to
   * wait for callbacks that are running.
   */
  public static void shutdownDefault(Duration timeout) {
    Native.runtime_shutdown(null, Bridge.nanos(timeout));
  }
}
