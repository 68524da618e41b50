package org.tutti;

/** What a tensor's elements are. */
public enum DType {
  BOOL(1), INT8(1), INT16(2), INT32(4), INT64(8), UINT8(1), UINT16(2), UINT32(4), UINT64(8),
  FLOAT16(2), BFLOAT16(2), FLOAT32(4), FLOAT64(8), COMPLEX64(8), COMPLEX128(16),
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
