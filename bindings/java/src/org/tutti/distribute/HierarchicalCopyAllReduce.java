package org.tutti.distribute;

import org.tutti.internal.Native;

/**
 * The tensors of a batch in packs, one fold each. Results have the bits of those without
 * cross-device ops.
 */
public final class HierarchicalCopyAllReduce extends LibraryOps {
  /** With one pack. */
  public HierarchicalCopyAllReduce() {
    this(1);
  }

  /** With so many packs; 0: none is packed, a negative number is INVALID_ARGUMENT. */
  public HierarchicalCopyAllReduce(int packs) {
    super(Native.reducer_hierarchical_copy_all_reduce(packs));
  }
}
