package org.tutti;

import java.util.List;
import java.util.function.Predicate;
import org.tutti.internal.Bridge;
import org.tutti.internal.Loader;
import org.tutti.internal.Native;

/**
 * Assertions about tensors, and checks that no NaN or infinity goes unseen.
 *
 * <p>What is asserted about is anything that {@link Value#ofData} takes: tensors, numbers, arrays,
 * variables (every copy), per-replica values (every component) and structures of them. An assertion
 * that does not hold is INVALID_ARGUMENT: {@code message} (null: none) comes first, then what does
 * not hold at which index, then the first {@code summarize} elements of the tensors (0: three,
 * negative: all). Assertions about elements compare by broadcasting and hold where there are none.
 * They may be called in functions of datasets and of replicas. Threads: any.
 */
public final class Debugging {
  static {
    Loader.load();
  }

  // The numbers of the library.
  private static final int EQUAL = 1;
  private static final int NONE_EQUAL = 2;
  private static final int LESS = 3;
  private static final int LESS_EQUAL = 4;
  private static final int GREATER = 5;
  private static final int GREATER_EQUAL = 6;
  private static final int NEAR = 7;
  private static final int POSITIVE = 1;
  private static final int NEGATIVE = 2;
  private static final int NON_POSITIVE = 3;
  private static final int NON_NEGATIVE = 4;
  private static final int ALL_FINITE = 5;
  private static final int NUMERICS = 6;
  private static final int INTEGER = 7;
  private static final int SCALAR = 8;
  private static final int RANK_EQUAL = 1;
  private static final int RANK_AT_LEAST = 2;
  private static final int RANK_IN = 3;

  private Debugging() {}

  private static void compare(
      int comparison, Object x, Object y, String message, int summarize, Object rtol, Object atol) {
    try (Value left = Value.ofData(x); Value right = Value.ofData(y);
         Value relative = rtol == null ? null : Value.ofData(rtol);
         Value absolute = atol == null ? null : Value.ofData(atol)) {
      Native.debugging_assert_compare(comparison, left, right, message, summarize,
          relative == null ? null : relative.asTensor(),
          absolute == null ? null : absolute.asTensor());
    }
  }

  private static void condition(int condition, Object x, String message, int summarize) {
    try (Value value = Value.ofData(x)) {
      Native.debugging_assert_condition(condition, value, message, summarize);
    }
  }

  private static void rank(int relation, Object x, String message, long... ranks) {
    try (Value value = Value.ofData(x)) {
      Native.debugging_assert_rank(relation, value, ranks, message, 0);
    }
  }

  /** x == y at every element; a NaN is equal to nothing. Any dtype, the same of both. */
  public static void assertEqual(Object x, Object y) {
    assertEqual(x, y, null, 0);
  }

  /** As assertEqual, with what its error says first. */
  public static void assertEqual(Object x, Object y, String message) {
    assertEqual(x, y, message, 0);
  }

  /** As assertEqual, with what its error says first and shows. */
  public static void assertEqual(Object x, Object y, String message, int summarize) {
    compare(EQUAL, x, y, message, summarize, null, null);
  }

  /** x != y at every element. Any dtype, the same of both. */
  public static void assertNoneEqual(Object x, Object y) {
    assertNoneEqual(x, y, null, 0);
  }

  /** As assertNoneEqual, with what its error says first. */
  public static void assertNoneEqual(Object x, Object y, String message) {
    assertNoneEqual(x, y, message, 0);
  }

  /** As assertNoneEqual, with what its error says first and shows. */
  public static void assertNoneEqual(Object x, Object y, String message, int summarize) {
    compare(NONE_EQUAL, x, y, message, summarize, null, null);
  }

  /** x &lt; y at every element, of integers or floats of one dtype. */
  public static void assertLess(Object x, Object y) {
    assertLess(x, y, null, 0);
  }

  /** As assertLess, with what its error says first. */
  public static void assertLess(Object x, Object y, String message) {
    assertLess(x, y, message, 0);
  }

