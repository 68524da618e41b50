package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.tutti.distribute.AllReduce;
import org.tutti.distribute.CentralStorageStrategy;
import org.tutti.distribute.CommunicationOptions;
import org.tutti.distribute.CrossDeviceOps;
import org.tutti.distribute.HierarchicalCopyAllReduce;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.MultiWorkerMirroredStrategy;
import org.tutti.distribute.NcclAllReduce;
import org.tutti.distribute.ReductionToOneDevice;
import org.tutti.distribute.ReplicaContext;
import org.tutti.distribute.Strategy;
import org.tutti.distribute.StrategyExtended;
import org.tutti.distribute.UpdateContext;

/** StrategyExtended, CrossDeviceOps, CentralStorageStrategy. */
class ExtendedTest {
  private MirroredStrategy strategy;
  private StrategyExtended extended;
  private Value value;

  @BeforeEach
  void make() {
    strategy = MirroredStrategy.of("CPU:0", "CPU:1");
    extended = strategy.extended();
    value = strategy.perReplica(List.of(1.0f, 2.0f));
  }

  @AfterEach
  void close() {
    strategy.close();
  }

  private static List<Float> local(Strategy of, Object value) {
    return of.localResults(value).stream().map(Value::floatValue).toList();
  }

  private Variable variable(float first) {
    return Variable.builder(first).strategy(strategy).name("v").create();
  }

  private static List<Float> copies(Variable variable) {
    return variable.copies().stream().map(copy -> copy.asFloatBuffer().get(0)).toList();
  }

  private static void assertFails(Code code, String part, Runnable call) {
    final TuttiException failed = assertThrows(TuttiException.class, call::run);
    assertEquals(code, failed.code(), failed.getMessage());
    assertTrue(failed.getMessage().contains(part), failed.getMessage());
  }

  @Test
  void devicesHaveTheirNamesInFull() {
    final List<String> full = List.of("/job:localhost/replica:0/task:0/device:CPU:0",
        "/job:localhost/replica:0/task:0/device:CPU:1");
    assertEquals(full, extended.workerDevices());
    assertEquals(full, extended.parameterDevices());
    assertEquals(full, extended.nonSlotDevices(List.of(variable(1))));
    assertFalse(extended.experimentalRequireStaticShapes());
  }

  @Test
  void theScopeOfSeveralWorkersIsOneOfTheCpu() {
    try (MultiWorkerMirroredStrategy alone = MultiWorkerMirroredStrategy.of("CPU:1")) {
      try (Strategy.InScope scope = alone.scope()) {
        assertEquals("/device:CPU:0", DeviceSpec.current().toString());
      }
      assertNull(DeviceSpec.current());
      assertTrue(alone.clusterResolver().clusterSpec() != null);
    }
    try (Strategy.InScope scope = strategy.scope()) {
      assertNull(DeviceSpec.current());
    }
  }

  @Test
  void severalArgumentsOfRunAreATuple() {
    final Value sums = strategy.run((replica, given) -> given.get(0).floatValue()
        + given.get(1).floatValue() + given.get(2).floatValue(), Value.tuple(value, 10.0f, 100.0f));
    assertEquals(List.of(111f, 112f), local(strategy, sums));
  }

  @Test
  void reduceToPlacesTheResult() {
    assertEquals(List.of(3f, 3f), local(strategy, extended.reduceTo(ReduceOp.SUM, value, value)));
    assertEquals(1.5f, extended.reduceTo(ReduceOp.MEAN, value, "CPU:1").floatValue());
    final List<Value> both = extended.batchReduceTo(ReduceOp.SUM,
        List.of(new CrossDeviceOps.Pair(value, value), new CrossDeviceOps.Pair(value, "CPU:0")),
        null, null);
    assertEquals(List.of(3f, 3f), local(strategy, both.get(0)));
    assertEquals(3f, both.get(1).floatValue());
    assertEquals(List.of(5f, 5f), local(strategy, extended.broadcastTo(5.0f, value)));
    assertFails(Code.INVALID_ARGUMENT, "destinations",
        () -> extended.reduceTo(ReduceOp.SUM, value, null));
    assertFails(Code.INVALID_ARGUMENT, "one value for all 2 replicas",
        () -> extended.reduceTo(ReduceOp.SUM, 1.0f, "CPU:0"));
    assertFails(Code.INVALID_ARGUMENT, "CPU:7000",
        () -> extended.reduceTo(ReduceOp.SUM, value, "CPU:7000"));
  }

