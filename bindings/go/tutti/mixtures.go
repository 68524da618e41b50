package tutti

import "tutti.dev/tutti/internal/native"

// ChooseFromDatasets gives, for each element of choices, an integer scalar, the next element of the
// dataset of that number. Elements must be compatible. A choice of a dataset that has ended ends
// the sequence, or is passed over with WithStopOnEmptyDataset(false). A choice that is no number of
// a dataset is an ErrInvalidArgument at iteration that names its element.
func ChooseFromDatasets(datasets []*Dataset, choices *Dataset, options ...Option) *Dataset {
	return defaultRuntime.ChooseFromDatasets(datasets, choices, options...)
}

// ChooseFromDatasets of this runtime.
func (r *Runtime) ChooseFromDatasets(datasets []*Dataset, choices *Dataset,
	options ...Option) *Dataset {
	op := operationOf(options)
	all, err := tupleOfDatasets(datasets)
	if err != nil {
		return datasetOf(0, err)
	}
	defer all.Close()
	choice, err := choices.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer choices.o.done()
	source := func(runtime, data uintptr, name string, made *uintptr) uintptr {
		return native.Dataset_choose_from_datasets(
			runtime, data, choice, op.stopOnEmpty, name, made)
	}
	return r.fromValue(all, options, source)
}

// SampleFromDatasets gives the next element of a dataset that is drawn at random, again and again,
// until all have ended, or, with WithStopOnEmptyDataset, one that is drawn has. WithWeights says
// how likely each is, WithWeightVectors how likely for each draw, WithSeed makes the order
// repeatable, and WithReshuffle(false) has all iterations in one order. Elements must be
// compatible.
func SampleFromDatasets(datasets []*Dataset, options ...Option) *Dataset {
	return defaultRuntime.SampleFromDatasets(datasets, options...)
}

// SampleFromDatasets of this runtime.
func (r *Runtime) SampleFromDatasets(datasets []*Dataset, options ...Option) *Dataset {
	op := operationOf(options)
	all, err := tupleOfDatasets(datasets)
	if err != nil {
		return datasetOf(0, err)
	}
	defer all.Close()
	var weights Value
	if op.weights != nil && op.weightVectors != nil {
		return datasetOf(0, invalidArgument(
			"sample_from_datasets: weights are a vector or a dataset of vectors, not both"))
	}
	if op.weightVectors != nil {
		if weights, err = OfDataset(op.weightVectors); err != nil {
			return datasetOf(0, err)
		}
		defer weights.Close()
	}
	if op.weights != nil {
		if weights, err = Of(op.weights, int64(len(op.weights))); err != nil {
			return datasetOf(0, err)
		}
		defer weights.Close()
	}
	given, err := weights.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer weights.done()
	source := func(runtime, data uintptr, name string, made *uintptr) uintptr {
		return native.Dataset_sample_from_datasets(
			runtime, data, seedOf(op.seed), given, op.stopOnEmpty, op.reshuffle, name, made)
	}
	return r.fromValue(all, options, source)
}

func tupleOfDatasets(datasets []*Dataset) (Value, error) {
	parts := make([]Value, len(datasets))
	for i, dataset := range datasets {
		part, err := OfDataset(dataset)
		if err != nil {
			return Value{}, err
		}
		defer part.Close()
		parts[i] = part
	}
	return Tuple(parts...)
}

// BucketBySequenceLength gives padded batches of elements of about the same length, which length
// gives. A bucket has the lengths from one of the increasing boundaries up to the next, that one
// not included; batchSizes has one more number, how many elements make a batch of each bucket. A
// batch comes as soon as it is full, smaller ones at the end, by buckets, unless WithDropRemainder.
// WithPaddedShapes and WithPaddingValues are those of PaddedBatch; a size that is left open is the
// longest of the batch, if not WithPadToBucketBoundary. WithNoPadding stacks elements as they are.
func (d *Dataset) BucketBySequenceLength(length func(element Value) (int64, error),
	boundaries, batchSizes []int64, options ...Option) *Dataset {
	if length == nil {
		return datasetOf(0, invalidArgument(
			"bucket_by_sequence_length: a function is needed, not nil"))
	}
	lengths := d.numbering(length, options)
	defer lengths.Close()
	return d.BucketBySequenceLengthWith(lengths, boundaries, batchSizes, options...)
}

// BucketBySequenceLengthWith is BucketBySequenceLength with a function.
func (d *Dataset) BucketBySequenceLengthWith(length *Function, boundaries, batchSizes []int64,
	options ...Option) *Dataset {
	op := operationOf(options)
	function, err := length.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer length.o.done()
	limits, err := Of(boundaries, int64(len(boundaries)))
	if err != nil {
		return datasetOf(0, err)
	}
	defer limits.Close()
	sizes, err := Of(batchSizes, int64(len(batchSizes)))
	if err != nil {
		return datasetOf(0, err)
	}
	defer sizes.Close()
	pointers := [4]uintptr{}
	for i, value := range []Value{limits, sizes, op.paddedShapes, op.paddingValues} {
		pointer, err := value.use()
		if err != nil {
			return datasetOf(0, err)
		}
		defer value.done()
		pointers[i] = pointer
	}
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_bucket_by_sequence_length(dataset, function, pointers[0],
			pointers[1], pointers[2], pointers[3], op.toBoundary, op.noPadding, op.dropRemainder,
			op.name, made)
	})
}
