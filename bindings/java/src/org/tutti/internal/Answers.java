package org.tutti.internal;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.distribute.ClusterResolver;
import org.tutti.distribute.ClusterSpec;

/** A function of the program's that resolvers of the library ask with texts. */
public final class Answers extends Callback {
  /** Gives a text for the words of a question; null: nothing. */
  @FunctionalInterface
  public interface Function {
    /** The answer. */
    String answer(List<String> question) throws Exception;
  }

  private final Function function;
  private volatile Throwable thrown;

  /** Of that function. */
  public Answers(Function function) {
    this.function = function;
  }

  /** Of a resolver that the user wrote. */
  static Answers of(ClusterResolver resolver) {
    return new Answers(question -> answerOf(resolver, question));
  }

  @Override
  public long call(int kind, long context, long in) throws Throwable {
    final String text;
    try (Value question = Makers.value(Box.at(in))) {
      text = function.answer(question.asList().stream().map(Value::stringValue).toList());
    } catch (Exception own) {
      thrown = own;
      throw own;
    }
    if (text == null) {
      return 0;
    }
    try (Value value = Value.of(text)) {
      return Native.value_retain(value);
    }
  }

  /** What the function threw, where that is what the library failed with; else {@code failed}. */
  RuntimeException unwrapped(TuttiException failed) {
    return thrown instanceof RuntimeException own && failed.getCause() == own ? own : failed;
  }

  private static String answerOf(ClusterResolver resolver, List<String> question) {
    final String type = textOrNull(question.get(1));
    final Long id = question.get(2).isEmpty() ? null : Long.valueOf(question.get(2));
    return switch (question.get(0)) {
      case "cluster_spec" -> specOf(resolver);
      case "task_type" -> resolver.taskType();
      case "task_id" -> resolver.taskId() == null ? null : resolver.taskId().toString();
      case "rpc_layer" -> resolver.rpcLayer();
      case "environment" -> resolver.environment();
      case "num_accelerators" -> json(resolver.accelerators(type, id, null));
      default -> null; // the master, which the library makes of the rest
    };
  }

  private static String specOf(ClusterResolver resolver) {
    final ClusterSpec spec = resolver.clusterSpec();
    if (spec == null) {
      throw new NullPointerException(
          "clusterSpec() of the cluster resolver gave null; a ClusterSpec is needed");
    }
    return spec.toString();
  }

  private static String textOrNull(String text) {
    return text.isEmpty() ? null : text;
  }

  /** Numbers by types of devices as the library reads them; null for null. */
  public static String json(Map<String, Long> counts) {
    return counts == null ? null
        : counts.entrySet().stream()
            .map(entry -> quoted(entry.getKey()) + ": " + entry.getValue())
            .collect(Collectors.joining(", ", "{", "}"));
  }

  /** The text as JSON has it. */
  public static String quoted(String text) {
    return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }
}
