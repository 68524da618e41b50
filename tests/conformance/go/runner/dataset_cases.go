package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"tutti.dev/tutti"
)

// runDataset runs a case of dataset.json, dataset_ops.json or dataset_own.json.
func runDataset(test fields) error {
	if err := knownFields(test); err != nil {
		return err
	}
	var folder caseFolder
	defer folder.remove()
	tree, err := folder.withPaths(test["dataset"])
	if err != nil {
		return err
	}
	node, expected := tree.(fields), test["expect"]
	earlier, err := folder.withPaths(test["before"])
	if err != nil {
		return err
	}
	if err := readAll(earlier); err != nil {
		return err
	}
	if test["terminal"] == true {
		err = runTerminal(test, node)
	} else {
		err = runWalks(test, node)
	}
	if isError(expected) {
		return expectError(expected.(fields), err)
	}
	return err
}

// readAll reads a list of datasets to the end, one after another.
func readAll(nodes any) error {
	list, _ := nodes.([]any)
	for _, node := range list {
		dataset, err := build(nil, node.(fields))
		if err != nil {
			return err
		}
		if _, err := elements(dataset); err != nil {
			return err
		}
	}
	return nil
}

// isWalk says whether expected is what one walk gives, which may be repeated.
func isWalk(expected any) bool {
	object, ok := expected.(fields)
	return !ok || object["multiset"] != nil || isError(expected)
}

// knownFields: what `expect` says decides which fields the case may have besides.
func knownFields(test fields) error {
	names := []string{"name", "before", "dataset", "expect"}
	if test["terminal"] == true {
		return known(test, append(names, "terminal", "dtype", "tolerance")...)
	}
	names = append(names, "cardinality")
	if expected := test["expect"]; isWalk(expected) {
		names = append(names, "dtype", "tolerance", "api", "iterate")
	} else if expected.(fields)["passes"] != nil {
		names = append(names, "dtype", "tolerance", "api")
	}
	return known(test, names...)
}

func runWalks(test, node fields) error {
	expected := test["expect"]
	walks, err := walksOf(test)
	if err != nil {
		return err
	}
	dataset, err := build(nil, node)
	if err != nil {
		return err
	}
	if wanted, ok := test["cardinality"]; ok {
		if err := expectCardinality(dataset, wanted); err != nil {
			return err
		}
	}
	if isWalk(expected) {
		for i := int64(0); err == nil && i < integer(test, "iterate", 1); i++ {
			if isError(expected) {
				_, err = elements(dataset)
			} else {
				err = walks.walk(dataset, expected)
			}
		}
		return err
	}
	if object := expected.(fields); object["passes"] != nil {
		return walks.passes(dataset, object)
	}
	return expectProperty(expected.(fields), node)
}

func tolerance(test fields) float64 {
	if number, ok := test["tolerance"].(json.Number); ok {
		value, _ := number.Float64()
		return value
	}
	return 0
}

func expectCardinality(dataset *tutti.Dataset, expected any) error {
	found := fmt.Sprint(dataset.Cardinality())
	if dataset.Cardinality() == tutti.InfiniteCardinality {
		found = "INFINITE"
	} else if dataset.Cardinality() == tutti.UnknownCardinality {
		found = "UNKNOWN"
	}
	if found != fmt.Sprint(expected) {
		return fmt.Errorf("expected the cardinality %v, found %v", expected, found)
	}
	return nil
}

func reduceDataset(test, node fields) error {
	if err := known(node, "op", "input", "initial", "fn"); err != nil {
		return err
	}
	name := fmt.Sprint(node["fn"])
	step, ok := reducers[name]
	if !ok {
		return notCovered("function " + name)
	}
	dataset, err := build(nil, node["input"].(fields))
	if err != nil {
		return err
	}
	described, err := read(node["initial"])
	if err != nil {
		return err
	}
	initial, err := valueOf(described)
	if err != nil {
		return err
	}
	defer initial.Close()
	ctx := context.Background()
	call := func(state, x tutti.Value) (tutti.Value, error) {
		before, err := describe(state)
		if err != nil {
			return tutti.Value{}, err
		}
		// A window cannot be looked at here, where nothing is iterated.
		var element any
		if x.Kind() != tutti.KindDataset {
			if element, err = describe(x); err != nil {
				return tutti.Value{}, err
			}
		}
		next, err := step(before, element)
		if err != nil {
			return tutti.Value{}, err
		}
		return valueOf(next)
	}
	var state tutti.Value
	if traced := tracedReduce(dataset, initial, name); traced != nil {
		state, err = dataset.ReduceExpr(ctx, initial, traced)
	} else {
		state, err = dataset.Reduce(ctx, initial, call)
	}
	if err != nil || isError(test["expect"]) {
		return err
	}
	defer state.Close()
	dtype, _ := test["dtype"].(string)
	return compare(state, test["expect"], dtype, tolerance(test))
}

// iteratorSpecs compares two specs of iterators: whether they are compatible, or what values of
// both fit.
func iteratorSpecs(node fields, expected any) error {
	if err := known(node, "op", "spec", "with"); err != nil {
		return err
	}
	left, err := iteratorSpec(node["spec"])
	if err != nil {
		return err
	}
	right, err := iteratorSpec(node["with"])
	if err != nil {
		return err
	}
	if node["op"] == "iterator_spec_is_compatible" {
		if found := left.IsCompatible(right); found != expected {
			return fmt.Errorf("expected %v, found %v", expected, found)
		}
		return nil
	}
	common, err := left.MostSpecific(right)
	if err != nil || isError(expected) {
		return err
	}
	wanted, err := iteratorSpec(expected)
	if err != nil {
		return err
	}
	if !wanted.Equal(common) {
		return fmt.Errorf("expected %v, found %v", wanted, common)
	}
	return nil
}

