package org.tutti;

import java.lang.reflect.Array;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.tutti.internal.Box;
import org.tutti.internal.Bridge;
import org.tutti.internal.Loader;
import org.tutti.internal.Makers;
import org.tutti.internal.Native;
import org.tutti.internal.NativeObject;

/**
 * A dense array in memory outside of Java's heap.
 *
 * <p>Buffers over its memory are direct, in native byte order and without a copy; they keep the
 * memory alive by themselves, also after close(). A tensor that is shared (reached through a value,
 * a variable's data) is read-only, and so are its buffers: another pass over the dataset, another
 * replica may read the same memory. copy() makes one that may be written. Threads: any to read, one
 * at a time to write.
 *
 * <p>Memory that the library gives counts against the setting memory_limit, not against the heap:
 * beyond it is RESOURCE_EXHAUSTED with the details requested_bytes, used_bytes and limit_bytes.
 * Close what is not needed any more; garbage is closed too, but only when the collector comes by
 * (see TuttiRuntime.offHeapBytes).
 */
public final class Tensor extends NativeObject implements AutoCloseable {
  private Bridge.Memory memory; // read once

  static {
    Makers.leave(Tensor.class, Tensor::new);
  }

  private Tensor(Box box) {
    super(box);
  }

  // ---- making

  // On the device that the scopes around say.
  private static Tensor placed(Box box) {
    final Tensor made = new Tensor(box);
    final DeviceSpec device = DeviceSpec.current();
    if (device == null) {
      return made;
    }
    try (made) {
      return new Tensor(Box.at(Native.device_place_tensor(device.toString(), made)));
    }
  }

  /** Zeros. */
  public static Tensor zeros(DType dtype, long... shape) {
    return placed(made(dtype, shape, true, null, false));
  }

  /** Zeros on a device, "GPU:0" or "CPU:0", whatever device scopes say. */
  public static Tensor zerosOn(String device, DType dtype, long... shape) {
    return new Tensor(made(dtype, shape, true, device, false));
  }

  /**
   * Zeros in pinned host memory, which GPUs copy from and to without staging. NOT_FOUND where there
   * is no GPU.
   */
  public static Tensor pinned(DType dtype, long... shape) {
    return new Tensor(made(dtype, shape, true, null, true));
  }

  private static Box made(
      DType dtype, long[] shape, boolean zeroed, String device, boolean pinned) {
    return Box.at(Native.tensor_create(dtype.number(), shape, Bridge.tristate(zeroed), device,
        Bridge.tristate(pinned)));
  }

  /** Elements that are not specified, to be written. */
  public static Tensor empty(DType dtype, long... shape) {
    return placed(made(dtype, shape, false, null, false));
  }

  /** A copy of {@code elements}, in row-major order. */
  public static Tensor of(float[] elements, long... shape) {
    return copied(elements, DType.FLOAT32, shape);
  }

  /** A copy of {@code elements}, in row-major order. */
  public static Tensor of(double[] elements, long... shape) {
    return copied(elements, DType.FLOAT64, shape);
  }

  /** A copy of {@code elements}, in row-major order. */
  public static Tensor of(int[] elements, long... shape) {
    return copied(elements, DType.INT32, shape);
  }

  /** A copy of {@code elements}, in row-major order. */
  public static Tensor of(long[] elements, long... shape) {
    return copied(elements, DType.INT64, shape);
  }

  /** A copy of {@code elements}, in row-major order. */
  public static Tensor of(short[] elements, long... shape) {
    return copied(elements, DType.INT16, shape);
  }

  /** A copy of {@code elements}, in row-major order. */
  public static Tensor of(boolean[] elements, long... shape) {
    return copied(elements, DType.BOOL, shape);
  }

  /** A matrix: a copy of rows of one length. */
  public static Tensor of(float[][] rows) {
    return ofNested(rows);
  }

  /** A matrix: a copy of rows of one length. */
  public static Tensor of(double[][] rows) {
    return ofNested(rows);
  }

  /** A matrix: a copy of rows of one length. */
  public static Tensor of(int[][] rows) {
    return ofNested(rows);
  }

  /** A matrix: a copy of rows of one length. */
  public static Tensor of(long[][] rows) {
    return ofNested(rows);
  }

