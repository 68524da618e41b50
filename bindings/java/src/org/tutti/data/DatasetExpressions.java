package org.tutti.data;

import java.time.Duration;
import java.util.Objects;
import java.util.function.BiFunction;
import java.util.function.BinaryOperator;
import java.util.function.Function;
import org.tutti.DType;
import org.tutti.Spec;
import org.tutti.Value;
import org.tutti.internal.Box;
import org.tutti.internal.NativeObject;

/** The methods of Dataset whose functions are traced: called once, with placeholders (Expr). */
abstract class DatasetExpressions extends NativeObject {
  DatasetExpressions(Box box) {
    super(box);
  }

  private Dataset self() {
    return (Dataset) this;
  }

  private DatasetFunction traced(Function<Expr, Expr> function) {
    Objects.requireNonNull(function, "a function is needed, not null");
    try (Spec element = self().elementSpec()) {
      return DatasetFunction.expression(function, element);
    }
  }

  private DatasetFunction tracedDataset(Function<Expr, Dataset> function) {
    Objects.requireNonNull(function, "a function is needed, not null");
    try (Spec element = self().elementSpec()) {
      return DatasetFunction.datasetExpression(function, element);
    }
  }

  // ---- elements

  /**
   * Every element replaced by what the function computes of it, natively: it is called once, now,
   * with a placeholder. See Expr for what it may do, and what is an INVALID_ARGUMENT.
   */
  public Dataset mapExpr(Function<Expr, Expr> function) {
    try (DatasetFunction made = traced(function)) {
      return self().map(made);
    }
  }

  /** The elements for which the function computes true, natively, as in mapExpr. */
  public Dataset filterExpr(Function<Expr, Expr> predicate) {
    try (DatasetFunction made = traced(predicate)) {
      return self().filter(made);
    }
  }

  /** The elements before the first one for which the function computes false, as in mapExpr. */
  public Dataset takeWhileExpr(Function<Expr, Expr> predicate) {
    try (DatasetFunction made = traced(predicate)) {
      return self().takeWhile(made);
    }
  }

  /**
   * As reduce, natively, as in mapExpr: the function computes of a state and an element the next
   * state, of the same dtypes and, other than in reduce, of the same shapes.
   */
  public Value reduceExpr(Object initialState, BinaryOperator<Expr> function) {
    return reduceExpr(initialState, function, null);
  }

  /** As above, waiting for at most {@code timeout}. */
  public Value reduceExpr(Object initialState, BinaryOperator<Expr> function, Duration timeout) {
    Objects.requireNonNull(function, "a function is needed, not null");
    try (Value initial = Value.ofData(initialState); Spec state = initial.spec();
         Spec element = self().elementSpec(timeout); Spec pair = Spec.tuple(state, element);
         DatasetFunction made = DatasetFunction.expression(
             x -> function.apply(x.get(0), x.get(1)), pair)) {
      return self().reduce(initial, made, timeout);
    }
  }

  // ---- datasets

  /**
   * The elements of the datasets that the function gives, one after the other, natively: it is
   * called once, now, with a placeholder. See Expr.dataset, and Expr for what is an
   * INVALID_ARGUMENT.
   */
  public Dataset flatMapExpr(Function<Expr, Dataset> function) {
    try (DatasetFunction made = tracedDataset(function)) {
      return self().flatMap(made);
    }
  }

  /** As interleave, of ten datasets, one element a visit; natively, as in flatMapExpr. */
  public Dataset interleaveExpr(Function<Expr, Dataset> function) {
    return interleaveExpr(function, null, 1, 0, null);
  }

  /** As interleave, natively, as in flatMapExpr. */
  public Dataset interleaveExpr(
      Function<Expr, Dataset> function, long cycleLength, long blockLength) {
    return interleaveExpr(function, cycleLength, blockLength, 0, null);
  }

  /** As interleave of a DatasetFunction, natively, as in flatMapExpr. */
  public Dataset interleaveExpr(Function<Expr, Dataset> function, Long cycleLength,
      long blockLength, long parallelCalls, Boolean deterministic) {
    try (DatasetFunction made = tracedDataset(function)) {
      return self().interleave(made, cycleLength, blockLength, parallelCalls, deterministic);
    }
  }

  // ---- keys

