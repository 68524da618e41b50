package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"tutti.dev/tutti"
)

type fields = map[string]any

func integer(node fields, name string, start int64) int64 {
	if number, ok := node[name].(json.Number); ok {
		value, _ := number.Int64()
		return value
	}
	return start
}

// transform is one op with an input, which is dataset.
func transform(r *tutti.Runtime, dataset *tutti.Dataset, node fields) (*tutti.Dataset, error) {
	if made := tracedTransform(dataset, node); made != nil {
		return made, nil
	}
	op := fmt.Sprint(node["op"])
	switch op {
	case "map":
		if err := known(node, "op", "input", "fn", "arg", "registered", "num_parallel_calls",
			"deterministic"); err != nil {
			return nil, err
		}
		name := fmt.Sprint(node["fn"])
		fn, err := function(name, node["arg"])
		if err != nil {
			return nil, err
		}
		if node["registered"] == true {
			return mapRegistered(r, dataset, node, fn)
		}
		options, err := signature(name, dataset)
		if err != nil {
			return nil, err
		}
		return dataset.Map(fn, append(options, parallel(node)...)...), nil
	case "snapshot":
		return snapshot(r, dataset, node)
	case "flat_map", "interleave":
		return flattened(r, dataset, node)
	case "padded_batch":
		return paddedBatch(dataset, node)
	case "bucket_by_sequence_length":
		return bucketed(dataset, node)
	case "dense_to_sparse_batch":
		return denseToSparseBatch(dataset, node)
	case "group_by_window":
		return grouped(r, dataset, node)
	case "apply":
		if err := known(node, "op", "input", "transformation"); err != nil {
			return nil, err
		}
		var failure error
		made := dataset.Apply(func(d *tutti.Dataset) *tutti.Dataset {
			var inner *tutti.Dataset
			inner, failure = transform(r, d, node["transformation"].(fields))
			return inner
		})
		return made, failure
	case "shuffle":
		if err := known(node, "op", "input", "buffer_size", "seed",
			"reshuffle_each_iteration"); err != nil {
			return nil, err
		}
		var options []tutti.Option
		if flag, ok := node["reshuffle_each_iteration"].(bool); ok {
			options = append(options, tutti.WithReshuffle(flag))
		}
		return dataset.Shuffle(integer(node, "buffer_size", 0),
			integer(node, "seed", tutti.RandomSeed), options...), nil
	}
	if op == "shuffle_and_repeat" {
		if err := known(node, "op", "input", "buffer_size", "count", "seed"); err != nil {
			return nil, err
		}
		return dataset.ShuffleAndRepeat(integer(node, "buffer_size", 0), integer(node, "count", -1),
			integer(node, "seed", tutti.RandomSeed)), nil
	}
	if op == "with_options" {
		if err := known(node, "op", "input", "options"); err != nil {
			return nil, err
		}
		options, err := optionsOf(node["options"].(fields))
		if err != nil {
			return nil, err
		}
		return dataset.WithOptions(options), nil
	}
	if op == "window_lists" { // each window as one batch
		windows := fields{}
		for name, value := range node {
			windows[name] = value
		}
		windows["op"] = "window"
		made, err := transform(r, dataset, windows)
		if err != nil {
			return nil, err
		}
		return flattened(r, made, fields{"op": "flat_map", "fn": "zip_batch", "arg": node["size"]})
	}
	made, found, err := plainOp(r, dataset, node)
	if !found {
		return nil, notCovered("op " + op)
	}
	return made, err
}

// parallel is how many calls there are at once, and in which order their results come.
func parallel(node fields) []tutti.Option {
	options := []tutti.Option{tutti.WithParallelCalls(int(integer(node, "num_parallel_calls", 0)))}
	if flag, ok := node["deterministic"].(bool); ok {
		options = append(options, tutti.WithDeterministic(flag))
	}
	return options
}

