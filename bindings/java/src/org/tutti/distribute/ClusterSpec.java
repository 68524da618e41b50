package org.tutti.distribute;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.tutti.Code;
import org.tutti.TuttiException;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/** The jobs of a cluster and the addresses of their tasks. Immutable. */
public final class ClusterSpec extends NativeObject implements AutoCloseable {
  static {
    Makers.leave(ClusterSpec.class, ClusterSpec::new);
  }

  private ClusterSpec(Box box) {
    super(box);
  }

  /** From JSON: {"worker": ["host:port", ...], "ps": {"0": "host:port"}}. */
  public static ClusterSpec parse(String json) {
    return new ClusterSpec(Box.at(Native.cluster_spec_create(json)));
  }

  /** Jobs, each with the addresses of its tasks 0, 1, ... */
  public static ClusterSpec of(Map<String, List<String>> jobs) {
    final StringBuilder json = new StringBuilder("{");
    jobs.forEach((job, addresses) -> {
      json.append(json.length() == 1 ? "" : ", ").append(quoted(job)).append(": [");
      json.append(addresses.stream().map(ClusterSpec::quoted).collect(Collectors.joining(", ")));
      json.append("]");
    });
    return parse(json.append("}").toString());
  }

  private static String quoted(String text) {
    final StringBuilder quoted = new StringBuilder("\"");
    text.chars().forEach(unit -> {
      if (unit == '"' || unit == '\\' || unit < ' ') {
        quoted.append(String.format("\\u%04x", unit));
      } else {
        quoted.append((char) unit);
      }
    });
    return quoted.append('"').toString();
  }

  /**
   * The jobs, sorted by name, each with its tasks' addresses by index, growing: what a message
   * ClusterDef lists.
   */
  public Map<String, Map<Long, String>> jobs() {
    final Map<String, Map<Long, String>> jobs = new LinkedHashMap<>();
    for (long i = 0; i < Native.cluster_spec_job_count(this); ++i) {
      final String job = Native.cluster_spec_job(this, i);
      final Map<Long, String> tasks = new TreeMap<>();
      for (long j = 0; j < Native.cluster_spec_task_count(this, job); ++j) {
        final long index = Native.cluster_spec_task_index(this, job, j);
        tasks.put(index, Native.cluster_spec_task_address(this, job, index));
      }
      jobs.put(job, tasks);
    }
    return jobs;
  }

  /** The address of a task; NOT_FOUND lists the tasks there are. */
  public String taskAddress(String job, long task) {
    final Map<Long, String> tasks = jobs().getOrDefault(job, Map.of());
    if (!tasks.containsKey(task)) {
      throw TuttiException.of(
          Code.NOT_FOUND, "no task " + task + " of job '" + job + "'; there are " + jobs());
    }
    return tasks.get(task);
  }

  /** As JSON. */
  @Override
  public String toString() {
    return isClosed() ? "ClusterSpec (closed)" : Bridge.text(Native.cluster_spec_json(this));
  }

  @Override
  public boolean equals(Object other) {
    return other == this || (other instanceof ClusterSpec spec && spec.jobs().equals(jobs()));
  }

  @Override
  public int hashCode() {
    return jobs().hashCode();
  }

  @Override
  public void close() {
    release();
  }
}