  /** As assertLess, with what its error says first and shows. */
  public static void assertLess(Object x, Object y, String message, int summarize) {
    compare(LESS, x, y, message, summarize, null, null);
  }

  /** x &lt;= y at every element, of integers or floats of one dtype. */
  public static void assertLessEqual(Object x, Object y) {
    assertLessEqual(x, y, null, 0);
  }

  /** As assertLessEqual, with what its error says first. */
  public static void assertLessEqual(Object x, Object y, String message) {
    assertLessEqual(x, y, message, 0);
  }

  /** As assertLessEqual, with what its error says first and shows. */
  public static void assertLessEqual(Object x, Object y, String message, int summarize) {
    compare(LESS_EQUAL, x, y, message, summarize, null, null);
  }

  /** x &gt; y at every element, of integers or floats of one dtype. */
  public static void assertGreater(Object x, Object y) {
    assertGreater(x, y, null, 0);
  }

  /** As assertGreater, with what its error says first. */
  public static void assertGreater(Object x, Object y, String message) {
    assertGreater(x, y, message, 0);
  }

  /** As assertGreater, with what its error says first and shows. */
  public static void assertGreater(Object x, Object y, String message, int summarize) {
    compare(GREATER, x, y, message, summarize, null, null);
  }

  /** x &gt;= y at every element, of integers or floats of one dtype. */
  public static void assertGreaterEqual(Object x, Object y) {
    assertGreaterEqual(x, y, null, 0);
  }

  /** As assertGreaterEqual, with what its error says first. */
  public static void assertGreaterEqual(Object x, Object y, String message) {
    assertGreaterEqual(x, y, message, 0);
  }

  /** As assertGreaterEqual, with what its error says first and shows. */
  public static void assertGreaterEqual(Object x, Object y, String message, int summarize) {
    compare(GREATER_EQUAL, x, y, message, summarize, null, null);
  }

  /**
   * |x - y| &lt; atol + rtol * |y| at every element, of floats or complex numbers of one dtype;
   * both tolerances are 10 times the distance from 1 to the next number of that dtype.
   */
  public static void assertNear(Object x, Object y) {
    assertNear(x, y, null, null, null, 0);
  }

  /** As assertNear, with tolerances that broadcast to the shape of x and y. */
  public static void assertNear(Object x, Object y, Object rtol, Object atol) {
    assertNear(x, y, rtol, atol, null, 0);
  }

  /**
   * As assertNear, with tolerances that broadcast to the shape of x and y (null: as there), and
   * what its error says first and shows.
   */
  public static void assertNear(
      Object x, Object y, Object rtol, Object atol, String message, int summarize) {
    compare(NEAR, x, y, message, summarize, rtol, atol);
  }

  /** Every element, an integer or a float, is above 0. */
  public static void assertPositive(Object x) {
    assertPositive(x, null, 0);
  }

  /** As assertPositive, with what its error says first. */
  public static void assertPositive(Object x, String message) {
    assertPositive(x, message, 0);
  }

  /** As assertPositive, with what its error says first and shows. */
  public static void assertPositive(Object x, String message, int summarize) {
    condition(POSITIVE, x, message, summarize);
  }

  /** Every element, an integer or a float, is below 0. */
  public static void assertNegative(Object x) {
    assertNegative(x, null, 0);
  }

  /** As assertNegative, with what its error says first. */
  public static void assertNegative(Object x, String message) {
    assertNegative(x, message, 0);
  }

  /** As assertNegative, with what its error says first and shows. */
  public static void assertNegative(Object x, String message, int summarize) {
    condition(NEGATIVE, x, message, summarize);
  }

  /** Every element, an integer or a float, is 0 or below. */
  public static void assertNonPositive(Object x) {
    assertNonPositive(x, null, 0);
  }

  /** As assertNonPositive, with what its error says first. */
  public static void assertNonPositive(Object x, String message) {
    assertNonPositive(x, message, 0);
  }