// flattened is flat_map or interleave.
func flattened(r *tutti.Runtime, dataset *tutti.Dataset, node fields) (*tutti.Dataset, error) {
	names := []string{"op", "input", "fn", "arg"}
	interleaves := node["op"] == "interleave"
	if interleaves {
		names = append(names, "cycle_length", "block_length", "num_parallel_calls", "deterministic")
	}
	if err := known(node, names...); err != nil {
		return nil, err
	}
	name := fmt.Sprint(node["fn"])
	fn, err := datasetFunction(r, name, node["arg"])
	if err != nil {
		return nil, err
	}
	output, err := datasetSignature(name, dataset)
	if err != nil {
		return nil, err
	}
	made := r.NewFunction(fn, tutti.FunctionOptions{Name: name, Output: output})
	defer made.Close()
	if !interleaves {
		return dataset.FlatMapWith(made), nil
	}
	options := append(parallel(node), tutti.WithBlockLength(integer(node, "block_length", 1)))
	if _, ok := node["cycle_length"]; ok {
		options = append(options, tutti.WithCycleLength(integer(node, "cycle_length", 0)))
	}
	return dataset.InterleaveWith(made, options...), nil
}

// grouped is group_by_window.
func grouped(r *tutti.Runtime, dataset *tutti.Dataset, node fields) (*tutti.Dataset, error) {
	if err := known(node, "op", "input", "key_func", "key_arg", "reduce_func", "reduce_arg",
		"window_size"); err != nil {
		return nil, err
	}
	key, err := keyFunction(fmt.Sprint(node["key_func"]), node["key_arg"])
	if err != nil {
		return nil, err
	}
	if node["reduce_func"] == "write_and_read" {
		return dataset.GroupByWindow(key, writtenAndRead(r, fmt.Sprint(node["reduce_arg"])),
			integer(node, "window_size", 0)), nil
	}
	reduce, err := windowFunction(
		r, fmt.Sprint(node["reduce_func"]), integer(node, "reduce_arg", 0))
	if err != nil {
		return nil, err
	}
	if traced := tracedKey(dataset, node); traced != nil {
		return dataset.GroupByWindowExpr(traced, reduce, integer(node, "window_size", 0)), nil
	}
	return dataset.GroupByWindow(key, reduce, integer(node, "window_size", 0)), nil
}

// kept is the same, with functions that are registered: what is kept goes by their names.
func kept(node fields) fields {
	all := fields{}
	for name, value := range node {
		all[name] = value
	}
	if input, ok := node["input"].(fields); ok {
		all["input"] = kept(input)
	}
	if node["op"] == "map" {
		all["registered"] = true
	}
	return all
}

func registered(r *tutti.Runtime, fn, arg any, run tutti.MapFunc, output *tutti.Spec) (
	*tutti.Function, error) {
	name := fmt.Sprintf("%v %v", fn, arg)
	if output != nil {
		name += " gives " + output.String()
	}
	err := r.RegisterFunction(name, run, tutti.FunctionOptions{Output: output})
	if err != nil && !errors.Is(err, tutti.ErrAlreadyExists) {
		return nil, err
	}
	return r.RegisteredFunction(name)
}

func mapRegistered(r *tutti.Runtime, dataset *tutti.Dataset, node fields, fn tutti.MapFunc) (
	*tutti.Dataset, error) {
	output, err := outputOf(fmt.Sprint(node["fn"]), dataset)
	if err != nil {
		return nil, err
	}
	made, err := registered(r, node["fn"], node["arg"], fn, output)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	return dataset.MapWith(made, parallel(node)...), nil
}

func snapshot(r *tutti.Runtime, dataset *tutti.Dataset, node fields) (*tutti.Dataset, error) {
	if err := known(node, "op", "input", "path", "compression", "shard_func", "shard_arg",
		"reader_func", "reader_arg"); err != nil {
		return nil, err
	}
	var options []tutti.Option
	if compression, ok := node["compression"]; ok {
		name, _ := compression.(string)
		if compression == nil {
			name = "NONE"
		}
		options = append(options, tutti.WithSnapshotCompression(name))
	}
	for which, option := range map[string]func(*tutti.Function) tutti.Option{
		"shard": tutti.WithShardFunc, "reader": tutti.WithReaderFunc} {
		name, ok := node[which+"_func"].(string)
		if !ok {
			continue
		}
		arg := node[which+"_arg"]
		fn, err := datasetFunction(r, name, arg)
		if err != nil {
			return nil, err
		}
		made, err := registered(r, name, arg, fn, nil)
		if err != nil {
			return nil, err
		}
		defer made.Close()
		options = append(options, option(made))
	}
	return dataset.Snapshot(fmt.Sprint(node["path"]), options...), nil
}

