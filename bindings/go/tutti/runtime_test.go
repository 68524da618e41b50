package tutti

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func TestSettingsAreDescribed(t *testing.T) {
	own := must[*Runtime](t)(NewRuntime(map[string]string{"logical_cpu_devices": "3"}))
	defer own.Close()
	settings := must[map[string]Setting](t)(own.Describe())
	if got := settings["logical_cpu_devices"]; got.Source != "argument" {
		t.Fatal(got)
	}
	devices := must[[]string](t)(own.Devices("CPU"))
	if len(devices) != 3 || !strings.HasSuffix(devices[2], "CPU:2") {
		t.Fatal(devices)
	}
	cpu := must[string](t)(own.DescribeDevice("CPU:2"))
	if !strings.HasPrefix(cpu, `{"name": "CPU:2", "type": "CPU"`) {
		t.Fatal(cpu)
	}
	_, err := own.DescribeDevice("GPU:99")
	wants(t, err, ErrNotFound)
	plugins := must[string](t)(own.DescribePlugins())
	if !strings.HasPrefix(plugins, `[{"name": "cuda", "file": "`) ||
		!strings.Contains(plugins, `"nccl_reason": `) {
		t.Fatal(plugins)
	}
	wants(t, own.Set("no_such_setting", "1"), ErrInvalidArgument)
	if err = own.SetRandomSeed(5); err != nil {
		t.Fatal(err)
	}
	first := integers(t, own.Range(0, 99, 1).Shuffle(99, RandomSeed))
	if err = own.SetRandomSeed(5); err != nil { // starts the seeds again
		t.Fatal(err)
	}
	second := integers(t, own.Range(0, 99, 1).Shuffle(99, RandomSeed))
	if !reflect.DeepEqual(first, second) {
		t.Fatal(first, second)
	}
	if record := must[string](t)(own.FlightRecorder()); !strings.HasPrefix(record, "{") {
		t.Fatal(record)
	}
}

// logOneWarning merges options of which one changes.
func logOneWarning(t *testing.T) {
	t.Helper()
	one, other := must[*DataOptions](t)(NewDataOptions()), must[*DataOptions](t)(NewDataOptions())
	for _, err := range []error{one.SetBool("deterministic", true),
		other.SetBool("deterministic", false)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	merged := must[*DataOptions](t)(one.Merge(other))
	if number, _, _ := merged.Read("deterministic"); number != 0 {
		t.Fatal("the other one wins")
	}
}

func TestTheLogGoesToASinkThatMayPanic(t *testing.T) {
	var mutex sync.Mutex
	var lines []string
	if err := defaultRuntime.SetLog(func(level, line string) {
		mutex.Lock()
		defer mutex.Unlock()
		lines = append(lines, level+" "+line)
		if len(lines) == 2 {
			panic("this is part of a test")
		}
	}); err != nil {
		t.Fatal(err)
	}
	logOneWarning(t)
	logOneWarning(t)
	if err := defaultRuntime.SetLog(nil); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "warning ") ||
		!strings.Contains(lines[0], "deterministic") {
		t.Fatal(lines)
	}
}

func TestACloseBesideCallsIsAnErrorOfTheLaterOnes(t *testing.T) {
	for round := 0; round < 50; round++ {
		tensor := must[*Tensor](t)(TensorOf([]float64{1, 2, 3}))
		start := make(chan struct{})
		var all sync.WaitGroup
		for i := 0; i < 4; i++ {
			all.Add(1)
			go func(i int) {
				defer all.Done()
				<-start
				if i == 2 {
					tensor.Close()
					return
				}
				copied, err := tensor.Copy()
				if err != nil && !errors.Is(err, ErrFailedPrecondition) {
					t.Error(err)
				}
				copied.Close()
			}(i)
		}
		close(start)
		all.Wait()
		_, err := tensor.Copy()
		wants(t, err, ErrFailedPrecondition)
	}
}
