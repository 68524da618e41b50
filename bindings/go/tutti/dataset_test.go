package tutti

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
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

func TestDatasetsFromValuesAndGenerators(t *testing.T) {
	x := must[Value](t)(Of([]int64{1, 2, 3, 4}, 2, 2))
	rows := FromTensorSlices(x)
	if rows.Cardinality() != 2 {
		t.Fatal(rows.Cardinality())
	}
	a, b := must[Value](t)(OfDataset(Range(0, 2, 1))), must[Value](t)(OfDataset(Range(5, 9, 1)))
	zipped := Zip(must[Value](t)(Tuple(a, b)))
	summed := zipped.Map(func(pair Value) (Value, error) {
		var sum int64
		for i := 0; i < pair.Len(); i++ {
			part, err := pair.At(i)
			if err != nil {
				return Value{}, err
			}
			number, err := part.Int64()
			if err != nil {
				return Value{}, err
			}
			sum += number
		}
		return OfInt64(sum)
	})
	if got := integers(t, summed); !reflect.DeepEqual(got, []int64{5, 7}) {
		t.Fatal(got)
	}
	generated := FromGenerator(func() (Generator, error) {
		i := int64(0)
		return func() (Value, bool, error) {
			if i == 3 {
				return Value{}, false, nil
			}
			i++
			value, err := OfInt64(i)
			return value, true, err
		}, nil
	}, must[*Spec](t)(TensorSpec(Int64)))
	for i := 0; i < 2; i++ {
		if got := integers(t, generated); !reflect.DeepEqual(got, []int64{1, 2, 3}) {
			t.Fatal(got)
		}
	}
}

// generated gives what a generator of these values does under a spec.
func generated(t *testing.T, spec *Spec, values ...Value) *Iterator {
	t.Helper()
	dataset := FromGenerator(func() (Generator, error) {
		i := 0
		return func() (Value, bool, error) {
			if i == len(values) {
				return Value{}, false, nil
			}
			i++
			value, err := values[i-1].Keep()
			return value, true, err
		}, nil
	}, spec)
	return must[*Iterator](t)(dataset.Iterator(nil))
}

