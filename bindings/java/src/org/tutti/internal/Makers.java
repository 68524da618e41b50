package org.tutti.internal;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.tutti.Cluster;
import org.tutti.Communicator;
import org.tutti.Spec;
import org.tutti.Tensor;
import org.tutti.Value;
import org.tutti.Variable;
import org.tutti.data.Dataset;
import org.tutti.distribute.ClusterSpec;

/**
 * The constructors that the packages have for each other and programs do not: a class of theirs
 * leaves its own here when it is initialised.
 */
public final class Makers {
  private static final Map<Class<?>, Function<Box, ?>> ALL = new ConcurrentHashMap<>();

  private Makers() {}

  /** Leaves the constructor of {@code type}. */
  public static <T> void leave(Class<T> type, Function<Box, T> constructor) {
    ALL.put(type, constructor);
  }

  private static <T> T make(Class<T> type, Box box) {
    if (box == null) {
      return null;
    }
    Function<Box, ?> constructor = ALL.get(type);
    if (constructor == null) {
      try {
        Class.forName(type.getName(), true, type.getClassLoader());
      } catch (ClassNotFoundException impossible) {
        throw new IllegalStateException(impossible);
      }
      constructor = ALL.get(type);
    }
    return type.cast(constructor.apply(box));
  }

  /** A Tensor of {@code box}; null for null. */
  public static Tensor tensor(Box box) {
    return make(Tensor.class, box);
  }

  /** A Variable of {@code box}; null for null. */
  public static Variable variable(Box box) {
    return make(Variable.class, box);
  }

  /** A Value of {@code box}; null for null. */
  public static Value value(Box box) {
    return make(Value.class, box);
  }

  /** A Spec of {@code box}; null for null. */
  public static Spec spec(Box box) {
    return make(Spec.class, box);
  }

  /** A Cluster of {@code box}; null for null. */
  public static Cluster cluster(Box box) {
    return make(Cluster.class, box);
  }

  /** A Communicator of {@code box}; null for null. */
  public static Communicator communicator(Box box) {
    return make(Communicator.class, box);
  }

  /** A Dataset of {@code box}; null for null. */
  public static Dataset dataset(Box box) {
    return make(Dataset.class, box);
  }

  /** A ClusterSpec of {@code box}; null for null. */
  public static ClusterSpec clusterSpec(Box box) {
    return make(ClusterSpec.class, box);
  }
}