func iteratorSpec(described any) (*tutti.Spec, error) {
	elements, err := describedSpec(described.(fields))
	if err != nil {
		return nil, err
	}
	return tutti.IteratorSpec(elements)
}

// variant: a scalar, one leaf, which fits the spec of a dataset of any elements and is the dataset
// again.
func variant(node, expected fields) error {
	if err := known(node, "op", "input"); err != nil {
		return err
	}
	if err := known(expected, "shape", "dtype"); err != nil {
		return err
	}
	if shape, ok := expected["shape"].([]any); !ok || len(shape) > 0 ||
		expected["dtype"] != "variant" {
		return fmt.Errorf("expected %v, found a variant", expected)
	}
	dataset, err := build(nil, node["input"].(fields))
	if err != nil {
		return err
	}
	made, err := dataset.ToVariant()
	if err != nil {
		return err
	}
	defer made.Close()
	found, err := tutti.SpecOf(made)
	if err != nil {
		return err
	}
	leaves, err := found.Leaves()
	if err != nil {
		return err
	}
	any, err := tutti.VariantSpec()
	if err != nil || !any.IsCompatible(found) || leaves[0].Dims == nil || len(leaves[0].Dims) > 0 {
		return fmt.Errorf("expected a variant, found %v (%v)", found, err)
	}
	spec, err := dataset.ElementSpec(nil)
	if err != nil {
		return err
	}
	back, err := elements(tutti.FromVariant(nil, made, spec))
	if err != nil {
		return err
	}
	given, err := elements(dataset)
	if err != nil || fmt.Sprint(back) != fmt.Sprint(given) {
		return fmt.Errorf("expected %v, found %v (%v)", given, back, err)
	}
	return nil
}

func runTerminal(test, node fields) error {
	op, expected := fmt.Sprint(node["op"]), test["expect"]
	if op == "reduce" {
		return reduceDataset(test, node)
	}
	if op == "options" || op == "merge_options" {
		return compareOptions(node, expected.(fields))
	}
	if op == "iterator_spec_is_compatible" || op == "iterator_spec_most_specific" {
		return iteratorSpecs(node, expected)
	}
	if op == "to_variant" {
		return variant(node, expected.(fields))
	}
	if op != "cardinality" && op != "element_spec" && op != "iterator_element_spec" {
		return notCovered("op " + op)
	}
	if err := known(node, "op", "input"); err != nil {
		return err
	}
	dataset, err := build(nil, node["input"].(fields))
	if err != nil {
		return err
	}
	if op == "cardinality" {
		return expectCardinality(dataset, expected)
	}
	found, err := dataset.ElementSpec(nil)
	if op == "iterator_element_spec" && err == nil {
		iterator, failure := dataset.Iterator(context.Background())
		if failure != nil {
			return failure
		}
		defer iterator.Close()
		found, err = iterator.ElementSpec()
	}
	if err != nil || isError(expected) {
		return err
	}
	wanted, err := describedSpec(expected.(fields))
	if err != nil {
		return err
	}
	if !wanted.Equal(found) {
		return fmt.Errorf("expected %v, found %v", wanted, found)
	}
	return nil
}

func integers(node fields) (numbers []int64, err error) {
	dataset, err := build(nil, node)
	if err != nil {
		return nil, err
	}
	found, err := elements(dataset)
	for _, element := range found {
		number, err := element.Int64()
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
	return numbers, err
}

func expectProperty(expected, node fields) error {
	if err := known(expected, "permutation_of", "buffer", "not_identity", "two_equal_halves",
		"two_different_permutations", "same_when_built_again", "two_permutations_of"); err != nil {
		return err
	}
	found, err := integers(node)
	if err != nil {
		return err
	}
	failure := fmt.Errorf("expected %v, found %v", expected, found)
	half := len(found) / 2
	one, two := found[:half], found[half:]
	if text, ok := expected["permutation_of"].(string); ok {
		var count int64
		fmt.Sscanf(text, "range(%d)", &count)
		wanted := make([]int64, count)
		for i := range wanted {
			wanted[i] = int64(i)
		}
		if !reflect.DeepEqual(sorted(found), wanted) ||
			expected["not_identity"] == true && reflect.DeepEqual(found, wanted) {
			return failure
		}
		buffer := integer(expected, "buffer", count)
		for i, v := range found { // nothing comes before it can be in the buffer
			if int64(i) < v-buffer+1 {
				return failure
			}
		}
	}
	if list, ok := expected["two_permutations_of"].([]any); ok {
		var wanted []int64
		for _, item := range list {
			wanted = append(wanted, integer(fields{"i": item}, "i", math.MinInt64))
		}
		if !reflect.DeepEqual(sorted(one), sorted(wanted)) ||
			!reflect.DeepEqual(sorted(two), sorted(wanted)) {
			return failure
		}
	}
	if expected["two_equal_halves"] != nil && !reflect.DeepEqual(one, two) {
		return failure
	}
	if expected["two_different_permutations"] != nil &&
		(!reflect.DeepEqual(sorted(one), sorted(two)) || reflect.DeepEqual(one, two)) {
		return failure
	}
	if expected["same_when_built_again"] != nil {
		if again, err := integers(node); err != nil || !reflect.DeepEqual(found, again) {
			return failure
		}
	}
	return nil
}
