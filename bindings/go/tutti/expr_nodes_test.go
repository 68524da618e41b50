package tutti

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// printedOf are the elements of a dataset, as texts, up to the first error.
func printedOf(t *testing.T, dataset *Dataset) (texts []string) {
	t.Helper()
	iterator := must[*Iterator](t)(dataset.Iterator(context.Background()))
	defer iterator.Close()
	for iterator.Next() {
		element := iterator.Value()
		texts = append(texts, element.String())
		element.Close()
	}
	if err := iterator.Err(); err != nil {
		texts = append(texts, err.Error())
	}
	return texts
}

func slicesDataset(t *testing.T, texts ...string) *Dataset {
	t.Helper()
	tensor := must[*Tensor](t)(StringTensor(texts, int64(len(texts))))
	defer tensor.Close()
	value := must[Value](t)(OfTensor(tensor))
	defer value.Close()
	return FromTensorSlices(value)
}

func TestExpressionsOfTexts(t *testing.T) {
	source := slicesDataset(t, " Ab,c ", "D,e")
	for _, each := range []struct {
		fn   func(x Expr) Expr
		want []string
	}{
		{func(x Expr) Expr { return x.Strip().Lower() }, []string{"\"ab,c\"", "\"d,e\""}},
		{func(x Expr) Expr { return x.Upper().StringLength() }, []string{"6", "3"}},
		{func(x Expr) Expr { return x.Substr(-2, -1) }, []string{"\"c \"", "\",e\""}},
		{func(x Expr) Expr { return x.Split(",") }, []string{"[\" Ab\" \"c \"]", "[\"D\" \"e\"]"}},
		{func(x Expr) Expr { return x.SplitInto(",", 2).ReduceJoin("+", 0) },
			[]string{"\" Ab+c \"", "\"D+e\""}},
		{func(x Expr) Expr { return x.StringLength().AsString().ToNumber(Int64) }, []string{"6", "3"}},
		{func(x Expr) Expr { return x.RegexFullMatch("D,.") }, []string{"False", "True"}},
		{func(x Expr) Expr { return x.RegexReplace("[A-Dce]", "-") },
			[]string{"\" -b,- \"", "\"-,-\""}},
		{func(x Expr) Expr { return x.RegexReplaceFirst(`(\w+)`, `[\1]`) },
			[]string{"\" [Ab],c \"", "\"[D],e\""}},
		{func(x Expr) Expr {
			return TupleOf(x.ToHashBucketFast(10), x.ToHashBucketStrong(10, [2]uint64{1, 2}))
		}, []string{"(9, 8)", "(0, 3)"}},
		{func(x Expr) Expr { return x.Join("-", "z") }, []string{"\" Ab,c -z\"", "\"D,e-z\""}},
	} {
		if got := printedOf(t, source.MapExpr(each.fn)); !reflect.DeepEqual(got, each.want) {
			t.Error(got, each.want)
		}
	}
	rows := source.Batch(2).MapExpr(func(x Expr) Expr { return x.SplitRows(",") })
	spec, err := rows.ElementSpec(context.Background())
	if err != nil || !strings.Contains(spec.String(), "ragged") {
		t.Error(spec, err)
	}
	wrong := source.MapExpr(func(x Expr) Expr { return x.RegexFullMatch("(") })
	if err := wrong.Err(); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	failed := printedOf(t, source.MapExpr(func(x Expr) Expr { return x.Substr(4, 1) }))
	if len(failed) != 2 || failed[0] != "\"c\"" || !strings.Contains(failed[1], "no position 4") {
		t.Error(failed)
	}
}

func TestExpressionsOfSeedsAndComplexNumbers(t *testing.T) {
	draws := Range(1, 3, 1).MapExpr(func(x Expr) Expr {
		seed := x.Stack(2)
		return TupleOf(seed.StatelessBits(Int32, 2), seed.StatelessIntegers(-3, 1000, Int32, 2),
			seed.StatelessUniform(Float32, 2), seed.StatelessNormal(Float64),
			seed.StatelessTruncatedNormal(Float32, 5))
	})
	got := printedOf(t, draws)
	if !strings.HasPrefix(got[0], "([1105988140 1738052849], [97 284], ") {
		t.Error(got)
	}
	bits := must[*Tensor](t)(StatelessBits([2]int64{1, 2}, Int32, 2))
	defer bits.Close()
	uniform := must[*Tensor](t)(StatelessUniform([2]int64{1, 2}, Float32, 2))
	defer uniform.Close()
	normal := must[*Tensor](t)(StatelessNormal([2]int64{1, 2}, Float64))
	defer normal.Close()
	truncated := must[*Tensor](t)(StatelessTruncatedNormal([2]int64{1, 2}, Float32, 5))
	defer truncated.Close()
	for _, tensor := range []*Tensor{bits, uniform, normal, truncated} {
		text := tensor.String()
		if !strings.Contains(got[0], text[strings.Index(text, "] ")+2:]) {
			t.Error(got[0], text)
		}
	}
	sizes := Range(3, 5, 1).MapExpr(func(x Expr) Expr {
		z := x.Cast(Float64).Complex(x.Cast(Float64).Plus(1.0))
		return TupleOf(z.Abs(), z.Conjugate().Imag(), z.Real(), z.Times(z).Angle().Lt(4.0))
	})
	if got := printedOf(t, sizes); got[0] != "(5, -4, 3, True)" {
		t.Error(got)
	}
	_, err := ApplyOperation("plus", []*Tensor{bits}, nil, 0, false, "")
	if !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestFeaturesOfAnyLength(t *testing.T) {
	var records []string
	for _, numbers := range [][]int64{{1, 2, 3}, {7}} {
		features := must[Value](t)(From(map[string]any{"a": numbers}))
		records = append(records, string(must[[]byte](t)(MakeExample(features))))
		features.Close()
	}
	records = append(records, "")
	parse := ParseExample(map[string]Feature{
		"a": {DType: Int64, Kind: RaggedFeature}, "b": {DType: Int64, Kind: SequenceFeature}})
	defer parse.Close()
	source := slicesDataset(t, records...)
	want := []string{"{'a': [1 2 3], 'b': []}", "{'a': [7], 'b': []}", "{'a': [], 'b': []}"}
	if got := printedOf(t, source.MapWith(parse)); !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	sums := source.MapExpr(func(x Expr) Expr { return x.Call(parse, 0).Sum() })
	if got := integers(t, sums); !reflect.DeepEqual(got, []int64{6, 7, 0}) {
		t.Error(got)
	}
	sparse := ParseExample(map[string]Feature{"a": {DType: Int64, Kind: VarLenFeature}})
	defer sparse.Close()
	whole := source.MapExpr(func(x Expr) Expr {
		return SparseTensorOf(x.Call(sparse, 0), x.Call(sparse, 1), x.Call(sparse, 2))
	})
	spec, err := whole.ElementSpec(context.Background())
	if err != nil || !strings.Contains(spec.String(), "sparse") {
		t.Error(spec, err)
	}
	ragged := source.Batch(3).MapExpr(func(x Expr) Expr {
		return RaggedOf(x.Call(parse, 0), x.Call(parse, 1))
	})
	if got := printedOf(t, ragged); len(got) != 1 || !strings.Contains(got[0], "[0 3 4 4]") {
		t.Error(got)
	}
	wrong := ParseExample(map[string]Feature{
		"a": {DType: Int64, Dims: []int64{2}, Kind: VarLenFeature}})
	defer wrong.Close()
	if err := source.MapWith(wrong).Err(); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}
