package org.tutti;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/** Structure, dtypes and shapes of values, such as a dataset's elements. Immutable. */
public final class Spec extends NativeObject implements AutoCloseable {
  /** A size or a rank that is not known. */
  public static final long UNKNOWN = -1;

  /** What a spec describes. */
  public enum Kind {
    /** Of a dtype and a shape. */
    TENSOR,
    /** Whose elements are of inner(). */
    DATASET,
    /** Of inner(), or empty. */
    OPTIONAL,
    /** What null becomes. */
    NONE,
    /** Over elements of inner(); no value is one. */
    ITERATOR,
    /** Distributed: inner() is a tuple of what each replica of this process has. */
    PER_REPLICA,
    /** Parts by index, of any kind each. */
    TUPLE,
    /** Parts by index. */
    LIST,
    /** Parts by key. */
    DICT,
    /** Parts by field, in the order of the record. */
    RECORD
  }

  private static final int NODE_LEAF = 1;
  private static final int NODE_TUPLE = 2;
  private static final int NODE_LIST = 3;
  private static final int NODE_DICT = 4;
  private static final int NODE_RECORD = 5;
  private static final int LEAF_DISTRIBUTED = 3;
  private static final int LEAF_DATASET = 5;
  private static final int LEAF_OPTIONAL = 6;
  private static final int LEAF_NONE = 7;
  private static final int LEAF_ITERATOR = 9;

  static {
    Makers.leave(Spec.class, Spec::new);
  }

