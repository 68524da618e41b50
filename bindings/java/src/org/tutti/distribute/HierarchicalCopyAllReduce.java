package org.tutti.distribute;

import org.tutti.internal.Native;

/**
 * The tensors of a batch in packs, one fold each. Results have the bits of those without
 * cross-device ops, but between GPUs: there packs go along a tree of the links between them and
 * back, and of more than two GPUs sums and products of floats have the bits of that tree, the same
 * on all of them.
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
