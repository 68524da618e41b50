package main

import (
	"encoding/json"
	"fmt"

	"tutti.dev/tutti"
)

// mixture is choose_from_datasets or sample_from_datasets.
func mixture(r *tutti.Runtime, node fields) (*tutti.Dataset, error) {
	if err := known(node, "op", "inputs", "choices", "weights", "seed", "stop_on_empty_dataset",
		"rerandomize_each_iteration"); err != nil {
		return nil, err
	}
	var inputs []*tutti.Dataset
	for _, part := range node["inputs"].(fields)["t"].([]any) {
		input, err := build(r, part.(fields))
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, input)
	}
	var options []tutti.Option
	if flag, ok := node["stop_on_empty_dataset"].(bool); ok {
		options = append(options, tutti.WithStopOnEmptyDataset(flag))
	}
	if choices, ok := node["choices"].(fields); ok {
		numbers, err := build(r, choices)
		if err != nil {
			return nil, err
		}
		return r.ChooseFromDatasets(inputs, numbers, options...), nil
	}
	if flag, ok := node["rerandomize_each_iteration"].(bool); ok {
		options = append(options, tutti.WithReshuffle(flag))
	}
	if given, ok := node["weights"].([]any); ok {
		weights := []float64{}
		for _, weight := range given {
			number, err := weight.(json.Number).Float64()
			if err != nil {
				return nil, err
			}
			weights = append(weights, number)
		}
		options = append(options, tutti.WithWeights(weights...))
	}
	if given, ok := node["weights"].(fields); ok {
		vectors, err := build(r, given)
		if err != nil {
			return nil, err
		}
		options = append(options, tutti.WithWeightVectors(vectors))
	}
	options = append(options, tutti.WithSeed(integer(node, "seed", tutti.RandomSeed)))
	return r.SampleFromDatasets(inputs, options...), nil
}

// bucketed is bucket_by_sequence_length.
func bucketed(dataset *tutti.Dataset, node fields) (*tutti.Dataset, error) {
	if err := known(node, "op", "input", "key_func", "key_arg", "bucket_boundaries",
		"bucket_batch_sizes", "pad_to_bucket_boundary", "no_padding",
		"drop_remainder"); err != nil {
		return nil, err
	}
	length, err := keyFunction(fmt.Sprint(node["key_func"]), node["key_arg"])
	if err != nil {
		return nil, err
	}
	numbers := [2][]int64{}
	for i, name := range []string{"bucket_boundaries", "bucket_batch_sizes"} {
		for _, given := range node[name].([]any) {
			number, err := given.(json.Number).Int64()
			if err != nil {
				return nil, err
			}
			numbers[i] = append(numbers[i], number)
		}
	}
	var options []tutti.Option
	for name, option := range map[string]func(bool) tutti.Option{
		"pad_to_bucket_boundary": tutti.WithPadToBucketBoundary,
		"no_padding":             tutti.WithNoPadding,
		"drop_remainder":         tutti.WithDropRemainder,
	} {
		if flag, ok := node[name].(bool); ok {
			options = append(options, option(flag))
		}
	}
	if traced := tracedKey(dataset, node); traced != nil {
		return dataset.BucketBySequenceLengthExpr(traced, numbers[0], numbers[1], options...), nil
	}
	return dataset.BucketBySequenceLength(length, numbers[0], numbers[1], options...), nil
}
