package org.tutti;

import java.time.Duration;
import java.util.Objects;
import org.tutti.distribute.ClusterResolver;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.LibraryResolver;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * This process's seat in a job: the chief and all workers meet and watch each other from then on. A
 * runtime has one. Threads: any.
 */
public final class Cluster extends NativeObject implements AutoCloseable {
  static {
    Makers.leave(Cluster.class, Cluster::new);
  }

  private Cluster(Box box) {
    super(box);
  }


  /**
   * Waits for all workers of TF_CONFIG's cluster, as long as the setting join_timeout says. Without
   * TF_CONFIG it is one of this process alone, so that the same program can be run by itself. After
   * the setting join_warning (10 s) the log warns of who is missing.
   */
  public static Cluster join() {
    return join(null, 0, null);
  }

  /** As above, of the cluster that a resolver finds. */
  public static Cluster join(ClusterResolver resolver) {
    return join(resolver, 0, null);
  }

  /** As join(), for at most {@code timeout}. */
  public static Cluster join(Duration timeout) {
    return join(null, 0, timeout);
  }

  /** As join(), with equally many replicas of this worker as on all others. */
  public static Cluster join(int numReplicas) {
    return join(null, numReplicas, null);
  }

  /** As join(numReplicas), for at most {@code timeout}. */
  public static Cluster join(int numReplicas, Duration timeout) {
    return join(null, numReplicas, timeout);
  }

  /** As join(resolver), for at most {@code timeout}. */
  public static Cluster join(ClusterResolver resolver, Duration timeout) {
    return join(resolver, 0, timeout);
  }

  /** As join(numReplicas), of the cluster that a resolver finds. */
  public static Cluster join(ClusterResolver resolver, int numReplicas) {
    return join(resolver, numReplicas, null);
  }

  /**
   * As above. resolver null: TF_CONFIG. numReplicas: of this worker, equal on all, 0 when it does
   * not matter. timeout null: the setting join_timeout.
   */
  public static Cluster join(ClusterResolver resolver, int numReplicas, Duration timeout) {
    return LibraryResolver.with(resolver, found -> new Cluster(
        Box.at(Native.cluster_join(found, numReplicas, Bridge.nanos(timeout)))));
  }

  /** This process's place among the workers, from 0. */
  public int worker() {
    return (int) Native.cluster_worker(this);
  }

  /** How many workers there are. */
  public int workerCount() {
    return (int) Native.cluster_worker_count(this);
  }

  /** "worker 1 (pid 4711)". */
  public String describe(int worker) {
    return Bridge.text(Native.cluster_describe_worker(this, worker));
  }

  /** For people: this worker, and of how many. */
  @Override
  public String toString() {
    return isClosed() ? "closed cluster" : "cluster, worker " + worker() + " of " + workerCount();
  }

  /** Throws what has ended the job: UNAVAILABLE with the details rank and worker, or ABORTED. */
  public void check() {
    Native.cluster_check(this);
  }

  /** Ends the job on all workers with ABORTED. */
  public void abort(String message) {
    Objects.requireNonNull(message, "a message is needed, not null");
    Native.cluster_abort(this, message);
  }

  /**
   * For a worker that goes because of an error of its own: the job ends as by {@link #abort}, so
   * that the others hear why; in an elastic job, which goes on without it, nothing happens. A
   * try-with-resources block does not tell close() of its exception:
   *
   * <pre>{@code
   * try (Cluster cluster = Cluster.join()) {
   *   try {
   *     train(cluster);
   *   } catch (RuntimeException e) {
   *     cluster.fail(e);
   *     throw e;
   *   }
   * }
   * }</pre>
   */
  public void fail(Throwable cause) {
    Objects.requireNonNull(cause, "a cause is needed, not null");
    if (Bridge.isAboutAPeer(cause)) {
      return; // the others know of it
    }
    Native.cluster_fail(this, describe(worker()) + " has left by " + cause);
  }

  /**
   * Says goodbye to the others. An interrupted thread does so all the same, and its flag stays set.
   */
  @Override
  public void close() {
    close(null);
  }

  /** As close, waiting for at most {@code timeout}. */
  public void close(Duration timeout) {
    if (!isClosed()) {
      try {
        Native.cluster_close(this, Bridge.nanos(timeout));
      } finally {
        release();
      }
    }
  }
}
