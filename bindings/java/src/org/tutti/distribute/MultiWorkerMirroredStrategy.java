package org.tutti.distribute;

import java.time.Duration;
import org.tutti.Communicator;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.LibraryResolver;
import org.tutti.internal.Native;

/**
 * The replicas of several processes, each with equally many devices, variables mirrored on all.
 *
 * <p>Every worker makes the same calls on its strategy in the same order. When a worker dies,
 * whatever waits for it is UNAVAILABLE with the details rank and worker.
 */
public final class MultiWorkerMirroredStrategy extends Strategy {
  private final ClusterResolver resolver;

  private MultiWorkerMirroredStrategy(Box box, ClusterResolver resolver) {
    super(box);
    this.resolver = resolver;
  }

  /** Reads TF_CONFIG; alone without it. Waits for all workers as long as join_timeout says. */
  public static MultiWorkerMirroredStrategy of(String... devices) {
    return create(null, null, devices);
  }

  /** As of, waiting for all workers for at most {@code timeout}. */
  public static MultiWorkerMirroredStrategy of(Duration timeout, String... devices) {
    return create(null, timeout, devices);
  }

  /** As of, with options for the collectives. */
  public static MultiWorkerMirroredStrategy of(CommunicationOptions options, String... devices) {
    return create(null, options, null, null, devices);
  }

  /** As of, with the workers that a resolver finds. */
  public static MultiWorkerMirroredStrategy of(ClusterResolver resolver, String... devices) {
    return create(resolver, null, devices);
  }

  /** With the workers that a resolver finds; null: TF_CONFIG. timeout: how long to wait for all. */
  public static MultiWorkerMirroredStrategy create(
      ClusterResolver resolver, Duration timeout, String... devices) {
    return create(resolver, null, null, timeout, devices);
  }

  /** As create, with options for the collectives (null: the defaults) and a name for messages. */
  public static MultiWorkerMirroredStrategy create(ClusterResolver resolver,
      CommunicationOptions options, String name, Duration timeout, String... devices) {
    final CommunicationOptions hints = options == null ? new CommunicationOptions() : options;
    final MultiWorkerMirroredStrategy strategy = LibraryResolver.with(resolver,
        found -> new MultiWorkerMirroredStrategy(
            Box.at(Native.strategy_multi_worker_mirrored(found, devices, name,
                hints.implementation().number(), hints.bytesPerPack(), Bridge.nanos(timeout))),
            resolver));
    CommunicationOptions.remember(strategy, options);
    return strategy;
  }

  /** As over with a timeout, without one: the setting default_timeout holds. */
  public static MultiWorkerMirroredStrategy over(Communicator communicator) {
    return over(communicator, null);
  }

  /**
   * One whose workers are the ranks of {@code communicator}, all of which call this, with as many
   * replicas each as the setting replicas says, else all GPUs, else the CPU. It lasts as long as
   * the communicator's epoch: of an elastic job the next one is made over what shrink or grow
   * gives. What it needs it splits from the communicator, of which nothing else may be under way
   * meanwhile.
   */
  public static MultiWorkerMirroredStrategy over(Communicator communicator, Duration timeout) {
    final MultiWorkerMirroredStrategy strategy = new MultiWorkerMirroredStrategy(
        Box.at(Native.strategy_for_communicator(communicator, null, Bridge.nanos(timeout))), null);
    CommunicationOptions.remember(strategy, null);
    return strategy;
  }

  @Override
  String deviceOfScope() {
    return "/CPU:0";
  }

  /** What was given, else the resolver that reads TF_CONFIG. */
  @Override
  public ClusterResolver clusterResolver() {
    return resolver == null ? super.clusterResolver() : resolver;
  }
}
