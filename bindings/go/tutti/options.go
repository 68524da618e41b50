package tutti

// Option is an option of a source or a transformation.
type Option interface{ ofOperation(*operation) }

type operationOption func(*operation)

func (o operationOption) ofOperation(op *operation) { o(op) }

type operation struct {
	name          string
	parallel      int64
	deterministic int
	dropRemainder int
	reshuffle     int
	shuffle       int
	seed          int64
	slab          bool
	output        *Spec
	compression   int
	level         []int64
	bufferSize    int64
	parallelReads int64
	header        int64
	footer        int64
	dtype         DType
	cycleLength   []int64
	blockLength   int64
	shift         []int64
	stride        int64
	maxSkipped    int64
	paddedShapes  Value
	paddingValues Value
	packed        string
	shardFunc     *Function
	readerFunc    *Function
	stopOnEmpty   int
	weights       []float64
	weightVectors *Dataset
	toBoundary    int
	noPadding     int
}

func operationOf(options []Option) operation {
	op := operation{seed: RandomSeed, blockLength: 1, stride: 1, maxSkipped: -1, packed: "AUTO"}
	for _, option := range options {
		if option != nil {
			option.ofOperation(&op)
		}
	}
	return op
}

func tristate(flag bool) int {
	if flag {
		return 1
	}
	return 2
}

// WithParallelCalls maps up to n elements at once and ahead, though none beyond what a take leaves,
// on threads of the iterator's; or Autotune. Zero is the iterating one.
func WithParallelCalls(n int) Option {
	return operationOption(func(op *operation) { op.parallel = int64(n) })
}

// WithDeterministic says whether a parallel map keeps the order; without it results may overtake.
func WithDeterministic(flag bool) Option {
	return operationOption(func(op *operation) { op.deterministic = tristate(flag) })
}

// WithCycleLength is how many datasets Interleave takes in turn. Without it: 10, or that of
// WithParallelCalls where it is more.
func WithCycleLength(n int64) Option {
	return operationOption(func(op *operation) { op.cycleLength = []int64{n} })
}

// WithBlockLength is how many elements Interleave takes of a dataset a visit. Without it: 1.
func WithBlockLength(n int64) Option {
	return operationOption(func(op *operation) { op.blockLength = n })
}

// WithShift is how many elements behind the one before a window of Window begins. Without it: as
// many as a window has.
func WithShift(n int64) Option {
	return operationOption(func(op *operation) { op.shift = []int64{n} })
}

// WithStride is how far apart the elements of a window lie. Without it: 1, one behind the other.
func WithStride(n int64) Option {
	return operationOption(func(op *operation) { op.stride = n })
}

// WithMaxSkipped is how many failed elements OnError skips in one pass at most. Without it, or with
// -1: any number.
func WithMaxSkipped(n int64) Option {
	return operationOption(func(op *operation) { op.maxSkipped = n })
}

// WithDropRemainder leaves out a last batch that is not full, and such windows.
func WithDropRemainder(flag bool) Option {
	return operationOption(func(op *operation) { op.dropRemainder = tristate(flag) })
}

// WithPaddedShapes is what PaddedBatch pads to: in the structure of an element, and in the place of
// each component its sizes, a vector of int64. A size of -1 is the largest of the batch, and a
// component in whose place there is no value has -1 for all. An element that is larger is an
// ErrInvalidArgument at iteration that names both shapes. It must be given where a number of axes
// is unknown.
func WithPaddedShapes(shapes Value) Option {
	return operationOption(func(op *operation) { op.paddedShapes = shapes })
}

// WithPaddingValues is what PaddedBatch pads with: a scalar for all components of its dtype, or, in
// the structure of an element, a scalar of each component's dtype, or no value for 0, false or an
// empty byte string.
func WithPaddingValues(values Value) Option {
	return operationOption(func(op *operation) { op.paddingValues = values })
}

