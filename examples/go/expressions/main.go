// Command expressions is a pipeline that runs without Go: the pairs y < x of 0 .. 99 whose sum is a
// square, in batches, and how many there are. The same program stands in examples/c and
// examples/java.
package main

import (
	"context"
	"fmt"
	"os"

	"tutti.dev/tutti"
)

func isSquare(sum tutti.Expr) tutti.Expr {
	root := sum.Cast(tutti.Float64).Sqrt().Operation("rint", nil, nil, 0, false, "").
		Cast(tutti.Int64)
	return root.Times(root).Eq(sum)
}

func run() error {
	pairs := tutti.Range(0, 100, 1).
		FlatMapExpr(func(x tutti.Expr) *tutti.Dataset {
			return x.Range().MapExpr(func(y tutti.Expr) tutti.Expr { return tutti.TupleOf(x, y) })
		}).
		FilterExpr(func(pair tutti.Expr) tutti.Expr { return isSquare(pair.At(0).Plus(pair.At(1))) }).
		Batch(128)
	batches, err := pairs.Iterator(context.Background())
	if err != nil {
		return err
	}
	defer batches.Close()
	var count int64
	for batches.Next() {
		first, err := batches.Value().At(0)
		if err != nil {
			return err
		}
		tensor, err := first.Tensor()
		if err != nil {
			return err
		}
		count += tensor.Dims()[0]
	}
	if err := batches.Err(); err != nil {
		return err
	}
	fmt.Println(count, "pairs")
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "expressions:", err)
		os.Exit(1)
	}
}
