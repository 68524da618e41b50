# Vendors the module into a program from outside of the tree, builds it from the vendored copy alone,
# and runs it: cmake -DGO=<go> -DMODULE=<folder> -DFOLDER=<scratch> -P vendor_test.cmake
file(REMOVE_RECURSE "${FOLDER}")
file(WRITE "${FOLDER}/go.mod"
     "module vendored\n\ngo 1.19\n\nrequire tutti.dev/tutti v0.0.0\n\nreplace tutti.dev/tutti => ${MODULE}\n")
file(WRITE "${FOLDER}/main.go" [=[
package main

import (
	"fmt"
	"os"

	"tutti.dev/tutti"
)

func main() {
	sum := int64(0)
	iterator, err := tutti.Range(0, 5, 1).Map(func(element tutti.Value) (tutti.Value, error) {
		number, err := element.Int64()
		if err != nil {
			return tutti.Value{}, err
		}
		return tutti.OfInt64(2 * number)
	}).Iterator(nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for iterator.Next() {
		number, _ := iterator.Value().Int64()
		sum += number
	}
	fmt.Println("sum", sum, iterator.Err(), tutti.Shutdown(nil))
}
]=])
# tutti_run(<argument>...): the Go tool there.
function(tutti_run)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env GOFLAGS= GOWORK=off "${GO}" ${ARGN}
                  WORKING_DIRECTORY "${FOLDER}" RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "go ${ARGN}: ${result}\n${output}")
  endif()
endfunction()
tutti_run(mod vendor)
file(RENAME "${FOLDER}/go.mod" "${FOLDER}/go.mod.whole")
file(READ "${FOLDER}/go.mod.whole" text)
# A replacement that is not there shows that the vendored copy is enough.
string(REPLACE "${MODULE}" "./absent" text "${text}")
file(WRITE "${FOLDER}/go.mod" "${text}")
file(READ "${FOLDER}/vendor/modules.txt" text)
string(REPLACE "${MODULE}" "./absent" text "${text}")
file(WRITE "${FOLDER}/vendor/modules.txt" "${text}")
tutti_run(build -mod=vendor -o program .)
execute_process(COMMAND "${FOLDER}/program" RESULT_VARIABLE result OUTPUT_VARIABLE output)
if(NOT result EQUAL 0 OR NOT output STREQUAL "sum 20 <nil> <nil>\n")
  message(FATAL_ERROR "the vendored program: ${result} ${output}")
endif()
