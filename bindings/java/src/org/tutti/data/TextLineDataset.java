package org.tutti.data;

import org.tutti.internal.Box;
import org.tutti.internal.Native;

/**
 * The lines of text files, in order, as byte strings without their ends: LF, or CR and LF; the last
 * line needs none. A CR elsewhere is part of its line. Errors at iteration name the file:
 * NOT_FOUND, DATA_LOSS of a compressed file that is truncated or corrupt.
 */
public final class TextLineDataset extends Dataset {
  private TextLineDataset(Box box) {
    super(box);
  }

  /** The lines of some files. */
  public static TextLineDataset of(String... files) {
    try (Dataset names = Dataset.fromTensorSlices(files)) {
      return of(names);
    }
  }

  /** The lines of the files that a dataset names. */
  public static TextLineDataset of(Dataset files) {
    return of(files, Compression.NONE, 0);
  }

  /** As of; bufferSize: bytes read at once, 0: the default. */
  public static TextLineDataset of(Dataset files, Compression compression, long bufferSize) {
    return of(files, compression, bufferSize, 0, null);
  }

  /** As below, without a name. */
  public static TextLineDataset of(Dataset files, Compression compression, long bufferSize,
      long parallelReads) {
    return of(files, compression, bufferSize, parallelReads, null);
  }

  /** As above, with a name for messages. parallelReads: as in TFRecordDataset. */
  public static TextLineDataset of(Dataset files, Compression compression, long bufferSize,
      long parallelReads, String name) {
    return new TextLineDataset(Box.at(Native.dataset_text_line(
        files, compression.number(), bufferSize, parallelReads, name)));
  }
}
