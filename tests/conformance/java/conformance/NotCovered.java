package conformance;

/** A case names an op, a function or a field that is not known here. */
final class NotCovered extends RuntimeException {
  private static final long serialVersionUID = 1;

  NotCovered(String what) {
    super(what);
  }
}
