package tutti

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"
)

func twoReplicas(t *testing.T) *Strategy {
	strategy := must[*Strategy](t)(NewMirroredStrategy("CPU:0", "CPU:1"))
	t.Cleanup(func() { strategy.Close() })
	return strategy
}

func floats(t *testing.T, value Value) []float64 {
	t.Helper()
	tensor := must[*Tensor](t)(value.Tensor())
	return append([]float64(nil), must[[]float64](t)(Slice[float64](tensor))...)
}

func TestReplicasRunAndReduce(t *testing.T) {
	strategy := twoReplicas(t)
	if strategy.NumReplicasInSync() != 2 || strategy.TypeName() != "MirroredStrategy" ||
		!reflect.DeepEqual(strategy.WorkerDevices(), []string{"/device:CPU:0", "/device:CPU:1"}) {
		t.Fatal(strategy.TypeName(), strategy.WorkerDevices())
	}
	args := must[Value](t)(Of([]float64{10, 20}))
	defer args.Close()
	results := must[Value](t)(strategy.Run(context.Background(),
		func(r *ReplicaContext, args Value) (Value, error) {
			tensor, err := args.Tensor()
			if err != nil {
				return Value{}, err
			}
			given, err := Slice[float64](tensor)
			if err != nil {
				return Value{}, err
			}
			id := float64(r.ReplicaID())
			return Of([]float64{given[0] + id, given[1] + id})
		}, args))
	defer results.Close()
	if results.Kind() != KindPerReplica {
		t.Fatal(results)
	}
	local := must[[]Value](t)(strategy.LocalResults(results))
	if len(local) != 2 || floats(t, local[1])[0] != 11 {
		t.Fatal(results)
	}
	sum := must[Value](t)(strategy.Reduce(nil, Sum, results))
	defer sum.Close()
	if got := floats(t, sum); !reflect.DeepEqual(got, []float64{21, 41}) {
		t.Fatal(got)
	}
	joined := must[Value](t)(strategy.Gather(nil, results, 0))
	defer joined.Close()
	if got := floats(t, joined); !reflect.DeepEqual(got, []float64{10, 20, 11, 21}) {
		t.Fatal(got)
	}
	mean := must[Value](t)(strategy.ReduceAxis(nil, Mean, results, 0))
	defer mean.Close()
	if got := must[float64](t)(mean.Float64()); got != 15.5 {
		t.Fatal(got)
	}
}

func TestReplicasMeet(t *testing.T) {
	strategy := twoReplicas(t)
	results := must[Value](t)(strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		mine, err := Of([]float64{float64(r.ReplicaID() + 1)})
		if err != nil {
			return Value{}, err
		}
		defer mine.Close()
		sum, err := r.AllReduce(Sum, mine)
		if err != nil {
			return Value{}, err
		}
		all, err := r.AllGather(mine, 0)
		if err != nil {
			return Value{}, err
		}
		merged, err := r.MergeCall(func(s *Strategy, args Value) (Value, error) {
			return s.Reduce(nil, Mean, args)
		}, mine)
		if err != nil {
			return Value{}, err
		}
		return Tuple(sum, all, merged)
	}, Value{}))
	defer results.Close()
	for _, local := range must[[]Value](t)(strategy.LocalResults(results)) {
		for i, want := range [][]float64{{3}, {1, 2}, {1.5}} {
			if got := floats(t, must[Value](t)(local.At(i))); !reflect.DeepEqual(got, want) {
				t.Fatal(i, got)
			}
		}
	}
}

type mistake struct{ what string }

func (m *mistake) Error() string { return m.what }

func TestTheErrorOfAReplicaComesOut(t *testing.T) {
	strategy := twoReplicas(t)
	original := &mistake{"row 3 is not a digit"}
	_, err := strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		if r.ReplicaID() == 1 {
			return Value{}, fmt.Errorf("parsing: %w", original)
		}
		mine, _ := OfFloat64(1)
		return r.AllReduce(Sum, mine)
	}, Value{})
	wants(t, err, ErrUnknown)
	var found *mistake
	if !errors.As(err, &found) || found != original || !errors.Is(err, original) {
		t.Fatal(err)
	}
	// A code of the library's own stays what it is, with its details.
	_, err = strategy.Run(nil, func(*ReplicaContext, Value) (Value, error) {
		return Value{}, &Error{Code: ErrDataLoss, Message: "torn",
			Details: map[string]any{"row": int64(7)}}
	}, Value{})
	wants(t, err, ErrDataLoss)
	var full *Error
	if errors.As(err, &full); full.Details["row"] != int64(7) {
		t.Fatal(full.Details)
	}
}