func TestWhatIsGeneratedTakesTheDeclaredDType(t *testing.T) {
	spec := must[*Spec](t)(TensorSpec(Float32))
	iterator := generated(t, spec, must[Value](t)(OfScalar(1)), must[Value](t)(OfFloat64(0.1)))
	defer iterator.Close()
	for _, expected := range []float32{1, 0.1} {
		if !iterator.Next() {
			t.Fatal(iterator.Err())
		}
		tensor := must[*Tensor](t)(iterator.Value().Tensor())
		if got := must[[]float32](t)(Slice[float32](tensor)); got[0] != expected {
			t.Fatal(got)
		}
	}
	beyond := generated(t, must[*Spec](t)(TensorSpec(Int32)), must[Value](t)(OfScalar(3000000000)))
	defer beyond.Close()
	if beyond.Next() || !strings.Contains(beyond.Err().Error(), "3000000000 does not fit into int32") {
		t.Fatal(beyond.Err())
	}
	wants(t, beyond.Err(), ErrInvalidArgument)
	half := NewFunction(func(element Value) (Value, error) {
		number, err := element.Int64()
		if err != nil {
			return Value{}, err
		}
		return OfFloat64(float64(number) / 2)
	}, FunctionOptions{Output: spec})
	mapped := must[*Iterator](t)(Range(1, 2, 1).MapWith(half).Iterator(nil))
	defer mapped.Close()
	if !mapped.Next() || must[*Tensor](t)(mapped.Value().Tensor()).DType() != Float32 {
		t.Fatal(mapped.Err())
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

// The example of the reference's page.
func TestRecordsAreShardedByGroupByWindow(t *testing.T) {
	folder := t.TempDir()
	words := []string{"word 0", "word 1", "word 2", "word 3", "word 4", "word 5", "word 6"}
	texts := must[*Tensor](t)(StringTensor(words))
	defer texts.Close()
	slices := must[Value](t)(OfTensor(texts))
	defer slices.Close()
	third := func(element Value) (int64, error) {
		index, err := element.At(0)
		if err != nil {
			return 0, err
		}
		number, err := index.Int64()
		return number % 3, err
	}
	write := func(key int64, window *Dataset) (*Dataset, error) {
		prefix := must[*Tensor](t)(StringTensor([]string{folder + "/part-"}))
		defer prefix.Close()
		number := must[*Tensor](t)(TensorOf([]int64{key}))
		defer number.Close()
		text := must[*Tensor](t)(number.AsStrings(TextFormat{}))
		defer text.Close()
		filename := must[*Tensor](t)(JoinStrings("", prefix, text))
		defer filename.Close()
		writer, err := NewRecordWriter(must[[]string](t)(filename.Strings())[0])
		if err != nil {
			return nil, err
		}
		defer writer.Close()
		second := func(element Value) (Value, error) { return element.At(1) }
		if err := writer.WriteDataset(nil, window.Map(second)); err != nil {
			return nil, err
		}
		name := must[Value](t)(OfTensor(filename))
		defer name.Close()
		return FromTensors(name), nil
	}
	dataset := FromTensorSlices(slices).Enumerate(0).GroupByWindow(third, write, math.MaxInt64)
	must[*Spec](t)(dataset.ElementSpec(nil))
	if files := must[[]os.DirEntry](t)(os.ReadDir(folder)); len(files) != 0 {
		t.Fatal(files)
	}
	iterator := must[*Iterator](t)(dataset.Iterator(nil))
	defer iterator.Close()
	for shard := 0; shard < 3; shard++ {
		if !iterator.Next() {
			t.Fatal(iterator.Err())
		}
		path := fmt.Sprintf("%s/part-%d", folder, shard)
		names := must[[]string](t)(must[*Tensor](t)(iterator.Value().Tensor()).Strings())
		if names[0] != path {
			t.Error(names)
		}
		records := must[*Iterator](t)(TFRecords(path).Iterator(nil))
		var found []string
		for records.Next() {
			found = append(found, must[string](t)(records.Value().Text()))
		}
		records.Close()
		var expected []string
		for i := shard; i < len(words); i += 3 {
			expected = append(expected, words[i])
		}
		if !reflect.DeepEqual(found, expected) {
			t.Error(found, records.Err())
		}
	}
	if iterator.Next() || iterator.Err() != nil {
		t.Error(iterator.Err())
	}
	nowhere := Range(0, 1, 1).FlatMap(func(Value) (*Dataset, error) {
		writer, err := NewRecordWriter(folder + "/none/file")
		if err != nil {
			return nil, err
		}
		defer writer.Close()
		return Range(0, 2, 1), writer.WriteDataset(nil, FromTensorSlices(slices))
	})
	failing := must[*Iterator](t)(nowhere.Iterator(nil))
	defer failing.Close()
	if failing.Next() {
		t.Error(failing.Value())
	}
	wants(t, failing.Err(), ErrNotFound)
	if !failing.Next() || must[int64](t)(failing.Value().Int64()) != 1 || failing.Next() {
		t.Error(failing.Err())
	}
	mapped := must[*Iterator](t)(Range(0, 1, 1).Map(func(element Value) (Value, error) {
		_, err := NewRecordWriter(folder + "/x")
		return element, err
	}).Iterator(nil))
	defer mapped.Close()
	if mapped.Next() {
		t.Error(mapped.Value())
	}
	wants(t, mapped.Err(), ErrFailedPrecondition)
}

func TestTextsAreMadeOfNumbersAndTensorsOfBytes(t *testing.T) {
	floats := must[*Tensor](t)(TensorOf([]float32{1.5, -2}))
	defer floats.Close()
	one := 1
	formed := must[*Tensor](t)(floats.AsStrings(TextFormat{Precision: &one, Width: 5, Fill: "0"}))
	defer formed.Close()
	shortest := must[*Tensor](t)(floats.AsStrings(TextFormat{Shortest: true}))
	defer shortest.Close()
	joined := must[*Tensor](t)(JoinStrings(" ", formed, shortest))
	defer joined.Close()
	if got := must[[]string](t)(joined.Strings()); !reflect.DeepEqual(
		got, []string{"001.5 1.5", "-02.0 -2"}) {
		t.Error(got)
	}
	bytes := must[*Tensor](t)(floats.Serialize())
	defer bytes.Close()
	again := must[*Tensor](t)(ParseTensor(bytes, Float32))
	defer again.Close()
	if !again.Equal(floats) {
		t.Error(again)
	}
	_, err := ParseTensor(bytes, Int64)
	wants(t, err, ErrInvalidArgument)
	_, err = JoinStrings("")
	wants(t, err, ErrInvalidArgument)
	_, err = JoinStrings("", floats)
	wants(t, err, ErrInvalidArgument)
	_, err = JoinStrings("", nil)
	wants(t, err, ErrInvalidArgument)
	_, err = floats.AsStrings(TextFormat{Scientific: true, Shortest: true})
	wants(t, err, ErrInvalidArgument)
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

func TestSpecsAndOptions(t *testing.T) {
	spec := must[*Spec](t)(DictSpec(map[string]*Spec{
		"image": must[*Spec](t)(TensorSpec(Float32, UnknownDimension, 64)),
		"label": must[*Spec](t)(TupleSpec(must[*Spec](t)(TensorSpec(Int64)))),
	}))
	if got := spec.String(); got != "{'image': float32[?,64], 'label': (int64[],)}" {
		t.Fatal(got)
	}
	batched := must[*Spec](t)(Range(0, 5, 1).Batch(2).ElementSpec(nil))
	if !batched.Equal(must[*Spec](t)(TensorSpec(Int64, UnknownDimension))) ||
		!batched.IsCompatible(must[*Spec](t)(TensorSpec(Int64, 2))) {
		t.Fatal(batched)
	}
	options := must[*DataOptions](t)(NewDataOptions())
	if err := options.SetBool("deterministic", false); err != nil {
		t.Fatal(err)
	}
	wants(t, options.SetInt("no.such.option", 1), ErrInvalidArgument)
	read := must[*DataOptions](t)(Range(0, 1, 1).WithOptions(options).Options())
	if number, present, err := read.Read("deterministic"); number != 0 || !present || err != nil {
		t.Fatal(number, present, err)
	}
	if _, present, _ := read.Read("experimental_slack"); present {
		t.Fatal("it was not set")
	}
}

func TestSpecsAreCompatibleEitherWayAndUnited(t *testing.T) {
	three, four := must[*Spec](t)(TensorSpec(Int32, 3)), must[*Spec](t)(TensorSpec(Int32, 4))
	some := must[*Spec](t)(TensorSpec(Int32, UnknownDimension))
	text := must[*Spec](t)(TensorSpec(Bytes))
	over := func(make func(*Spec) (*Spec, error), inner *Spec) *Spec {
		return must[*Spec](t)(make(inner))
	}
	for name, make := range map[string]func(*Spec) (*Spec, error){
		"tensor":   func(spec *Spec) (*Spec, error) { return TupleSpec(spec) },
		"iterator": IteratorSpec, "optional": OptionalSpec,
		"dataset": func(spec *Spec) (*Spec, error) { return DatasetSpec(spec) },
	} {
		if !over(make, three).IsCompatible(over(make, some)) ||
			!over(make, some).IsCompatible(over(make, three)) ||
			over(make, three).IsCompatible(over(make, four)) ||
			over(make, three).IsCompatible(over(make, text)) {
			t.Error(name, over(make, three))
		}
		common := must[*Spec](t)(over(make, three).MostSpecific(over(make, four)))
		if !common.Equal(over(make, some)) {
			t.Error(name, common)
		}
		_, err := over(make, three).MostSpecific(over(make, text))
		wants(t, err, ErrInvalidArgument)
	}
	_, err := three.MostSpecific(nil)
	wants(t, err, ErrInvalidArgument)
	ranks := must[*Spec](t)(three.MostSpecific(must[*Spec](t)(TensorSpec(Int32, 4, 5))))
	if !ranks.Equal(must[*Spec](t)(TensorSpecOfUnknownRank(Int32))) {
		t.Fatal(ranks)
	}
	one, grid := over(func(s *Spec) (*Spec, error) { return DatasetSpec(s) }, three),
		must[*Spec](t)(DatasetSpec(three, 2, UnknownDimension))
	if one.Equal(grid) || one.IsCompatible(grid) || grid.String() != "dataset[2,?](int32[3])" {
		t.Fatal(one, grid)
	}
	tuple := must[*Spec](t)(TupleSpec(grid, over(IteratorSpec, three)))
	leaves := must[[]LeafSpec](t)(tuple.Leaves())
	if !reflect.DeepEqual(leaves[0].Dims, []int64{2, UnknownDimension}) ||
		leaves[1].Kind != KindIterator || leaves[1].Kind.String() != "iterator" ||
		!leaves[1].Inner.Equal(three) {
		t.Fatal(tuple, leaves)
	}
}

func TestSpecsOfIteratorsAndOfTypes(t *testing.T) {
	iterator := must[*Iterator](t)(Range(0, 3, 1).Iterator(nil))
	defer iterator.Close()
	spec := must[*Spec](t)(SpecOfIterator(iterator))
	if !spec.Equal(must[*Spec](t)(IteratorSpec(must[*Spec](t)(TensorSpec(Int64))))) {
		t.Fatal(spec)
	}
	_, err := SpecOfIterator(nil)
	wants(t, err, ErrInvalidArgument)
	for text, made := range map[string]func() (*Spec, error){
		"int64[2]":       func() (*Spec, error) { return SpecOfTypes(Int64, []int64{2}) },
		"int64[]":        func() (*Spec, error) { return SpecOfTypes(Int64, []int64{}) },
		"int64<unknown>": func() (*Spec, error) { return SpecOfTypes(Int64, nil) },
		"(int64[], bytes[?])": func() (*Spec, error) {
			return SpecOfTypes([]any{Int64, Bytes}, []any{[]int64{}, []int64{UnknownDimension}})
		},
		"{'a': (bool<unknown>,), 'b': int8[1]}": func() (*Spec, error) {
			return SpecOfTypes(map[string]any{"a": []any{Bool}, "b": Int8},
				map[string]any{"a": nil, "b": []int64{1}})
		},
	} {
		if got := must[*Spec](t)(made()).String(); got != text {
			t.Error(got, text)
		}
	}
	for name, wrong := range map[string][2]any{
		"type": {3, nil}, "shape": {Int64, 3}, "tuple": {[]any{Int64}, []any{}},
		"part": {[]any{"int64"}, nil}, "dict": {map[string]any{"a": Int8}, map[string]any{"b": nil}},
		"structure": {[]any{Int64}, []int64{1}}, "none": {nil, nil},
	} {
		if _, err := SpecOfTypes(wrong[0], wrong[1]); !errors.Is(err, ErrInvalidArgument) {
			t.Error(name, err)
		}
	}
}

func TestADatasetComesBackFromItsVariant(t *testing.T) {
	dataset := Range(0, 3, 1)
	variant := must[Value](t)(dataset.ToVariant())
	defer variant.Close()
	spec := must[*Spec](t)(TensorSpec(Int64))
	if got := integers(t, FromVariant(nil, variant, spec)); !reflect.DeepEqual(got, []int64{0, 1, 2}) {
		t.Fatal(got)
	}
	if !must[*Spec](t)(VariantSpec()).IsCompatible(must[*Spec](t)(SpecOf(variant))) {
		t.Fatal("a variant does not fit its spec")
	}
	other := FromVariant(nil, variant, must[*Spec](t)(TensorSpec(Bytes)))
	wants(t, other.Err(), ErrInvalidArgument)
	if !strings.Contains(other.Err().Error(), "expected a dataset of bytes[], found one of int64[]") {
		t.Fatal(other.Err())
	}
	number := must[Value](t)(OfInt64(1))
	defer number.Close()
	wants(t, FromVariant(nil, number, spec).Err(), ErrInvalidArgument)
	wants(t, FromVariant(nil, variant, nil).Err(), ErrInvalidArgument)
	wants(t, FromVariant(nil, Value{}, spec).Err(), ErrInvalidArgument)
}

func TestAGeneratorGetsItsArguments(t *testing.T) {
	stop := must[Value](t)(OfInt64(3))
	count := func(args []Value) (Generator, error) {
		last, err := args[0].Int64()
		next := int64(0)
		return func() (Value, bool, error) {
			if next == last {
				return Value{}, false, nil
			}
			next++
			value, err := OfInt64(next - 1)
			return value, true, err
		}, err
	}
	spec := must[*Spec](t)(SpecOfTypes(Int64, []int64{}))
	dataset := FromGeneratorWithArgs(count, []Value{stop}, spec).Repeat(2)
	stop.Close()
	if got := integers(t, dataset); !reflect.DeepEqual(got, []int64{0, 1, 2, 0, 1, 2}) {
		t.Fatal(got)
	}
	text := must[Value](t)(OfText("no tensor"))
	defer text.Close()
	err := FromGeneratorWithArgs(count, []Value{text}, spec).Err()
	wants(t, err, ErrInvalidArgument)
	if !strings.Contains(err.Error(), "args[0] holds a string") {
		t.Fatal(err)
	}
	wants(t, FromGeneratorWithArgs(count, []Value{{}}, spec).Err(), ErrInvalidArgument)
	wants(t, FromGeneratorWithArgs(count, []Value{stop}, spec).Err(), ErrFailedPrecondition)
	wants(t, FromGeneratorWithArgs(nil, nil, spec).Err(), ErrInvalidArgument)
	wants(t, FromGeneratorWithArgs(count, nil, nil).Err(), ErrInvalidArgument)
}

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

func TestReadersTakeANumberOfParallelReads(t *testing.T) {
	none := defaultRuntime.names(nil)
	for _, dataset := range []*Dataset{TFRecords(), TFRecordsOf(none, WithParallelReads(2)),
		FixedLengthRecords(none, 2, WithParallelReads(Autotune))} {
		iterator := must[*Iterator](t)(dataset.Iterator(nil))
		if iterator.Next() || iterator.Err() != nil {
			t.Fatal(iterator.Err())
		}
		iterator.Close()
	}
	wants(t, TFRecordsOf(none, WithParallelReads(-2)).Err(), ErrInvalidArgument)
	wants(t, FixedLengthRecords(none, 2, WithParallelReads(-2)).Err(), ErrInvalidArgument)
	wants(t, TextLinesOf(none, WithParallelReads(-2)).Err(), ErrInvalidArgument)
}

func TestRecordsOfFilesThatAreReadAtATimeComeInTurn(t *testing.T) {
	var paths []string
	for i, content := range []string{"0a\n0b", "1a\n1b", "2a\n2b"} {
		paths = append(paths, filepath.Join(t.TempDir(), "part"))
		if err := os.WriteFile(paths[i], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := TextLinesOf(defaultRuntime.names(paths), WithParallelReads(2))
	iterator := must[*Iterator](t)(lines.Iterator(nil))
	defer iterator.Close()
	again := must[*Iterator](t)(lines.Iterator(nil))
	defer again.Close()
	for i, want := range []string{"0a", "1a", "0b", "1b", "2a", "2b"} {
		if i > 0 { // from the position of the other one
			if err := again.Restore(nil, must[[]byte](t)(iterator.Save(nil))); err != nil {
				t.Fatal(err)
			}
			if !again.Next() || must[string](t)(again.Value().Text()) != want {
				t.Fatal(i, again.Err())
			}
		}
		if !iterator.Next() || must[string](t)(iterator.Value().Text()) != want {
			t.Fatal(i, iterator.Err())
		}
	}
	if iterator.Next() || iterator.Err() != nil {
		t.Error(iterator.Err())
	}
}

func TestLinesOfTextFiles(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "lines.txt")
	if err := os.WriteFile(path, []byte("one\r\n\nthree\r\r\nlast"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := []string{"one", "", "three\r", "last"}
	read := func(iterator *Iterator) []string {
		var got []string
		for iterator.Next() {
			got = append(got, must[string](t)(iterator.Value().Text()))
		}
		return got
	}
	iterator := must[*Iterator](t)(TextLines(path).Iterator(nil))
	if got := read(iterator); !reflect.DeepEqual(got, lines) || iterator.Err() != nil {
		t.Fatal(got, iterator.Err())
	}
	iterator.Close()
	names := defaultRuntime.names([]string{path, filepath.Join(folder, "none"), path})
	dataset := TextLinesOf(names, WithBufferSize(2), WithName("lines"))
	iterator = must[*Iterator](t)(dataset.Iterator(nil))
	defer iterator.Close()
	if got := read(iterator); !reflect.DeepEqual(got, lines) {
		t.Fatal(got)
	}
	wants(t, iterator.Err(), ErrNotFound)
	again := must[*Iterator](t)(dataset.Iterator(nil))
	defer again.Close()
	if err := again.Restore(nil, must[[]byte](t)(iterator.Save(nil))); err != nil {
		t.Fatal(err)
	}
	for _, one := range []*Iterator{iterator, again} {
		if got := read(one); !reflect.DeepEqual(got, lines) || one.Err() != nil {
			t.Fatal(got, one.Err())
		}
	}
	packed := must[*Iterator](t)(TextLinesOf(names, WithCompression(Gzip)).Iterator(nil))
	defer packed.Close()
	if packed.Next() {
		t.Error("a text is no gzip")
	}
	wants(t, packed.Err(), ErrDataLoss)
}

func TestRowsOfADatabaseAreTuples(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // a database without tables
		t.Fatal(err)
	}
	rows := SQLRows("sqlite", path, "values (7, 'ada'), (70000, ''), (8, null)",
		[]DType{Int16, Bytes})
	spec := must[*Spec](t)(rows.ElementSpec(nil))
	if spec.String() != "(int16[], bytes[])" || rows.Cardinality() != UnknownCardinality {
		t.Fatal(spec)
	}
	iterator := must[*Iterator](t)(rows.Iterator(nil))
	defer iterator.Close()
	for _, want := range []string{"(7, \"ada\")", "", "(8, \"\")"} {
		if want == "" {
			if iterator.Next() {
				t.Fatal("70000 fits no int16")
			}
			wants(t, iterator.Err(), ErrInvalidArgument)
			continue
		}
		if !iterator.Next() || iterator.Value().String() != want {
			t.Fatal(iterator.Err())
		}
	}
	wants(t, SQLRows("mysql", path, "select 1", []DType{Int16}).Err(), ErrInvalidArgument)
	wants(t, SQLRows("sqlite", path, "select 1", nil).Err(), ErrInvalidArgument)
	for err, dataset := range map[Code]*Dataset{
		ErrNotFound:        SQLRows("sqlite", path+".none", "select 1", []DType{Int16}),
		ErrInvalidArgument: SQLRows("sqlite", path, "selec 1", []DType{Int16})} {
		broken := must[*Iterator](t)(dataset.Iterator(nil))
		if broken.Next() {
			t.Fatal("there is a row")
		}
		wants(t, broken.Err(), err)
		broken.Close()
	}
}

func TestCallsOfAParallelMapAreMadeAtOnceAndMayOvertake(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	go func() { // lets them go in fours
		for {
			for i := 0; i < 4; i++ {
				if _, more := <-entered; !more {
					return
				}
			}
			for i := 0; i < 4; i++ {
				leave <- struct{}{}
			}
		}
	}()
	meet := func(element Value) (Value, error) {
		entered <- struct{}{}
		select {
		case <-leave:
			return element, nil
		case <-time.After(time.Minute):
			return Value{}, errors.New("no four calls at once")
		}
	}
	met := Range(0, 8, 1).Map(meet, WithParallelCalls(4))
	if got := integers(t, met); !reflect.DeepEqual(got, []int64{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Error(got)
	}
	close(entered)
	second := make(chan struct{})
	hold := func(element Value) (Value, error) {
		if number, _ := element.Int64(); number == 0 {
			<-second
		}
		return element, nil
	}
	iterator := must[*Iterator](t)(Range(0, 4, 1).Map(hold, WithParallelCalls(2),
		WithDeterministic(false)).Iterator(nil))
	defer iterator.Close()
	if !iterator.Next() {
		t.Fatal(iterator.Err())
	}
	if number, _ := iterator.Value().Int64(); number != 1 {
		t.Error(number)
	}
	close(second)
	left := int64(0)
	for iterator.Next() {
		number, _ := iterator.Value().Int64()
		left += 1 + number
	}
	if left != 8 || iterator.Err() != nil {
		t.Error(left, iterator.Err())
	}
}

func TestRegisteredFunctionsAreFoundAgain(t *testing.T) {
	if err := RegisterFunction("go_plus_one", plusOne, FunctionOptions{}); err != nil {
		t.Fatal(err)
	}
	defer UnregisterFunction("go_plus_one")
	wants(t, RegisterFunction("go_plus_one", plusOne, FunctionOptions{}), ErrAlreadyExists)
	function := must[*Function](t)(RegisteredFunction("go_plus_one"))
	bytes := must[[]byte](t)(Range(0, 2, 1).MapWith(function).Serialize())
	if got := integers(t, Deserialize(bytes)); !reflect.DeepEqual(got, []int64{1, 2}) {
		t.Fatal(got)
	}
	_, err := RegisteredFunction("go_plus_two")
	wants(t, err, ErrNotFound)
	_, err = Range(0, 2, 1).Map(plusOne).Serialize()
	wants(t, err, ErrFailedPrecondition)
	wants(t, Deserialize([]byte{1, 2}).Err(), ErrInvalidArgument)
}

func TestAnAbandonedFileLeavesWhatWasThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	write := func(text string) *RecordWriter {
		writer := must[*RecordWriter](t)(NewRecordWriter(path))
		if _, err := writer.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return writer
	}
	if err := write("old").Close(); err != nil {
		t.Fatal(err)
	}
	writer := write("new")
	if err := writer.Abandon(); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	iterator := must[*Iterator](t)(TFRecords(path).Iterator(nil))
	defer iterator.Close()
	if !iterator.Next() || must[string](t)(iterator.Value().Text()) != "old" {
		t.Fatal(iterator.Err())
	}
}

func TestRecordsAreWrittenAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	writer := must[*RecordWriter](t)(NewRecordWriter(path, WithCompression(Gzip)))
	for _, record := range []string{"one", "", "three"} {
		if _, err := writer.Write([]byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := writer.Write(nil)
	wants(t, err, ErrFailedPrecondition)
	iterator := must[*Iterator](t)(TFRecordsOf(ListFiles([]string{path}),
		WithCompression(Gzip)).Iterator(nil))
	defer iterator.Close()
	var records []string
	for iterator.Next() {
		records = append(records, must[string](t)(iterator.Value().Text()))
	}
	if !reflect.DeepEqual(records, []string{"one", "", "three"}) || iterator.Err() != nil {
		t.Fatal(records, iterator.Err())
	}
	missing := must[*Iterator](t)(TFRecords(path + "-not").Iterator(nil))
	defer missing.Close()
	if missing.Next() {
		t.Fatal("a file that is not there")
	}
	wants(t, missing.Err(), ErrNotFound)
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

func TestDatasetFunctionsGoWithTheirDatasets(t *testing.T) {
	freed := make(chan struct{})
	func() {
		captured := new([1 << 10]byte)
		runtime.SetFinalizer(captured, func(*[1 << 10]byte) { close(freed) })
		dataset := Range(0, 2, 1).Map(func(element Value) (Value, error) {
			return OfInt64(int64(captured[0]))
		})
		integers(t, dataset)
		dataset.Close()
	}()
	for {
		runtime.GC()
		select {
		case <-freed:
			return
		default:
			runtime.Gosched()
		}
	}
}

func TestAHundredThousandConcatenatedDatasetsDoWhatTwoDo(t *testing.T) {
	one := Range(0, 1, 1)
	chain := one
	for i := 1; i < 100_000; i++ {
		chain = chain.Concatenate(one)
	}
	chain = chain.Concatenate(Range(7, 9, 1))
	if chain.Cardinality() != 100_002 {
		t.Fatal(chain.Cardinality(), chain.Err())
	}
	bytes := must[[]byte](t)(chain.Serialize())
	iterator := must[*Iterator](t)(chain.Iterator(nil))
	defer iterator.Close()
	for i := 0; i < 100_000 && iterator.Next(); i++ {
		element := iterator.Value()
		element.Close()
	}
	state := must[[]byte](t)(iterator.Save(nil))
	again := must[*Iterator](t)(Deserialize(bytes).Iterator(nil))
	defer again.Close()
	if err := again.Restore(nil, state); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{7, 8} {
		if !again.Next() {
			t.Fatal(again.Err())
		}
		element := again.Value()
		if got := must[int64](t)(element.Int64()); got != want {
			t.Fatal(got, want)
		}
		element.Close()
	}
	if again.Next() {
		t.Fatal("more than there is")
	}
	chain.Close()
}

func TestWhatIsAppendedToItselfIsWalkedAsFarAsItIsAskedFor(t *testing.T) {
	chain := Range(0, 3, 1)
	for i := 0; i < 40; i++ {
		chain = chain.Concatenate(chain)
	}
	if chain.Cardinality() != 3<<40 {
		t.Fatal(chain.Cardinality(), chain.Err())
	}
	if got := integers(t, chain.Take(5)); !reflect.DeepEqual(got, []int64{0, 1, 2, 0, 1}) {
		t.Fatal(got)
	}
}

func TestAThousandOperationsStandOnEachOtherAndNotOneMore(t *testing.T) {
	deep := Range(0, 3, 1)
	for i := 1; i < 1000; i++ {
		deep = deep.Take(2)
	}
	if got := integers(t, deep); !reflect.DeepEqual(got, []int64{0, 1}) {
		t.Fatal(got)
	}
	wants(t, deep.Take(2).Err(), ErrInvalidArgument)
}