  @Test
  void updateRunsOnEachDevice() {
    final Variable variable = variable(1);
    final Value ids = extended.update(variable, (context, v, delta) -> {
      assertSame(variable, v);
      assertSame(context, UpdateContext.current());
      assertNull(ReplicaContext.current());
      assertTrue(Strategy.inCrossReplicaContext());
      assertEquals(strategy, Strategy.current());
      v.assignAdd(delta);
      assertEquals(v.read().asFloatBuffer().get(0), copies(v).get(context.updateReplicaId()));
      assertEquals("CPU:" + context.updateReplicaId(), context.device());
      return (float) context.updateReplicaId();
    }, value);
    assertEquals(List.of(0f, 1f), local(strategy, ids));
    assertEquals(List.of(2f, 3f), copies(variable));
    assertNull(UpdateContext.current());
    final Value each = extended.update(
        variable, (context, v, none) -> context.updateReplicaId(), null, false, null);
    assertEquals(2, each.size());
    assertEquals(1, each.get(1).intValue());
    final Value there = extended.updateNonSlot(extended.nonSlotDevices(List.of()).subList(0, 1),
        (context, none, given) -> given.floatValue() + 1, 1.0f, true, null);
    assertEquals(2f, there.floatValue());
  }

  @Test
  void runAndCollectivesAreRefusedInAnUpdate() {
    final Variable variable = variable(1);
    final List<String> refused = new ArrayList<>();
    extended.update(variable, (context, v, none) -> {
      final List<Runnable> calls = List.of(() -> strategy.run((replica, given) -> null),
          () -> strategy.reduce(ReduceOp.SUM, value),
          () -> extended.update(v, (inner, same, nothing) -> null, null));
      for (Runnable call : calls) {
        assertFails(Code.FAILED_PRECONDITION, "update", call);
        refused.add("one");
      }
      return null;
    }, null);
    assertEquals(6, refused.size());
    final TuttiException failed = assertThrows(TuttiException.class,
        () -> extended.update(variable, (context, v, none) -> {
          throw new IllegalStateException("enough");
        }, null));
    assertTrue(failed.getCause() instanceof IllegalStateException);
    try (MirroredStrategy other = MirroredStrategy.of("CPU:0", "CPU:1")) {
      assertFails(Code.INVALID_ARGUMENT, "belongs to strategy",
          () -> other.extended().update(variable, (context, v, none) -> null, null));
    }
  }

  @Test
  void colocationIsInsideTheScopeAlone() {
    final Variable variable = variable(1);
    assertFails(Code.FAILED_PRECONDITION, "inside the scope",
        () -> extended.colocateVarsWith(variable));
    try (Strategy.InScope scope = strategy.scope();
         Strategy.InScope beside = extended.colocateVarsWith(variable)) {
      assertTrue(extended.variableCreatedInScope(Variable.of(2.0f)));
    }
    try (MirroredStrategy other = MirroredStrategy.of("CPU:0", "CPU:1")) {
      assertFalse(other.extended().variableCreatedInScope(variable));
      try (Strategy.InScope scope = other.scope()) {
        assertFails(Code.INVALID_ARGUMENT, "belongs to strategy",
            () -> other.extended().colocateVarsWith(variable));
      }
    }
    assertSame(variable, extended.valueContainer(variable));
    for (Tensor copy : variable.copies()) {
      try (Variable found = (Variable) extended.valueContainer(copy)) {
        assertEquals(variable.name(), found.name());
        found.assign(6.0f);
        assertEquals(List.of(6f, 6f), copies(variable));
      }
    }
    final Tensor alike = Tensor.scalar(6.0f);
    assertSame(alike, extended.valueContainer(alike));
    assertEquals(List.of(1f, 2f), local(strategy, extended.callForEachReplica(
        (replica, given) -> given.floatValue() + replica.replicaId(), 1.0f)));
  }

