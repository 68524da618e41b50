package tutti

import (
	"strings"
	"testing"
)

// fiveAndSix has 5 at (0, 1) and 6 at (2, 0) of [3, 2].
func fiveAndSix(t *testing.T) Value {
	indices := must[*Tensor](t)(TensorOf([]int64{0, 1, 2, 0}, 2, 2))
	values := must[*Tensor](t)(TensorOf([]int64{5, 6}))
	shape := must[*Tensor](t)(TensorOf([]int64{3, 2}))
	return must[Value](t)(Sparse(indices, values, shape))
}

// oneTwoAndThree is [[1, 2], [3]].
func oneTwoAndThree(t *testing.T) Value {
	splits := must[*Tensor](t)(TensorOf([]int64{0, 2, 3}))
	return must[Value](t)(Ragged(must[Value](t)(Of([]int32{1, 2, 3})), splits))
}

func dense(t *testing.T, value Value, filler *Tensor) string {
	tensor := must[*Tensor](t)(value.Dense(filler))
	defer tensor.Close()
	return must[Value](t)(OfTensor(tensor)).String()
}

func elementsText(t *testing.T, dataset *Dataset) string {
	iterator := must[*Iterator](t)(dataset.Iterator(nil))
	defer iterator.Close()
	text := ""
	for iterator.Next() {
		text += iterator.Value().String() + " "
	}
	if err := iterator.Err(); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSparseTensorsBecomeDense(t *testing.T) {
	sparse := fiveAndSix(t)
	if !sparse.IsSparse() || sparse.IsRagged() || strings.Join(sparse.Keys(), " ") !=
		"indices values dense_shape" {
		t.Fatal(sparse)
	}
	if got := dense(t, sparse, nil); got != "[[0 5] [0 0] [6 0]]" {
		t.Fatal(got)
	}
	minus := must[*Tensor](t)(Scalar(int64(-1)))
	if got := dense(t, sparse, minus); got != "[[-1 5] [-1 -1] [6 -1]]" {
		t.Fatal(got)
	}
	rows := must[[]Value](t)(sparse.Rows())
	if len(rows) != 3 || dense(t, rows[2], nil) != "[6 0]" {
		t.Fatal(rows)
	}
	_, err := sparse.Dense(must[*Tensor](t)(Scalar(float32(1))))
	wants(t, err, ErrInvalidArgument)
	_, err = must[Value](t)(OfInt64(1)).Dense(nil)
	wants(t, err, ErrInvalidArgument)
	_, err = must[Value](t)(OfInt64(1)).Rows()
	wants(t, err, ErrInvalidArgument)
	one := must[*Tensor](t)(TensorOf([]int64{7}, 1, 1))
	size := must[*Tensor](t)(TensorOf([]int64{3}))
	_, err = Sparse(one, size, size)
	wants(t, err, ErrInvalidArgument)
	_, err = Sparse(nil, size, size)
	wants(t, err, ErrInvalidArgument)
}

func TestRaggedTensorsBecomeDense(t *testing.T) {
	ragged := oneTwoAndThree(t)
	if !ragged.IsRagged() || dense(t, ragged, nil) != "[[1 2] [3 0]]" {
		t.Fatal(ragged)
	}
	splits := must[*Tensor](t)(TensorOf([]int64{0, 0, 2}))
	twice := must[Value](t)(Ragged(ragged, splits))
	if got := dense(t, twice, nil); got != "[[[0 0] [0 0]] [[1 2] [3 0]]]" {
		t.Fatal(got)
	}
	rows := must[[]Value](t)(ragged.Rows())
	if len(rows) != 2 || rows[0].String() != "[1 2]" || rows[1].String() != "[3]" {
		t.Fatal(rows)
	}
	_, err := Ragged(must[Value](t)(Of([]int32{1})), splits)
	wants(t, err, ErrInvalidArgument)
	_, err = Ragged(Value{}, splits)
	wants(t, err, ErrInvalidArgument)
}

func TestSpecsOfCompositesAreOfTheWhole(t *testing.T) {
	ragged := must[*Spec](t)(SpecOf(oneTwoAndThree(t)))
	if !ragged.Equal(must[*Spec](t)(RaggedSpec(Int32, Int64, 1, 2, UnknownDimension))) {
		t.Fatal(ragged)
	}
	if !must[*Spec](t)(RaggedSpecOfUnknownRank(Int32, Int64, 1)).IsCompatible(ragged) ||
		must[*Spec](t)(RaggedSpecOfUnknownRank(Int32, Int32, 1)).IsCompatible(ragged) {
		t.Fatal(ragged)
	}
	sparse := must[*Spec](t)(SpecOf(fiveAndSix(t)))
	if !sparse.Equal(must[*Spec](t)(SparseSpec(Int64, 3, 2))) ||
		!must[*Spec](t)(SparseSpecOfUnknownRank(Int64)).IsCompatible(sparse) ||
		must[*Spec](t)(SparseSpec(Int64, 3, 3)).IsCompatible(sparse) {
		t.Fatal(sparse)
	}
	leaves := must[[]LeafSpec](t)(sparse.Leaves())
	if whole := leaves[2].Inner; whole == nil || whole.String() != "int64[3,2]" {
		t.Fatal(leaves)
	}
	both := must[*Spec](t)(TupleSpec(sparse, ragged))
	if both.String() != "(sparse(int64[3,2]), ragged(int32[2,?]))" {
		t.Fatal(both)
	}
	_, err := RaggedSpec(Int32, Int64, 2, 2, UnknownDimension)
	wants(t, err, ErrInvalidArgument)
}

func TestSparseBatchesHaveEveryItem(t *testing.T) {
	fill := func(element Value) (Value, error) {
		number, err := element.Int64()
		copies := make([]int64, number)
		for i := range copies {
			copies[i] = number
		}
		if err != nil {
			return Value{}, err
		}
		return Of(copies)
	}
	filled := Range(1, 4, 1).Map(fill,
		WithOutput(must[*Spec](t)(TensorSpec(Int64, UnknownDimension))))
	batches := filled.DenseToSparseBatch(2, []int64{-1})
	want := "tutti.SparseTensor(indices=[[0 0] [1 0] [1 1]], values=[1 2 2], dense_shape=[2 2]) " +
		"tutti.SparseTensor(indices=[[0 0] [0 1] [0 2]], values=[3 3 3], dense_shape=[1 3]) "
	if got := elementsText(t, batches); got != want {
		t.Fatal(got)
	}
	if got := elementsText(t, Range(0, 2, 1).DenseToSparseBatch(2, nil)); got !=
		"tutti.SparseTensor(indices=[[0] [1]], values=[0 1], dense_shape=[2]) " {
		t.Fatal(got)
	}
	wants(t, filled.DenseToSparseBatch(0, []int64{3}).Err(), ErrInvalidArgument)
	wants(t, filled.DenseToSparseBatch(2, []int64{3, 3}).Err(), ErrInvalidArgument)
	iterator := must[*Iterator](t)(filled.DenseToSparseBatch(3, []int64{2}).Iterator(nil))
	defer iterator.Close()
	if iterator.Next() {
		t.Fatal(iterator.Value())
	}
	wants(t, iterator.Err(), ErrInvalidArgument)
}

func TestRowsOfARaggedTensorAreElements(t *testing.T) {
	if got := elementsText(t, FromTensorSlices(oneTwoAndThree(t))); got != "[1 2] [3] " {
		t.Fatal(got)
	}
}

func TestCompositesAreMadeOfNestedSlices(t *testing.T) {
	sparse := must[Value](t)(SparseOf([][]int64{{0, 1}, {2, 0}}, []int64{5, 6}, 3, 2))
	if got := dense(t, sparse, nil); got != "[[0 5] [0 0] [6 0]]" {
		t.Fatal(got)
	}
	_, err := SparseOf([][]int64{{0, 1}, {2}}, []int64{5, 6}, 3, 2)
	wants(t, err, ErrInvalidArgument)
	_, err = SparseOf([][]int64{{0}}, "no slice", 3)
	wants(t, err, ErrInvalidArgument)
	for text, nested := range map[string]any{
		"tutti.RaggedTensor(values=[1 2 3], row_splits=[0 2 2 3])": [][]int32{{1, 2}, {}, {3}},
		"tutti.RaggedTensor(values=[1 2], row_splits=[0 1 2])":     []any{[]int{1}, []int{2}},
		"tutti.RaggedTensor(values=tutti.RaggedTensor(values=[\"a\" \"b\" \"c\"], " +
			"row_splits=[0 1 3]), row_splits=[0 2 2])": [][][]string{{{"a"}, {"b", "c"}}, {}},
		"tutti.RaggedTensor(values=[], row_splits=[0])": [][]float32{},
		"tutti.RaggedTensor(values=tutti.RaggedTensor(values=[], row_splits=[0]), " +
			"row_splits=[0 0])": [][][]float32{{}},
	} {
		if got := must[Value](t)(RaggedConstant(nested)).String(); got != text {
			t.Error(got, text)
		}
	}
	ragged := must[*Spec](t)(SpecOf(must[Value](t)(RaggedConstant([][]int16{{}, {1}}))))
	if !ragged.Equal(must[*Spec](t)(RaggedSpec(Int16, Int64, 1, 2, UnknownDimension))) {
		t.Fatal(ragged)
	}
	for _, wrong := range []any{nil, 5, []int64{1}, []any{[]int64{1}, int64(2)}, []any{},
		[]any{[]int64{1}, []int32{2}}, [][]uintptr{{1}}, []any{nil}} {
		_, err := RaggedConstant(wrong)
		wants(t, err, ErrInvalidArgument)
	}
}

func TestSpecsOfCompositesAreUnited(t *testing.T) {
	sparse := func(dtype DType, dims ...int64) *Spec {
		return must[*Spec](t)(SparseSpec(dtype, dims...))
	}
	ragged := func(dtype, splits DType, rank int64, dims ...int64) *Spec {
		return must[*Spec](t)(RaggedSpec(dtype, splits, rank, dims...))
	}
	for _, c := range []struct{ left, right, want *Spec }{
		{sparse(Int64, 3, 2), sparse(Int64, 4, 2), sparse(Int64, UnknownDimension, 2)},
		{sparse(Int64, 3, 2), sparse(Int64, 4), must[*Spec](t)(SparseSpecOfUnknownRank(Int64))},
		{ragged(Int32, Int64, 1, 2, -1, 5), ragged(Int32, Int64, 1, 4, -1, 5),
			ragged(Int32, Int64, 1, -1, -1, 5)},
		{ragged(Int32, Int64, 1, 2, -1, 5), ragged(Int32, Int64, 1, 2, -1),
			must[*Spec](t)(RaggedSpecOfUnknownRank(Int32, Int64, 1))},
	} {
		if got := must[*Spec](t)(c.left.MostSpecific(c.right)); !got.Equal(c.want) {
			t.Error(got, c.want)
		}
	}
	for _, other := range []*Spec{sparse(Int32, 3, 2), must[*Spec](t)(TensorSpec(Int64, 3, 2)),
		ragged(Int64, Int64, 1, 3, 2)} {
		_, err := sparse(Int64, 3, 2).MostSpecific(other)
		wants(t, err, ErrInvalidArgument)
	}
	for _, other := range []*Spec{ragged(Int64, Int64, 1, 2, -1, 5),
		ragged(Int32, Int32, 1, 2, -1, 5), ragged(Int32, Int64, 2, 2, -1, 5)} {
		_, err := ragged(Int32, Int64, 1, 2, -1, 5).MostSpecific(other)
		wants(t, err, ErrInvalidArgument)
	}
}
