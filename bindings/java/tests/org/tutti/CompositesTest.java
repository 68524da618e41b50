package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.tutti.data.Dataset;

/** Sparse and ragged tensors, and as elements of datasets. */
class CompositesTest {
  /** 5 at (0, 1), 6 at (2, 0) of [3, 2]. */
  private static Value sparse() {
    try (Tensor flat = Tensor.of(new long[] {0, 1, 2, 0}); Tensor indices = flat.reshape(2, 2)) {
      return Value.sparse(indices, new long[] {5, 6}, new long[] {3, 2});
    }
  }

  /** [[1, 2], [3]]. */
  private static Value ragged() {
    return Value.ragged(new int[] {1, 2, 3}, new long[] {0, 2, 3});
  }

  private static String dense(Value value, Object filler) {
    try (Tensor dense = value.toDense(filler)) {
      return Value.of(dense).toString();
    }
  }

  private static List<String> printed(Dataset dataset) {
    final List<String> all = new ArrayList<>();
    for (final Value element : dataset) {
      all.add(element.toString());
    }
    return all;
  }

  private static void refused(String message, Runnable call) {
    final TuttiException.InvalidArgument refusal =
        assertThrows(TuttiException.InvalidArgument.class, call::run);
    assertTrue(refusal.getMessage().contains(message), refusal.getMessage());
  }

  @Test
  void sparseTensorsBecomeDense() {
    try (Value sparse = sparse()) {
      assertTrue(sparse.isSparse());
      assertFalse(sparse.isRagged());
      assertEquals("[[0 5] [0 0] [6 0]]", dense(sparse, null));
      assertEquals("[[-1 5] [-1 -1] [6 -1]]", dense(sparse, -1L));
      assertEquals("[5 6]", sparse.get("values").toString());
      assertEquals(3, sparse.rows().size());
      assertEquals("[6 0]", dense(sparse.rows().get(2), null));
      refused("must be a scalar of the values' dtype", () -> sparse.toDense(0.5));
    }
    refused("outside dense_shape", () -> {
      try (Tensor flat = Tensor.of(new long[] {0, 2}); Tensor indices = flat.reshape(1, 2)) {
        Value.sparse(indices, new long[] {5}, new long[] {3, 2});
      }
    });
    refused("a sparse or a ragged tensor is needed", () -> Value.of(1L).toDense());
  }

  @Test
  void raggedTensorsBecomeDense() {
    try (Value ragged = ragged(); Value twice = Value.ragged(ragged, new long[] {0, 0, 2})) {
      assertTrue(ragged.isRagged());
      assertEquals("[[1 2] [3 0]]", dense(ragged, null));
      assertEquals("[[1 2] [3 9]]", dense(ragged, 9));
      assertEquals(List.of("[1 2]", "[3]"),
          ragged.rows().stream().map(Value::toString).toList());
      assertEquals("[[[0 0] [0 0]] [[1 2] [3 0]]]", dense(twice, null));
    }
    refused("end with the number of values, 2",
        () -> Value.ragged(new int[] {1, 2}, new long[] {0, 1}));
  }

  @Test
  void specsAreOfTheWhole() {
    assertEquals(Spec.ragged(DType.INT32, 1, 2, Spec.UNKNOWN), ragged().spec());
    assertEquals(Spec.sparse(DType.INT64, 3, 2), sparse().spec());
    assertTrue(Spec.sparse(DType.INT64, Spec.UNKNOWN, 2).isCompatibleWith(sparse().spec()));
    assertTrue(Spec.sparseOfAnyShape(DType.INT64).isCompatibleWith(sparse().spec()));
    assertFalse(Spec.sparse(DType.INT64, 3, 3).isCompatibleWith(sparse().spec()));
    assertTrue(Spec.raggedOfAnyShape(DType.INT32, DType.INT64, 1)
        .isCompatibleWith(ragged().spec()));
    assertFalse(Spec.raggedOfAnyShape(DType.INT32, DType.INT32, 1)
        .isCompatibleWith(ragged().spec()));
    assertEquals("ragged(int32[2,?])", ragged().spec().toString());
    assertEquals(Spec.tuple(ragged().spec()), Spec.tuple(Spec.ragged(DType.INT32, 1, 2, -1)));
    refused("a ragged_rank of 2", () -> Spec.ragged(DType.INT32, 2, 2, -1));
  }

