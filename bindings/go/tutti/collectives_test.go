package tutti

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const size = 3 // of the groups here

// soon is a context for calls that end by themselves, if nothing is wrong.
func soon(t *testing.T) context.Context {
	ctx, end := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(end)
	return ctx
}

// onRanks runs work in a goroutine for each rank of a group.
func onRanks(t *testing.T, count int, work func(ctx context.Context, c *Communicator) error) {
	t.Helper()
	ranks := must[[]*Communicator](t)(NewLocalCommunicators(count))
	ctx := soon(t)
	failures := make([]error, count)
	var all sync.WaitGroup
	for i := range ranks {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			if failures[i] = work(ctx, ranks[i]); failures[i] != nil {
				ranks[i].Abort("rank " + strconv.Itoa(i) + " has failed: " + failures[i].Error())
			}
		}(i)
	}
	all.Wait()
	for i, err := range failures {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
		ranks[i].Close()
	}
}

func numbers(elements ...float64) *Tensor { return sure(TensorOf(elements)) }

func zeros(dims ...int64) *Tensor { return sure(NewTensor(Float64, dims...)) }

func holds(tensor *Tensor, want ...float64) error {
	if got, err := Slice[float64](tensor); err != nil ||
		!reflect.DeepEqual(append([]float64{}, got...), append([]float64{}, want...)) {
		return fmt.Errorf("%v (%v), wanted %v", got, err, want)
	}
	return nil
}