// sizes are the shapes of padded_batch: a list becomes a vector of int64, -1 for null in it.
func sizes(v any) any {
	switch v := v.(type) {
	case []any:
		made := make([]any, len(v))
		for i, size := range v {
			made[i] = size
			if size == nil {
				made[i] = json.Number("-1")
			}
		}
		return fields{"dtype": "int64", "v": made}
	case fields:
		made := fields{}
		for key, parts := range v {
			switch parts := parts.(type) {
			case []any:
				all := make([]any, len(parts))
				for i, part := range parts {
					all[i] = sizes(part)
				}
				made[key] = all
			case fields:
				all := fields{}
				for name, part := range parts {
					all[name] = sizes(part)
				}
				made[key] = all
			}
		}
		return made
	}
	return v
}

func denseToSparseBatch(dataset *tutti.Dataset, node fields) (*tutti.Dataset, error) {
	if err := known(node, "op", "input", "batch_size", "row_shape"); err != nil {
		return nil, err
	}
	rowShape, err := dimsOf(node["row_shape"])
	if err != nil {
		return nil, err
	}
	return dataset.DenseToSparseBatch(integer(node, "batch_size", 0), rowShape), nil
}

func paddedBatch(dataset *tutti.Dataset, node fields) (*tutti.Dataset, error) {
	if err := known(node, "op", "input", "batch_size", "padded_shapes", "padding_values",
		"drop_remainder"); err != nil {
		return nil, err
	}
	var options []tutti.Option
	add := func(v any, option func(tutti.Value) tutti.Option) error {
		described, err := read(v)
		if err != nil {
			return err
		}
		value, err := valueOf(described)
		options = append(options, option(value))
		return err
	}
	if err := add(sizes(node["padded_shapes"]), tutti.WithPaddedShapes); err != nil {
		return nil, err
	}
	if err := add(node["padding_values"], tutti.WithPaddingValues); err != nil {
		return nil, err
	}
	if flag, ok := node["drop_remainder"].(bool); ok {
		options = append(options, tutti.WithDropRemainder(flag))
	}
	return dataset.PaddedBatch(integer(node, "batch_size", 0), options...), nil
}

// structure of datasets.
func structure(r *tutti.Runtime, node fields) (any, error) {
	if parts, ok := node["t"].([]any); ok {
		made := tuple{}
		for _, part := range parts {
			item, err := structure(r, part.(fields))
			if err != nil {
				return nil, err
			}
			made = append(made, item)
		}
		return made, nil
	}
	if parts, ok := node["d"].(fields); ok {
		made := dict{}
		for key, part := range parts {
			item, err := structure(r, part.(fields))
			if err != nil {
				return nil, err
			}
			made[key] = item
		}
		return made, nil
	}
	return build(r, node)
}

