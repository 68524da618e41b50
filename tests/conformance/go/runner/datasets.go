package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"sync"

	"tutti.dev/tutti"
)

type fields = map[string]any

func integer(node fields, name string, start int64) int64 {
	if number, ok := node[name].(json.Number); ok {
		value, _ := number.Int64()
		return value
	}
	return start
}

// elementwise functions by name.
func function(name string, arg any) (tutti.MapFunc, error) {
	var argument *array
	if name == "add" || name == "less" || name == "equal" {
		read, err := read(arg)
		if err != nil {
			return nil, err
		}
		argument = read.(*array)
	}
	each := func(dtype tutti.DType, compute func(x, y float64) float64) tutti.MapFunc {
		return func(element tutti.Value) (tutti.Value, error) {
			tensor, err := element.Tensor()
			if err != nil {
				return tutti.Value{}, err
			}
			given, err := arrayOf(tensor)
			if err != nil {
				return tutti.Value{}, err
			}
			for i, x := range given.numbers {
				y := 0.0
				if argument != nil {
					y = argument.numbers[0]
				}
				given.numbers[i] = compute(x, y)
			}
			if dtype != 0 {
				given.dtype = dtype
			}
			return valueOf(given)
		}
	}
	switch name {
	case "add":
		return each(0, func(x, y float64) float64 { return x + y }), nil
	case "square":
		return each(0, func(x, _ float64) float64 { return x * x }), nil
	case "less":
		return each(tutti.Bool, func(x, y float64) float64 { return truth(x < y) }), nil
	case "equal":
		return each(tutti.Bool, func(x, y float64) float64 { return truth(x == y) }), nil
	case "always_true":
		return func(tutti.Value) (tutti.Value, error) {
			return valueOf(&array{dtype: tutti.Bool, numbers: []float64{1}})
		}, nil
	case "fill_self":
		return func(element tutti.Value) (tutti.Value, error) {
			described, err := describe(element)
			if err != nil {
				return tutti.Value{}, err
			}
			given := described.(*array)
			count := given.numbers[0]
			made := &array{dtype: given.dtype, shape: []int64{int64(count)}, numbers: []float64{}}
			for i := 0.0; i < count; i++ {
				made.numbers = append(made.numbers, count)
			}
			return valueOf(made)
		}, nil
	case "upper":
		return func(element tutti.Value) (tutti.Value, error) {
			text, err := element.Text()
			if err != nil {
				return tutti.Value{}, err
			}
			return valueOf(&array{dtype: tutti.Bytes, texts: []string{strings.ToUpper(text)}})
		}, nil
	case "component":
		i := int(integer(fields{"i": arg}, "i", 0))
		return func(element tutti.Value) (tutti.Value, error) { return element.At(i) }, nil
	case "constant":
		constant, err := read(arg)
		return func(tutti.Value) (tutti.Value, error) { return valueOf(constant) }, err
	}
	return nil, notCovered("function " + name)
}

// signature is the output spec of a map function, where the first row cannot tell it.
func signature(name string, dataset *tutti.Dataset) ([]tutti.Option, error) {
	if name != "add" && name != "square" && name != "fill_self" {
		return nil, nil
	}
	spec, err := dataset.ElementSpec(nil)
	if err != nil {
		return nil, err
	}
	if name == "fill_self" {
		for _, dtype := range dtypes {
			scalar, err := tutti.TensorSpec(dtype)
			if err != nil {
				return nil, err
			}
			if scalar.Equal(spec) {
				if spec, err = tutti.TensorSpec(dtype, tutti.UnknownDimension); err != nil {
					return nil, err
				}
			}
		}
	}
	return []tutti.Option{tutti.WithOutput(spec)}, nil
}

