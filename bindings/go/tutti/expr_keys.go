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

// GroupByWindowAllExpr is GroupByWindowExpr whose reduce runs natively, as in FlatMapExpr: it is
// called once, with placeholders of the key, an int64 (of a uint64 that), and of the window, a
// dataset that has elements only in what is made of it. Nothing of the program is called for a
// window. Sizes for each key: GroupByWindowWith and DatasetExpressionOf.
func (d *Dataset) GroupByWindowAllExpr(key func(element Expr) Expr,
	reduce func(key Expr, window *Dataset) *Dataset, windowSize int64,
	options ...Option) *Dataset {
	if key == nil || reduce == nil {
		return datasetOf(0, invalidArgument("group_by_window: a function is needed, not nil"))
	}
	keys, dtype := d.keyedOf(key)
	defer keys.Close()
	reducing, err := d.windowTraced(reduce, dtype)
	if err != nil {
		return datasetOf(0, err)
	}
	defer reducing.Close()
	return d.GroupByWindowWith(keys, reducing, windowSize, nil, options...)
}

// windowTraced is reduce as a function of pairs of a key and a window.
func (d *Dataset) windowTraced(reduce func(key Expr, window *Dataset) *Dataset,
	dtype DType) (*Function, error) {
	key, err := TensorSpec(dtype)
	if err != nil {
		return nil, err
	}
	defer key.Close()
	held, err := OfDataset(d)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	window, err := SpecOf(held)
	if err != nil {
		return nil, err
	}
	defer window.Close()
	pair, err := TupleSpec(key, window)
	if err != nil {
		return nil, err
	}
	defer pair.Close()
	return DatasetExpressionOf(func(x Expr) *Dataset {
		return reduce(x.At(0), x.At(1).Elements())
	}, pair), nil
}

// keyedOf is keyed for group_by_window, and the dtype that its keys have in windows.
func (d *Dataset) keyedOf(key func(element Expr) Expr) (*Function, DType) {
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
	return keys, dtype
}

// GroupByWindowOfSizesExpr is GroupByWindowExpr with a window size for each key, an int64 (of a
// uint64 that), which is computed natively, too.
func (d *Dataset) GroupByWindowOfSizesExpr(key func(element Expr) Expr,
	reduce func(key int64, window *Dataset) (*Dataset, error), windowSize func(key Expr) Expr,
	options ...Option) *Dataset {
	if key == nil || windowSize == nil {
		return datasetOf(0, invalidArgument("group_by_window: a function is needed, not nil"))
	}
	keys, dtype := d.keyedOf(key)
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
