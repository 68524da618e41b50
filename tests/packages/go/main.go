// Walk is a program of somebody who has the module; it says which libraries it runs with.
package main

import (
	"fmt"
	"log"
	"os"
	"strings"

	"tutti.dev/tutti"
)

func step(replica *tutti.ReplicaContext, batch tutti.Value) (tutti.Value, error) {
	rows, err := batch.Tensor()
	if err != nil {
		return tutti.Value{}, err
	}
	numbers, err := tutti.Slice[int64](rows)
	if err != nil {
		return tutti.Value{}, err
	}
	sum := int64(0)
	for _, number := range numbers {
		sum += number
	}
	part, err := tutti.OfInt64(sum)
	if err != nil {
		return tutti.Value{}, err
	}
	return replica.AllReduce(tutti.Sum, part)
}

func main() {
	strategy, err := tutti.NewMirroredStrategy("CPU:0", "CPU:1")
	if err != nil {
		log.Fatal(err)
	}
	defer strategy.Close()
	batches, err := strategy.Distribute(nil, tutti.Range(0, 8, 1).Batch(4))
	if err != nil {
		log.Fatal(err)
	}
	defer batches.Close()
	for batches.Next() {
		sums, err := strategy.Run(nil, step, batches.Value())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batches.Value(), sums)
	}
	if err := batches.Err(); err != nil {
		log.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range strings.Split(string(maps), "\n") {
		if strings.Contains(line, "libtutti") {
			fmt.Fprintln(os.Stderr, line[strings.Index(line, "/"):])
		}
	}
}
