package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// Dataset is a dataset of x, for what the functions of FlatMapExpr and InterleaveExpr give: maker
// is "range" of the tuple of start, stop and step, "from_tensors" or "from_tensor_slices" of any
// structure, or "element" of a component that is a dataset, such as a window. It has elements only
// in what such a function gives (ErrFailedPrecondition). ErrNotFound names the makers.
func (x Expr) Dataset(maker string) *Dataset { return x.made(maker, 0) }

// Counted is input by the number x, which is for FlatMapExpr and its like, too: maker is "repeat",
// "take" or "skip".
func (x Expr) Counted(maker string, input *Dataset) *Dataset {
	pointer, err := input.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer input.done()
	return x.made(maker, pointer)
}

func (x Expr) made(maker string, input uintptr) *Dataset {
	if x.trace == nil {
		return datasetOf(0, invalidArgument("%s: an Expr is made by FlatMapExpr and its like", maker))
	}
	inner := x.innermost(nil)
	nodes, err := x.result(inner)
	if err != nil {
		return datasetOf(0, err)
	}
	defer nodes.Close()
	used, err := nodes.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer nodes.done()
	runtime, err := defaultRuntime.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer defaultRuntime.done()
	return datasetOf(readOut(inner.o, func(trace uintptr, made *uintptr) uintptr {
		return native.Expression_add_dataset(trace, runtime, maker, input, used, made)
	}))
}

// Range has the numbers from 0 up to x, as Range(0, x, 1) would, for FlatMapExpr.
func (x Expr) Range() *Dataset {
	return TupleOf(x.Times(0), x, x.Times(0).Plus(1)).Dataset("range")
}

// Slices has the slices of x along axis 0, for FlatMapExpr.
func (x Expr) Slices() *Dataset { return x.Dataset("from_tensor_slices") }

// Elements is the dataset that x, a component of an element, is, such as a window, for FlatMapExpr:
// it makes batches of windows without the windows where its function gives x.Elements().Batch(8).
// ErrInvalidArgument for a tensor.
func (x Expr) Elements() *Dataset { return x.Dataset("element") }

// DatasetExpressionOf is the native function that gives the dataset that fn gives for a placeholder
// of an element, for FlatMapWith and InterleaveWith. The functions of MapExpr and its like inside
// of fn use its placeholders as they use their own, however many stand inside of one another.
func DatasetExpressionOf(fn func(element Expr) *Dataset, element *Spec) *Function {
	if fn == nil || element == nil {
		return &Function{err: invalidArgument(
			"DatasetExpressionOf: a function and a spec are needed, not nil")}
	}
	return traceOf(element, func(trace *exprTrace, x Expr) (uintptr, error) {
		dataset := fn(x)
		if trace.err != nil {
			return 0, trace.err
		}
		pointer, err := dataset.use()
		if err != nil {
			return 0, err
		}
		defer dataset.done()
		return readOut(trace.o, func(expression uintptr, made *uintptr) uintptr {
			return native.Expression_dataset_function(expression, pointer, made)
		})
	})
}

func (d *Dataset) tracedDataset(fn func(element Expr) *Dataset, options []Option,
	with func(*Dataset, *Function, ...Option) *Dataset) *Dataset {
	element, err := d.ElementSpec(context.Background())
	if err != nil {
		return datasetOf(0, err)
	}
	defer element.Close()
	function := DatasetExpressionOf(fn, element)
	defer function.Close()
	return with(d, function, options...)
}

// FlatMapExpr gives the elements of the datasets that fn gives, one after the other, natively: fn
// is called once, with a placeholder, and Expr.Dataset makes datasets of it.
func (d *Dataset) FlatMapExpr(fn func(element Expr) *Dataset, options ...Option) *Dataset {
	return d.tracedDataset(fn, options, (*Dataset).FlatMapWith)
}

// InterleaveExpr gives the elements of the datasets that fn gives in turn, as FlatMapExpr does.
func (d *Dataset) InterleaveExpr(fn func(element Expr) *Dataset, options ...Option) *Dataset {
	return d.tracedDataset(fn, options, (*Dataset).InterleaveWith)
}
