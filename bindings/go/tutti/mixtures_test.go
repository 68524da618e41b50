package tutti

import "testing"

func TestDatasetsAreMixedAndBucketed(t *testing.T) {
	both := []*Dataset{Range(0, 3, 1), Range(10, 13, 1)}
	choices := FromTensorSlices(must[Value](t)(Of([]int64{0, 0, 0, 0, 1}, 5)))
	vectors := FromTensorSlices(must[Value](t)(Of([]float64{0, 1, 1, 0, 0, 1}, 3, 2)))
	rest := func(element Value) (int64, error) {
		number, err := element.Int64()
		return number % 3, err
	}
	sampled := SampleFromDatasets(both, WithSeed(9), WithReshuffle(false))
	for name, c := range map[string]struct {
		dataset *Dataset
		want    string
	}{
		"choose":       {ChooseFromDatasets(both, choices), "0 1 2 "},
		"choose on":    {ChooseFromDatasets(both, choices, WithStopOnEmptyDataset(false)), "0 1 2 10 "},
		"sample":       {sampled, "10 11 0 1 12 2 "},
		"sample again": {sampled, "10 11 0 1 12 2 "},
		"weights":      {SampleFromDatasets(both, WithWeights(0, 1)), "10 11 12 "},
		"vectors":      {SampleFromDatasets(both, WithWeightVectors(vectors)), "10 0 11 "},
		"buckets": {Range(0, 8, 1).BucketBySequenceLength(rest, []int64{1, 2},
			[]int64{2, 3, 9}), "[0 3] [1 4 7] [6] [2 5] "},
		"dropped": {Range(0, 8, 1).BucketBySequenceLength(rest, []int64{1, 2},
			[]int64{2, 3, 9}, WithDropRemainder(true), WithNoPadding(true)), "[0 3] [1 4 7] "},
		"cardinality": {Range(0, 3, 1).AssertCardinality(3), "0 1 2 "},
	} {
		iterator := must[*Iterator](t)(c.dataset.Iterator(nil))
		got := ""
		for iterator.Next() {
			got += iterator.Value().String() + " "
		}
		if err := iterator.Err(); err != nil || got != c.want {
			t.Errorf("%s: expected %s, got %s %v", name, c.want, got, err)
		}
		iterator.Close()
	}
	wants(t, SampleFromDatasets(both, WithWeights(1, -1)).Err(), ErrInvalidArgument)
	wants(t, SampleFromDatasets(both, WithWeights(1, 1), WithWeightVectors(vectors)).Err(),
		ErrInvalidArgument)
	wants(t, ChooseFromDatasets(nil, choices).Err(), ErrInvalidArgument)
	wants(t, ChooseFromDatasets(both, nil).Err(), ErrInvalidArgument)
	wants(t, Range(0, 3, 1).BucketBySequenceLength(nil, nil, []int64{1}).Err(), ErrInvalidArgument)
	wants(t, Range(0, 3, 1).BucketBySequenceLength(rest, []int64{1}, []int64{1, 1},
		WithPadToBucketBoundary(true), WithNoPadding(true)).Err(), ErrInvalidArgument)
}