// transform is one op with an input, which is dataset.
func transform(r *tutti.Runtime, dataset *tutti.Dataset, node fields) (*tutti.Dataset, error) {
	op := fmt.Sprint(node["op"])
	arguments := map[string][]string{"map": {"fn", "arg"}, "filter": {"fn", "arg"},
		"apply": {"transformation"}, "concatenate": {"other"}, "batch": {"batch_size", "drop_remainder"},
		"repeat": {"count"}, "enumerate": {"start"}, "prefetch": {"buffer_size"},
		"shard": {"num_shards", "index"}, "skip": {"count"}, "take": {"count"},
		"shuffle": {"buffer_size", "seed", "reshuffle_each_iteration"}}
	names, ok := arguments[op]
	if !ok {
		return nil, notCovered("op " + op)
	}
	if err := known(node, append(names, "op", "input")...); err != nil {
		return nil, err
	}
	switch op {
	case "map", "filter":
		name := fmt.Sprint(node["fn"])
		fn, err := function(name, node["arg"])
		if err != nil {
			return nil, err
		}
		if op == "filter" {
			return dataset.FilterWith(r.NewFunction(fn, tutti.FunctionOptions{})), nil
		}
		options, err := signature(name, dataset)
		if err != nil {
			return nil, err
		}
		return dataset.Map(fn, options...), nil
	case "apply":
		var failure error
		made := dataset.Apply(func(d *tutti.Dataset) *tutti.Dataset {
			var inner *tutti.Dataset
			inner, failure = transform(r, d, node["transformation"].(fields))
			return inner
		})
		return made, failure
	case "concatenate":
		other, err := build(r, node["other"].(fields))
		if err != nil {
			return nil, err
		}
		return dataset.Concatenate(other), nil
	case "batch":
		if flag, ok := node["drop_remainder"].(bool); ok {
			return dataset.Batch(integer(node, "batch_size", 0), tutti.WithDropRemainder(flag)), nil
		}
		return dataset.Batch(integer(node, "batch_size", 0)), nil
	case "repeat":
		return dataset.Repeat(integer(node, "count", -1)), nil
	case "enumerate":
		return dataset.Enumerate(integer(node, "start", 0)), nil
	case "prefetch":
		return dataset.Prefetch(integer(node, "buffer_size", tutti.Autotune)), nil
	case "shard":
		return dataset.Shard(integer(node, "num_shards", 0), integer(node, "index", 0)), nil
	case "skip":
		return dataset.Skip(integer(node, "count", 0)), nil
	case "take":
		return dataset.Take(integer(node, "count", 0)), nil
	}
	var options []tutti.Option
	if flag, ok := node["reshuffle_each_iteration"].(bool); ok {
		options = append(options, tutti.WithReshuffle(flag))
	}
	return dataset.Shuffle(integer(node, "buffer_size", 0), integer(node, "seed", tutti.RandomSeed),
		options...), nil
}

// structure of datasets.
func structure(r *tutti.Runtime, node fields) (any, error) {
	if parts, ok := node["t"].([]any); ok {
		made := tuple{}
		for _, part := range parts {
			item, err := structure(r, part.(fields))
			if err != nil {
				return nil, err
			}
			made = append(made, item)
		}
		return made, nil
	}
	if parts, ok := node["d"].(fields); ok {
		made := dict{}
		for key, part := range parts {
			item, err := structure(r, part.(fields))
			if err != nil {
				return nil, err
			}
			made[key] = item
		}
		return made, nil
	}
	return build(r, node)
}

