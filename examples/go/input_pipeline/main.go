// Input_pipeline prepares its data once: shards of records are read several at a time, parsed,
// mapped to lists of different lengths, kept on disk and in memory, shuffled and padded.
//
//	input_pipeline SNAPSHOT_FOLDER [DATA_FOLDER]
//
// Of each digit the list of its inked pixels is wanted. The function that makes it is called in the
// first epoch alone: later epochs have the cache, and a definition that is made anew, as by the
// next run of the program, has the snapshot. The same program stands in examples/c, examples/python
// and examples/java.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"tutti.dev/tutti"
)

const (
	batchSize = 32
	padding   = -1
)

// builtBeside is the folder of the data that this program was built with.
var builtBeside = "examples/data"

var calls int64

// readShard gives the records of one file.
func readShard(name tutti.Value) (tutti.Value, error) {
	path, err := name.Text()
	if err != nil {
		return tutti.Value{}, err
	}
	return tutti.OfDataset(tutti.TFRecords(path))
}

// ink gives the numbers of the pixels that are at least half black, as many as there are, and the
// label.
func ink(digit tutti.Value) (tutti.Value, error) {
	atomic.AddInt64(&calls, 1)
	image, err := digit.TensorAt("image")
	if err != nil {
		return tutti.Value{}, err
	}
	pixels, err := tutti.Slice[float32](image)
	if err != nil {
		return tutti.Value{}, err
	}
	inked := []int64{}
	for i, pixel := range pixels {
		if pixel >= 8 {
			inked = append(inked, int64(i))
		}
	}
	list, err := tutti.Of(inked)
	if err != nil {
		return tutti.Value{}, err
	}
	defer list.Close()
	label, err := digit.Get("label")
	if err != nil {
		return tutti.Value{}, err
	}
	defer label.Close()
	return tutti.Tuple(list, label)
}

// registerFunctions gives the functions names: a snapshot goes by those that stand in its pipeline.
func registerFunctions() error {
	list, err := tutti.TensorSpec(tutti.Int64, tutti.UnknownDimension)
	if err != nil {
		return err
	}
	defer list.Close()
	label, err := tutti.TensorSpec(tutti.Int64)
	if err != nil {
		return err
	}
	defer label.Close()
	both, err := tutti.TupleSpec(list, label)
	if err != nil {
		return err
	}
	defer both.Close()
	err = tutti.RegisterFunction("input_pipeline.read_shard", readShard)
	if err != nil {
		return err
	}
	return tutti.RegisterFunction("input_pipeline.ink", ink, tutti.WithOutput(both))
}

// pipeline gives batches ([n, longest], [n]) of int64. What goes wrong in making a dataset comes
// out where it is used.
func pipeline(data, snapshot string) (*tutti.Dataset, error) {
	read, err := tutti.RegisteredFunction("input_pipeline.read_shard")
	if err != nil {
		return nil, err
	}
	defer read.Close()
	inked, err := tutti.RegisteredFunction("input_pipeline.ink")
	if err != nil {
		return nil, err
	}
	defer inked.Close()
	minus, err := tutti.OfInt64(padding)
	if err != nil {
		return nil, err
	}
	defer minus.Close()
	files := tutti.ListFiles([]string{data + "/digits-*.tfrecord"}, tutti.WithShuffle(false))
	return files.InterleaveWith(read, tutti.WithCycleLength(4), tutti.WithBlockLength(16),
		tutti.WithParallelCalls(4)).
		MapWith(tutti.ParseExample(map[string]tutti.Feature{
			"image": {DType: tutti.Float32, Dims: []int64{64}},
			"label": {DType: tutti.Int64}})).
		MapWith(inked).
		Snapshot(snapshot).
		Cache("").
		Shuffle(500, 1).
		PaddedBatch(batchSize, tutti.WithPaddingValues(minus)).
		Prefetch(2), nil
}

func walk(batches *tutti.Dataset, definition, epoch int) error {
	var count, digits, inked int
	atomic.StoreInt64(&calls, 0)
	iterator, err := batches.Iterator(context.Background())
	if err != nil {
		return err
	}
	defer iterator.Close()
	for iterator.Next() {
		batch := iterator.Value()
		pixels, err := batch.TensorAt("0")
		if err != nil {
			return err
		}
		numbers, err := tutti.Slice[int64](pixels)
		if err != nil {
			return err
		}
		for _, number := range numbers {
			if number != padding {
				inked++
			}
		}
		digits += int(pixels.Dims()[0])
		count++
		batch.Close()
	}
	if err := iterator.Err(); err != nil {
		return err
	}
	fmt.Printf("definition %d, epoch %d: %d batches, %d digits, %d inked pixels, %d calls\n",
		definition, epoch, count, digits, inked, atomic.LoadInt64(&calls))
	return nil
}

func run(snapshot, data string) error {
	if err := registerFunctions(); err != nil {
		return err
	}
	for definition := 1; definition <= 2; definition++ {
		batches, err := pipeline(data, snapshot)
		if err != nil {
			return err
		}
		for epoch := 1; epoch <= 2; epoch++ {
			if err := walk(batches, definition, epoch); err != nil {
				return err
			}
		}
		batches.Close()
	}
	return nil
}

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: input_pipeline SNAPSHOT_FOLDER [DATA_FOLDER]")
		os.Exit(2)
	}
	data := builtBeside
	if len(os.Args) == 3 {
		data = os.Args[2]
	}
	if err := run(os.Args[1], data); err != nil {
		fmt.Fprintln(os.Stderr, "input_pipeline:", err)
		os.Exit(1)
	}
}
