package org.tutti.internal;

import java.io.FileNotFoundException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.TimeoutException;
import java.util.function.LongSupplier;
import org.tutti.Code;
import org.tutti.TuttiException;
import org.tutti.distribute.CommunicationOptions;

/** What both sides of the border need: text, times, errors, objects of Java's inside values. */
public final class Bridge {
  /** No timeout given. */
  public static final long UNSET = 0;

  /**
   * The order of names everywhere: of their bytes in UTF-8, which that of Java's strings is not.
   */
  public static final Comparator<String> BY_BYTES =
      (left, right) -> Arrays.compareUnsigned(utf8(left), utf8(right));

  private static final Duration EXIT_TIMEOUT = Duration.ofSeconds(5);

  private Bridge() {}

  // ---- text and buffers

  /** Null for null. */
  public static byte[] utf8(String text) {
    return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
  }

  /** A text that C reads up to its first NUL; null for null. */
  public static byte[] name(String text) {
    if (text != null && text.indexOf('\0') >= 0) {
      throw new IllegalArgumentException(
          "\"" + text.replace("\0", "\\0") + "\": a text with a NUL in it cannot be a name");
    }
    return utf8(text);
  }

  /** Each of {@code texts}. */
  public static byte[][] name(String[] texts) {
    final byte[][] all = new byte[texts.length][];
    for (int i = 0; i < texts.length; ++i) {
      all[i] = name(texts[i]);
    }
    return all;
  }

  /** The reverse of utf8. */
  public static String text(byte[] utf8) {
    return utf8 == null ? null : new String(utf8, StandardCharsets.UTF_8);
  }

  /** Takes over a byte buffer that a native function returned. */
  public static String text(long bytes) {
    return text(Native.bytes_take(bytes));
  }

  /** As text. */
  public static byte[] bytes(long bytes) {
    return Native.bytes_take(bytes);
  }

  /** Null for a number that is absent. */
  public static Long optional(long number) {
    return number == Long.MIN_VALUE ? null : number;
  }

  /** Nanoseconds as native functions take them; null is unset. */
  public static long nanos(Duration timeout) {
    if (timeout == null) {
      return UNSET;
    }
    if (timeout.isZero() || timeout.isNegative()) {
      return Long.MIN_VALUE;
    }
    try {
      return timeout.toNanos();
    } catch (ArithmeticException tooLong) {
      return Long.MAX_VALUE;
    }
  }

  /** The same of a call with options (null: none), whose timeout counts where there is none. */
  public static long nanos(CommunicationOptions options, Duration timeout) {
    if (timeout != null || options == null || options.timeout() == null) {
      return nanos(timeout);
    }
    return options.timeout().isZero() ? Long.MAX_VALUE : nanos(options.timeout());
  }

  /** Makes a native call, the next of the thread, with hints where {@code options} has any. */
  public static long hinted(CommunicationOptions options, LongSupplier call) {
    if (options == null || (options.bytesPerPack() == 0
        && options.implementation() == CommunicationOptions.Implementation.AUTO)) {
      return call.getAsLong();
    }
    Native.hint_call(options.bytesPerPack(), options.implementation().number());
    try {
      return call.getAsLong();
    } finally {
      Native.hint_call(0, 0);
    }
  }

  /** 0 for null: unset. */
  public static int tristate(Boolean flag) {
    return flag == null ? 0 : flag ? 1 : 2;
  }

  /**
   * A tensor's memory and what there is to know about it.
   *
   * @param buffer direct, in native order, read-only if the tensor is; the memory stays while it or
   * a
   *     view of it can be reached, whatever happens to the tensor. Null where there cannot be one
   * @param dtype the number of the tensor's dtype
   * @param contiguous whether the tensor is
   * @param byteSize the tensor's size
   */
  public record Memory(ByteBuffer buffer, int dtype, boolean contiguous, long byteSize) {
    /** That of {@code tensor}. */
    public static Memory of(NativeObject tensor) {
      final long[] facts = new long[5];
      ByteBuffer buffer = (ByteBuffer) Native.tensor_buffer(tensor, facts);
      if (buffer != null) {
        new SafetyNet(buffer, Native::tensor_release, facts[4]);
        buffer = facts[3] != 0 ? buffer.asReadOnlyBuffer() : buffer;
        buffer = buffer.order(ByteOrder.nativeOrder());
      }
      return new Memory(buffer, (int) facts[0], facts[1] != 0, facts[2]);
    }
  }

  // ---- errors