func build(r *tutti.Runtime, node fields) (*tutti.Dataset, error) {
	switch op := fmt.Sprint(node["op"]); op {
	case "range":
		if err := known(node, "op", "start", "stop", "step", "output_type"); err != nil {
			return nil, err
		}
		var options []tutti.Option
		if name, ok := node["output_type"].(string); ok {
			options = append(options, tutti.WithDType(dtypes[name]))
		}
		return r.Range(integer(node, "start", 0), integer(node, "stop", 0), integer(node, "step", 1),
			options...), nil
	case "from_tensors", "from_tensor_slices":
		if err := known(node, "op", "value"); err != nil {
			return nil, err
		}
		described, err := read(node["value"])
		if err != nil {
			return nil, err
		}
		value, err := valueOf(described)
		if err != nil {
			return nil, err
		}
		defer value.Close()
		if op == "from_tensors" {
			return r.FromTensors(value), nil
		}
		return r.FromTensorSlices(value), nil
	case "from_generator":
		if err := known(node, "op", "elements"); err != nil {
			return nil, err
		}
		var elements []any
		for _, v := range node["elements"].([]any) {
			element, err := read(v)
			if err != nil {
				return nil, err
			}
			elements = append(elements, element)
		}
		spec, err := specOf(elements)
		if err != nil {
			return nil, err
		}
		return r.FromGenerator(func() (tutti.Generator, error) {
			next := 0
			return func() (tutti.Value, bool, error) {
				if next == len(elements) {
					return tutti.Value{}, false, nil
				}
				next++
				value, err := valueOf(elements[next-1])
				return value, true, err
			}, nil
		}, spec), nil
	case "records":
		if err := known(node, "op", "files"); err != nil {
			return nil, err
		}
		paths, err := recordFiles(node["files"].([]any))
		if err != nil {
			return nil, err
		}
		scalar, err := tutti.TensorSpec(tutti.Int64)
		if err != nil {
			return nil, err
		}
		return r.TFRecords(paths...).Map(func(record tutti.Value) (tutti.Value, error) {
			text, err := record.Text()
			if err != nil {
				return tutti.Value{}, err
			}
			return tutti.OfInt64(int64(binary.LittleEndian.Uint64([]byte(text))))
		}, tutti.WithOutput(scalar)), nil
	case "zip":
		if err := known(node, "op", "inputs"); err != nil {
			return nil, err
		}
		parts, err := structure(r, node["inputs"].(fields))
		if err != nil {
			return nil, err
		}
		value, err := valueOf(parts)
		if err != nil {
			return nil, err
		}
		defer value.Close()
		return r.Zip(value), nil
	default:
		input, ok := node["input"].(fields)
		if !ok {
			return nil, notCovered("op " + op)
		}
		dataset, err := build(r, input)
		if err != nil {
			return nil, err
		}
		return transform(r, dataset, node)
	}
}

var files struct {
	sync.Mutex // guards the map: workers share the files
	folder     string
	paths      map[string][]string
}