  @Test
  void theyAreMadeOfNestedLists() {
    try (Value sparse = Value.sparse(
             new long[][] {{0, 1}, {2, 0}}, new long[] {5, 6}, new long[] {3, 2});
         Value empty = Value.sparse(new long[0][], new float[0], new long[] {1, 2})) {
      assertEquals("[[0 5] [0 0] [6 0]]", dense(sparse, null));
      assertEquals("[[0 0]]", dense(empty, null));
    }
    refused("index 1 has 1 axes, and the dense_shape 2", () -> Value.sparse(
        new long[][] {{0, 1}, {2}}, new long[] {5, 6}, new long[] {3, 2}));
    try (Value ragged = Value.raggedConstant(new int[][] {{1, 2}, {}, {3}});
         Value lists = Value.raggedConstant(List.of(List.of(1, 2), List.of(), List.of(3)))) {
      assertEquals(Spec.ragged(DType.INT32, 1, 3, Spec.UNKNOWN), ragged.spec());
      assertEquals(List.of("[1 2]", "[]", "[3]"),
          ragged.rows().stream().map(Value::toString).toList());
      assertEquals(ragged.toString(), lists.toString());
      assertEquals(ragged.spec(), lists.spec());
    }
    final List<List<List<String>>> texts =
        List.of(List.of(List.of("a"), List.of("b", "c")), List.of());
    try (Value twice = Value.raggedConstant(texts);
         Value numbers = Value.raggedConstant(List.of(List.of(1), List.of(2)), DType.FLOAT64);
         Value shorts = Value.raggedConstant(new short[][] {{}, {}});
         Value none = Value.raggedConstant(List.of(List.of()))) {
      assertEquals(Spec.ragged(DType.BYTES, 2, 2, Spec.UNKNOWN, Spec.UNKNOWN), twice.spec());
      assertEquals("[\"a\" \"b\" \"c\"]", twice.get("values").get("values").toString());
      assertEquals("[0 2 2]", twice.get("row_splits").toString());
      assertEquals(DType.FLOAT64, numbers.get("values").asTensor().dtype());
      assertEquals(DType.INT16, shorts.get("values").asTensor().dtype());
      assertEquals(DType.FLOAT32, none.get("values").asTensor().dtype());
    }
    refused("of 2 items at depth 1 only 1 are lists",
        () -> Value.raggedConstant(List.of(List.of(1), 2)));
    refused("what has one axis is a tensor", () -> Value.raggedConstant(new long[] {1, 2}));
    refused("not of a java.lang.Integer", () -> Value.raggedConstant(5));
  }

  @Test
  void theirSpecsAreUnited() {
    final Spec sparse = Spec.sparse(DType.INT64, 3, 2);
    assertEquals(Spec.sparse(DType.INT64, Spec.UNKNOWN, 2),
        sparse.mostSpecificCompatibleType(Spec.sparse(DType.INT64, 4, 2)));
    assertEquals(Spec.sparseOfAnyShape(DType.INT64),
        sparse.mostSpecificCompatibleType(Spec.sparse(DType.INT64, 4)));
    final Spec ragged = Spec.ragged(DType.INT32, 1, 2, Spec.UNKNOWN, 5);
    assertEquals(Spec.ragged(DType.INT32, 1, Spec.UNKNOWN, Spec.UNKNOWN, 5),
        ragged.mostSpecificCompatibleType(Spec.ragged(DType.INT32, 1, 4, Spec.UNKNOWN, 5)));
    assertEquals(Spec.raggedOfAnyShape(DType.INT32, DType.INT64, 1),
        ragged.mostSpecificCompatibleType(Spec.ragged(DType.INT32, 1, 2, Spec.UNKNOWN)));
    for (final Spec other : List.of(Spec.sparse(DType.INT32, 3, 2), Spec.tensor(DType.INT64, 3, 2),
             ragged)) {
      refused("", () -> sparse.mostSpecificCompatibleType(other));
    }
    for (final Spec other : List.of(Spec.ragged(DType.INT64, 1, 2, Spec.UNKNOWN, 5),
             Spec.ragged(DType.INT32, DType.INT32, 1, 2, Spec.UNKNOWN, 5),
             Spec.ragged(DType.INT32, 2, 2, Spec.UNKNOWN, 5))) {
      refused("", () -> ragged.mostSpecificCompatibleType(other));
    }
  }

  @Test
  void elementsAreOfThem() {
    final Spec spec = Spec.tuple(Spec.tensor(DType.INT32), Spec.ragged(DType.INT32, 1, 2, -1));
    final Dataset generated = Dataset.fromGenerator(
        () -> List.<Object>of((Object) new Object[] {42, ragged()}).iterator(), spec);
    assertEquals(spec, generated.elementSpec());
    assertEquals(List.of("(42, tutti.RaggedTensor(values=[1 2 3], row_splits=[0 2 3]))"),
        printed(generated));
    assertEquals(List.of("[1 2]", "[3]"), printed(Dataset.fromTensorSlices(ragged())));
  }

  @Test
  void batchesAreSparse() {
    final Dataset filled = Dataset.range(1, 4, 1).map(x -> {
      final long[] copies = new long[(int) x.longValue()];
      Arrays.fill(copies, x.longValue());
      return copies;
    }, Spec.tensor(DType.INT64, Spec.UNKNOWN));
    final Dataset batches = filled.denseToSparseBatch(2, -1);
    assertEquals(Spec.sparse(DType.INT64, -1, -1), batches.elementSpec());
    assertEquals(2, batches.cardinality());
    final List<String> dense = new ArrayList<>();
    for (final Value batch : batches) {
      dense.add(dense(batch, null));
      assertArrayEquals(new long[] {batch.get("indices").asTensor().shape()[0], 2},
          batch.get("indices").asTensor().shape());
    }
    assertEquals(List.of("[[1 0] [2 2]]", "[[3 3 3]]"), dense);
    assertEquals(List.of("tutti.SparseTensor(indices=[[0] [1]], values=[0 1], dense_shape=[2])"),
        printed(Dataset.range(2).denseToSparseBatch(2)));
    refused("row_shape", () -> filled.denseToSparseBatch(2, 3, 3));
    refused("batch_size", () -> filled.denseToSparseBatch(0, 3));
    refused("[3]", () -> printed(filled.denseToSparseBatch(1, 2)));
  }
}
