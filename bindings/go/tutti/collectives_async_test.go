package tutti

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

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
		var ranks []*Communicator
		var ctx context.Context
		var cancel context.CancelFunc
		var future *Future
		for future == nil {
			ranks = must[[]*Communicator](t)(NewLocalCommunicators(2))
			ctx, cancel = end.ctx()
			var err error
			if future, err = ranks[0].BarrierAsync(ctx); err == nil {
				break
			}
			// Held up for so long that the context was over before the call.
			if !errors.Is(err, end.code) {
				t.Fatal(name, err)
			}
			cancel()
			ranks[0].Close()
			ranks[1].Close()
		}
		behind := must[*Future](t)(ranks[0].BarrierAsync(nil))
		if end.code == ErrCancelled {
			// Long after the issue has returned.
			limited, done := context.WithTimeout(context.Background(), 10*time.Millisecond)
			wants(t, future.Wait(limited), ErrDeadlineExceeded)
			done()
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
	limit := time.Now().Add(60 * time.Second)
	for ; runtime.NumGoroutine() > before+20; runtime.Gosched() {
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
