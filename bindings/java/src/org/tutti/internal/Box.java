package org.tutti.internal;

/** The address of a native handle on its way into the object that owns it. */
public record Box(long address) {
  /** Null for 0. */
  public static Box at(long address) {
    return address == 0 ? null : new Box(address);
  }
}
