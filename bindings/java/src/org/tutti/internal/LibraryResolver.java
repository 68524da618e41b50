package org.tutti.internal;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.tutti.TuttiException;
import org.tutti.distribute.ClusterResolver;
import org.tutti.distribute.ClusterSpec;

/** A cluster resolver of the library's. */
public final class LibraryResolver extends NativeObject implements ClusterResolver {
  private static final Pattern COUNT = Pattern.compile("\"((?:[^\"\\\\]|\\\\.)*)\":(\\d+)");

  /** Takes over a native handle. */
  public LibraryResolver(Box box) {
    super(box);
  }

  /**
   * Calls {@code function} with the library's resolver for one of any class: for one that the user
   * wrote with a resolver that asks it. Null stays null, which means TF_CONFIG.
   */
  public static <T> T with(ClusterResolver resolver, Function<LibraryResolver, T> function) {
    if (resolver == null || resolver instanceof LibraryResolver) {
      return function.apply((LibraryResolver) resolver);
    }
    final Answers answers = Answers.of(resolver);
    try (LibraryResolver made = new LibraryResolver(Box.at(Native.cluster_resolver_own(
             resolver.getClass().getSimpleName(), answers)))) {
      return function.apply(made);
    } catch (TuttiException failed) {
      throw answers.unwrapped(failed);
    }
  }

  @Override
  public ClusterSpec clusterSpec() {
    return clusterSpec(null);
  }

  @Override
  public ClusterSpec clusterSpec(Duration timeout) {
    return Makers.clusterSpec(
        Box.at(Native.cluster_resolver_ask_cluster_spec(this, Bridge.nanos(timeout))));
  }

  @Override
  public ClusterResolver withTask(String taskType, Long taskId, String rpcLayer) {
    return new LibraryResolver(
        Box.at(Native.cluster_resolver_changed(this, taskType, taskId, rpcLayer)));
  }

  @Override
  public String taskType() {
    return Bridge.text(Native.cluster_resolver_task_type(this));
  }

  @Override
  public Long taskId() {
    return Bridge.optional(Native.cluster_resolver_task_id(this));
  }

  @Override
  public String rpcLayer() {
    return Bridge.text(Native.cluster_resolver_rpc_layer(this));
  }

  @Override
  public String master(String taskType, Long taskId, String rpcLayer) {
    return Bridge.text(Native.cluster_resolver_master(this, taskType, taskId, rpcLayer));
  }

  @Override
  public long numAccelerators() {
    return Native.cluster_resolver_num_accelerators(this);
  }

  @Override
  public Map<String, Long> accelerators(String taskType, Long taskId, Object config) {
    final Map<String, Long> counts = new LinkedHashMap<>();
    final Matcher matcher = COUNT.matcher(
        Bridge.text(Native.cluster_resolver_read_accelerators(this, taskType, taskId)));
    while (matcher.find()) {
      counts.put(matcher.group(1).replaceAll("\\\\(.)", "$1"), Long.valueOf(matcher.group(2)));
    }
    return counts;
  }

  @Override
  public String environment() {
    return Bridge.text(Native.cluster_resolver_environment(this));
  }

  @Override
  public void close() {
    release();
  }
}
