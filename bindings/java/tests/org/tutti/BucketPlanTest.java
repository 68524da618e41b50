package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.tutti.Ranks.LONG;
import static org.tutti.Ranks.zeros;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Gradients that are reduced as they become ready. */
class BucketPlanTest {
  @Test
  void gradientsAreReducedWhateverTheOrderInWhichTheyBecomeReady() throws Exception {
    final long seed = Long.getLong("tutti.test.seed", System.nanoTime());
    System.out.println("seed (-Dtutti.test.seed=): " + seed);
    Ranks.run(3, (ranks, rank) -> {
      final Random random = new Random(seed + rank);
      final List<Tensor> gradients = new ArrayList<>();
      final List<Integer> order = new ArrayList<>();
      for (int i = 0; i < 5; ++i) {
        gradients.add(Tensor.zeros(DType.FLOAT32, 4));
        order.add(i);
      }
      try (BucketPlan plan = BucketPlan.of(ranks, gradients, ReduceOp.MEAN,
            new BucketPlan.Options().bytesPerPack(32))) {
        assertEquals(3, plan.bucketCount()); // of two gradients, the last of one
        for (int step = 0; step < 4; ++step) {
          Collections.shuffle(order, random);
          for (final int i : order) {
            for (int element = 0; element < 4; ++element) {
              gradients.get(i).asFloatBuffer().put(element, 100 * step + 10 * i + rank);
            }
            plan.ready(i);
          }
          plan.await(LONG);
          for (int i = 0; i < 5; ++i) {
            final float mean = 100 * step + 10 * i + 1;
            assertArrayEquals(
                new float[] {mean, mean, mean, mean}, gradients.get(i).toFloatArray());
          }
        }
      }
      ranks.barrier(LONG);
    });
  }

  @Test
  void aNanIsNamedByTheGradientThatHasIt() throws Exception {
    Ranks.run(2, (ranks, rank) -> {
      final List<Tensor> gradients = List.of(Tensor.of(new float[] {1, 2}),
          Tensor.of(new float[] {1, rank == 1 ? Float.NaN : 2}));
      Debugging.enableCheckNumerics();
      try (BucketPlan plan = BucketPlan.of(ranks, gradients, ReduceOp.SUM,
            new BucketPlan.Options().names(List.of("weights", "bias")))) {
        final TuttiException.InvalidArgument error =
            assertThrows(TuttiException.InvalidArgument.class, () -> {
              plan.ready(0);
              plan.ready(1);
              plan.await(LONG);
            });
        final String message = error.getMessage();
        assertTrue(message.contains("rank 1: all_reduce #1"), message);
        assertTrue(message.contains("the input of tensor 1 (bias), float32[2], is not finite"),
            message);
      } finally {
        Debugging.disableCheckNumerics();
      }
    });
  }

