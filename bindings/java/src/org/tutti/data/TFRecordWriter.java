package org.tutti.data;

import java.time.Duration;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/** Writes a TFRecord file; overwrites it. Threads: one at a time. */
public final class TFRecordWriter extends NativeObject implements AutoCloseable {
  /** A file without compression. */
  public TFRecordWriter(String path) {
    this(path, Compression.NONE, null);
  }

  /** A file; level null: the default. */
  public TFRecordWriter(String path, Compression compression, Long level) {
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

  /** As above, for at most `timeout`. */
  public void write(Dataset dataset, Duration timeout) {
    Native.record_writer_write_dataset(this, dataset, Bridge.nanos(timeout));
  }

  /** Flushes, syncs and closes; an error means that the file may be incomplete. */
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