  /** The exception that stands for a status, which stays the caller's. */
  static Throwable exceptionOf(long status) {
    final Map<String, Object> details = new LinkedHashMap<>();
    for (long i = 0; i < Native.status_detail_count(status); ++i) {
      details.put(Native.status_detail_key(status, i),
          switch (Native.status_detail_kind(status, i)) {
            case 1 -> (Object) Native.status_detail_int64(status, i);
            case 2 -> (Object) Native.status_detail_double(status, i);
            default -> text(Native.status_detail_string(status, i));
          });
    }
    Throwable cause = (Throwable) Native.status_host_object(status);
    final List<Throwable> others = new ArrayList<>();
    for (long i = 0; i < Native.status_cause_count(status); ++i) {
      final Throwable other = exceptionOf(Native.status_cause(status, i));
      if (cause == null) {
        cause = other;
      } else if (other.getCause() != cause) {
        others.add(other);
      }
    }
    final TuttiException exception =
        TuttiException.of(Code.of(Native.status_code(status)), Native.status_message(status),
            details, cause);
    others.forEach(exception::addSuppressed);
    return exception;
  }

  /** The address of a new status that carries {@code exception}. */
  static long statusOf(Throwable exception) {
    // The code of ours goes by itself and is no part of the message.
    final String message =
        exception instanceof TuttiException ? exception.getMessage() : exception.toString();
    final long status = Native.status_create(codeOf(exception).number(), message, exception);
    if (exception instanceof TuttiException ours) {
      ours.details().forEach((key, value) -> {
        if (value instanceof Long number) {
          Native.status_add_int64(status, key, number);
        } else {
          Native.status_add_string(status, key, value.toString());
        }
      });
    }
    return status;
  }

  /** Whether an exception tells of a peer that is gone, which the others know themselves. */
  public static boolean isAboutAPeer(Throwable exception) {
    return exception instanceof TuttiException.Unavailable
        || exception instanceof TuttiException.Aborted;
  }

  /** What kind of error an exception of a callback is. */
  public static Code codeOf(Throwable exception) {
    if (exception instanceof TuttiException ours) {
      return ours.code();
    }
    if (exception instanceof IndexOutOfBoundsException) {
      return Code.OUT_OF_RANGE;
    }
    if (exception instanceof IllegalArgumentException || exception instanceof ClassCastException
        || exception instanceof NullPointerException || exception instanceof ArithmeticException) {
      return Code.INVALID_ARGUMENT;
    }
    if (exception instanceof NoSuchElementException || exception instanceof FileNotFoundException
        || exception instanceof NoSuchFileException) {
      return Code.NOT_FOUND;
    }
    if (exception instanceof CancellationException || exception instanceof InterruptedException) {
      return Code.CANCELLED;
    }
    if (exception instanceof IllegalStateException) {
      return Code.FAILED_PRECONDITION;
    }
    if (exception instanceof UnsupportedOperationException) {
      return Code.UNIMPLEMENTED;
    }
    if (exception instanceof TimeoutException) {
      return Code.DEADLINE_EXCEEDED;
    }
    if (exception instanceof FileAlreadyExistsException) {
      return Code.ALREADY_EXISTS;
    }
    if (exception instanceof AccessDeniedException || exception instanceof SecurityException) {
      return Code.PERMISSION_DENIED;
    }
    return exception instanceof OutOfMemoryError ? Code.RESOURCE_EXHAUSTED : Code.UNKNOWN;
  }

  /** Whether the thread that waits in the library was interrupted; the flag stays. */
  static boolean interrupted() {
    return Thread.currentThread().isInterrupted();
  }

  // ---- objects of Java's inside values, each under one number while a value holds it

  private static final class Entry {
    final Object object;
    int references;

    Entry(Object object) {
      this.object = object;
    }
  }

  private static final Map<Object, Long> NUMBERS = new IdentityHashMap<>();
  private static final Map<Long, Entry> OBJECTS = new HashMap<>();
  private static long lastNumber;

  /** The number of an object, with a reference for the value that is made of it. */
  public static long numberOf(Object object) {
    synchronized (OBJECTS) {
      final long number = NUMBERS.computeIfAbsent(object, unused -> ++lastNumber);
      OBJECTS.computeIfAbsent(number, unused -> new Entry(object)).references++;
      return number;
    }
  }

  /** The object of a number. */
  public static Object objectOf(long number) {
    synchronized (OBJECTS) {
      final Entry entry = OBJECTS.get(number);
      return entry == null ? null : entry.object;
    }
  }

  static void releaseObject(long number) {
    synchronized (OBJECTS) {
      final Entry entry = OBJECTS.get(number);
      if (entry != null && --entry.references == 0) {
        OBJECTS.remove(number);
        NUMBERS.remove(entry.object);
      }
    }
  }

  // ---- memory

  /** The wrappers that nobody closed and nobody can reach give their memory back. */
  static void collect() {
    System.gc();
  }

  // ---- the end

  /**
   * Says goodbye to other workers and joins the threads that call Java. Threads that go on until
   * the process is gone cannot start the default runtime again.
   */
  static void shutDownAtExit() {
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      try {
        Native.runtime_end_default(EXIT_TIMEOUT.toNanos());
      } catch (TuttiException left) {
        // A callback that does not return ends with the process.
      }
    }, "tutti-shutdown"));
  }
}
