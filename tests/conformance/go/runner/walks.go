package main

import (
	"errors"
	"fmt"

	"tutti.dev/tutti"
)

// walks go over a dataset and compare what its iterators give, call by call, with what a case
// expects. A case says by its `api` how it iterates, by its `dtype` and `tolerance` how it
// compares.
type walks struct {
	api       string // "": as Go does
	dtype     string
	tolerance float64
}

func walksOf(test fields) (*walks, error) {
	w := &walks{tolerance: tolerance(test)}
	w.api, _ = test["api"].(string)
	w.dtype, _ = test["dtype"].(string)
	if w.api != "" && w.api != "get_next" && w.api != "get_next_as_optional" {
		return nil, notCovered("api " + w.api)
	}
	if w.dtype != "" {
		if _, err := dtypeOf(w.dtype); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func isError(expected any) bool {
	object, ok := expected.(fields)
	return ok && object["error"] != nil
}

// elements of one iteration.
func elements(dataset *tutti.Dataset) (found []tutti.Value, err error) {
	iterator, err := dataset.Iterator(nil)
	if err != nil {
		return nil, err
	}
	defer iterator.Close()
	for iterator.Next() {
		found = append(found, iterator.Value())
	}
	return found, iterator.Err()
}

// walk goes once over dataset, which gives the list expected, in which {"error": CODE} is a call
// that fails; or {"multiset": [...]}, in any order.
func (w *walks) walk(dataset *tutti.Dataset, expected any) error {
	if list, ok := expected.([]any); ok {
		return w.list(dataset, list, -1)
	}
	object := expected.(fields)
	if err := known(object, "multiset"); err != nil {
		return err
	}
	return w.multiset(dataset, object["multiset"].([]any))
}

// passes are {"passes": [[...], ...], "takes": [n, null]}: one walk after another, walk i given up
// behind n elements.
func (w *walks) passes(dataset *tutti.Dataset, expected fields) error {
	if err := known(expected, "passes", "takes"); err != nil {
		return err
	}
	takes, _ := expected["takes"].([]any)
	for i, items := range expected["passes"].([]any) {
		take := int64(-1)
		if i < len(takes) {
			take = integer(fields{"take": takes[i]}, "take", -1)
		}
		if err := w.list(dataset, items.([]any), int(take)); err != nil {
			return fmt.Errorf("pass %d: %w", i, err)
		}
	}
	return nil
}

// list reads `take` elements, -1: all.
func (w *walks) list(dataset *tutti.Dataset, expected []any, take int) error {
	if take >= 0 && len(expected) > take {
		return fmt.Errorf("%d elements are taken, expected %v", take, expected)
	}
	iterator, err := dataset.Iterator(nil)
	if err != nil {
		return err
	}
	defer iterator.Close()
	for i, item := range expected {
		if err := w.call(iterator, item); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	// Nothing is compared behind an error that stands last, nor behind what is taken.
	if len(expected) == take || len(expected) > 0 && isError(expected[len(expected)-1]) {
		return nil
	}
	return w.end(iterator, len(expected))
}

func (w *walks) call(iterator *tutti.Iterator, expected any) error {
	element, ok, err := w.next(iterator)
	if isError(expected) {
		return expectError(expected.(fields), err)
	}
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("expected %v, found the end", expected)
	}
	return compare(element, expected, w.dtype, w.tolerance)
}

func (w *walks) multiset(dataset *tutti.Dataset, expected []any) error {
	left := append([]any{}, expected...)
	iterator, err := dataset.Iterator(nil)
	if err != nil {
		return err
	}
	defer iterator.Close()
	for {
		element, ok, err := w.next(iterator)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if left, err = w.without(left, element); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("did not come: %v", left)
	}
	return w.end(iterator, len(expected))
}

// without is what is left of expected behind element.
func (w *walks) without(expected []any, element tutti.Value) ([]any, error) {
	for i, item := range expected {
		err := compare(element, item, w.dtype, w.tolerance)
		var missing notCovered
		if errors.As(err, &missing) {
			return nil, err
		}
		if err == nil {
			return append(expected[:i], expected[i+1:]...), nil
		}
	}
	return nil, fmt.Errorf("not, or not so often, expected: %v", element)
}

// next is the next element; false at the end.
func (w *walks) next(iterator *tutti.Iterator) (tutti.Value, bool, error) {
	if w.api != "get_next_as_optional" {
		ok := iterator.Next()
		return iterator.Value(), ok, iterator.Err()
	}
	optional, err := iterator.NextOptional(nil)
	if err != nil {
		return tutti.Value{}, false, err
	}
	return optional.Optional()
}

// end is where the iterator must be; with an api it comes again.
func (w *walks) end(iterator *tutti.Iterator, count int) error {
	calls := 1
	if w.api != "" {
		calls = 2
	}
	for i := 0; i < calls; i++ {
		more, ok, err := w.next(iterator)
		if err != nil {
			return err
		}
		if ok {
			return fmt.Errorf("expected the end after %d elements, found %v", count, more)
		}
	}
	return nil
}
