package tutti

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"runtime"
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
	if got, err := Slice[float64](tensor); err != nil || !reflect.DeepEqual(append([]float64{}, got...),
		append([]float64{}, want...)) {
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

// collectives are one call of every kind: its tensors on rank r (nil: none), the call at once and as a
// future, and what rank r has then: in output, or in the tensor that the call made.
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

func TestFuturesAreWaitedForInAnyOrder(t *testing.T) {
	generator := random(t)
	orders := make([][]int, size)
	for r := range orders {
		orders[r] = generator.Perm(20)
	}
	onRanks(t, size, func(ctx context.Context, c *Communicator) error {
		sum := numbers(1) // each call triples what the one before it left
		defer sum.Close()
		futures := make([]*Future, 20)
		for i := range futures {
			var err error
			if futures[i], err = c.AllReduceAsync(ctx, Sum, sum, sum); err != nil {
				return err
			}
			defer futures[i].Close()
		}
		for _, i := range orders[c.Rank()] {
			if _, err := futures[i].Result(ctx); err != nil {
				return err
			}
			for before := 0; before < i; before++ {
				if !futures[before].IsDone() {
					return fmt.Errorf("call %d is done before call %d", i, before)
				}
			}
		}
		if err := c.Barrier(ctx); err != nil { // takes its turn
			return err
		}
		return holds(sum, 3486784401) // 3 to the 20th
	})
}

func TestACallWithoutAFutureTakesItsTurn(t *testing.T) {
	onRanks(t, size, func(ctx context.Context, c *Communicator) error {
		sum := numbers(1)
		defer sum.Close()
		future, err := c.AllReduceAsync(nil, Sum, sum, sum)
		if err != nil {
			return err
		}
		future.Close() // nobody wants it; the call goes on
		runtime.GC()
		if err := c.AllReduce(nil, Sum, sum, sum); err != nil {
			return err
		}
		return holds(sum, 9)
	})
}

func TestTheContextOfAWaitLeavesTheCallAlone(t *testing.T) {
	ranks := must[[]*Communicator](t)(NewLocalCommunicators(2))
	defer ranks[0].Close()
	defer ranks[1].Close()
	out := zeros(1)
	defer out.Close()
	future := must[*Future](t)(ranks[0].AllReduceAsync(nil, Sum, numbers(1), out))
	defer future.Close()
	limited, end := context.WithTimeout(context.Background(), time.Millisecond)
	defer end()
	wants(t, future.Wait(limited), ErrDeadlineExceeded)
	if err := ranks[1].AllReduce(soon(t), Sum, numbers(2), zeros(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := future.Result(soon(t)); err != nil {
		t.Fatal(err)
	}
	if err := holds(out, 3); err != nil {
		t.Fatal(err)
	}
}

func TestTheContextOfACallEndsItAndTheEpoch(t *testing.T) {
	for name, end := range map[string]struct {
		ctx  func() (context.Context, context.CancelFunc)
		code Code
	}{
		"cancelled": {func() (context.Context, context.CancelFunc) {
			return context.WithCancel(context.Background())
		}, ErrCancelled},
		"over": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 10*time.Millisecond)
		}, ErrDeadlineExceeded},
	} {
		ranks := must[[]*Communicator](t)(NewLocalCommunicators(2))
		ctx, cancel := end.ctx()
		future := must[*Future](t)(ranks[0].BarrierAsync(ctx))
		behind := must[*Future](t)(ranks[0].BarrierAsync(nil))
		if end.code == ErrCancelled {
			cancel()
		}
		_, err := future.Result(soon(t))
		wants(t, err, end.code)
		if end.code == ErrCancelled && !errors.Is(err, context.Canceled) {
			t.Error(name, err)
		}
		_, err = behind.Result(soon(t))
		wants(t, err, end.code)
		wants(t, ranks[1].Barrier(soon(t)), end.code)
		cancel()
		// One that is over before the call is an error of the issue.
		if _, err := ranks[0].BarrierAsync(ctx); err == nil || !errors.Is(err, ctx.Err()) {
			t.Error(name, err)
		}
		ranks[0].Close()
		ranks[1].Close()
	}
}