  private Spec(Box box) {
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

  /** A sparse tensor (Value.sparse) of such a shape; sizes may be UNKNOWN. */
  public static Spec sparse(DType dtype, long... shape) {
    return new Spec(Box.at(Native.spec_of_sparse(dtype.number(), true, shape)));
  }

  /** A sparse tensor of any rank. */
  public static Spec sparseOfAnyShape(DType dtype) {
    return new Spec(Box.at(Native.spec_of_sparse(dtype.number(), false, new long[0])));
  }

  /**
   * A ragged tensor (Value.ragged) with row splits of INT64. Axes 1 to {@code raggedRank} of the
   * shape are ragged, 1 or more and fewer than it has; their sizes, and others, may be UNKNOWN.
   */
  public static Spec ragged(DType dtype, int raggedRank, long... shape) {
    return ragged(dtype, DType.INT64, raggedRank, shape);
  }

  /** As above, with row splits of INT64 or INT32. */
  public static Spec ragged(DType dtype, DType rowSplits, int raggedRank, long... shape) {
    return new Spec(Box.at(Native.spec_of_ragged(
        dtype.number(), raggedRank, rowSplits.number(), true, shape)));
  }

  /** A ragged tensor of any rank above {@code raggedRank}. */
  public static Spec raggedOfAnyShape(DType dtype, DType rowSplits, int raggedRank) {
    return new Spec(Box.at(Native.spec_of_ragged(
        dtype.number(), raggedRank, rowSplits.number(), false, new long[0])));
  }

  /** An optional. */
  public static Spec optional(Spec held) {
    return new Spec(Box.at(Native.spec_of_optional(held)));
  }

  /**
   * A dataset of such elements. {@code shape} is that of an array of datasets, which no value is,
   * so that only none fits one; it is kept and compared.
   */
  public static Spec dataset(Spec element, long... shape) {
    return new Spec(Box.at(Native.spec_of_dataset(element, shape)));
  }

  /** A dataset of any elements, which is what a variant is (Dataset.toVariant). */
  public static Spec variant() {
    return new Spec(Box.at(Native.spec_of_variant()));
  }

  /** An iterator over such elements. It is for comparing: no value holds an iterator. */
  public static Spec iterator(Spec element) {
    return new Spec(Box.at(Native.spec_of_iterator(element)));
  }

  /**
   * A distributed value of such components, one for each replica of this process, each of one leaf
   * that is not distributed itself.
   */
  public static Spec perReplica(Spec... components) {
    return new Spec(Box.at(Native.spec_of_per_replica(components)));
  }

  /**
   * The spec that exactly describes an iterator, a dataset, or what Value.of makes of anything
   * else. A dataset whose map has no signature computes one element here.
   */
  public static Spec of(Object value) {
    if (value instanceof DatasetIterator iterator) {
      try (Spec element = iterator.elementSpec()) {
        return iterator(element);
      }
    }
    if (value instanceof Dataset dataset) {
      try (Spec element = dataset.elementSpec()) {
        return dataset(element);
      }
    }
    try (Value made = Value.of(value)) {
      return made.spec();
    }
  }

  /** Of ofTypes: the shape of a tensor whose rank is not known. */
  public static final Object ANY_SHAPE = new Object() {
    @Override
    public String toString() {
      return "any shape";
    }
  };

  /** The spec of tensors of some types, as below, of any shapes. */
  public static Spec ofTypes(Object types) {
    return ofTypes(types, null);
  }

  /**
   * The spec of tensors of some types: a DType, an array for a tuple, a List, or a Map of them.
   * {@code shapes} has the same structure, with a long[] or ANY_SHAPE (or null), which is a rank
   * that is not known, in the place of each DType; null altogether: none is known.
   */
  public static Spec ofTypes(Object types, Object shapes) {
    if (types instanceof DType dtype) {
      if (shapes == null || shapes == ANY_SHAPE) {
        return tensorOfAnyShape(dtype);
      }
      if (shapes instanceof long[] shape) {
        return tensor(dtype, shape);
      }
      throw misfit(dtype, "a long[] or null", shapes);
    }
    if (types instanceof Map<?, ?> map) {
      if (shapes != null
          && !(shapes instanceof Map<?, ?> given && given.keySet().equals(map.keySet()))) {
        throw misfit(types, "a Map of the same keys", shapes);
      }
      final Map<String, Spec> parts = new TreeMap<>(Bridge.BY_BYTES);
      map.forEach((key, type) -> parts.put(
          (String) key, ofTypes(type, shapes == null ? null : ((Map<?, ?>) shapes).get(key))));
      return dict(parts);
    }
    if (!(types instanceof Object[]) && !(types instanceof List<?>)) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "the types of a spec: a DType, or an array, a List or a Map of them is needed, not "
              + types);
    }
    final List<?> all = types instanceof Object[] array ? Arrays.asList(array) : (List<?>) types;
    final List<?> given = shapes instanceof Object[] array ? Arrays.asList(array)
        : shapes instanceof List<?> list ? list : null;
    if (shapes != null && (given == null || given.size() != all.size())) {
      throw misfit(types, "an array or a List of " + all.size(), shapes);
    }
    final List<Spec> parts = new ArrayList<>();
    for (int i = 0; i < all.size(); ++i) {
      parts.add(ofTypes(all.get(i), given == null ? null : given.get(i)));
    }
    return types instanceof Object[] ? tuple(parts.toArray(new Spec[0])) : list(parts);
  }

  private static TuttiException misfit(Object types, String wanted, Object shapes) {
    final Object shown = types instanceof Object[] array ? Arrays.asList(array) : types;
    return TuttiException.of(Code.INVALID_ARGUMENT, "the shapes of " + shown + ": " + wanted
        + " is needed, not a " + shapes.getClass().getSimpleName());
  }

  /** None, which is what null becomes. */
  public static Spec none() {
    return new Spec(Box.at(Native.spec_of_none()));
  }

  /** A dict of specs, themselves of any structure. */
  public static Spec dict(Map<String, Spec> parts) {
    final Map<String, Spec> sorted = new TreeMap<>(Bridge.BY_BYTES); // as a dict orders its keys
    sorted.putAll(parts);
    return structure(NODE_DICT, null, sorted.keySet(), sorted.values());
  }

  /** A tuple of specs, themselves of any structure. */
  public static Spec tuple(Spec... parts) {
    return structure(NODE_TUPLE, null, List.of(), Arrays.asList(parts));
  }

  /** A list of specs, themselves of any structure. */
  public static Spec list(List<Spec> parts) {
    return structure(NODE_LIST, null, List.of(), parts);
  }

  /** A record, whose fields are of some specs in the order of the map. */
  public static Spec record(String typeName, Map<String, Spec> fields) {
    return structure(NODE_RECORD, typeName, fields.keySet(), fields.values());
  }

  private static Spec structure(
      int kind, String typeName, Collection<String> keys, Collection<Spec> parts) {
    return new Spec(Box.at(Native.spec_of_parts(
        kind, typeName, keys.toArray(new String[0]), parts.toArray(new NativeObject[0]))));
  }

  // ---- what it is

  /** What it describes. */
  public Kind kind() {
    return switch (Native.spec_kind(this)) {
      case NODE_TUPLE -> Kind.TUPLE;
      case NODE_LIST -> Kind.LIST;
      case NODE_DICT -> Kind.DICT;
      case NODE_RECORD -> Kind.RECORD;
      default -> switch (Native.spec_leaf_kind(this, 0)) {
        case LEAF_DISTRIBUTED -> Kind.PER_REPLICA;
        case LEAF_DATASET -> Kind.DATASET;
        case LEAF_OPTIONAL -> Kind.OPTIONAL;
        case LEAF_NONE -> Kind.NONE;
        case LEAF_ITERATOR -> Kind.ITERATOR;
        default -> Kind.TENSOR;
      };
    };
  }

  /** The parts of a structure; 0 for a leaf. */
  public int size() {
    return Native.spec_kind(this) == NODE_LEAF ? 0 : (int) Native.spec_child_count(this);
  }

  /** The keys of a dict or the fields of a record, in order. */
  public List<String> keys() {
    final Kind kind = kind();
    if (kind != Kind.DICT && kind != Kind.RECORD) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "only a dict or a record has keys; this spec is of kind " + kind + ": " + this);
    }
    final List<String> keys = new ArrayList<>();
    for (int i = 0; i < size(); ++i) {
      keys.add(Native.spec_key(this, i));
    }
    return keys;
  }

  /** Part {@code index} of a structure. */
  public Spec get(int index) {
    if (index < 0 || index >= size()) {
      throw TuttiException.of(
          Code.OUT_OF_RANGE, "part " + index + " of a spec of " + size() + " parts: " + this);
    }
    return new Spec(Box.at(Native.spec_child(this, index)));
  }

  /** The part of a key or field; NOT_FOUND names the keys there are. */
  public Spec get(String key) {
    final List<String> keys = keys();
    final int index = keys.indexOf(key);
    if (index < 0) {
      throw TuttiException.of(Code.NOT_FOUND, "no part '" + key + "'; there are " + keys);
    }
    return get(index);
  }

  /**
   * What an optional holds, what the elements of a dataset or an iterator are, or a tuple of the
   * components of a distributed value; null where that is not known.
   */
  public Spec inner() {
    final Kind kind = kind();
    if (kind != Kind.DATASET && kind != Kind.OPTIONAL && kind != Kind.ITERATOR
        && kind != Kind.PER_REPLICA) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "only an optional, a dataset, an iterator or a distributed value holds something; this "
              + "spec is of kind " + kind + ": " + this);
    }
    final long inner = Native.spec_inner(this);
    return inner == 0 ? null : new Spec(Box.at(inner));
  }

  /** The class of what it describes, as a Value gives it; Value itself of a structure. */
  public Class<?> valueType() {
    return switch (kind()) {
      case TENSOR -> Tensor.class;
      case DATASET -> Dataset.class;
      case OPTIONAL -> Optional.class;
      case ITERATOR -> DatasetIterator.class;
      case NONE -> Void.class;
      default -> Value.class;
    };
  }

  /** The leaves of the whole structure. */
  public int leafCount() {
    return (int) Native.spec_leaf_count(this);
  }

  /** The dtype of a leaf. */
  public DType dtype(int leaf) {
    return DType.of(Native.spec_leaf_dtype(this, checked(leaf)));
  }

  /**
   * The shape of a leaf, a tensor or a dataset, sizes UNKNOWN where not known; null when the rank
   * is not known.
   */
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

  /**
   * Whether a value could fit both: structure, kinds and dtypes are equal, and no two sizes that
   * are known differ. What is not known, on either side, fits.
   */
  public boolean isCompatibleWith(Spec other) {
    return Native.spec_is_compatible(this, other);
  }

  /** The same of a value, of which Spec.of makes the spec. */
  public boolean isCompatibleWith(Object value) {
    if (value instanceof Spec other) {
      return isCompatibleWith(other);
    }
    try (Spec other = of(value)) {
      return isCompatibleWith(other);
    }
  }

  /**
   * The most specific spec that every value of this and of {@code other} fits: sizes that differ
   * are not known in it, nor are ranks. INVALID_ARGUMENT, naming both, where structure, kinds or
   * dtypes differ.
   */
  public Spec mostSpecificCompatibleType(Spec other) {
    return new Spec(Box.at(Native.spec_most_specific(this, other)));
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
