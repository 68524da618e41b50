package org.tutti.distribute;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import org.tutti.internal.Box;
import org.tutti.internal.LibraryResolver;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/** Several resolvers as one; what each says now is put together at each question. */
final class UnionResolver implements ClusterResolver {
  private final String taskType;
  private final Long taskId;
  private final String rpcLayer;
  private final List<ClusterResolver> resolvers = new ArrayList<>();

  UnionResolver(String taskType, Long taskId, String rpcLayer, ClusterResolver first,
      ClusterResolver... others) {
    this.taskType = taskType;
    this.taskId = taskId;
    this.rpcLayer = rpcLayer;
    resolvers.add(Objects.requireNonNull(first, "the first resolver of a union is null"));
    for (final ClusterResolver other : others) {
      resolvers.add(Objects.requireNonNull(other, "a resolver of a union is null"));
    }
  }

  private <T> T ask(Function<LibraryResolver, T> question) {
    return ask(0, new NativeObject[resolvers.size()], question);
  }

  private <T> T ask(int next, NativeObject[] parts, Function<LibraryResolver, T> question) {
    if (next < parts.length) {
      return LibraryResolver.with(resolvers.get(next), part -> {
        parts[next] = part;
        return ask(next + 1, parts, question);
      });
    }
    try (LibraryResolver union = new LibraryResolver(
             Box.at(Native.cluster_resolver_union(parts, taskType, taskId, rpcLayer)))) {
      return question.apply(union);
    }
  }

  @Override
  public ClusterSpec clusterSpec() {
    return ask(LibraryResolver::clusterSpec);
  }

  @Override
  public String taskType() {
    return taskType != null ? taskType : resolvers.get(0).taskType();
  }

  @Override
  public Long taskId() {
    return taskId != null ? taskId : resolvers.get(0).taskId();
  }

  @Override
  public String rpcLayer() {
    return rpcLayer != null ? rpcLayer : resolvers.get(0).rpcLayer();
  }

  @Override
  public String master(String taskType, Long taskId, String rpcLayer) {
    if (taskType == null || taskId == null) {
      return resolvers.get(0).master(null, null, rpcLayer != null ? rpcLayer : rpcLayer());
    }
    return ask(union -> union.master(taskType, taskId, rpcLayer));
  }

  @Override
  public Map<String, Long> accelerators(String taskType, Long taskId, Object config) {
    return resolvers.get(0).accelerators(taskType, taskId, config);
  }

  @Override
  public long numAccelerators() {
    return resolvers.get(0).numAccelerators();
  }

  @Override
  public String environment() {
    return resolvers.get(0).environment();
  }
}
