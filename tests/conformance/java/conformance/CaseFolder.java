package conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * The folder of one case: "@/x" in a case is the file x in it. It is made when the first path in it
 * is asked for, and removed with all that is in it.
 */
final class CaseFolder implements AutoCloseable {
  private Path folder;
  private int databases;

  /**
   * A tree of ops with the paths of its files. `files` are contents, and stay as they are; a
   * `database` is written, and becomes the path of that file.
   */
  Object withPaths(Object tree) {
    if (tree instanceof Fields fields) {
      final Map<String, Object> made = new LinkedHashMap<>();
      fields.all().forEach((name, part) -> made.put(name, switch (name) {
        case "files" -> part;
        case "database" -> writeDatabase((Fields) part);
        default -> withPaths(part);
      }));
      return new Fields(made);
    }
    if (tree instanceof List<?> list) {
      final List<Object> made = new ArrayList<>(); // of what may be null
      list.forEach(part -> made.add(withPaths(part)));
      return made;
    }
    return tree instanceof String text && text.startsWith("@/") ? pathOf(text.substring(2)) : tree;
  }

  private String pathOf(String name) {
    try {
      if (folder == null) {
        folder = Files.createTempDirectory("tutti-conformance-case-");
      }
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
    return folder.resolve(name).toString();
  }

  private String writeDatabase(Fields contents) {
    final Path path = Path.of(pathOf("database-" + databases++));
    try {
      Files.write(path, HexFormat.of().parseHex(contents.text("hex")));
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
    return path.toString();
  }

  @Override
  public void close() {
    if (folder == null) {
      return;
    }
    try (Stream<Path> found = Files.walk(folder)) {
      for (final Path path : found.sorted(Comparator.reverseOrder()).toList()) {
        Files.deleteIfExists(path);
      }
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }
}