  @Test
  void theLibrarysOpsReduce() {
    for (CrossDeviceOps ops : List.of(new AllReduce(), new ReductionToOneDevice(),
             new ReductionToOneDevice("CPU:1"), new HierarchicalCopyAllReduce(),
             new HierarchicalCopyAllReduce(0), new NcclAllReduce(), new NcclAllReduce(2))) {
      assertFails(Code.FAILED_PRECONDITION, "cross-replica",
          () -> ops.reduce(ReduceOp.SUM, value, value));
      try (Strategy.InScope scope = strategy.scope()) {
        assertEquals(List.of(3f, 3f), local(strategy, ops.reduce(ReduceOp.SUM, value, value)));
        assertEquals(1.5f, ops.batchReduce(ReduceOp.MEAN,
            List.of(new CrossDeviceOps.Pair(value, "CPU:0")), null).get(0).floatValue());
        assertEquals(List.of(7f, 7f), local(strategy, ops.broadcast(7.0f, value)));
      }
    }
    try (Strategy.InScope scope = strategy.scope()) {
      final CrossDeviceOps last =
          new ReductionToOneDevice(null, tensors -> tensors.get(tensors.size() - 1));
      assertEquals(2f, last.reduce(ReduceOp.SUM, value, "CPU:0").floatValue());
    }
    assertEquals("HierarchicalCopyAllReduce(num_packs=3)",
        new HierarchicalCopyAllReduce(3).toString());
    assertFails(Code.INVALID_ARGUMENT, "num_packs is -1", () -> new NcclAllReduce(-1));
    assertFails(Code.INVALID_ARGUMENT, "num_packs is -1",
        () -> new HierarchicalCopyAllReduce(-1));
  }

  /** What the last replica has. */
  private static final class Last extends CrossDeviceOps {
    final List<String> asked = new CopyOnWriteArrayList<>();
    volatile Object instead;

    @Override
    public Object reduceImplementation(
        ReduceOp op, Value value, Value destinations, CommunicationOptions options) {
      asked.add("reduce " + op);
      if (instead instanceof RuntimeException failure) {
        throw failure;
      }
      return instead != null ? instead : value.get(value.size() - 1);
    }

    @Override
    public List<?> batchReduceImplementation(
        ReduceOp op, List<Pair> pairs, CommunicationOptions options) throws Exception {
      asked.add("batch " + pairs.size());
      return super.batchReduceImplementation(op, pairs, options);
    }
  }

  @Test
  void opsOfAProgramReduceEverywhere() {
    final Last ops = new Last();
    try (MirroredStrategy own = MirroredStrategy.with(ops, "CPU:0", "CPU:1")) {
      final Value mine = own.perReplica(List.of(1.0f, 5.0f));
      assertEquals(5f, own.reduce(ReduceOp.SUM, mine).floatValue());
      assertEquals(List.of("reduce SUM"), ops.asked);
      assertEquals(5f, own.extended().batchReduceTo(ReduceOp.MEAN,
          List.of(new CrossDeviceOps.Pair(mine, "CPU:0"), new CrossDeviceOps.Pair(mine, mine)),
          null, null).get(0).floatValue());
      assertEquals("batch 2", ops.asked.get(1));
      assertEquals(List.of(4f, 4f), local(own, own.extended().broadcastTo(4.0f, mine)));
      final Variable variable = Variable.builder(0.0f).strategy(own)
          .aggregation(Variable.Aggregation.SUM).create();
      final Value sums = own.run((replica, none) -> {
        variable.assignAdd((float) replica.replicaId());
        replica.allReduce(ReduceOp.MIN, 7.0f + replica.replicaId()).close();
        return replica.allReduce(ReduceOp.SUM, 7.0f + replica.replicaId());
      });
      assertEquals(List.of(8f, 8f), local(own, sums));
      assertEquals(List.of(1f, 1f), copies(variable));
      assertTrue(own.explain().contains("Last, as given"), own.explain());
      assertTrue(own.explain().contains("all_reduce SUM of float32[]: 1 time"), own.explain());
      assertTrue(own.explain().contains("all_reduce MIN of float32[]: 1 time"), own.explain());
      assertTrue(ops.asked.contains("reduce MIN"), ops.asked.toString());
      ops.instead = new float[] {1, 2};
      assertFails(Code.INVALID_ARGUMENT, "expected float32[]",
          () -> own.reduce(ReduceOp.SUM, mine));
      ops.instead = new IllegalStateException("no ops today");
      assertTrue(assertThrows(TuttiException.class, () -> own.reduce(ReduceOp.SUM, mine))
          .getCause() instanceof IllegalStateException);
    }
    assertTrue(strategy.explain().contains("AllReduce, for all tensors"));
  }

