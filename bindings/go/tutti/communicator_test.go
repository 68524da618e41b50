package tutti

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestRanksOfOneColorFormAGroup(t *testing.T) {
	onRanks(t, 4, func(ctx context.Context, c *Communicator) error {
		color := 4
		if c.Rank() == 1 {
			color = -1
		}
		part, err := c.Split(ctx, color, -c.Rank(), "outer")
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			if part != nil {
				return errors.New("rank 1 is in a group")
			}
			return nil
		}
		defer part.Close()
		if part.Size() != 3 || part.Rank() != []int{2, -1, 1, 0}[c.Rank()] {
			return fmt.Errorf("rank %d of %d", part.Rank(), part.Size())
		}
		gathered, err := part.AllGather(ctx, numbers(float64(c.Rank())))
		if err != nil {
			return err
		}
		return holds(gathered, 3, 2, 0)
	})
}

func TestTensorsOfACommunicatorAreZerosAndOutliveIt(t *testing.T) {
	onRanks(t, 2, func(ctx context.Context, c *Communicator) error {
		tensor, err := c.CreateTensor(Float64, 3)
		if err != nil {
			return err
		}
		defer tensor.Close()
		if err := holds(tensor, 0, 0, 0); err != nil {
			return err
		}
		if err := c.AllReduce(ctx, Sum, numbers(float64(c.Rank()), 1, 2), tensor); err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
		return holds(tensor, 1, 2, 4)
	})
}

func TestAnElasticJobGoesOnInNewEpochs(t *testing.T) {
	passes(t, EnableCheckNumerics()) // for the process
	defer DisableCheckNumerics()
	together(t, size, map[string]string{"elastic": "1", "silence_limit": "60s"},
		func(r *Runtime, resolver Resolver, worker int) error {
			ctx, end := context.WithTimeout(context.Background(), 60*time.Second)
			defer end()
			cluster, err := r.Join(ctx, resolver, 1)
			if err != nil {
				return err
			}
			defer cluster.Close()
			first, err := cluster.NewCommunicator(ctx, "job")
			if err != nil {
				return err
			}
			defer first.Close()
			if worker == 2 {
				first.Revoke("not with me")
			} else if err := first.Barrier(ctx); !errors.Is(err, ErrAborted) ||
				!strings.Contains(err.Error(), "not with me") {
				return fmt.Errorf("a barrier that was revoked: %v", err)
			}
			second, err := first.Shrink(ctx)
			if err != nil {
				return err
			}
			defer second.Close()
			third, err := second.Grow(ctx, size)
			if err != nil {
				return err
			}
			defer third.Close()
			if second.Epoch() != first.Epoch()+1 || third.Epoch() != second.Epoch()+1 ||
				third.Size() != size || third.Rank() != worker {
				return fmt.Errorf("epoch %d, rank %d of %d", third.Epoch(), third.Rank(), third.Size())
			}
			sum, err := TensorIn(r, []float64{1})
			if err != nil {
				return err
			}
			if err := third.AllReduce(ctx, Sum, sum, sum); err != nil {
				return err
			}
			if err := holds(sum, size); err != nil {
				return err
			}
			broken, err := TensorIn(r, []float64{1, []float64{1, 1, math.NaN()}[worker]})
			if err != nil {
				return err
			}
			err = third.AllReduce(ctx, Sum, broken, broken)
			if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(),
				"rank 2: all_reduce #2: all_reduce: the input, float64[2], is not finite") {
				return fmt.Errorf("a NaN: %v", err)
			}
			if third, err = third.Shrink(ctx); err != nil {
				return err
			}
			defer third.Close()
			if err := third.Barrier(ctx); err != nil || worker == 1 {
				return err // worker 1 leaves
			}
			for err == nil {
				err = third.Barrier(ctx)
			}
			if !errors.Is(err, ErrUnavailable) {
				return err
			}
			rest, err := third.Shrink(ctx)
			if err != nil {
				return err
			}
			defer rest.Close()
			if rest.Size() != 2 || rest.Rank() != worker/2 {
				return fmt.Errorf("rank %d of %d", rest.Rank(), rest.Size())
			}
			return rest.Barrier(ctx)
		})
}

func TestTheTableOfCollectivesIsReadAgain(t *testing.T) {
	own := must[*Runtime](t)(NewRuntime(nil))
	defer own.Close()
	table := must[string](t)(own.DescribeCollectives())
	if !strings.Contains(table, "all_reduce") || !strings.Contains(table, "shared_memory") {
		t.Fatal(table)
	}
	rows := "rows:" + strings.ReplaceAll(strings.TrimSpace(table), "\n", ";")
	if err := own.Set("collective_table", rows); err != nil {
		t.Fatal(err)
	}
	if again := must[string](t)(own.DescribeCollectives()); again == "" {
		t.Fatal("no table")
	}
	wants(t, own.Set("collective_table", "rows:all_reduce by magic"), ErrInvalidArgument)
	if text := must[string](t)(defaultRuntime.DescribeCollectives()); text == "" {
		t.Fatal("no table")
	}
}
