package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.ReadOnlyBufferException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class TensorTest {
  record Point(double x, long y) {}

  private static ByteBuffer direct(int bytes) {
    return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
  }

  @Test
  void arraysAreCopiedInAndOut() {
    final float[] given = {1, 2, 3, 4, 5, 6};
    try (Tensor tensor = Tensor.of(given, 2, 3)) {
      given[0] = 9;
      assertEquals(DType.FLOAT32, tensor.dtype());
      assertArrayEquals(new long[] {2, 3}, tensor.shape());
      assertArrayEquals(new long[] {3, 1}, tensor.strides());
      assertArrayEquals(new float[] {1, 2, 3, 4, 5, 6}, tensor.toFloatArray());
      assertArrayEquals(new long[] {1, 2, 3, 4, 5, 6}, tensor.toLongArray());
    }
    assertArrayEquals(new double[] {0.5, -1}, Tensor.of(new double[] {0.5, -1}).toDoubleArray());
    assertArrayEquals(new int[] {7}, Tensor.of(new int[] {7}).toIntArray());
    assertArrayEquals(new boolean[] {true, false},
        Tensor.of(new boolean[] {true, false}).toBooleanArray());
    assertEquals(0, Tensor.of(new float[0], 0, 3).elementCount());
    assertEquals(0, Tensor.of(new float[0], 0, 3).asFloatBuffer().remaining());
  }

  @Test
  void buffersAreViewsOfTheSameMemory() {
    try (Tensor tensor = Tensor.zeros(DType.FLOAT32, 4)) {
      final FloatBuffer view = tensor.asFloatBuffer();
      view.put(2, 7.5f);
      assertEquals(7.5f, tensor.asFloatBuffer().get(2));
      assertArrayEquals(new float[] {0, 0, 7.5f, 0}, tensor.toFloatArray());
      assertTrue(view.isDirect());
    }
  }

  @Test
  void aRecordKnowsItsType() {
    try (Value point = Value.of(new Point(1, 2)); Value none = Value.of(null)) {
      assertEquals("Point", point.typeName());
      assertThrows(TuttiException.InvalidArgument.class, none::typeName);
    }
  }

  @Test
  void structuresMayBeEmpty() {
    assertEquals(0, Value.tuple().size());
    assertEquals(0, Value.of(List.of()).size());
    assertEquals(0, Value.of(Map.of()).size());
    assertEquals(0, Value.tuple().spec().leafCount());
  }

  @Test
  void wrappingADirectBufferCopiesNothing() {
    final FloatBuffer memory = direct(16).asFloatBuffer();
    try (Tensor tensor = Tensor.wrap(memory.slice(1, 3), 3)) {
      memory.put(1, 4);
      assertEquals(4, tensor.asFloatBuffer().get(0));
      tensor.asFloatBuffer().put(2, 6);
      assertEquals(6, memory.get(3));
      try (Tensor whole = Tensor.wrap(memory)) {
        assertEquals(whole.dataAddress() + 4, tensor.dataAddress());
      }
    }
  }

  @Test
  void aBufferOutlivesItsTensor() {
    final Tensor tensor = Tensor.of(new float[] {1, 2, 3});
    final FloatBuffer view = tensor.asFloatBuffer();
    tensor.close();
    System.gc();
    assertEquals(3, view.get(2));
  }

  @Test
  void wrongUseIsAnException() {
    assertThrows(TuttiException.InvalidArgument.class,
        () -> Tensor.wrap(FloatBuffer.allocate(3)), "a heap buffer");
    assertThrows(TuttiException.InvalidArgument.class,
        () -> Tensor.wrap(ByteBuffer.allocateDirect(8).order(ByteOrder.BIG_ENDIAN).asFloatBuffer()),
        "foreign byte order");
    assertThrows(TuttiException.InvalidArgument.class, () -> Tensor.of(new float[3], 2, 2));
    assertThrows(TuttiException.InvalidArgument.class,
        () -> Tensor.wrap(direct(8).asFloatBuffer(), 3));
    try (Tensor tensor = Tensor.of(new float[] {1, 2, 3, 4}, 2, 2)) {
      final TuttiException wrong =
          assertThrows(TuttiException.InvalidArgument.class, tensor::asLongBuffer);
      assertTrue(wrong.getMessage().contains("FLOAT32"), wrong.getMessage());
      final Tensor column = tensor.slice(1, 0, 1);
      assertFalse(column.isContiguous());
      assertThrows(TuttiException.FailedPrecondition.class, column::asFloatBuffer, "strided");
      assertArrayEquals(new float[] {1, 3}, column.toFloatArray());
      assertEquals(3, column.copy().asFloatBuffer().get(1));
      assertThrows(TuttiException.OutOfRange.class, () -> tensor.slice(0, 1, 5));
      assertThrows(TuttiException.InvalidArgument.class, tensor::doubleValue);
    }
  }

  @Test
  void readOnlyMemoryCannotBeWritten() {
    final FloatBuffer memory = direct(8).asFloatBuffer();
    try (Tensor tensor = Tensor.wrap(memory.asReadOnlyBuffer())) {
      assertTrue(tensor.isReadOnly());
      assertThrows(ReadOnlyBufferException.class, () -> tensor.asFloatBuffer().put(0, 1));
      assertThrows(TuttiException.FailedPrecondition.class,
          () -> Tensor.of(new float[] {1, 2}).copyInto(tensor));
    }
  }

  @Test
  void aClosedObjectIsAnExceptionEverywhere() {
    final Tensor tensor = Tensor.of(new float[] {1});
    tensor.close();
    tensor.close();
    assertThrows(TuttiException.FailedPrecondition.class, tensor::dtype);
    assertThrows(TuttiException.FailedPrecondition.class, tensor::asFloatBuffer);
    assertThrows(TuttiException.FailedPrecondition.class, () -> Value.of(tensor));
    assertEquals("Tensor (closed)", tensor.toString());
    final Value value = Value.of(Map.of("a", 1));
    final Value part = value.get("a");
    value.close();
    assertThrows(TuttiException.FailedPrecondition.class, part::longValue);
  }

  @Test
  void byteStringsKeepEveryByte() {
    final byte[][] given = {{0, -1, 65}, {},
        "grüße 𝄞".getBytes(java.nio.charset.StandardCharsets.UTF_8)};
    try (Tensor tensor = Tensor.of(given)) {
      for (int i = 0; i < given.length; ++i) {
        assertArrayEquals(given[i], tensor.bytes(i));
      }
      assertThrows(TuttiException.OutOfRange.class, () -> tensor.bytes(3));
      assertThrows(TuttiException.InvalidArgument.class, tensor::asByteBuffer);
    }
  }

  @Test
  void structuresGoInAndComeOut() {
    final Object marker = new Object();
    try (Value value = Value.of(Map.of("list", List.of(1, 2.5), "point", new Point(0.5, 3), "text",
             "grüße 𝄞", "none", Optional.empty(), "some", Optional.of(4L), "object", marker,
             "tuple", Value.tuple(1, "two")))) {
      assertEquals(List.of("list", "none", "object", "point", "some", "text", "tuple"),
          value.keys());
      assertEquals(Value.Kind.LIST, value.get("list").kind());
      assertEquals(2.5, value.get("list").get(1).doubleValue());
      assertEquals(Value.Kind.RECORD, value.get("point").kind());
      assertEquals(3, value.get("point").get("y").longValue());
      assertEquals("grüße 𝄞", value.get("text").stringValue());
      assertTrue(value.get("none").asOptional().isEmpty());
      assertEquals(4, value.get("some").asOptional().get().longValue());
      assertSame(marker, value.get("object").asObject(Object.class));
      assertEquals(Value.Kind.TUPLE, value.get("tuple").kind());
      assertThrows(TuttiException.NotFound.class, () -> value.get("nothing"));
      assertThrows(TuttiException.OutOfRange.class, () -> value.get("list").get(2));
      assertThrows(TuttiException.InvalidArgument.class, () -> value.get("text").asTensor());
    }
    assertThrows(TuttiException.InvalidArgument.class, () -> Value.ofData(new Object()));
    assertThrows(TuttiException.InvalidArgument.class, () -> Value.of(Map.of(1, 2)));
  }

  @Test
  void numbersHaveJavasOwnDTypes() {
    final Map<Object, DType> wanted = Map.of(1, DType.INT32, 1L, DType.INT64, 1f, DType.FLOAT32,
        1.0, DType.FLOAT64, (short) 1, DType.INT16, (byte) 1, DType.INT8, true, DType.BOOL);
    wanted.forEach((number, dtype) -> {
      try (Value value = Value.of(number); Value data = Value.ofData(number)) {
        assertEquals(dtype, value.asTensor().dtype());
        assertEquals(dtype, data.asTensor().dtype());
        assertEquals(1, value.asTensor().longValue());
      }
    });
    assertEquals(DType.INT32, Tensor.scalar(1).dtype());
    assertEquals(DType.INT64, Tensor.scalar(1L).dtype());
    assertEquals(DType.FLOAT32, Tensor.scalar(1f).dtype());
    assertEquals(DType.FLOAT64, Tensor.scalar(1.0).dtype());
    final Map<List<?>, DType> lists = Map.of(List.of(1, 2), DType.INT32, List.of(1, 2L),
        DType.INT64, List.of(1L, 2f), DType.FLOAT32, List.of(1, 2f, 3.0), DType.FLOAT64);
    lists.forEach((list, dtype) -> {
      try (Value vector = Value.ofData(list)) {
        assertEquals(dtype, vector.asTensor().dtype());
        assertEquals(2, vector.asTensor().cast(DType.INT64).toLongArray()[1]);
      }
    });
  }

  @Test
  void tensorsAreConvertedToDTypesThatHoldThem() {
    assertEquals(Tensor.of(new float[] {1, 2}), Tensor.of(new int[] {1, 2}).convert(DType.FLOAT32));
    final var refused = assertThrows(TuttiException.InvalidArgument.class,
        () -> Tensor.of(new int[] {1, 300}).convert(DType.UINT8));
    assertTrue(refused.getMessage().contains("300 does not fit into uint8"));
  }

  @Test
  void aVariableTakesNumbersThatItsDTypeHolds() {
    try (Variable count = Variable.of(1); Variable rate = Variable.of(0.5f)) {
      assertEquals(DType.INT32, count.dtype());
      assertEquals(DType.FLOAT32, rate.dtype());
      assertEquals(3, count.assignAdd(2L).read().intValue());
      assertEquals(2.0, rate.assign(2).read().doubleValue());
      assertThrows(TuttiException.InvalidArgument.class, () -> count.assign(2.5));
    }
  }

  @Test
  void tensorsWithEqualElementsAreEqual() {
    assertEquals(Tensor.of(new long[] {1, 2}), Tensor.of(new long[] {1, 2}));
    assertNotEquals(Tensor.of(new long[] {1, 2}), Tensor.of(new long[] {1, 3}));
    assertEquals("int64[2] [1 2]", Tensor.of(new long[] {1, 2}).toString());
  }
}
