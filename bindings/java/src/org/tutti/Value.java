package org.tutti;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.RecordComponent;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.tutti.data.Dataset;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * A leaf, or a nested structure of leaves: what functions get and give, what a dataset's elements
 * are. Immutable.
 *
 * <p>{@link #of} makes one of maps, lists, records, tensors, primitive arrays (copied), direct
 * buffers (not copied), numbers, strings, variables, datasets; {@link #get} goes down into one. A
 * part that was taken out of a value is closed with it; buffers stay valid. Threads: any.
 */
public final class Value extends NativeObject implements AutoCloseable {
  /** What a value is. */
  public enum Kind {
    /** Numbers or byte strings: asTensor(). */
    TENSOR,
    /** A text: stringValue(). */
    STRING,
    /** A value per replica: get(replica). */
    DISTRIBUTED,
    /** asVariable(). */
    VARIABLE,
    /** asDataset(). */
    DATASET,
    /** A value or nothing: asOptional(). */
    OPTIONAL,
    /** What null becomes. */
    NONE,
    /** An object of Java, as it is: asObject(). */
    OBJECT,
    /** Parts by index, of any kind each. */
    TUPLE,
    /** Parts by index. */
    LIST,
    /** Parts by key. */
    DICT,
    /** Parts by field, in the order of the record. */
    RECORD
  }

  /** What is known of the components of a distributed value, or of a variable's copies. */
  public enum Distribution {
    /** Each replica's own. */
    PER_REPLICA,
    /** Equal on all: it is read as the value that it is. */
    MIRRORED,
    /** Of variables alone: each replica's own, until a read outside of replicas aggregates them. */
    SYNC_ON_READ;

    private static final Distribution[] ALL = values();

    static Distribution of(int number) {
      return number == 0 ? null : ALL[number - 1];
    }
  }

  private static final Kind[] KINDS = Kind.values();

  private Kind kind;
  private List<Value> parts;
  private Tensor tensor;

  static {
    Makers.leave(Value.class, Value::new);
  }

  private Value(Box box) {
    super(box);
  }

  // ---- making

  /**
   * The value of a Java object. Map: a dict; List: a list; record: a named tuple; see tuple() for
   * tuples. Numbers are scalars of their own dtype (an Integer is int32, a Long int64, a Float
   * float32, a Double float64), booleans of bool; primitive arrays are vectors, arrays of them (of
   * one length) matrices; byte[] is one byte string; null is none. Any other object is held as it
   * is.
   */
  public static Value of(Object object) {
    return make(object, false);
  }

  /**
   * As of, for what becomes data: strings are byte strings, a list of numbers or strings is a
   * vector (of the dtype that Java gives an expression of them all: of an Integer and a Double
   * float64), and what is no data is INVALID_ARGUMENT.
   */
  public static Value ofData(Object object) {
    return make(object, true);
  }

  /** A tuple of values, made as of makes them. */
  public static Value tuple(Object... parts) {
    return sequence(Arrays.asList(parts), false, true);
  }

  /**
   * An optional that holds nothing, where a value of the spec {@code held} could be: its own spec
   * is an optional of that. Optional.empty() becomes one of which that is not known.
   */
  public static Value emptyOptional(Spec held) {
    return new Value(Box.at(Native.value_of_empty_optional(held)));
  }

  /**
   * A sparse tensor: a record of the parts indices, values and dense_shape. values, a vector, has
   * at i what stands at indices[i], int64 of shape [values, axes], of a tensor of denseShape; all
   * else is 0, false or an empty string. Each is a Tensor or what ofData makes one of, and indices
   * may be a long[][], of which each row is a place. INVALID_ARGUMENT where they do not fit each
   * other, and for an index that is outside.
   */
  public static Value sparse(Object indices, Object values, Object denseShape) {
    try (Value items = make(values, true); Value sizes = make(denseShape, true);
         Value places = placesOf(indices, sizes)) {
      return new Value(Box.at(Native.value_of_sparse(
          places.asTensor(), items.asTensor(), sizes.asTensor())));
    }
  }

  private static Value placesOf(Object indices, Value sizes) {
    final long[] shape = sizes.asTensor().shape();
    if (!(indices instanceof long[][] rows) || shape.length != 1) {
      return make(indices, true);
    }
    try (Tensor places = NestedLists.matrixOf(rows, (int) shape[0])) {
      return of(places);
    }
  }

  /**
   * A ragged tensor: a record of the parts values and row_splits. Row i is values[rowSplits[i]] up
   * to, but not with, values[rowSplits[i + 1]]. values is a Tensor, what ofData makes one of, or a
   * ragged Value; rowSplits are int64 or int32. INVALID_ARGUMENT unless they begin with 0, never
   * become smaller and end with the number of values.
   */
  public static Value ragged(Object values, Object rowSplits) {
    try (Value items = make(values, true); Value splits = make(rowSplits, true)) {
      return new Value(Box.at(Native.value_of_ragged(items, splits.asTensor())));
    }
  }

  /** As below, of the dtype that the items have; where there are none, float32. */
  public static Value raggedConstant(Object nested) {
    return raggedConstant(nested, null);
  }

  /**
   * The ragged tensor of lists in a list, List or array, all as deep: of numbers or of strings,
   * which are converted to {@code dtype}. Every axis but the first is ragged; row splits are int64.
   * INVALID_ARGUMENT for lists that are not all as deep.
   */
  public static Value raggedConstant(Object nested, DType dtype) {
    return NestedLists.ragged(nested, dtype);
  }

  /**
   * Rows of a tensor, and which ones they are: a record of the parts values, indices and
   * dense_shape. values has a row for each of the indices, a vector of int64 or int32; denseShape,
   * int64, is the shape of the tensor, or null. Each is a Tensor or what ofData makes one of.
   * INVALID_ARGUMENT where they do not fit each other, and for an index that is outside.
   */
  public static Value indexedSlices(Object values, Object indices, Object denseShape) {
    try (Value rows = make(values, true); Value places = make(indices, true);
         Value sizes = make(denseShape, true)) {
      return new Value(Box.at(Native.value_of_indexed_slices(rows.asTensor(), places.asTensor(),
          denseShape == null ? null : sizes.asTensor())));
    }
  }

  private static Value make(Object object, boolean data) {
    if (object instanceof Value value) {
      return new Value(Box.at(Native.value_again(value)));
    }
    if (object == null) {
      return new Value(Box.at(Native.value_of_none()));
    }
    if (object instanceof Tensor tensor) {
      return new Value(Box.at(Native.value_of_tensor(tensor)));
    }
    if (object instanceof Double number) {
      return new Value(Box.at(Native.value_of_float64(number)));
    }
    if (object instanceof Long number) {
      return new Value(Box.at(Native.value_of_int64(number)));
    }
    if (object instanceof Map<?, ?> map) {
      return dict(map, data);
    }
    if (object instanceof List<?> list) {
      if (data) {
        try (Tensor vector = NestedLists.vectorOf(list)) {
          return new Value(Box.at(Native.value_of_tensor(vector)));
        }
      }
      return sequence(list, data, false);
    }
    if (object instanceof Object[] array && !(object instanceof byte[][])
        && !(object instanceof String[]) && !isNested(object.getClass())) {
      return sequence(Arrays.asList(array), data, true);
    }
    if (object instanceof Record fields) {
      return record(fields, data);
    }
    if (object instanceof String text && !data) {
      return new Value(
          Box.at(Native.value_of_string(text.getBytes(StandardCharsets.UTF_8))));
    }
    if (object instanceof Variable variable) {
      return new Value(Box.at(Native.value_of_variable(variable)));
    }
    if (object instanceof Dataset dataset) {
      return new Value(Box.at(Native.value_of_dataset(dataset)));
    }
    if (object instanceof Optional<?> optional) {
      if (optional.isEmpty()) {
        return new Value(Box.at(Native.value_of_optional(null)));
      }
      try (Value held = make(optional.get(), data)) {
        return new Value(Box.at(Native.value_of_optional(held)));
      }
    }
    final Tensor made = tensorOf(object);
    if (made != null) {
      try (made) {
        return new Value(Box.at(Native.value_of_tensor(made)));
      }
    }
    if (data) {
      throw TuttiException.of(Code.INVALID_ARGUMENT, "a " + object.getClass().getName()
          + " cannot stand in a dataset; give tensors, numbers, strings, primitive arrays, direct "
          + "buffers, or maps, records and arrays of them");
    }
    return new Value(Box.at(Native.value_of_object(Bridge.numberOf(object))));
  }

  /** Null when the object is no tensor's equal. */
  static Tensor tensorOf(Object object) {
    if (object instanceof Boolean flag) {
      return Tensor.scalar(flag);
    } else if (object instanceof Number number) {
      return Tensor.ofNumber(number);
    } else if (object instanceof float[] array) {
      return Tensor.of(array);
    } else if (object instanceof double[] array) {
      return Tensor.of(array);
    } else if (object instanceof int[] array) {
      return Tensor.of(array);
    } else if (object instanceof long[] array) {
      return Tensor.of(array);
    } else if (object instanceof short[] array) {
      return Tensor.of(array);
    } else if (object instanceof boolean[] array) {
      return Tensor.of(array);
    } else if (object instanceof byte[] text) {
      return scalarOf(text);
    } else if (object instanceof String text) {
      return scalarOf(text.getBytes(StandardCharsets.UTF_8));
    } else if (object instanceof byte[][] strings) {
      return Tensor.of(strings);
    } else if (isNested(object.getClass())) {
      return Tensor.ofNested(object);
    } else if (object instanceof String[] strings) {
      return Tensor.of(strings);
    } else if (object instanceof Buffer buffer) {
      return tensorOf(buffer);
    }
    return null;
  }

  /** Whether a class is of arrays of arrays of primitives: a matrix, or one of more axes. */
  private static boolean isNested(Class<?> type) {
    Class<?> part = type;
    int depth = 0;
    for (; part.isArray(); part = part.getComponentType()) {
      ++depth;
    }
    return depth > 1 && part.isPrimitive() && part != byte.class && part != char.class;
  }

  private static Tensor scalarOf(byte[] text) {
    return Makers.tensor(Box.at(Native.tensor_from_strings(new long[0], new byte[][] {text})));
  }

  private static Tensor tensorOf(Buffer buffer) {
    if (buffer instanceof FloatBuffer elements) {
      return Tensor.wrap(elements);
    } else if (buffer instanceof DoubleBuffer elements) {
      return Tensor.wrap(elements);
    } else if (buffer instanceof IntBuffer elements) {
      return Tensor.wrap(elements);
    } else if (buffer instanceof LongBuffer elements) {
      return Tensor.wrap(elements);
    } else if (buffer instanceof ShortBuffer elements) {
      return Tensor.wrap(elements);
    } else if (buffer instanceof ByteBuffer elements) {
      return Tensor.wrap(elements, DType.UINT8);
    }
    return null;
  }

  private static Value[] made(List<?> objects, boolean data) {
    final Value[] children = new Value[objects.size()];
    try {
      for (int i = 0; i < children.length; ++i) {
        children[i] = make(objects.get(i), data);
      }
    } catch (RuntimeException failed) {
      closeAll(children);
      throw failed;
    }
    return children;
  }

  private static void closeAll(Value[] children) {
    for (final Value child : children) {
      if (child != null) {
        child.close();
      }
    }
  }

  private static Value sequence(List<?> objects, boolean data, boolean tuple) {
    final Value[] children = made(objects, data);
    try {
      return new Value(
          Box.at(tuple ? Native.value_of_tuple(children) : Native.value_of_list(children)));
    } finally {
      closeAll(children);
    }
  }

  private static Value dict(Map<?, ?> map, boolean data) {
    final String[] keys = new String[map.size()];
    final List<Object> objects = new ArrayList<>(keys.length);
    for (final Map.Entry<?, ?> entry : map.entrySet()) {
      if (!(entry.getKey() instanceof String key)) {
        throw TuttiException.of(Code.INVALID_ARGUMENT,
            "the keys of a map are strings, not " + entry.getKey());
      }
      keys[objects.size()] = key;
      objects.add(entry.getValue());
    }
    final Value[] children = made(objects, data);
    try {
      return new Value(Box.at(Native.value_of_dict(keys, children)));
    } finally {
      closeAll(children);
    }
  }

  private static Value record(Record fields, boolean data) {
    final RecordComponent[] components = fields.getClass().getRecordComponents();
    final String[] names = new String[components.length];
    final List<Object> objects = new ArrayList<>(names.length);
    try {
      for (int i = 0; i < names.length; ++i) {
        names[i] = components[i].getName();
        components[i].getAccessor().setAccessible(true);
        objects.add(components[i].getAccessor().invoke(fields));
      }
    } catch (IllegalAccessException | InvocationTargetException failed) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "the fields of a " + fields.getClass().getName() + " cannot be read", Map.of(), failed);
    }
    final Value[] children = made(objects, data);
    try {
      return new Value(Box.at(
          Native.value_of_named_tuple(fields.getClass().getSimpleName(), names, children)));
    } finally {
      closeAll(children);
    }
  }

  // ---- bytes

  /**
   * The value as bytes, for other processes and other languages: the protocol buffer message
   * tutti.v1.ValueDef. FAILED_PRECONDITION for what lives in this process only: objects of Java,
   * variables, values per replica.
   */
  public byte[] serialize() {
    return Bridge.bytes(Native.value_serialize(this));
  }

  /** The value that serialize gave, in whatever language. */
  public static Value parse(byte[] serialized) {
    return new Value(Box.at(Native.value_parse(serialized)));
  }

  // ---- what it is

  /** What it is. */
  public Kind kind() {
    if (kind == null) {
      kind = KINDS[Native.value_kind(this) - 1];
    }
    return kind;
  }

  /** The parts of a structure; of a distributed value, the replicas of this process. */
  public int size() {
    return (int) (kind() == Kind.DISTRIBUTED ? Native.value_component_count(this)
        : Native.value_child_count(this));
  }

  /** What is known of the components of a distributed value; null for others. */
  public Distribution distribution() {
    return Distribution.of(Native.value_distribution(this));
  }

  /** The keys of a dict or the fields of a record, in order. */
  public List<String> keys() {
    if (kind() != Kind.DICT && kind() != Kind.RECORD) {
      throw wrong("a dict or a record");
    }
    final List<String> keys = new ArrayList<>();
    for (int i = 0; i < size(); ++i) {
      keys.add(Native.value_key(this, i));
    }
    return keys;
  }

  /** The name of a record's type; INVALID_ARGUMENT for what is none. */
  public String typeName() {
    if (kind() != Kind.RECORD) {
      throw wrong("a record");
    }
    return Native.value_type_name(this);
  }

  /** Part {@code index}; of a distributed value, what replica {@code index} of this process has. */
  public Value get(int index) {
    if (index < 0 || index >= size()) {
      throw TuttiException.of(Code.OUT_OF_RANGE, "part " + index + " of a value of " + size());
    }
    return part(kind() == Kind.DISTRIBUTED ? Native.value_component(this, index)
        : Native.value_child(this, index));
  }

  /** The part of a key or field; NOT_FOUND names the keys there are. */
  public Value get(String key) {
    final List<String> keys = keys();
    final int index = keys.indexOf(key);
    if (index < 0) {
      throw TuttiException.of(Code.NOT_FOUND, "no part '" + key + "'; there are " + keys);
    }
    return get(index);
  }

  private synchronized Value part(long box) {
    final Value part = new Value(Box.at(box));
    if (parts == null) {
      parts = new ArrayList<>(2);
    }
    parts.add(part);
    return part;
  }

  /** The parts by key. */
  public Map<String, Value> asMap() {
    final Map<String, Value> map = new LinkedHashMap<>();
    final List<String> keys = keys();
    for (int i = 0; i < keys.size(); ++i) {
      map.put(keys.get(i), get(i));
    }
    return map;
  }

  /** The parts in order; of a distributed value, one per replica of this process. */
  public List<Value> asList() {
    final List<Value> list = new ArrayList<>();
    for (int i = 0; i < size(); ++i) {
      list.add(get(i));
    }
    return list;
  }

  /** Whether it is none. */
  public boolean isNone() {
    return kind() == Kind.NONE;
  }

  // ---- leaves

  /**
   * The tensor, of a mirrored value that of replica 0; read-only, for its memory is shared:
   * Tensor.copy makes one that may be written. It is closed with this value.
   */
  public synchronized Tensor asTensor() {
    if (tensor == null && distribution() == Distribution.MIRRORED) {
      return get(0).asTensor();
    }
    if (tensor == null) {
      final long box = Native.value_tensor(this);
      if (box == 0) {
        throw wrong("a tensor");
      }
      tensor = Makers.tensor(Box.at(box));
    }
    return tensor;
  }

  /** The elements of the tensor, as Tensor.asFloatBuffer. */
  public FloatBuffer asFloatBuffer() {
    return asTensor().asFloatBuffer();
  }

  /** The elements of the tensor, as Tensor.asDoubleBuffer. */
  public DoubleBuffer asDoubleBuffer() {
    return asTensor().asDoubleBuffer();
  }

  /** The elements of the tensor, as Tensor.asIntBuffer. */
  public IntBuffer asIntBuffer() {
    return asTensor().asIntBuffer();
  }

  /** The elements of the tensor, as Tensor.asLongBuffer. */
  public LongBuffer asLongBuffer() {
    return asTensor().asLongBuffer();
  }

  /** The memory of the tensor, as Tensor.asByteBuffer. */
  public ByteBuffer asByteBuffer() {
    return asTensor().asByteBuffer();
  }

  /** The only element of the tensor. */
  public double doubleValue() {
    return asTensor().doubleValue();
  }

  /** The only element of the tensor. */
  public float floatValue() {
    return asTensor().floatValue();
  }

  /** The only element of the tensor. */
  public long longValue() {
    return asTensor().longValue();
  }

  /** The only element of the tensor. */
  public int intValue() {
    return asTensor().intValue();
  }

  /** The only element of the tensor. */
  public boolean booleanValue() {
    return asTensor().booleanValue();
  }

  /** The text of a string, or of a tensor that is one byte string of UTF-8. */
  public String stringValue() {
    if (kind() == Kind.STRING) {
      return Bridge.text(Native.value_string(this));
    }
    return new String(asTensor().bytes(0), StandardCharsets.UTF_8);
  }

  /** The only byte string of the tensor. */
  public byte[] bytesValue() {
    return asTensor().bytes(0);
  }

  /** The Java object that the value holds. */
  public <T> T asObject(Class<T> type) {
    if (kind() != Kind.OBJECT) {
      throw wrong("a Java object");
    }
    final Object object = Bridge.objectOf(Native.value_host_object(this));
    if (object == null) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "this value holds an object of another language");
    }
    return type.cast(object);
  }

  /** What an optional holds. */
  public Optional<Value> asOptional() {
    if (kind() != Kind.OPTIONAL) {
      throw wrong("an optional");
    }
    final long held = Native.value_optional(this);
    return held == 0 ? Optional.empty() : Optional.of(part(held));
  }

  /** The variable. */
  public Variable asVariable() {
    if (kind() != Kind.VARIABLE) {
      throw wrong("a variable");
    }
    return Makers.variable(Box.at(Native.value_variable(this)));
  }

  /** The dataset. */
  public Dataset asDataset() {
    if (kind() != Kind.DATASET) {
      throw wrong("a dataset");
    }
    return Makers.dataset(Box.at(Native.value_dataset(this)));
  }

  /** Whether it is a sparse tensor, whose parts have the keys indices, values and dense_shape. */
  public boolean isSparse() {
    return kind() == Kind.RECORD && typeName().equals("tutti.SparseTensor");
  }

  /** Whether it is indexed slices, whose parts have the keys values, indices and dense_shape. */
  public boolean isIndexedSlices() {
    return kind() == Kind.RECORD && typeName().equals("tutti.IndexedSlices");
  }

  /** Whether it is a ragged tensor, whose parts have the keys values and row_splits. */
  public boolean isRagged() {
    return kind() == Kind.RECORD && typeName().equals("tutti.RaggedTensor");
  }

  /**
   * The tensor that a sparse or ragged one stands for, 0, false or empty strings in the places
   * without a value; ragged axes are as long as their longest. INVALID_ARGUMENT for other values.
   */
  public Tensor toDense() {
    return toDense(null);
  }

  /** As above, with a scalar of the values' dtype, as ofData takes it, in those places. */
  public Tensor toDense(Object defaultValue) {
    if (defaultValue == null) {
      return Makers.tensor(Box.at(Native.value_to_dense(this, null)));
    }
    try (Value filler = make(defaultValue, true)) {
      return Makers.tensor(Box.at(Native.value_to_dense(this, filler.asTensor())));
    }
  }

  /**
   * The rows of a sparse or ragged tensor along axis 0: sparse tensors; ragged ones, or tensors
   * where it is ragged once. They are closed with this value. INVALID_ARGUMENT for other values.
   */
  public List<Value> rows() {
    return part(Native.value_to_rows(this)).asList();
  }

  private TuttiException wrong(String wanted) {
    return TuttiException.of(Code.INVALID_ARGUMENT,
        "this value is of kind " + kind() + ", not " + wanted + ": " + this);
  }

  /** Structure, dtypes and shapes. */
  public Spec spec() {
    return Makers.spec(Box.at(Native.spec_from_value(this)));
  }

  /** For people. */
  @Override
  public String toString() {
    return isClosed() ? "Value (closed)" : Bridge.text(Native.value_to_string(this));
  }

  /** Closes the value and the parts that were taken out of it. */
  @Override
  public void close() {
    final List<Value> taken;
    final Tensor held;
    synchronized (this) {
      taken = parts;
      parts = null;
      held = tensor;
    }
    release();
    if (held != null) {
      held.close();
    }
    if (taken != null) {
      taken.forEach(Value::close);
    }
  }
}