func random(t *testing.T) *rand.Rand {
	seed := time.Now().UnixNano()
	if given, err := strconv.ParseInt(os.Getenv("TUTTI_TEST_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("TUTTI_TEST_SEED=%d", seed)
	return rand.New(rand.NewSource(seed))
}

// collectives are one call of every kind: its tensors on rank r (nil: none), the call at once and
// as a future, and what rank r has then: in output, or in the tensor that the call made.
var collectives = map[string]struct {
	input, output func(r int) *Tensor
	now           func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error)
	later         func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error)
	made          bool
	want          func(r int) []float64
}{
	"all reduce": {
		input:  func(r int) *Tensor { return numbers(float64(r+1), 2) },
		output: func(r int) *Tensor { return zeros(2) },
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			return nil, c.AllReduce(ctx, Prod, in, out)
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			return c.AllReduceAsync(ctx, Prod, in, out)
		},
		want: func(r int) []float64 { return []float64{6, 8} },
	},
	"all reduce many": {
		input:  func(r int) *Tensor { return numbers(float64(r)) },
		output: func(r int) *Tensor { return zeros(1) },
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			other := sure(TensorOf([]int32{1, int32(c.Rank())}))
			defer other.Close()
			if err := c.AllReduceMany(ctx, Max, []*Tensor{in, other}, []*Tensor{out, other}); err != nil {
				return nil, err
			}
			if got := sure(Slice[int32](other)); !reflect.DeepEqual(got, []int32{1, 2}) {
				return nil, errors.New(other.String())
			}
			return nil, nil
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			return c.AllReduceManyAsync(ctx, Max, []*Tensor{in}, []*Tensor{out})
		},
		want: func(r int) []float64 { return []float64{2} },
	},
	"reduce": {
		input: func(r int) *Tensor { return numbers(float64(r), 1) },
		output: func(r int) *Tensor {
			if r != 1 {
				return nil
			}
			return zeros(2)
		},
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			return nil, c.Reduce(ctx, Sum, 1, in, out)
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			return c.ReduceAsync(ctx, Sum, 1, in, out)
		},
		want: func(r int) []float64 { return []float64{3, 3} },
	},
	"broadcast": {
		input:  func(r int) *Tensor { return nil },
		output: func(r int) *Tensor { return numbers(float64(r)) },
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			return nil, c.Broadcast(ctx, 2, out)
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			return c.BroadcastAsync(ctx, 2, out)
		},
		want: func(r int) []float64 { return []float64{2} },
	},
	"reduce scatter": {
		input:  func(r int) *Tensor { return numbers(0, float64(r), 2, 3, 4, 5) },
		output: func(r int) *Tensor { return zeros(2) },
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			return nil, c.ReduceScatter(ctx, Mean, in, out)
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			return c.ReduceScatterAsync(ctx, Mean, in, out)
		},
		want: func(r int) []float64 { return []float64{2 * float64(r), 2*float64(r) + 1} },
	},
	"all gather": {
		input:  func(r int) *Tensor { return numbers([]float64{5, 6, 7}[:r]...) },
		output: func(r int) *Tensor { return nil },
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			return c.AllGather(ctx, in)
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			return c.AllGatherAsync(ctx, in)
		},
		made: true,
		want: func(r int) []float64 { return []float64{5, 5, 6} },
	},
	"all gather into": {
		input:  func(r int) *Tensor { return numbers(float64(r), 9) },
		output: func(r int) *Tensor { return zeros(6) },
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			return nil, c.AllGatherInto(ctx, in, out)
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			return c.AllGatherIntoAsync(ctx, in, out)
		},
		want: func(r int) []float64 { return []float64{0, 9, 1, 9, 2, 9} },
	},
	"gather": {
		input:  func(r int) *Tensor { return numbers([]float64{5, 6, 7}[r:]...) },
		output: func(r int) *Tensor { return nil },
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			return c.Gather(ctx, 1, in)
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			return c.GatherAsync(ctx, 1, in)
		},
		made: true,
		want: func(r int) []float64 {
			if r != 1 {
				return nil
			}
			return []float64{5, 6, 7, 6, 7, 7}
		},
	},
	"scatter": {
		input: func(r int) *Tensor {
			if r != 2 {
				return nil
			}
			return numbers(1, 2, 3)
		},
		output: func(r int) *Tensor { return zeros(1) },
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			return nil, c.Scatter(ctx, 2, in, out)
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			return c.ScatterAsync(ctx, 2, in, out)
		},
		want: func(r int) []float64 { return []float64{float64(r + 1)} },
	},
	"all to all": {
		input: func(r int) *Tensor {
			return numbers(float64(10*r), float64(10*r+1), float64(10*r+2))
		},
		output: func(r int) *Tensor { return zeros(3) },
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			return nil, c.AllToAll(ctx, in, out)
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			return c.AllToAllAsync(ctx, in, out)
		},
		want: func(r int) []float64 { return []float64{float64(r), float64(10 + r), float64(20 + r)} },
	},
	"send and receive": { // from each rank to the next
		input:  func(r int) *Tensor { return numbers(float64(r), 7) },
		output: func(r int) *Tensor { return zeros(2) },
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			next, former := (c.Rank()+1)%size, (c.Rank()+size-1)%size
			if c.Rank() == 0 {
				if err := c.Send(ctx, next, in); err != nil {
					return nil, err
				}
				return nil, c.Receive(ctx, former, out)
			}
			if err := c.Receive(ctx, former, out); err != nil {
				return nil, err
			}
			return nil, c.Send(ctx, next, in)
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			next, former := (c.Rank()+1)%size, (c.Rank()+size-1)%size
			if c.Rank() == 0 {
				sent, err := c.SendAsync(ctx, next, in)
				if err != nil {
					return nil, err
				}
				defer sent.Close()
				return c.ReceiveAsync(ctx, former, out)
			}
			received, err := c.ReceiveAsync(ctx, former, out)
			if err != nil {
				return nil, err
			}
			defer received.Close()
			return c.SendAsync(ctx, next, in)
		},
		want: func(r int) []float64 { return []float64{float64((r + size - 1) % size), 7} },
	},
	"barrier": {
		input:  func(r int) *Tensor { return nil },
		output: func(r int) *Tensor { return nil },
		now: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Tensor, error) {
			return nil, c.Barrier(ctx)
		},
		later: func(ctx context.Context, c *Communicator, in, out *Tensor) (*Future, error) {
			return c.BarrierAsync(ctx)
		},
	},
}

