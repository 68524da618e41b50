package conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
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
  private int count; // of files and folders that were made

  /**
   * A tree of ops with the paths of its files in the place of their contents, a {@code database}
   * being a file, too. {@code records} says what numbers are in its files, which RecordFiles
   * writes.
   */
  Object withPaths(Object tree) {
    if (tree instanceof Fields fields) {
      final Map<String, Object> made = new LinkedHashMap<>();
      fields.all().forEach((name, part) -> made.put(name, switch (name) {
        case "files" -> part;
        case "database" -> file(part);
        default -> withPaths(part);
      }));
      if (fields.has("files") && fields.get("op").equals("list_files")) {
        made.put("file_pattern",
            patterns((Fields) made.remove("files"), fields.get("file_pattern")));
      } else if (fields.has("files") && !fields.get("op").equals("records")) {
        made.put("files", fields.list("files").stream().map(this::file).toList());
      }
      return new Fields(made);
    }
    if (tree instanceof List<?> list) {
      final List<Object> made = new ArrayList<>(); // of what may be null
      list.forEach(part -> made.add(withPaths(part)));
      return made;
    }
    return isPath(tree) ? pathOf(((String) tree).substring(2)) : tree;
  }

  private static boolean isPath(Object text) {
    return text instanceof String path && path.startsWith("@/");
  }

  // A file with these contents; "@/x" is a path.
  private String file(Object contents) {
    if (isPath(contents)) {
      return pathOf(((String) contents).substring(2));
    }
    final String path = newPath();
    write(Path.of(path), contents);
    return path;
  }

  // Patterns in a folder of files by name.
  private List<String> patterns(Fields files, Object patterns) {
    final Path made = Path.of(newPath());
    try {
      Files.createDirectory(made);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
    files.all().forEach((name, contents) -> write(made.resolve(name), contents));
    final List<?> all = patterns instanceof List<?> list ? list : List.of(patterns);
    return all.stream().map(pattern -> made + "/" + pattern).toList();
  }

  // Contents are a text, or {"hex": bytes}.
  private static void write(Path path, Object contents) {
    try {
      Files.write(path, contents instanceof String text
              ? text.getBytes(StandardCharsets.UTF_8)
              : HexFormat.of().parseHex(((Fields) contents).text("hex")));
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  private String newPath() {
    return pathOf("made-" + ++count);
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
