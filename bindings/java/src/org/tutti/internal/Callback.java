package org.tutti.internal;

/** What the library calls: the package wraps every lambda in one. */
public abstract class Callback {
  /** The kinds of callbacks, as facade/callback.h numbers them. */
  public static final int GENERATOR_START = 5;

  /**
   * Runs the function.
   *
   * @param kind which of the kinds
   * @param context the address of the call's context, 0 for none
   * @param in the box of the arguments, 0 for none
   * @return the address of the result, with a reference for the library; 0 for none
   * @throws Throwable whatever the function throws
   */
  public abstract long call(int kind, long context, long in) throws Throwable;

  /** Takes a line of the log. */
  public void log(int level, byte[] line) {
    throw new UnsupportedOperationException("not a log sink");
  }
}
