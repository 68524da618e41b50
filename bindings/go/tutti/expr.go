package tutti

import (
	"context"
	"math"

	"tutti.dev/tutti/internal/native"
)

// Expr is a placeholder: an element that is not there yet, a component of it, or what is computed
// of some.
//
//	numbers := tutti.Range(0, 5, 1).
//		MapExpr(func(x tutti.Expr) tutti.Expr { return x.Times(2).Plus(1) }). // 1, 3, 5, 7, 9
//		FilterExpr(func(x tutti.Expr) tutti.Expr { return x.Mod(3).Eq(0) })   // 3, 9
//
// MapExpr, FilterExpr and TakeWhileExpr call a function once, with a placeholder; what it does with
// it is what runs: without Go, on many elements at once, and it can be serialised. Operands are
// Exprs, Go's numbers and booleans, and *Tensors. A Go number takes the dtype of the placeholder
// that it meets, and is an ErrInvalidArgument where that does not hold it; so are two dtypes: Cast
// one. Integers wrap; FloorDiv and Mod round down. A zero divisor of integers is an
// ErrInvalidArgument of its row alone. What goes wrong in one is in all that is computed of it, and
// comes out of the dataset. An Expr is for the function that it was given to, while that runs.
type Expr struct {
	trace *exprTrace
	node  int64
	value *exprParts // of a structure
}

type exprParts struct {
	name  string   // of a sparse or ragged tensor
	names []string // none: a tuple
	parts []Expr
}

func (t *exprTrace) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *exprTrace) add(call func(pointer uintptr, node *int64) uintptr) Expr {
	var node int64
	if t.err != nil {
		return Expr{trace: t}
	}
	pointer, err := t.o.use()
	if err == nil {
		err = check(call(pointer, &node))
		t.o.done()
	}
	if err != nil {
		t.fail(err)
	}
	return Expr{trace: t, node: node}
}

// constant is the node of an operand.
func (t *exprTrace) constant(operand any) (int64, error) {
	weak := true
	var made *Tensor
	var err error
	switch number := operand.(type) {
	case int:
		made, err = Scalar(int64(number))
	case int8:
		made, err = Scalar(int64(number))
	case int16:
		made, err = Scalar(int64(number))
	case int32:
		made, err = Scalar(int64(number))
	case int64:
		made, err = Scalar(number)
	case uint8:
		made, err = Scalar(int64(number))
	case uint16:
		made, err = Scalar(int64(number))
	case uint32:
		made, err = Scalar(int64(number))
	case uint64:
		made, err = Scalar(number)
	case float32:
		made, err = Scalar(float64(number))
	case float64:
		made, err = Scalar(number)
	case bool:
		made, err = Scalar(number)
	case string:
		weak = false
		made, err = StringTensor([]string{number}, []int64{}...)
	case *Tensor:
		pointer, err := number.use()
		if err != nil {
			return 0, err
		}
		defer number.done()
		return t.tensor(pointer, false)
	default:
		return 0, invalidArgument("an operand is an Expr, a number, a boolean, a string or a *Tensor, "+
			"not a %T", operand)
	}
	if err != nil {
		return 0, err
	}
	defer made.Close()
	pointer, err := made.use()
	if err != nil {
		return 0, err
	}
	defer made.done()
	return t.tensor(pointer, weak)
}

func (t *exprTrace) tensor(pointer uintptr, weak bool) (int64, error) {
	added := t.add(func(trace uintptr, node *int64) uintptr {
		return native.Expression_add_constant(trace, pointer, tristate(weak), node)
	})
	return added.node, t.err
}

// leaf is the node of a component.
func (x Expr) leaf(what string) (int64, error) {
	switch {
	case x.trace == nil:
		return 0, invalidArgument("%s: an Expr is made by MapExpr, FilterExpr or TakeWhileExpr", what)
	case x.value != nil:
		return 0, invalidArgument("%s: a component is needed, not a structure of %d; At or Get gives one",
			what, len(x.value.parts))
	}
	return x.node, x.trace.err
}

