package tutti

import (
	"reflect"
	"testing"
)

// oneReplica are strategies of one replica: their steps are plain, and know their rows as well.
func oneReplica(t *testing.T) []*Strategy {
	strategies := []*Strategy{must[*Strategy](t)(DefaultStrategy()),
		must[*Strategy](t)(NewOneDeviceStrategy("CPU:1")),
		must[*Strategy](t)(NewMirroredStrategy("CPU:0"))}
	t.Cleanup(func() {
		for _, strategy := range strategies[1:] {
			strategy.Close()
		}
	})
	return strategies
}

// digitRows are seven rows of image and label, in batches of four.
func digitRows(t *testing.T) *Dataset {
	images := make([]float32, 14)
	for i := range images {
		images[i] = float32(i*i%11) / 8
	}
	return FromTensorSlices(must[Value](t)(Dict(map[string]Value{
		"image": must[Value](t)(Of(images, 7, 2)),
		"label": must[Value](t)(Of([]int64{1, 0, 1, 1, 0, 1, 0}))}))).Batch(4)
}

func rowsOf(t *testing.T, strategy *Strategy, args Value) int64 {
	t.Helper()
	rows := must[Value](t)(strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		return OfInt64(int64(r.GlobalRows()))
	}, args))
	defer rows.Close()
	local := must[[]Value](t)(strategy.LocalResults(rows))
	return must[int64](t)(local[0].Int64())
}

func part(t *testing.T, value Value, path string) Value {
	t.Helper()
	return must[Value](t)(value.Get(path))
}

func TestStepsOfOneReplicaArePlain(t *testing.T) {
	for _, strategy := range oneReplica(t) {
		steps := must[*DistributedIterator](t)(strategy.Distribute(nil, digitRows(t)))
		var labels [][]int64
		for steps.Next() {
			label := part(t, steps.Value(), "label")
			if steps.Value().Kind() != KindDict || label.Kind() != KindTensor {
				t.Fatal(strategy.TypeName(), steps.Value())
			}
			tensor := must[*Tensor](t)(label.Tensor())
			labels = append(labels, append([]int64(nil), must[[]int64](t)(Slice[int64](tensor))...))
		}
		if steps.Err() != nil || !reflect.DeepEqual(labels, [][]int64{{1, 0, 1, 1}, {0, 1, 0}}) {
			t.Fatal(strategy.TypeName(), steps.Err(), labels)
		}
		spec := must[*Spec](t)(steps.ElementSpec())
		if got := spec.String(); got != "{'image': float32[?,2], 'label': int64[?]}" {
			t.Fatal(got)
		}
		steps.Close()
		given := must[*DistributedDataset](t)(strategy.DistributeFromFunction(nil,
			func(InputContext) *Dataset { return Range(0, 2, 1) }, InputOptions{}))
		numbers := must[*DistributedIterator](t)(given.Iterator(nil))
		if !numbers.Next() || must[int64](t)(numbers.Value().Int64()) != 0 ||
			rowsOf(t, strategy, numbers.Value()) != 1 {
			t.Fatal(numbers.Err())
		}
		numbers.Close()
	}
}

func TestTheRowsOfTheStepReachTheOnlyReplicaByAnyPartOfTheBatch(t *testing.T) {
	for _, strategy := range oneReplica(t) {
		for _, prefetch := range []InputOptions{{}, {NoPrefetch: true}} {
			dataset := must[*DistributedDataset](t)(
				strategy.DistributeDataset(nil, digitRows(t), prefetch))
			steps := must[*DistributedIterator](t)(dataset.Iterator(nil))
			var rows []int64
			for steps.Next() {
				batch := steps.Value()
				whole := rowsOf(t, strategy, batch)
				rows = append(rows, whole)
				image := part(t, batch, "image")
				tensor := must[*Tensor](t)(batch.TensorAt("label"))
				for _, args := range []Value{image, must[Value](t)(OfTensor(tensor)),
					must[Value](t)(Dict(map[string]Value{"x": must[Value](t)(List(image, Value{}))})),
					must[Value](t)(Tuple(must[Value](t)(OfText("text")), batch)),
					must[[]Value](t)(batch.Leaves())[0],
					must[Value](t)(batch.WithLeaves(image, must[Value](t)(OfInt64(1)))),
					must[[]Value](t)(strategy.LocalResults(batch))[0]} {
					if got := rowsOf(t, strategy, args); got != whole {
						t.Fatal(strategy.TypeName(), args, got, whole)
					}
				}
			}
			if steps.Err() != nil || !reflect.DeepEqual(rows, []int64{4, 3}) {
				t.Fatal(steps.Err(), rows)
			}
			steps.Close()
		}
	}
}