  /** As assertNonPositive, with what its error says first and shows. */
  public static void assertNonPositive(Object x, String message, int summarize) {
    condition(NON_POSITIVE, x, message, summarize);
  }

  /** Every element, an integer or a float, is 0 or above. */
  public static void assertNonNegative(Object x) {
    assertNonNegative(x, null, 0);
  }

  /** As assertNonNegative, with what its error says first. */
  public static void assertNonNegative(Object x, String message) {
    assertNonNegative(x, message, 0);
  }

  /** As assertNonNegative, with what its error says first and shows. */
  public static void assertNonNegative(Object x, String message, int summarize) {
    condition(NON_NEGATIVE, x, message, summarize);
  }

  /** No element is NaN or infinite; gives x back. */
  public static <T> T assertAllFinite(T x) {
    return assertAllFinite(x, null);
  }

  /** As assertAllFinite, with what its error says first. */
  public static <T> T assertAllFinite(T x, String message) {
    condition(ALL_FINITE, x, message, 0);
    return x;
  }

  /** No element is NaN or infinite, of floats or complex numbers only; gives the tensor back. */
  public static <T> T checkNumerics(T tensor) {
    return checkNumerics(tensor, null);
  }

  /** As checkNumerics, with what its error says first. */
  public static <T> T checkNumerics(T tensor, String message) {
    condition(NUMERICS, tensor, message, 0);
    return tensor;
  }

  /** The dtype of x is an integer's. */
  public static void assertInteger(Object x) {
    assertInteger(x, null);
  }

  /** As assertInteger, with what its error says first. */
  public static void assertInteger(Object x, String message) {
    condition(INTEGER, x, message, 0);
  }

  /** The tensor has no axes. */
  public static void assertScalar(Object tensor) {
    assertScalar(tensor, null);
  }

  /** As assertScalar, with what its error says first. */
  public static void assertScalar(Object tensor, String message) {
    condition(SCALAR, tensor, message, 0);
  }

  /** The tensor has {@code rank} axes. */
  public static void assertRank(Object x, long rank) {
    assertRank(x, rank, null);
  }

  /** As assertRank, with what its error says first. */
  public static void assertRank(Object x, long rank, String message) {
    rank(RANK_EQUAL, x, message, rank);
  }

  /** The tensor has {@code rank} axes or more. */
  public static void assertRankAtLeast(Object x, long rank) {
    assertRankAtLeast(x, rank, null);
  }

  /** As assertRankAtLeast, with what its error says first. */
  public static void assertRankAtLeast(Object x, long rank, String message) {
    rank(RANK_AT_LEAST, x, message, rank);
  }

  /** The tensor has as many axes as one of {@code ranks} says. */
  public static void assertRankIn(Object x, long... ranks) {
    assertRankIn(x, ranks, null);
  }

  /** As assertRankIn, with what its error says first. */
  public static void assertRankIn(Object x, long[] ranks, String message) {
    rank(RANK_IN, x, message, ranks);
  }

  /** The tensor is of {@code dtype}; of a sparse or ragged one its values are. */
  public static void assertType(Object tensor, DType dtype) {
    assertType(tensor, dtype, null);
  }

  /** As assertType, with what its error says first. */
  public static void assertType(Object tensor, DType dtype, String message) {
    try (Value value = Value.ofData(tensor)) {
      Native.debugging_assert_type(value, dtype.number(), message, 0);
    }
  }

  /** The dtype of all {@code tensors}, which must be one of floats; FLOAT32 of none. */
  public static DType assertSameFloatDType(List<?> tensors) {
    return assertSameFloatDType(tensors, null);
  }

  /**
   * The dtype of all {@code tensors} (null ones are passed over), which must be one of floats and,
   * where it is not null, {@code dtype}; FLOAT32 where neither is given.
   */
  public static DType assertSameFloatDType(List<?> tensors, DType dtype) {
    try (Value all = Value.ofData(tensors.toArray())) {
      return DType.of((int) Native.debugging_assert_same_float_dtype(
          all, dtype == null ? 0 : dtype.number()));
    }
  }

