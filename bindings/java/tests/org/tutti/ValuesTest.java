package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.ReplicaContext;
import org.tutti.distribute.ReplicaFunction;

/** Values and variables of a strategy: what they are, how they are read, sparse updates. */
class ValuesTest {
  private MirroredStrategy strategy;

  @BeforeEach
  void make() {
    strategy = MirroredStrategy.of("CPU:0", "CPU:1");
  }

  @AfterEach
  void close() {
    strategy.close();
  }

  private Variable.Builder builder(Object initial) {
    return Variable.builder(initial).strategy(strategy);
  }

  private static void refused(Class<? extends TuttiException> type, String message, Runnable call) {
    final TuttiException refusal = assertThrows(type, call::run);
    assertTrue(refusal.getMessage().contains(message), refusal.getMessage());
  }

  private static void invalid(String message, Runnable call) {
    refused(TuttiException.InvalidArgument.class, message, call);
  }

  @Test
  void whatIsEqualIsReadAsTheValue() {
    try (Value mirrored = strategy.mirrored(2.5f);
         Value differs = strategy.run((replica, none) -> replica.replicaId())) {
      assertEquals(Value.Kind.DISTRIBUTED, mirrored.kind());
      assertEquals(Value.Distribution.MIRRORED, mirrored.distribution());
      assertEquals(Value.Distribution.PER_REPLICA, differs.distribution());
      assertNull(Value.of(1L).distribution());
      assertEquals("Mirrored:{0: 2.5, 1: 2.5}", mirrored.toString());
      assertEquals(2.5f, mirrored.floatValue());
      assertThrows(TuttiException.InvalidArgument.class, differs::asTensor);
      assertEquals(2, strategy.localResults(mirrored).size());
      assertEquals(2.5f, strategy.reduce(ReduceOp.MEAN, mirrored).floatValue());
      assertEquals(5f, strategy.reduce(ReduceOp.SUM, mirrored).floatValue());
      invalid("component per replica already", () -> strategy.mirrored(mirrored));
    }
  }

  @Test
  void variablesSayWhatTheyAreAndWhereTheyArePlaced() {
    try (Variable mirrored = builder(1f).create();
         Variable onRead = builder(1f).synchronization(Variable.Synchronization.ON_READ)
                               .aggregation(Variable.Aggregation.SUM).create();
         Variable plain = Variable.of(1f)) {
      assertEquals(Value.Distribution.MIRRORED, mirrored.distribution());
      assertEquals(Value.Distribution.SYNC_ON_READ, onRead.distribution());
      assertNull(plain.distribution());
      final String place = "/job:localhost/replica:0/task:0/device:CPU:";
      assertEquals(place + "0", mirrored.device());
      assertEquals(List.of(place + "0", place + "1"), mirrored.copyDevices());
      try (Value places = strategy.run((replica, none) -> mirrored.device())) {
        assertEquals(List.of(place + "0", place + "1"),
            strategy.localResults(places).stream().map(Value::stringValue).toList());
      }
    }
  }

  @Test
  void aMirroredValueHasTheSpecOfItsComponents() {
    try (Value mirrored = strategy.mirrored(new float[] {1, 2});
         Spec component = Spec.tensor(DType.FLOAT32, 2)) {
      assertEquals(Spec.perReplica(component, component), Spec.of(mirrored));
    }
  }

  @Test
  void theInitialValueFitsTheShape() {
    try (Variable variable = builder(new float[3]).shape(-1).create()) {
      assertArrayEquals(new long[] {-1}, variable.shape());
      variable.assign(new float[] {1, 2, 3, 4});
      variable.assignAdd(new float[] {1, 1, 1, 1});
      assertArrayEquals(new float[] {2, 3, 4, 5}, variable.read().toFloatArray());
      invalid("holds a value of shape [4]", () -> variable.assignSub(new float[3]));
      invalid("keeps the shape of its initial value", () -> variable.assign(new float[1][4]));
      invalid("changing shapes", variable::data);
    }
    try (Variable variable = builder(new float[3]).anyShape().create()) {
      assertNull(variable.shape());
      variable.assign(7f);
      assertArrayEquals(new long[0], variable.read().shape());
    }
    try (Variable variable = builder(new float[3]).shape(3).create()) {
      invalid("keeps the shape of its initial value", () -> variable.assign(new float[4]));
    }
    invalid("[?,2]", () -> builder(new float[3]).shape(-1, 2).create());
    invalid("[3]", () -> builder(new float[3]).shape().create());
  }

