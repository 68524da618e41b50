package main

import (
	"context"
	"math"
	"strings"

	"tutti.dev/tutti"
)

// arithmetic gives a number for each number of an element; y is the function's argument.
var arithmetic = map[string]func(x, y float64) float64{
	"add":    func(x, y float64) float64 { return x + y },
	"square": func(x, _ float64) float64 { return x * x },
	"mod":    func(x, y float64) float64 { return x - math.Floor(x/y)*y },

	"shard_mod": math.Mod,
}

// predicates give a boolean for each.
var predicates = map[string]func(x, y float64) bool{
	"less":    func(x, y float64) bool { return x < y },
	"greater": func(x, y float64) bool { return x > y },
	"equal":   func(x, y float64) bool { return x == y },
	"even":    func(x, _ float64) bool { return math.Mod(x, 2) == 0 },
}

// structures are functions of what an element was made of.
var structures = map[string]func(element any) (any, error){
	"fill_self": func(element any) (any, error) {
		given := element.(*array)
		count := given.numbers[0]
		made := &array{dtype: given.dtype, shape: []int64{int64(count)}, numbers: []float64{}}
		for i := 0.0; i < count; i++ {
			made.numbers = append(made.numbers, count)
		}
		return made, nil
	},
	"upper": func(element any) (any, error) {
		text := element.(*array).texts[0]
		return &array{dtype: tutti.Bytes, texts: []string{strings.ToUpper(text)}}, nil
	},
	"length": func(element any) (any, error) {
		length := float64(len(element.(*array).texts[0]))
		return &array{dtype: tutti.Int64, numbers: []float64{length}}, nil
	},
	"with_square": func(element any) (any, error) {
		return tuple{element, squareOf(element)}, nil
	},
	"as_dict": func(element any) (any, error) {
		return dict{"x": element, "square": squareOf(element)}, nil
	},
	"swap": func(element any) (any, error) {
		pair := element.(tuple)
		return tuple{pair[1], pair[0]}, nil
	},
	"add_components": func(element any) (any, error) {
		pair := element.(tuple)
		sum, other := *pair[0].(*array), pair[1].(*array)
		for i := range sum.numbers {
			sum.numbers[i] += other.numbers[i]
		}
		return &sum, nil
	},
}

// reducers are functions of what a state and an element were made of.
var reducers = map[string]func(state, x any) (any, error){
	"count": func(state, _ any) (any, error) { return plus(state, 1), nil },
	"sum":   func(state, x any) (any, error) { return plus(state, x.(*array).numbers...), nil },
	"max": func(state, x any) (any, error) {
		if state.(*array).numbers[0] < x.(*array).numbers[0] {
			return x, nil
		}
		return state, nil
	},
	"last": func(_, x any) (any, error) { return x, nil },
	"append": func(state, x any) (any, error) {
		made := *state.(*array)
		made.numbers = append(append([]float64{}, made.numbers...), x.(*array).numbers...)
		made.shape = []int64{int64(len(made.numbers))}
		return &made, nil
	},
	"sum_and_count": func(state, x any) (any, error) {
		pair := state.(tuple)
		return tuple{plus(pair[0], x.(*array).numbers...), plus(pair[1], 1)}, nil
	},
	"sum_components": func(state, x any) (any, error) {
		pair := x.(tuple)
		first := plus(state, pair[0].(*array).numbers...)
		return plus(first, pair[1].(*array).numbers...), nil
	},
	"to_pair": func(state, _ any) (any, error) { return tuple{state, state}, nil },
	"to_float": func(state, _ any) (any, error) {
		made := *state.(*array)
		made.dtype = tutti.Float32
		return &made, nil
	},
}

// plus adds numbers, as many as there are, to those of an array.
func plus(state any, numbers ...float64) *array {
	made := *state.(*array)
	made.numbers = append([]float64{}, made.numbers...)
	for i := range made.numbers {
		made.numbers[i] += numbers[i]
	}
	return &made
}

func squareOf(element any) *array {
	square := *element.(*array)
	square.numbers = append([]float64{}, square.numbers...)
	for i, x := range square.numbers {
		square.numbers[i] = x * x
	}
	return &square
}

