package org.tutti.data;

/**
 * How Dataset.snapshot writes and reads: {@code new SnapshotOptions().compression("GZIP")}.
 *
 * @param compression "AUTO", which is SNAPPY, "GZIP", "SNAPPY" or "NONE"
 * @param readerFunc makes of a dataset of datasets, one of each shard, what is read; null: one
 *     element of each shard in turn
 * @param shardFunc gives for each element the number of its shard; null: all are in one
 */
public record SnapshotOptions(
    String compression, DatasetFunction readerFunc, DatasetFunction shardFunc) {
  /** As the library chooses, in one shard. */
  public SnapshotOptions() {
    this("AUTO", null, null);
  }

  /** The same, compressed otherwise. */
  public SnapshotOptions compression(String other) {
    return new SnapshotOptions(other, readerFunc, shardFunc);
  }

  /** The same, read otherwise. */
  public SnapshotOptions readerFunc(DatasetFunction reader) {
    return new SnapshotOptions(compression, reader, shardFunc);
  }

  /** The same, in several shards. */
  public SnapshotOptions shardFunc(DatasetFunction shard) {
    return new SnapshotOptions(compression, readerFunc, shard);
  }
}