func TestEveryCollectiveGivesEveryRankWhatItSays(t *testing.T) {
	for name, call := range collectives {
		call := call
		t.Run(name, func(t *testing.T) {
			onRanks(t, size, func(ctx context.Context, c *Communicator) error {
				in, out := call.input(c.Rank()), call.output(c.Rank())
				defer in.Close()
				defer out.Close()
				result, err := call.now(ctx, c, in, out)
				if err != nil {
					return err
				}
				if call.made && call.want(c.Rank()) == nil {
					if result != nil {
						return errors.New("a tensor that is not for this rank: " + result.String())
					}
					return nil
				}
				if call.made {
					defer result.Close()
					return holds(result, call.want(c.Rank())...)
				}
				if out != nil {
					return holds(out, call.want(c.Rank())...)
				}
				return nil
			})
		})
	}
}

func TestEveryFutureGivesTheSame(t *testing.T) {
	for name, call := range collectives {
		call := call
		t.Run(name, func(t *testing.T) {
			onRanks(t, size, func(ctx context.Context, c *Communicator) error {
				in, out := call.input(c.Rank()), call.output(c.Rank())
				defer out.Close()
				future, err := call.later(ctx, c, in, out)
				in.Close() // the call has it
				if err != nil {
					return err
				}
				defer future.Close()
				value, err := future.Result(ctx)
				if err != nil {
					return err
				}
				defer value.Close()
				if !call.made || call.want(c.Rank()) == nil {
					if value.Kind() != KindNone {
						return errors.New("a value: " + value.String())
					}
					if out != nil {
						return holds(out, call.want(c.Rank())...)
					}
					return nil
				}
				tensor, err := value.Tensor()
				if err != nil {
					return err
				}
				return holds(tensor, call.want(c.Rank())...)
			})
		})
	}
}

func TestRowsGoToRanksInUnequalParts(t *testing.T) {
	onRanks(t, size, func(ctx context.Context, c *Communicator) error {
		r := int64(c.Rank()) // r rows to rank 0, none to rank 1, one to rank 2
		rows := make([]float64, 2*(r+1))
		for i := range rows {
			rows[i] = float64(r)
		}
		in := sure(TensorOf(rows, r+1, 2))
		defer in.Close()
		out, received, err := c.AllToAllUneven(ctx, in, []int64{r, 0, 1})
		if err != nil {
			return err
		}
		defer out.Close()
		counts := [][]int64{{0, 1, 2}, {0, 0, 0}, {1, 1, 1}}[r]
		if !reflect.DeepEqual(received, counts) {
			return fmt.Errorf("received %v", received)
		}
		return holds(out, [][]float64{{1, 1, 2, 2, 2, 2}, {}, {0, 0, 1, 1, 2, 2}}[r]...)
	})
}

func TestBitsFold(t *testing.T) {
	onRanks(t, size, func(ctx context.Context, c *Communicator) error {
		in := sure(TensorOf([]uint8{1 << c.Rank(), 7, uint8(c.Rank())}))
		out := sure(NewTensor(Uint8, 3))
		for op, want := range [][]uint8{{0, 7, 0}, {7, 7, 3}, {7, 7, 3}} {
			if err := c.AllReduce(ctx, BAND+ReduceOp(op), in, out); err != nil {
				return err
			}
			if got := sure(Slice[uint8](out)); !reflect.DeepEqual(got, want) {
				return errors.New(out.String())
			}
		}
		return nil
	})
}

func TestAPartOfTheOwnTensorIsReadAndWrittenInPlace(t *testing.T) {
	onRanks(t, size, func(ctx context.Context, c *Communicator) error {
		whole := numbers(0, 1, 2, 3, 4, 5)
		defer whole.Close()
		mine := sure(whole.Cut(0, 2*int64(c.Rank()), 2*int64(c.Rank())+2))
		defer mine.Close()
		if err := c.ReduceScatter(ctx, Sum, whole, mine); err != nil {
			return err
		}
		if err := c.AllGatherInto(ctx, mine, whole); err != nil {
			return err
		}
		return holds(whole, 0, 3, 6, 9, 12, 15)
	})
}

