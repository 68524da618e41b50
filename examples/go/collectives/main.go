// Collectives goes through the collectives between the workers of a job; every result is checked.
//
//	tutti run --workers 3 -- collectives [--elements N]
//
// The same program stands in examples/c, examples/python and examples/java. All of them make the
// same calls, so that the workers of one job may be of different languages.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"tutti.dev/tutti"
)

const layers = 8

// worker is one rank; the first error stays, and everything after it does nothing.
type worker struct {
	*tutti.Communicator
	ctx        context.Context
	rank, size int
	total      float32 // 1 + 2 + ... + size
	err        error
}

func (w *worker) try(err error) bool {
	if w.err == nil {
		w.err = err
	}
	return w.err == nil
}

// of is a tensor of count times the value.
func (w *worker) of(count int, value float32) *tutti.Tensor {
	elements := make([]float32, count)
	for i := range elements {
		elements[i] = value
	}
	return w.from(elements)
}

func (w *worker) from(elements []float32) *tutti.Tensor {
	tensor, err := tutti.TensorOf(elements)
	w.try(err)
	return tensor
}

// check compares each element with what expected gives for its place.
func (w *worker) check(what string, tensor *tutti.Tensor, count int, expected func(i int) float32) {
	if w.err != nil {
		return
	}
	found, err := tutti.Slice[float32](tensor)
	if !w.try(err) {
		return
	}
	if len(found) != count {
		w.try(fmt.Errorf("%s: found %d elements, expected %d", what, len(found), count))
		return
	}
	for i, element := range found {
		if element != expected(i) {
			w.try(fmt.Errorf("%s: element %d: found %v, expected %v", what, i, element, expected(i)))
			return
		}
	}
}

func constant(value float32) func(int) float32 { return func(int) float32 { return value } }

func (w *worker) say(format string, arguments ...any) {
	if w.rank == 0 && w.err == nil {
		fmt.Printf(format+"\n", arguments...)
	}
}

// manyTensors are summed in one call.
func (w *worker) manyTensors(elements int) {
	counts := []int{1, 4, elements}
	var inputs, outputs []*tutti.Tensor
	for _, count := range counts {
		inputs = append(inputs, w.of(count, float32(w.rank+1)))
		outputs = append(outputs, w.of(count, 0))
	}
	if w.err != nil || !w.try(w.AllReduceMany(w.ctx, tutti.Sum, inputs, outputs)) {
		return
	}
	for i, output := range outputs {
		w.check("all_reduce_many", output, counts[i], constant(w.total))
	}
	w.say("all_reduce_many: three tensors summed over %d workers", w.size)
}

// twoHalves of an all_reduce: everybody has a part of the sum in between.
func (w *worker) twoHalves() {
	rows := make([]float32, 2*w.size)
	for i := range rows {
		rows[i] = float32(i * (w.rank + 1))
	}
	input, part := w.from(rows), w.of(2, 0)
	if w.err != nil || !w.try(w.ReduceScatter(w.ctx, tutti.Sum, input, part)) {
		return
	}
	w.check("reduce_scatter", part, 2, func(i int) float32 { return float32(2*w.rank+i) * w.total })
	joined, err := w.AllGather(w.ctx, part)
	w.try(err)
	w.check("all_gather", joined, 2*w.size, func(i int) float32 { return float32(i) * w.total })
	w.say("reduce_scatter and all_gather: the parts of the sum, and the sum")
}

// uneven sends a different number of rows to everybody.
func (w *worker) uneven() {
	sendRows := make([]int64, w.size)
	var rows, expected []float32
	for other := range sendRows {
		sendRows[other] = int64(1 + (w.rank+other)%w.size)
		for i := int64(0); i < sendRows[other]; i++ { // as many come from it
			rows = append(rows, float32(100*w.rank+other))
			expected = append(expected, float32(100*other+w.rank))
		}
	}
	input := w.from(rows)
	if w.err != nil {
		return
	}
	came, cameRows, err := w.AllToAllUneven(w.ctx, input, sendRows)
	w.try(err)
	for from, count := range cameRows {
		if w.err == nil && count != sendRows[from] {
			w.try(fmt.Errorf("all_to_all: %d rows from %d, expected %d", count, from, sendRows[from]))
		}
	}
	w.check("all_to_all", came, len(expected), func(i int) float32 { return expected[i] })
	w.say("all_to_all: uneven rows to everybody")
}