  @Test
  void badInputIsNamed() {
    try (MirroredStrategy other = MirroredStrategy.of("CPU:0", "CPU:1", "CPU:2")) {
      final Value three = other.perReplica(List.of(1.0f, 2.0f, 3.0f));
      assertFails(Code.INVALID_ARGUMENT, "3 components, and the strategy has 2 replicas",
          () -> strategy.reduce(ReduceOp.SUM, three));
      final Value rows = strategy.perReplica(List.of(new float[] {1}, new float[] {2}));
      assertFails(Code.INVALID_ARGUMENT, "axis 1 is not in [0, 1)",
          () -> strategy.gather(rows, 1));
      try (Strategy.InScope scope = strategy.scope()) {
        assertFails(Code.FAILED_PRECONDITION, "cannot be entered inside", other::scope);
      }
    }
    assertFails(Code.INVALID_ARGUMENT, "name each device once",
        () -> MirroredStrategy.of("CPU:0", "CPU:0"));
    assertFails(Code.INVALID_ARGUMENT, "GPU:77", () -> MirroredStrategy.of("CPU:0", "GPU:77"));
  }

  // Where the replicas have not met by the deadline, the message is about that.
  private static void endsIn(String part, Consumer<Duration> call) {
    for (int attempt = 0; ; ++attempt) {
      final Duration soon = Duration.ofMillis(20L << attempt);
      final TuttiException failed =
          assertThrows(TuttiException.class, () -> call.accept(soon));
      assertEquals(Code.DEADLINE_EXCEEDED, failed.code(), failed.getMessage());
      if (failed.getMessage().contains(part)) {
        return;
      }
      assertTrue(attempt < 12, failed.getMessage());
    }
  }

  @Test
  void opsThatDoNotComeBackFreeTheirCallersAtTheDeadline() throws InterruptedException {
    final CountDownLatch letGo = new CountDownLatch(1);
    final AtomicInteger entered = new AtomicInteger();
    final Semaphore ended = new Semaphore(0);
    final CrossDeviceOps held = new CrossDeviceOps() {
      @Override
      public Object reduceImplementation(ReduceOp op, Value value, Value destinations,
          CommunicationOptions options) throws InterruptedException {
        entered.incrementAndGet();
        letGo.await();
        ended.release();
        return value.get(0);
      }
    };
    try (MirroredStrategy own = MirroredStrategy.with(held, "CPU:0", "CPU:1");
         Value mine = own.perReplica(List.of(1.0f, 5.0f));
         Variable variable = Variable.builder(4.0f).strategy(own).name("w")
             .aggregation(Variable.Aggregation.SUM).create()) {
      endsIn("reduce: CrossDeviceOps", soon -> own.reduce(ReduceOp.SUM, mine, null, soon));
      endsIn("all_reduce: CrossDeviceOps", soon -> own.run(
          (replica, none) -> replica.allReduce(ReduceOp.MAX, 1.0f), null, soon));
      endsIn("assign_add of variable 'w': CrossDeviceOps", soon -> own.run(
          (replica, none) -> variable.assignAdd(1.0f), null, soon));
      assertEquals(List.of(4f, 4f), copies(variable));
    }
    letGo.countDown();
    assertTrue(ended.tryAcquire(entered.get(), 60, TimeUnit.SECONDS));
  }

  @Test
  void aCentralVariableHasOneCopyThatIsUpdatedOnce() {
    try (CentralStorageStrategy central =
             CentralStorageStrategy.create(null, "CPU:2", null, "CPU:0", "CPU:1")) {
      assertEquals(List.of("/job:localhost/replica:0/task:0/device:CPU:2"),
          central.extended().parameterDevices());
      final Variable variable = Variable.builder(1.0f).strategy(central)
          .aggregation(Variable.Aggregation.SUM).create();
      central.run((replica, none) -> variable.assignAdd(1.0f + replica.replicaId()));
      assertEquals(List.of(4f), copies(variable));
      assertEquals(1, central.localResults(variable).size());
    }
    try (CentralStorageStrategy one = CentralStorageStrategy.of()) {
      assertEquals(1, one.replicaCount());
    }
    assertFails(Code.INVALID_ARGUMENT, "CPU:9000",
        () -> CentralStorageStrategy.create(null, "CPU:9000", null));
  }
}
