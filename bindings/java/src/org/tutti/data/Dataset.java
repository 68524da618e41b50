package org.tutti.data;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.function.UnaryOperator;
import org.tutti.Code;
import org.tutti.DType;
import org.tutti.Spec;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * A definition of a sequence of elements; nothing runs until it is iterated. Immutable, so that
 * every method gives a new dataset.
 *
 * <p>Bad arguments are reported by the method that takes them, bad data by the iterator that meets
 * it. Order is deterministic unless asked otherwise. Threads: any.
 */
public class Dataset extends NativeObject implements Iterable<Value>, AutoCloseable {
  /** What cardinality() says of a dataset without an end. */
  public static final long INFINITE = -1;
  /** What cardinality() says when only iterating would tell. */
  public static final long UNKNOWN = -2;
  /** A number that the library chooses. */
  public static final long AUTOTUNE = -1;

  /** For the package itself. */
  public Dataset(Box box) {
    super(box);
  }

  private static Dataset of(long box) {
    return new Dataset(Box.at(box));
  }

  // ---- sources

  /** 0, 1, ... stop - 1, as int64. */
  public static Dataset range(long stop) {
    return range(0, stop, 1);
  }

  /** start, start + step, ... before stop, as int64. */
  public static Dataset range(long start, long stop, long step) {
    return range(start, stop, step, DType.INT64);
  }

  /** As above, of another dtype. */
  public static Dataset range(long start, long stop, long step, DType dtype) {
    return range(start, stop, step, dtype, null);
  }

  /** As above, with a name for messages. */
  public static Dataset range(long start, long stop, long step, DType dtype, String name) {
    return of(Native.dataset_range(start, stop, step, dtype.number(), name));
  }

  /** One element: what Value.ofData makes of `data`. */
  public static Dataset fromTensors(Object data) {
    return fromTensors(data, null);
  }

  /** As above, with a name for messages. */
  public static Dataset fromTensors(Object data, String name) {
    try (Value value = Value.ofData(data)) {
      return of(Native.dataset_from_tensors(value, name));
    }
  }

  /** The slices of every tensor along axis 0, whose sizes must be equal there. */
  public static Dataset fromTensorSlices(Object data) {
    return fromTensorSlices(data, null);
  }

  /** As above, with a name for messages. */
  public static Dataset fromTensorSlices(Object data, String name) {
    try (Value value = Value.ofData(data)) {
      return of(Native.dataset_from_tensor_slices(value, name));
    }
  }

  /**
   * What an Iterable gives, which is asked for an iterator by each iteration; its elements are what
   * Value.ofData takes, of the spec `signature`. An exception of it comes out of the iterator.
   */
  public static <T> Dataset fromGenerator(Iterable<T> elements, Spec signature) {
    return fromGenerator(elements, signature, null);
  }

  /** As above, with a name for messages. */
  public static <T> Dataset fromGenerator(Iterable<T> elements, Spec signature, String name) {
    Objects.requireNonNull(signature, "the spec of an element is needed, not null");
    return of(
        Native.dataset_from_generator(new ElementCallback.Generator(elements), signature, name));
  }

  /** The names of the files that match any of the patterns, shuffled anew for each iteration. */
  public static Dataset listFiles(String... patterns) {
    return listFiles(List.of(patterns), null, null);
  }

  /** As above; shuffle false: sorted; a seed makes the order repeatable. */
  public static Dataset listFiles(List<String> patterns, Boolean shuffle, Long seed) {
    return listFiles(patterns, shuffle, seed, null);
  }

  /** As above, with a name for messages. */
  public static Dataset listFiles(List<String> patterns, Boolean shuffle, Long seed, String name) {
    return of(Native.dataset_list_files(
        patterns.toArray(new String[0]), Bridge.tristate(shuffle), seed, name));
  }

  /** One element of each dataset of a structure (a map, an array), as long as the shortest. */
  public static Dataset zip(Object datasets) {
    return zip(datasets, (String) null);
  }

  /** As above, with a name for messages. */
  public static Dataset zip(Object datasets, String name) {
    try (Value value = Value.ofData(
             datasets instanceof List<?> list ? list.toArray() : datasets)) {
      return of(Native.dataset_zip(value, name));
    }
  }

  /** Tuples of one element of each dataset. */
  public static Dataset zip(Dataset first, Dataset... others) {
    final Object[] all = new Object[others.length + 1];
    all[0] = first;
    System.arraycopy(others, 0, all, 1, others.length);
    return zip((Object) all);
  }

  /** The dataset that was serialised. */
  public static Dataset deserialize(byte[] definition) {
    return of(Native.dataset_deserialize(definition));
  }

  // ---- transformations

  /**
   * Every element replaced by what the function makes of it; the first element decides the spec.
   */
  public Dataset map(ElementFunction function) {
    return map(function, null);
  }

  /** As map, where every result is of the spec `signature`. */
  public Dataset map(ElementFunction function, Spec signature) {
    try (Function made = Function.of(function, null, signature, false)) {
      return map(made, 0, null);
    }
  }

  /** As map. parallelCalls: 0 on the iterating thread, n threads, or AUTOTUNE. */
  public Dataset map(Function function, long parallelCalls, Boolean deterministic) {
    return map(function, parallelCalls, deterministic, null);
  }

  /** As above, with a name for messages. */
  public Dataset map(Function function, long parallelCalls, Boolean deterministic, String name) {
    return of(Native.dataset_map(
        this, function, parallelCalls, Bridge.tristate(deterministic), name));
  }

  /** As map, with a function that is not a lambda. */
  public Dataset map(Function function) {
    return map(function, 0, null);
  }

  /** The elements for which the function gives true. */
  public Dataset filter(ElementFunction predicate) {
    try (Spec flag = Spec.tensor(DType.BOOL);
         Function made = Function.of(predicate, null, flag, false)) {
      return filter(made);
    }
  }

