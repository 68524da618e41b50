package org.tutti.distribute;

import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.WeakHashMap;
import org.tutti.Code;
import org.tutti.TuttiException;
import org.tutti.internal.Bridge;

/**
 * Hints for collectives, of a strategy or of one call, whose own go before the strategy's. All
 * ranks give the same bytesPerPack and implementation; else all get INVALID_ARGUMENT that names
 * both sides. Results do not depend on them.
 *
 * @param bytesPerPack many tensors are reduced in calls of at most so many bytes each; 0: as the
 *     strategy says, else in one call
 * @param timeout how long a collective may take (DEADLINE_EXCEEDED); zero: no limit; null: what the
 *     strategy's options say, else the setting default_timeout
 * @param implementation how ranks move the bytes; what cannot be as it is asked goes as AUTO, with
 *     one line of warning in the log that says why
 */
public record CommunicationOptions(
    long bytesPerPack, Duration timeout, Implementation implementation) {
  /** How ranks move the bytes of a collective; all of them ask for the same. */
  public enum Implementation {
    /** As the strategy says, else as the table of algorithms does. */
    AUTO,
    /** From neighbour to neighbour, where ranks are linked by byte streams. */
    RING,
    /** NVIDIA's library. */
    NCCL,
    /** Of a strategy: through memory that they share, whatever the setting transport says. */
    SHARED_MEMORY,
    /** Of a strategy: over TCP, whatever the setting transport says. */
    TCP;

    /** The number of the C interface. */
    public int number() {
      return ordinal() + 1;
    }
  }

  // What was given to strategies, for calls that say nothing. Wrappers of one strategy are equal.
  private static final Map<Strategy, CommunicationOptions> OF_STRATEGIES = new WeakHashMap<>();
  private static volatile boolean anyOfStrategies;

  /** INVALID_ARGUMENT for what is negative. */
  public CommunicationOptions {
    if (bytesPerPack < 0) {
      throw TuttiException.of(
          Code.INVALID_ARGUMENT, "bytesPerPack is " + bytesPerPack + "; expected 0 or more");
    }
    if (timeout != null && timeout.isNegative()) {
      throw TuttiException.of(
          Code.INVALID_ARGUMENT, "the timeout is " + timeout + "; expected 0 or more, or null");
    }
    Objects.requireNonNull(implementation, "an implementation is needed, not null");
  }

  /** The defaults. */
  public CommunicationOptions() {
    this(0, null, Implementation.AUTO);
  }

  /** A timeout alone. */
  public CommunicationOptions(Duration timeout) {
    this(0, timeout, Implementation.AUTO);
  }

  /** The same with packs of another size. */
  public CommunicationOptions bytesPerPack(long bytes) {
    return new CommunicationOptions(bytes, timeout, implementation);
  }

  /** The same with another timeout. */
  public CommunicationOptions timeout(Duration limit) {
    return new CommunicationOptions(bytesPerPack, limit, implementation);
  }

  /** The same, moved another way. */
  public CommunicationOptions implementation(Implementation way) {
    return new CommunicationOptions(bytesPerPack, timeout, way);
  }

  static void remember(Strategy strategy, CommunicationOptions options) {
    if (options != null && options.timeout != null) {
      synchronized (OF_STRATEGIES) {
        OF_STRATEGIES.put(strategy, options);
        anyOfStrategies = true;
      }
    }
  }

  /** The time of a collective: that of the call's options, that of its strategy's. */
  static long nanosIn(ReplicaContext replica, CommunicationOptions options) {
    if (options != null && options.timeout != null) {
      return limit(options.timeout);
    }
    return anyOfStrategies ? nanosOf(replica.strategy(), null) : Bridge.UNSET;
  }

  /** The time of a call of a strategy with options of its own. */
  static long nanosOf(Strategy strategy, CommunicationOptions options, Duration timeout) {
    return timeout == null && options != null && options.timeout != null
        ? limit(options.timeout)
        : nanosOf(strategy, timeout);
  }

  /** The time of a call of a strategy. */
  static long nanosOf(Strategy strategy, Duration timeout) {
    if (timeout != null || !anyOfStrategies) {
      return Bridge.nanos(timeout);
    }
    final CommunicationOptions options;
    synchronized (OF_STRATEGIES) {
      options = OF_STRATEGIES.get(strategy);
    }
    return options == null ? Bridge.UNSET : limit(options.timeout);
  }

  private static long limit(Duration timeout) {
    return timeout.isZero() ? Long.MAX_VALUE : Bridge.nanos(timeout);
  }
}
