package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.ReadOnlyBufferException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.data.DatasetFunction;
import org.tutti.data.TFRecordWriter;
import org.tutti.distribute.ClusterResolver;
import org.tutti.distribute.DistributedDataset;
import org.tutti.distribute.DistributedIterator;
import org.tutti.distribute.MergeFunction;
import org.tutti.distribute.MirroredStrategy;
import org.tutti.distribute.ReplicaContext;
import org.tutti.distribute.Strategy;
import org.tutti.train.Checkpoint;

/** What a user gets wrong is an exception that says so, never a crash. */
class WrongUseTest {
  private static final Duration LONG = Duration.ofSeconds(60);

  private static TuttiException refused(Code code, Executable call, String... says) {
    final TuttiException refused = assertThrows(TuttiException.class, call);
    assertEquals(code, refused.code(), refused.toString());
    for (final String part : says) {
      assertTrue(refused.getMessage().contains(part),
          () -> "'" + part + "' is missing in: " + refused.getMessage());
    }
    return refused;
  }

  private static void nothing(Executable call) {
    final NullPointerException refused = assertThrows(NullPointerException.class, call);
    assertFalse(refused.getMessage().isBlank());
  }

  // Runs `call` on a thread of its own and waits until that has ended.
  private static Throwable failureOf(Thread thread, AtomicReference<Throwable> failure)
      throws InterruptedException {
    thread.join(LONG.toMillis());
    assertFalse(thread.isAlive(), "the thread still waits");
    return failure.get();
  }

  private static Thread start(AtomicReference<Throwable> failure, Executable call) {
    final Thread thread = new Thread(() -> {
      try {
        call.execute();
      } catch (Throwable failed) {
        failure.set(failed);
      }
    });
    thread.start();
    return thread;
  }

  // ---- closed objects

  @Test
  void whatIsClosedSaysSo() {
    final Tensor tensor = Tensor.zeros(DType.FLOAT32, 2);
    final Value value = Value.of(1);
    final Dataset dataset = Dataset.range(3);
    final Spec spec = dataset.elementSpec();
    final DatasetIterator iterator = dataset.iterator();
    final MirroredStrategy strategy = MirroredStrategy.of("CPU:0");
    final Variable variable = Variable.builder(1.0).strategy(strategy).create();
    final DistributedDataset steps = strategy.distribute(dataset.batch(1));
    final DistributedIterator walk = steps.iterator();
    final Checkpoint checkpoint = new Checkpoint(Map.of("v", variable));
    final Communicator rank = Communicator.createLocal(1, "alone").get(0);
    final ValueFuture future = new ValueFuture();
    final TuttiRuntime runtime = TuttiRuntime.create(Map.of());
    final ClusterResolver resolver = ClusterResolver.tfConfig();
    final List<Executable> uses = List.of(() -> tensor.shape(), () -> tensor.asFloatBuffer(),
        () -> tensor.copyInto(tensor), () -> Value.of(tensor), () -> value.kind(),
        () -> value.asTensor(), () -> dataset.batch(1), () -> dataset.iterator(),
        () -> dataset.cardinality(), () -> spec.size(), () -> Spec.tuple(spec),
        () -> iterator.next(), () -> iterator.hasNext(), () -> iterator.getNext(),
        () -> iterator.save(), () -> iterator.nextOptional(), () -> variable.read(),
        () -> variable.assign(1.0), () -> steps.iterator(), () -> walk.next(), () -> walk.hasNext(),
        () -> checkpoint.save("never"), () -> strategy.run((replica, none) -> null),
        () -> strategy.distribute(Dataset.range(1).batch(1)), () -> strategy.replicaCount(),
        () -> rank.barrier(LONG), () -> future.get(LONG), () -> runtime.get("log_level"),
        () -> resolver.clusterSpec());
    for (final AutoCloseable object : List.of(checkpoint, walk, steps, variable, strategy, iterator,
             spec, dataset, value, tensor, rank, future, runtime, resolver)) {
      assertFalse(object.toString().isBlank());
      assertThrowsNothing(object::close);
      assertThrowsNothing(object::close); // again is fine
      assertFalse(object.toString().isBlank());
    }
    for (final Executable use : uses) {
      refused(Code.FAILED_PRECONDITION, use, "closed");
    }
  }

