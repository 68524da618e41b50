package org.tutti;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What went wrong: a code, a message for people, details for programs. An exception that left a
 * callback is the cause, as the object that was thrown.
 */
public class TuttiException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** The kind of error. */
  private final Code code;
  private final transient Map<String, Object> details;

  private TuttiException(Code code, String message, Map<String, Object> details, Throwable cause) {
    super(message, cause);
    this.code = code;
    this.details = Collections.unmodifiableMap(new LinkedHashMap<>(details));
  }

  /** The kind of error. */
  public Code code() {
    return code;
  }

  /** Facts by name, such as "rank", "worker", "file", "offset": Long, Double or String. */
  public Map<String, Object> details() {
    return details == null ? Map.of() : details;
  }

  /** The class, which says the code, and the message. */
  @Override
  public String toString() {
    return getClass().getCanonicalName() + ": " + getMessage();
  }

  /** An exception of the code's class, for callbacks that fail with one. */
  public static TuttiException of(Code code, String message) {
    return of(code, message, Map.of(), null);
  }

  /** As above, with details and cause. */
  public static TuttiException of(Code code, String message, Map<String, Object> details,
      Throwable cause) {
    return switch (code) {
      case CANCELLED -> new Cancelled(message, details, cause);
      case UNKNOWN -> new Unknown(message, details, cause);
      case INVALID_ARGUMENT -> new InvalidArgument(message, details, cause);
      case DEADLINE_EXCEEDED -> new DeadlineExceeded(message, details, cause);
      case NOT_FOUND -> new NotFound(message, details, cause);
      case ALREADY_EXISTS -> new AlreadyExists(message, details, cause);
      case PERMISSION_DENIED -> new PermissionDenied(message, details, cause);
      case RESOURCE_EXHAUSTED -> new ResourceExhausted(message, details, cause);
      case FAILED_PRECONDITION -> new FailedPrecondition(message, details, cause);
      case ABORTED -> new Aborted(message, details, cause);
      case OUT_OF_RANGE -> new OutOfRange(message, details, cause);
      case UNIMPLEMENTED -> new Unimplemented(message, details, cause);
      case INTERNAL -> new Internal(message, details, cause);
      case UNAVAILABLE -> new Unavailable(message, details, cause);
      case DATA_LOSS -> new DataLoss(message, details, cause);
      case UNAUTHENTICATED -> new Unauthenticated(message, details, cause);
    };
  }

  /** The call was cancelled, or its thread was interrupted. */
  public static final class Cancelled extends TuttiException {
    private static final long serialVersionUID = 1;

    Cancelled(String message, Map<String, Object> details, Throwable cause) {
      super(Code.CANCELLED, message, details, cause);
    }
  }

  /** An exception of a callback that says no more. */
  public static final class Unknown extends TuttiException {
    private static final long serialVersionUID = 1;

    Unknown(String message, Map<String, Object> details, Throwable cause) {
      super(Code.UNKNOWN, message, details, cause);
    }
  }

  /** An argument that can never be right. */
  public static final class InvalidArgument extends TuttiException {
    private static final long serialVersionUID = 1;

    InvalidArgument(String message, Map<String, Object> details, Throwable cause) {
      super(Code.INVALID_ARGUMENT, message, details, cause);
    }
  }

  /** The timeout passed. */
  public static final class DeadlineExceeded extends TuttiException {
    private static final long serialVersionUID = 1;

    DeadlineExceeded(String message, Map<String, Object> details, Throwable cause) {
      super(Code.DEADLINE_EXCEEDED, message, details, cause);
    }
  }

  /** A file, name or checkpoint that is not there. */
  public static final class NotFound extends TuttiException {
    private static final long serialVersionUID = 1;

    NotFound(String message, Map<String, Object> details, Throwable cause) {
      super(Code.NOT_FOUND, message, details, cause);
    }
  }

  /** A name that is taken. */
  public static final class AlreadyExists extends TuttiException {
    private static final long serialVersionUID = 1;

    AlreadyExists(String message, Map<String, Object> details, Throwable cause) {
      super(Code.ALREADY_EXISTS, message, details, cause);
    }
  }

  /** The system refused. */
  public static final class PermissionDenied extends TuttiException {
    private static final long serialVersionUID = 1;

    PermissionDenied(String message, Map<String, Object> details, Throwable cause) {
      super(Code.PERMISSION_DENIED, message, details, cause);
    }
  }

  /** Memory or another limit was reached. */
  public static final class ResourceExhausted extends TuttiException {
    private static final long serialVersionUID = 1;

    ResourceExhausted(String message, Map<String, Object> details, Throwable cause) {
      super(Code.RESOURCE_EXHAUSTED, message, details, cause);
    }
  }

  /** The object is not in a state for this: closed, shut down, read-only, in use. */
  public static final class FailedPrecondition extends TuttiException {
    private static final long serialVersionUID = 1;

    FailedPrecondition(String message, Map<String, Object> details, Throwable cause) {
      super(Code.FAILED_PRECONDITION, message, details, cause);
    }
  }

  /** Another replica or rank failed. */
  public static final class Aborted extends TuttiException {
    private static final long serialVersionUID = 1;

    Aborted(String message, Map<String, Object> details, Throwable cause) {
      super(Code.ABORTED, message, details, cause);
    }
  }

  /** Past the end. */
  public static final class OutOfRange extends TuttiException {
    private static final long serialVersionUID = 1;

    OutOfRange(String message, Map<String, Object> details, Throwable cause) {
      super(Code.OUT_OF_RANGE, message, details, cause);
    }
  }

  /** Not offered here. */
  public static final class Unimplemented extends TuttiException {
    private static final long serialVersionUID = 1;

    Unimplemented(String message, Map<String, Object> details, Throwable cause) {
      super(Code.UNIMPLEMENTED, message, details, cause);
    }
  }

  /** A bug of the library. */
  public static final class Internal extends TuttiException {
    private static final long serialVersionUID = 1;

    Internal(String message, Map<String, Object> details, Throwable cause) {
      super(Code.INTERNAL, message, details, cause);
    }
  }

  /** A worker is gone; details rank and worker name it. */
  public static final class Unavailable extends TuttiException {
    private static final long serialVersionUID = 1;

    Unavailable(String message, Map<String, Object> details, Throwable cause) {
      super(Code.UNAVAILABLE, message, details, cause);
    }
  }

  /** A file is damaged; details name file and offset. */
  public static final class DataLoss extends TuttiException {
    private static final long serialVersionUID = 1;

    DataLoss(String message, Map<String, Object> details, Throwable cause) {
      super(Code.DATA_LOSS, message, details, cause);
    }
  }

  /** Another job secret. */
  public static final class Unauthenticated extends TuttiException {
    private static final long serialVersionUID = 1;

    Unauthenticated(String message, Map<String, Object> details, Throwable cause) {
      super(Code.UNAUTHENTICATED, message, details, cause);
    }
  }
}
