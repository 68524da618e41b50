package org.tutti.distribute;

import java.time.Duration;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;

/**
 * The replicas of several processes, each with equally many devices, variables mirrored on all.
 *
 * <p>Every worker makes the same calls on its strategy in the same order. When a worker dies, whatever
 * waits for it is UNAVAILABLE with the details rank and worker.
 */
public final class MultiWorkerMirroredStrategy extends Strategy {
  private MultiWorkerMirroredStrategy(Box box) {
    super(box);
  }

  /** Reads TF_CONFIG; alone without it. Waits for all workers as long as join_timeout says. */
  public static MultiWorkerMirroredStrategy of(String... devices) {
    return create(null, null, devices);
  }

  /** With the workers that a resolver finds; null: TF_CONFIG. */
  public static MultiWorkerMirroredStrategy create(
      ClusterResolver resolver, Duration timeout, String... devices) {
    return new MultiWorkerMirroredStrategy(Box.at(Native.strategy_multi_worker_mirrored(
        resolver, devices, null, Bridge.nanos(timeout))));
  }
}