func TestACallThatDiffersBetweenRanksFailsAlike(t *testing.T) {
	messages := make([]string, size)
	onRanks(t, size, func(ctx context.Context, c *Communicator) error {
		op := Sum
		if c.Rank() == 1 {
			op = Max
		}
		future, err := c.ReduceScatterAsync(ctx, op, zeros(6), zeros(2))
		if err != nil {
			return err
		}
		if _, err = future.Result(ctx); !errors.Is(err, ErrInvalidArgument) {
			return fmt.Errorf("no error: %v", err)
		}
		messages[c.Rank()] = err.Error()
		return nil
	})
	if messages[0] != messages[1] || messages[0] != messages[2] ||
		!strings.Contains(messages[0], "MAX") {
		t.Fatal(messages)
	}
}

func TestWrongTensorsAreErrorsOfTheIssue(t *testing.T) {
	one, closed := numbers(1, 2), numbers(1, 2)
	closed.Close()
	ints := sure(TensorOf([]int64{1, 2}))
	texts := sure(StringTensor([]string{"a", "b"}))
	last := func(_ any, err error) error { return err }
	for name, wrong := range map[string]struct {
		call func(c *Communicator) error
		code Code
	}{
		"nil input": {func(c *Communicator) error {
			return c.AllReduce(nil, Sum, nil, one)
		}, ErrInvalidArgument},
		"nil output": {func(c *Communicator) error {
			return last(c.ReduceScatterAsync(nil, Sum, one, nil))
		}, ErrInvalidArgument},
		"nil among many": {func(c *Communicator) error {
			return c.AllReduceMany(nil, Sum, []*Tensor{one, nil}, []*Tensor{one, one})
		}, ErrInvalidArgument},
		"a closed one": {func(c *Communicator) error {
			return last(c.AllGatherAsync(nil, closed))
		}, ErrFailedPrecondition},
		"no output at the root": {func(c *Communicator) error {
			return c.Reduce(nil, Sum, 0, one, nil)
		}, ErrInvalidArgument},
		"no input at the root": {func(c *Communicator) error {
			return last(c.ScatterAsync(nil, 0, nil, one))
		}, ErrInvalidArgument},
		"another dtype": {func(c *Communicator) error {
			return c.AllReduce(nil, Sum, one, ints)
		}, ErrInvalidArgument},
		"bits of floats": {func(c *Communicator) error {
			return c.AllReduce(nil, BXOR, one, one)
		}, ErrInvalidArgument},
		"no such reduction": {func(c *Communicator) error {
			return c.AllReduce(nil, 99, one, one)
		}, ErrInvalidArgument},
		"texts": {func(c *Communicator) error {
			return last(c.BroadcastAsync(nil, 0, texts))
		}, ErrInvalidArgument},
		"other dims": {func(c *Communicator) error {
			return c.AllGatherInto(nil, one, zeros(5))
		}, ErrInvalidArgument},
		"not divisible": {func(c *Communicator) error {
			return c.ReduceScatter(nil, Sum, zeros(3), zeros(1))
		}, ErrInvalidArgument},
		"not divisible later": {func(c *Communicator) error {
			return last(c.AllToAllAsync(nil, zeros(3), zeros(3)))
		}, ErrInvalidArgument},
		"not divisible at the root": {func(c *Communicator) error {
			return c.Scatter(nil, 0, zeros(3), zeros(1))
		}, ErrInvalidArgument},
		"root": {func(c *Communicator) error {
			return c.Broadcast(nil, 2, one)
		}, ErrInvalidArgument},
		"receiver": {func(c *Communicator) error {
			return c.Send(nil, -1, one)
		}, ErrInvalidArgument},
		"oneself": {func(c *Communicator) error {
			return last(c.ReceiveAsync(nil, 0, one))
		}, ErrInvalidArgument},
		"unequally many": {func(c *Communicator) error {
			return c.AllReduceMany(nil, Sum, []*Tensor{one}, nil)
		}, ErrInvalidArgument},
		"unequally later": {func(c *Communicator) error {
			return last(c.AllReduceManyAsync(nil, Sum, nil, []*Tensor{one}))
		}, ErrInvalidArgument},
		"rows of one": {func(c *Communicator) error {
			_, _, err := c.AllToAllUneven(nil, one, []int64{2})
			return err
		}, ErrInvalidArgument},
		"too many rows": {func(c *Communicator) error {
			_, _, err := c.AllToAllUneven(nil, one, []int64{1, 2})
			return err
		}, ErrInvalidArgument},
		"no rows": {func(c *Communicator) error {
			_, _, err := c.AllToAllUneven(nil, one, nil)
			return err
		}, ErrInvalidArgument},
		"a plan of nil": {func(c *Communicator) error {
			return last(c.NewBucketPlan(Sum, []*Tensor{nil}, BucketPlanOptions{}))
		}, ErrInvalidArgument},
		"twice in a plan": {func(c *Communicator) error {
			return last(c.NewBucketPlan(Sum, []*Tensor{one, one}, BucketPlanOptions{}))
		}, ErrInvalidArgument},
		"a negative pack": {func(c *Communicator) error {
			return last(c.NewBucketPlan(Sum, []*Tensor{one}, BucketPlanOptions{BytesPerPack: -1}))
		}, ErrInvalidArgument},
		"grown": {func(c *Communicator) error { return last(c.Grow(nil, 2)) }, ErrFailedPrecondition},
	} {
		ranks := must[[]*Communicator](t)(NewLocalCommunicators(2))
		failed := make(chan error, 1)
		go func() { failed <- wrong.call(ranks[0]) }()
		select {
		case err := <-failed:
			if !errors.Is(err, wrong.code) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(60 * time.Second):
			t.Fatal(name, " hangs")
		}
		ranks[0].Close()
		ranks[1].Close()
	}
}