  /** A key function, which leaves the dtype that keys have in windows. */
  private DatasetFunction keys(Function<Expr, Expr> function, DType[] dtype) {
    Objects.requireNonNull(function, "a function is needed, not null");
    return traced(x -> {
      final Expr key = function.apply(x);
      if (key != null) {
        try (Spec spec = key.spec()) {
          dtype[0] = spec.dtype(0) == DType.UINT64 ? DType.UINT64 : DType.INT64;
        }
      }
      return key;
    });
  }

  /**
   * As groupByWindow, whose {@code keyFunc} runs natively, as in mapExpr; {@code reduceFunc}, which
   * gets a dataset, is called for each window.
   */
  public Dataset groupByWindowExpr(
      Function<Expr, Expr> keyFunc, WindowFunction reduceFunc, long windowSize) {
    try (DatasetFunction keys = keys(keyFunc, new DType[1]);
         DatasetFunction reduce = DatasetFunction.of(ofWindow(reduceFunc))) {
      return self().groupByWindow(keys, reduce, windowSize);
    }
  }

  /** As above, with a window size for each key, an int64 (of a uint64 that): natively, too. */
  public Dataset groupByWindowExpr(Function<Expr, Expr> keyFunc, WindowFunction reduceFunc,
      Function<Expr, Expr> windowSizeFunc) {
    Objects.requireNonNull(windowSizeFunc, "a function is needed, not null");
    final DType[] dtype = new DType[1];
    try (DatasetFunction keys = keys(keyFunc, dtype); Spec key = Spec.tensor(dtype[0]);
         DatasetFunction reduce = DatasetFunction.of(ofWindow(reduceFunc));
         DatasetFunction sizes = DatasetFunction.expression(windowSizeFunc, key)) {
      return self().groupByWindow(keys, reduce, sizes);
    }
  }

  /**
   * As groupByWindowExpr, and {@code reduceFunc} runs natively, as in flatMapExpr: it is called
   * once, with placeholders of the key, an int64 (of a uint64 that), and of the window, a dataset
   * that has elements only in what is made of it. Nothing of the program is called for a window.
   */
  public Dataset groupByWindowAllExpr(Function<Expr, Expr> keyFunc,
      BiFunction<Expr, Dataset, Dataset> reduceFunc, long windowSize) {
    Objects.requireNonNull(reduceFunc, "a function is needed, not null");
    final DType[] dtype = new DType[1];
    try (DatasetFunction keys = keys(keyFunc, dtype); Spec key = Spec.tensor(dtype[0]);
         Value windows = Value.of(self()); Spec window = windows.spec();
         Spec pair = Spec.tuple(key, window);
         DatasetFunction reduce = DatasetFunction.datasetExpression(
             x -> reduceFunc.apply(x.get(0), x.get(1).elements()), pair)) {
      return self().groupByWindow(keys, reduce, windowSize);
    }
  }

  static ElementFunction ofWindow(WindowFunction reduceFunc) {
    Objects.requireNonNull(reduceFunc, "a function is needed, not null");
    return in -> reduceFunc.apply(in.get(0), in.get(1).asDataset());
  }

  /** As bucketBySequenceLength, whose {@code elementLengthFunc} runs natively, as in mapExpr. */
  public Dataset bucketBySequenceLengthExpr(
      Function<Expr, Expr> elementLengthFunc, long[] bucketBoundaries, long[] bucketBatchSizes) {
    return bucketBySequenceLengthExpr(
        elementLengthFunc, bucketBoundaries, bucketBatchSizes, new Padding(), false, false);
  }

  /** As above, padded as bucketBySequenceLength does it. */
  public Dataset bucketBySequenceLengthExpr(Function<Expr, Expr> elementLengthFunc,
      long[] bucketBoundaries, long[] bucketBatchSizes, Padding padding,
      boolean padToBucketBoundary, boolean noPadding) {
    try (DatasetFunction length = traced(elementLengthFunc)) {
      return self().bucketBySequenceLength(length, bucketBoundaries, bucketBatchSizes, padding,
          padToBucketBoundary, noPadding);
    }
  }

  /**
   * As snapshot, in shards whose numbers {@code shardFunc} computes natively, as in mapExpr, so
   * that it needs no name; {@code options} without a shardFunc of theirs.
   */
  public Dataset snapshotExpr(
      String path, Function<Expr, Expr> shardFunc, SnapshotOptions options) {
    try (DatasetFunction shard = traced(shardFunc)) {
      return self().snapshot(path, options.shardFunc(shard));
    }
  }
}
