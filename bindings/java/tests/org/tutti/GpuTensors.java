package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.tutti.data.Dataset;

/** Tensors, streams and events on GPUs, with a fake driver that has two; a test of its own. */
class GpuTensors {
  private static final float[] NUMBERS = {1, 2, 3, 4};

  private static void refuses(
      Class<? extends TuttiException> type, String part, Executable use) {
    final TuttiException refused = assertThrows(type, use);
    assertTrue(refused.getMessage().contains(part), refused.getMessage());
  }

  @Test
  void tensorsGoThereAndComeBack() {
    try (Tensor here = Tensor.of(NUMBERS, 2, 2); Tensor there = here.copyTo("GPU:0");
        Tensor second = there.copyTo("GPU:1"); Tensor back = second.copyTo("CPU:0");
        Tensor copy = there.copy()) {
      assertEquals("/job:localhost/replica:0/task:0/device:GPU:0", there.device());
      assertEquals(-1, here.cudaDevice());
      assertEquals(1, second.cudaDevice());
      assertEquals("float32[2,2] <on GPU:0>", there.toString());
      assertNotEquals(there.dataAddress(), copy.dataAddress());
      assertEquals(here, back);
      assertEquals(here, copy);
      assertArrayEquals(NUMBERS, second.toFloatArray());
      assertArrayEquals(new int[] {1, 2, 3, 4}, second.toIntArray());
      try (Tensor zeros = Tensor.zerosOn("GPU:1", DType.FLOAT32, 2, 2)) {
        there.copyInto(zeros);
        assertEquals(here, zeros);
      }
    }
    try (Tensor pinned = Tensor.pinned(DType.INT32, 2)) {
      assertEquals(-1, pinned.cudaDevice());
      pinned.asIntBuffer().put(1, 7);
      try (Tensor there = pinned.copyTo("GPU:0");
          Tensor back = there.copyTo("CPU:0", null, true, Duration.ofMinutes(1))) {
        assertArrayEquals(new int[] {0, 7}, back.toIntArray());
      }
    }
  }

  @Test
  void memoryIsCountedByLogicalDevice() {
    assertEquals(List.of("GPU:0", "GPU:1"), TuttiRuntime.devices("GPU"));
    refuses(TuttiException.FailedPrecondition.class, "in use already",
            () -> TuttiRuntime.setLogicalDeviceConfiguration(
                "GPU:1", new LogicalDeviceConfiguration(1 << 20)));
    refuses(TuttiException.InvalidArgument.class, "together, and GPU:1 has 67108864",
            () -> TuttiRuntime.setLogicalDeviceConfiguration(
                "GPU:1", new LogicalDeviceConfiguration(1 << 30)));
    TuttiRuntime.resetPeakBytes("GPU:1");
    final long before = TuttiRuntime.usedBytes("GPU:1");
    try (Tensor held = Tensor.zerosOn("GPU:1", DType.FLOAT32, 100)) {
      assertEquals(before + 400, TuttiRuntime.usedBytes("GPU:1"));
    }
    assertEquals(before, TuttiRuntime.usedBytes("GPU:1"));
    assertEquals(before + 400, TuttiRuntime.peakBytes("GPU:1"));
    TuttiRuntime.resetPeakBytes("GPU:1");
    assertEquals(before, TuttiRuntime.peakBytes("GPU:1"));
    refuses(TuttiException.InvalidArgument.class, "name a GPU",
            () -> TuttiRuntime.resetPeakBytes("CPU:0"));
  }

  @Test
  void whatNeedsTheHostRefuses() {
    try (Tensor here = Tensor.of(NUMBERS); Tensor there = here.copyTo("GPU:0")) {
      final String sentence =
          "float32[4] lies on GPU:0, and this needs elements in the host's memory";
      refuses(TuttiException.FailedPrecondition.class, sentence, () -> there.cast(DType.INT32));
      refuses(TuttiException.FailedPrecondition.class, sentence, () -> Dataset.fromTensors(there));
      refuses(TuttiException.FailedPrecondition.class, "whose memory no buffer shows",
          there::asFloatBuffer);
      refuses(TuttiException.NotFound.class, "no GPU:9", () -> there.copyTo("GPU:9"));
    }
  }

