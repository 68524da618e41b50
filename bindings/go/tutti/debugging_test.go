package tutti

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	wants(t, err, ErrInvalidArgument)
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Fatalf("%q does not say %q", err, part)
		}
	}
}

func passes(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestComparisonsSayWhereTheyDoNotHold(t *testing.T) {
	x := must[Value](t)(Of([]int32{1, 5, 3}))
	y := must[Value](t)(Of([]int32{2, 4, 9}))
	one := must[Value](t)(OfScalar(int32(1)))
	defer x.Close()
	defer y.Close()
	defer one.Close()
	says(t, AssertLess(x, y, Assertion{Message: "layer 1", Summarize: 1}),
		"layer 1: assert_less: x < y does not hold at [1], where x is 5 and y is 4", "[1 ...]")
	passes(t, AssertEqual(x, x))
	passes(t, AssertNoneEqual(x, y))
	passes(t, AssertGreaterEqual(x, one))
	says(t, AssertGreater(x, one), "at [0]")
	says(t, AssertLessEqual(x, one), "at [1]")
	says(t, AssertNear(x, y), "expected floats")
	floats := must[Value](t)(Of([]float32{1, 2}))
	defer floats.Close()
	near := must[Value](t)(Of([]float32{1.5, 2.5}))
	defer near.Close()
	atol := must[*Tensor](t)(Scalar(float32(1)))
	defer atol.Close()
	says(t, AssertNear(floats, near), "with rtol")
	passes(t, AssertNear(floats, near, Assertion{Atol: atol}))
}

func TestConditionsRanksAndDTypesAreAsserted(t *testing.T) {
	x := must[Value](t)(Of([]float32{1, 0}))
	defer x.Close()
	says(t, AssertPositive(x), "assert_positive", "at [1]")
	says(t, AssertNegative(x), "at [0]")
	says(t, AssertNonPositive(x), "at [0]")
	passes(t, AssertNonNegative(x))
	_, err := AssertAllFinite(x)
	passes(t, err)
	bad := must[Value](t)(Of([]float32{0, float32(math.NaN()), float32(math.Inf(1))}))
	defer bad.Close()
	_, err = CheckNumerics(bad, Assertion{Message: "the loss"})
	says(t, err, "the loss: check_numerics", "1 NaN, 1 +Inf and 0 -Inf")
	says(t, AssertInteger(x), "float32[2]")
	says(t, AssertScalar(x), "rank 1")
	passes(t, AssertRank(x, 1))
	says(t, AssertRankAtLeast(x, 2), "rank 2 or more")
	says(t, AssertRankIn(x, []int64{0, 2}), "one of 0, 2")
	says(t, AssertType(x, Int32), "expected dtype int32")
	if dtype, err := AssertSameFloatDType([]Value{x, {}}, 0); err != nil || dtype != Float32 {
		t.Fatal(dtype, err)
	}
	_, err = AssertSameFloatDType([]Value{x}, Float64)
	says(t, err, "expected float64")
	if !IsNumericTensor(x) || IsNumericTensor(Value{}) {
		t.Fatal("is x numeric?")
	}
}

func TestRowsPassANativeFunction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines.txt")
	passes(t, os.WriteFile(path, []byte("1\n2\n\n3\n"), 0o600))
	empty := must[*Tensor](t)(StringTensor([]string{""}))
	defer empty.Close()
	scalar := must[*Tensor](t)(empty.Reshape())
	defer scalar.Close()
	check := AssertRows(RowAssertion{
		Check: RowNoneEqual, Y: scalar, How: Assertion{Message: "lines", Summarize: 1}})
	defer check.Close()
	lines := TextLines(path).MapWith(check)
	defer lines.Close()
	iterator := must[*Iterator](t)(lines.Iterator(context.Background()))
	defer iterator.Close()
	rows := 0
	for ; iterator.Next(); rows++ {
	}
	if rows != 2 {
		t.Fatal(rows)
	}
	says(t, iterator.Err(), `map: element 2 (record 2 of "`+path+`"): lines: assert_none_equal`)
	wrong := AssertRows(RowAssertion{Check: RowLess})
	defer wrong.Close()
	refused := Range(0, 3, 1).MapWith(wrong)
	defer refused.Close()
	says(t, refused.Err(), "assert_less", "expected one of the two")
	ranks := AssertRows(RowAssertion{Check: RowRankIn, Ranks: []int64{1, 2}})
	defer ranks.Close()
	scalars := Range(0, 3, 1).MapWith(ranks)
	defer scalars.Close()
	says(t, scalars.Err(), "expected rank one of 1, 2")
	for wrong, part := range map[RowCheck]string{
		RowShapes: "assert_shapes", RowSameFloatDType: "int64"} {
		together := RowAssertion{Check: wrong}
		if wrong == RowShapes {
			together.Shapes = "=3"
		}
		check := AssertRows(together)
		defer check.Close()
		refused := Range(0, 3, 1).MapWith(check)
		defer refused.Close()
		says(t, refused.Err(), part)
	}
}