// ring sends round in a ring; who is odd receives first.
func (w *worker) ring() {
	previous := (w.rank + w.size - 1) % w.size
	mine, came := w.of(4, float32(w.rank)), w.of(4, 0)
	if w.err != nil {
		return
	}
	if w.rank%2 == 1 {
		w.try(w.Receive(w.ctx, previous, came))
	}
	w.try(w.Send(w.ctx, (w.rank+1)%w.size, mine))
	if w.rank%2 == 0 {
		w.try(w.Receive(w.ctx, previous, came))
	}
	w.check("receive", came, 4, constant(float32(previous)))
	w.say("send and receive: round in a ring")
}

// groups are those of the even and of the odd ones.
func (w *worker) groups() {
	sum, count := 0, 0
	for rank := w.rank % 2; rank < w.size; rank += 2 {
		sum, count = sum+rank, count+1
	}
	mine := w.of(4, float32(w.rank))
	group, err := w.Split(w.ctx, w.rank%2, w.rank, "")
	if !w.try(err) {
		return
	}
	defer group.Close()
	if group.Size() != count {
		w.try(fmt.Errorf("split: %d ranks, expected %d", group.Size(), count))
	}
	w.try(group.AllReduce(w.ctx, tutti.Sum, mine, mine))
	w.check("all_reduce of a group", mine, 4, constant(float32(sum)))
	w.say("split: sums of the even ones and of the odd ones")
}

// futures of three calls under way; the last one is waited for first.
func (w *worker) futures(elements int) {
	var tensors []*tutti.Tensor
	var futures []*tutti.Future
	for factor := 1; factor <= 3; factor++ {
		tensor := w.of(elements, float32(w.rank*factor))
		if w.err != nil {
			return
		}
		future, err := w.AllReduceAsync(w.ctx, tutti.Sum, tensor, tensor)
		if !w.try(err) {
			return
		}
		tensors, futures = append(tensors, tensor), append(futures, future)
	}
	for i := 2; i >= 0; i-- {
		_, err := futures[i].Result(w.ctx)
		w.try(err)
		w.check("all_reduce_async", tensors[i], elements,
			constant((w.total-float32(w.size))*float32(i+1)))
	}
	w.say("futures: three sums, waited for in another order")
}

// backward reduces gradients while the backward pass makes more of them, last layer first. The plan
// makes them, like the layers, in memory that all workers of a machine map.
func (w *worker) backward(elements int) {
	like := make([]*tutti.Tensor, layers)
	for i := range like {
		like[i] = w.of(elements, 0)
	}
	if w.err != nil {
		return
	}
	plan, err := w.NewBucketPlan(tutti.Sum, like, tutti.WithOwnTensors())
	if !w.try(err) {
		return
	}
	defer plan.Close()
	gradients := make([]*tutti.Tensor, layers)
	for i := range gradients {
		gradients[i], err = plan.Tensor(i)
		if !w.try(err) {
			return
		}
	}
	for step := 0; step < 2; step++ {
		for i, gradient := range gradients {
			written, err := tutti.MutableSlice[float32](gradient)
			w.try(err)
			for j := range written { // what a backward pass would compute here
				written[j] = float32((w.rank + 1) * (i + step))
			}
			if !w.try(plan.Ready(i)) {
				return
			}
		}
		if !w.try(plan.Wait(w.ctx)) {
			return
		}
		for i, gradient := range gradients {
			w.check("bucket plan", gradient, elements, constant(w.total*float32(i+step)))
		}
	}
	w.say("bucket plan: %d gradients, two steps", layers)
}

func show(elements int) error {
	ctx := context.Background()
	cluster, err := tutti.Join(ctx, nil, 1)
	if err != nil {
		return err
	}
	defer cluster.Close()
	communicator, err := cluster.NewCommunicator(ctx, "collectives")
	if err != nil {
		return err
	}
	defer communicator.Close()
	rank, size := communicator.Rank(), communicator.Size()
	if size < 2 {
		return fmt.Errorf("needs two workers or more: tutti run --workers 2 -- ...")
	}
	w := &worker{communicator, ctx, rank, size, float32(size * (size + 1) / 2), nil}
	w.manyTensors(elements)
	w.twoHalves()
	w.uneven()
	w.ring()
	w.groups()
	w.futures(elements)
	w.backward(elements)
	if w.err == nil {
		fmt.Printf("worker %d of %d (Go): all right\n", rank, size)
	}
	return w.err
}

func main() {
	elements := flag.Int("elements", 1000, "of a gradient")
	flag.Parse()
	if *elements < 1 || *elements > 1000000 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: collectives [--elements N], N from 1 to 1000000")
		os.Exit(2)
	}
	if err := show(*elements); err != nil {
		fmt.Fprintln(os.Stderr, "collectives:", err)
		os.Exit(1)
	}
}
