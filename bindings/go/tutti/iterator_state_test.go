package tutti

import (
	"reflect"
	"sort"
	"strings"
	"testing"
)

func TestAPositionIsOfTheRowsAndNotOfHowSoonTheyAreMade(t *testing.T) {
	first := must[*Iterator](t)(Range(0, 50, 1).Prefetch(2).Iterator(nil))
	defer first.Close()
	second := must[*Iterator](t)(Range(0, 50, 1).Prefetch(8).Iterator(nil))
	defer second.Close()
	for i := 0; i < 3; i++ {
		first.Next()
	}
	state := must[[]byte](t)(first.Save(nil))
	if err := second.Restore(nil, state); err != nil {
		t.Fatal(err)
	}
	state[7] = '1'
	err := second.Restore(nil, state)
	wants(t, err, ErrInvalidArgument)
	if !strings.Contains(err.Error(), "an iterator's state in the format TUTTI-I1, and TUTTI-I2 is "+
		"read here: an earlier release saved it; start the iterator afresh") {
		t.Fatal(err)
	}
	if !second.Next() || must[int64](t)(second.Value().Int64()) != 3 {
		t.Fatal(second.Err())
	}
}

func TestIteratorsAreSavedAndRestored(t *testing.T) {
	iterator := must[*Iterator](t)(Range(0, 9, 1).Shuffle(4, 1).Iterator(nil))
	defer iterator.Close()
	iterator.Next()
	state := must[[]byte](t)(iterator.Save(nil))
	iterator.Next()
	want := must[int64](t)(iterator.Value().Int64())
	if err := iterator.Restore(nil, state); err != nil {
		t.Fatal(err)
	}
	if !iterator.Next() || must[int64](t)(iterator.Value().Int64()) != want {
		t.Fatal(iterator.Err())
	}
	wants(t, iterator.Restore(nil, []byte("nonsense")), ErrInvalidArgument)
	optional := must[Value](t)(iterator.NextOptional(nil))
	if _, ok, err := optional.Optional(); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

func restOf(t *testing.T, iterator *Iterator, numbers []int64) []int64 {
	t.Helper()
	for iterator.Next() {
		numbers = append(numbers, must[int64](t)(iterator.Value().Int64()))
	}
	if err := iterator.Err(); err != nil {
		t.Fatal(err)
	}
	return numbers
}

// resumesAt saves behind came elements, restores into an iterator of its own, and gives what came
// and the rest.
func resumesAt(t *testing.T, dataset *Dataset, came int) (numbers []int64) {
	t.Helper()
	first := must[*Iterator](t)(dataset.Iterator(nil))
	defer first.Close()
	for i := 0; i < came && first.Next(); i++ {
		numbers = append(numbers, must[int64](t)(first.Value().Int64()))
	}
	second := must[*Iterator](t)(dataset.Iterator(nil))
	defer second.Close()
	if err := second.Restore(nil, must[[]byte](t)(first.Save(nil))); err != nil {
		t.Fatal(err)
	}
	return restOf(t, second, numbers)
}

func TestIteratorsOverDatasetsOfAFunctionResumeEverywhere(t *testing.T) {
	count := func(element Value) (*Dataset, error) {
		number, err := element.Int64()
		return Range(10*number, 11*number, 1), err
	}
	key := func(element Value) (int64, error) {
		number, err := element.Int64()
		return number % 3, err
	}
	group := func(_ int64, window *Dataset) (*Dataset, error) { return window, nil }
	six, cycle := Range(0, 6, 1), WithCycleLength(3)
	for name, c := range map[string]struct {
		dataset  *Dataset
		anyOrder bool
	}{
		"flat_map":   {six.FlatMap(count), false},
		"interleave": {six.Interleave(count, cycle, WithBlockLength(2)), false},
		"parallel": {six.Interleave(count, cycle, WithBlockLength(2), WithParallelCalls(2)),
			false},
		"any order": {six.Interleave(count, cycle, WithParallelCalls(3), WithDeterministic(false)),
			true},
		"window":          {Range(0, 7, 1).Window(3, WithShift(2)).FlatMap(Value.Dataset), false},
		"group_by_window": {Range(0, 9, 1).GroupByWindow(key, group, 2), false},
	} {
		want := integers(t, c.dataset)
		if len(want) == 0 {
			t.Error(name)
		}
		for came := 0; came <= len(want); came++ {
			got := resumesAt(t, c.dataset, came)
			if c.anyOrder {
				sort.Slice(got, func(i, j int) bool { return got[i] < got[j] })
				sort.Slice(want, func(i, j int) bool { return want[i] < want[j] })
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s at %d: %v, not %v", name, came, got, want)
			}
		}
	}
}