// Operation is the operation of that name (tutti/expression.h lists them) of x and others, told
// numbers, a dtype (0: none) and a text; the other methods are such operations.
func (x Expr) Operation(name string, others []any, numbers []int64, dtype DType, keepDims bool,
	text string) Expr {
	if x.trace == nil {
		return x
	}
	inner := x.innermost(others)
	first, err := inner.nodeOf(x, name)
	nodes := []int64{first}
	for _, other := range others {
		var node int64
		if err != nil {
			break
		}
		if given, ok := other.(Expr); ok {
			node, err = inner.nodeOf(given, name)
		} else {
			node, err = inner.constant(other)
		}
		nodes = append(nodes, node)
	}
	if err != nil {
		inner.fail(err)
		return Expr{trace: inner}
	}
	return inner.add(func(trace uintptr, node *int64) uintptr {
		return native.Expression_add_operation(trace, name, nodes, numbers, int(dtype),
			tristate(keepDims), text, node)
	})
}

func (x Expr) of(name string, others ...any) Expr {
	return x.Operation(name, others, nil, 0, false, "")
}

func (x Expr) with(name string, numbers ...int64) Expr {
	return x.Operation(name, nil, numbers, 0, false, "")
}

// Plus is x + other.
func (x Expr) Plus(other any) Expr { return x.of("add", other) }

// Minus is x - other.
func (x Expr) Minus(other any) Expr { return x.of("subtract", other) }

// Times is x * other.
func (x Expr) Times(other any) Expr { return x.of("multiply", other) }

// Div is x / other, of floats.
func (x Expr) Div(other any) Expr { return x.of("divide", other) }

// FloorDiv is the quotient, rounded down.
func (x Expr) FloorDiv(other any) Expr { return x.of("floor_divide", other) }

// Mod is what FloorDiv leaves, of the sign of other.
func (x Expr) Mod(other any) Expr { return x.of("remainder", other) }

// Pow is x to the power of other.
func (x Expr) Pow(other any) Expr { return x.of("power", other) }

// Min is the smaller one.
func (x Expr) Min(other any) Expr { return x.of("minimum", other) }

// Max is the larger one.
func (x Expr) Max(other any) Expr { return x.of("maximum", other) }

// Negative is -x.
func (x Expr) Negative() Expr { return x.of("negative") }

// Abs is x without its sign.
func (x Expr) Abs() Expr { return x.of("absolute") }

// Sqrt is the root, of floats.
func (x Expr) Sqrt() Expr { return x.of("sqrt") }

// Exp is e to the power of x, of floats.
func (x Expr) Exp() Expr { return x.of("exp") }

// Log is the natural logarithm, of floats.
func (x Expr) Log() Expr { return x.of("log") }

// Eq is x == other.
func (x Expr) Eq(other any) Expr { return x.of("equal", other) }

// Ne is x != other.
func (x Expr) Ne(other any) Expr { return x.of("not_equal", other) }

// Lt is x < other.
func (x Expr) Lt(other any) Expr { return x.of("less", other) }

// Le is x <= other.
func (x Expr) Le(other any) Expr { return x.of("less_equal", other) }

// Gt is x > other.
func (x Expr) Gt(other any) Expr { return x.of("greater", other) }

// Ge is x >= other.
func (x Expr) Ge(other any) Expr { return x.of("greater_equal", other) }

// And is both, of booleans.
func (x Expr) And(other any) Expr { return x.of("logical_and", other) }

// Or is one or both, of booleans.
func (x Expr) Or(other any) Expr { return x.of("logical_or", other) }

// Not is of booleans.
func (x Expr) Not() Expr { return x.of("logical_not") }

// Where is, of a boolean, yes where it is true and no elsewhere.
func (x Expr) Where(yes, no any) Expr { return x.of("where", yes, no) }

// Cast is x in another dtype, as Tensor.Cast does it.
func (x Expr) Cast(dtype DType) Expr {
	return x.Operation("cast", nil, nil, dtype, false, "")
}

// Reshape is under another shape of a row; one size may be -1.
func (x Expr) Reshape(dims ...int64) Expr { return x.with("reshape", dims...) }

// Transpose is with the axes of a row in another order; without any, turned round.
func (x Expr) Transpose(axes ...int64) Expr { return x.with("transpose", axes...) }

