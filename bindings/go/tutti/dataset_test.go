package tutti

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func integers(t *testing.T, dataset *Dataset) (numbers []int64) {
	t.Helper()
	iterator := must[*Iterator](t)(dataset.Iterator(nil))
	defer iterator.Close()
	for iterator.Next() {
		element := iterator.Value()
		numbers = append(numbers, must[int64](t)(element.Int64()))
		element.Close()
	}
	if err := iterator.Err(); err != nil {
		t.Fatal(err)
	}
	return numbers
}

// sure is must for functions that the library calls, which testing must not leave.
func sure[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

func plusOne(element Value) (Value, error) {
	number, err := element.Int64()
	if err != nil {
		return Value{}, err
	}
	return OfInt64(number + 1)
}

func TestDatasetsAreTransformed(t *testing.T) {
	even := func(element Value) (bool, error) {
		number, err := element.Int64()
		return number%2 == 0, err
	}
	for name, c := range map[string]struct {
		dataset *Dataset
		want    []int64
	}{
		"range":       {Range(0, 5, 2), []int64{0, 2, 4}},
		"map":         {Range(0, 3, 1).Map(plusOne), []int64{1, 2, 3}},
		"parallel":    {Range(0, 5, 1).Map(plusOne, WithParallelCalls(2)), []int64{1, 2, 3, 4, 5}},
		"filter":      {Range(0, 6, 1).Filter(even), []int64{0, 2, 4}},
		"repeat":      {Range(0, 2, 1).Repeat(2), []int64{0, 1, 0, 1}},
		"take":        {Range(0, 9, 1).Take(2), []int64{0, 1}},
		"skip":        {Range(0, 4, 1).Skip(2), []int64{2, 3}},
		"shard":       {Range(0, 6, 1).Shard(3, 1), []int64{1, 4}},
		"concatenate": {Range(0, 2, 1).Concatenate(Range(7, 8, 1)), []int64{0, 1, 7}},
		"take_while": {Range(0, 9, 2).TakeWhile(even).Concatenate(Range(1, 9, 1).TakeWhile(even)),
			[]int64{0, 2, 4, 6, 8}},
		"unique":   {Range(0, 3, 1).Repeat(2).Unique(), []int64{0, 1, 2}},
		"unbatch":  {Range(0, 5, 1).Batch(2).Unbatch(), []int64{0, 1, 2, 3, 4}},
		"cache":    {Range(0, 3, 1).Cache("").Repeat(2), []int64{0, 1, 2, 0, 1, 2}},
		"prefetch": {Range(0, 3, 1).Prefetch(Autotune), []int64{0, 1, 2}},
	} {
		if got := integers(t, c.dataset); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if n := Range(0, 5, 1).Batch(2, WithDropRemainder(true)).Unbatch().Cardinality(); n != 4 {
		t.Fatal(n)
	}
	if err := Range(0, 5, 1).Unbatch().Err(); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	first := integers(t, Range(0, 20, 1).Shuffle(8, 3))
	second := integers(t, Range(0, 20, 1).Shuffle(8, 3))
	if !reflect.DeepEqual(first, second) || reflect.DeepEqual(first, integers(t, Range(0, 20, 1))) {
		t.Fatal(first, second)
	}
	pairs := must[*Iterator](t)(Range(5, 6, 1).Enumerate(3).Batch(2).Iterator(nil))
	defer pairs.Close()
	if !pairs.Next() || pairs.Value().String() == "" || pairs.Value().Len() != 2 || pairs.Next() {
		t.Fatal(pairs.Value(), pairs.Err())
	}
}

func TestFailedElementsAreSkipped(t *testing.T) {
	bad := Range(0, 8, 1).Map(func(element Value) (Value, error) {
		number, err := element.Int64()
		if err == nil && number%3 == 2 {
			err = fmt.Errorf("%d is bad", number)
		}
		if err != nil {
			return Value{}, err
		}
		return OfInt64(number)
	})
	if got := integers(t, bad.OnError("skip")); !reflect.DeepEqual(got, []int64{0, 1, 3, 4, 6, 7}) {
		t.Fatal(got)
	}
	file := filepath.Join(t.TempDir(), "refused.tfrecord")
	integers(t, bad.OnError("quarantine:"+file))
	parse := ParseExample(map[string]Feature{"value": {DType: Int64}})
	defer parse.Close()
	refused := TFRecords(file).MapWith(parse).Map(func(row Value) (Value, error) {
		return row.Get("value")
	})
	if got := integers(t, refused); !reflect.DeepEqual(got, []int64{2, 5}) {
		t.Fatal(got)
	}
	one := must[*Iterator](t)(bad.OnError("skip", WithMaxSkipped(1)).Iterator(nil))
	defer one.Close()
	for _, want := range []int64{0, 1, 3, 4} {
		if !one.Next() || must[int64](t)(one.Value().Int64()) != want {
			t.Fatal(want, one.Err())
		}
	}
	if one.Next() || one.Err() == nil || !strings.Contains(one.Err().Error(), "5 is bad") ||
		!strings.Contains(one.Err().Error(), "1 element that failed was skipped") {
		t.Fatal(one.Err())
	}
	for _, wrong := range []*Dataset{Range(0, 3, 1).OnError("ignore"),
		Range(0, 3, 1).OnError("skip", WithMaxSkipped(-2)),
		Range(0, 3, 1).OnError("fail", WithMaxSkipped(1))} {
		if err := wrong.Err(); !errors.Is(err, ErrInvalidArgument) {
			t.Fatal(err)
		}
	}
}

func TestWindowsAreDatasetsOfTheirOwn(t *testing.T) {
	itself := func(window Value) (*Dataset, error) { return window.Dataset() }
	for _, c := range []struct {
		dataset *Dataset
		want    []int64
	}{
		{Range(0, 5, 1).Window(2), []int64{0, 1, 2, 3, 4}},
		{Range(0, 7, 1).Window(3, WithShift(2), WithDropRemainder(true)),
			[]int64{0, 1, 2, 2, 3, 4, 4, 5, 6}},
		{Range(0, 7, 1).Window(3, WithStride(2), WithDropRemainder(true)), []int64{0, 2, 4}},
	} {
		if got := integers(t, c.dataset.FlatMap(itself)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v, wanted %v", got, c.want)
		}
	}
	iterator := must[*Iterator](t)(Range(0, 5, 1).Window(2).Iterator(nil))
	var kept []*Dataset
	for iterator.Next() {
		kept = append(kept, must[*Dataset](t)(iterator.Value().Dataset()))
	}
	if err := iterator.Close(); err != nil || len(kept) != 3 {
		t.Fatal(err, len(kept))
	}
	for pass := 0; pass < 2; pass++ {
		if got := integers(t, kept[1]); !reflect.DeepEqual(got, []int64{2, 3}) {
			t.Fatal(got)
		}
	}
	for _, wrong := range []*Dataset{Range(0, 3, 1).Window(0),
		Range(0, 3, 1).Window(2, WithShift(0)), Range(0, 3, 1).Window(2, WithStride(0))} {
		if err := wrong.Err(); !errors.Is(err, ErrInvalidArgument) {
			t.Fatal(err)
		}
	}
}

func TestPaddedBatchesHaveTheirShapesAndValues(t *testing.T) {
	vector := must[*Spec](t)(TensorSpec(Int64, UnknownDimension))
	fill := func(element Value) (Value, error) {
		number, err := element.Int64()
		if err != nil {
			return Value{}, err
		}
		copies := make([]int64, number)
		for i := range copies {
			copies[i] = number
		}
		return Of(copies)
	}
	filled := Range(1, 4, 1).Map(fill, WithOutput(vector))
	four, three := must[Value](t)(Of([]int64{4})), must[Value](t)(Of([]int64{3}))
	minus := must[Value](t)(OfInt64(-1))
	half := must[Value](t)(Of([]float32{0.5}, []int64{}...))
	pairs := Zip(must[Value](t)(Tuple(must[Value](t)(OfDataset(filled)),
		must[Value](t)(OfDataset(Range(1, 4, 1))))))
	for name, c := range map[string]struct {
		dataset *Dataset
		want    string
	}{
		"largest": {filled.PaddedBatch(2), "[[1 0] [2 2]] [[3 3 3]] "},
		"fixed": {filled.PaddedBatch(2, WithPaddedShapes(four), WithPaddingValues(minus),
			WithDropRemainder(true)), "[[1 -1 -1 -1] [2 2 -1 -1]] "},
		"each component": {pairs.PaddedBatch(2,
			WithPaddedShapes(must[Value](t)(Tuple(three, Value{}))),
			WithPaddingValues(must[Value](t)(Tuple(minus, Value{})))),
			"([[1 -1 -1] [2 2 -1]], [1 2]) ([[3 3 3]], [3]) "},
	} {
		iterator := must[*Iterator](t)(c.dataset.Iterator(nil))
		got := ""
		for iterator.Next() {
			got += iterator.Value().String() + " "
		}
		if err := iterator.Err(); err != nil || got != c.want {
			t.Errorf("%s: %s %v", name, got, err)
		}
		iterator.Close()
	}
	wants(t, filled.PaddedBatch(0).Err(), ErrInvalidArgument)
	wants(t, filled.PaddedBatch(2, WithPaddingValues(half)).Err(), ErrInvalidArgument)
	iterator := must[*Iterator](t)(
		filled.PaddedBatch(3, WithPaddedShapes(must[Value](t)(Of([]int64{2})))).Iterator(nil))
	defer iterator.Close()
	if iterator.Next() {
		t.Fatal(iterator.Value())
	}
	wants(t, iterator.Err(), ErrInvalidArgument)
}

func TestAStateIsReducedElementByElement(t *testing.T) {
	add := func(state, element Value) (Value, error) {
		sum, err := state.Int64()
		if err != nil {
			return Value{}, err
		}
		number, err := element.Int64()
		return must[Value](t)(OfInt64(sum + number)), err
	}
	last := func(_, element Value) (Value, error) { return element, nil }
	ten := must[Value](t)(OfInt64(10))
	for _, c := range []struct {
		dataset *Dataset
		fn      func(state, element Value) (Value, error)
		want    int64
	}{{Range(0, 5, 1), add, 20}, {Range(0, 0, 1), add, 10}, {Range(0, 4, 1), last, 3}} {
		state := must[Value](t)(c.dataset.Reduce(nil, ten, c.fn))
		if got := must[int64](t)(state.Int64()); got != c.want {
			t.Error(got, c.want)
		}
		state.Close()
	}
	pair := func(state, element Value) (Value, error) {
		if element.Kind() != KindTuple || element.Len() != 2 {
			t.Error(element)
		}
		return state, nil
	}
	must[Value](t)(Range(0, 3, 1).Enumerate(10).Reduce(nil, ten, pair))
	_, err := Range(0, 3, 1).Reduce(nil, ten, func(_, _ Value) (Value, error) {
		return Of([]float32{0.5}, []int64{}...)
	})
	wants(t, err, ErrInvalidArgument)
	own := errors.New("two")
	_, err = Range(0, 3, 1).Reduce(nil, ten, func(state, element Value) (Value, error) {
		if number, _ := element.Int64(); number == 2 {
			return Value{}, own
		}
		return state, nil
	})
	if !errors.Is(err, own) {
		t.Error(err)
	}
	keep := func(state, _ Value) (Value, error) { return state, nil }
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = Range(0, 3, 1).Repeat(-1).Reduce(ctx, ten, keep)
	wants(t, err, ErrDeadlineExceeded)
	_, err = Range(0, 3, 1).Reduce(nil, ten, nil)
	wants(t, err, ErrInvalidArgument)
	_, err = Range(0, 3, 1).Reduce(nil, Value{}, keep)
	wants(t, err, ErrInvalidArgument)
}

func TestASnapshotIsWrittenOnceAndReadFromThenOn(t *testing.T) {
	calls := int64(0)
	register := func(name string, fn MapFunc) *Function {
		t.Helper()
		if err := RegisterFunction(name, fn, FunctionOptions{}); err != nil {
			t.Fatal(err)
		}
		return must[*Function](t)(RegisteredFunction(name))
	}
	plusCalls := register("dataset_test.plus_calls", func(element Value) (Value, error) {
		number, err := element.Int64()
		calls++
		return sure(OfInt64(number + 10*(calls-1))), err
	})
	defer UnregisterFunction("dataset_test.plus_calls")
	parity := register("dataset_test.parity", func(element Value) (Value, error) {
		number, err := element.Int64()
		return sure(OfInt64(number % 2)), err
	})
	defer UnregisterFunction("dataset_test.parity")
	flat := NewFunction(func(shards Value) (Value, error) {
		return OfDataset(sure(shards.Dataset()).FlatMap(Value.Dataset))
	}, FunctionOptions{})
	for _, function := range []*Function{plusCalls, parity, flat} {
		defer function.Close()
	}
	path := filepath.Join(t.TempDir(), "snap")
	shards := Range(0, 5, 1).Snapshot(path, WithShardFunc(parity), WithReaderFunc(flat),
		WithSnapshotCompression("GZIP"))
	for i, c := range []struct {
		dataset *Dataset
		want    []int64
	}{
		{Range(0, 3, 1).MapWith(plusCalls).Snapshot(path), []int64{0, 11, 22}},
		{Range(0, 3, 1).MapWith(plusCalls).Snapshot(path), []int64{0, 11, 22}},
		{shards, []int64{0, 1, 2, 3, 4}},
		{shards, []int64{0, 2, 4, 1, 3}},
		{Range(0, 5, 1).Snapshot(path, WithShardFunc(parity)), []int64{0, 1, 2, 3, 4}},
	} {
		if got := integers(t, c.dataset); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d: %v", i, got)
		}
	}
	if calls != 3 {
		t.Error(calls)
	}
	wants(t, Range(0, 3, 1).Map(plusOne).Snapshot(path).Err(), ErrInvalidArgument)
	wants(t, Range(0, 3, 1).Snapshot(path, WithSnapshotCompression("LZ4")).Err(),
		ErrInvalidArgument)
	closed := NewFunction(plusOne, FunctionOptions{})
	closed.Close()
	wants(t, Range(0, 3, 1).Snapshot(path, WithShardFunc(closed)).Err(), ErrFailedPrecondition)
}

func TestDatasetsOfAFunctionComeInTheirOrder(t *testing.T) {
	count := func(element Value) (*Dataset, error) {
		number, err := element.Int64()
		return Range(10*number, 10*number+3, 1), err
	}
	upTo := func(element Value) (*Dataset, error) {
		number, err := element.Int64()
		return Range(0, number, 1), err
	}
	three, cycle, block := Range(0, 3, 1), WithCycleLength(2), WithBlockLength(2)
	want := []int64{0, 1, 10, 11, 2, 12, 20, 21, 22}
	for name, c := range map[string]struct {
		dataset *Dataset
		want    []int64
	}{
		"flat_map":   {Range(0, 4, 1).FlatMap(upTo), []int64{0, 0, 1, 0, 1, 2}},
		"interleave": {three.Interleave(count, cycle, block), want},
		"parallel":   {three.Interleave(count, cycle, block, WithParallelCalls(2)), want},
		"by itself":  {three.Interleave(count), []int64{0, 10, 20, 1, 11, 21, 2, 12, 22}},
	} {
		if got := integers(t, c.dataset); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	wants(t, three.Interleave(count, WithCycleLength(0)).Err(), ErrInvalidArgument)
	wants(t, three.Interleave(count, cycle, WithParallelCalls(3)).Err(), ErrInvalidArgument)
	wants(t, three.FlatMap(nil).Err(), ErrInvalidArgument)
	function := NewFunction(plusOne, FunctionOptions{})
	defer function.Close()
	for _, dataset := range []*Dataset{three.FlatMapWith(function),
		three.InterleaveWith(function, cycle)} {
		iterator := must[*Iterator](t)(dataset.Iterator(nil))
		defer iterator.Close()
		if iterator.Next() {
			t.Fatal(iterator.Value())
		}
		wants(t, iterator.Err(), ErrInvalidArgument)
	}
}

func TestWindowsOfOneKeyAreGivenToAFunction(t *testing.T) {
	numbers := Range(0, 8, 1)
	odd := func(x Value) (int64, error) {
		number, err := x.Int64()
		return number % 2, err
	}
	rest := func(key int64, window *Dataset) (*Dataset, error) { return window.Skip(key), nil }
	if got := integers(t, numbers.GroupByWindow(odd, rest, 3)); !reflect.DeepEqual(
		got, []int64{0, 2, 4, 3, 5, 6}) {
		t.Error(got)
	}
	var asked []int64
	sizes := func(key int64) (int64, error) {
		asked = append(asked, key)
		return key + 1, nil
	}
	if got := integers(t, numbers.GroupByWindowOfSizes(odd, rest, sizes)); !reflect.DeepEqual(
		got, []int64{0, 2, 3, 4, 6, 7}) || !reflect.DeepEqual(asked, []int64{0, 1}) {
		t.Error(got, asked)
	}
	wants(t, numbers.GroupByWindow(odd, rest, 0).Err(), ErrInvalidArgument)
	wants(t, numbers.GroupByWindow(nil, rest, 1).Err(), ErrInvalidArgument)
	wants(t, numbers.GroupByWindow(odd, nil, 1).Err(), ErrInvalidArgument)
	wants(t, numbers.GroupByWindowOfSizes(odd, rest, nil).Err(), ErrInvalidArgument)
	own := errors.New("not this one")
	failing := Range(0, 4, 1).GroupByWindow(odd,
		func(key int64, window *Dataset) (*Dataset, error) {
			if key == 0 {
				return nil, own
			}
			return window, nil
		}, 2)
	iterator := must[*Iterator](t)(failing.Iterator(nil))
	defer iterator.Close()
	if iterator.Next() || !errors.Is(iterator.Err(), own) {
		t.Fatal(iterator.Err())
	}
	if !iterator.Next() || must[int64](t)(iterator.Value().Int64()) != 1 {
		t.Fatal(iterator.Err())
	}
	// Functions of their own, and what is no dataset.
	keys := NewFunction(plusOne, FunctionOptions{})
	defer keys.Close()
	second := NewFunction(func(in Value) (Value, error) { return in.At(1) }, FunctionOptions{})
	defer second.Close()
	if got := integers(t, Range(0, 3, 1).GroupByWindowWith(keys, second, 0, keys)); len(got) != 3 {
		t.Error(got)
	}
	wants(t, numbers.GroupByWindowWith(keys, second, 2, keys).Err(), ErrInvalidArgument)
	wants(t, numbers.GroupByWindowWith(keys, second, 0, nil).Err(), ErrInvalidArgument)
	first := NewFunction(func(in Value) (Value, error) { return in.At(0) }, FunctionOptions{})
	defer first.Close()
	wrong := must[*Iterator](t)(numbers.GroupByWindowWith(keys, first, 1, nil).Iterator(nil))
	defer wrong.Close()
	if wrong.Next() {
		t.Fatal(wrong.Value())
	}
	wants(t, wrong.Err(), ErrInvalidArgument)
}

func TestRandomOrdersComeOneBehindTheOther(t *testing.T) {
	nine := Range(0, 9, 1)
	both := integers(t, nine.ShuffleAndRepeat(9, 2, 5))
	if apart := integers(t, nine.Shuffle(9, 5).Repeat(2)); !reflect.DeepEqual(both, apart) {
		t.Error(both, apart)
	}
	if reflect.DeepEqual(both[:9], both[9:]) {
		t.Error(both)
	}
	if count := nine.ShuffleAndRepeat(2, -1, RandomSeed).Cardinality(); count != InfiniteCardinality {
		t.Error(count)
	}
	wants(t, nine.ShuffleAndRepeat(0, 1, RandomSeed).Err(), ErrInvalidArgument)
}

func TestErrorsOfDatasetsComeOut(t *testing.T) {
	original := errors.New("not this one")
	mapped := Range(0, 3, 1).Map(func(element Value) (Value, error) {
		if number, _ := element.Int64(); number == 1 {
			return Value{}, original
		}
		return plusOne(element)
	})
	iterator := must[*Iterator](t)(mapped.Iterator(nil))
	defer iterator.Close()
	if !iterator.Next() || iterator.Next() || !errors.Is(iterator.Err(), original) {
		t.Fatal(iterator.Err())
	}
	panicking := must[*Iterator](t)(Range(0, 3, 1).Map(func(Value) (Value, error) {
		panic("at the disco")
	}, WithParallelCalls(2)).Iterator(nil)) // on a thread of the library
	defer panicking.Close()
	var panicked *PanicError
	if panicking.Next() || !errors.As(panicking.Err(), &panicked) || panicked.Value != "at the disco" {
		t.Fatal(panicking.Err())
	}
	wrong := Range(0, 3, 1).Batch(-1).Take(2).Map(plusOne)
	wants(t, wrong.Err(), ErrInvalidArgument)
	_, err := wrong.Iterator(nil)
	wants(t, err, ErrInvalidArgument)
	wants(t, Range(0, 1, 1).Map(nil).Err(), ErrInvalidArgument)
	closed := Range(0, 1, 1)
	closed.Close()
	wants(t, closed.Take(1).Err(), ErrFailedPrecondition)
	if panicking.Close(); panicking.Next() {
		t.Fatal("a closed iterator goes on")
	}
	wants(t, panicking.Err(), ErrFailedPrecondition)
}

func TestADatasetSaysHowManyElementsItHas(t *testing.T) {
	for want, dataset := range map[string]*Dataset{
		"Dataset of 1 element": Range(0, 1, 1), "Dataset of 3 elements": Range(0, 3, 1),
		"Dataset of infinitely many elements":      Range(0, 3, 1).Repeat(-1),
		"Dataset of an unknown number of elements": TFRecords("none"),
		"Dataset (unusable)":                       Range(0, 3, 0)} {
		if got := dataset.String(); got != want {
			t.Fatal(got)
		}
	}
}

func TestStepsAreDistributed(t *testing.T) {
	strategy := twoReplicas(t)
	steps := must[*DistributedIterator](t)(strategy.Distribute(nil, Range(0, 10, 1).Batch(4)))
	defer steps.Close()
	var rows []int
	var total int64
	for steps.Next() {
		results := must[Value](t)(strategy.Run(nil, func(r *ReplicaContext, batch Value) (Value, error) {
			tensor, err := batch.Tensor()
			if err != nil {
				return Value{}, err
			}
			numbers, err := Slice[int64](tensor)
			if err != nil {
				return Value{}, err
			}
			sum := int64(0)
			for _, number := range numbers {
				sum += number
			}
			return Tuple(sure(OfInt64(sum)), sure(OfInt64(int64(r.GlobalRows()))))
		}, steps.Value()))
		sums := must[Value](t)(strategy.Reduce(nil, Sum, results))
		sum := must[Value](t)(sums.At(0))
		total += must[int64](t)(sum.Int64())
		global := must[Value](t)(sums.At(1))
		rows = append(rows, int(must[int64](t)(global.Int64()))/2)
	}
	if steps.Err() != nil || total != 45 || !reflect.DeepEqual(rows, []int{4, 4, 2}) {
		t.Fatal(steps.Err(), total, rows)
	}
	given := must[*DistributedDataset](t)(strategy.DistributeFromFunction(nil,
		func(input InputContext) *Dataset {
			return Range(0, 4, 1).Batch(int64(sure(input.PerReplicaBatchSize(4))))
		}, InputOptions{}))
	defer given.Close()
	elements := must[*DistributedIterator](t)(given.Iterator(nil))
	defer elements.Close()
	if !elements.Next() || elements.Next() || elements.Err() != nil {
		t.Fatal(elements.Err())
	}
	_, err := strategy.Distribute(nil, Range(0, 3, 1))
	wants(t, err, ErrInvalidArgument)
	_, err = strategy.Distribute(nil, nil)
	wants(t, err, ErrInvalidArgument)
}
