package org.tutti;

/** What a tensor's elements are. */
public enum DType {
  /** One byte, 0 or 1. */
  BOOL(1),
  /** Integers of 8 bits. */
  INT8(1),
  /** Integers of 16 bits. */
  INT16(2),
  /** Integers of 32 bits. */
  INT32(4),
  /** Integers of 64 bits. */
  INT64(8),
  /** Integers of 8 bits without a sign. */
  UINT8(1),
  /** Integers of 16 bits without a sign. */
  UINT16(2),
  /** Integers of 32 bits without a sign. */
  UINT32(4),
  /** Integers of 64 bits without a sign. */
  UINT64(8),
  /** IEEE 754 half precision. */
  FLOAT16(2),
  /** The upper half of a float32. */
  BFLOAT16(2),
  /** float. */
  FLOAT32(4),
  /** double. */
  FLOAT64(8),
  /** Two float32: real and imaginary part. */
  COMPLEX64(8),
  /** Two float64: real and imaginary part. */
  COMPLEX128(16),
  /** Byte strings of any length. */
  BYTES(0);

  private static final DType[] ALL = values();

  private final int byteSize;

  DType(int byteSize) {
    this.byteSize = byteSize;
  }

  /** Bytes per element; 0 for BYTES. */
  public int byteSize() {
    return byteSize;
  }

  /** The number of the C interface. */
  public int number() {
    return ordinal() + 1;
  }

  /** The dtype of a number of the C interface. */
  public static DType of(int number) {
    return ALL[number - 1];
  }
}
