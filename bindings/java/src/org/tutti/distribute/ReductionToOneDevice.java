package org.tutti.distribute;

import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.tutti.Value;
import org.tutti.internal.Native;

/** All to one device, and from there to where they go. */
public final class ReductionToOneDevice extends LibraryOps {
  /** On the first destination, by addition in the order of the replicas. */
  public ReductionToOneDevice() {
    this(null);
  }

  /** On a device; NOT_FOUND or INVALID_ARGUMENT for one that is not there. Null: as above. */
  public ReductionToOneDevice(String device) {
    super(Native.reducer_reduction_to_one_device(device));
  }

  /**
   * By a function that makes one tensor (what Value.of takes) of those of the replicas, of their
   * dtype and shape. MEAN divides what it gives by their number.
   */
  public ReductionToOneDevice(String device, Function<List<Value>, Object> accumulation) {
    super(Native.reducer_accumulation(device, new Functions.Cross(accumulating(
        Objects.requireNonNull(accumulation, "a function is needed, not null")))));
  }

  private static Functions.CrossReplica accumulating(Function<List<Value>, Object> accumulation) {
    return (strategy, tensors) -> accumulation.apply(tensors.asList());
  }
}
