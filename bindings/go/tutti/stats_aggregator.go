package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// StatsAggregator has the histograms and counters that datasets write while they are read: those
// whose options name it. Measured is what stands under Dataset.LatencyStats, and with the option
// experimental_stats.latency_all_edges every operation, as record_latency::NAME, or
// record_latency::OPERATION/DEPTH where the operation has no name (a source has the depth 1;
// operations of one kind and depth are added up). All iterators are added up, those that are gone,
// too. Any goroutine may read, while others iterate.
type StatsAggregator struct{ o *object }

// NewStatsAggregator has nothing yet.
func NewStatsAggregator() (*StatsAggregator, error) {
	var made uintptr
	if err := check(native.Stats_aggregator_create(&made)); err != nil {
		return nil, err
	}
	return ownStatsAggregator(made), nil
}

func ownStatsAggregator(pointer uintptr) *StatsAggregator {
	return &StatsAggregator{own(pointer, "stats aggregator",
		native.Tutti_stats_aggregator_release)}
}

func (s *StatsAggregator) object() *object {
	if s == nil {
		return nil
	}
	return s.o
}

// Read is what there is so far: a dictionary of "counters", int64 by name, and "histograms", by
// name dictionaries of "count" (samples, one for each element), "sum", "min" and "max" (seconds),
// "limits" (32 upper limits in seconds, of which the last is infinite) and "counts" (samples up to
// each limit that are above the one before).
func (s *StatsAggregator) Read() (Value, error) {
	return as(ownValue)(readOut(s.object(), native.Stats_aggregator_read))
}

// Prometheus is the same in the text format of Prometheus, with the names as the label "name".
func (s *StatsAggregator) Prometheus() (string, error) {
	return readText(s.object(), native.Stats_aggregator_to_prometheus)
}

// Gather is what the aggregators of all ranks have, added up: a collective call, which every rank
// makes with one of its own. As Read, with a third item "ranks", the list of what each rank
// brought.
func (s *StatsAggregator) Gather(ctx context.Context, communicator *Communicator) (Value, error) {
	ranks, err := communicator.object().use()
	if err != nil {
		return Value{}, err
	}
	defer communicator.object().done()
	return as(ownValue)(waitOut(ctx, s.object(),
		func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Stats_aggregator_gather(pointer, ranks, call, made)
		}))
}

// GatherReport is what Explain tells on all ranks, as one report: a collective call, which every
// rank makes with what its own iterator's Explain wrote as "json". What operations did is added up,
// each rank has a line, and the bottleneck is that of the rank whose consumer waited for most of
// its time. ErrInvalidArgument for anything else than a report.
func GatherReport(ctx context.Context, report []byte, communicator *Communicator,
	format string) (string, error) {
	made, err := waitOut(ctx, communicator.object(),
		func(ranks uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Dataset_gather_report(report, format, ranks, call, made)
		})
	return takeText(made), err
}

// Close ends the reference; datasets and iterators that write into it keep it.
func (s *StatsAggregator) Close() error {
	s.object().close()
	return nil
}
