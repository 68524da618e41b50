package tutti

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func TestTracedFunctionsReduce(t *testing.T) {
	zero := must[Value](t)(OfInt64(0))
	defer zero.Close()
	numbers := Range(0, 5, 1)
	sum := must[Value](t)(numbers.ReduceExpr(context.Background(), zero,
		func(state, x Expr) Expr { return state.Plus(x) }))
	if got := must[int64](t)(sum.Int64()); got != 10 {
		t.Error(got)
	}
	sum.Close()
	pair := must[Value](t)(Tuple(zero, zero))
	defer pair.Close()
	both := must[Value](t)(numbers.Enumerate(1).ReduceExpr(nil, pair, func(state, x Expr) Expr {
		return TupleOf(state.At(0).Max(x.At(1)), state.At(1).Plus(x.At(0).Times(x.At(1))))
	}))
	if both.String() != "(4, 40)" {
		t.Error(both.String())
	}
	both.Close()
	for _, wrong := range []func(state, x Expr) Expr{
		nil,
		func(state, x Expr) Expr { return state.Plus(x).Cast(Float32) },
		func(state, x Expr) Expr { return Expr{} },
	} {
		if _, err := numbers.ReduceExpr(nil, zero, wrong); !errors.Is(err, ErrInvalidArgument) {
			t.Error(err)
		}
	}
}

