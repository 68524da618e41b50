package org.tutti.data;

import org.tutti.internal.Box;
import org.tutti.internal.Native;

/** Records of equally many bytes each, as byte strings. */
public final class FixedLengthRecordDataset extends Dataset {
  private FixedLengthRecordDataset(Box box) {
    super(box);
  }

  /** The records of the files that a dataset names. */
  public static FixedLengthRecordDataset of(Dataset files, long recordBytes) {
    return of(files, recordBytes, 0, 0, Compression.NONE, 0);
  }

  /** As of; header and footer of each file are skipped. */
  public static FixedLengthRecordDataset of(Dataset files, long recordBytes, long headerBytes,
      long footerBytes, Compression compression, long bufferSize) {
    return of(files, recordBytes, headerBytes, footerBytes, compression, bufferSize, null);
  }

  /** As above, with a name for messages. */
  public static FixedLengthRecordDataset of(Dataset files, long recordBytes, long headerBytes,
      long footerBytes, Compression compression, long bufferSize, String name) {
    return of(files, recordBytes, headerBytes, footerBytes, compression, bufferSize, 0, name);
  }

  /** As below, without a name. */
  public static FixedLengthRecordDataset of(Dataset files, long recordBytes, long headerBytes,
      long footerBytes, Compression compression, long bufferSize, long parallelReads) {
    return of(files, recordBytes, headerBytes, footerBytes, compression, bufferSize, parallelReads,
        null);
  }

  /** As above. parallelReads: as in TFRecordDataset. */
  public static FixedLengthRecordDataset of(Dataset files, long recordBytes, long headerBytes,
      long footerBytes, Compression compression, long bufferSize, long parallelReads,
      String name) {
    return new FixedLengthRecordDataset(
        Box.at(Native.dataset_fixed_length_record(files, recordBytes, compression.number(),
            headerBytes, footerBytes, bufferSize, parallelReads, name)));
  }
}