// Index is the place along axis 0 of a row, from its end where it is negative.
func (x Expr) Index(place int64) Expr { return x.with("index", 0, place) }

// ToEnd is Slice's end of a row.
const ToEnd = math.MinInt64

// Slice is the places from start before stop along axis 0 of a row.
func (x Expr) Slice(start, stop int64) Expr { return x.with("slice", start, stop, 1) }

// Take is what stands at places, integers, along axis 0 of a row.
func (x Expr) Take(places any) Expr { return x.of("take", places) }

// Stack is x and others side by side along a new axis 0 of a row.
func (x Expr) Stack(others ...any) Expr { return x.of("stack", others...) }

// Concat is x and others one after the other along axis 0 of a row.
func (x Expr) Concat(others ...any) Expr { return x.of("concatenate", others...) }

// Sum is over axes of a row, all where none are given, in x's dtype.
func (x Expr) Sum(axes ...int64) Expr { return x.with("sum", axes...) }

// Mean is over axes of a row, of floats.
func (x Expr) Mean(axes ...int64) Expr { return x.with("mean", axes...) }

// Smallest is over axes of a row.
func (x Expr) Smallest(axes ...int64) Expr { return x.with("min", axes...) }

// Largest is over axes of a row.
func (x Expr) Largest(axes ...int64) Expr { return x.with("max", axes...) }

// OneHot is, of integers, along a new last axis 1 at that place and 0 elsewhere.
func (x Expr) OneHot(depth int64, dtype DType) Expr {
	return x.Operation("one_hot", nil, []int64{depth}, dtype, false, "")
}

// DecodeRaw is, of bytes, the numbers that lie in them, along a new last axis.
func (x Expr) DecodeRaw(dtype DType) Expr {
	return x.Operation("decode_raw", nil, nil, dtype, false, "")
}

// Call is, of bytes, component leaf, in the order of names, of what ParseExample or DecodeCSV
// gives. A sparse feature has three, indices, values and dense shape; a ragged one of a vector of
// Examples two, values and row splits.
func (x Expr) Call(function *Function, leaf int64) Expr {
	if x.trace == nil {
		return x
	}
	inner := x.innermost(nil)
	node, err := inner.nodeOf(x, "call")
	var pointer uintptr
	if err == nil {
		pointer, err = function.use()
	}
	if err != nil {
		inner.fail(err)
		return Expr{trace: inner}
	}
	defer function.o.done()
	return inner.add(func(trace uintptr, made *int64) uintptr {
		return native.Expression_add_call(trace, pointer, node, leaf, made)
	})
}

// At is component i of a tuple, a list or any structure.
func (x Expr) At(i int) Expr {
	if x.value == nil || i < 0 || i >= len(x.value.parts) {
		if x.trace != nil {
			x.trace.fail(&Error{Code: ErrOutOfRange, Message: "an element has no such component to go At"})
		}
		return Expr{trace: x.trace}
	}
	return x.value.parts[i]
}

// Get is the component of that key or field.
func (x Expr) Get(key string) Expr {
	if x.value != nil {
		for i, name := range x.value.names {
			if name == key {
				return x.value.parts[i]
			}
		}
	}
	if x.trace != nil {
		x.trace.fail(&Error{Code: ErrNotFound, Message: "the element has no component '" + key + "'"})
	}
	return Expr{trace: x.trace}
}

// TupleOf is the tuple of some, for what a function gives.
func TupleOf(parts ...Expr) Expr {
	if len(parts) == 0 {
		return Expr{}
	}
	return Expr{trace: parts[0].trace, value: &exprParts{parts: parts}}
}

// Spec is what x is in one row.
func (x Expr) Spec() (*Spec, error) {
	node, err := x.leaf("Spec")
	if err != nil {
		return nil, err
	}
	return as(ownSpec)(readOut(x.trace.o, func(pointer uintptr, made *uintptr) uintptr {
		return native.Expression_spec(pointer, node, made)
	}))
}