  private static void assertThrowsNothing(Executable call) {
    try {
      call.execute();
    } catch (Throwable thrown) {
      throw new AssertionError(thrown);
    }
  }

  @Test
  void anElementThatHasNextFetchedIsGoneAfterClose() {
    final DatasetIterator iterator = Dataset.range(3).iterator();
    assertTrue(iterator.hasNext());
    iterator.close();
    refused(Code.FAILED_PRECONDITION, iterator::next, "closed");
  }

  // ---- buffers and dtypes

  @Test
  void aHeapBufferIsRefusedWhereADirectOneIsNeeded() {
    refused(Code.INVALID_ARGUMENT, () -> Tensor.wrap(FloatBuffer.allocate(3)), "direct", "heap",
        "allocateDirect");
    refused(Code.INVALID_ARGUMENT, () -> Value.of(ByteBuffer.wrap(new byte[4])), "direct");
    refused(Code.INVALID_ARGUMENT,
        () -> Tensor.wrap(ByteBuffer.allocateDirect(8).order(ByteOrder.BIG_ENDIAN).asFloatBuffer()),
        "BIG_ENDIAN", "LITTLE_ENDIAN", "order");
    refused(Code.INVALID_ARGUMENT,
        () -> Tensor.wrap(ByteBuffer.allocateDirect(8).order(ByteOrder.nativeOrder())
            .asFloatBuffer(), 3), "8", "12");
  }

  @Test
  void aReadOnlyBufferStaysReadOnly() {
    final FloatBuffer memory = ByteBuffer.allocateDirect(8).order(ByteOrder.nativeOrder())
                                   .asFloatBuffer().asReadOnlyBuffer();
    final Tensor tensor = Tensor.wrap(memory);
    assertTrue(tensor.isReadOnly());
    assertThrows(ReadOnlyBufferException.class, () -> tensor.asFloatBuffer().put(0, 1));
    refused(Code.FAILED_PRECONDITION,
        () -> Tensor.of(new float[] {1, 2}).copyInto(tensor), "read-only");
    final Communicator rank = Communicator.createLocal(1, "writer").get(0);
    refused(Code.FAILED_PRECONDITION,
        () -> rank.allReduce(tensor, ReduceOp.SUM, tensor, LONG), "read-only");
    rank.close();
  }