// WithSnapshotCompression is how Snapshot compresses: "AUTO", which is SNAPPY, "GZIP", "SNAPPY" or
// "NONE".
func WithSnapshotCompression(name string) Option {
	return operationOption(func(op *operation) { op.packed = name })
}

// WithShardFunc gives for each element the number of its shard of a Snapshot, an integer scalar of
// 0 or more. It counts as a function of the pipeline does.
func WithShardFunc(function *Function) Option {
	return operationOption(func(op *operation) { op.shardFunc = function })
}

// WithReaderFunc makes of a dataset of datasets, one of each shard, the dataset that is read of a
// Snapshot. It may be any function.
func WithReaderFunc(function *Function) Option {
	return operationOption(func(op *operation) { op.readerFunc = function })
}

// WithStopOnEmptyDataset says whether a dataset that is chosen and has ended ends the sequence: of
// ChooseFromDatasets (true if not said otherwise) and SampleFromDatasets (false).
func WithStopOnEmptyDataset(flag bool) Option {
	return operationOption(func(op *operation) { op.stopOnEmpty = tristate(flag) })
}

// WithWeights has a number of 0 or more for each dataset of SampleFromDatasets, not all 0.
func WithWeights(weights ...float64) Option {
	return operationOption(func(op *operation) { op.weights = weights })
}

// WithWeightVectors has a vector of weights for each draw of SampleFromDatasets: the elements of
// vectors. A draw of a dataset that has ended is passed over, and where the vectors end the
// sequence does. A vector that is none is an ErrInvalidArgument at iteration that names its
// element.
func WithWeightVectors(vectors *Dataset) Option {
	return operationOption(func(op *operation) { op.weightVectors = vectors })
}

// WithPadToBucketBoundary pads the batches of BucketBySequenceLength to their bucket's upper
// boundary less 1, where a size is left open. An element of the last bucket is an
// ErrInvalidArgument then.
func WithPadToBucketBoundary(flag bool) Option {
	return operationOption(func(op *operation) { op.toBoundary = tristate(flag) })
}

// WithNoPadding has BucketBySequenceLength stack elements as they are.
func WithNoPadding(flag bool) Option {
	return operationOption(func(op *operation) { op.noPadding = tristate(flag) })
}

// WithReshuffle says whether every iteration has an order of its own.
func WithReshuffle(flag bool) Option {
	return operationOption(func(op *operation) { op.reshuffle = tristate(flag) })
}

// WithShuffle says whether ListFiles shuffles.
func WithShuffle(flag bool) Option {
	return operationOption(func(op *operation) { op.shuffle = tristate(flag) })
}

// WithSeed is the seed of ListFiles and SampleFromDatasets.
func WithSeed(seed int64) Option {
	return operationOption(func(op *operation) { op.seed = seed })
}

// WithCompression says how record files are compressed.
func WithCompression(compression Compression) Option {
	return operationOption(func(op *operation) { op.compression = int(compression) })
}

// WithCompressionLevel is that of a RecordWriter, 0 (none) to 9 (best).
func WithCompressionLevel(level int) Option {
	return operationOption(func(op *operation) { op.level = []int64{int64(level)} })
}

// WithBufferSize is that of reading files, in bytes.
func WithBufferSize(bytes int64) Option {
	return operationOption(func(op *operation) { op.bufferSize = bytes })
}

// WithParallelReads reads n files at a time, ahead and on threads, and gives their records in turn,
// as Interleave with that cycle length does over the files; Autotune: 10 files. 0 and 1, as without
// it: one file after the other.
func WithParallelReads(n int) Option {
	return operationOption(func(op *operation) { op.parallelReads = int64(n) })
}

// WithHeader and footer bytes of each file are no records.
func WithHeader(header, footer int64) Option {
	return operationOption(func(op *operation) { op.header, op.footer = header, footer })
}

// WithDType is that of Range.
func WithDType(dtype DType) Option {
	return operationOption(func(op *operation) { op.dtype = dtype })
}
