package org.tutti.internal;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * Finds and loads libtutti and the JNI library: in the directory that the property
 * org.tutti.library.path names, else in java.library.path, else in the jar.
 */
public final class Loader {
  /** The property that names the directory of both libraries. */
  public static final String PROPERTY = "org.tutti.library.path";

  private static final String LIBRARY = "libtutti.so.0";
  private static final String BRIDGE = "libtutti_java.so";

  private static boolean loaded;

  private Loader() {}

  /** Loads the libraries once. */
  public static synchronized void load() {
    if (loaded) {
      return;
    }
    final String directory = System.getProperty(PROPERTY);
    if (directory != null) {
      loadFrom(Path.of(directory).toAbsolutePath());
    } else if (!loadFromLibraryPath() && !loadFromJar()) {
      throw new MissingLibrary().notHere(platform());
    }
    loaded = true;
    Bridge.shutDownAtExit();
  }

  private static String platform() {
    return System.getProperty("os.name").toLowerCase().replaceAll("\\s", "") + "-"
        + System.getProperty("os.arch").replace("amd64", "x86_64");
  }

  private static void loadFrom(Path directory) {
    final Path library = directory.resolve(LIBRARY);
    try {
      if (Files.exists(library)) {
        System.load(library.toString());
      }
      System.load(directory.resolve(BRIDGE).toString());
    } catch (UnsatisfiedLinkError failed) {
      throw new MissingLibrary().explain(failed);
    }
  }

  private static boolean loadFromLibraryPath() {
    for (final String entry : System.getProperty("java.library.path", "").split(":")) {
      final Path directory = Path.of(entry).toAbsolutePath();
      if (!entry.isEmpty() && Files.exists(directory.resolve(BRIDGE))) {
        loadFrom(directory);
        return true;
      }
    }
    return false;
  }

  // The loader maps files, so they are unpacked into a directory of this process, which is emptied
  // as soon as they are mapped.
  private static boolean loadFromJar() {
    final String folder = "/org/tutti/native/" + platform() + "/";
    if (Loader.class.getResource(folder + BRIDGE) == null) {
      return false;
    }
    try {
      final Path directory = Files.createTempDirectory("tutti-java");
      try {
        for (final String name : new String[] {LIBRARY, BRIDGE}) {
          try (InputStream packed = Loader.class.getResourceAsStream(folder + name)) {
            if (packed != null) {
              Files.copy(packed, directory.resolve(name), StandardCopyOption.REPLACE_EXISTING);
            }
          }
        }
        loadFrom(directory);
      } finally {
        Files.deleteIfExists(directory.resolve(LIBRARY));
        Files.deleteIfExists(directory.resolve(BRIDGE));
        Files.deleteIfExists(directory);
      }
      return true;
    } catch (IOException failed) {
      final UnsatisfiedLinkError error =
          new UnsatisfiedLinkError("tutti's libraries could not be unpacked: " + failed);
      error.initCause(failed);
      throw error;
    }
  }
}
