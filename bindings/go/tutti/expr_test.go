package tutti

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestExpressionsMapAndFilter(t *testing.T) {
	odd := Range(0, 10, 1).
		MapExpr(func(x Expr) Expr { return x.Times(2).Plus(1) }).
		FilterExpr(func(x Expr) Expr { return x.Mod(3).Eq(0).And(x.Gt(3)) })
	if got := integers(t, odd); !reflect.DeepEqual(got, []int64{9, 15}) {
		t.Error(got)
	}
	if text, err := odd.Explain(); err != nil || !strings.Contains(text, "native ((x * 2) + 1)") {
		t.Error(text, err)
	}
	small := Range(-3, 3, 1).TakeWhileExpr(func(x Expr) Expr { return x.Lt(1) }).
		MapExpr(func(x Expr) Expr {
			return x.Lt(0).Where(x.Negative().Pow(2), x.FloorDiv(-2).Minus(1).Max(7).Min(9))
		})
	if got := integers(t, small); !reflect.DeepEqual(got, []int64{9, 4, 1, 7}) {
		t.Error(got)
	}
}

func TestExpressionsOfStructuresAndShapes(t *testing.T) {
	numbers := Range(0, 4, 1).Batch(2).Enumerate(10).MapExpr(func(x Expr) Expr {
		batch := x.At(1)
		sums := batch.Sum().Plus(batch.Index(-1)).Plus(batch.Slice(1, ToEnd).Smallest())
		wide := batch.Stack(batch).Transpose().Reshape(-1).Concat(batch).Take(0)
		return TupleOf(x.At(0), sums.Plus(wide), batch.Cast(Float64).Mean().Sqrt().Div(2.0))
	})
	spec, err := numbers.ElementSpec(context.Background())
	if err != nil || spec.String() != "(int64[], int64[], float64[])" {
		t.Fatal(spec, err)
	}
	spec.Close()
	hot := Range(0, 2, 1).MapExpr(func(x Expr) Expr { return x.OneHot(2, Int64).Largest().Abs() })
	if got := integers(t, hot); !reflect.DeepEqual(got, []int64{1, 1}) {
		t.Error(got)
	}
	number := must[*Spec](t)(TensorSpec(Int64))
	defer number.Close()
	parts := map[string]*Spec{"a": number, "b": number}
	element, err := DictSpec(parts)
	if err != nil {
		t.Fatal(err)
	}
	defer element.Close()
	sum := ExpressionOf(func(x Expr) Expr {
		part := must[*Spec](t)(x.Get("a").Plus(x.Get("b")).Spec())
		defer part.Close()
		if part.String() != "int64[]" || x.Get("a").Ne(1).Or(x.Get("b").Ge(1)).Not().String() == "" {
			t.Error(part)
		}
		return x.Get("a").Plus(x.Get("b")).Le(3)
	}, element)
	defer sum.Close()
	if sum.err != nil {
		t.Error(sum.err)
	}
}

func TestExpressionsOfBytes(t *testing.T) {
	example := ParseExample(map[string]Feature{"a": {DType: Int64}})
	defer example.Close()
	text, err := TensorSpec(Bytes)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	parsed := ExpressionOf(func(x Expr) Expr { return x.Call(example, 0).Exp() }, text)
	if !errors.Is(parsed.err, ErrInvalidArgument) || !strings.Contains(parsed.err.Error(), "floats") {
		t.Error(parsed.err)
	}
	raw := ExpressionOf(func(x Expr) Expr { return x.DecodeRaw(Uint8).Cast(Float32).Log() }, text)
	defer raw.Close()
	if raw.err != nil {
		t.Error(raw.err)
	}
}

func TestFunctionsThatGiveDatasetsCapturePlaceholders(t *testing.T) {
	numbers := Range(0, 4, 1)
	var kept *Dataset
	sums := numbers.FlatMapExpr(func(x Expr) *Dataset {
		kept = x.Range()
		return kept.MapExpr(func(y Expr) Expr { return y.Plus(x) })
	})
	if got := integers(t, sums); !reflect.DeepEqual(got, []int64{1, 2, 3, 3, 4, 5}) {
		t.Error(got)
	}
	if text, err := sums.Explain(); err != nil || !strings.Contains(text, "native range -> map") {
		t.Error(text, err)
	}
	if _, err := kept.Iterator(context.Background()); !errors.Is(err, ErrFailedPrecondition) {
		t.Error(err)
	}
	repeated := numbers.InterleaveExpr(func(x Expr) *Dataset {
		return x.Counted("repeat", x.Dataset("from_tensors"))
	})
	if got := integers(t, repeated); !reflect.DeepEqual(got, []int64{1, 2, 3, 2, 3, 3}) {
		t.Error(got)
	}
	rows := Range(0, 4, 1).Batch(2).FlatMapExpr(func(x Expr) *Dataset { return x.Slices() })
	if got := integers(t, rows); !reflect.DeepEqual(got, []int64{0, 1, 2, 3}) {
		t.Error(got)
	}
	wrong := numbers.FlatMapExpr(func(x Expr) *Dataset { return x.Dataset("shuffle") })
	if err := wrong.Err(); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := numbers.FlatMapExpr(nil).Err(); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	spec, err := numbers.PromisedSpec()
	if err != nil || spec.String() != "int64[]" {
		t.Error(spec, err)
	}
	called := numbers.Map(func(x Value) (Value, error) { return x, nil })
	if spec, err := called.PromisedSpec(); spec != nil || err != nil {
		t.Error(spec, err)
	}
	if text, err := called.Explain(); err != nil || !strings.Contains(text, "a function of Go's") {
		t.Error(text, err)
	}
}

func TestExpressionsThatDoNotFitAreErrors(t *testing.T) {
	var kept Expr
	for _, wrong := range []struct {
		fn   func(x Expr) Expr
		code Code
		why  string
	}{
		{func(x Expr) Expr { return x.Plus(0.5) }, ErrInvalidArgument, "0.5 does not become int64"},
		{func(x Expr) Expr { return x.Cast(Int32).Plus(x) }, ErrInvalidArgument, "two dtypes meet"},
		{func(x Expr) Expr { return x.Plus("a") }, ErrInvalidArgument, "meet, int64 and bytes"},
		{func(x Expr) Expr { return x.Plus(struct{}{}) }, ErrInvalidArgument, "not a struct"},
		{func(x Expr) Expr { return x.At(0) }, ErrOutOfRange, "no such component"},
		{func(x Expr) Expr { return x.Get("a").Plus(1) }, ErrNotFound, "no component 'a'"},
		{func(x Expr) Expr { kept = x; return Expr{} }, ErrInvalidArgument, "another Expr"},
		{func(x Expr) Expr { return kept.Plus(1) }, ErrFailedPrecondition, ""},
		{func(x Expr) Expr { return x.Operation("plus", nil, nil, 0, false, "") }, ErrNotFound, "'plus'"},
	} {
		err := Range(0, 3, 1).MapExpr(wrong.fn).Err()
		if wrong.code == ErrFailedPrecondition {
			if err == nil {
				t.Error("an Expr of a trace that has ended was taken")
			}
			continue
		}
		if !errors.Is(err, wrong.code) || !strings.Contains(err.Error(), wrong.why) {
			t.Errorf("%v, not %v %q", err, wrong.code, wrong.why)
		}
	}
	if err := Range(0, 3, 1).MapExpr(nil).Err(); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}
