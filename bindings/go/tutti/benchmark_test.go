package tutti

import (
	"testing"
)

// What a call costs; bindings/python/benchmarks/overhead.py measures the same in Python, and the
// benchmarks of the C interface what is underneath.

func made[T any](b *testing.B) func(T, error) T {
	return func(made T, err error) T {
		if err != nil {
			b.Fatal(err)
		}
		return made
	}
}

func BenchmarkRunAnEmptyFunctionOnTwoReplicas(b *testing.B) {
	strategy := made[*Strategy](b)(NewMirroredStrategy("CPU:0", "CPU:1"))
	defer strategy.Close()
	empty := func(*ReplicaContext, Value) (Value, error) { return Value{}, nil }
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		made[Value](b)(strategy.Run(nil, empty, Value{}))
	}
}

// A run on one replica calls back on the thread that it was called from: two crossings and a half of
// cgo, and the library's own work.
func BenchmarkRunAnEmptyFunctionOnOneReplica(b *testing.B) {
	strategy := made[*Strategy](b)(NewOneDeviceStrategy("CPU:0"))
	defer strategy.Close()
	empty := func(*ReplicaContext, Value) (Value, error) { return Value{}, nil }
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		made[Value](b)(strategy.Run(nil, empty, Value{}))
	}
}

// One crossing: a merge call more in a function that runs on one replica.
func BenchmarkCallbackCrossing(b *testing.B) {
	strategy := made[*Strategy](b)(NewOneDeviceStrategy("CPU:0"))
	defer strategy.Close()
	empty := func(*Strategy, Value) (Value, error) { return Value{}, nil }
	b.ResetTimer()
	made[Value](b)(strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		for i := 0; i < b.N; i++ {
			if _, err := r.MergeCall(empty, Value{}); err != nil {
				return Value{}, err
			}
		}
		return Value{}, nil
	}, Value{}))
}

func benchmarkAllReduce(b *testing.B, elements int64) {
	ranks := made[[]*Communicator](b)(NewLocalCommunicators(1))
	defer ranks[0].Close()
	tensor := made[*Tensor](b)(NewTensor(Float32, elements))
	defer tensor.Close()
	b.ReportAllocs()
	b.SetBytes(4 * elements)
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if err := ranks[0].AllReduce(nil, Sum, tensor, tensor); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAllReduceOneKiBOfOneRank(b *testing.B) { benchmarkAllReduce(b, 256) }
func BenchmarkAllReduceOneMiBOfOneRank(b *testing.B) { benchmarkAllReduce(b, 262144) }

func BenchmarkAllReduceOneKiBOfTwoReplicas(b *testing.B) {
	strategy := made[*Strategy](b)(NewMirroredStrategy("CPU:0", "CPU:1"))
	defer strategy.Close()
	tensor := made[*Tensor](b)(NewTensor(Float32, 256))
	value := made[Value](b)(OfTensor(tensor))
	b.ReportAllocs()
	b.ResetTimer()
	made[Value](b)(strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		for i := 0; i < b.N; i++ {
			sum, err := r.AllReduce(Sum, value)
			if err != nil {
				return Value{}, err
			}
			sum.Close()
		}
		return Value{}, nil
	}, Value{}))
}

func benchmarkNext(b *testing.B, dataset *Dataset) {
	iterator := made[*Iterator](b)(dataset.Iterator(nil))
	defer iterator.Close()
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if !iterator.Next() {
			b.Fatal(iterator.Err())
		}
		iterator.Value().Close()
	}
}

func BenchmarkNextElement(b *testing.B) { benchmarkNext(b, Range(0, 1<<62, 1)) }
func BenchmarkNextBatchOf128(b *testing.B) {
	benchmarkNext(b, Range(0, 1<<62, 1).Batch(128))
}
func BenchmarkNextElementOfAMap(b *testing.B) {
	benchmarkNext(b, Range(0, 1<<62, 1).Map(plusOne))
}

func BenchmarkCallWithoutWork(b *testing.B) {
	strategy := made[*Strategy](b)(NewOneDeviceStrategy("CPU:0"))
	defer strategy.Close()
	for i := 0; i < b.N; i++ {
		strategy.NumReplicasInSync()
	}
}