  @Test
  void tensorsAreReducedWhereTheyLie() {
    final List<Communicator> ranks = Communicator.createLocal(2);
    final List<Tensor> sums = new ArrayList<>();
    final List<ValueFuture> futures = new ArrayList<>();
    try (Tensor here = Tensor.of(NUMBERS, 4)) {
      for (Communicator rank : ranks) {
        sums.add(here.copyTo("GPU:" + rank.rank()));
        final Tensor own = sums.get(rank.rank());
        futures.add(rank.allReduceAsync(own, ReduceOp.SUM, own));
      }
    }
    futures.forEach(ValueFuture::close);
    futures.clear();
    for (Communicator rank : ranks) {
      futures.add(rank.allGatherAsync(sums.get(rank.rank())));
    }
    for (int rank = 0; rank < 2; ++rank) {
      try (Value joined = futures.get(rank).get(Duration.ofMinutes(1));
          Tensor all = joined.asTensor()) {
        assertEquals(rank, all.cudaDevice());
        assertArrayEquals(new float[] {2, 4, 6, 8, 2, 4, 6, 8}, all.toFloatArray());
      }
    }
    futures.forEach(ValueFuture::close);
    try (Communicator alone = Communicator.createLocal(1).get(0);
        Tensor sum = alone.allReduce(sums.get(1), ReduceOp.MAX)) {
      assertEquals(1, sum.cudaDevice());
    }
    try (Tensor host = Tensor.zeros(DType.FLOAT32, 4)) {
      refuses(TuttiException.InvalidArgument.class,
          "the tensors of a rank's call lie on one device",
          () -> ranks.get(0).allReduce(sums.get(0), ReduceOp.SUM, host));
    }
    sums.forEach(Tensor::close);
    ranks.forEach(Communicator::close);
  }

  @Test
  void ranksThatDisagreeAreToldSo() {
    final List<Communicator> ranks = Communicator.createLocal(2);
    try (Tensor here = Tensor.of(NUMBERS); Tensor there = here.copyTo("GPU:0");
        ValueFuture first = ranks.get(0).allReduceAsync(here, ReduceOp.SUM, here);
        ValueFuture second = ranks.get(1).allReduceAsync(there, ReduceOp.SUM, there)) {
      for (final ValueFuture future : List.of(first, second)) {
        refuses(TuttiException.InvalidArgument.class,
            "rank 1: all_reduce #1 got tensors on a GPU, rank 0 on the host",
            () -> future.get(Duration.ofMinutes(1)));
      }
    }
    ranks.forEach(Communicator::close);
  }

  @Test
  void anOldNcclSaysWhichWouldDo() {
    assumeTrue(String.valueOf(System.getenv("TUTTI_NCCL_LIBRARY")).contains("2_17"));
    final String told = TuttiRuntime.describePlugins();
    assertTrue(told.contains("NCCL 2.17.3 ("), told);
    assertTrue(told.contains("is too old; 2.18 or newer is needed: install one"), told);
  }

  @Test
  void streamsAndEventsOrderWork() {
    try (DeviceStream stream = DeviceStream.on("GPU:0");
        DeviceStream other = DeviceStream.on("GPU:1");
        DeviceStream own = DeviceStream.of("GPU:0"); DeviceEvent begin = DeviceEvent.timed("GPU:0");
        DeviceEvent end = DeviceEvent.timed("GPU:0"); DeviceEvent plain = DeviceEvent.on("GPU:1");
        Tensor here = Tensor.of(NUMBERS)) {
      assertTrue(begin.isReached());
      begin.record(stream);
      try (Tensor there = here.copyTo("GPU:0", stream, false, null)) {
        end.record(stream);
        end.synchronize(Duration.ofMinutes(1));
        assertTrue(end.isReached());
        assertFalse(begin.elapsed(end).isNegative());
        assertArrayEquals(NUMBERS, there.toFloatArray());
        refuses(TuttiException.InvalidArgument.class, "the stream is one of GPU:1",
            () -> there.copyTo("GPU:0", other, false, null));
      }
      own.waitFor(stream);
      other.waitFor(end);
      plain.record(other);
      stream.synchronize();
      assertEquals("GPU:0", stream.device());
      try (DeviceStream again = DeviceStream.wrap("GPU:0", stream.handle());
          DeviceStream same = DeviceStream.ofCudaDevice(0)) {
        assertEquals(stream.handle(), again.handle());
        assertEquals(own.handle(), same.handle());
      }
      refuses(TuttiException.InvalidArgument.class, "stream 0 says nothing",
          () -> DeviceStream.wrap("GPU:0", 0));
      refuses(TuttiException.InvalidArgument.class, "on a stream of GPU:1",
          () -> end.record(other));
      refuses(TuttiException.InvalidArgument.class, "CPU:0 has no streams",
          () -> DeviceStream.on("CPU:0"));
      stream.close();
      assertThrows(TuttiException.class, stream::synchronize);
    }
  }

  @Test
  void memoryGoesByAddressAndStream() {
    try (Tensor here = Tensor.of(NUMBERS); Tensor there = here.copyTo("GPU:1");
        DeviceStream own = DeviceStream.of("GPU:1")) {
      for (final long stream : new long[] {-1, 1, 2, own.handle()}) {
        try (Tensor taken = Tensor.fromDLPack(there.toDLPack(false, stream))) {
          assertEquals(there.dataAddress(), taken.dataAddress());
          assertEquals(here, taken);
        }
      }
      refuses(TuttiException.InvalidArgument.class, "stream 0 says nothing",
          () -> there.toDLPack(false, 0));
      try (Tensor wrapped =
               Tensor.wrapAddress("GPU:1", there.dataAddress(), 16, DType.FLOAT32, 2, 2)) {
        assertArrayEquals(NUMBERS, wrapped.toFloatArray());
      }
    }
  }
}