func TestOptionalStepsAndRestoredPositionsKnowTheirRows(t *testing.T) {
	for _, strategy := range oneReplica(t) {
		dataset := must[*DistributedDataset](t)(
			strategy.DistributeDataset(nil, Range(0, 7, 1).Batch(4), InputOptions{}))
		next := func(steps *DistributedIterator) int64 {
			held, present, err := must[Value](t)(steps.NextOptional(nil)).Optional()
			if err != nil {
				t.Fatal(err)
			}
			if !present {
				return 0
			}
			return rowsOf(t, strategy, held)
		}
		first := must[*DistributedIterator](t)(dataset.Iterator(nil))
		second := must[*DistributedIterator](t)(dataset.Iterator(nil))
		if got := next(first); got != 4 {
			t.Fatal(got)
		}
		if err := second.Restore(nil, must[[]byte](t)(first.Save(nil))); err != nil {
			t.Fatal(err)
		}
		for _, steps := range []*DistributedIterator{first, second} {
			if last, end := next(steps), next(steps); last != 3 || end != 0 {
				t.Fatal(last, end)
			}
			steps.Close()
		}
	}
}

func TestWhatIsMadeOfABatchHasNoRows(t *testing.T) {
	two := twoReplicas(t)
	for _, strategy := range oneReplica(t) {
		steps := must[*DistributedIterator](t)(strategy.Distribute(nil, digitRows(t)))
		if !steps.Next() {
			t.Fatal(steps.Err())
		}
		first := must[Value](t)(steps.Value().Keep())
		if !steps.Next() {
			t.Fatal(steps.Err())
		}
		image := part(t, first, "image")
		tensor := must[*Tensor](t)(image.Tensor())
		same := func(_ *ReplicaContext, args Value) (Value, error) { return args.Keep() }
		for name, args := range map[string]Value{
			"both steps": must[Value](t)(Tuple(first, steps.Value())),
			"a copy":     must[Value](t)(Of(must[[]float32](t)(Slice[float32](tensor)))),
			"a slice":    must[Value](t)(OfTensor(must[*Tensor](t)(tensor.Cut(0, 0, 4)))),
			"a result":   must[Value](t)(strategy.Run(nil, same, image)),
			"a sum":      must[Value](t)(strategy.Reduce(nil, Sum, image)),
			"gathered":   must[Value](t)(strategy.Gather(nil, image, 0)),
		} {
			if got := rowsOf(t, strategy, args); got != -1 {
				t.Fatal(strategy.TypeName(), name, got)
			}
		}
		if got := rowsOf(t, two, image); got != -1 {
			t.Fatal("two replicas that get all of it:", got)
		}
		steps.Close()
	}
}

// descent is what the weights change by.
func descent(batch Value, rows int, weights [2]float32) []float32 {
	images := sure(Slice[float32](sure(batch.TensorAt("image"))))
	labels := sure(Slice[int64](sure(batch.TensorAt("label"))))
	sum := make([]float32, 2)
	for row, label := range labels {
		wrong := float32(weights[0]*images[2*row]) + float32(weights[1]*images[2*row+1])
		wrong -= float32(label)
		sum[0] += float32(wrong * images[2*row])
		sum[1] += float32(wrong * images[2*row+1])
	}
	rate := 0.5 / float32(rows)
	return []float32{rate * sum[0], rate * sum[1]}
}

func TestTrainingGivesTheSameBitsWithAndWithoutAStrategy(t *testing.T) {
	var expected [2]float32
	batches := must[*Iterator](t)(digitRows(t).Iterator(nil))
	defer batches.Close()
	for batches.Next() {
		labels := must[*Tensor](t)(batches.Value().TensorAt("label"))
		change := descent(batches.Value(), int(labels.Dims()[0]), expected)
		expected[0] -= change[0]
		expected[1] -= change[1]
	}
	for _, strategy := range oneReplica(t) {
		var weights [2]float32
		steps := must[*DistributedIterator](t)(strategy.Distribute(nil, digitRows(t)))
		for steps.Next() {
			sum := must[Value](t)(strategy.Run(nil, func(r *ReplicaContext, batch Value) (Value, error) {
				change, err := Of(descent(batch, r.GlobalRows(), weights))
				if err != nil {
					return Value{}, err
				}
				return r.AllReduce(Sum, change)
			}, steps.Value()))
			change := must[[]float32](t)(Slice[float32](must[*Tensor](t)(sum.Tensor())))
			weights[0] -= change[0]
			weights[1] -= change[1]
			sum.Close()
		}
		if steps.Err() != nil || weights != expected || expected[0] == 0 {
			t.Fatal(strategy.TypeName(), steps.Err(), weights, expected)
		}
		steps.Close()
	}
}
