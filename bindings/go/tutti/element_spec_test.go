package tutti

import (
	"fmt"
	"strings"
	"testing"
)

// goodFrom gives what it gets, and fails below good.
func goodFrom(good int64) func(Value) (Value, error) {
	return func(element Value) (Value, error) {
		number, err := element.Int64()
		if err == nil && number < good {
			err = fmt.Errorf("%d is bad", number)
		}
		if err != nil {
			return Value{}, err
		}
		return OfInt64(number)
	}
}

func TestAnElementThatFailsDoesNotDecideAboutASpec(t *testing.T) {
	upTo := func(element Value) (*Dataset, error) {
		number, err := element.Int64()
		return Range(0, number, 1), err
	}
	for _, dataset := range []*Dataset{
		Range(0, 5, 1).Map(goodFrom(2)),
		Range(0, 5, 1).Map(goodFrom(2)).Skip(2).Map(goodFrom(0)),
		Range(0, 5, 1).Map(goodFrom(2)).Interleave(upTo),
	} {
		if got := must[*Spec](t)(dataset.ElementSpec(nil)).String(); got != "int64[]" {
			t.Error(got)
		}
	}
	_, err := Range(0, 5, 1).Map(goodFrom(9)).ElementSpec(nil)
	if err == nil || !strings.Contains(err.Error(), "0 is bad") ||
		!strings.Contains(err.Error(), "give its function an output spec") {
		t.Fatal(err)
	}
}