  @Test
  void byteStringsAreAssignedAndRead() {
    try (Variable names = builder(new String[] {"a", "bc"}).name("names")
                              .aggregation(Variable.Aggregation.ONLY_FIRST_REPLICA).create()) {
      names.assign(new String[] {"longer than before", ""});
      assertEquals("longer than before", new String(names.read().bytes(0)));
      strategy.run((replica, none) -> {
        names.assign(new String[] {"x", "replica " + replica.replicaId()});
        return null;
      });
      for (final Value copy : strategy.localResults(names)) {
        assertEquals("replica 0", new String(copy.asTensor().bytes(1)));
      }
      invalid("assigned only", () -> names.assignAdd(new String[] {"x", "y"}));
      invalid("byte strings", names::data);
    }
  }

  @Test
  void replicasMakeOneVariableTogether() {
    try (Value made = strategy.run((replica, none) -> {
           final Variable variable = Variable.builder(5f + replica.replicaId()).name("made")
                                         .aggregation(Variable.Aggregation.SUM).create();
           variable.assignAdd(1f);
           return variable;
         });
         Variable variable = made.asVariable()) {
      assertEquals(7f, variable.read().floatValue());
      assertEquals(List.of("made", "made/replica_1"), variable.copyNames());
    }
    invalid("replica 0 makes", () -> strategy.run((replica, none)
        -> Variable.of(replica.replicaId() == 0 ? (Object) 1f : (Object) 1)));
    invalid("'v1'", () -> strategy.run((replica, none)
        -> Variable.builder(1f).name("v" + replica.replicaId()).create()));
  }

  private static Value slices(float[] values, long... indices) {
    return Value.indexedSlices(values, indices, null);
  }

  @Test
  void sparseUpdatesChangeRowsByTheirIndex() {
    try (Value delta = slices(new float[] {8, 2, 4}, 2, 0, 2)) {
      assertTrue(delta.isIndexedSlices());
      final float[][] expected = {{5, 5, 24}, {1, 5, 0}, {2, 5, 4}, {2, 5, 4}, {3, 5, 12},
          {6, 5, 384}, {1.5f, 5, .375f}};
      for (final Variable.Scatter how : Variable.Scatter.values()) {
        try (Variable table = builder(new float[] {3, 5, 12}).create()) {
          assertEquals(table, table.scatter(how, delta));
          assertArrayEquals(expected[how.ordinal()], table.read().toFloatArray(), how.toString());
        }
      }
      try (Variable table = builder(new float[] {3, 5, 12}).name("table").create()) {
        table.scatterAdd(delta).scatterSub(delta).scatterMul(delta).scatterDiv(delta);
        assertArrayEquals(new float[] {3, 5, 12}, table.read().toFloatArray());
        table.scatterUpdate(delta).scatterMin(delta).scatterMax(delta);
        assertArrayEquals(new float[] {2, 5, 8}, table.read().toFloatArray());
        invalid("'table': index 3 is outside of the 3 rows",
            () -> table.scatterAdd(slices(new float[] {1, 1}, 0, 3)));
        invalid("indexed slices (values, indices, dense_shape) are needed",
            () -> table.scatterAdd(Value.of(1f)));
      }
    }
    invalid("one row of values for each index", () -> slices(new float[] {1}, 0, 1));
    invalid("outside of their dense_shape",
        () -> Value.indexedSlices(new float[] {1}, new int[] {4}, new long[] {4}));
  }

  @Test
  void slicesOfReplicasMeet() {
    final ReplicaFunction mine = (replica, none)
        -> slices(new float[] {replica.replicaId() + 1}, replica.replicaId());
    try (Variable table = builder(new float[3]).aggregation(Variable.Aggregation.MEAN).create();
         Value gradients = strategy.run(mine)) {
      strategy.run((replica, none) -> {
        try (Value own = slices(new float[] {replica.replicaId() + 1}, replica.replicaId())) {
          table.scatterAdd(own);
          refused(TuttiException.Unimplemented.class, "aggregation MEAN",
              () -> table.scatterMax(own));
          final Value all = ReplicaContext.current().allReduce(ReduceOp.SUM, own);
          return all.get("indices").asTensor().toString();
        }
      });
      assertArrayEquals(new float[] {.5f, 1, 0}, table.read().toFloatArray());
      try (Value sum = strategy.reduce(ReduceOp.SUM, gradients)) {
        assertEquals("tutti.IndexedSlices(values=[1 2], indices=[0 1], dense_shape=None)",
            sum.toString());
      }
    }
  }
}
