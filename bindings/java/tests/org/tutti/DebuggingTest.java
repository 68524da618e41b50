package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.tutti.data.Assertion;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetFunction;
import org.tutti.data.DatasetIterator;
import org.tutti.data.TextLineDataset;
import org.tutti.distribute.MirroredStrategy;

class DebuggingTest {
  private static String refused(Executable assertion) {
    return assertThrows(TuttiException.InvalidArgument.class, assertion).getMessage();
  }

  private static void says(Executable assertion, String... parts) {
    final String message = refused(assertion);
    for (final String part : parts) {
      assertTrue(message.contains(part), message + " does not say " + part);
    }
  }

  @Test
  void comparisonsSayWhereTheyDoNotHold() {
    final int[] x = {1, 5, 3};
    final int[] y = {2, 4, 9};
    says(() -> Debugging.assertLess(x, y, "layer 1", 1),
        "layer 1: assert_less: x < y does not hold at [1], where x is 5 and y is 4", "[1 ...]");
    Debugging.assertEqual(x, x);
    Debugging.assertNoneEqual(x, y);
    Debugging.assertGreaterEqual(x, 1);
    says(() -> Debugging.assertGreater(x, 1), "at [0]");
    says(() -> Debugging.assertLessEqual(x, 1), "at [1]");
    says(() -> Debugging.assertEqual(x, 1L), "x is int32[3] and y is int64[]");
    says(() -> Debugging.assertEqual(Map.of("a", x, "b", 2), 2), "x[\"a\"] is 1");
    Debugging.assertNear(1.0f, 1.0000005f);
    says(() -> Debugging.assertNear(1.0, 1.0000005), "with rtol");
    Debugging.assertNear(new float[] {1, 2}, new float[] {1.5f, 2.5f}, null, 1.0f, null, 0);
  }

  @Test
  void conditionsRanksAndDTypesAreAsserted() {
    final float[] x = {1, 0};
    says(() -> Debugging.assertPositive(x), "assert_positive", "at [1]");
    says(() -> Debugging.assertNegative(x), "at [0]");
    says(() -> Debugging.assertNonPositive(x, "m", -1), "m: ", "at [0]");
    Debugging.assertNonNegative(x);
    assertSame(x, Debugging.assertAllFinite(x, null));
    says(() -> Debugging.checkNumerics(new float[] {0, Float.NaN, Float.POSITIVE_INFINITY}, "loss"),
        "loss: check_numerics", "1 NaN, 1 +Inf and 0 -Inf");
    says(() -> Debugging.assertInteger(x, null), "float32[2]");
    says(() -> Debugging.assertScalar(x, null), "rank 1");
    Debugging.assertRank(x, 1, null);
    says(() -> Debugging.assertRankAtLeast(x, 2, null), "rank 2 or more");
    says(() -> Debugging.assertRankIn(x, new long[] {0, 2}, null), "one of 0, 2");
    says(() -> Debugging.assertType(x, DType.INT32, "m"), "m: ", "expected dtype int32");
    assertEquals(DType.FLOAT32, Debugging.assertSameFloatDType(Arrays.asList(x, null), null));
    says(() -> Debugging.assertSameFloatDType(List.of(x), DType.FLOAT64), "expected float64");
    try (Tensor tensor = Tensor.of(x)) {
      assertTrue(Debugging.isNumericTensor(tensor));
    }
    assertFalse(Debugging.isNumericTensor(x));
    assertFalse(Debugging.isNumericTensor(null));
  }

  @Test
  void shapesFitEachOther() {
    try (Tensor wide = Tensor.zeros(DType.FLOAT32, 10, 3);
         Tensor high = Tensor.zeros(DType.FLOAT32, 10, 7)) {
      Debugging.assertShapes(new Debugging.Shaped(wide, "N,Q"), new Debugging.Shaped(high, "N,D"),
          new Debugging.Shaped(1.0f, ""));
      says(()
              -> Debugging.assertShapes(List.of(new Debugging.Shaped(wide, "N,D"),
                                            new Debugging.Shaped(high, "N,D")),
                  1.0f, "m", 0),
          "m: assert_shapes: tensor 1 of shape [10,7]", "\"D\"", "data float32[]: [1]");
    }
    says(() -> Debugging.assertTrue(new boolean[] {true, false}, 3, 0), "at [1]", "data int32[]");
    Debugging.assertTrue(true, null, 0);
  }

  @Test
  void anAssertionEndsADatasetsFunction() {
    try (Dataset dataset = Dataset.range(4).map(x -> {
      Debugging.assertLess(x, 2L);
      return x;
    });
         DatasetIterator elements = dataset.iterator()) {
      assertEquals(0L, elements.next().longValue());
      assertEquals(1L, elements.next().longValue());
      final TuttiException error = assertThrows(TuttiException.class, elements::next);
      assertTrue(error.getMessage().contains("x is 2"), error.getMessage());
    }
  }

