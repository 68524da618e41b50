// Conformance runs the conformance vectors through the Go module.
//
//	conformance [folder]
//
// The folder of the vectors is the argument, else TUTTI_CONFORMANCE_DIR, else the one that it was
// built beside. It prints each failure, the names of the cases that are not covered (those that
// name an op, a function or a field that is not known here), and one line of totals, and exits
// non-zero when a case fails or none passes.
package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tutti.dev/tutti"
)

// vectors is set by the linker.
var vectors = "tests/conformance/vectors"

func expectError(expected fields, err error) error {
	if known := known(expected, "error", "message_names"); known != nil {
		return known
	}
	var missing notCovered
	if errors.As(err, &missing) {
		return missing
	}
	var found *tutti.Error
	if !errors.As(err, &found) || found.Code.Error() != expected["error"] {
		return fmt.Errorf("expected %v, found %v", expected["error"], err)
	}
	names, _ := expected["message_names"].([]any)
	for _, name := range names {
		if !strings.Contains(err.Error(), fmt.Sprint(name)) {
			return fmt.Errorf("the message does not name %v: %w", name, err)
		}
	}
	return nil
}

var runners = map[string]func(test fields) error{"dataset": runDataset,
	"dataset_ops": runDataset, "dataset_own": runDataset, "distribute": runDistribute,
	"values_own": runValues, "reduce": runReduce, "values": runValues, "device_spec": runDeviceSpec,
	"debugging": runDebugging, "debugging_own": runDebugging}

// run does not let a case that fails in any way end the others.
func run(kind string, test fields) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	runner, ok := runners[kind]
	if !ok {
		return notCovered(kind + ".json")
	}
	return runner(test)
}

func main() {
	folder := vectors
	if given := os.Getenv("TUTTI_CONFORMANCE_DIR"); given != "" {
		folder = given
	}
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	paths, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	if len(paths) == 0 {
		fmt.Fprintln(os.Stderr, "conformance Go: there are no vectors in", folder)
		os.Exit(1)
	}
	secret := make([]byte, 32) // of the workers of this run
	if _, err := rand.Read(secret); err != nil {
		fmt.Fprintln(os.Stderr, "conformance Go:", err)
		os.Exit(1)
	}
	os.Setenv("TUTTI_JOB_SECRET", fmt.Sprintf("%x", secret))
	os.Unsetenv("TUTTI_JOB_SECRET_FILE")
	folderOfRecords, err := os.MkdirTemp("", "tutti-conformance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance Go:", err)
		os.Exit(1)
	}
	files.folder, files.paths = folderOfRecords, map[string][]string{}

	passed, failed := 0, 0
	var skipped []string
	for _, path := range paths {
		kind := strings.TrimSuffix(filepath.Base(path), ".json")
		var tests []fields
		text, err := os.ReadFile(path)
		if err == nil {
			decoder := json.NewDecoder(strings.NewReader(string(text)))
			decoder.UseNumber()
			err = decoder.Decode(&tests)
		}
		if err != nil {
			failed++
			fmt.Printf("FAILED %s: %v\n", path, err)
		}
		for _, test := range tests {
			name := fmt.Sprintf("%s.%v", kind, test["name"])
			err := run(kind, test)
			var missing notCovered
			switch {
			case err == nil:
				passed++
			case errors.As(err, &missing):
				skipped = append(skipped, fmt.Sprintf("%s (%v)", name, missing))
			default:
				failed++
				fmt.Printf("FAILED %s: %v\n", name, err)
			}
		}
	}
	os.RemoveAll(folderOfRecords)
	for _, name := range skipped {
		fmt.Println("not covered:", name)
	}
	fmt.Printf("conformance Go: %d passed, %d not covered, %d failed\n", passed, len(skipped), failed)
	if traced.wanted {
		fmt.Println(traced.made, "functions as expressions")
	}
	if failed > 0 || passed == 0 || traced.wanted && traced.made == 0 {
		os.Exit(1)
	}
}