  /** Arrays of arrays of primitives, of one length at each level, as a tensor of as many axes. */
  static Tensor ofNested(Object nested) {
    final List<Long> shape = new ArrayList<>();
    Object first = nested;
    Class<?> type = nested.getClass();
    for (; type.isArray(); type = type.getComponentType()) {
      final int length = first == null ? 0 : Array.getLength(first);
      shape.add((long) length);
      first = length == 0 || !type.getComponentType().isArray() ? null : Array.get(first, 0);
    }
    final long[] dims = shape.stream().mapToLong(Long::longValue).toArray();
    long count = 1;
    for (final long dim : dims) {
      count *= dim;
    }
    final Object flat = Array.newInstance(type, Math.toIntExact(count));
    flatten(nested, dims, 0, flat, 0);
    try (Tensor vector = Value.tensorOf(flat)) {
      return vector.reshape(dims);
    }
  }

  private static int flatten(Object part, long[] dims, int level, Object flat, int at) {
    Objects.requireNonNull(part, "a row is null");
    if (Array.getLength(part) != dims[level]) {
      throw TuttiException.of(Code.INVALID_ARGUMENT, "an array on level " + level + " has "
          + Array.getLength(part) + " elements, the first one there has " + dims[level]
          + ": a matrix has rows of one length");
    }
    if (level == dims.length - 1) {
      System.arraycopy(part, 0, flat, at, (int) dims[level]);
      return at + (int) dims[level];
    }
    int next = at;
    for (int i = 0; i < dims[level]; ++i) {
      next = flatten(Array.get(part, i), dims, level + 1, flat, next);
    }
    return next;
  }

