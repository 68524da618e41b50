package org.tutti.distribute;

/** Where the thread stands: null outside, a Strategy in cross-replica context, a ReplicaContext. */
final class Scope {
  private static final ThreadLocal<Object> CURRENT = new ThreadLocal<>();

  private Scope() {}

  static Object current() {
    return CURRENT.get();
  }

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
