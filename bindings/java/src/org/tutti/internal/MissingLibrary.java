package org.tutti.internal;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Says why tutti's libraries cannot be loaded here, and what to do. They are linked to the
 * libraries of one distribution; the jar that carries them has a file which says of which, and
 * which package each library comes from. Without that file the messages say less.
 */
final class MissingLibrary {
  private static final String FACTS = "/org/tutti/native/needed-packages";
  private static final Pattern NO_FILE =
      Pattern.compile("([^\\s/:]+\\.so[.\\d]*): cannot open shared object file");
  private static final Pattern NO_VERSION = Pattern.compile("(\\S+): version `([^']+)' not found");

  private final Map<String, String> facts = new HashMap<>();
  private final Map<String, String> packages = new HashMap<>();
  private final List<String> wanted = new ArrayList<>();

  MissingLibrary() {
    try (InputStream file = MissingLibrary.class.getResourceAsStream(FACTS)) {
      if (file != null) {
        final BufferedReader lines =
            new BufferedReader(new InputStreamReader(file, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
          read(line);
        }
      }
    } catch (IOException unreadable) {
      facts.clear(); // the messages say less
    }
  }

  private void read(String line) {
    final String[] words = line.split(" ", 3);
    if (words[0].equals("needs") || words[0].equals("behind")) {
      final String from = words.length == 3 ? words[2] : "";
      packages.put(words[1], from);
      if (words[0].equals("needs") && !from.isEmpty() && !wanted.contains(from)) {
        wanted.add(from);
      }
    } else {
      facts.put(words[0], line.substring(words[0].length()).strip());
    }
  }

  /**
   * Returns the error in the place of the loader's: the reason, where it is one of the known ones.
   */
  UnsatisfiedLinkError explain(UnsatisfiedLinkError error) {
    final String text = String.valueOf(error.getMessage());
    final Matcher file = NO_FILE.matcher(text);
    final Matcher version = NO_VERSION.matcher(text);
    final String reason;
    if (file.find()) {
      final String from = packages.getOrDefault(file.group(1), "");
      if (!from.isEmpty() && !wanted.contains(from)) {
        wanted.add(from);
      }
      final String source =
          from.isEmpty() ? "" : "; it comes in the package " + from + " of " + facts.get("system");
      reason = "tutti needs the library " + file.group(1) + ", which is missing" + source;
    } else if (version.find()) {
      reason = "tutti needs " + version.group(2) + " of " + version.group(1)
          + ", which is older here";
    } else {
      return error;
    }
    final UnsatisfiedLinkError explained = new UnsatisfiedLinkError(reason + ". " + nextStep());
    explained.initCause(error);
    return explained;
  }

  /** The error where the jar has nothing for this machine. */
  UnsatisfiedLinkError notHere(String platform) {
    final String carried = facts.get("platform");
    final String jar = carried == null
        ? "the jar carries none"
        : "the jar carries those for " + carried;
    return new UnsatisfiedLinkError("tutti's libraries for " + platform + " were not found: " + jar
        + ", and java.library.path has none. Take a jar that was built for " + platform
        + ", or name the directory of both libraries with -D" + Loader.PROPERTY + "=...");
  }

  private String nextStep() {
    final String here = thisSystem();
    final String builtFor = facts.get("system");
    if (builtFor == null || (builtFor.equals(here) && wanted.isEmpty())) {
      return "This is " + here + "; install the package that has it.";
    }
    if (builtFor.equals(here)) {
      return "Install what tutti needs: apt-get install " + String.join(" ", wanted);
    }
    return "This tutti was built for " + builtFor + ", and this is " + here
        + ": take a jar that was built for it, or build one here from the sources, or use a "
        + "container of " + builtFor + ".";
  }

  private static String thisSystem() {
    try {
      for (final String line : Files.readAllLines(Path.of("/etc/os-release"))) {
        if (line.startsWith("PRETTY_NAME=")) {
          return line.substring("PRETTY_NAME=".length()).replace("\"", "");
        }
      }
    } catch (IOException unknown) {
      return System.getProperty("os.name");
    }
    return System.getProperty("os.name");
  }
}