// A context that outlives its call is left by what watched it.
func TestAContextIsNotWatchedLongerThanTheCall(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ranks := must[[]*Communicator](t)(NewLocalCommunicators(1))
	before := runtime.NumGoroutine()
	for i := 0; i < 100; i++ {
		future := must[*Future](t)(ranks[0].BarrierAsync(ctx))
		if _, err := future.Result(soon(t)); err != nil {
			t.Fatal(err)
		}
		future.Close()
	}
	for limit := time.Now().Add(60 * time.Second); runtime.NumGoroutine() > before+20; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatal(runtime.NumGoroutine(), " goroutines, before ", before)
		}
	}
	cancel()
	if err := ranks[0].Barrier(nil); err != nil { // calls that are done have ended nothing
		t.Fatal(err)
	}
	ranks[0].Close()
}

func TestAnEndOfTheCommunicatorEndsItsFutures(t *testing.T) {
	for name, end := range map[string]func(ranks []*Communicator){
		"close":      func(ranks []*Communicator) { ranks[0].Close() },
		"peer":       func(ranks []*Communicator) { ranks[1].Close() },
		"abort":      func(ranks []*Communicator) { ranks[1].Abort("enough") },
		"revocation": func(ranks []*Communicator) { ranks[0].Revoke("enough") },
	} {
		ranks := must[[]*Communicator](t)(NewLocalCommunicators(2))
		futures := make([]*Future, 5)
		for i := range futures {
			futures[i] = must[*Future](t)(ranks[0].AllGatherAsync(nil, numbers(1)))
		}
		end(ranks)
		for i := range futures {
			if _, err := futures[4-i].Result(soon(t)); err == nil ||
				(name == "abort" || name == "revocation") && (!errors.Is(err, ErrAborted) ||
					!strings.Contains(err.Error(), "enough")) {
				t.Error(name, err)
			}
		}
		ranks[0].Close()
		ranks[1].Close()
	}
}