  @Test
  void placementsAreLoggedWhereAskedFor() {
    final List<String> lines = Collections.synchronizedList(new ArrayList<>());
    TuttiRuntime.setLogSink((level, line) -> lines.add(line));
    Debugging.setLogDevicePlacement(true);
    assertTrue(Debugging.getLogDevicePlacement());
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1")) {
      strategy.run((replica, none) -> null);
    } finally {
      Debugging.setLogDevicePlacement(false);
      TuttiRuntime.setLogSink(null);
    }
    assertFalse(Debugging.getLogDevicePlacement());
    assertTrue(lines.stream().anyMatch(
                   line -> line.contains("run #1: replica 0 on CPU:0, replica 1 on CPU:1")),
        lines.toString());
  }

  @Test
  void rowsPassANativeFunction(@TempDir Path folder) throws IOException {
    final Path path = folder.resolve("lines.txt");
    Files.writeString(path, "1\n2\n\n3\n");
    try (Tensor empty = Tensor.of(new String[] {""}, new long[] {});
         DatasetFunction check = DatasetFunction.assertion(
             Assertion.of(Assertion.Check.NONE_EQUAL).with(empty).message("lines").summarize(1));
         Dataset lines = TextLineDataset.of(path.toString()).map(check);
         DatasetIterator iterator = lines.iterator()) {
      iterator.next().close();
      iterator.next().close();
      says(iterator::next,
          "map: element 2 (record 2 of \"" + path + "\"): lines: assert_none_equal");
    }
    says(() -> DatasetFunction.assertion(Assertion.of(Assertion.Check.LESS)),
        "expected one of the two");
    try (DatasetFunction rank = DatasetFunction.assertion(
             Assertion.of(Assertion.Check.RANK_IN).ranks(1, 2));
         DatasetFunction type = DatasetFunction.assertion(
             Assertion.of(Assertion.Check.TYPE).dtype(DType.INT32));
         DatasetFunction shapes = DatasetFunction.assertion(
             Assertion.of(Assertion.Check.SHAPES).shapes("=3"));
         DatasetFunction same = DatasetFunction.assertion(
             Assertion.of(Assertion.Check.SAME_FLOAT_DTYPE));
         DatasetFunction place = DatasetFunction.assertion(
             Assertion.of(Assertion.Check.EQUAL).at("a").withLeaf("b").tolerances(null, null));
         Dataset range = Dataset.range(3)) {
      says(() -> range.map(rank), "expected rank one of 1, 2");
      says(() -> range.map(type), "expected dtype int32");
      says(() -> range.map(place), "nothing at \"a\"");
      says(() -> range.map(shapes), "assert_shapes");
      says(() -> range.map(same), "int64");
    }
  }

  @Test
  void whatPassesByIsDumpedAndRead(@TempDir Path folder) {
    final String root = folder.resolve("dumps").toString();
    final Debugging.DumpWriter writer =
        Debugging.enableDumpDebugInfo(root, new Debugging.DumpOptions(
            Debugging.Mode.FULL_HEALTH, 1000, "all_reduce", dtype -> dtype == DType.FLOAT64));
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1")) {
      says(() -> Debugging.enableDumpDebugInfo(
               root, Debugging.DumpOptions.of(Debugging.Mode.SHAPE)), "the mode is FULL_HEALTH");
      strategy.run((replica, none) -> replica.allReduce(ReduceOp.SUM,
          new double[] {1, replica.replicaId() == 1 ? Double.NaN : 2}));
      writer.flushExecutionFiles();
      writer.flushNonExecutionFiles();
      final String json = Debugging.readDumpDebugInfo(root);
      assertTrue(json.contains("\"op\":\"all_reduce\",\"name\":\"the input\",\"replica\":1"), json);
      assertTrue(json.contains("\"has_nan_or_infinity\":true,\"elements\":2,\"nan\":1"), json);
      assertFalse(json.contains("\"op\":\"run\""), json);
    } finally {
      Debugging.disableDumpDebugInfo();
    }
    assertThrows(TuttiException.FailedPrecondition.class, writer::flushExecutionFiles);
    assertThrows(TuttiException.NotFound.class, () -> Debugging.readDumpDebugInfo("/nothing"));
  }

  @Test
  void aNanOfOneReplicaIsNamed() {
    Debugging.enableCheckNumerics();
    Debugging.enableCheckNumerics();
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1")) {
      says(() -> strategy.run((replica, none) -> replica.allReduce(ReduceOp.SUM,
               new double[] {1, replica.replicaId() == 1 ? Double.NaN : 2})),
          "all_reduce: the input of replica 1 in step 1, float64[2]", "is nan at [1]");
      Debugging.disableCheckNumerics();
      strategy.run((replica, none) -> replica.allReduce(ReduceOp.SUM,
          new double[] {1, replica.replicaId() == 1 ? Double.NaN : 2}));
    } finally {
      Debugging.disableCheckNumerics();
    }
  }
}
