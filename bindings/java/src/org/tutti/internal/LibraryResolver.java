package org.tutti.internal;

import java.util.Objects;
import java.util.function.Function;
import org.tutti.distribute.ClusterResolver;
import org.tutti.distribute.ClusterSpec;

/** A cluster resolver of the library's. */
public final class LibraryResolver extends NativeObject implements ClusterResolver {
  /** Takes over a native handle. */
  public LibraryResolver(Box box) {
    super(box);
  }

  /**
   * Calls {@code function} with the library's resolver for one of any class: for one that the user
   * wrote with a resolver of what it says now. Null stays null, which means TF_CONFIG.
   */
  public static <T> T with(ClusterResolver resolver, Function<LibraryResolver, T> function) {
    if (resolver == null || resolver instanceof LibraryResolver) {
      return function.apply((LibraryResolver) resolver);
    }
    final ClusterSpec spec = Objects.requireNonNull(resolver.clusterSpec(),
        "clusterSpec() of the cluster resolver gave null; a ClusterSpec is needed");
    try (LibraryResolver made = new LibraryResolver(Box.at(Native.cluster_resolver_simple(spec,
             null, resolver.taskType(), resolver.taskId(), resolver.environment(),
             resolver.numAccelerators(), resolver.rpcLayer())))) {
      return function.apply(made);
    }
  }

  @Override
  public ClusterSpec clusterSpec() {
    return Makers.clusterSpec(Box.at(Native.cluster_resolver_cluster_spec(this)));
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
  public String environment() {
    return Bridge.text(Native.cluster_resolver_environment(this));
  }

  @Override
  public void close() {
    release();
  }
}