func TestFuturesOfDroppedRanksEnd(t *testing.T) {
	ended := make(chan struct{})
	func() {
		ranks := must[[]*Communicator](t)(NewLocalCommunicators(2))
		future := must[*Future](t)(ranks[0].AllReduceAsync(nil, Sum, numbers(1), zeros(1)))
		if err := future.OnReady(func() { close(ended) }); err != nil {
			t.Fatal(err)
		}
	}()
	limit := time.After(60 * time.Second)
	for {
		runtime.GC()
		select {
		case <-ended:
			return
		case <-limit:
			t.Fatal("the call goes on for ever")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestRanksOfOneColorFormAGroup(t *testing.T) {
	onRanks(t, 4, func(ctx context.Context, c *Communicator) error {
		color := 4
		if c.Rank() == 1 {
			color = -1
		}
		part, err := c.Split(ctx, color, -c.Rank(), "outer")
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			if part != nil {
				return errors.New("rank 1 is in a group")
			}
			return nil
		}
		defer part.Close()
		if part.Size() != 3 || part.Rank() != []int{2, -1, 1, 0}[c.Rank()] {
			return fmt.Errorf("rank %d of %d", part.Rank(), part.Size())
		}
		gathered, err := part.AllGather(ctx, numbers(float64(c.Rank())))
		if err != nil {
			return err
		}
		return holds(gathered, 3, 2, 0)
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
	if messages[0] != messages[1] || messages[0] != messages[2] || !strings.Contains(messages[0], "MAX") {
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
		"nil input": {func(c *Communicator) error { return c.AllReduce(nil, Sum, nil, one) }, ErrInvalidArgument},
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
		"another dtype":     {func(c *Communicator) error { return c.AllReduce(nil, Sum, one, ints) }, ErrInvalidArgument},
		"bits of floats":    {func(c *Communicator) error { return c.AllReduce(nil, BXOR, one, one) }, ErrInvalidArgument},
		"no such reduction": {func(c *Communicator) error { return c.AllReduce(nil, 99, one, one) }, ErrInvalidArgument},
		"texts":             {func(c *Communicator) error { return last(c.BroadcastAsync(nil, 0, texts)) }, ErrInvalidArgument},
		"other dims":        {func(c *Communicator) error { return c.AllGatherInto(nil, one, zeros(5)) }, ErrInvalidArgument},
		"not divisible": {func(c *Communicator) error {
			return c.ReduceScatter(nil, Sum, zeros(3), zeros(1))
		}, ErrInvalidArgument},
		"not divisible later": {func(c *Communicator) error {
			return last(c.AllToAllAsync(nil, zeros(3), zeros(3)))
		}, ErrInvalidArgument},
		"not divisible at the root": {func(c *Communicator) error {
			return c.Scatter(nil, 0, zeros(3), zeros(1))
		}, ErrInvalidArgument},
		"root":            {func(c *Communicator) error { return c.Broadcast(nil, 2, one) }, ErrInvalidArgument},
		"receiver":        {func(c *Communicator) error { return c.Send(nil, -1, one) }, ErrInvalidArgument},
		"oneself":         {func(c *Communicator) error { return last(c.ReceiveAsync(nil, 0, one)) }, ErrInvalidArgument},
		"unequally many":  {func(c *Communicator) error { return c.AllReduceMany(nil, Sum, []*Tensor{one}, nil) }, ErrInvalidArgument},
		"unequally later": {func(c *Communicator) error { return last(c.AllReduceManyAsync(nil, Sum, nil, []*Tensor{one})) }, ErrInvalidArgument},
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
		"regrouped": {func(c *Communicator) error { return last(c.Shrink(nil)) }, ErrUnimplemented},
		"grown":     {func(c *Communicator) error { return last(c.Grow(nil, 2)) }, ErrUnimplemented},
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

func TestAnElasticJobGoesOnInNewEpochs(t *testing.T) {
	together(t, size, map[string]string{"elastic": "1", "silence_limit": "60s"},
		func(r *Runtime, resolver Resolver, worker int) error {
			ctx, end := context.WithTimeout(context.Background(), 60*time.Second)
			defer end()
			cluster, err := r.Join(ctx, resolver, 1)
			if err != nil {
				return err
			}
			defer cluster.Close()
			first, err := cluster.NewCommunicator(ctx, "job")
			if err != nil {
				return err
			}
			defer first.Close()
			if worker == 2 {
				first.Revoke("not with me")
			} else if err := first.Barrier(ctx); !errors.Is(err, ErrAborted) ||
				!strings.Contains(err.Error(), "not with me") {
				return fmt.Errorf("a barrier that was revoked: %v", err)
			}
			second, err := first.Shrink(ctx)
			if err != nil {
				return err
			}
			defer second.Close()
			third, err := second.Grow(ctx, size)
			if err != nil {
				return err
			}
			defer third.Close()
			if second.Epoch() != first.Epoch()+1 || third.Epoch() != second.Epoch()+1 ||
				third.Size() != size || third.Rank() != worker {
				return fmt.Errorf("epoch %d, rank %d of %d", third.Epoch(), third.Rank(), third.Size())
			}
			sum, err := TensorIn(r, []float64{1})
			if err != nil {
				return err
			}
			if err := third.AllReduce(ctx, Sum, sum, sum); err != nil {
				return err
			}
			if err := holds(sum, size); err != nil || worker == 1 {
				return err // worker 1 leaves
			}
			for err == nil {
				err = third.Barrier(ctx)
			}
			if !errors.Is(err, ErrUnavailable) {
				return err
			}
			rest, err := third.Shrink(ctx)
			if err != nil {
				return err
			}
			defer rest.Close()
			if rest.Size() != 2 || rest.Rank() != worker/2 {
				return fmt.Errorf("rank %d of %d", rest.Rank(), rest.Size())
			}
			return rest.Barrier(ctx)
		})
}

func TestTheTableOfCollectivesIsReadAgain(t *testing.T) {
	own := must[*Runtime](t)(NewRuntime(nil))
	defer own.Close()
	table := must[string](t)(own.DescribeCollectives())
	if !strings.Contains(table, "all_reduce") || !strings.Contains(table, "shared_memory") {
		t.Fatal(table)
	}
	rows := "rows:" + strings.ReplaceAll(strings.TrimSpace(table), "\n", ";")
	if err := own.Set("collective_table", rows); err != nil {
		t.Fatal(err)
	}
	if again := must[string](t)(own.DescribeCollectives()); again == "" {
		t.Fatal("no table")
	}
	wants(t, own.Set("collective_table", "rows:all_reduce by magic"), ErrInvalidArgument)
	if text := must[string](t)(defaultRuntime.DescribeCollectives()); text == "" {
		t.Fatal("no table")
	}
}