  @Test
  void aPlanMayMakeTheGradients() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor like = Tensor.empty(DType.FLOAT32, 5);
      final BucketPlan plan =
          BucketPlan.ofOwnTensors(ranks, List.of(like, like), ReduceOp.SUM);
      final List<Tensor> gradients = List.of(plan.tensor(0), plan.tensor(1));
      for (int i = 0; i < 2; ++i) {
        assertEquals(0, gradients.get(i).asFloatBuffer().get(4));
        gradients.get(i).asFloatBuffer().put(4, 10 * i + rank);
        plan.ready(i);
      }
      plan.await(LONG);
      for (final int index : new int[] {2, -1}) {
        final TuttiException none =
            assertThrows(TuttiException.class, () -> plan.tensor(index));
        assertEquals(Code.INVALID_ARGUMENT, none.code());
      }
      plan.close();
      for (int i = 0; i < 2; ++i) {
        assertEquals(30 * i + 3, gradients.get(i).asFloatBuffer().get(4));
      }
      ranks.barrier(LONG);
    });
  }

  @Test
  void gradientsBecomeReadyOnOtherThreads() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final List<Tensor> gradients = List.of(Ranks.ints(rank), Ranks.ints(10 * rank));
      try (BucketPlan plan = BucketPlan.of(ranks, gradients, ReduceOp.SUM)) {
        assertEquals(1, plan.bucketCount());
        final Thread backward = new Thread(() -> {
          plan.ready(1);
          plan.ready(0);
        });
        backward.start();
        plan.await(LONG);
        backward.join(LONG.toMillis());
        assertEquals(Ranks.ints(3), gradients.get(0));
        assertEquals(Ranks.ints(30), gradients.get(1));
      }
    });
  }

  private static TuttiException refused(Code code, Executable call, String... says) {
    final TuttiException refused = assertThrows(TuttiException.class, call);
    assertEquals(code, refused.code(), refused.toString());
    for (final String part : says) {
      assertTrue(refused.getMessage().contains(part), refused::getMessage);
    }
    return refused;
  }

  @Test
  void wrongUseSaysSo() {
    final Communicator alone = Communicator.createLocal(1, "alone").get(0);
    final Tensor gradient = zeros(2);
    final Tensor readOnly =
        Tensor.wrap(ByteBuffer.allocateDirect(16).asReadOnlyBuffer(), DType.INT64);
    refused(Code.INVALID_ARGUMENT,
        () -> BucketPlan.of(alone, List.of(gradient, gradient), ReduceOp.SUM), "twice");
    refused(Code.INVALID_ARGUMENT,
        () -> BucketPlan.of(alone, List.of(gradient), ReduceOp.SUM,
            new BucketPlan.Options().bytesPerPack(-1)), "-1");
    refused(Code.INVALID_ARGUMENT, () -> BucketPlan.of(
        alone, List.of(Tensor.of(new String[] {"text"})), ReduceOp.SUM), "bytes");
    refused(Code.FAILED_PRECONDITION,
        () -> BucketPlan.of(alone, List.of(readOnly), ReduceOp.SUM), "read-only");
    final List<Executable> withNull = List.of(
        () -> BucketPlan.of(null, List.of(gradient), ReduceOp.SUM),
        () -> BucketPlan.of(alone, null, ReduceOp.SUM),
        () -> BucketPlan.of(alone, Collections.singletonList(null), ReduceOp.SUM),
        () -> BucketPlan.of(alone, List.of(gradient), null));
    for (final Executable use : withNull) {
      assertNotNull(assertThrows(NullPointerException.class, use).getMessage());
    }
    final BucketPlan plan = BucketPlan.of(alone, List.of(gradient), ReduceOp.SUM);
    refused(Code.INVALID_ARGUMENT, () -> plan.ready(-1), "-1");
    refused(Code.INVALID_ARGUMENT, () -> plan.ready(1), "tensor 1");
    plan.ready(0);
    refused(Code.FAILED_PRECONDITION, () -> plan.ready(0), "second time");
    plan.await(LONG);
    plan.close();
    plan.close(); // again is fine
    final List<Executable> uses =
        List.of(() -> plan.ready(0), () -> plan.await(LONG), plan::bucketCount);
    for (final Executable use : uses) {
      refused(Code.FAILED_PRECONDITION, use, "closed");
    }
    alone.close();
    refused(Code.FAILED_PRECONDITION,
        () -> BucketPlan.of(alone, List.of(gradient), ReduceOp.SUM), "closed");
  }

  @Test
  void aWaitThatIsGivenUpEndsTheEpoch() throws Exception {
    final CountDownLatch over = new CountDownLatch(1);
    Ranks.run(3, (ranks, rank) -> {
      if (rank == 0) {
        try (BucketPlan plan = BucketPlan.of(ranks, List.of(zeros(1)), ReduceOp.SUM)) {
          assertThrows(
              TuttiException.DeadlineExceeded.class, () -> plan.await(Duration.ofMillis(5)));
        } finally {
          over.countDown();
        }
      }
      assertTrue(over.await(LONG.toSeconds(), TimeUnit.SECONDS));
      assertThrows(TuttiException.DeadlineExceeded.class, () -> ranks.barrier(LONG));
    });
  }
}