  @Test
  void aWrongDtypeNamesBoth() {
    final Tensor numbers = Tensor.of(new int[] {1, 2});
    refused(Code.INVALID_ARGUMENT, numbers::asFloatBuffer, "INT32", "FLOAT32", "cast");
    refused(Code.INVALID_ARGUMENT, () -> numbers.bytes(0), "INT32", "BYTES");
    refused(Code.INVALID_ARGUMENT, () -> Tensor.of(new String[] {"a"}).asByteBuffer(), "bytes(");
    refused(Code.INVALID_ARGUMENT, () -> numbers.doubleValue(), "[2]");
    refused(Code.INVALID_ARGUMENT, () -> Tensor.of(DType.FLOAT32, new byte[4]), "FLOAT32");
    refused(Code.INVALID_ARGUMENT, () -> Tensor.of(new float[3], 2, 2), "shape");
    refused(Code.INVALID_ARGUMENT, () -> Value.of("text").asTensor(), "STRING", "tensor");
    refused(Code.INVALID_ARGUMENT, () -> Value.of(1).get("key"), "TENSOR", "dict");
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0");
         Variable variable = Variable.builder(new float[] {1}).strategy(strategy).create()) {
      refused(Code.INVALID_ARGUMENT, () -> variable.assign(new double[] {1}), "float32", "float64");
      refused(Code.INVALID_ARGUMENT, () -> variable.assign(new Object()), "tensor");
    }
    refused(Code.INVALID_ARGUMENT,
        () -> Dataset.range(1).concatenate(Dataset.range(0, 1, 1, DType.INT32)), "int32", "int64");
  }

  // ---- callbacks

  @Test
  void whatACallbackThrowsOnAThreadOfTheLibraryIsTheCause() {
    final List<Throwable> thrown = List.of(new IOException("disk"), new AssertionError("wrong"),
        new StackOverflowError(), new OutOfMemoryError("not really"), new ThreadDeath(),
        new IllegalStateException("not now"), TuttiException.of(Code.DATA_LOSS, "cut off"));
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1")) {
      for (final Throwable original : thrown) {
        final AtomicReference<Thread> where = new AtomicReference<>();
        final TuttiException caught =
            assertThrows(TuttiException.class, () -> strategy.run((replica, none) -> {
              if (replica.replicaId() == 0) {
                return replica.allReduce(ReduceOp.SUM, 1.0);
              }
              where.set(Thread.currentThread());
              throw sneaky(original);
            }));
        assertSame(original, caught.getCause());
        assertTrue(where.get() != Thread.currentThread());
        assertTrue(caught.getMessage().contains(original.getClass().getName())
                || original instanceof TuttiException, caught.getMessage());
      }
      assertEquals(2, strategy.reduce(ReduceOp.SUM,
          strategy.run((replica, none) -> 1.0)).doubleValue()); // it still works
    }
    for (final Throwable original : thrown) {
      final Dataset failing = Dataset.range(3).map(x -> {
        throw sneaky(original);
      }, Spec.tensor(DType.INT64)).prefetch(1);
      assertSame(original,
          assertThrows(TuttiException.class, () -> failing.iterator().next()).getCause());
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> RuntimeException sneaky(Throwable thrown) throws E {
    throw (E) thrown;
  }

  private static long deeper(long depth) {
    return deeper(depth + 1) + 1;
  }

  @Test
  void aStackThatRunsOverIsAnException() {
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1")) {
      assertTrue(assertThrows(TuttiException.class, () -> strategy.run(
          (replica, none) -> replica.replicaId() == 0 ? 0 : deeper(0))).getCause()
          instanceof StackOverflowError);
      assertTrue(assertThrows(TuttiException.class, () -> strategy.run(
          (replica, none) -> replica.replicaId() == 1 ? 0 : deeper(0))).getCause()
          instanceof StackOverflowError);
    }
  }

  @Test
  void aContextThatIsKeptHasEndedOnEveryThread() throws Exception {
    final List<ReplicaContext> kept = new ArrayList<>();
    final List<Value> arguments = new ArrayList<>();
    final AtomicReference<Strategy> owner = new AtomicReference<>();
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1")) {
      strategy.run((replica, argument) -> {
        synchronized (kept) {
          kept.add(replica);
          arguments.add(argument);
        }
        return replica.mergeCall((merging, none) -> {
          owner.set(merging);
          return null;
        }, null);
      }, List.of(1));
      assertEquals(2, owner.get().replicaCount()); // the strategy itself lives on
    }
    for (final ReplicaContext replica : kept) {
      for (final Executable use : List.<Executable>of(replica::replicaId, replica::globalRows,
               replica::isCancelled, replica::strategy, replica::device,
               () -> replica.allReduce(ReduceOp.SUM, 1), () -> replica.allGather(new int[1], 0),
               () -> replica.mergeCall((merging, none) -> null, null))) {
        refused(Code.FAILED_PRECONDITION, use, "replica context");
      }
      final AtomicReference<Throwable> failure = new AtomicReference<>();
      final Thread other = start(failure, replica::replicaId);
      assertEquals(
          Code.FAILED_PRECONDITION, ((TuttiException) failureOf(other, failure)).code());
    }
    for (final Value argument : arguments) {
      refused(Code.FAILED_PRECONDITION, argument::size, "closed");
    }
  }

  @Test
  void whatAFunctionGivesBackMustBeData() {
    refused(Code.INVALID_ARGUMENT, () -> Dataset.range(1).map(x -> new Object()).iterator().next(),
        "java.lang.Object");
    refused(Code.INVALID_ARGUMENT, () -> Dataset.fromTensors(Map.of(1, 2)), "keys", "strings");
    refused(Code.INVALID_ARGUMENT, () -> Dataset.range(1).apply(x -> null), "no dataset");
  }

  // ---- null

  @Test
  void nullIsANullPointerException() {
    final Dataset dataset = Dataset.range(3);
    final Spec spec = Spec.none();
    final Tensor tensor = Tensor.zeros(DType.FLOAT32);
    final ValueFuture future = new ValueFuture();
    final Map<String, Spec> keyless = new HashMap<>();
    keyless.put(null, spec);
    final Map<String, DatasetFunction.Feature> nameless = new HashMap<>();
    final List<String> wrong = new ArrayList<>();
    int number = 0;
    nameless.put(null, new DatasetFunction.Feature(DType.INT64));
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0")) {
      for (final Executable use : List.<Executable>of(() -> Tensor.zeros(null),
               () -> Tensor.zeros(DType.INT8, (long[]) null), () -> Tensor.of((float[]) null),
               () -> Tensor.of((String[]) null), () -> Tensor.of(new String[] {null}),
               () -> Tensor.wrap((FloatBuffer) null), () -> tensor.copyInto(null),
               () -> tensor.reshape((long[]) null), () -> Spec.tuple((Spec) null),
               () -> Spec.dict(keyless), () -> spec.isCompatibleWith(null),
               () -> dataset.map((org.tutti.data.ElementFunction) null),
               () -> dataset.filter((org.tutti.data.ElementFunction) null),
               () -> dataset.map((DatasetFunction) null), () -> dataset.concatenate(null),
               () -> dataset.withOptions(null), () -> dataset.apply(null),
               () -> Dataset.deserialize(null), () -> Dataset.fromGenerator(null, spec),
               () -> Dataset.fromGenerator(List.of(), null),
               () -> Dataset.fromTensorSlices(new byte[][] {null}),
               () -> DatasetFunction.of(null, "name", null, false),
               () -> DatasetFunction.parseExample(nameless),
               () -> dataset.iterator().restore(null), () -> strategy.run(null),
               () -> strategy.distribute(null), () -> strategy.distribute(dataset, null, null),
               () -> strategy.distributeValues(null), () -> strategy.distributeFromFunction(null),
               () -> strategy.perReplica(null), () -> strategy.reduce(null, 1),
               () -> Variable.builder(1.0).synchronization(null).strategy(strategy).create(),
               () -> new Checkpoint(strategy, Map.of()).restore(null),
               () -> MirroredStrategy.of((String[]) null), () -> new TFRecordWriter(null),
               () -> Communicator.create(null, "name", LONG), () -> TuttiRuntime.create(null),
               () -> ClusterResolver.simple(null, "worker", 0L), () -> DeviceSpec.parse(null),
               () -> TuttiRuntime.getDefault(null),
               () -> TuttiRuntime.setDefault("log_level", null),
               () -> future.fail(null), () -> future.onReady(null))) {
        try {
          use.execute();
          wrong.add("nothing was thrown by use " + number);
        } catch (NullPointerException | TuttiException.InvalidArgument refused) {
          if (refused.getMessage() == null || refused.getMessage().isBlank()) {
            wrong.add(refused.getStackTrace()[0] + " says nothing in use " + number);
          }
        } catch (Throwable other) {
          wrong.add(other + " in use " + number);
        }
        ++number;
      }
      assertEquals(List.of(), wrong);
      nothing(() -> strategy.run(null));
      nothing(() -> dataset.concatenate(null));
      refused(Code.INVALID_ARGUMENT, () -> strategy.run((replica, none) ->
          replica.mergeCall((MergeFunction) null, 1)));
      refused(Code.INVALID_ARGUMENT, () -> Variable.builder(null).strategy(strategy).create());
    }
  }

  // ---- shutdown and concurrency

  @Test
  void useAfterShutdownSaysSo() {
    final TuttiRuntime runtime = TuttiRuntime.create(Map.of());
    final Dataset dataset;
    final DatasetIterator iterator;
    final MirroredStrategy strategy;
    final Variable variable;
    final Tensor tensor;
    final FloatBuffer view;
    try (TuttiRuntime.Scope scope = runtime.asDefault()) {
      dataset = Dataset.range(3).map(x -> x.longValue());
      iterator = dataset.iterator();
      strategy = MirroredStrategy.of("CPU:0", "CPU:1");
      variable = Variable.builder(new float[] {1}).strategy(strategy).create();
      tensor = Tensor.of(new float[] {7});
      view = tensor.asFloatBuffer();
    }
    runtime.shutdown(LONG);
    assertFalse(runtime.isRunning());
    for (final Executable use : List.<Executable>of(iterator::next, iterator::save,
             dataset::iterator, () -> strategy.run((replica, none) -> null),
             () -> strategy.distribute(dataset), () -> variable.assign(new float[] {2}))) {
      refused(Code.FAILED_PRECONDITION, use);
    }
    assertEquals(7, tensor.floatValue()); // memory outlives its runtime
    assertEquals(7, view.get(0));
    for (final AutoCloseable object :
        List.of(iterator, dataset, variable, strategy, tensor, runtime)) {
      assertThrowsNothing(object::close);
    }
    assertEquals(7, view.get(0));
  }

  @Test
  void closingACommunicatorWakesItsThread() throws Exception {
    final List<Communicator> ranks = Communicator.createLocal(2, "waiting");
    final AtomicReference<Throwable> failure = new AtomicReference<>();
    final CountDownLatch begun = new CountDownLatch(1);
    final Thread waiting = start(failure, () -> {
      begun.countDown();
      ranks.get(0).barrier(null);
    });
    begun.await();
    ranks.get(0).close();
    final Throwable failed = failureOf(waiting, failure);
    assertTrue(failed instanceof TuttiException, () -> "" + failed);
    ranks.get(1).close();
  }

  @Test
  void closingAnIteratorWakesItsThread() throws Exception {
    final CountDownLatch asked = new CountDownLatch(1);
    final CountDownLatch goOn = new CountDownLatch(1);
    final Iterable<Long> slow = () -> new Iterator<>() {
      @Override
      public boolean hasNext() {
        asked.countDown();
        try {
          return goOn.await(60, TimeUnit.SECONDS);
        } catch (InterruptedException stopped) {
          throw new IllegalStateException(stopped);
        }
      }

      @Override
      public Long next() {
        return 1L;
      }
    };
    final DatasetIterator iterator =
        Dataset.fromGenerator(slow, Spec.tensor(DType.INT64)).prefetch(1).iterator();
    final AtomicReference<Throwable> failure = new AtomicReference<>();
    final Thread waiting = start(failure, iterator::next);
    asked.await();
    final AtomicReference<Throwable> closing = new AtomicReference<>();
    final Thread closer = start(closing, iterator::close);
    final Throwable failed = failureOf(waiting, failure); // before the generator goes on
    assertTrue(failed instanceof TuttiException, () -> "" + failed);
    goOn.countDown();
    assertEquals(null, failureOf(closer, closing));
  }

  @Test
  void objectsAreClosedUnderThreadsThatUseThem() throws Exception {
    for (int round = 0; round < 50; ++round) {
      final Tensor tensor = Tensor.of(new float[] {1, 2, 3});
      final Value value = Value.of(Map.of("a", 1));
      final AtomicReference<Throwable> failure = new AtomicReference<>();
      final CountDownLatch begun = new CountDownLatch(1);
      final Thread user = start(failure, () -> {
        for (int i = 0; ; ++i) {
          assertEquals(3, tensor.asFloatBuffer().get(2));
          assertEquals(1, value.get("a").longValue());
          if (i == 10) {
            begun.countDown();
          }
        }
      });
      begun.await();
      tensor.close();
      value.close();
      final Throwable failed = failureOf(user, failure);
      assertTrue(failed instanceof TuttiException.FailedPrecondition, () -> "" + failed);
    }
  }

  // ---- memory

  @Test
  void memoryBeyondTheLimitSaysHowMuchThereIs() {
    try (TuttiRuntime runtime = TuttiRuntime.create(Map.of("memory_limit", "1MiB"));
         TuttiRuntime.Scope scope = runtime.asDefault();
         Tensor half = Tensor.zeros(DType.UINT8, 512 << 10)) {
      assertEquals("1MiB", TuttiRuntime.getDefault("memory_limit"));
      final TuttiException refused = refused(Code.RESOURCE_EXHAUSTED,
          () -> Tensor.zeros(DType.UINT8, 768 << 10), "memory_limit");
      assertEquals(768L << 10, refused.details().get("requested_bytes"));
      assertTrue((Long) refused.details().get("used_bytes") >= 512 << 10);
      assertEquals(1L << 20, refused.details().get("limit_bytes"));
      half.close();
      Tensor.zeros(DType.UINT8, 768 << 10).close();
    }
  }

  // ---- addresses

  @Test
  void nothingIsCopiedOnTheWayToAReplica() {
    final ByteBuffer memory = ByteBuffer.allocateDirect(16).order(ByteOrder.nativeOrder());
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0");
         Tensor tensor = Tensor.wrap(memory.asFloatBuffer());
         Tensor again = Tensor.wrap(tensor.asByteBuffer(), DType.FLOAT32)) {
      assertEquals(tensor.dataAddress(), again.dataAddress());
      strategy.run((replica, argument) -> {
        assertEquals(tensor.dataAddress(), argument.get(0).asTensor().dataAddress());
        // That of the buffer that it sees.
        assertEquals(tensor.dataAddress(),
            Tensor.wrap(argument.get(0).asFloatBuffer()).dataAddress());
        memory.putFloat(4, 5);
        assertEquals(5, argument.get(0).asFloatBuffer().get(1));
        return null;
      }, List.of(tensor));
      try (Value value = Value.of(tensor)) {
        assertEquals(tensor.dataAddress(), value.asTensor().dataAddress());
      }
      try (DatasetIterator elements = Dataset.fromTensors(tensor).iterator()) {
        assertEquals(tensor.dataAddress(), elements.next().asTensor().dataAddress());
      }
    }
  }

  @Test
  void dlpackGoesOutAndInWithoutACopy() {
    final Tensor tensor = Tensor.of(new float[] {1, 2, 3, 4}, 2, 2);
    try (Tensor again = Tensor.fromDLPack(tensor.toDLPack())) {
      assertEquals(tensor.dataAddress(), again.dataAddress());
      tensor.close();
      assertEquals(4, again.toFloatArray()[3]);
      try (Tensor copy = Tensor.fromDLPack(again.toDLPack(true))) {
        assertTrue(copy.dataAddress() != again.dataAddress());
        assertEquals(again, copy);
      }
      Tensor.deleteDLPack(again.toDLPack());
      refused(Code.INVALID_ARGUMENT, () -> Tensor.fromDLPack(0));
      refused(Code.INVALID_ARGUMENT, () -> Tensor.of(new String[] {"a"}).toDLPack());
      Tensor.deleteDLPack(0);
    }
  }
}
