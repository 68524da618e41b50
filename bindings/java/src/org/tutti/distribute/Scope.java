package org.tutti.distribute;

/** Where the thread stands: null outside, a Strategy in cross-replica context, a ReplicaContext. */
final class Scope {
  private static final ThreadLocal<Object> CURRENT = new ThreadLocal<>();

  // A strategy whose scope nobody leaves: Strategy.setCurrent.
  private record Pinned(Strategy strategy) { }

  private Scope() {}

  static Object current() {
    final Object scope = CURRENT.get();
    return scope instanceof Pinned pinned ? pinned.strategy() : scope;
  }

  // Whether there is a scope or a function that will be left.
  static boolean isEntered() {
    return CURRENT.get() != null && !(CURRENT.get() instanceof Pinned);
  }

  static void pin(Strategy strategy) {
    leave(strategy == null ? null : new Pinned(strategy));
  }

  // What it gives is for leave.
  static Object enter(Object scope) {
    final Object before = CURRENT.get();
    CURRENT.set(scope);
    return before;
  }

  static void leave(Object before) {
    if (before == null) {
      CURRENT.remove();
    } else {
      CURRENT.set(before);
    }
  }
}