func TestRanksOfOneProcessGoOnWithoutOneThatHasClosed(t *testing.T) {
	ranks := must[[]*Communicator](t)(NewLocalCommunicators(2))
	if err := ranks[1].Close(); err != nil {
		t.Fatal(err)
	}
	next := must[*Communicator](t)(ranks[0].Shrink(context.Background()))
	if next.Size() != 1 || next.Rank() != 0 || next.Epoch() != ranks[0].Epoch()+1 {
		t.Error(next.Size(), next.Rank(), next.Epoch())
	}
	if err := next.Barrier(nil); err != nil {
		t.Error(err)
	}
	next.Close()
	ranks[0].Close()
}

func TestCommunicationOptionsOfACallDecideHowManyCallsAreMade(t *testing.T) {
	for bytes, calls := range map[int]int{0: 1, 24: 1, 16: 2, 1: 3} {
		onRanks(t, 2, func(ctx context.Context, c *Communicator) error {
			hinted, err := WithCommunication(ctx, CommunicationOptions{BytesPerPack: bytes})
			if err != nil {
				return err
			}
			three := []*Tensor{numbers(1), numbers(2), numbers(3)}
			if err := c.AllReduceMany(hinted, Sum, three, three); err != nil {
				return err
			}
			if err := holds(three[2], 6); err != nil {
				return err
			}
			future, err := c.AllReduceManyAsync(hinted, Sum, three, three)
			if err != nil {
				return err
			}
			if err := future.Wait(ctx); err != nil {
				return err
			}
			if err := holds(three[2], 12); err != nil {
				return err
			}
			// Ranks that disagree get an error, whose number counts the calls before it.
			disagrees, err := WithCommunication(nil, CommunicationOptions{BytesPerPack: 1 + c.Rank()})
			if err != nil {
				return err
			}
			err = c.AllReduce(disagrees, Sum, three[0], three[0])
			want := fmt.Sprintf("all_reduce #%d has a bytes_per_pack of 2, rank 0 one of 1", 2*calls+1)
			if err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("%v, wanted %s", err, want)
			}
			return nil
		})
	}
}