// numberOf is 0 for an argument that there is not.
func numberOf(arg any) (float64, error) {
	if arg == nil {
		return 0, nil
	}
	described, err := read(arg)
	if err != nil {
		return 0, err
	}
	return described.(*array).numbers[0], nil
}

// function is one that the vectors name.
func function(name string, arg any) (tutti.MapFunc, error) {
	if compute, ok := arithmetic[name]; ok {
		return elementwise(0, arg, compute)
	}
	if holds, ok := predicates[name]; ok {
		return elementwise(tutti.Bool, arg, func(x, y float64) float64 { return truth(holds(x, y)) })
	}
	if structure, ok := structures[name]; ok {
		return ofDescribed(structure), nil
	}
	switch name {
	case "fail_at":
		wrong, err := numberOf(arg)
		return ofDescribed(func(element any) (any, error) {
			if element.(*array).numbers[0] == wrong {
				return nil, &tutti.Error{Code: tutti.ErrInvalidArgument,
					Message: "fail_at: this is the element " + show(element)}
			}
			return element, nil
		}), err
	case "component":
		if key, ok := arg.(string); ok {
			return func(element tutti.Value) (tutti.Value, error) { return element.Get(key) }, nil
		}
		i := int(integer(fields{"i": arg}, "i", 0))
		return func(element tutti.Value) (tutti.Value, error) { return element.At(i) }, nil
	case "identity":
		return tutti.Value.Keep, nil
	case "always_true":
		return func(tutti.Value) (tutti.Value, error) {
			return valueOf(&array{dtype: tutti.Bool, numbers: []float64{1}})
		}, nil
	case "constant":
		constant, err := read(arg)
		return func(tutti.Value) (tutti.Value, error) { return valueOf(constant) }, err
	}
	return nil, notCovered("function " + name)
}

// datasetFunction is one that gives datasets, or else one of the others.
func datasetFunction(r *tutti.Runtime, name string, arg any) (tutti.MapFunc, error) {
	count := integer(fields{"arg": arg}, "arg", 0)
	give := map[string]func(element tutti.Value) (*tutti.Dataset, error){
		"range": func(element tutti.Value) (*tutti.Dataset, error) {
			x, err := element.Int64()
			return r.Range(0, x, 1), err
		},
		"count_from": func(element tutti.Value) (*tutti.Dataset, error) {
			x, err := element.Int64()
			return r.Range(x, x+count, 1), err
		},
		"from_tensor_slices": func(element tutti.Value) (*tutti.Dataset, error) {
			return r.FromTensorSlices(element), nil
		},
		"from_tensors_repeat": func(element tutti.Value) (*tutti.Dataset, error) {
			return r.FromTensors(element).Repeat(count), nil
		},
		"text_lines": func(element tutti.Value) (*tutti.Dataset, error) {
			path, err := element.Text()
			if err != nil {
				return nil, err
			}
			return r.TextLines(path), nil
		},
		"records": func(element tutti.Value) (*tutti.Dataset, error) {
			path, err := element.Text()
			if err != nil {
				return nil, err
			}
			return numbersOf(r.TFRecords(path))
		},
		"batch": func(element tutti.Value) (*tutti.Dataset, error) {
			window, err := element.Dataset()
			if err != nil {
				return nil, err
			}
			return window.Batch(count), nil
		},
		"zip": func(element tutti.Value) (*tutti.Dataset, error) { return r.Zip(element), nil },
		"zip_batch": func(element tutti.Value) (*tutti.Dataset, error) {
			return r.Zip(element).Batch(count), nil
		},
		"flat": func(element tutti.Value) (*tutti.Dataset, error) {
			shards, err := element.Dataset()
			if err != nil {
				return nil, err
			}
			return shards.FlatMap(tutti.Value.Dataset), nil
		},
		"interleaved": func(element tutti.Value) (*tutti.Dataset, error) {
			shards, err := element.Dataset()
			if err != nil {
				return nil, err
			}
			return shards.Interleave(tutti.Value.Dataset, tutti.WithCycleLength(count)), nil
		},
		"fill_self_slices": func(element tutti.Value) (*tutti.Dataset, error) {
			filled, err := ofDescribed(structures["fill_self"])(element)
			if err != nil {
				return nil, err
			}
			defer filled.Close()
			return r.FromTensorSlices(filled), nil
		},
	}[name]
	if give == nil {
		return function(name, arg)
	}
	return func(element tutti.Value) (tutti.Value, error) {
		made, err := give(element)
		if err != nil {
			return tutti.Value{}, err
		}
		return tutti.OfDataset(made)
	}, nil
}