func TestShapesFitEachOther(t *testing.T) {
	wide := must[Value](t)(Of(make([]float32, 30), 10, 3))
	long := must[Value](t)(Of(make([]float32, 70), 10, 7))
	scalar := must[Value](t)(OfScalar(float32(1)))
	defer wide.Close()
	defer long.Close()
	defer scalar.Close()
	passes(t, AssertShapes([]Shaped{{wide, "N,Q"}, {long, "N,D"}, {scalar, ""}}, Value{}))
	says(t, AssertShapes([]Shaped{{wide, "N,D"}, {long, "N,D"}}, scalar, Assertion{Message: "m"}),
		"m: assert_shapes: tensor 1 of shape [10,7]", "\"D\"", "data float32[]: [1]")
	truth := must[Value](t)(Of([]bool{true, false}))
	defer truth.Close()
	says(t, AssertTrue(truth, scalar), "at [1]", "data float32[]")
}

func TestAnAssertionEndsADatasetsFunction(t *testing.T) {
	limit := must[Value](t)(OfScalar(int64(2)))
	defer limit.Close()
	dataset := Range(0, 4, 1).Map(func(x Value) (Value, error) {
		return x, AssertLess(x, limit)
	})
	defer dataset.Close()
	iterator := must[*Iterator](t)(dataset.Iterator(context.Background()))
	defer iterator.Close()
	count := 0
	for iterator.Next() {
		count++
	}
	if count != 2 {
		t.Fatal(count)
	}
	says(t, iterator.Err(), "assert_less", "x is 2")
}

func TestANanOfOneReplicaIsNamed(t *testing.T) {
	passes(t, EnableCheckNumerics())
	passes(t, EnableCheckNumerics())
	defer DisableCheckNumerics()
	strategy := must[*Strategy](t)(NewMirroredStrategy("CPU:0", "CPU:1"))
	defer strategy.Close()
	step := func(replica *ReplicaContext, _ Value) (Value, error) {
		gradient := []float64{1, 2}
		if replica.ReplicaID() == 1 {
			gradient[1] = math.NaN()
		}
		value, err := Of(gradient)
		if err != nil {
			return Value{}, err
		}
		defer value.Close()
		return replica.AllReduce(Sum, value)
	}
	_, err := strategy.Run(context.Background(), step, Value{})
	says(t, err, "all_reduce: the input of replica 1 in step 1, float64[2]", "is nan at [1]")
	DisableCheckNumerics()
	result, err := strategy.Run(context.Background(), step, Value{})
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	result.Close()
}

func TestPlacementsAreLoggedWhereAskedFor(t *testing.T) {
	SetLogDevicePlacement(true)
	defer SetLogDevicePlacement(false)
	if !LogDevicePlacement() {
		t.Fatal("they are not")
	}
	var mutex sync.Mutex
	var lines []string
	passes(t, (*Runtime)(nil).SetLog(func(_, line string) {
		mutex.Lock()
		defer mutex.Unlock()
		lines = append(lines, line)
	}))
	defer (*Runtime)(nil).SetLog(nil)
	strategy := must[*Strategy](t)(NewMirroredStrategy("CPU:0", "CPU:1"))
	defer strategy.Close()
	step := func(*ReplicaContext, Value) (Value, error) { return Value{}, nil }
	result := must[Value](t)(strategy.Run(context.Background(), step, Value{}))
	defer result.Close()
	mutex.Lock()
	defer mutex.Unlock()
	if all := strings.Join(lines, "\n"); !strings.Contains(all, "run #1: replica 0 on CPU:0") {
		t.Fatal(all)
	}
}

// ---- one replica of one worker of four

