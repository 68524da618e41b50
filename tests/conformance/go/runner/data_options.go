package main

import (
	"encoding/json"
	"fmt"

	"tutti.dev/tutti"
)

var externalStates = map[string]tutti.ExternalStatePolicy{"WARN": tutti.ExternalStateWarn,
	"IGNORE": tutti.ExternalStateIgnore, "FAIL": tutti.ExternalStateFail}

// optionNumber is that of an option's value: a policy's name, a boolean or a number.
func optionNumber(key string, value any) (int64, error) {
	switch value := value.(type) {
	case string:
		if number, ok := externalStates[value]; ok && key == "experimental_external_state_policy" {
			return int64(number), nil
		}
		if number, ok := policies[value]; ok {
			return int64(number), nil
		}
		return 0, notCovered("policy " + value)
	case bool:
		if value {
			return 1, nil
		}
		return 0, nil
	case json.Number:
		return value.Int64()
	}
	return 0, notCovered(fmt.Sprint("value of an option ", value))
}

// optionsOf are options by name.
func optionsOf(described fields) (*tutti.DataOptions, error) {
	options, err := tutti.NewDataOptions()
	for key, value := range described {
		if err != nil {
			return nil, err
		}
		var number int64
		if number, err = optionNumber(key, value); err != nil {
			return nil, err
		}
		if flag, ok := value.(bool); ok {
			err = options.SetBool(key, flag)
		} else {
			err = options.SetInt(key, number)
		}
	}
	return options, err
}

// optionsIn are those of the dataset, or the first ones once the second are merged into them.
func optionsIn(node fields) (*tutti.DataOptions, error) {
	if node["op"] == "options" {
		if err := known(node, "op", "input", "names"); err != nil {
			return nil, err
		}
		dataset, err := build(nil, node["input"].(fields))
		if err != nil {
			return nil, err
		}
		return dataset.Options()
	}
	if err := known(node, "op", "first", "second", "names"); err != nil {
		return nil, err
	}
	first, err := optionsOf(node["first"].(fields))
	if err != nil {
		return nil, err
	}
	second, err := optionsOf(node["second"].(fields))
	if err != nil {
		return nil, err
	}
	return first.Merge(second)
}

func compareOptions(node, expected fields) error {
	options, err := optionsIn(node)
	if err != nil {
		return err
	}
	for _, name := range node["names"].([]any) {
		key := fmt.Sprint(name)
		found, present, err := options.Read(key)
		if err != nil {
			return err
		}
		if expected[key] == nil {
			if present {
				return fmt.Errorf("expected %s unset, found %v", key, found)
			}
			continue
		}
		wanted, err := optionNumber(key, expected[key])
		if err != nil {
			return err
		}
		if !present || found != wanted {
			return fmt.Errorf("expected %s = %v, found %v (set: %v)", key, wanted, found, present)
		}
	}
	return nil
}
