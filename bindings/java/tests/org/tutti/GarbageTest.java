package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.distribute.MirroredStrategy;

/** A thread collects garbage without a pause while callbacks run and buffers are in use. */
class GarbageTest {
  // What is not closed must not fill the machine while the heap is as good as empty.
  @Test
  void theCollectorIsAskedWhenMuchIsOpen() throws InterruptedException {
    over.set(true); // no storm: the garbage would go anyway
    storm.join();
    try (Tensor large = Tensor.zeros(DType.UINT8, 1 << 20);
         DatasetIterator elements = Dataset.fromTensors(large).repeat().iterator()) {
      final long before = TuttiRuntime.offHeapBytes();
      long last = before;
      boolean collected = false;
      // As much as the collector would not come by for of itself; then its thread has time.
      for (int i = 0; i < 2048 || (!collected && i < 600_000); ++i) {
        if (i < 2048) {
          assertEquals(1 << 20, elements.next().asTensor().byteSize());
        } else {
          Thread.sleep(1);
        }
        final long now = TuttiRuntime.offHeapBytes();
        collected |= now < last;
        last = now;
      }
      assertTrue(collected, "nothing was collected");
    }
  }

  private final AtomicBoolean over = new AtomicBoolean();
  private Thread storm;

  @BeforeEach
  void start() {
    storm = new Thread(() -> {
      while (!over.get()) {
        System.gc();
      }
    });
    storm.start();
  }

  @AfterEach
  void stop() throws InterruptedException {
    over.set(true);
    storm.join();
  }

  private static ByteBuffer direct(int bytes) {
    return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
  }

  @Test
  void callbacksThatOnlyTheLibraryHoldsSurvive() {
    try (MirroredStrategy strategy = MirroredStrategy.of("CPU:0", "CPU:1")) {
      for (int round = 0; round < 20; ++round) {
        final long offset = round;
        // The lambda, the generator and the datasets between are reachable from nowhere else.
        final DatasetIterator elements = Dataset.fromGenerator(() -> List.of(1L, 2L, 3L).iterator(),
            Spec.tensor(DType.INT64)).map(x -> x.longValue() + offset).batch(3).iterator();
        final Value batch = elements.next();
        final Value sum = strategy.run((replica, numbers) -> {
          final FloatBuffer view = Tensor.of(new float[] {numbers.asLongBuffer().get(0), 1})
                                       .asFloatBuffer(); // its tensor is garbage from here on
          final Value all = replica.allReduce(ReduceOp.SUM, new float[] {view.get(0)});
          return replica.mergeCall((owner, given) -> owner.reduce(ReduceOp.SUM, given), all);
        }, batch);
        assertEquals(4.0 * (1 + offset),
            strategy.localResults(sum).get(0).asTensor().toDoubleArray()[0]);
      }
    }
  }

  @Test
  void buffersKeepTheirMemory() {
    final List<FloatBuffer> views = new ArrayList<>();
    for (int i = 0; i < 500; ++i) {
      final FloatBuffer memory = direct(1024).asFloatBuffer();
      memory.put(7, i);
      // Of the chain buffer, tensor, slice, value only the last view stays.
      views.add(Value.of(Tensor.wrap(memory).slice(0, 4, 12)).asFloatBuffer().slice(3, 1));
    }
    for (int i = 0; i < views.size(); ++i) {
      assertEquals(i, views.get(i).get(0));
    }
  }

  @Test
  void aCloseOnAnotherThreadTakesEffectBehindTheCallsUnderWay() throws Exception {
    for (int round = 0; round < 30; ++round) {
      final Tensor tensor = Tensor.zeros(DType.FLOAT32, 1000);
      final AtomicReference<Throwable> other = new AtomicReference<>();
      final Thread reader = new Thread(() -> {
        try {
          while (true) {
            tensor.copy().close();
          }
        } catch (TuttiException.FailedPrecondition closed) {
          assertTrue(closed.getMessage().contains("closed"));
        } catch (RuntimeException failed) {
          other.set(failed);
        }
      });
      reader.start();
      Thread.yield();
      tensor.close();
      reader.join();
      assertNull(other.get(), () -> "" + other.get());
    }
  }

  // The library's side of an object is used again as soon as the object is closed.
  @Test
  void aClosedObjectIsNotTheOneThatCameAfterIt() throws Exception {
    final List<Tensor> closed = new ArrayList<>();
    for (int i = 0; i < 1000; ++i) {
      final Tensor tensor = Tensor.zeros(DType.FLOAT32, i);
      tensor.close();
      closed.add(tensor);
    }
    final List<Tensor> open = new ArrayList<>();
    final Thread other = new Thread(() -> closed.forEach(Tensor::close));
    other.start();
    for (int i = 0; i < 1000; ++i) {
      open.add(Tensor.zeros(DType.FLOAT32, i));
      closed.get(i).close();
    }
    other.join();
    for (int i = 0; i < 1000; ++i) {
      assertThrows(TuttiException.FailedPrecondition.class, closed.get(i)::elementCount);
      assertEquals(i, open.get(i).elementCount());
    }
  }

  @Test
  void aClosedStrategyIsStillItself() {
    final MirroredStrategy strategy = MirroredStrategy.of("CPU:0");
    final int hash = strategy.hashCode();
    strategy.close();
    try (MirroredStrategy other = MirroredStrategy.of("CPU:0", "CPU:1")) {
      assertEquals(hash, strategy.hashCode());
      assertEquals(strategy, strategy);
    }
  }

  @Test
  void whatNobodyHoldsIsGivenBack() throws Exception {
    final WeakReference<ByteBuffer> memory = wrapAndForget();
    final WeakReference<Object> object = holdAndForget();
    final long end = System.nanoTime() + 60_000_000_000L;
    while ((memory.get() != null || object.get() != null) && System.nanoTime() < end) {
      Thread.onSpinWait();
    }
    assertNull(memory.get(), "a wrapped buffer");
    assertNull(object.get(), "an object inside a value");
  }

  private static WeakReference<ByteBuffer> wrapAndForget() {
    final ByteBuffer memory = direct(64);
    Tensor.wrap(memory, DType.UINT8);
    return new WeakReference<>(memory);
  }

  private static WeakReference<Object> holdAndForget() {
    final Object object = new Object();
    Value.of(List.of(object, object));
    return new WeakReference<>(object);
  }
}
