package tutti

import "context"

// ReduceExpr is Reduce, natively, as in MapExpr: fn computes of a state and an element the next
// state, of the same dtypes and, other than in Reduce, of the same shapes.
func (d *Dataset) ReduceExpr(ctx context.Context, initial Value,
	fn func(state, element Expr) Expr) (Value, error) {
	if fn == nil {
		return Value{}, invalidArgument("reduce: a function is needed, not nil")
	}
	state, err := SpecOf(initial)
	if err != nil {
		return Value{}, err
	}
	defer state.Close()
	element, err := d.ElementSpec(ctx)
	if err != nil {
		return Value{}, err
	}
	defer element.Close()
	pair, err := TupleSpec(state, element)
	if err != nil {
		return Value{}, err
	}
	defer pair.Close()
	function := ExpressionOf(func(x Expr) Expr { return fn(x.At(0), x.At(1)) }, pair)
	defer function.Close()
	return d.ReduceWith(ctx, initial, function)
}

// keyed is the function that fn is for elements, as MapExpr has it.
func (d *Dataset) keyed(op string, fn func(element Expr) Expr) *Function {
	if fn == nil {
		return &Function{err: invalidArgument("%s: a function is needed, not nil", op)}
	}
	element, err := d.ElementSpec(context.Background())
	if err != nil {
		return &Function{err: err}
	}
	defer element.Close()
	return ExpressionOf(fn, element)
}

// windowReducer calls reduce for each window.
func (d *Dataset) windowReducer(reduce func(key int64, window *Dataset) (*Dataset, error),
	options []Option) *Function {
	if reduce == nil {
		return &Function{err: invalidArgument("group_by_window: a function is needed, not nil")}
	}
	return d.of().NewFunction(func(in Value) (Value, error) {
		number, window, err := keyAndWindow(in)
		if err != nil {
			return Value{}, err
		}
		made, err := reduce(number, window)
		if err != nil {
			return Value{}, err
		}
		return OfDataset(made)
	}, FunctionOptions{Name: operationOf(options).name})
}

// GroupByWindowExpr is GroupByWindow, whose key is computed natively, as in MapExpr: an integer
// scalar. reduce, which gets a dataset, is called for each window.
func (d *Dataset) GroupByWindowExpr(key func(element Expr) Expr,
	reduce func(key int64, window *Dataset) (*Dataset, error), windowSize int64,
	options ...Option) *Dataset {
	keys := d.keyed("group_by_window", key)
	defer keys.Close()
	reducing := d.windowReducer(reduce, options)
	defer reducing.Close()
	return d.GroupByWindowWith(keys, reducing, windowSize, nil, options...)
}

// GroupByWindowOfSizesExpr is GroupByWindowExpr with a window size for each key, an int64 (of a
// uint64 that), which is computed natively, too.
func (d *Dataset) GroupByWindowOfSizesExpr(key func(element Expr) Expr,
	reduce func(key int64, window *Dataset) (*Dataset, error), windowSize func(key Expr) Expr,
	options ...Option) *Dataset {
	if key == nil || windowSize == nil {
		return datasetOf(0, invalidArgument("group_by_window: a function is needed, not nil"))
	}
	dtype := Int64
	keys := d.keyed("group_by_window", func(x Expr) Expr {
		made := key(x)
		if spec, err := made.Spec(); err == nil {
			defer spec.Close()
			if leaves, err := spec.Leaves(); err == nil && leaves[0].DType == Uint64 {
				dtype = Uint64
			}
		}
		return made
	})
	defer keys.Close()
	spec, err := TensorSpec(dtype)
	if err != nil {
		return datasetOf(0, err)
	}
	defer spec.Close()
	sizes := ExpressionOf(windowSize, spec)
	defer sizes.Close()
	reducing := d.windowReducer(reduce, options)
	defer reducing.Close()
	return d.GroupByWindowWith(keys, reducing, 0, sizes, options...)
}

// BucketBySequenceLengthExpr is BucketBySequenceLength, whose length is computed natively, as in
// MapExpr: an integer scalar.
func (d *Dataset) BucketBySequenceLengthExpr(length func(element Expr) Expr,
	boundaries, batchSizes []int64, options ...Option) *Dataset {
	lengths := d.keyed("bucket_by_sequence_length", length)
	defer lengths.Close()
	return d.BucketBySequenceLengthWith(lengths, boundaries, batchSizes, options...)
}

// SnapshotExpr is Snapshot in shards whose numbers shard computes natively, as in MapExpr, so that
// it needs no name.
func (d *Dataset) SnapshotExpr(path string, shard func(element Expr) Expr,
	options ...Option) *Dataset {
	shards := d.keyed("snapshot", shard)
	defer shards.Close()
	return d.Snapshot(path, append(append([]Option{}, options...), WithShardFunc(shards))...)
}
