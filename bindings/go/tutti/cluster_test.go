package tutti

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// ownResolver is a resolver as a user writes one.
type ownResolver struct {
	addresses []string
	task      int64
	failure   error
}

func (o ownResolver) ClusterSpec() (*ClusterSpec, error) {
	if o.failure != nil {
		return nil, o.failure
	}
	return NewClusterSpec(map[string][]string{"worker": o.addresses})
}

func (o ownResolver) TaskType() (string, error) { return "worker", nil }

func (o ownResolver) TaskID() (int64, bool, error) { return o.task, true, nil }

func (o ownResolver) NumAccelerators() (int64, error) { return 0, nil }

// together runs a function for each of count runtimes of a job, each in a goroutine.
func together(t *testing.T, count int, settings map[string]string,
	run func(r *Runtime, resolver Resolver, worker int) error) {
	t.Helper()
	t.Setenv("TUTTI_JOB_SECRET", strings.Repeat("a5", 32))
	addresses := reserve(t, count)
	failures := make([]error, count)
	var all sync.WaitGroup
	for i := 0; i < count; i++ {
		own := must[*Runtime](t)(NewRuntime(settings))
		t.Cleanup(func() { own.Close() })
		all.Add(1)
		go func(i int) {
			defer all.Done()
			failures[i] = run(own, ownResolver{addresses: addresses, task: int64(i)}, i)
		}(i)
	}
	all.Wait()
	for i, err := range failures {
		if err != nil {
			t.Fatal(i, err)
		}
	}
}

func TestRuntimesOfOneProcessJoinByAResolverOfOnesOwn(t *testing.T) {
	together(t, 3, map[string]string{"transport": "tcp"},
		func(r *Runtime, resolver Resolver, worker int) error {
			cluster, err := r.Join(nil, resolver, 1)
			if err != nil {
				return err
			}
			defer cluster.Close()
			description, err := cluster.DescribeWorker(worker)
			if err != nil {
				return err
			}
			communicator, err := cluster.NewCommunicator(nil, "mine")
			if err != nil {
				return err
			}
			defer communicator.Close()
			if cluster.Worker() != worker || cluster.NumWorkers() != 3 || communicator.Rank() != worker ||
				communicator.Size() != 3 || communicator.Transport() != "tcp" || cluster.Check() != nil ||
				!strings.Contains(description, "worker") {
				return errors.New(description)
			}
			mine, err := TensorIn(r, []float64{float64(worker), 1})
			if err != nil {
				return err
			}
			defer mine.Close()
			gathered, err := communicator.AllGather(nil, mine)
			if err != nil {
				return err
			}
			defer gathered.Close()
			if got := sure(Slice[float64](gathered)); !reflect.DeepEqual(got, []float64{0, 1, 1, 1, 2, 1}) {
				return errors.New(gathered.String())
			}
			if err := communicator.AllReduce(nil, Max, mine, mine); err != nil {
				return err
			}
			if got := sure(Slice[float64](mine)); !reflect.DeepEqual(got, []float64{2, 1}) {
				return errors.New(mine.String())
			}
			sure(MutableSlice[float64](mine))[0] = float64(worker)
			if err := communicator.Broadcast(nil, 1, mine); err != nil {
				return err
			}
			if got := sure(Slice[float64](mine))[0]; got != 1 {
				return errors.New(mine.String())
			}
			return communicator.Barrier(nil)
		})
}

// withRanks are two workers, each with its rank of a communicator.
func withRanks(t *testing.T, run func(r *Runtime, ranks *Communicator, worker int) error) {
	t.Helper()
	together(t, 2, nil, func(r *Runtime, resolver Resolver, worker int) error {
		cluster, err := r.Join(nil, resolver, 1)
		if err != nil {
			return err
		}
		defer cluster.Close()
		ranks, err := cluster.NewCommunicator(nil, "")
		if err != nil {
			return err
		}
		defer ranks.Close()
		if err := ranks.Barrier(nil); err != nil {
			return err
		}
		return run(r, ranks, worker)
	})
}

// aborted is nil when calls end with ErrAborted that says `why`, at once or after some more.
func aborted(ranks *Communicator, why string) error {
	var err error
	for err == nil {
		err = ranks.Barrier(nil)
	}
	if !errors.Is(err, ErrAborted) || !strings.Contains(err.Error(), why) {
		return fmt.Errorf("no abort that says %q: %w", why, err)
	}
	return nil
}

func TestAnAbortReachesAllWorkers(t *testing.T) {
	withRanks(t, func(_ *Runtime, ranks *Communicator, worker int) error {
		if worker == 0 {
			ranks.Abort("this is part of a test")
		}
		return aborted(ranks, "this is part of a test")
	})
}

func TestAPanicThatLeavesABlockIsToldToTheOthers(t *testing.T) {
	withRanks(t, func(_ *Runtime, ranks *Communicator, worker int) error {
		if worker == 0 {
			return aborted(ranks, "left by a panic: no rows")
		}
		// The panic goes on behind Close.
		defer func() {
			if cause := recover(); cause != "no rows" {
				t.Errorf("another panic: %v", cause)
			}
		}()
		defer ranks.Close()
		panic("no rows")
	})
}

