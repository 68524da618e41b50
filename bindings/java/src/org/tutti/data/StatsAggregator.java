package org.tutti.data;

import java.time.Duration;
import org.tutti.Communicator;
import org.tutti.Value;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * Histograms and counters that datasets write while they are read: those whose {@link Options} name
 * it.
 *
 * <p>Measured is what stands under {@link Dataset#latencyStats}, and with {@link
 * Options#latencyAllEdges} every operation, as record_latency::NAME, or
 * record_latency::OPERATION/DEPTH where the operation has no name (a source has the depth 1;
 * operations of one kind and depth are added up). All iterators are added up, those that are gone,
 * too. Any thread may read, while others iterate.
 */
public final class StatsAggregator extends NativeObject implements AutoCloseable {
  /** One that has nothing yet. */
  public StatsAggregator() {
    this(Box.at(Native.stats_aggregator_create()));
  }

  StatsAggregator(Box box) {
    super(box);
  }

  /**
   * What there is so far: a dictionary of "counters", longs by name, and "histograms", by name
   * dictionaries of "count" (samples, one for each element), "sum", "min" and "max" (seconds),
   * "limits" (32 upper limits in seconds, of which the last is infinite) and "counts" (samples up
   * to each limit that are above the one before).
   */
  public Value read() {
    return Makers.value(Box.at(Native.stats_aggregator_read(this)));
  }

  /** The same in the text format of Prometheus, with the names as the label "name". */
  public String toPrometheus() {
    return Bridge.text(Native.stats_aggregator_to_prometheus(this));
  }

  /**
   * What the aggregators of all ranks have, added up: a collective call, which every rank makes
   * with one of its own. As {@link #read}, with a third item "ranks", the list of what each rank
   * brought.
   */
  public Value gather(Communicator communicator) {
    return gather(communicator, null);
  }

  /** As above, waiting for at most {@code timeout}. */
  public Value gather(Communicator communicator, Duration timeout) {
    return Makers.value(
        Box.at(Native.stats_aggregator_gather(this, communicator, Bridge.nanos(timeout))));
  }

  @Override
  public void close() {
    release();
  }
}
