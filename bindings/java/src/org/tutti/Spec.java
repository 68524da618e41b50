package org.tutti;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.ArrayList;
import java.util.List;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/** Structure, dtypes and shapes of values, such as a dataset's elements. Immutable. */
public final class Spec extends NativeObject implements AutoCloseable {
  /** A size or a rank that is not known. */
  public static final long UNKNOWN = -1;

  private static final int TUPLE = 2;

  /** For the package itself. */
  public Spec(Box box) {
    super(box);
  }

  /** One tensor; sizes may be UNKNOWN. */
  public static Spec tensor(DType dtype, long... shape) {
    return new Spec(Box.at(Native.spec_of_tensor(dtype.number(), true, shape)));
  }

  /** One tensor of any rank. */
  public static Spec tensorOfAnyShape(DType dtype) {
    return new Spec(Box.at(Native.spec_of_tensor(dtype.number(), false, new long[0])));
  }

  /** An optional. */
  public static Spec optional(Spec held) {
    return new Spec(Box.at(Native.spec_of_optional(held)));
  }

  /** A dataset of such elements. */
  public static Spec dataset(Spec element) {
    return new Spec(Box.at(Native.spec_of_dataset(element)));
  }

  /** A dict of specs of one leaf each. */
  public static Spec dict(Map<String, Spec> parts) {
    final Map<String, Spec> sorted =
        new TreeMap<>((left, right) -> Arrays.compareUnsigned(Bridge.utf8(left), Bridge.utf8(right)));
    sorted.putAll(parts);
    final NativeObject[] children = leaves(sorted.size());
    return structure(new Tree(Box.at(
        Native.treespec_dict(sorted.keySet().toArray(new String[0]), children))),
        sorted.values().toArray(new Spec[0]));
  }

  /** A tuple of specs of one leaf each. */
  public static Spec tuple(Spec... parts) {
    return structure(
        new Tree(Box.at(Native.treespec_sequence(TUPLE, leaves(parts.length)))), parts);
  }

  private static final class Tree extends NativeObject {
    Tree(Box box) {
      super(box);
    }
  }

  private static NativeObject[] leaves(int count) {
    final NativeObject[] leaves = new NativeObject[count];
    for (int i = 0; i < count; ++i) {
      leaves[i] = new Tree(Box.at(Native.treespec_leaf()));
    }
    return leaves;
  }

  private static Spec structure(Tree tree, Spec[] leaves) {
    for (final Spec leaf : leaves) {
      if (leaf.leafCount() != 1) {
        throw TuttiException.of(Code.INVALID_ARGUMENT, "a part of a structure is one leaf");
      }
    }
    return new Spec(Box.at(Native.spec_of_structure(tree, leaves)));
  }

  /** The leaves of the whole structure. */
  public int leafCount() {
    return (int) Native.spec_leaf_count(this);
  }

  /** The dtype of a leaf. */
  public DType dtype(int leaf) {
    return DType.of(Native.spec_leaf_dtype(this, checked(leaf)));
  }

  /** The shape of a leaf, sizes UNKNOWN where not known; null when the rank is not known. */
  public long[] shape(int leaf) {
    final long rank = Native.spec_leaf_rank(this, checked(leaf));
    if (rank < 0) {
      return null;
    }
    final List<Long> dims = new ArrayList<>();
    for (long i = 0; i < rank; ++i) {
      dims.add(Native.spec_leaf_dim(this, leaf, i));
    }
    return dims.stream().mapToLong(Long::longValue).toArray();
  }

  private int checked(int leaf) {
    if (leaf < 0 || leaf >= leafCount()) {
      throw TuttiException.of(Code.OUT_OF_RANGE, "leaf " + leaf + " of " + leafCount());
    }
    return leaf;
  }

  /** Whether every value of `specific` also fits this spec. */
  public boolean isCompatibleWith(Spec specific) {
    return Native.spec_is_compatible(this, specific);
  }

  @Override
  public boolean equals(Object other) {
    return other == this || (other instanceof Spec spec && Native.spec_equal(this, spec));
  }

  @Override
  public int hashCode() {
    return toString().hashCode();
  }

  /** "{'image': float32[?,64], 'label': int64[?]}". */
  @Override
  public String toString() {
    return isClosed() ? "Spec (closed)" : Bridge.text(Native.spec_text(this));
  }

  @Override
  public void close() {
    release();
  }
}