func TestAProcessThatFailsSaysWhy(t *testing.T) {
	withRanks(t, func(r *Runtime, ranks *Communicator, worker int) error {
		if worker == 0 {
			return aborted(ranks, "no rows in shard 7")
		}
		r.Fail("no rows in shard 7")
		return nil
	})
}

func TestAStrategyTakesAResolverOfOnesOwn(t *testing.T) {
	together(t, 2, nil, func(r *Runtime, resolver Resolver, worker int) error {
		strategy, err := r.NewMultiWorkerMirroredStrategy(nil,
			StrategyOptions{Resolver: resolver, Devices: []string{"CPU:0"}})
		if err != nil {
			return err
		}
		defer strategy.Close()
		found, err := strategy.ClusterResolver()
		if err != nil {
			return err
		}
		defer found.Close()
		if id, known, err := found.TaskID(); id != int64(worker) || !known || err != nil {
			return errors.New("another task")
		}
		ids, err := strategy.DistributeValues(nil, func(given ValueContext) (Value, error) {
			return OfFloat64(float64(1 + given.ReplicaIDInSyncGroup))
		})
		if err != nil {
			return err
		}
		sum, err := strategy.Reduce(nil, Sum, ids)
		if err != nil {
			return err
		}
		if got := sure(sum.Float64()); got != 3 {
			return errors.New(sum.String())
		}
		return nil
	})
}

func TestAResolverThatFailsIsTheErrorOfJoin(t *testing.T) {
	original := errors.New("no such service")
	_, err := Join(nil, ownResolver{failure: original}, 1)
	if !errors.Is(err, original) {
		t.Fatal(err)
	}
	_, err = defaultRuntime.NewMultiWorkerMirroredStrategy(nil,
		StrategyOptions{Resolver: ownResolver{failure: original}})
	if !errors.Is(err, original) {
		t.Fatal(err)
	}
	_, err = Join(nil, ownResolver{}, 1)
	wants(t, err, ErrInvalidArgument)
}

func TestWorkersThatAreToldOfDifferentClustersGetOneError(t *testing.T) {
	other := reserve(t, 1)[0]
	messages := make([]string, 2)
	var own string
	together(t, 2, nil, func(r *Runtime, resolver Resolver, worker int) error {
		told := resolver.(ownResolver)
		if worker == 0 {
			own = told.addresses[1]
		} else {
			told.addresses = []string{told.addresses[0], other}
		}
		limited, end := context.WithTimeout(context.Background(), time.Minute)
		defer end()
		_, err := r.Join(limited, told, 1)
		if !errors.Is(err, ErrInvalidArgument) {
			return fmt.Errorf("no error of the clusters: %w", err)
		}
		messages[worker] = err.Error()
		return nil
	})
	said := "workers 0 and 1 were given different clusters: for worker 0 it is worker:1 at " + own +
		", for worker 1 it is worker:1 at " + other +
		" (task 1 of the job); give all workers the same cluster specification"
	if !strings.Contains(messages[0], said) || messages[0] != messages[1] {
		t.Error(messages)
	}
}

func TestWorkersWhoseClustersHaveNothingInCommonDoNotWaitForEver(t *testing.T) {
	addresses := reserve(t, 4)
	together(t, 2, nil, func(r *Runtime, resolver Resolver, worker int) error {
		told := resolver.(ownResolver)
		told.addresses = addresses[2*worker : 2*worker+2]
		limited, end := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer end()
		_, err := r.Join(limited, told, 1)
		if missing := 1 - worker; !errors.Is(err, ErrDeadlineExceeded) && !errors.Is(err,
			ErrUnavailable) || !strings.Contains(err.Error(), told.addresses[missing]) {
			return fmt.Errorf("the worker that is not there is not named: %w", err)
		}
		return nil
	})
}

func TestASpecListsJobsWithTasksByIndex(t *testing.T) {
	// What a ClusterDef has: jobs, by name, with an address for each index that there is.
	spec := must[*ClusterSpec](t)(ParseClusterSpec(
		`{"worker": ["a:1", "b:2"], "ps": {"1": "c:3", "4": "d:4"}}`))
	defer spec.Close()
	if got := spec.Jobs(); !reflect.DeepEqual(got, []string{"ps", "worker"}) {
		t.Error(got)
	}
	if got := spec.Tasks("ps"); !reflect.DeepEqual(got, map[int]string{1: "c:3", 4: "d:4"}) {
		t.Error(got)
	}
	if got := spec.Tasks("worker"); !reflect.DeepEqual(got, map[int]string{0: "a:1", 1: "b:2"}) {
		t.Error(got)
	}
	if got := spec.Tasks("chief"); got != nil {
		t.Error(got)
	}
}

func TestAJoinEndsWithItsContext(t *testing.T) {
	t.Setenv("TUTTI_JOB_SECRET", strings.Repeat("a5", 32))
	own := must[*Runtime](t)(NewRuntime(nil))
	defer own.Close()
	resolver := ownResolver{addresses: reserve(t, 2)}
	limited, end := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer end()
	_, err := own.Join(limited, resolver, 1)
	wants(t, err, ErrDeadlineExceeded)
}
