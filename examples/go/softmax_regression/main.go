// Softmax_regression on handwritten digits is the shortest training program over several workers.
//
//	softmax_regression [--epochs E] [--data DIR]
//
// alone or under `tutti run --workers 4 -- ...`. The same program stands in examples/c,
// examples/python and examples/java; all four compute in float32 in the same order, so that any of
// them gives the same weights, bit for bit, and the four can be the workers of one job
// (`examples/run polyglot`).
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"time"

	"tutti.dev/tutti"
)

const (
	batchSize    = 64 // rows over all replicas of all workers
	learningRate = float32(0.5)
)

// digits are the training part and the held-out part, in batches {"image": [n, 64], "label": [n]}.
// What goes wrong in making a dataset comes out where it is used.
func digits(folder string) (training, heldOut *tutti.Dataset) {
	files := tutti.ListFiles([]string{folder + "/digits-*.tfrecord"}, tutti.WithShuffle(false))
	examples := tutti.TFRecordsOf(files).MapWith(tutti.ParseExample(map[string]tutti.Feature{
		"image": {DType: tutti.Float32, Dims: []int64{pixels}},
		"label": {DType: tutti.Int64}})).Cache("") // read and parsed once, by the first pass
	training = examples.Shard(5, 0)
	for fifth := int64(1); fifth < 4; fifth++ {
		training = training.Concatenate(examples.Shard(5, fifth))
	}
	return training.Shuffle(2000, 1).Batch(batchSize), examples.Shard(5, 4).Batch(batchSize)
}

type model struct {
	strategy *tutti.Strategy
	weights  *tutti.Variable
}

func newModel(strategy *tutti.Strategy) (*model, error) {
	zeros, err := tutti.NewTensor(tutti.Float32, pixels+1, classes)
	if err != nil {
		return nil, err
	}
	defer zeros.Close()
	// A copy per replica; what the replicas of all workers assign is summed.
	weights, err := strategy.NewVariable(context.Background(), zeros,
		tutti.WithName("weights"), tutti.WithAggregation(tutti.AggregateSum))
	return &model{strategy, weights}, err
}

// score scores a part of a batch with the weights of the replica.
func (m *model) score(replica *tutti.ReplicaContext, batch tutti.Value, gradient []float32) (
	sum score, err error) {
	image, err := batch.TensorAt("image")
	if err != nil {
		return sum, err
	}
	label, err := batch.TensorAt("label")
	if err != nil {
		return sum, err
	}
	images, err := tutti.Slice[float32](image) // the memory of the batch, as long as the step runs
	if err != nil {
		return sum, err
	}
	labels, err := tutti.Slice[int64](label)
	if err != nil {
		return sum, err
	}
	live, err := m.weights.Data(replica)
	if err != nil {
		return sum, err
	}
	defer live.Close()
	err = tutti.View(live, func(weights []float32) error {
		sum = scoreRows(weights, images, labels, gradient)
		return nil
	})
	return sum, err
}

func (m *model) evaluateStep(replica *tutti.ReplicaContext, batch tutti.Value) (tutti.Value,
	error) {
	sum, err := m.score(replica, batch, nil)
	if err != nil {
		return tutti.Value{}, err
	}
	return tutti.Of(sum[:])
}

// trainStep runs once per replica, concurrently, each time on a part of a batch.
func (m *model) trainStep(replica *tutti.ReplicaContext, batch tutti.Value) (tutti.Value, error) {
	gradient := make([]float32, parameters)
	sum, err := m.score(replica, batch, gradient)
	if err != nil {
		return tutti.Value{}, err
	}
	rate := learningRate / float32(replica.GlobalRows()) // rows of the whole batch
	for i := range gradient {
		gradient[i] *= rate
	}
	update, err := tutti.TensorOf(gradient, pixels+1, classes)
	if err != nil {
		return tutti.Value{}, err
	}
	defer update.Close()
	if err := m.weights.AssignSub(replica, update); err != nil {
		return tutti.Value{}, err
	}
	return tutti.Of(sum[:])
}

// walk is one walk over the data: the sum of what the replicas of all workers gave.
func (m *model) walk(step tutti.ReplicaFunc, data *tutti.DistributedDataset) (total score,
	err error) {
	batches, err := data.Iterator(context.Background())
	if err != nil {
		return total, err
	}
	defer batches.Close()
	for batches.Next() {
		batch := batches.Value()
		scores, err := m.strategy.Run(context.Background(), step, batch)
		batch.Close()
		if err != nil {
			return total, err
		}
		sum, err := m.strategy.Reduce(context.Background(), tutti.Sum, scores)
		scores.Close()
		if err != nil {
			return total, err
		}
		tensor, err := sum.Tensor()
		if err != nil {
			return total, err
		}
		err = tutti.View(tensor, func(numbers []float64) error {
			for i, number := range numbers {
				total[i] += number
			}
			return nil
		})
		sum.Close()
		if err != nil {
			return total, err
		}
	}
	return total, batches.Err()
}

// hash of the weights' bytes, little-endian.
func (m *model) hash() (hash [sha256.Size]byte, err error) {
	weights, err := m.weights.Read(context.Background())
	if err != nil {
		return hash, err
	}
	defer weights.Close()
	err = tutti.View(weights, func(numbers []float32) error {
		var memory bytes.Buffer
		if err := binary.Write(&memory, binary.LittleEndian, numbers); err != nil {
			return err
		}
		hash = sha256.Sum256(memory.Bytes())
		return nil
	})
	return hash, err
}

func train(epochs int, folder string) (err error) {
	// A worker that leaves without a goodbye counts as dead.
	defer func() {
		limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if left := tutti.Shutdown(limit); err == nil {
			err = left
		}
	}()
	// The workers stand in TF_CONFIG.
	strategy, err := tutti.NewMultiWorkerMirroredStrategy(context.Background())
	if err != nil {
		return err
	}
	defer strategy.Close()
	model, err := newModel(strategy)
	if err != nil {
		return err
	}
	defer model.weights.Close()
	// Each of several workers reads files of its own, for datasets are sharded by themselves.
	trainingPart, heldOutPart := digits(folder)
	training, err := strategy.DistributeDataset(context.Background(), trainingPart)
	if err != nil {
		return err
	}
	defer training.Close()
	heldOut, err := strategy.DistributeDataset(context.Background(), heldOutPart)
	if err != nil {
		return err
	}
	defer heldOut.Close()

	for epoch := 1; epoch <= epochs; epoch++ {
		sum, err := model.walk(model.trainStep, training)
		if err != nil {
			return err
		}
		fmt.Printf("epoch %d: loss %.6f\n", epoch, sum[0]/sum[2])
	}
	sum, err := model.walk(model.evaluateStep, heldOut)
	if err != nil {
		return err
	}
	fmt.Printf("held-out accuracy: %.2f %%\n", 100*sum[1]/sum[2])
	hash, err := model.hash()
	if err != nil {
		return err
	}
	fmt.Printf("worker %d (Go): weights sha256 %x\n", strategy.Worker(), hash)
	return nil
}

func main() {
	epochs := flag.Int("epochs", 20, "`number` of walks over the data")
	folder := flag.String("data", "examples/data", "`folder` of the digits")
	flag.Parse()
	if *epochs < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: softmax_regression [--epochs E] [--data DIR], E 1 or more")
		os.Exit(2)
	}
	if err := train(*epochs, *folder); err != nil {
		fmt.Fprintln(os.Stderr, "softmax_regression:", err)
		os.Exit(1)
	}
}