func build(r *tutti.Runtime, node fields) (*tutti.Dataset, error) {
	switch op := fmt.Sprint(node["op"]); op {
	case "range":
		if err := known(node, "op", "start", "stop", "step", "output_type"); err != nil {
			return nil, err
		}
		var options []tutti.Option
		if name, ok := node["output_type"].(string); ok {
			options = append(options, tutti.WithDType(dtypes[name]))
		}
		return r.Range(integer(node, "start", 0), integer(node, "stop", 0), integer(node, "step", 1),
			options...), nil
	case "from_tensors", "from_tensor_slices":
		if err := known(node, "op", "value"); err != nil {
			return nil, err
		}
		described, err := read(node["value"])
		if err != nil {
			return nil, err
		}
		value, err := valueOf(described)
		if err != nil {
			return nil, err
		}
		defer value.Close()
		if op == "from_tensors" {
			return r.FromTensors(value), nil
		}
		return r.FromTensorSlices(value), nil
	case "from_generator":
		return fromGenerator(r, node)
	case "records", "text_lines", "fixed_length_records":
		return readFiles(r, node)
	case "paths":
		if err := known(node, "op", "files"); err != nil {
			return nil, err
		}
		return namesOf(r, texts(node["files"]))
	case "list_files":
		return listFiles(r, node)
	case "sql":
		return sqlRows(r, node)
	case "choose_from_datasets", "sample_from_datasets":
		return mixture(r, node)
	case "zip":
		if err := known(node, "op", "inputs"); err != nil {
			return nil, err
		}
		parts, err := structure(r, node["inputs"].(fields))
		if err != nil {
			return nil, err
		}
		value, err := valueOf(parts)
		if err != nil {
			return nil, err
		}
		defer value.Close()
		return r.Zip(value), nil
	default:
		input, ok := node["input"].(fields)
		if !ok {
			return nil, notCovered("op " + op)
		}
		if op == "snapshot" {
			input = kept(input)
		}
		dataset, err := build(r, input)
		if err != nil {
			return nil, err
		}
		return transform(r, dataset, node)
	}
}

func listFiles(r *tutti.Runtime, node fields) (*tutti.Dataset, error) {
	if err := known(node, "op", "file_pattern", "shuffle", "seed"); err != nil {
		return nil, err
	}
	var options []tutti.Option
	if flag, ok := node["shuffle"].(bool); ok {
		options = append(options, tutti.WithShuffle(flag))
	}
	if _, ok := node["seed"]; ok {
		options = append(options, tutti.WithSeed(integer(node, "seed", 0)))
	}
	return r.ListFiles(texts(node["file_pattern"]), options...), nil
}

// sqlRows are of a `database` that is a file by now.
func sqlRows(r *tutti.Runtime, node fields) (*tutti.Dataset, error) {
	if err := known(node, "op", "database", "query", "output_types", "driver_name"); err != nil {
		return nil, err
	}
	var types []tutti.DType
	for _, name := range node["output_types"].([]any) {
		dtype, err := dtypeOf(name)
		if err != nil {
			return nil, err
		}
		types = append(types, dtype)
	}
	driver, ok := node["driver_name"].(string)
	if !ok {
		driver = "sqlite"
	}
	return r.SQLRows(driver, fmt.Sprint(node["database"]), fmt.Sprint(node["query"]), types), nil
}

// fromGenerator gives list i in its i-th iteration, the last one in later ones.
func fromGenerator(r *tutti.Runtime, node fields) (*tutti.Dataset, error) {
	name, lists := "elements", []any{node["elements"]}
	if byPass, ok := node["elements_by_pass"].([]any); ok {
		name, lists = "elements_by_pass", byPass
	}
	if err := known(node, "op", name, "signature"); err != nil {
		return nil, err
	}
	var all []any
	passes := make([][]any, len(lists))
	for i, list := range lists {
		for _, v := range list.([]any) {
			element, err := read(v)
			if err != nil {
				return nil, err
			}
			passes[i] = append(passes[i], element)
		}
		all = append(all, passes[i]...)
	}
	var spec *tutti.Spec
	var err error
	if described, ok := node["signature"].(fields); ok {
		spec, err = describedSpec(described)
	} else {
		spec, err = specOf(all)
	}
	if err != nil {
		return nil, err
	}
	started := int64(-1)
	return r.FromGenerator(func() (tutti.Generator, error) {
		pass := atomic.AddInt64(&started, 1)
		if last := int64(len(passes) - 1); pass > last {
			pass = last
		}
		left := passes[pass]
		return func() (tutti.Value, bool, error) {
			if len(left) == 0 {
				return tutti.Value{}, false, nil
			}
			element := left[0]
			left = left[1:]
			value, err := valueOf(element)
			return value, true, err
		}, nil
	}, spec, tutti.WithName(fmt.Sprint(lists))), nil
}
