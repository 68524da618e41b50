package org.tutti.data;

import org.tutti.internal.Box;
import org.tutti.internal.Native;

/**
 * The records of TFRecord files, in order, as byte strings. Errors at iteration name file, offset
 * and record index: NOT_FOUND, DATA_LOSS.
 */
public final class TFRecordDataset extends Dataset {
  private TFRecordDataset(Box box) {
    super(box);
  }

  /** The records of some files. */
  public static TFRecordDataset of(String... files) {
    try (Dataset names = Dataset.fromTensorSlices(files)) {
      return of(names);
    }
  }

  /** The records of the files that a dataset names. */
  public static TFRecordDataset of(Dataset files) {
    return of(files, Compression.NONE, 0);
  }

  /** As of; bufferSize: bytes read at once, 0: the default. */
  public static TFRecordDataset of(Dataset files, Compression compression, long bufferSize) {
    return of(files, compression, bufferSize, null);
  }

  /** As above, with a name for messages. */
  public static TFRecordDataset of(
      Dataset files, Compression compression, long bufferSize, String name) {
    return of(files, compression, bufferSize, 0, name);
  }

  /** As below, without a name. */
  public static TFRecordDataset of(Dataset files, Compression compression, long bufferSize,
      long parallelReads) {
    return of(files, compression, bufferSize, parallelReads, null);
  }

  /**
   * As above. parallelReads: n &gt; 1 reads so many files at a time, ahead and on threads, and
   * gives their records in turn, as interleave with that cycle length does over the files;
   * AUTOTUNE: 10 files.
   */
  public static TFRecordDataset of(Dataset files, Compression compression, long bufferSize,
      long parallelReads, String name) {
    return new TFRecordDataset(Box.at(Native.dataset_tf_record(
        files, compression.number(), bufferSize, parallelReads, name)));
  }
}
