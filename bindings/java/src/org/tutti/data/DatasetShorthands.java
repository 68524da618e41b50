package org.tutti.data;

import java.util.List;
import org.tutti.Value;
import org.tutti.internal.Box;

/** The methods of Dataset with fewer arguments, so that nobody passes null for the others. */
abstract class DatasetShorthands extends DatasetExpressions {
  DatasetShorthands(Box box) {
    super(box);
  }

  private Dataset self() {
    return (Dataset) this;
  }

  /** As listFiles(patterns, shuffle, seed), where the runtime's seed makes the order. */
  public static Dataset listFiles(List<String> patterns, boolean shuffle) {
    return Dataset.listFiles(patterns, shuffle, null);
  }

  /** The next element of a dataset that is drawn at random, again and again, until all end. */
  public static Dataset sampleFromDatasets(List<Dataset> datasets) {
    return Dataset.sampleFromDatasets(datasets, (double[]) null, null, false, true);
  }

  /** As above; the larger a weight, the likelier its dataset; a seed makes the order repeatable. */
  public static Dataset sampleFromDatasets(List<Dataset> datasets, double[] weights, long seed) {
    return Dataset.sampleFromDatasets(datasets, weights, seed, false, true);
  }

  /** As bucketBySequenceLength with a padding, to the longest of each batch, with zeros. */
  public Dataset bucketBySequenceLength(
      ElementFunction elementLengthFunc, long[] bucketBoundaries, long[] bucketBatchSizes) {
    return self().bucketBySequenceLength(
        elementLengthFunc, bucketBoundaries, bucketBatchSizes, new Padding(), false, false);
  }

  /** As interleave(function, cycleLength, blockLength), one element a visit. */
  public Dataset interleave(ElementFunction function, long cycleLength) {
    return interleave(function, cycleLength, 1);
  }

  /**
   * The elements of the datasets that the function gives, of {@code cycleLength} of them in turn,
   * {@code blockLength} a visit.
   */
  public Dataset interleave(ElementFunction function, long cycleLength, long blockLength) {
    return self().interleave(function, Long.valueOf(cycleLength), blockLength);
  }

  /** As interleave, with a function that is not a lambda: ten datasets, one element a visit. */
  public Dataset interleave(DatasetFunction function) {
    return self().interleave(function, null, 1, 0, null);
  }

  /** As interleave, with a function that is not a lambda. */
  public Dataset interleave(DatasetFunction function, long cycleLength, long blockLength) {
    return interleave(function, cycleLength, blockLength, 0);
  }

  /** As above, with threads: 0 is the iterating one; Dataset.AUTOTUNE is possible. */
  public Dataset interleave(
      DatasetFunction function, long cycleLength, long blockLength, long parallelCalls) {
    return self().interleave(function, cycleLength, blockLength, parallelCalls, null);
  }

  /** As groupByWindow, with functions that are not lambdas. */
  public Dataset groupByWindow(
      DatasetFunction keyFunc, DatasetFunction reduceFunc, long windowSize) {
    return self().groupByWindow(keyFunc, reduceFunc, Long.valueOf(windowSize), null);
  }

  /** As above, with a window size for each key. */
  public Dataset groupByWindow(
      DatasetFunction keyFunc, DatasetFunction reduceFunc, DatasetFunction windowSizeFunc) {
    return self().groupByWindow(keyFunc, reduceFunc, null, windowSizeFunc);
  }

  /** As paddedBatch(batchSize), where the last batch is dropped if it is smaller. */
  public Dataset paddedBatch(long batchSize, boolean dropRemainder) {
    return self().paddedBatch(batchSize, null, null, dropRemainder);
  }

  /** As paddedBatch, otherwise: {@code paddedBatch(32, new Padding().values(-1L))}. */
  public Dataset paddedBatch(long batchSize, Padding padding) {
    return self().paddedBatch(
        batchSize, padding.shapes(), padding.values(), padding.dropRemainder());
  }

  /** As reduce, with a function of pairs of state and element that is not a lambda. */
  public Value reduce(Object initialState, DatasetFunction function) {
    return self().reduce(initialState, function, null);
  }

  /** As shuffle, of which reshuffle false is the same order in each iteration. */
  public Dataset shuffle(long bufferSize, boolean reshuffle) {
    return self().shuffle(bufferSize, null, reshuffle);
  }

  /** As above, in the order that the seed gives. */
  public Dataset shuffle(long bufferSize, long seed, boolean reshuffle) {
    return self().shuffle(bufferSize, Long.valueOf(seed), Boolean.valueOf(reshuffle));
  }

  /** As shuffleAndRepeat, in the order that the runtime's seed gives. */
  public Dataset shuffleAndRepeat(long bufferSize, long count) {
    return self().shuffleAndRepeat(bufferSize, count, null);
  }

  /** As above, in the order that the seed gives. */
  public Dataset shuffleAndRepeat(long bufferSize, long count, long seed) {
    return self().shuffleAndRepeat(bufferSize, count, Long.valueOf(seed));
  }

  /** As snapshot(path), compressed as "GZIP", "SNAPPY", "AUTO" or "NONE" says. */
  public Dataset snapshot(String path, String compression) {
    return self().snapshot(path, compression, null, null);
  }

  /** As snapshot(path), compressed, sharded and read as the options say. */
  public Dataset snapshot(String path, SnapshotOptions options) {
    return self().snapshot(
        path, options.compression(), options.readerFunc(), options.shardFunc());
  }

  /** As window of four arguments, one window behind the other, of elements in a row. */
  public Dataset window(long size, boolean dropRemainder) {
    return self().window(size, null, 1, dropRemainder);
  }

  /** As window of four arguments, of elements in a row, with smaller windows at the end. */
  public Dataset window(long size, long shift) {
    return window(size, shift, 1, false);
  }

  /** Windows of {@code size} elements, each {@code stride} apart, every {@code shift} elements. */
  public Dataset window(long size, long shift, long stride, boolean dropRemainder) {
    return self().window(size, Long.valueOf(shift), stride, dropRemainder);
  }
}
