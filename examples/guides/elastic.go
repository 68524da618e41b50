// Elastic jobs: the others go on when a worker dies, and another process takes its place.
//
//	go build elastic.go
//	tutti run --workers 3 --elastic --max-restarts 1 -- ./elastic
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"syscall"

	"tutti.dev/tutti"
)

// furthest is the step of the rank that has come furthest, which is 0 of a newcomer.
func furthest(ctx context.Context, ranks *tutti.Communicator, step int64) (int64, error) {
	mine, err := tutti.OfInt64(step)
	if err != nil {
		return 0, err
	}
	defer mine.Close()
	all, err := ranks.AllGatherValue(ctx, mine)
	for _, value := range all {
		theirs, wrong := value.Int64()
		if wrong != nil {
			return 0, wrong
		}
		if theirs > step {
			step = theirs
		}
		value.Close()
	}
	return step, err
}

// count is 1 of every rank, summed.
func count(ctx context.Context, ranks *tutti.Communicator) (int64, error) {
	sum, err := tutti.TensorOf([]int64{1})
	if err != nil {
		return 0, err
	}
	defer sum.Close()
	if err := ranks.AllReduce(ctx, tutti.Sum, sum, sum); err != nil {
		return 0, err
	}
	total, err := tutti.Slice[int64](sum)
	if err != nil {
		return 0, err
	}
	return total[0], nil
}

func run(ctx context.Context) error {
	cluster, err := tutti.Join(ctx, nil, 1)
	if err != nil {
		return err
	}
	defer cluster.Close()
	ranks, err := cluster.NewCommunicator(ctx, "all") // a newcomer waits here for a Grow
	if err != nil {
		return err
	}
	step, err := furthest(ctx, ranks, 0)
	if err != nil {
		return err
	}
	var total int64
	for step < 5 {
		if step == 2 && cluster.Worker() == 2 && os.Getenv("TUTTI_RESTART") == "0" {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		counted, err := count(ctx, ranks)
		if errors.Is(err, tutti.ErrUnavailable) || errors.Is(err, tutti.ErrAborted) {
			// All come together again, and say how far they are. Who is content with those that are
			// left calls Shrink instead.
			grown, err := ranks.Grow(ctx, cluster.NumWorkers())
			if err != nil {
				return err
			}
			ranks.Close()
			ranks = grown
			if step, err = furthest(ctx, ranks, step); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		total, step = counted, step+1
	}
	fmt.Printf("worker %d: %d ranks at the end\n", cluster.Worker(), total)
	return ranks.Close()
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
