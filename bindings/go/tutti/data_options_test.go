package tutti

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func TestABudgetBoundsWhatBuffersHold(t *testing.T) {
	within := func(dataset *Dataset, bytes int64) *Dataset {
		options := must[*DataOptions](t)(NewDataOptions())
		if err := options.SetInt("autotune.ram_budget", bytes); err != nil {
			t.Fatal(err)
		}
		return dataset.WithOptions(options)
	}
	shuffled := Range(0, 1000, 1).Shuffle(1000, 3)
	few := must[*Iterator](t)(within(shuffled, 4000).Iterator(nil))
	defer few.Close()
	if few.Next() || !errors.Is(few.Err(), ErrResourceExhausted) ||
		!strings.Contains(few.Err().Error(), "shuffle holds most") {
		t.Fatal(few.Err())
	}
	if got := integers(t, within(shuffled, 8000)); len(got) != 1000 {
		t.Fatal(len(got))
	}
	if got := integers(t, within(Range(0, 3, 1).Prefetch(2), 1)); len(got) != 3 {
		t.Fatal(got)
	}
}

func TestOptionsAreEqualWhenTheSameAreSet(t *testing.T) {
	one, other := must[*DataOptions](t)(NewDataOptions()), must[*DataOptions](t)(NewDataOptions())
	if !one.Equal(other) || one.String() != "" || one.Equal(nil) {
		t.Fatal(one, other)
	}
	for _, err := range []error{one.SetBool("experimental_deterministic", false),
		one.SetInt("experimental_threading.private_threadpool_size", 2),
		one.SetInt("experimental_external_state_policy", int64(ExternalStateFail))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := one.String(); got != "deterministic=false, threading.private_threadpool_size=2, "+
		"experimental_external_state_policy=2" || one.Equal(other) {
		t.Fatal(got)
	}
	if merged := must[*DataOptions](t)(other.Merge(one)); !merged.Equal(one) {
		t.Fatal(merged)
	}
	if err := one.Clear("deterministic"); err != nil {
		t.Fatal(err)
	}
	if _, present, _ := one.Read("experimental_deterministic"); present {
		t.Fatal("it was cleared")
	}
	wants(t, one.Clear("determinstic"), ErrInvalidArgument)
}

func TestGroupsOfOptionsAreEqualWhenTheSameAreSet(t *testing.T) {
	options := must[*DataOptions](t)(NewDataOptions())
	threading := ThreadingOptions{PrivateThreadpoolSize: OptionValue{true, 2}}
	optimization := OptimizationOptions{"map_fusion": 1, "autotune_cpu_budget": 3}
	for _, err := range []error{options.SetThreading(threading),
		options.SetOptimization(optimization)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if must[ThreadingOptions](t)(options.Threading()) != threading ||
		threading == (ThreadingOptions{}) {
		t.Fatal(options)
	}
	found := must[OptimizationOptions](t)(options.Optimization())
	if !found.Equal(optimization) || found.Equal(OptimizationOptions{"map_fusion": 1}) ||
		found.Equal(OptimizationOptions{"map_fusion": 0, "autotune_cpu_budget": 3}) {
		t.Fatal(found)
	}
	text, err := Range(0, 3, 1).WithOptions(options).Explain()
	if err != nil || !strings.Contains(text, "map_fusion=true (without effect yet)") {
		t.Fatal(text, err)
	}
	wants(t, options.SetOptimization(OptimizationOptions{"no_such": 1}), ErrInvalidArgument)
	if err := options.SetOptimization(nil); err != nil {
		t.Fatal(err)
	}
	if found := must[OptimizationOptions](t)(options.Optimization()); len(found) != 0 {
		t.Fatal(found)
	}
}

func TestNativeFunctionsAreDemandedAndStateOutsideIsAnError(t *testing.T) {
	with := func(dataset *Dataset, set func(options *DataOptions) error) *Dataset {
		options := must[*DataOptions](t)(NewDataOptions())
		if err := set(options); err != nil {
			t.Fatal(err)
		}
		return dataset.WithOptions(options)
	}
	called := Range(0, 3, 1).Map(func(x Value) (Value, error) { return x, nil })
	demand := func(options *DataOptions) error {
		return options.SetBool("experimental_optimization.native_functions", true)
	}
	_, err := with(called, demand).Iterator(context.Background())
	wants(t, err, ErrFailedPrecondition)
	native := Range(0, 3, 1).MapExpr(func(x Expr) Expr { return x.Plus(1) })
	if got := integers(t, with(native, demand)); len(got) != 3 || got[2] != 3 {
		t.Fatal(got)
	}
	for policy, code := range map[ExternalStatePolicy]error{
		ExternalStateFail: ErrFailedPrecondition, ExternalStateIgnore: nil} {
		iterator := must[*Iterator](t)(with(called, func(options *DataOptions) error {
			return options.SetInt("experimental_external_state_policy", int64(policy))
		}).Iterator(context.Background()))
		if _, err := iterator.Save(context.Background()); !errors.Is(err, code) {
			t.Fatal(policy, err)
		}
		iterator.Close()
	}
	text, err := with(Range(0, 3, 1).Prefetch(2), func(options *DataOptions) error {
		return options.SetBool("experimental_slack", true)
	}).Explain()
	if err != nil || !strings.Contains(text, "pauses after each 1") {
		t.Fatal(text, err)
	}
}

func TestWhatIsSetThroughADatasetsOptionsCounts(t *testing.T) {
	dataset := Range(0, 3, 1)
	options := must[*DataOptions](t)(dataset.Options())
	if err := must[*DataOptions](t)(dataset.Options()).SetBool("deterministic", false); err != nil {
		t.Fatal(err)
	}
	for size := int64(2); size < 4; size++ {
		if err := options.SetInt("threading.private_threadpool_size", size); err != nil {
			t.Fatal(err)
		}
	}
	const want = "deterministic=false, threading.private_threadpool_size=3"
	for _, from := range []*Dataset{dataset, dataset.Batch(2), Range(0, 1, 1).WithOptions(options)} {
		if got := must[*DataOptions](t)(from.Options()).String(); got != want {
			t.Fatal(got)
		}
	}
	if options.String() != want || !options.Equal(must[*DataOptions](t)(dataset.Options())) {
		t.Fatal(options)
	}
	if err := options.Clear("deterministic"); err != nil || len(integers(t, dataset)) != 3 {
		t.Fatal(err)
	}
	var users sync.WaitGroup
	users.Add(1)
	go func() {
		defer users.Done()
		for i := 0; i < 1000; i++ {
			dataset.Batch(2).Close()
		}
	}()
	for i := int64(0); i < 200; i++ {
		if err := options.SetInt("threading.private_threadpool_size", i); err != nil {
			t.Error(err)
		}
	}
	users.Wait()
	dataset.Close()
	wants(t, options.SetBool("deterministic", true), ErrFailedPrecondition)
}

func TestAnAggregatorHasWhatADatasetMeasured(t *testing.T) {
	aggregator := must[*StatsAggregator](t)(NewStatsAggregator())
	defer aggregator.Close()
	options := must[*DataOptions](t)(NewDataOptions())
	if found, err := options.StatsAggregator(); found != nil || err != nil {
		t.Fatal(found, err)
	}
	for _, err := range []error{options.SetStatsAggregator(aggregator),
		options.SetText("experimental_stats.prefix", "train"),
		options.SetBool("experimental_stats.latency_all_edges", true)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if text, set, err := options.ReadText("experimental_stats.prefix"); text != "train" || !set ||
		err != nil {
		t.Fatal(text, set, err)
	}
	if _, set, err := options.ReadText("experimental_stats.counter_prefix"); set || err != nil {
		t.Fatal(set, err)
	}
	found := must[*StatsAggregator](t)(options.StatsAggregator())
	defer found.Close()
	dataset := Range(0, 3, 1).LatencyStats("made").WithOptions(options)
	if got := integers(t, dataset); len(got) != 3 {
		t.Fatal(got)
	}
	read := must[Value](t)(found.Read())
	counters := must[Value](t)(read.Get("counters"))
	histograms := must[Value](t)(read.Get("histograms"))
	if want := []string{"train::made", "train::record_latency::latency_stats/2",
		"train::record_latency::range/1"}; !reflect.DeepEqual(histograms.Keys(), want) {
		t.Fatal(histograms.Keys())
	}
	if got := counters.String(); !strings.Contains(got, "'train::made::elements': 3") {
		t.Fatal(got)
	}
	text, err := aggregator.Prometheus()
	if err != nil || !strings.Contains(text,
		"tutti_dataset_latency_seconds_count{name=\"train::made\"} 3\n") {
		t.Fatal(text, err)
	}
	wants(t, options.SetText("deterministic", "yes"), ErrInvalidArgument)
	if err := options.Clear("experimental_stats.aggregator"); err != nil {
		t.Fatal(err)
	}
	if found, err := options.StatsAggregator(); found != nil || err != nil {
		t.Fatal(found, err)
	}
}

func TestExplainTellsOfARunAndGatherOfAJob(t *testing.T) {
	aggregator := must[*StatsAggregator](t)(NewStatsAggregator())
	defer aggregator.Close()
	options := must[*DataOptions](t)(NewDataOptions())
	for _, err := range []error{options.SetStatsAggregator(aggregator),
		options.SetBool("experimental_stats.profile", true)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	dataset := Range(0, 3, 1).LatencyStats("made").Progress("read").WithOptions(options)
	iterator := must[*Iterator](t)(dataset.Iterator(context.Background()))
	for iterator.Next() {
		iterator.Value().Close()
	}
	text := must[string](t)(iterator.Explain("text"))
	if !strings.Contains(text, "run: 3 rows in ") {
		t.Fatal(text)
	}
	report := must[string](t)(iterator.Explain("json"))
	if again := must[string](t)(ExplainReport([]byte(report), "json")); again != report {
		t.Fatal(again)
	}
	if plan := must[string](t)(dataset.Explain()); !strings.Contains(plan, "run: 3 rows in ") {
		t.Fatal(plan)
	}
	if svg := must[string](t)(dataset.ExplainAs("svg")); !strings.HasPrefix(svg, "<svg ") {
		t.Fatal(svg)
	}
	_, err := iterator.Explain("yaml")
	wants(t, err, ErrInvalidArgument)
	_, err = ExplainReport(nil, "text")
	wants(t, err, ErrInvalidArgument)
	if err := iterator.Close(); err != nil {
		t.Fatal(err)
	}
	ranks := must[[]*Communicator](t)(NewLocalCommunicators(1))
	defer ranks[0].Close()
	job := must[string](t)(GatherReport(context.Background(), []byte(report), ranks[0], "json"))
	if job != report {
		t.Fatal(job)
	}
	_, err = GatherReport(context.Background(), nil, ranks[0], "text")
	wants(t, err, ErrInvalidArgument)
	sum := must[Value](t)(aggregator.Gather(context.Background(), ranks[0]))
	counters := must[Value](t)(sum.Get("counters"))
	if got := counters.String(); !strings.Contains(got, "'made::elements': 3") {
		t.Fatal(got)
	}
}
