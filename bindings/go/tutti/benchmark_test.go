package tutti

import (
	"context"
	"math"
	"os"
	"testing"
)

// What calls cost; tests/benchmarks/overhead.py shows it beside C, Python and Java, which measure
// the same work.

func made[T any](b *testing.B) func(T, error) T {
	return func(made T, err error) T {
		if err != nil {
			b.Fatal(err)
		}
		return made
	}
}

func benchmarkReplicas(b *testing.B, fn ReplicaFunc, devices ...string) {
	strategy := made[*Strategy](b)(NewMirroredStrategy(devices...))
	defer strategy.Close()
	b.ReportAllocs()
	b.ResetTimer()
	made[Value](b)(strategy.Run(nil, fn, Value{}))
	b.StopTimer()
}

func benchmarkAllReduce(b *testing.B, elements int64) {
	b.SetBytes(4 * elements)
	benchmarkReplicas(b, func(replica *ReplicaContext, _ Value) (Value, error) {
		operand, err := Of(make([]float32, elements))
		if err != nil {
			return Value{}, err
		}
		defer operand.Close()
		for i := 0; i < b.N; i++ {
			sum, err := replica.AllReduce(Sum, operand)
			if err != nil {
				return Value{}, err
			}
			sum.Close()
		}
		return Value{}, nil
	}, "CPU:0", "CPU:1")
}

func BenchmarkAllReduceOfOneKiB(b *testing.B) { benchmarkAllReduce(b, 256) }
func BenchmarkAllReduceOfOneMiB(b *testing.B) { benchmarkAllReduce(b, 262144) }

var betweenProcesses *Communicator

// Between two processes, which `tutti run` starts with a fixed count, equal on both.
func BenchmarkBetweenProcessesOneKiB(b *testing.B) {
	if os.Getenv("TF_CONFIG") == "" {
		b.Skip("is for a worker of `tutti run --workers 2`, with -test.benchtime=20000x")
	}
	if betweenProcesses == nil { // the function is called with several counts, in one process
		cluster := made[*Cluster](b)(Join(context.Background(), nil, 0))
		betweenProcesses = made[*Communicator](b)(cluster.NewCommunicator(nil, "overhead"))
	}
	ranks := betweenProcesses
	tensor := made[*Tensor](b)(NewTensor(Float32, 256))
	defer tensor.Close()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if err := ranks.AllReduce(nil, Sum, tensor, tensor); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
}

func benchmarkRun(b *testing.B, devices ...string) {
	strategy := made[*Strategy](b)(NewMirroredStrategy(devices...))
	defer strategy.Close()
	empty := func(*ReplicaContext, Value) (Value, error) { return Value{}, nil }
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		none, err := strategy.Run(nil, empty, Value{})
		if err != nil {
			b.Fatal(err)
		}
		none.Close()
	}
	b.StopTimer()
}

// With one replica the function is called on the thread that Run was called on.
func BenchmarkRunOnOneReplica(b *testing.B)  { benchmarkRun(b, "CPU:0") }
func BenchmarkRunOnTwoReplicas(b *testing.B) { benchmarkRun(b, "CPU:0", "CPU:1") }

func BenchmarkMergeCall(b *testing.B) {
	empty := func(*Strategy, Value) (Value, error) { return Value{}, nil }
	benchmarkReplicas(b, func(replica *ReplicaContext, _ Value) (Value, error) {
		for i := 0; i < b.N; i++ {
			none, err := replica.MergeCall(empty, Value{})
			if err != nil {
				return Value{}, err
			}
			none.Close()
		}
		return Value{}, nil
	}, "CPU:0")
}

var counted int64

func BenchmarkGetter(b *testing.B) {
	strategy := made[*Strategy](b)(NewMirroredStrategy("CPU:0"))
	defer strategy.Close()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		counted += int64(strategy.NumReplicasInSync())
	}
}

func benchmarkElements(b *testing.B, dataset *Dataset, rowsPerElement int, read func(Value)) {
	iterator := made[*Iterator](b)(dataset.Iterator(nil))
	defer iterator.Close()
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += rowsPerElement {
		if !iterator.Next() {
			b.Fatal(iterator.Err())
		}
		element := iterator.Value()
		if read != nil {
			read(element)
		}
		element.Close()
	}
	b.StopTimer()
}

func BenchmarkElement(b *testing.B) { benchmarkElements(b, Range(0, math.MaxInt64, 1), 1, nil) }

func BenchmarkBatchOf128(b *testing.B) {
	benchmarkElements(b, Range(0, math.MaxInt64, 1).Batch(128), 1, func(batch Value) {
		tensor, err := batch.Tensor()
		if err != nil {
			b.Fatal(err)
		}
		numbers, err := Slice[int64](tensor)
		if err != nil {
			b.Fatal(err)
		}
		counted += numbers[0]
	})
}

// One callback per row.
func BenchmarkMapOfARow(b *testing.B) {
	spec, err := TensorSpec(Int64)
	if err != nil {
		b.Fatal(err)
	}
	defer spec.Close()
	same := NewFunction(func(row Value) (Value, error) { return row, nil },
		FunctionOptions{Output: spec})
	defer same.Close()
	benchmarkElements(b, Range(0, math.MaxInt64, 1).MapWith(same).Batch(128), 128, nil)
}
