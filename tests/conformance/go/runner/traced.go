package main

import (
	"context"
	"fmt"
	"os"

	"tutti.dev/tutti"
)

// traced counts the functions that are expressions, in a run in which they are what they can be.
var traced = struct {
	wanted bool
	made   int
}{wanted: os.Getenv("CONFORMANCE_TRACES") != ""}

// tracedTransform is the operation with an expression; nil where its function is none.
func tracedTransform(dataset *tutti.Dataset, node fields) *tutti.Dataset {
	name, op := fmt.Sprint(node["fn"]), node["op"]
	if _, registered := node["registered"]; !traced.wanted || registered {
		return nil
	}
	spec, err := dataset.PromisedSpec()
	if err != nil || spec == nil {
		return nil
	}
	defer spec.Close()
	gives := op == "flat_map" || op == "interleave"
	var function *tutti.Function
	if maker := tracedDataset(name, node["arg"]); gives && maker != nil {
		function = tutti.DatasetExpressionOf(maker, spec)
	} else if compute := tracedFunction(name, node["arg"]); !gives && compute != nil {
		function = tutti.ExpressionOf(compute, spec)
	} else {
		return nil
	}
	defer function.Close()
	var made *tutti.Dataset
	switch op {
	case "map":
		made = dataset.MapWith(function, parallel(node)...)
	case "filter":
		made = dataset.FilterWith(function)
	case "take_while":
		made = dataset.TakeWhileWith(function)
	case "flat_map":
		made = dataset.FlatMapWith(function)
	case "interleave":
		options := append(parallel(node), tutti.WithBlockLength(integer(node, "block_length", 1)))
		if _, ok := node["cycle_length"]; ok {
			options = append(options, tutti.WithCycleLength(integer(node, "cycle_length", 0)))
		}
		made = dataset.InterleaveWith(function, options...)
	}
	if made == nil || made.Err() != nil {
		return nil // of byte strings, of datasets, or what the callback refuses, too
	}
	if _, err := made.ElementSpec(context.Background()); err == nil {
		traced.made++
	}
	return made
}

// tracedKey is the key function of a node; nil where it is no expression.
func tracedKey(dataset *tutti.Dataset, node fields) func(x tutti.Expr) tutti.Expr {
	name := fmt.Sprint(node["key_func"])
	ofIndex := name == "index_mod"
	if ofIndex {
		name = "mod"
	}
	key := tracedFunction(name, node["key_arg"])
	if !traced.wanted || key == nil {
		return nil
	}
	spec, err := dataset.PromisedSpec()
	if err != nil || spec == nil {
		return nil
	}
	defer spec.Close()
	compute := func(x tutti.Expr) tutti.Expr {
		if ofIndex {
			x = x.At(0)
		}
		return key(x)
	}
	function := tutti.ExpressionOf(compute, spec)
	defer function.Close()
	if function.Err() != nil {
		return nil
	}
	traced.made++
	return compute
}

var tracedReducers = map[string]func(state, x tutti.Expr) tutti.Expr{
	"count": func(state, _ tutti.Expr) tutti.Expr { return state.Plus(1) },
	"sum":   func(state, x tutti.Expr) tutti.Expr { return state.Plus(x) },
	"max":   func(state, x tutti.Expr) tutti.Expr { return state.Max(x) },
	"last":  func(_, x tutti.Expr) tutti.Expr { return x },
	"sum_and_count": func(state, x tutti.Expr) tutti.Expr {
		return tutti.TupleOf(state.At(0).Plus(x), state.At(1).Plus(1))
	},
	"sum_components": func(state, x tutti.Expr) tutti.Expr {
		return state.Plus(x.At(0)).Plus(x.At(1))
	},
	"to_pair":  func(state, _ tutti.Expr) tutti.Expr { return tutti.TupleOf(state, state) },
	"to_float": func(state, _ tutti.Expr) tutti.Expr { return state.Cast(tutti.Float32) },
}

// tracedReduce is the function of a reduce; nil where it is no expression.
func tracedReduce(dataset *tutti.Dataset, initial tutti.Value,
	name string) func(state, x tutti.Expr) tutti.Expr {
	reduce := tracedReducers[name]
	if !traced.wanted || reduce == nil {
		return nil
	}
	element, err := dataset.PromisedSpec()
	if err != nil || element == nil {
		return nil
	}
	defer element.Close()
	state, err := tutti.SpecOf(initial)
	if err != nil {
		return nil
	}
	defer state.Close()
	pair, err := tutti.TupleSpec(state, element)
	if err != nil {
		return nil
	}
	defer pair.Close()
	function := tutti.ExpressionOf(func(x tutti.Expr) tutti.Expr {
		return reduce(x.At(0), x.At(1))
	}, pair)
	defer function.Close()
	if function.Err() != nil {
		return nil
	}
	traced.made++
	return reduce
}

// operandOf is a number of the vectors.
func operandOf(arg any) any {
	number, err := numberOf(arg)
	if err != nil {
		return struct{}{} // which no expression takes
	}
	if whole := int64(number); float64(whole) == number {
		return whole
	}
	return number
}

func tracedFunction(name string, arg any) func(x tutti.Expr) tutti.Expr {
	switch name {
	case "add":
		return func(x tutti.Expr) tutti.Expr { return x.Plus(operandOf(arg)) }
	case "square":
		return func(x tutti.Expr) tutti.Expr { return x.Times(x) }
	case "mod":
		return func(x tutti.Expr) tutti.Expr { return x.Mod(operandOf(arg)) }
	case "less":
		return func(x tutti.Expr) tutti.Expr { return x.Lt(operandOf(arg)) }
	case "greater":
		return func(x tutti.Expr) tutti.Expr { return x.Gt(operandOf(arg)) }
	case "equal":
		return func(x tutti.Expr) tutti.Expr { return x.Eq(operandOf(arg)) }
	case "even":
		return func(x tutti.Expr) tutti.Expr { return x.Mod(2).Eq(0) }
	case "with_square":
		return func(x tutti.Expr) tutti.Expr { return tutti.TupleOf(x, x.Times(x)) }
	case "swap":
		return func(x tutti.Expr) tutti.Expr { return tutti.TupleOf(x.At(1), x.At(0)) }
	case "add_components":
		return func(x tutti.Expr) tutti.Expr { return x.At(0).Plus(x.At(1)) }
	case "component":
		return func(x tutti.Expr) tutti.Expr {
			if key, ok := arg.(string); ok {
				return x.Get(key)
			}
			return x.At(int(integer(fields{"arg": arg}, "arg", 0)))
		}
	case "identity":
		return func(x tutti.Expr) tutti.Expr { return x }
	}
	return nil
}

func tracedDataset(name string, arg any) func(x tutti.Expr) *tutti.Dataset {
	switch name {
	case "range":
		return func(x tutti.Expr) *tutti.Dataset { return x.Range() }
	case "count_from":
		return func(x tutti.Expr) *tutti.Dataset {
			one := x.Times(0).Plus(1)
			return tutti.TupleOf(x, x.Plus(operandOf(arg)), one).Dataset("range")
		}
	case "from_tensor_slices":
		return func(x tutti.Expr) *tutti.Dataset { return x.Slices() }
	case "from_tensors_repeat":
		return func(x tutti.Expr) *tutti.Dataset {
			return x.Dataset("from_tensors").Repeat(integer(fields{"arg": arg}, "arg", 0))
		}
	}
	return nil
}