// keyFunction is a key_func of group_by_window.
func keyFunction(name string, arg any) (func(tutti.Value) (int64, error), error) {
	fn, err := function(map[bool]string{true: "mod", false: name}[name == "index_mod"], arg)
	return func(element tutti.Value) (int64, error) {
		if name == "index_mod" {
			index, err := element.At(0)
			if err != nil {
				return 0, err
			}
			defer index.Close()
			element = index
		}
		key, err := fn(element)
		if err != nil {
			return 0, err
		}
		defer key.Close()
		return key.Int64()
	}, err
}

// writtenAndRead writes the window's elements to a file of their key, and reads them from it.
func writtenAndRead(r *tutti.Runtime, prefix string) func(int64, *tutti.Dataset) (
	*tutti.Dataset, error) {
	return func(key int64, window *tutti.Dataset) (*tutti.Dataset, error) {
		begin, err := r.StringTensor([]string{prefix})
		if err != nil {
			return nil, err
		}
		defer begin.Close()
		number, err := tutti.TensorIn(r, []int64{key})
		if err != nil {
			return nil, err
		}
		defer number.Close()
		text, err := number.AsStrings(tutti.TextFormat{})
		if err != nil {
			return nil, err
		}
		defer text.Close()
		joined, err := tutti.JoinStrings("", begin, text)
		if err != nil {
			return nil, err
		}
		defer joined.Close()
		paths, err := joined.Strings()
		if err != nil {
			return nil, err
		}
		writer, err := r.NewRecordWriter(paths[0])
		if err != nil {
			return nil, err
		}
		defer writer.Close()
		err = writer.WriteDataset(nil, window.Map(func(x tutti.Value) (tutti.Value, error) {
			return changed(x, (*tutti.Tensor).Serialize)
		}))
		if err != nil {
			return nil, err
		}
		return r.TFRecords(paths[0]).Map(func(x tutti.Value) (tutti.Value, error) {
			return changed(x, func(bytes *tutti.Tensor) (*tutti.Tensor, error) {
				return tutti.ParseTensor(bytes, tutti.Int64)
			})
		}), nil
	}
}

// changed is another tensor made of the one that a value is.
func changed(x tutti.Value, change func(*tutti.Tensor) (*tutti.Tensor, error)) (
	tutti.Value, error) {
	tensor, err := x.Tensor()
	if err != nil {
		return tutti.Value{}, err
	}
	made, err := change(tensor)
	if err != nil {
		return tutti.Value{}, err
	}
	defer made.Close()
	return tutti.OfTensor(made)
}

// windowFunction is a reduce_func of group_by_window.
func windowFunction(r *tutti.Runtime, name string, arg int64) (
	func(int64, *tutti.Dataset) (*tutti.Dataset, error), error) {
	made := map[string]func(int64, *tutti.Dataset) (*tutti.Dataset, error){
		"window_batch": func(_ int64, window *tutti.Dataset) (*tutti.Dataset, error) {
			return window.Batch(arg), nil
		},
		"window_take": func(_ int64, window *tutti.Dataset) (*tutti.Dataset, error) {
			return window.Take(arg), nil
		},
		"window_padded_batch": func(_ int64, window *tutti.Dataset) (*tutti.Dataset, error) {
			return window.PaddedBatch(arg), nil
		},
		"key_and_batch": func(key int64, window *tutti.Dataset) (*tutti.Dataset, error) {
			number, err := tutti.OfInt64(key)
			if err != nil {
				return nil, err
			}
			defer number.Close()
			pair, err := valueOf(tuple{r.FromTensors(number).Repeat(-1), window.Batch(arg)})
			if err != nil {
				return nil, err
			}
			defer pair.Close()
			return r.Zip(pair), nil
		},
	}[name]
	if made == nil {
		return nil, notCovered("function " + name)
	}
	return made, nil
}

