package main

import (
	"os"
	"path/filepath"

	"tutti.dev/tutti"
)

// dataFolder is the nearest examples/data above the working directory, else the one beside this
// program's source, where that is known.
func dataFolder() string {
	here, _ := os.Getwd()
	for {
		data := filepath.Join(here, "examples", "data")
		if found, _ := filepath.Glob(filepath.Join(data, "digits-*.tfrecord")); len(found) > 0 {
			return data
		}
		if above := filepath.Dir(here); above != here {
			here = above
			continue
		}
		return builtBeside
	}
}

// builtBeside is set by the linker.
var builtBeside = "examples/data"

// isHeldOut is the fifth that examples/data/README.md names.
func isHeldOut(number int64) bool { return number%5 == 4 }

// digits are the images [n, 64] and labels [n] of one part, in batches; the training part shuffled.
func digits(folder string, heldOut bool, batch, seed int64) (*tutti.Dataset, error) {
	files := tutti.ListFiles([]string{filepath.Join(folder, "digits-*.tfrecord")},
		tutti.WithShuffle(false))
	record, err := tutti.TensorSpec(tutti.Bytes)
	if err != nil {
		return nil, err
	}
	examples := tutti.TFRecordsOf(files).Enumerate(0).
		Filter(func(pair tutti.Value) (bool, error) {
			number, err := pair.At(0)
			if err != nil {
				return false, err
			}
			defer number.Close()
			i, err := number.Int64()
			return isHeldOut(i) == heldOut, err
		}).
		Map(func(pair tutti.Value) (tutti.Value, error) { return pair.At(1) }, tutti.WithOutput(record)).
		MapWith(tutti.ParseExample(map[string]tutti.Feature{
			"image": {DType: tutti.Float32, Dims: []int64{inputs}}, "label": {DType: tutti.Int64}}))
	if !heldOut {
		examples = examples.Shuffle(2000, seed)
	}
	// Several workers share every batch: the numbers of the examples decide to what part they belong,
	// and only a worker that reads all files knows them.
	options, err := tutti.NewDataOptions()
	if err != nil {
		return nil, err
	}
	if err := options.SetInt("experimental_distribute.auto_shard_policy",
		int64(tutti.AutoShardData)); err != nil {
		return nil, err
	}
	examples = examples.Batch(batch).WithOptions(options)
	return examples, examples.Err()
}
