package org.tutti.data;

import java.time.Duration;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * Writes a TFRecord file; overwrites it. close() gives the file its name, also behind a
 * try-with-resources that an exception leaves: call abandon() where the file must be whole or not
 * be. Threads: one at a time.
 *
 * <p>In a function that gives a dataset to flatMap, interleave or groupByWindow nothing is written
 * yet: a writer that is made there notes the datasets that it is given, and the files are written,
 * each whole or not at all, before the dataset that the function gives has its first element; where
 * one cannot be written, that element has failed. elementSpec writes nothing. An iterator that is
 * restored behind the first element writes nothing either, one from before it the same files again.
 * In other functions of datasets it is FAILED_PRECONDITION.
 */
public final class TFRecordWriter extends NativeObject implements AutoCloseable {
  /** A file without compression. */
  public TFRecordWriter(String path) {
    this(path, Compression.NONE, null);
  }

  /** A file with a compression, at its default level. */
  public TFRecordWriter(String path, Compression compression) {
    this(path, compression, null);
  }

  /** A file with a compression at a level from 0 to 9. */
  public TFRecordWriter(String path, Compression compression, int level) {
    this(path, compression, Long.valueOf(level));
  }

  private TFRecordWriter(String path, Compression compression, Long level) {
    super(Box.at(Native.record_writer_create(path, compression.number(), level)));
  }

  /** Writes one record. */
  public void write(byte[] record) {
    Native.record_writer_write(this, record);
  }

  /** Writes every element of a dataset of byte-string scalars. */
  public void write(Dataset dataset) {
    write(dataset, null);
  }

  /** As above, for at most {@code timeout}. */
  public void write(Dataset dataset, Duration timeout) {
    Native.record_writer_write_dataset(this, dataset, Bridge.nanos(timeout));
  }

  /** Closes without the new file: what stood there before stays. */
  public void abandon() {
    if (!isClosed()) {
      try {
        Native.record_writer_abandon(this);
      } finally {
        release();
      }
    }
  }

  /** Flushes, syncs and closes; after an error what stood there before stays. */
  @Override
  public void close() {
    if (!isClosed()) {
      try {
        Native.record_writer_close(this);
      } finally {
        release();
      }
    }
  }
}