  /** As filter. */
  public Dataset filter(Function predicate) {
    return filter(predicate, null);
  }

  /** As above, with a name for messages. */
  public Dataset filter(Function predicate, String name) {
    return of(Native.dataset_filter(this, predicate, name));
  }

  /** `size` consecutive elements stacked along a new axis 0; the last batch may be smaller. */
  public Dataset batch(long size) {
    return batch(size, false);
  }

  /** As batch, without a last batch that is smaller. */
  public Dataset batch(long size, boolean dropRemainder) {
    return batch(size, dropRemainder, null);
  }

  /** As above, with a name for messages. */
  public Dataset batch(long size, boolean dropRemainder, String name) {
    return of(Native.dataset_batch(this, size, Bridge.tristate(dropRemainder), name));
  }

  /** For ever. */
  public Dataset repeat() {
    return repeat(-1);
  }

  /** `count` times; negative: for ever. */
  public Dataset repeat(long count) {
    return repeat(count, null);
  }

  /** As above, with a name for messages. */
  public Dataset repeat(long count, String name) {
    return of(Native.dataset_repeat(this, count, name));
  }

  /** A random order, drawn from a buffer of `bufferSize` elements. */
  public Dataset shuffle(long bufferSize) {
    return shuffle(bufferSize, null, null);
  }

  /** As shuffle, in the order that the seed gives. */
  public Dataset shuffle(long bufferSize, long seed) {
    return shuffle(bufferSize, seed, null);
  }

  /** As shuffle; reshuffle false: the same order in each iteration. */
  public Dataset shuffle(long bufferSize, Long seed, Boolean reshuffle) {
    return shuffle(bufferSize, seed, reshuffle, null);
  }

  /** As above, with a name for messages. */
  public Dataset shuffle(long bufferSize, Long seed, Boolean reshuffle, String name) {
    return of(
        Native.dataset_shuffle(this, bufferSize, seed, Bridge.tristate(reshuffle), name));
  }

  /** The first `count` elements; -1: all. */
  public Dataset take(long count) {
    return take(count, null);
  }

  /** As above, with a name for messages. */
  public Dataset take(long count, String name) {
    return of(Native.dataset_take(this, count, name));
  }

  /** All but the first `count` elements. */
  public Dataset skip(long count) {
    return skip(count, null);
  }

  /** As above, with a name for messages. */
  public Dataset skip(long count, String name) {
    return of(Native.dataset_skip(this, count, name));
  }

  /** Elements index, index + shards, ... */
  public Dataset shard(long shards, long index) {
    return shard(shards, index, null);
  }

  /** As above, with a name for messages. */
  public Dataset shard(long shards, long index, String name) {
    return of(Native.dataset_shard(this, shards, index, name));
  }

  /** The elements of this one, then those of the other, which are of the same structure. */
  public Dataset concatenate(Dataset other) {
    return concatenate(other, null);
  }

  /** As above, with a name for messages. */
  public Dataset concatenate(Dataset other, String name) {
    return of(Native.dataset_concatenate(this, other, name));
  }

  /** Tuples (index, element), from `start` on. */
  public Dataset enumerate(long start) {
    return enumerate(start, null);
  }

  /** As above, with a name for messages. */
  public Dataset enumerate(long start, String name) {
    return of(Native.dataset_enumerate(this, start, name));
  }

  /** Up to `bufferSize` elements made ahead by a thread; AUTOTUNE chooses. */
  public Dataset prefetch(long bufferSize) {
    return prefetch(bufferSize, null);
  }

  /** As above, with a name for messages. */
  public Dataset prefetch(long bufferSize, String name) {
    return of(Native.dataset_prefetch(this, bufferSize, name));
  }

  /** function(this), for chaining. */
  public Dataset apply(UnaryOperator<Dataset> function) {
    final Dataset result = function.apply(this);
    if (result == null) {
      throw TuttiException.of(Code.INVALID_ARGUMENT, "apply: the function gave no dataset");
    }
    return result;
  }

  /** The same dataset with options merged into its own. */
  public Dataset withOptions(Options options) {
    return of(Native.dataset_with_options(this, options));
  }

  // ---- reading

  /** The options. */
  public Options options() {
    return new Options(Box.at(Native.dataset_options(this)));
  }

  /** The number of elements, INFINITE or UNKNOWN. */
  public long cardinality() {
    return Native.dataset_cardinality(this);
  }

  /** Structure, dtypes and shapes of an element; a map without a signature computes one here. */
  public Spec elementSpec() {
    return elementSpec(null);
  }

  /** As elementSpec, waiting for at most `timeout`. */
  public Spec elementSpec(Duration timeout) {
    return new Spec(Box.at(Native.dataset_element_spec(this, Bridge.nanos(timeout))));
  }

  /** The plan for people: one line per operation. */
  public String explain() {
    return Bridge.text(Native.dataset_explain(this));
  }

  /** The definition as bytes; FAILED_PRECONDITION for a lambda without a registered name. */
  public byte[] serialize() {
    return Bridge.bytes(Native.dataset_serialize(this));
  }

  /** A walk over the elements of its own. */
  @Override
  public DatasetIterator iterator() {
    return iterator(null);
  }

  /** As iterator, waiting for at most `timeout`. */
  public DatasetIterator iterator(Duration timeout) {
    return new DatasetIterator(Box.at(Native.iterator_create(this, Bridge.nanos(timeout))));
  }

  @Override
  public String toString() {
    return isClosed() ? "Dataset (closed)" : "Dataset of " + cardinality() + " elements";
  }

  /** Gives the definition up; iterators over it go on. */
  @Override
  public void close() {
    release();
  }
}