// recordFiles are TFRecord files of numbers; the same lists give the same files.
func recordFiles(lists []any) ([]string, error) {
	files.Lock()
	defer files.Unlock()
	key := fmt.Sprint(lists)
	if paths, ok := files.paths[key]; ok {
		return paths, nil
	}
	var paths []string
	for i, list := range lists {
		path := filepath.Join(files.folder, fmt.Sprintf("%d-%d", len(files.paths), i))
		writer, err := tutti.NewRecordWriter(path)
		if err != nil {
			return nil, err
		}
		for _, item := range list.([]any) {
			var record [8]byte
			binary.LittleEndian.PutUint64(record[:], uint64(integer(fields{"i": item}, "i", 0)))
			if _, err := writer.Write(record[:]); err != nil {
				return nil, err
			}
		}
		if err := writer.Close(); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	files.paths[key] = paths
	return paths, nil
}

// elements of one iteration.
func elements(dataset *tutti.Dataset) (found []tutti.Value, err error) {
	iterator, err := dataset.Iterator(nil)
	if err != nil {
		return nil, err
	}
	defer iterator.Close()
	for iterator.Next() {
		found = append(found, iterator.Value())
	}
	return found, iterator.Err()
}

func integers(node fields) (numbers []int64, err error) {
	dataset, err := build(nil, node)
	if err != nil {
		return nil, err
	}
	found, err := elements(dataset)
	for _, element := range found {
		number, err := element.Int64()
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
	return numbers, err
}

func runDataset(test fields) error {
	if err := known(test, "name", "dataset", "expect", "dtype", "terminal", "iterate",
		"tolerance"); err != nil {
		return err
	}
	node := test["dataset"].(fields)
	expected, isObject := test["expect"].(fields)
	if isObject && expected["error"] != nil {
		dataset, err := build(nil, node)
		if err == nil {
			_, err = elements(dataset)
		}
		return expectError(expected, err)
	}
	if test["terminal"] == true {
		return runTerminal(node, test["expect"])
	}
	if isObject {
		return expectProperty(expected, node)
	}
	dataset, err := build(nil, node)
	if err != nil {
		return err
	}
	dtype, _ := test["dtype"].(string)
	wanted := test["expect"].([]any)
	for i := int64(0); i < integer(test, "iterate", 1); i++ {
		found, err := elements(dataset)
		if err != nil {
			return err
		}
		if len(found) != len(wanted) {
			return fmt.Errorf("expected %d elements, found %d", len(wanted), len(found))
		}
		for j, element := range found {
			if err := compare(element, wanted[j], dtype, tolerance(test)); err != nil {
				return fmt.Errorf("element %d: %w", j, err)
			}
		}
	}
	return nil
}

func tolerance(test fields) float64 {
	if number, ok := test["tolerance"].(json.Number); ok {
		value, _ := number.Float64()
		return value
	}
	return 0
}

func runTerminal(node fields, expected any) error {
	if err := known(node, "op", "input"); err != nil {
		return err
	}
	dataset, err := build(nil, node["input"].(fields))
	if err != nil {
		return err
	}
	switch op := node["op"]; op {
	case "cardinality":
		found := fmt.Sprint(dataset.Cardinality())
		if dataset.Cardinality() == tutti.InfiniteCardinality {
			found = "INFINITE"
		} else if dataset.Cardinality() == tutti.UnknownCardinality {
			found = "UNKNOWN"
		}
		if found != fmt.Sprint(expected) {
			return fmt.Errorf("expected %v, found %v", expected, found)
		}
		return nil
	case "element_spec":
		found, err := dataset.ElementSpec(nil)
		if err != nil {
			return err
		}
		wanted, err := describedSpec(expected.(fields))
		if err != nil {
			return err
		}
		if !wanted.Equal(found) {
			return fmt.Errorf("expected %v, found %v", wanted, found)
		}
		return nil
	default:
		return notCovered(fmt.Sprint("op ", op))
	}
}

func expectProperty(expected, node fields) error {
	if err := known(expected, "permutation_of", "not_identity", "two_equal_halves",
		"two_different_permutations", "same_when_built_again", "two_permutations_of"); err != nil {
		return err
	}
	found, err := integers(node)
	if err != nil {
		return err
	}
	failure := fmt.Errorf("expected %v, found %v", expected, found)
	half := len(found) / 2
	one, two := found[:half], found[half:]
	if text, ok := expected["permutation_of"].(string); ok {
		var count int64
		fmt.Sscanf(text, "range(%d)", &count)
		wanted := make([]int64, count)
		for i := range wanted {
			wanted[i] = int64(i)
		}
		if !reflect.DeepEqual(sorted(found), wanted) ||
			expected["not_identity"] == true && reflect.DeepEqual(found, wanted) {
			return failure
		}
	}
	if list, ok := expected["two_permutations_of"].([]any); ok {
		var wanted []int64
		for _, item := range list {
			wanted = append(wanted, integer(fields{"i": item}, "i", math.MinInt64))
		}
		if !reflect.DeepEqual(sorted(one), sorted(wanted)) ||
			!reflect.DeepEqual(sorted(two), sorted(wanted)) {
			return failure
		}
	}
	if expected["two_equal_halves"] != nil && !reflect.DeepEqual(one, two) {
		return failure
	}
	if expected["two_different_permutations"] != nil &&
		(!reflect.DeepEqual(sorted(one), sorted(two)) || reflect.DeepEqual(one, two)) {
		return failure
	}
	if expected["same_when_built_again"] != nil {
		if again, err := integers(node); err != nil || !reflect.DeepEqual(found, again) {
			return failure
		}
	}
	return nil
}