func TestTracedFunctionsGiveKeys(t *testing.T) {
	numbers := Range(0, 6, 1)
	odd := func(x Expr) Expr { return x.Mod(2) }
	same := func(_ int64, window *Dataset) (*Dataset, error) { return window, nil }
	grouped := numbers.GroupByWindowExpr(odd, same, 3)
	if text, err := grouped.Explain(); err != nil || !strings.Contains(text, "(x % 2)") {
		t.Error(text, err)
	}
	for name, c := range map[string]struct {
		dataset *Dataset
		want    []int64
	}{
		"windows": {grouped, []int64{0, 2, 4, 1, 3, 5}},
		"sizes": {numbers.GroupByWindowOfSizesExpr(odd, same,
			func(key Expr) Expr { return key.Plus(1) }), []int64{0, 2, 1, 3, 4, 5}},
		"unsigned": {numbers.GroupByWindowOfSizesExpr(
			func(x Expr) Expr { return x.Mod(2).Cast(Uint64) }, same,
			func(key Expr) Expr { return key.Plus(1).Cast(Int64) }), []int64{0, 2, 1, 3, 4, 5}},
		"all": {numbers.GroupByWindowAllExpr(odd,
			func(key Expr, window *Dataset) *Dataset { return window.Batch(3) }, 3).Unbatch(),
			[]int64{0, 2, 4, 1, 3, 5}},
		"buckets": {Range(0, 8, 1).BucketBySequenceLengthExpr(
			func(x Expr) Expr { return x.Mod(3) }, []int64{1, 2}, []int64{2, 3, 9}).Unbatch(),
			[]int64{0, 3, 1, 4, 7, 6, 2, 5}},
	} {
		if got := integers(t, c.dataset); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	wants(t, numbers.GroupByWindowExpr(nil, same, 2).Err(), ErrInvalidArgument)
	wants(t, numbers.GroupByWindowExpr(odd, nil, 2).Err(), ErrInvalidArgument)
	wants(t, numbers.GroupByWindowOfSizesExpr(odd, same, nil).Err(), ErrInvalidArgument)
	wants(t, numbers.GroupByWindowAllExpr(odd, nil, 2).Err(), ErrInvalidArgument)
	all := numbers.GroupByWindowAllExpr(odd,
		func(key Expr, window *Dataset) *Dataset { return window.Take(1) }, 3)
	if text, err := all.Explain(); err != nil || strings.Contains(text, "callback") {
		t.Error(text, err)
	}
	if got := integers(t, all); !reflect.DeepEqual(got, []int64{0, 1}) {
		t.Error(got)
	}
	wants(t, numbers.BucketBySequenceLengthExpr(nil, nil, []int64{1}).Err(), ErrInvalidArgument)
	wants(t, numbers.BucketBySequenceLengthWith(nil, nil, []int64{1}).Err(), ErrInvalidArgument)

	folder := t.TempDir()
	kept := numbers.SnapshotExpr(folder, odd, WithSnapshotCompression("NONE"))
	for i := 0; i < 2; i++ {
		if got := integers(t, kept); !reflect.DeepEqual(got, []int64{0, 1, 2, 3, 4, 5}) {
			t.Error(got)
		}
	}
	again := Deserialize(must[[]byte](t)(kept.Serialize()))
	if got := integers(t, again); !reflect.DeepEqual(got, []int64{0, 1, 2, 3, 4, 5}) {
		t.Error(got)
	}
	if entries := must[[]os.DirEntry](t)(os.ReadDir(folder)); len(entries) != 1 {
		t.Error(entries)
	}
	wants(t, numbers.SnapshotExpr(folder, nil).Err(), ErrInvalidArgument)
}

func TestBatchesOfWindowsAreMadeWithoutTheWindows(t *testing.T) {
	windows := Range(0, 7, 1).Window(3, WithShift(2), WithDropRemainder(true))
	batches := windows.FlatMapExpr(func(w Expr) *Dataset { return w.Elements().Batch(3) })
	want := []int64{0, 1, 2, 2, 3, 4, 4, 5, 6}
	if got := integers(t, batches.Unbatch()); !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	again := Deserialize(must[[]byte](t)(batches.Serialize()))
	if got := integers(t, again.Unbatch()); !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	iterator := must[*Iterator](t)(batches.Iterator(context.Background()))
	defer iterator.Close()
	plan := must[string](t)(iterator.Explain("text"))
	if !strings.Contains(plan, "made in one operation") {
		t.Error(plan)
	}
	err := Range(0, 3, 1).FlatMapExpr(func(x Expr) *Dataset { return x.Elements() }).Err()
	wants(t, err, ErrInvalidArgument)
}

func TestTracedFunctionsCaptureOverSeveralLevels(t *testing.T) {
	deep := func() *Dataset {
		return Range(0, 3, 1).FlatMapExpr(func(x Expr) *Dataset {
			return x.Range().FlatMapExpr(func(y Expr) *Dataset {
				return y.Plus(1).Range().TakeWhileExpr(func(z Expr) Expr { return z.Lt(1) }).
					MapExpr(func(z Expr) Expr { return x.Times(10).Plus(y).Plus(1).Plus(z) })
			})
		})
	}
	want := []int64{11, 21, 22}
	if got := integers(t, deep()); !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	again := Deserialize(must[[]byte](t)(deep().Serialize()))
	if got := integers(t, again); !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	// Nothing of the middle one, and datasets of what is of the outermost.
	ranges := Range(0, 3, 1).FlatMapExpr(func(x Expr) *Dataset {
		return Range(0, 2, 1).FlatMapExpr(func(y Expr) *Dataset { return x.Range() })
	})
	if got := integers(t, ranges); !reflect.DeepEqual(got, []int64{0, 0, 0, 1, 0, 1}) {
		t.Error(got)
	}
	sums := Range(0, 2, 1).FlatMapExpr(func(x Expr) *Dataset {
		return Range(0, 2, 1).InterleaveExpr(func(y Expr) *Dataset {
			return Range(5, 7, 1).MapExpr(func(z Expr) Expr { return z.Plus(x.Times(10)) })
		}, WithCycleLength(1))
	})
	if got := integers(t, sums); !reflect.DeepEqual(got, []int64{5, 6, 5, 6, 15, 16, 15, 16}) {
		t.Error(got)
	}
	// Goroutines trace beside each other.
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for k := 0; k < 20; k++ {
				if got := deep().Err(); got != nil {
					t.Error(got)
				}
			}
		}()
	}
	group.Wait()
}

func TestTracesEndWithTheirFunctions(t *testing.T) {
	numbers := Range(0, 3, 1)
	func() {
		defer func() { _ = recover() }()
		numbers.MapExpr(func(x Expr) Expr { panic("enough") })
	}()
	if running.innermost() != nil || len(running.by) != 0 {
		t.Error("a function that panicked is traced for ever")
	}
	var kept Expr
	numbers.FlatMapExpr(func(x Expr) *Dataset {
		return x.Range().MapExpr(func(y Expr) Expr {
			kept = y
			return y
		})
	})
	err := numbers.MapExpr(func(x Expr) Expr { return x.Plus(kept) }).Err()
	wants(t, err, ErrFailedPrecondition)
	if err == nil || !strings.Contains(err.Error(), "had returned") {
		t.Error(err)
	}
	// One of a sibling that is still traced, on another goroutine.
	begun, end := make(chan Expr), make(chan struct{})
	go numbers.MapExpr(func(x Expr) Expr {
		begun <- x
		<-end
		return x
	})
	other := <-begun
	err = numbers.MapExpr(func(x Expr) Expr { return x.Plus(other) }).Err()
	close(end)
	wants(t, err, ErrInvalidArgument)
	if err == nil || !strings.Contains(err.Error(), "another trace") {
		t.Error(err)
	}
}
