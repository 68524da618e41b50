package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"tutti.dev/tutti"
)

var comparisons = map[string]func(x, y tutti.Value, how ...tutti.Assertion) error{
	"equal": tutti.AssertEqual, "none_equal": tutti.AssertNoneEqual, "less": tutti.AssertLess,
	"less_equal": tutti.AssertLessEqual, "greater": tutti.AssertGreater,
	"greater_equal": tutti.AssertGreaterEqual, "near": tutti.AssertNear}

var conditions = map[string]func(x tutti.Value, how ...tutti.Assertion) error{
	"positive": tutti.AssertPositive, "negative": tutti.AssertNegative,
	"non_positive": tutti.AssertNonPositive, "non_negative": tutti.AssertNonNegative,
	"integer": tutti.AssertInteger, "scalar": tutti.AssertScalar,
	"all_finite": func(x tutti.Value, how ...tutti.Assertion) error {
		_, err := tutti.AssertAllFinite(x, how...)
		return err
	},
	"check_numerics": func(x tutti.Value, how ...tutti.Assertion) error {
		_, err := tutti.CheckNumerics(x, how...)
		return err
	}}

// operand is a value as the case writes it.
func operand(described any) (tutti.Value, error) {
	parsed, err := read(described)
	if err != nil {
		return tutti.Value{}, err
	}
	return valueOf(parsed)
}

func assertShapes(pairs []any) error {
	var shaped []tutti.Shaped
	for _, pair := range pairs {
		var dims []int64
		for _, size := range pair.([]any)[0].([]any) {
			number, err := size.(json.Number).Int64()
			if err != nil {
				return err
			}
			dims = append(dims, number)
		}
		var axes []string
		for _, axis := range pair.([]any)[1].([]any) {
			if axis == nil {
				axis = "."
			}
			axes = append(axes, fmt.Sprint(axis))
		}
		tensor, err := tutti.NewTensor(tutti.Float32, dims...)
		if err != nil {
			return err
		}
		defer tensor.Close()
		value, err := tutti.OfTensor(tensor)
		if err != nil {
			return err
		}
		defer value.Close()
		shaped = append(shaped, tutti.Shaped{Tensor: value, Shape: strings.Join(axes, ",")})
	}
	return tutti.AssertShapes(shaped, tutti.Value{})
}

func assertion(test fields) error {
	name := fmt.Sprint(test["assert"])
	if name == "shapes" {
		if err := known(test, "name", "assert", "shapes", "ok", "error", "message_names"); err != nil {
			return err
		}
		return assertShapes(test["shapes"].([]any))
	}
	err := known(test, "name", "assert", "rows", "x", "y", "ok", "error", "message_names")
	if err != nil {
		return err
	}
	if test["rows"] != nil {
		return assertRows(name, test)
	}
	x, err := operand(test["x"])
	if err != nil {
		return err
	}
	defer x.Close()
	if compare := comparisons[name]; compare != nil {
		y, err := operand(test["y"])
		if err != nil {
			return err
		}
		defer y.Close()
		return compare(x, y)
	}
	if holds := conditions[name]; holds != nil {
		return holds(x)
	}
	return notCovered("assert " + name)
}

var rowChecks = map[string]tutti.RowCheck{
	"equal": tutti.RowEqual, "none_equal": tutti.RowNoneEqual, "less": tutti.RowLess,
	"less_equal": tutti.RowLessEqual, "greater": tutti.RowGreater,
	"greater_equal": tutti.RowGreaterEqual, "near": tutti.RowNear, "positive": tutti.RowPositive,
	"negative": tutti.RowNegative, "non_positive": tutti.RowNonPositive,
	"non_negative": tutti.RowNonNegative, "integer": tutti.RowInteger, "scalar": tutti.RowScalar,
	"all_finite": tutti.RowAllFinite, "check_numerics": tutti.RowNumerics}

// assertRows passes x, the rows of a dataset, through a native function.
func assertRows(name string, test fields) error {
	assertion := tutti.RowAssertion{Check: rowChecks[name]}
	if test["y"] != nil {
		y, err := operand(test["y"])
		if err != nil {
			return err
		}
		defer y.Close()
		if assertion.Y, err = y.Tensor(); err != nil {
			return err
		}
	}
	x, err := operand(test["x"])
	if err != nil {
		return err
	}
	defer x.Close()
	check := tutti.AssertRows(assertion)
	defer check.Close()
	dataset := tutti.FromTensorSlices(x).MapWith(check)
	defer dataset.Close()
	iterator, err := dataset.Iterator(context.Background())
	if err != nil {
		return err
	}
	defer iterator.Close()
	rows := int64(0)
	for ; iterator.Next(); rows++ {
	}
	if err := iterator.Err(); err != nil {
		return err
	}
	if wanted := integer(test, "rows", -1); rows != wanted {
		return fmt.Errorf("expected %d rows, found %d", wanted, rows)
	}
	return nil
}

func isNumeric(test fields) error {
	if err := known(test, "name", "is_numeric", "expect"); err != nil {
		return err
	}
	dtype, err := dtypeOf(test["is_numeric"])
	if err != nil {
		return err
	}
	var tensor *tutti.Tensor
	if dtype == tutti.Bytes {
		tensor, err = tutti.StringTensor([]string{"text"})
	} else {
		tensor, err = tutti.NewTensor(dtype, 1)
	}
	if err != nil {
		return err
	}
	defer tensor.Close()
	value, err := tutti.OfTensor(tensor)
	if err != nil {
		return err
	}
	defer value.Close()
	if found := tutti.IsNumericTensor(value); found != test["expect"] {
		return fmt.Errorf("expected %v, found %v", test["expect"], found)
	}
	return nil
}

func runDebugging(test fields) error {
	if test["is_numeric"] != nil {
		return isNumeric(test)
	}
	err := assertion(test)
	if test["ok"] == true {
		return err
	}
	expected := fields{"error": "INVALID_ARGUMENT"}
	for _, name := range []string{"error", "message_names"} {
		if test[name] != nil {
			expected[name] = test[name]
		}
	}
	return expectError(expected, err)
}
