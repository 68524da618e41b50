import org.tutti.DType;
import org.tutti.Value;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.data.Expr;

/**
 * A pipeline that runs without Java: the pairs y &lt; x of 0 .. 99 whose sum is a square, in
 * batches, and how many there are. The same program stands in examples/c and examples/go.
 */
public final class Expressions {
  private Expressions() {}

  private static Expr isSquare(Expr sum) {
    final Expr root = sum.cast(DType.FLOAT64).sqrt()
        .operation("rint", new Object[0], new long[0], null, false, "").cast(DType.INT64);
    return root.times(root).eq(sum);
  }

  /** No arguments. */
  public static void main(String[] arguments) {
    final Dataset pairs = Dataset.range(100)
        .flatMapExpr(x -> x.range().mapExpr(y -> Expr.tuple(x, y)))
        .filterExpr(pair -> isSquare(pair.get(0).plus(pair.get(1))))
        .batch(128);
    long count = 0;
    try (DatasetIterator batches = pairs.iterator()) {
      while (batches.hasNext()) {
        final Value batch = batches.next();
        count += batch.get(0).asTensor().shape()[0];
      }
    }
    System.out.println(count + " pairs");
  }
}
