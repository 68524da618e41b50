package org.tutti;

/** What kind of error happened; the canonical codes. */
public enum Code {
  CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS,
  PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED,
  INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED;

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
