package org.tutti.distribute;

import org.tutti.internal.Native;

/**
 * NVIDIA's library, between GPUs of which each has one tensor. What it cannot serve (values on the
 * host, no NCCL, one of a version before 2.18) goes the way it goes without cross-device ops, and
 * the first such use says why in one warning.
 */
public final class NcclAllReduce extends LibraryOps {
  /** With one pack. */
  public NcclAllReduce() {
    this(1);
  }

  /** With so many packs; 0: none is packed, a negative number is INVALID_ARGUMENT. */
  public NcclAllReduce(int packs) {
    super(Native.reducer_nccl_all_reduce(packs));
  }
}