func TestAPanicInAReplicaIsAnError(t *testing.T) {
	strategy := twoReplicas(t)
	original := &mistake{"out of luck"}
	_, err := strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		if r.ReplicaID() == 0 {
			panic(original)
		}
		mine, _ := OfFloat64(1)
		return r.AllReduce(Sum, mine)
	}, Value{})
	wants(t, err, ErrInternal)
	var panicked *PanicError
	if !errors.As(err, &panicked) || len(panicked.Stack) == 0 || !errors.Is(err, original) {
		t.Fatal(err)
	}
	_, err = strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		return r.MergeCall(func(*Strategy, Value) (Value, error) {
			var none []int
			return OfInt64(int64(none[3]))
		}, Value{})
	}, Value{})
	var index runtime.Error
	if !errors.As(err, &index) {
		t.Fatal(err)
	}
	// And the strategy still runs.
	if _, err := strategy.Run(nil, func(*ReplicaContext, Value) (Value, error) {
		return Value{}, nil
	}, Value{}); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsLentEndsWithTheFunction(t *testing.T) {
	strategy := must[*Strategy](t)(NewOneDeviceStrategy("CPU:0"))
	defer strategy.Close()
	args := must[Value](t)(Of([]float64{1}))
	defer args.Close()
	var stolen, kept Value
	var part *Tensor
	var context *ReplicaContext
	_, err := strategy.Run(nil, func(r *ReplicaContext, args Value) (Value, error) {
		stolen, context = args, r
		var err error
		if part, err = args.Tensor(); err != nil {
			return Value{}, err
		}
		kept, err = args.Keep()
		return Value{}, err
	}, args)
	if err != nil {
		t.Fatal(err)
	}
	_, err = stolen.Tensor()
	wants(t, err, ErrFailedPrecondition)
	_, err = Slice[float64](part)
	wants(t, err, ErrFailedPrecondition)
	_, err = context.AllReduce(Sum, kept)
	wants(t, err, ErrFailedPrecondition)
	if floats(t, kept)[0] != 1 {
		t.Fatal(kept)
	}
	kept.Close()
}

func TestAContextEndsARun(t *testing.T) {
	strategy := twoReplicas(t)
	number := must[Value](t)(OfInt64(1))
	defer number.Close()
	ended := make(chan struct{}, 1)
	wait := func(r *ReplicaContext, _ Value) (Value, error) {
		if r.ReplicaID() == 1 { // replica 0 waits for it until its own wait is ended
			<-ended
			return Value{}, nil
		}
		defer func() { ended <- struct{}{} }()
		return r.AllReduce(Sum, number)
	}
	limited, end := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer end()
	_, err := strategy.Run(limited, wait, Value{})
	wants(t, err, ErrDeadlineExceeded)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	var once sync.Once
	_, err = strategy.Run(cancelled, func(r *ReplicaContext, args Value) (Value, error) {
		once.Do(cancel)
		return wait(r, args)
	}, Value{})
	wants(t, err, ErrCancelled)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	_, err = strategy.Run(cancelled, wait, Value{})
	wants(t, err, ErrCancelled)
}

func TestAClosedStrategyIsAnError(t *testing.T) {
	strategy := must[*Strategy](t)(NewMirroredStrategy("CPU:0"))
	strategy.Close()
	if err := strategy.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := strategy.Run(nil, func(*ReplicaContext, Value) (Value, error) {
		return Value{}, nil
	}, Value{})
	wants(t, err, ErrFailedPrecondition)
	_, err = strategy.Run(nil, nil, Value{})
	wants(t, err, ErrInvalidArgument)
	var none *Strategy
	_, err = none.Run(nil, nil, Value{})
	wants(t, err, ErrInvalidArgument)
}

func TestAfterShutdownEverythingIsAnError(t *testing.T) {
	own := must[*Runtime](t)(NewRuntime(map[string]string{"log_level": "error"}))
	strategy := must[*Strategy](t)(own.NewMirroredStrategy(nil,
		StrategyOptions{Devices: []string{"CPU:0"}}))
	if got := must[string](t)(own.Setting("log_level")); got != "error" {
		t.Fatal(got)
	}
	if err := own.Shutdown(nil); err != nil {
		t.Fatal(err)
	}
	if own.IsRunning() {
		t.Fatal("it runs")
	}
	_, err := strategy.Run(nil, func(*ReplicaContext, Value) (Value, error) {
		return Value{}, nil
	}, Value{})
	wants(t, err, ErrFailedPrecondition)
	if err := strategy.Close(); err != nil {
		t.Fatal(err)
	}
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = own.Setting("log_level")
	wants(t, err, ErrFailedPrecondition)
	_, err = NewRuntime(map[string]string{"no_such_setting": "1"})
	wants(t, err, ErrInvalidArgument)
}

func TestAStormOfCollectionsLeavesCallsAlone(t *testing.T) {
	strategy := twoReplicas(t)
	stop := make(chan struct{})
	var storm sync.WaitGroup
	storm.Add(1)
	go func() {
		defer storm.Done()
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for i := 0; i < 100; i++ {
		args := must[Value](t)(Of([]float64{float64(i)}))
		results := must[Value](t)(strategy.Run(nil, func(r *ReplicaContext, args Value) (Value, error) {
			return r.AllReduce(Sum, args)
		}, args))
		if got := floats(t, must[Value](t)(results.At(0)))[0]; got != float64(2*i) {
			t.Fatal(i, got)
		}
	}
	close(stop)
	storm.Wait()
}