  /**
   * A tensor and what is said of its shape.
   *
   * @param tensor what ofData takes
   * @param shape its axes by commas: sizes, symbols that stand for one size wherever they are, and
   *     "." for any size; "..." or "*" in front stands for any number of axes. A scalar counts as
   *     one axis of size 1, and so does an empty text
   */
  public record Shaped(Object tensor, String shape) {}

  /** The shapes of tensors fit what is said of them, and each other. */
  public static void assertShapes(Shaped... shapes) {
    assertShapes(List.of(shapes), null, null, 0);
  }

  /** As assertShapes, with what its error says first. */
  public static void assertShapes(List<Shaped> shapes, String message) {
    assertShapes(shapes, null, message, 0);
  }

  /**
   * As assertShapes, with what its error says first and shows: {@code data}, unless it is null, in
   * place of the tensor that does not fit.
   */
  public static void assertShapes(
      List<Shaped> shapes, Object data, String message, int summarize) {
    final Object[] tensors = new Object[shapes.size()];
    final String[] texts = new String[shapes.size()];
    for (int i = 0; i < texts.length; ++i) {
      tensors[i] = shapes.get(i).tensor();
      texts[i] = shapes.get(i).shape();
    }
    try (Value all = Value.ofData(tensors);
         Value shown = data == null ? null : Value.ofData(data)) {
      Native.debugging_assert_shapes(all, texts, shown, message, summarize);
    }
  }

  /** The condition, booleans, is true at every element. */
  public static void assertTrue(Object condition) {
    assertTrue(condition, null, 0);
  }

  /** The condition, booleans, is true at every element; else {@code data} is shown. */
  public static void assertTrue(Object condition, Object data) {
    assertTrue(condition, data, 0);
  }

  /** The condition, booleans, is true at every element; else {@code data} (null: none) is shown. */
  public static void assertTrue(Object condition, Object data, int summarize) {
    try (Value value = Value.ofData(condition);
         Value shown = data == null ? null : Value.ofData(data)) {
      Native.debugging_assert_true(value, shown, null, summarize);
    }
  }

  /**
   * Whether {@code tensor} is one, a variable or a per-replica value, and its elements are numbers:
   * neither booleans nor byte strings.
   */
  public static boolean isNumericTensor(Object tensor) {
    if (!(tensor instanceof Tensor || tensor instanceof Variable || tensor instanceof Value)) {
      return false;
    }
    try (Value value = Value.of(tensor)) {
      return Native.debugging_is_numeric(value);
    }
  }

  /**
   * From now on a NaN or an infinity is INVALID_ARGUMENT where it enters or leaves a collective, a
   * reduction over replicas, the update of a variable or a checkpoint, or is returned by a
   * replica's function. The error names the operation, the variable or the path in the structure,
   * replica and worker or rank, dtype and shape, how many elements are NaN, +Inf and -Inf, and the
   * first of them; where workers or ranks take part it is the error of all of them. It holds for
   * calls of this thread and of the replicas that it runs; between the workers of a strategy it is
   * enough that one has enabled it. Calling it twice is as calling it once.
   */
  public static void enableCheckNumerics() {
    if (!Native.debugging_is_checking_numerics()) {
      Native.debugging_enable_check_numerics(0);
    }
  }

  /** Ends what enableCheckNumerics began on this thread. */
  public static void disableCheckNumerics() {
    Native.debugging_disable_check_numerics();
  }

  // ---- dumps

  /** What is kept of a tensor beside operation, name, replica, step and dtype. */
  public enum Mode {
    /** Nothing. */
    NO_TENSOR,
    /** Whether there is a NaN or an infinity. */
    CURT_HEALTH,
    /** How many elements, NaN, +Inf and -Inf there are. */
    CONCISE_HEALTH,
    /** And the rank, and how many finite ones are below 0, 0 and above 0. */
    FULL_HEALTH,
    /** The shape. */
    SHAPE
  }

