package tutti

import (
	"errors"
	"reflect"
	"runtime"
	"testing"
	"time"
)

func TestCallsOfAParallelMapAreMadeAtOnceAndMayOvertake(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	go func() { // lets them go in fours
		for {
			for i := 0; i < 4; i++ {
				if _, more := <-entered; !more {
					return
				}
			}
			for i := 0; i < 4; i++ {
				leave <- struct{}{}
			}
		}
	}()
	meet := func(element Value) (Value, error) {
		entered <- struct{}{}
		select {
		case <-leave:
			return element, nil
		case <-time.After(time.Minute):
			return Value{}, errors.New("no four calls at once")
		}
	}
	met := Range(0, 8, 1).Map(meet, WithParallelCalls(4))
	if got := integers(t, met); !reflect.DeepEqual(got, []int64{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Error(got)
	}
	close(entered)
	second := make(chan struct{})
	hold := func(element Value) (Value, error) {
		if number, _ := element.Int64(); number == 0 {
			<-second
		}
		return element, nil
	}
	iterator := must[*Iterator](t)(Range(0, 4, 1).Map(hold, WithParallelCalls(2),
		WithDeterministic(false)).Iterator(nil))
	defer iterator.Close()
	if !iterator.Next() {
		t.Fatal(iterator.Err())
	}
	if number, _ := iterator.Value().Int64(); number != 1 {
		t.Error(number)
	}
	close(second)
	left := int64(0)
	for iterator.Next() {
		number, _ := iterator.Value().Int64()
		left += 1 + number
	}
	if left != 8 || iterator.Err() != nil {
		t.Error(left, iterator.Err())
	}
}

func TestRegisteredFunctionsAreFoundAgain(t *testing.T) {
	if err := RegisterFunction("go_plus_one", plusOne, FunctionOptions{}); err != nil {
		t.Fatal(err)
	}
	defer UnregisterFunction("go_plus_one")
	wants(t, RegisterFunction("go_plus_one", plusOne, FunctionOptions{}), ErrAlreadyExists)
	function := must[*Function](t)(RegisteredFunction("go_plus_one"))
	bytes := must[[]byte](t)(Range(0, 2, 1).MapWith(function).Serialize())
	if got := integers(t, Deserialize(bytes)); !reflect.DeepEqual(got, []int64{1, 2}) {
		t.Fatal(got)
	}
	_, err := RegisteredFunction("go_plus_two")
	wants(t, err, ErrNotFound)
	_, err = Range(0, 2, 1).Map(plusOne).Serialize()
	wants(t, err, ErrFailedPrecondition)
	wants(t, Deserialize([]byte{1, 2}).Err(), ErrInvalidArgument)
}

func TestDatasetFunctionsGoWithTheirDatasets(t *testing.T) {
	freed := make(chan struct{})
	func() {
		captured := new([1 << 10]byte)
		runtime.SetFinalizer(captured, func(*[1 << 10]byte) { close(freed) })
		dataset := Range(0, 2, 1).Map(func(element Value) (Value, error) {
			return OfInt64(int64(captured[0]))
		})
		integers(t, dataset)
		dataset.Close()
	}()
	for {
		runtime.GC()
		select {
		case <-freed:
			return
		default:
			runtime.Gosched()
		}
	}
}
