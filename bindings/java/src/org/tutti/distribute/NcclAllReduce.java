package org.tutti.distribute;

import org.tutti.internal.Native;

/**
 * NVIDIA's library, whose plugin this build has not: the first use says so in one warning and goes,
 * with what follows, the way it goes without cross-device ops.
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
