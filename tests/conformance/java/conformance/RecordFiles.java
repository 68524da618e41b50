package conformance;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.tutti.data.TFRecordWriter;

/**
 * TFRecord files, one for each list of numbers. The same lists give the same files, also to several
 * workers at once, for which files decide who reads what.
 */
final class RecordFiles {
  private static final Map<List<?>, String[]> MADE = new HashMap<>();
  private static Path folder;

  private RecordFiles() {}

  static synchronized String[] of(List<?> lists) {
    return MADE.computeIfAbsent(lists, RecordFiles::write);
  }

  private static String[] write(List<?> lists) {
    try {
      if (folder == null) {
        folder = Files.createTempDirectory("tutti-conformance-");
      }
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
    final List<String> paths = new ArrayList<>();
    for (final Object list : lists) {
      final String path = folder.resolve(MADE.size() + "-" + paths.size()).toString();
      try (TFRecordWriter writer = new TFRecordWriter(path)) {
        for (final Object number : (List<?>) list) {
          writer.write(ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN)
              .putLong((Long) number).array());
        }
      }
      paths.add(path);
    }
    return paths.toArray(new String[0]);
  }

  /** The number of a record. */
  static long numberOf(byte[] record) {
    return ByteBuffer.wrap(record).order(ByteOrder.LITTLE_ENDIAN).getLong();
  }

  /** Removes what was written. */
  static synchronized void remove() throws IOException {
    for (final String[] paths : MADE.values()) {
      for (final String path : paths) {
        Files.deleteIfExists(new File(path).toPath());
      }
    }
    if (folder != null) {
      Files.deleteIfExists(folder);
    }
  }
}
