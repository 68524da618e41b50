package org.tutti;

/**
 * One of the logical devices that a physical one is presented as.
 *
 * @param memoryLimit bytes; 0: no limit, which a CPU must have, whose logical devices share its
 *     memory
 */
public record LogicalDeviceConfiguration(long memoryLimit) {
  /** Without a limit. */
  public LogicalDeviceConfiguration() {
    this(0);
  }
}