  /**
   * A copy of {@code elements}, in row-major order, as a dtype of their size (UINT8, FLOAT16 ...).
   */
  public static Tensor of(DType dtype, byte[] elements, long... shape) {
    if (dtype.byteSize() != 1) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "bytes can be INT8, UINT8 or BOOL, not " + dtype + "; wrap a direct buffer instead");
    }
    return copied(elements, dtype, shape);
  }

  /** Byte strings; without a shape a vector. */
  public static Tensor of(byte[][] strings, long... shape) {
    return placed(Box.at(Native.tensor_from_strings(shapeOf(shape, strings.length), strings)));
  }

  /** Byte strings of UTF-8; without a shape a vector. */
  public static Tensor of(String[] strings, long... shape) {
    final byte[][] bytes = new byte[strings.length][];
    for (int i = 0; i < bytes.length; ++i) {
      bytes[i] = strings[i].getBytes(StandardCharsets.UTF_8);
    }
    return of(bytes, shape);
  }

  /** A scalar of float64. */
  public static Tensor scalar(double number) {
    return placed(Box.at(
        Native.tensor_from_array(new double[] {number}, 8, DType.FLOAT64.number(), new long[0])));
  }

  /** A scalar of float32. */
  public static Tensor scalar(float number) {
    return placed(Box.at(
        Native.tensor_from_array(new float[] {number}, 4, DType.FLOAT32.number(), new long[0])));
  }

  /** A scalar of int32. */
  public static Tensor scalar(int number) {
    return placed(Box.at(
        Native.tensor_from_array(new int[] {number}, 4, DType.INT32.number(), new long[0])));
  }

  /** A scalar of int64. */
  public static Tensor scalar(long number) {
    return placed(Box.at(
        Native.tensor_from_array(new long[] {number}, 8, DType.INT64.number(), new long[0])));
  }

  /** A scalar of bool. */
  public static Tensor scalar(boolean flag) {
    return placed(Box.at(
        Native.tensor_from_array(new boolean[] {flag}, 1, DType.BOOL.number(), new long[0])));
  }

  /** The scalar of a boxed number, in its own dtype; null for a class of numbers without one. */
  static Tensor ofNumber(Number number) {
    if (number instanceof Integer) {
      return scalar(number.intValue());
    } else if (number instanceof Long) {
      return scalar(number.longValue());
    } else if (number instanceof Float) {
      return scalar(number.floatValue());
    } else if (number instanceof Double) {
      return scalar(number.doubleValue());
    } else if (number instanceof Short) {
      return placed(Box.at(Native.tensor_from_array(
          new short[] {number.shortValue()}, 2, DType.INT16.number(), new long[0])));
    } else if (number instanceof Byte) {
      return placed(Box.at(Native.tensor_from_array(
          new byte[] {number.byteValue()}, 1, DType.INT8.number(), new long[0])));
    }
    return null;
  }

  /**
   * A tensor over the memory of a direct buffer, from its position to its limit, without a copy;
   * without a shape a vector. The tensor keeps the buffer alive; writes on either side show on the
   * other. A heap buffer is INVALID_ARGUMENT; a read-only buffer makes a read-only tensor.
   */
  public static Tensor wrap(FloatBuffer elements, long... shape) {
    return wrap(elements, elements.order(), DType.FLOAT32, shape);
  }

  /** As wrap(FloatBuffer). */
  public static Tensor wrap(DoubleBuffer elements, long... shape) {
    return wrap(elements, elements.order(), DType.FLOAT64, shape);
  }

  /** As wrap(FloatBuffer). */
  public static Tensor wrap(IntBuffer elements, long... shape) {
    return wrap(elements, elements.order(), DType.INT32, shape);
  }

  /** As wrap(FloatBuffer). */
  public static Tensor wrap(LongBuffer elements, long... shape) {
    return wrap(elements, elements.order(), DType.INT64, shape);
  }

  /** As wrap(FloatBuffer). */
  public static Tensor wrap(ShortBuffer elements, long... shape) {
    return wrap(elements, elements.order(), DType.INT16, shape);
  }

  /** As wrap(FloatBuffer), of any dtype but BYTES. */
  public static Tensor wrap(ByteBuffer elements, DType dtype, long... shape) {
    return wrap(elements, ByteOrder.nativeOrder(), dtype, shape);
  }

  private static Tensor wrap(Buffer elements, ByteOrder order, DType dtype, long[] shape) {
    if (!elements.isDirect()) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "a direct buffer is needed here, this one lies on Java's heap: allocate it with "
              + "ByteBuffer.allocateDirect, or give the array, which is copied");
    }
    if (order != ByteOrder.nativeOrder()) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "the buffer is in " + order + " order, the machine's is " + ByteOrder.nativeOrder()
              + ": call order(ByteOrder.nativeOrder()) before making the view");
    }
    if (dtype.byteSize() == 0) {
      throw TuttiException.of(Code.INVALID_ARGUMENT, "a buffer cannot hold byte strings");
    }
    final int width = elements instanceof ByteBuffer ? 1 : dtype.byteSize();
    final long bytes = (long) elements.remaining() * width;
    return placed(Box.at(Native.tensor_wrap(elements, (long) elements.position() * width, bytes,
        dtype.number(), shapeOf(shape, bytes / dtype.byteSize()), elements.isReadOnly())));
  }

  private static Tensor copied(Object elements, DType dtype, long[] shape) {
    final long count =
        Array.getLength(Objects.requireNonNull(elements, "an array is needed, not null"));
    return placed(Box.at(Native.tensor_from_array(
        elements, count * dtype.byteSize(), dtype.number(), shapeOf(shape, count))));
  }

  private static long[] shapeOf(long[] shape, long count) {
    return shape.length == 0 ? new long[] {count} : shape;
  }

  // ---- DLPack, for other native libraries of the program

  /**
   * Takes over the memory of a DLManagedTensorVersioned (DLPack 1.x, on a CPU or a GPU) at an
   * address, without a copy; its deleter is called with the last use. On failure it stays the
   * caller's. The producer of one on a GPU has to be given the handle of
   * DeviceStream.ofCudaDevice, on which it is used.
   */
  public static Tensor fromDLPack(long address) {
    return placed(Box.at(Native.tensor_from_dlpack(address)));
  }

  /**
   * The address of a new DLManagedTensorVersioned over this memory, which it keeps alive by itself.
   * Whoever it is given to calls its deleter; deleteDLPack does that for one that nobody took.
   * INVALID_ARGUMENT for byte strings.
   */
  public long toDLPack() {
    return toDLPack(false);
  }

  /** As toDLPack; copy: of a fresh copy, which the receiver may write. */
  public long toDLPack(boolean copy) {
    return Native.tensor_to_dlpack(this, copy, null);
  }

  /**
   * As toDLPack, of a tensor on a GPU, to a receiver whose stream waits for the library's work on
   * it: 1 is the default stream (as without one), 2 that of the calling thread, else a handle; -1:
   * nobody waits; 0 says nothing and is INVALID_ARGUMENT.
   */
  public long toDLPack(boolean copy, long stream) {
    return Native.tensor_to_dlpack(this, copy, stream);
  }

  /**
   * A tensor over memory of another library's on a GPU, by its address and size, without a copy;
   * without a shape a vector. The caller keeps the memory until nobody uses the tensor any more.
   */
  public static Tensor wrapAddress(
      String device, long address, long byteSize, DType dtype, long... shape) {
    if (dtype.byteSize() == 0) {
      throw TuttiException.of(Code.INVALID_ARGUMENT, "a GPU's memory cannot hold byte strings");
    }
    return new Tensor(Box.at(Native.tensor_wrap_address(address, byteSize, dtype.number(),
        shapeOf(shape, byteSize / dtype.byteSize()), device)));
  }

  /** Calls the deleter of a DLManagedTensorVersioned. */
  public static void deleteDLPack(long address) {
    Loader.load();
    Native.dlpack_delete(address);
  }

  // ---- what it is

  /** What the elements are. */
  public DType dtype() {
    return DType.of(Native.tensor_dtype(this));
  }

  /** The full name of the device on which it lies. */
  public String device() {
    return Bridge.text(Native.device_of_tensor(this));
  }

  /** The size of every axis; empty for a scalar. */
  public long[] shape() {
    final long[] shape = new long[(int) Native.tensor_rank(this)];
    for (int i = 0; i < shape.length; ++i) {
      shape[i] = Native.tensor_dim(this, i);
    }
    return shape;
  }

  /** The distance of neighbours along every axis, in elements. */
  public long[] strides() {
    final long[] strides = new long[(int) Native.tensor_rank(this)];
    for (int i = 0; i < strides.length; ++i) {
      strides[i] = Native.tensor_stride(this, i);
    }
    return strides;
  }

  /** The number of elements. */
  public long elementCount() {
    return Native.tensor_element_count(this);
  }

  /** Element count times element size. */
  public long byteSize() {
    return Native.tensor_byte_size(this);
  }

  /** Whether its memory must not be written. */
  public boolean isReadOnly() {
    return Native.tensor_is_read_only(this);
  }

  /** Whether the elements lie in row-major order without gaps. */
  public boolean isContiguous() {
    return Native.tensor_is_contiguous(this);
  }

  /** What CUDA calls the device on which it lies; -1 for one in host memory. */
  public long cudaDevice() {
    return Native.tensor_cuda_device(this);
  }

  /** Where the first element lies, on whichever device. */
  public long dataAddress() {
    return Native.tensor_address(this);
  }

  // ---- reading and writing

  /**
   * A buffer over the memory. FAILED_PRECONDITION when the tensor is strided (copy() first),
   * OUT_OF_RANGE when it is larger than a Java buffer can be (slice() first), INVALID_ARGUMENT for
   * byte strings. A tensor on a GPU is FAILED_PRECONDITION, too (copyTo("CPU:0") first).
   */
  public ByteBuffer asByteBuffer() {
    return bufferOf(memory()).duplicate().order(ByteOrder.nativeOrder());
  }

  private synchronized Bridge.Memory memory() {
    if (isClosed()) {
      throw TuttiException.of(Code.FAILED_PRECONDITION,
          "this tensor has been closed; take its buffers before close()");
    }
    if (memory == null) {
      memory = Bridge.Memory.of(this);
    }
    return memory;
  }

  /** For views only: nobody moves its position. */
  private ByteBuffer bufferOf(Bridge.Memory whole) {
    if (whole.buffer() != null) {
      return whole.buffer();
    }
    if (DType.of(whole.dtype()) == DType.BYTES) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "byte strings do not lie in a buffer: read them with bytes(index)");
    }
    if (cudaDevice() >= 0) {
      throw TuttiException.of(Code.FAILED_PRECONDITION, "the tensor lies on " + device()
          + ", whose memory no buffer shows: take a copyTo(\"CPU:0\")");
    }
    if (!whole.contiguous()) {
      throw TuttiException.of(Code.FAILED_PRECONDITION, "a tensor with strides "
          + Arrays.toString(strides()) + " cannot be seen through a buffer: take a copy()");
    }
    throw TuttiException.of(Code.OUT_OF_RANGE, "a Java buffer ends at 2 GiB, this tensor has "
        + whole.byteSize() + " bytes: take a slice()");
  }

  /** A view of the elements; INVALID_ARGUMENT unless the dtype is FLOAT32. */
  public FloatBuffer asFloatBuffer() {
    return checked(DType.FLOAT32, DType.FLOAT32).asFloatBuffer();
  }

  /** A view of the elements; INVALID_ARGUMENT unless the dtype is FLOAT64. */
  public DoubleBuffer asDoubleBuffer() {
    return checked(DType.FLOAT64, DType.FLOAT64).asDoubleBuffer();
  }

  /** A view of the elements; INVALID_ARGUMENT unless the dtype is INT32 or UINT32. */
  public IntBuffer asIntBuffer() {
    return checked(DType.INT32, DType.UINT32).asIntBuffer();
  }

  /** A view of the elements; INVALID_ARGUMENT unless the dtype is INT64 or UINT64. */
  public LongBuffer asLongBuffer() {
    return checked(DType.INT64, DType.UINT64).asLongBuffer();
  }

  /** A view of the elements; INVALID_ARGUMENT unless they are integers or floats of 16 bits. */
  public ShortBuffer asShortBuffer() {
    final Bridge.Memory whole = memory();
    final DType dtype = DType.of(whole.dtype());
    if (dtype.byteSize() != 2) {
      throw wrongType(dtype, "16-bit elements");
    }
    return bufferOf(whole).asShortBuffer();
  }

  private ByteBuffer checked(DType wanted, DType also) {
    final Bridge.Memory whole = memory();
    final DType dtype = DType.of(whole.dtype());
    if (dtype != wanted && dtype != also) {
      throw wrongType(dtype, wanted.toString());
    }
    return bufferOf(whole);
  }

  private static TuttiException wrongType(DType dtype, String wanted) {
    return TuttiException.of(Code.INVALID_ARGUMENT,
        "the tensor's elements are " + dtype + ", not " + wanted + ": convert it with cast()");
  }

  /** A copy of the elements, converted. */
  public float[] toFloatArray() {
    return (float[]) copyTo(DType.FLOAT32, new float[length()]);
  }

  /** A copy of the elements, converted. */
  public double[] toDoubleArray() {
    return (double[]) copyTo(DType.FLOAT64, new double[length()]);
  }

  /** A copy of the elements, converted. */
  public int[] toIntArray() {
    return (int[]) copyTo(DType.INT32, new int[length()]);
  }

  /** A copy of the elements, converted. */
  public long[] toLongArray() {
    return (long[]) copyTo(DType.INT64, new long[length()]);
  }

  /** A copy of the elements, which are BOOL. */
  public boolean[] toBooleanArray() {
    return (boolean[]) copyTo(DType.BOOL, new boolean[length()]);
  }

  private int length() {
    final long count = elementCount();
    if (count > Integer.MAX_VALUE - 8) {
      throw TuttiException.of(Code.OUT_OF_RANGE, "no Java array holds " + count + " elements");
    }
    return (int) count;
  }

  private Object copyTo(DType wanted, Object array) {
    final long bytes = (long) Array.getLength(array) * wanted.byteSize();
    if (dtype() == wanted) {
      Native.tensor_to_array(this, array, bytes);
      return array;
    }
    if (cudaDevice() >= 0) {
      try (Tensor here = copyTo("CPU:0")) {
        return here.copyTo(wanted, array);
      }
    }
    try (Tensor converted = cast(wanted)) {
      Native.tensor_to_array(converted, array, bytes);
    }
    return array;
  }

  /** The only element, as a number. */
  public double doubleValue() {
    onlyOne();
    return toDoubleArray()[0];
  }

  /** The only element, as a number. */
  public float floatValue() {
    return (float) doubleValue();
  }

  /** The only element, as an integer. */
  public long longValue() {
    onlyOne();
    return toLongArray()[0];
  }

  /** The only element, as an integer that fits. */
  public int intValue() {
    return Math.toIntExact(longValue());
  }

  /** The only element: whether it is not zero. */
  public boolean booleanValue() {
    onlyOne();
    return toBooleanArray()[0];
  }

  private void onlyOne() {
    if (elementCount() != 1) {
      throw TuttiException.of(Code.INVALID_ARGUMENT,
          "a tensor of shape " + Arrays.toString(shape()) + " is not one number");
    }
  }

  /** Element {@code index}, in row-major order, of a tensor of byte strings. */
  public byte[] bytes(long index) {
    if (dtype() != DType.BYTES) {
      throw wrongType(dtype(), "BYTES");
    }
    if (index < 0 || index >= elementCount()) {
      throw TuttiException.of(Code.OUT_OF_RANGE,
          "element " + index + " of a tensor of " + elementCount());
    }
    if (isContiguous()) {
      return Native.tensor_string(this, index);
    }
    try (Tensor dense = copy()) {
      return Native.tensor_string(dense, index);
    }
  }

  // ---- other tensors

  /** The elements start .. stop - 1 along an axis, a view of the same memory. */
  public Tensor slice(int axis, long start, long stop) {
    return new Tensor(Box.at(Native.tensor_slice(this, axis, start, stop)));
  }

  /**
   * The same elements, a view that cannot be written, nor through its buffers; a value's tensor is
   * one.
   */
  public Tensor asReadOnly() {
    return new Tensor(Box.at(Native.tensor_as_read_only(this)));
  }

  /** The same elements under another shape, in which one size may be -1. */
  public Tensor reshape(long... shape) {
    return new Tensor(Box.at(Native.tensor_reshape(this, shape)));
  }

  /** A contiguous copy of another dtype. */
  public Tensor cast(DType dtype) {
    return new Tensor(Box.at(Native.tensor_cast(this, dtype.number())));
  }

  /**
   * The elements in another dtype that holds them, as elements of datasets are converted to a
   * declared one: integers to integers that hold each of them, numbers to floats (rounded), real
   * numbers to complex ones. INVALID_ARGUMENT naming the first element that does not fit.
   */
  public Tensor convert(DType dtype) {
    return new Tensor(Box.at(Native.tensor_convert(this, dtype.number())));
  }

  // ---- texts

  /**
   * The byte strings of one place put together, in the order of {@code tensors}, with a separator
   * between them. Scalars stand in every place; all other tensors must have one shape, which is the
   * result's.
   */
  public static Tensor joinStrings(String separator, Tensor... tensors) {
    return new Tensor(Box.at(Native.tensor_join_strings(tensors, separator)));
  }

  /**
   * What the operation of that name (tutti/expression.h lists them) makes of {@code inputs}, told
   * numbers, a dtype (null: none) and a text: the bits that Expr.operation gives of rows that they
   * are. All inputs are of one dtype, where the operation asks for that.
   */
  public static Tensor operation(String name, Tensor[] inputs, long[] numbers, DType dtype,
      boolean keepDims, String text) {
    Loader.load();
    return new Tensor(Box.at(Native.operation_apply(name, inputs, numbers,
        dtype == null ? 0 : dtype.number(), Bridge.tristate(keepDims), text)));
  }

  /**
   * Floats in [0, 1) that depend on the two numbers of {@code seed} alone: Philox-4x32-10, the same
   * in every process and language.
   */
  public static Tensor statelessUniform(long[] seed, DType dtype, long... shape) {
    return drawn("stateless_random_uniform", seed, dtype, shape);
  }

  /** The same of a normal distribution of mean 0 and deviation 1. */
  public static Tensor statelessNormal(long[] seed, DType dtype, long... shape) {
    return drawn("stateless_random_normal", seed, dtype, shape);
  }

  /** The same of a normal distribution without numbers of size 2 or more. */
  public static Tensor statelessTruncatedNormal(long[] seed, DType dtype, long... shape) {
    return drawn("stateless_random_truncated_normal", seed, dtype, shape);
  }

  /** The same of int32, int64, uint32 or uint64, all numbers as likely. */
  public static Tensor statelessBits(long[] seed, DType dtype, long... shape) {
    return drawn("stateless_random_bits", seed, dtype, shape);
  }

  private static Tensor drawn(String name, long[] seed, DType dtype, long[] shape) {
    try (Value numbers = Value.ofData(seed)) {
      return operation(name, new Tensor[] {numbers.asTensor()}, shape, dtype, false, "");
    }
  }

  /** The elements as byte strings: 7, 3.140000, true, (1.000000,2.000000). */
  public Tensor asStrings() {
    return asStrings(new TextFormat());
  }

  /** The same in another format. INVALID_ARGUMENT for what this dtype does not have. */
  public Tensor asStrings(TextFormat format) {
    return new Tensor(Box.at(Native.tensor_as_string(this, format.precision,
        Bridge.tristate(format.scientific), Bridge.tristate(format.shortest), format.width,
        format.fill)));
  }

  /** How asStrings writes numbers; each call changes this object, and returns it. */
  public static final class TextFormat {
    private Long precision;
    private boolean scientific;
    private boolean shortest;
    private Long width;
    private String fill = "";

    /** As integers and floats are written where nobody says anything. */
    public TextFormat() {}

    /** Digits behind the point, of floats. */
    public TextFormat precision(long digits) {
      precision = digits;
      return this;
    }

    /** 3.14e+00, of floats. */
    public TextFormat scientific() {
      scientific = true;
      return this;
    }

    /** The shorter one of both forms, of floats. */
    public TextFormat shortest() {
      shortest = true;
      return this;
    }

    /**
     * At least so many characters, filled up before the number: with blanks ("" or " ") or zeros
     * ("0"); "-" puts the blanks behind it, and "+" gives each number its sign.
     */
    public TextFormat width(long characters, String fill) {
      width = characters;
      this.fill = Objects.requireNonNull(fill, "fill");
      return this;
    }
  }

  /**
   * This tensor as one byte string, a scalar: the message TensorProto, byte for byte what
   * TensorFlow's serialize_tensor gives.
   */
  public Tensor serialize() {
    return new Tensor(Box.at(Native.tensor_serialize(this)));
  }

  /**
   * The tensor that a byte string is, a scalar that serialize() gave, or TensorFlow.
   * INVALID_ARGUMENT for a tensor of another dtype, and for bytes that are none.
   */
  public static Tensor parse(Tensor serialized, DType dtype) {
    return new Tensor(Box.at(Native.tensor_parse(serialized, dtype.number())));
  }

  /**
   * A contiguous copy on a device ("GPU:0", "CPU:0"), from wherever it lies, which is done on
   * return where the host takes part. INVALID_ARGUMENT for byte strings, RESOURCE_EXHAUSTED says
   * what was asked for and what is free.
   */
  public Tensor copyTo(String device) {
    return copyTo(device, null, false, null);
  }

  /**
   * The same by a stream (null: the library's own of the GPU that takes part; INVALID_ARGUMENT for
   * another device's), in pinned host memory, until a timeout (null: none).
   */
  public Tensor copyTo(String device, DeviceStream stream, boolean pinned, Duration timeout) {
    return new Tensor(Box.at(Native.tensor_copy_to(
        this, device, stream, Bridge.tristate(pinned), Bridge.nanos(timeout))));
  }

  /** A contiguous copy in memory of its own, on the same device, which can be written. */
  public Tensor copy() {
    return new Tensor(Box.at(Native.tensor_copy(this)));
  }

  /** Another handle of the same tensor. */
  Tensor again() {
    return new Tensor(Box.at(Native.tensor_from(this)));
  }

  /** Copies the elements into {@code destination}, of the same dtype and shape, wherever both lie.
  */ public void copyInto(Tensor destination) {
    Native.tensor_copy_into(this, destination);
  }

  /** Dtype, shape and elements are equal (NaN equals NaN, -0 equals 0). */
  @Override
  public boolean equals(Object other) {
    return other == this || (other instanceof Tensor tensor && Native.tensor_equal(this, tensor));
  }

  /** Of dtype and shape alone. */
  @Override
  public int hashCode() {
    return Arrays.hashCode(shape()) * 31 + dtype().hashCode();
  }

  /** For people: "float32[3] [0 1 2]", shortened when long. */
  @Override
  public String toString() {
    return isClosed() ? "Tensor (closed)" : Bridge.text(Native.tensor_to_string(this));
  }

  /** Gives the memory back, once no buffer is left over it. */
  @Override
  public synchronized void close() {
    memory = null;
    release();
  }
}
