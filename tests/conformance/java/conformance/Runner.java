package conformance;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.tutti.TuttiException;

/**
 * Runs the conformance vectors through the Java package.
 *
 * <p>The folder of the vectors is the argument, else TUTTI_CONFORMANCE_DIR, else the property
 * conformance.vectors. Prints each failure, the names of the cases that are not covered (those that
 * name an op, a function or a field that is not known here), and one line of totals. Exits non-zero
 * when a case fails or none passes.
 */
public final class Runner {
  private static final Map<String, Consumer<Fields>> FILES = Map.of("dataset", DatasetCases::run,
      "dataset_ops", DatasetCases::run, "dataset_own", DatasetCases::run, "distribute",
      StrategyCases::runDistribute, "reduce", StrategyCases::runReduce, "values",
      StrategyCases::runValues, "values_own", StrategyCases::runValues, "device_spec",
      DeviceSpecCases::run, "debugging", DebuggingCases::run, "debugging_own",
      DebuggingCases::run);

  private final List<String> notCovered = new ArrayList<>();
  private int passed;
  private int failed;

  private Runner() {}

  /** Wants the error of a case, {"error": CODE, "message_names": [...]}. */
  static void expectError(Fields expected, Runnable body) {
    expected.known("error", "message_names");
    try {
      body.run();
    } catch (TuttiException error) {
      Mismatch.check(error.code().name().equals(expected.get("error")), expected, error);
      if (expected.has("message_names")) {
        for (final Object name : expected.list("message_names")) {
          Mismatch.check(
              error.getMessage().contains((String) name), "the message to name " + name, error);
        }
      }
      return;
    }
    throw new Mismatch("expected " + expected + ", found no error");
  }

  private void runFile(Path path) throws IOException {
    final String kind = path.getFileName().toString().replaceAll("\\.json$", "");
    for (final Object test : (List<?>) Json.read(Files.readString(path))) {
      final String name = kind + "." + ((Fields) test).text("name");
      try {
        if (!FILES.containsKey(kind)) {
          throw new NotCovered(path.getFileName().toString());
        }
        FILES.get(kind).accept((Fields) test);
        ++passed;
      } catch (NotCovered reason) {
        notCovered.add(name + " (" + reason.getMessage() + ")");
      } catch (RuntimeException error) { // a case that fails in any way must not end the others
        ++failed;
        System.out.println("FAILED " + name + ": " + error);
      }
    }
  }

  /** The one of the shell. */
  public static void main(String[] arguments) throws IOException {
    final String variable = System.getenv("TUTTI_CONFORMANCE_DIR");
    final Path folder = Path.of(arguments.length > 0 ? arguments[0]
        : variable != null && !variable.isEmpty() ? variable
        : System.getProperty("conformance.vectors"));
    final TreeSet<Path> paths = new TreeSet<>();
    try (DirectoryStream<Path> found = Files.newDirectoryStream(folder, "*.json")) {
      found.forEach(paths::add);
    }
    if (paths.isEmpty()) {
      System.err.println("conformance Java: there are no vectors in " + folder);
      System.exit(1);
    }
    final Runner runner = new Runner();
    try {
      for (final Path path : paths) {
        runner.runFile(path);
      }
    } finally {
      RecordFiles.remove();
    }
    runner.notCovered.forEach(name -> System.out.println("not covered: " + name));
    System.out.printf("conformance Java: %d passed, %d not covered, %d failed%n", runner.passed,
        runner.notCovered.size(), runner.failed);
    if (Traced.WANTED) {
      System.out.println(Traced.made + " functions as expressions");
    }
    if (runner.failed > 0 || runner.passed == 0 || (Traced.WANTED && Traced.made == 0)) {
      System.exit(1);
    }
  }
}
