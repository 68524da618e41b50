package conformance;

/** A result is not the expected one. */
final class Mismatch extends RuntimeException {
  private static final long serialVersionUID = 1;

  Mismatch(String message) {
    super(message);
  }

  static void check(boolean holds, Object expected, Object found) {
    if (!holds) {
      throw new Mismatch("expected " + expected + ", found " + found);
    }
  }

  /** What {@code body} gives, where it is wrong in one part of the whole. */
  static void in(String part, Runnable body) {
    try {
      body.run();
    } catch (Mismatch mismatch) {
      throw new Mismatch(part + ": " + mismatch.getMessage());
    }
  }
}