  /**
   * How a dump is made.
   *
   * @param mode what is kept of a tensor
   * @param circularBufferSize how many of the most recent events are kept until they are flushed; 0
   *     or less: all are written, a thousand at a time
   * @param opRegex matched at the beginning of an operation's name ("all_reduce"), in ECMAScript's
   *     syntax; null: all operations
   * @param dtypes says of a dtype whether it is taken; null: all are
   */
  public record DumpOptions(
      Mode mode, long circularBufferSize, String opRegex, Predicate<DType> dtypes) {
    /** Those of a mode: the last 1000 events, of all operations and dtypes. */
    public static DumpOptions of(Mode mode) {
      return new DumpOptions(mode, 1000, null, null);
    }

    /** The same with another number of events that are kept. */
    public DumpOptions circularBufferSize(long events) {
      return new DumpOptions(mode, events, opRegex, dtypes);
    }

    /** The same of the operations whose names begin as {@code expression} says. */
    public DumpOptions opRegex(String expression) {
      return new DumpOptions(mode, circularBufferSize, expression, dtypes);
    }

    /** The same of the dtypes that are taken. */
    public DumpOptions dtypes(Predicate<DType> taken) {
      return new DumpOptions(mode, circularBufferSize, opRegex, taken);
    }

    private long mask() {
      if (dtypes == null) {
        return 0;
      }
      long mask = 1; // no dtype at all is a choice, too
      for (final DType dtype : DType.values()) {
        mask |= dtypes.test(dtype) ? 1L << dtype.number() : 0;
      }
      return mask;
    }
  }

  /** What writes a dump's files. */
  public static final class DumpWriter {
    private final long number;

    private DumpWriter(long number) {
      this.number = number;
    }

    /**
     * Writes the events that wait. FAILED_PRECONDITION when the dump has ended; the disk's error
     * where it cannot be written.
     */
    public void flushExecutionFiles() {
      Native.debugging_flush_execution_files(number);
    }

    /** Writes what is known of the process and of the dump; fails as flushExecutionFiles. */
    public void flushNonExecutionFiles() {
      Native.debugging_flush_non_execution_files(number);
    }
  }

  /**
   * From now on the tensors that enableCheckNumerics would look at, of all threads of the process,
   * leave an event each in files under {@code dumpRoot}, a directory that is made where it is
   * missing. Once more with the same root it goes on; another root ends the dump before.
   * INVALID_ARGUMENT for another mode or buffer size than that of a dump that goes on, and for an
   * expression that does not read. {@code tutti debug} shows what was dumped.
   */
  public static DumpWriter enableDumpDebugInfo(String dumpRoot, DumpOptions options) {
    return new DumpWriter(Native.debugging_enable_dump(dumpRoot, options.mode().ordinal() + 1,
        options.circularBufferSize(), options.opRegex(), options.mask()));
  }

  /** Ends the dump; what was not flushed is gone. Without one nothing happens. */
  public static void disableDumpDebugInfo() {
    Native.debugging_disable_dump();
  }

  /**
   * The dumps of all processes in a directory, as a JSON object: processes, events in the order of
   * time, first_not_finite and damaged. NOT_FOUND where there is no dump.
   */
  public static String readDumpDebugInfo(String dumpRoot) {
    return Bridge.text(Native.debugging_read_dumps(dumpRoot));
  }

  /**
   * Whether a line of the log says of each variable, per-replica value, run, dataset and collective
   * from now on which devices it is on, and why; false at first. For the whole process. Under a log
   * level that leaves out "info" the lines come with the lowest that it does not.
   */
  public static void setLogDevicePlacement(boolean enabled) {
    Native.debugging_set_log_device_placement(enabled);
  }

  /** Whether placements are logged. */
  public static boolean getLogDevicePlacement() {
    return Native.debugging_is_logging_device_placement();
  }
}
