package tutti

import (
	"reflect"
	"testing"
)

func TestAHundredThousandConcatenatedDatasetsDoWhatTwoDo(t *testing.T) {
	one := Range(0, 1, 1)
	chain := one
	for i := 1; i < 100_000; i++ {
		chain = chain.Concatenate(one)
	}
	chain = chain.Concatenate(Range(7, 9, 1))
	if chain.Cardinality() != 100_002 {
		t.Fatal(chain.Cardinality(), chain.Err())
	}
	bytes := must[[]byte](t)(chain.Serialize())
	iterator := must[*Iterator](t)(chain.Iterator(nil))
	defer iterator.Close()
	for i := 0; i < 100_000 && iterator.Next(); i++ {
		element := iterator.Value()
		element.Close()
	}
	state := must[[]byte](t)(iterator.Save(nil))
	again := must[*Iterator](t)(Deserialize(bytes).Iterator(nil))
	defer again.Close()
	if err := again.Restore(nil, state); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{7, 8} {
		if !again.Next() {
			t.Fatal(again.Err())
		}
		element := again.Value()
		if got := must[int64](t)(element.Int64()); got != want {
			t.Fatal(got, want)
		}
		element.Close()
	}
	if again.Next() {
		t.Fatal("more than there is")
	}
	chain.Close()
}

func TestWhatIsAppendedToItselfIsWalkedAsFarAsItIsAskedFor(t *testing.T) {
	chain := Range(0, 3, 1)
	for i := 0; i < 40; i++ {
		chain = chain.Concatenate(chain)
	}
	if chain.Cardinality() != 3<<40 {
		t.Fatal(chain.Cardinality(), chain.Err())
	}
	if got := integers(t, chain.Take(5)); !reflect.DeepEqual(got, []int64{0, 1, 2, 0, 1}) {
		t.Fatal(got)
	}
}

func TestAThousandOperationsStandOnEachOtherAndNotOneMore(t *testing.T) {
	deep := Range(0, 3, 1)
	for i := 1; i < 1000; i++ {
		deep = deep.Take(2)
	}
	if got := integers(t, deep); !reflect.DeepEqual(got, []int64{0, 1}) {
		t.Fatal(got)
	}
	wants(t, deep.Take(2).Err(), ErrInvalidArgument)
}
