package main

import (
	"context"
	"strings"

	"tutti.dev/tutti"
)

const (
	learningRate = 0.1
	momentum     = 0.9
)

// model: the weights have one copy per replica, kept equal; each replica has a velocity of its own,
// which comes out equal because the gradients do.
type model struct {
	strategy          *tutti.Strategy
	weights, velocity *tutti.Variable
}

func newModel(strategy *tutti.Strategy, seed uint64) (*model, error) {
	m := &model{strategy: strategy}
	row, err := tutti.TensorOf(initial(seed))
	if err != nil {
		return nil, err
	}
	defer row.Close()
	// All replicas bring the same update.
	if m.weights, err = strategy.NewVariable(context.Background(), row,
		tutti.WithName("weights"), tutti.WithAggregation(tutti.AggregateOnlyFirstReplica)); err != nil {
		return nil, err
	}
	zeros, err := tutti.NewTensor(tutti.Float64, parameters)
	if err != nil {
		return nil, err
	}
	defer zeros.Close()
	m.velocity, err = strategy.NewVariable(context.Background(), zeros,
		tutti.WithName("velocity"), tutti.WithSynchronization(tutti.SyncOnRead),
		tutti.WithAggregation(tutti.AggregateMean))
	return m, err
}

// onHost is a reference to the tensor where it lies in the host's memory, a copy of what lies on a
// GPU: for Go to read.
func onHost(tensor *tutti.Tensor) (*tutti.Tensor, error) {
	if tensor.CudaDevice() < 0 {
		return tensor.Keep()
	}
	return tutti.DefaultRuntime().CopyToDevice(context.Background(), tensor, tutti.MemoryOptions{})
}

// slice of a tensor's elements, which are valid until end is called.
func slice[T tutti.Element](tensor *tutti.Tensor) (elements []T, end func() error, err error) {
	here, err := onHost(tensor)
	if err != nil {
		return nil, nil, err
	}
	if elements, err = tutti.Slice[T](here); err != nil {
		here.Close()
		return nil, nil, err
	}
	return elements, here.Close, nil
}

// part of a batch: its images and labels, which are valid until end is called.
func part(batch tutti.Value) (images []float32, labels []int64, end func(), err error) {
	image, err := batch.TensorAt("image")
	if err != nil {
		return nil, nil, nil, err
	}
	label, err := batch.TensorAt("label")
	if err != nil {
		return nil, nil, nil, err
	}
	images, endImages, err := slice[float32](image)
	if err != nil {
		return nil, nil, nil, err
	}
	labels, endLabels, err := slice[int64](label)
	if err != nil {
		endImages()
		return nil, nil, nil, err
	}
	return images, labels, func() {
		endImages()
		endLabels()
	}, nil
}

// sums of a replica: loss, right ones, rows.
func sums(loss float64, correct int64, rows int) (tutti.Value, error) {
	return tutti.Of([]float64{loss, float64(correct), float64(rows)})
}

// trainStep runs once per replica, concurrently.
func (m *model) trainStep(replica *tutti.ReplicaContext, batch tutti.Value) (tutti.Value, error) {
	images, labels, endPart, err := part(batch)
	if err != nil {
		return tutti.Value{}, err
	}
	defer endPart()
	gradient, err := tutti.NewTensor(tutti.Float64, parameters)
	if err != nil {
		return tutti.Value{}, err
	}
	defer gradient.Close()
	into, err := tutti.MutableSlice[float64](gradient)
	if err != nil {
		return tutti.Value{}, err
	}
	weights, err := m.weights.Data(replica)
	if err != nil {
		return tutti.Value{}, err
	}
	defer weights.Close()
	row, endRow, err := slice[float64](weights)
	if err != nil {
		return tutti.Value{}, err
	}
	defer endRow()
	loss, correct := score(row, images, labels, 1/float64(replica.GlobalRows()), into)
	if err := m.update(replica, gradient); err != nil {
		return tutti.Value{}, err
	}
	return sums(loss, correct, len(labels))
}

// update adds the gradients of all replicas and takes the step that all take.
func (m *model) update(replica *tutti.ReplicaContext, gradient *tutti.Tensor) error {
	if device := replica.Device(); strings.HasPrefix(device, "GPU") {
		there, err := tutti.DefaultRuntime().CopyToDevice(context.Background(), gradient,
			tutti.MemoryOptions{Device: device})
		if err != nil {
			return err
		}
		defer there.Close()
		gradient = there
	}
	mine, err := tutti.OfTensor(gradient)
	if err != nil {
		return err
	}
	defer mine.Close()
	all, err := replica.AllReduce(tutti.Sum, mine)
	if err != nil {
		return err
	}
	defer all.Close()
	total, err := all.Tensor()
	if err != nil {
		return err
	}
	sum, endSum, err := slice[float64](total)
	if err != nil {
		return err
	}
	defer endSum()
	velocity, err := m.velocity.Data(replica)
	if err != nil {
		return err
	}
	defer velocity.Close()
	before, err := onHost(velocity)
	if err != nil {
		return err
	}
	defer before.Close()
	update, err := before.Copy()
	if err != nil {
		return err
	}
	defer update.Close()
	step, err := tutti.MutableSlice[float64](update)
	if err != nil {
		return err
	}
	for i, g := range sum {
		step[i] = momentum*step[i] + learningRate*g
	}
	if err := m.velocity.Assign(replica, update); err != nil {
		return err
	}
	return m.weights.AssignSub(replica, update)
}

func (m *model) evaluateStep(replica *tutti.ReplicaContext,
	batch tutti.Value) (tutti.Value, error) {
	images, labels, endPart, err := part(batch)
	if err != nil {
		return tutti.Value{}, err
	}
	defer endPart()
	weights, err := m.weights.Data(replica)
	if err != nil {
		return tutti.Value{}, err
	}
	defer weights.Close()
	row, endRow, err := slice[float64](weights)
	if err != nil {
		return tutti.Value{}, err
	}
	defer endRow()
	loss, correct := score(row, images, labels, 0, nil)
	return sums(loss, correct, len(labels))
}

// takeSteps runs step for every batch and adds to total what the replicas of all workers give. It
// calls done after each.
func (m *model) takeSteps(step tutti.ReplicaFunc, batches *tutti.DistributedIterator,
	total []float64, done func() error) error {
	for batches.Next() {
		batch := batches.Value()
		scores, err := m.strategy.Run(context.Background(), step, batch)
		batch.Close()
		if err != nil {
			return err
		}
		sum, err := m.strategy.Reduce(context.Background(), tutti.Sum, scores)
		scores.Close()
		if err != nil {
			return err
		}
		tensor, err := sum.Tensor()
		if err != nil {
			return err
		}
		if err := tutti.View(tensor, func(numbers []float64) error {
			for i, number := range numbers {
				total[i] += number
			}
			return nil
		}); err != nil {
			return err
		}
		sum.Close()
		if err := done(); err != nil {
			return err
		}
	}
	return batches.Err()
}