// String is for people: "((x * 2) + 1)".
func (x Expr) String() string {
	node, err := x.leaf("String")
	if err != nil {
		return "Expr: " + err.Error()
	}
	text, err := readText(x.trace.o, func(pointer uintptr, made *uintptr) uintptr {
		return native.Expression_to_string(pointer, node, made)
	})
	if err != nil {
		return "Expr: " + err.Error()
	}
	return text
}

// result is the structure of what a function gave, with nodes as its leaves.
func (x Expr) result(t *exprTrace) (Value, error) {
	if x.value == nil {
		node, err := t.nodeOf(x, "the result")
		if err != nil {
			return Value{}, err
		}
		return OfInt64(node)
	}
	parts := make([]Value, len(x.value.parts))
	defer func() {
		for _, part := range parts {
			part.Close()
		}
	}()
	for i, part := range x.value.parts {
		var err error
		if parts[i], err = part.result(t); err != nil {
			return Value{}, err
		}
	}
	if x.value.name != "" {
		return NamedTuple(x.value.name, x.value.names, parts...)
	}
	return Tuple(parts...)
}

// placeholder is what stands for the node of a spec at path.
func (t *exprTrace) placeholder(spec uintptr, path []int64, leaf *int64) Expr {
	kind := nodeKinds[native.Spec_node_kind(spec, path)]
	if kind == KindNone { // a leaf
		number := *leaf
		*leaf++
		return t.add(func(trace uintptr, node *int64) uintptr {
			return native.Expression_add_parameter(trace, number, node)
		})
	}
	parts := &exprParts{parts: make([]Expr, native.Spec_node_child_count(spec, path))}
	for i := range parts.parts {
		below := append(append([]int64(nil), path...), int64(i))
		parts.parts[i] = t.placeholder(spec, below, leaf)
		if kind == KindDict || kind == KindNamedTuple {
			parts.names = append(parts.names, native.Spec_node_key(spec, path, int64(i)))
		}
	}
	return Expr{trace: t, value: parts}
}

// ExpressionOf is the native function that fn is: it is called once, now, with a placeholder of an
// element, a tensor of known rank or a structure of some. For Reduce's like the element is a tuple.
func ExpressionOf(fn func(element Expr) Expr, element *Spec) *Function {
	if fn == nil || element == nil {
		return &Function{err: invalidArgument("ExpressionOf: a function and a spec are needed, not nil")}
	}
	return traceOf(element, func(trace *exprTrace, x Expr) (uintptr, error) {
		result := fn(x)
		if trace.err != nil {
			return 0, trace.err
		}
		if result.trace == nil {
			return 0, invalidArgument(
				"a traced function gives what it computes of its element, and it gave another Expr")
		}
		nodes, err := result.result(trace)
		if err != nil {
			return 0, err
		}
		defer nodes.Close()
		used, err := nodes.use()
		if err != nil {
			return 0, err
		}
		defer nodes.done()
		return readOut(trace.o, func(pointer uintptr, made *uintptr) uintptr {
			return native.Expression_function(pointer, used, made)
		})
	})
}

func (d *Dataset) traced(fn func(element Expr) Expr, options []Option,
	with func(*Dataset, *Function, ...Option) *Dataset) *Dataset {
	element, err := d.ElementSpec(context.Background())
	if err != nil {
		return datasetOf(0, err)
	}
	defer element.Close()
	function := ExpressionOf(fn, element)
	defer function.Close()
	return with(d, function, options...)
}

// MapExpr computes every element with what fn does with a placeholder, natively: see Expr.
func (d *Dataset) MapExpr(fn func(element Expr) Expr, options ...Option) *Dataset {
	return d.traced(fn, options, (*Dataset).MapWith)
}

// FilterExpr keeps the elements for which fn computes true, natively: see Expr.
func (d *Dataset) FilterExpr(fn func(element Expr) Expr, options ...Option) *Dataset {
	return d.traced(fn, options, (*Dataset).FilterWith)
}

// TakeWhileExpr takes the elements before the first one for which fn computes false, natively.
func (d *Dataset) TakeWhileExpr(fn func(element Expr) Expr, options ...Option) *Dataset {
	return d.traced(fn, options, (*Dataset).TakeWhileWith)
}