// datasetSignature is the output spec of a function that gives datasets; nil where the first one
// tells it.
func datasetSignature(name string, dataset *tutti.Dataset) (*tutti.Spec, error) {
	switch name {
	case "identity":
		return dataset.ElementSpec(context.Background())
	case "range", "count_from":
		number, err := tutti.TensorSpec(tutti.Int64)
		if err != nil {
			return nil, err
		}
		return tutti.DatasetSpec(number)
	}
	return nil, nil
}

func ofDescribed(fn func(element any) (any, error)) tutti.MapFunc {
	return func(element tutti.Value) (tutti.Value, error) {
		described, err := describe(element)
		if err != nil {
			return tutti.Value{}, err
		}
		made, err := fn(described)
		if err != nil {
			return tutti.Value{}, err
		}
		return valueOf(made)
	}
}

// elementwise functions; dtype: of the result, 0: the element's.
func elementwise(dtype tutti.DType, arg any, compute func(x, y float64) float64) (tutti.MapFunc,
	error) {
	y, err := numberOf(arg)
	return ofDescribed(func(element any) (any, error) {
		given := element.(*array)
		for i, x := range given.numbers {
			given.numbers[i] = compute(x, y)
		}
		if dtype != 0 {
			given.dtype = dtype
		}
		return given, nil
	}), err
}

// signature is the output spec of a map function, where the first row need not tell it.
func signature(name string, dataset *tutti.Dataset) ([]tutti.Option, error) {
	spec, err := outputOf(name, dataset)
	if spec == nil || err != nil {
		return nil, err
	}
	return []tutti.Option{tutti.WithOutput(spec)}, nil
}

// outputOf is the same as a spec; nil where the first row tells it.
func outputOf(name string, dataset *tutti.Dataset) (*tutti.Spec, error) {
	makes, ok := signatures[name]
	if !ok {
		return nil, nil
	}
	input, err := dataset.ElementSpec(context.Background())
	if err != nil {
		return nil, err
	}
	leaves, err := input.Leaves()
	if err != nil {
		return nil, err
	}
	return makes(input, leaves)
}

// signatures are made of the spec of the elements and of its leaves; those of pairs, where the
// components are tensors.
var signatures = map[string]func(*tutti.Spec, []tutti.LeafSpec) (*tutti.Spec, error){
	"add": asInput, "square": asInput, "mod": asInput, "identity": asInput, "fail_at": asInput,
	"fill_self": func(_ *tutti.Spec, leaves []tutti.LeafSpec) (*tutti.Spec, error) {
		return tutti.TensorSpec(leaves[0].DType, tutti.UnknownDimension)
	},
	"upper": func(*tutti.Spec, []tutti.LeafSpec) (*tutti.Spec, error) {
		return tutti.TensorSpec(tutti.Bytes)
	},
	"length": func(*tutti.Spec, []tutti.LeafSpec) (*tutti.Spec, error) {
		return tutti.TensorSpec(tutti.Int64)
	},
	"with_square": func(input *tutti.Spec, _ []tutti.LeafSpec) (*tutti.Spec, error) {
		return tutti.TupleSpec(input, input)
	},
	"as_dict": func(input *tutti.Spec, _ []tutti.LeafSpec) (*tutti.Spec, error) {
		return tutti.DictSpec(map[string]*tutti.Spec{"x": input, "square": input})
	},
	"swap": func(_ *tutti.Spec, leaves []tutti.LeafSpec) (*tutti.Spec, error) {
		if len(leaves) != 2 {
			return nil, nil
		}
		first, err := leafSpec(leaves[0])
		if err != nil {
			return nil, err
		}
		second, err := leafSpec(leaves[1])
		if err != nil {
			return nil, err
		}
		return tutti.TupleSpec(second, first)
	},
	"add_components": func(_ *tutti.Spec, leaves []tutti.LeafSpec) (*tutti.Spec, error) {
		return leafSpec(leaves[0])
	},
}

func asInput(input *tutti.Spec, _ []tutti.LeafSpec) (*tutti.Spec, error) { return input, nil }

func leafSpec(leaf tutti.LeafSpec) (*tutti.Spec, error) {
	if leaf.Dims == nil {
		return tutti.TensorSpecOfUnknownRank(leaf.DType)
	}
	return tutti.TensorSpec(leaf.DType, leaf.Dims...)
}