func init() {
	roles["bring a NaN"] = func() error {
		// Others may hear of a failure later: who ends says goodbye.
		defer Shutdown(context.Background())
		if err := EnableCheckNumerics(); err != nil {
			return err
		}
		strategy, err := NewMultiWorkerMirroredStrategy(nil, "CPU:0", "CPU:1")
		if err != nil {
			return err
		}
		defer strategy.Close()
		_, err = strategy.Run(nil, func(replica *ReplicaContext, _ Value) (Value, error) {
			gradient := []float32{1, 2, 3}
			if replica.ReplicaID() == 5 {
				gradient[1] = float32(math.NaN())
			}
			return replica.AllReduce(Sum, sure(Of(gradient)))
		}, Value{})
		fmt.Println(err)
		_, err = strategy.Run(nil, func(replica *ReplicaContext, _ Value) (Value, error) {
			id := sure(OfScalar(int64(replica.ReplicaID())))
			if _, err := replica.AllReduce(Sum, id); err != nil {
				return Value{}, err
			}
			err := AssertNoneEqual(id, sure(OfScalar(int64(5))), Assertion{Message: "ids"})
			if err != nil {
				return Value{}, err
			}
			return replica.AllReduce(Sum, id)
		}, Value{})
		fmt.Println(errors.Is(err, ErrInvalidArgument), err)
		_, err = strategy.Run(nil, func(replica *ReplicaContext, _ Value) (Value, error) {
			id := sure(OfScalar(int64(replica.ReplicaID())))
			if _, err := replica.AllReduce(Sum, id); err != nil {
				return Value{}, err
			}
			if replica.ReplicaID() == 5 {
				return Of([]float32{float32(math.Inf(1))})
			}
			return Of([]float32{1})
		}, Value{})
		fmt.Println(err)
		return nil
	}
}

func TestANanOfOneReplicaIsNamedByAllWorkers(t *testing.T) {
	job := workers(t, "bring a NaN", 4)
	for i, worker := range job {
		if err := worker.finish(); err != nil {
			t.Fatalf("worker %d: %v\n%s", i, err, worker.err.String())
		}
		for _, part := range []string{"worker 2: ", "of replica 5 in step 1, float32[3]",
			"1 NaN, 0 +Inf and 0 -Inf", "is nan at [1]", "\ntrue ",
			"ids: assert_none_equal: x != y does not hold",
			"worker 2: run: the result of replica 5 in step 3, float32[1]"} {
			if !strings.Contains(worker.out.String(), part) {
				t.Fatalf("worker %d does not say %q: %s", i, part, worker.out.String())
			}
		}
	}
}

// ---- dumps

func TestWhatPassesByIsDumpedAndRead(t *testing.T) {
	root := t.TempDir()
	writer := must[*DumpWriter](t)(EnableDumpDebugInfo(root, DumpOptions{Mode: DebugFullHealth,
		OpRegex: "all_reduce", DTypes: func(dtype DType) bool { return dtype == Float64 }}))
	defer DisableDumpDebugInfo()
	_, err := EnableDumpDebugInfo(root, DumpOptions{Mode: DebugShape})
	says(t, err, "the mode is FULL_HEALTH")
	strategy := must[*Strategy](t)(NewMirroredStrategy("CPU:0", "CPU:1"))
	defer strategy.Close()
	result := must[Value](t)(strategy.Run(nil, func(replica *ReplicaContext, _ Value) (Value, error) {
		gradient := []float64{1, 2}
		if replica.ReplicaID() == 1 {
			gradient[1] = math.NaN()
		}
		return replica.AllReduce(Sum, sure(Of(gradient)))
	}, Value{}))
	defer result.Close()
	passes(t, writer.FlushExecutionFiles())
	passes(t, writer.FlushNonExecutionFiles())
	text := must[string](t)(ReadDumpDebugInfo(root))
	for _, part := range []string{`"op":"all_reduce","name":"the input","replica":1`,
		`"has_nan_or_infinity":true,"elements":2,"nan":1`} {
		if !strings.Contains(text, part) {
			t.Fatalf("no %s in %s", part, text)
		}
	}
	if strings.Contains(text, `"op":"run"`) {
		t.Fatal(text)
	}
	DisableDumpDebugInfo()
	wants(t, writer.FlushExecutionFiles(), ErrFailedPrecondition)
	_, err = ReadDumpDebugInfo(root + "/nothing")
	wants(t, err, ErrNotFound)
}