func TestReplicasAndStrategiesTakeCommunicationOptions(t *testing.T) {
	r := must[*Runtime](t)(NewRuntime(nil))
	defer r.Close()
	var lines []string
	var guard sync.Mutex
	if err := r.SetLog(func(level, line string) {
		guard.Lock()
		defer guard.Unlock()
		lines = append(lines, line)
	}); err != nil {
		t.Fatal(err)
	}
	strategy := must[*Strategy](t)(r.NewMirroredStrategy(nil,
		StrategyOptions{Devices: []string{"CPU:0", "CPU:1"},
			Communication: CommunicationOptions{Timeout: Limit(0)}}))
	defer strategy.Close()
	ring := must[context.Context](t)(WithCommunication(soon(t),
		CommunicationOptions{Implementation: CommunicationRing, Timeout: Limit(0)}))
	values := must[Value](t)(strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		return r.With(ring).AllReduce(Sum, sure(OfFloat64(float64(r.ReplicaID()))))
	}, Value{}))
	for i := 0; i < 2; i++ {
		sum := must[Value](t)(strategy.Reduce(ring, Sum, values))
		if got, err := sum.Float64(); err != nil || got != 2 {
			t.Errorf("%v (%v), wanted 2", got, err)
		}
	}
	guard.Lock()
	defer guard.Unlock()
	if len(lines) != 2 || !strings.Contains(lines[0], "all_reduce asks for the communication RING") ||
		!strings.Contains(lines[1], "reduce asks for the communication RING") {
		t.Errorf("the log is %q", lines)
	}
}

func TestWrongCommunicationOptionsAreRefusedByName(t *testing.T) {
	for name, options := range map[string]CommunicationOptions{
		"Timeout is -1":       {Timeout: Limit(-1)},
		"BytesPerPack is -8":  {BytesPerPack: -8},
		"Implementation is 5": {Implementation: 5},
	} {
		if _, err := WithCommunication(nil, options); err == nil ||
			!errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, wanted %q", err, name)
		}
	}
}

func TestRunTakesOptions(t *testing.T) {
	strategy := must[*Strategy](t)(NewMirroredStrategy("CPU:0", "CPU:1"))
	defer strategy.Close()
	number := func(r *ReplicaContext, _ Value) (Value, error) {
		return OfFloat64(float64(r.ReplicaID()))
	}
	ids := must[Value](t)(strategy.RunWithOptions(nil, number, Value{},
		RunOptions{NoDynamicBatchSize: true, BucketizingDynamicShape: true}))
	sum := must[Value](t)(strategy.Reduce(nil, Sum, ids))
	if got, err := sum.Float64(); err != nil || got != 1 {
		t.Errorf("%v (%v), wanted 1", got, err)
	}
	_, err := strategy.RunWithOptions(nil, nil, Value{}, RunOptions{})
	wants(t, err, ErrInvalidArgument)
}

func TestATimeoutOfZeroSwitchesTheLimitOff(t *testing.T) {
	r := must[*Runtime](t)(NewRuntime(nil))
	defer r.Close()
	strategy := must[*Strategy](t)(r.NewMirroredStrategy(nil,
		StrategyOptions{Devices: []string{"CPU:0", "CPU:1"},
			Communication: CommunicationOptions{Timeout: Limit(time.Nanosecond)}}))
	defer strategy.Close()
	unlimited := must[context.Context](t)(WithCommunication(nil,
		CommunicationOptions{Timeout: Limit(0)}))
	for _, hinted := range []bool{true, false} {
		_, err := strategy.Run(soon(t), func(r *ReplicaContext, _ Value) (Value, error) {
			if r.ReplicaID() == 1 {
				time.Sleep(10 * time.Millisecond)
			}
			if hinted {
				r = r.With(unlimited)
			}
			return r.AllReduce(Sum, sure(OfFloat64(1)))
		}, Value{})
		if hinted && err != nil {
			t.Error(err)
		} else if !hinted {
			wants(t, err, ErrDeadlineExceeded)
		}
	}
}
