package org.tutti;

/** What kind of error happened; the canonical codes. */
public enum Code {
  /** The call was cancelled, or its thread was interrupted. */
  CANCELLED,
  /** An exception of a callback that says no more. */
  UNKNOWN,
  /** An argument that can never be right. */
  INVALID_ARGUMENT,
  /** The timeout passed. */
  DEADLINE_EXCEEDED,
  /** A file, name or checkpoint that is not there. */
  NOT_FOUND,
  /** A name that is taken. */
  ALREADY_EXISTS,
  /** The system refused. */
  PERMISSION_DENIED,
  /** Memory or another limit was reached. */
  RESOURCE_EXHAUSTED,
  /** The object is not in a state for this: closed, shut down, read-only, in use. */
  FAILED_PRECONDITION,
  /** Another replica or rank failed. */
  ABORTED,
  /** Past the end. */
  OUT_OF_RANGE,
  /** Not offered here. */
  UNIMPLEMENTED,
  /** A bug of the library. */
  INTERNAL,
  /** A worker is gone. */
  UNAVAILABLE,
  /** A file is damaged. */
  DATA_LOSS,
  /** Another job secret. */
  UNAUTHENTICATED;

  private static final Code[] ALL = values();

  /** As gRPC and abseil number it. */
  public int number() {
    return ordinal() + 1;
  }

  /** The code of a number; UNKNOWN for one that is none. */
  public static Code of(int number) {
    return number >= 1 && number <= ALL.length ? ALL[number - 1] : UNKNOWN;
  }
}
