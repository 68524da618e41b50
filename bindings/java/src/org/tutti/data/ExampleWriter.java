package org.tutti.data;

import java.util.Map;
import org.tutti.Value;
import org.tutti.internal.Bridge;
import org.tutti.internal.Loader;
import org.tutti.internal.Native;

/**
 * Writes a TFRecord file of tf.train.Examples; overwrites it. What is said of TFRecordWriter holds
 * here, too. Threads: one at a time.
 *
 * <pre>{@code
 * try (var examples = new ExampleWriter("train.tfrecord")) {
 *   examples.write(Map.of("image", pixels, "label", 7L));
 * }
 * }</pre>
 */
public final class ExampleWriter implements AutoCloseable {
  private final TFRecordWriter records;

  /** A file without compression. */
  public ExampleWriter(String path) {
    records = new TFRecordWriter(path);
  }

  /** A file with one. */
  public ExampleWriter(String path, Compression compression) {
    records = new TFRecordWriter(path, compression);
  }

  /**
   * A serialised tf.train.Example, which DatasetFunction.parseExample reads and every other program
   * that knows the format. features: what Value.ofData makes a tensor of, for each name. Integers
   * and booleans become an int64_list, floats a float_list, byte strings and texts a bytes_list,
   * with the elements in row-major order. Equal features give equal bytes. INVALID_ARGUMENT, with
   * the detail "key", for anything else.
   */
  public static byte[] makeExample(Map<String, ?> features) {
    Loader.load();
    try (Value value = Value.ofData(features)) {
      return Bridge.bytes(Native.example_create(value));
    }
  }

  /** Writes one example, as makeExample makes it. */
  public void write(Map<String, ?> features) {
    try (Value value = Value.ofData(features)) {
      Native.record_writer_write_example(records, value);
    }
  }

  /** Closes without the new file: what stood there before stays. */
  public void abandon() {
    records.abandon();
  }

  /** Flushes, syncs and closes; after an error what stood there before stays. */
  @Override
  public void close() {
    records.close();
  }
}
