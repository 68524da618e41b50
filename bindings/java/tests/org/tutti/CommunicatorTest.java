package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.tutti.Ranks.LONG;
import static org.tutti.Ranks.done;
import static org.tutti.Ranks.ints;
import static org.tutti.Ranks.zeros;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Every call of three ranks, at once and with a future. */
class CommunicatorTest {
  private static void holds(Tensor tensor, long... elements) {
    assertArrayEquals(elements, tensor.toLongArray());
  }

  private static void resultHolds(ValueFuture call, long... elements) {
    try (call; Value value = call.get(LONG)) {
      holds(value.asTensor(), elements);
    }
  }

  // ---- every call

  @Test
  void allReduceFoldsIntoEveryRank() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor mine = ints(rank + 1, 10);
      final Tensor result = zeros(2);
      ranks.allReduce(mine, ReduceOp.SUM, result, LONG);
      holds(result, 6, 30);
      done(ranks.allReduceAsync(mine, ReduceOp.MAX, result, LONG));
      holds(result, 3, 10);
      done(ranks.allReduceAsync(mine, ReduceOp.PROD, mine, LONG)); // in place
      holds(mine, 6, 1000);
    });
  }

  @Test
  void allReduceTakesAList() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final List<Tensor> values = List.of(ints(rank, 1), Tensor.of(new float[] {rank, 2, 3}, 3, 1));
      final List<Tensor> results = List.of(zeros(2), Tensor.zeros(DType.FLOAT32, 3, 1));
      ranks.allReduce(values, ReduceOp.SUM, results, LONG);
      holds(results.get(0), 3, 3);
      assertArrayEquals(new float[] {3, 6, 9}, results.get(1).toFloatArray());
      done(ranks.allReduceAsync(values, ReduceOp.MAX, values, LONG)); // in place
      holds(values.get(0), 2, 1);
      assertArrayEquals(new float[] {2, 2, 3}, values.get(1).toFloatArray());
      ranks.allReduce(List.of(), ReduceOp.SUM, List.of(), LONG);
    });
  }

  @Test
  void bitsAreReduced() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor mine = ints(7 & ~(1 << rank));
      holds(ranks.allReduce(mine, ReduceOp.BAND), 0);
      holds(ranks.allReduce(mine, ReduceOp.BOR), 7);
      holds(ranks.allReduce(ints(1 << rank, 1), ReduceOp.BXOR), 7, 1);
      final Tensor flags = Tensor.of(new boolean[] {rank == 1, true});
      assertEquals(Tensor.of(new boolean[] {false, true}), ranks.allReduce(flags, ReduceOp.BAND));
      assertEquals(Tensor.of(new boolean[] {true, true}), ranks.allReduce(flags, ReduceOp.BOR));
    });
  }

  @Test
  void reduceFoldsIntoTheRoot() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor mine = ints(rank + 1, 10);
      final Tensor result = rank == 1 ? zeros(2) : null;
      ranks.reduce(mine, ReduceOp.SUM, 1, result, LONG);
      if (rank == 1) {
        holds(result, 6, 30);
      }
      done(ranks.reduceAsync(mine, ReduceOp.MIN, 1, result, LONG));
      if (rank == 1) {
        holds(result, 1, 10);
      }
      holds(mine, rank + 1, 10);
    });
  }

  @Test
  void reduceScatterGivesEveryRankItsRows() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor mine = ints(rank, 10, 20);
      final Tensor result = zeros(1);
      ranks.reduceScatter(mine, ReduceOp.SUM, result, LONG);
      holds(result, new long[] {3, 30, 60}[rank]);
      done(ranks.reduceScatterAsync(mine, ReduceOp.MAX, result, LONG));
      holds(result, new long[] {2, 10, 20}[rank]);
    });
  }

  @Test
  void broadcastCopiesTheRoots() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor tensor = ints(rank, rank);
      ranks.broadcast(tensor, 2, LONG);
      holds(tensor, 2, 2);
      final Tensor other = ints(rank);
      done(ranks.broadcastAsync(other, 1, LONG));
      holds(other, 1);
    });
  }

  @Test
  void allGatherJoins() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor mine = ints(rank);
      holds(ranks.allGather(mine, LONG), 0, 1, 2);
      final long[] rows = new long[rank]; // none of rank 0
      Arrays.fill(rows, rank);
      resultHolds(ranks.allGatherAsync(Tensor.of(rows, rank), LONG), 1, 2, 2);
      assertEquals(Tensor.of(new String[] {"r0", "r1", "r2"}),
          ranks.allGather(Tensor.of(new String[] {"r" + rank}), LONG));
      final Tensor all = zeros(3);
      ranks.allGatherInto(mine, all, LONG);
      holds(all, 0, 1, 2);
      done(ranks.allGatherIntoAsync(ints(10 * rank), all, LONG));
      holds(all, 0, 10, 20);
    });
  }

  @Test
  void gatherJoinsAtTheRoot() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor all = ranks.gather(ints(rank), 2, LONG);
      if (rank == 2) {
        holds(all, 0, 1, 2);
        resultHolds(ranks.gatherAsync(ints(rank), 2, LONG), 0, 1, 2);
      } else {
        assertNull(all);
        done(ranks.gatherAsync(ints(rank), 2, LONG));
      }
    });
  }

  @Test
  void scatterGivesEveryRankItsRows() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor all = rank == 1 ? ints(5, 6, 7) : null;
      final Tensor result = zeros(1);
      ranks.scatter(all, 1, result, LONG);
      holds(result, 5 + rank);
      result.asLongBuffer().put(0, 0);
      done(ranks.scatterAsync(all, 1, result, LONG));
      holds(result, 5 + rank);
    });
  }

  @Test
  void allToAllExchangesRows() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor mine = ints(10 * rank, 10 * rank + 1, 10 * rank + 2);
      final Tensor result = zeros(3);
      ranks.allToAll(mine, result, LONG);
      holds(result, rank, 10 + rank, 20 + rank);
      done(ranks.allToAllAsync(result, mine, LONG));
      holds(mine, 10 * rank, 10 * rank + 1, 10 * rank + 2);
    });
  }

  @Test
  void allToAllSendsAsManyRowsAsItIsTold() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      // Rank r sends p rows to rank p.
      final Tensor mine = ints(10 * rank + 1, 10 * rank + 2, 10 * rank + 2);
      try (Communicator.Received received = ranks.allToAll(mine, new long[] {0, 1, 2}, LONG)) {
        assertArrayEquals(new long[] {rank, rank, rank}, received.rows());
        final long[] expected = new long[3 * rank];
        for (int i = 0; i < expected.length; ++i) {
          expected[i] = 10L * (i / rank) + rank;
        }
        holds(received.tensor(), expected);
      }
    });
  }

  @Test
  void sendAndReceiveMoveATensor() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final int next = (rank + 1) % 3;
      final int previous = (rank + 2) % 3;
      final Tensor came = zeros(2);
      for (int round = 0; round < 2; ++round) {
        final Tensor mine = ints(rank, round);
        final boolean later = round == 1;
        for (int step = 0; step < 2; ++step) {
          if ((rank == 0) == (step == 0)) { // someone has to receive first
            if (later) {
              done(ranks.sendAsync(mine, next, LONG));
            } else {
              ranks.send(mine, next, LONG);
            }
          } else if (later) {
            done(ranks.receiveAsync(previous, came, LONG));
          } else {
            ranks.receive(previous, came, LONG);
          }
        }
        holds(came, previous, round);
      }
    });
  }

  @Test
  void barriersWaitForAll() throws Exception {
    final CountDownLatch others = new CountDownLatch(2);
    Ranks.run(3, (ranks, rank) -> {
      if (rank == 0) {
        assertTrue(others.await(LONG.toSeconds(), TimeUnit.SECONDS));
      } else {
        final ValueFuture barrier = ranks.barrierAsync(LONG);
        assertFalse(barrier.isDone());
        others.countDown();
        done(barrier);
      }
      if (rank == 0) {
        done(ranks.barrierAsync(LONG));
      }
      ranks.barrier(LONG);
    });
  }

  // ---- groups and epochs

  @Test
  void splitMakesAGroupPerColor() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      try (Communicator part = ranks.split(rank % 2, -rank, "part", LONG)) { // the last comes first
        assertEquals(rank == 1 ? 1 : 2, part.size());
        assertEquals(rank == 0 ? 1 : 0, part.rank());
        holds(part.allGather(ints(rank), LONG), rank == 1 ? new long[] {1} : new long[] {2, 0});
      }
      final Communicator some = ranks.split(rank == 1 ? -1 : 7, 0, null, LONG);
      if (rank == 1) {
        assertNull(some);
      } else {
        holds(some.allReduce(ints(rank), ReduceOp.SUM), 2);
        some.close();
      }
      ranks.barrier(LONG); // goes on
    });
  }

  @Test
  void tensorsOfACommunicatorAreZerosAndOutliveIt() throws Exception {
    Ranks.run(2, (ranks, rank) -> {
      final Tensor tensor = ranks.createTensor(DType.INT64, 3);
      holds(tensor, 0, 0, 0);
      ranks.broadcast(tensor, 1, LONG);
      ranks.allReduce(ints(rank, 1, 2), ReduceOp.SUM, tensor, LONG);
      ranks.close();
      holds(tensor, 1, 2, 4);
      tensor.close();
    });
  }

  @Test
  void anAbortEndsCallsThatWait() throws Exception {
    final CountDownLatch waiting = new CountDownLatch(2);
    Ranks.run(3, (ranks, rank) -> {
      if (rank == 2) {
        assertTrue(waiting.await(LONG.toSeconds(), TimeUnit.SECONDS));
        ranks.abort("enough");
      } else {
        try (ValueFuture first = ranks.barrierAsync(LONG);
             ValueFuture second = ranks.barrierAsync(LONG)) {
          waiting.countDown();
          for (final ValueFuture future : List.of(second, first)) {
            assertTrue(assertThrows(TuttiException.Aborted.class, () -> future.get(LONG))
                           .getMessage().contains("enough"));
          }
        }
      }
      assertThrows(TuttiException.Aborted.class, () -> ranks.barrier(LONG));
    });
  }

  @Test
  void peersHearOfTheExceptionThatARankFailsBy() throws Exception {
    Ranks.run(2, (ranks, rank) -> {
      if (rank == 1) {
        ranks.fail(TuttiException.of(Code.UNAVAILABLE, "what all know"));
        ranks.barrier(LONG);
        ranks.fail(new IllegalStateException("no rows in shard 7"));
        return;
      }
      ranks.barrier(LONG);
      assertTrue(assertThrows(TuttiException.Aborted.class, () -> ranks.barrier(LONG))
                     .getMessage()
                     .contains("rank 1 has left by java.lang.IllegalStateException: no rows"));
    });
  }

  @Test
  void aRevokedEpochBeginsNoMoreCalls() throws Exception {
    final CountDownLatch revoked = new CountDownLatch(1);
    Ranks.run(3, (ranks, rank) -> {
      ranks.barrier(LONG);
      if (rank == 1) {
        ranks.revoke("another way");
        revoked.countDown();
      }
      assertTrue(revoked.await(LONG.toSeconds(), TimeUnit.SECONDS));
      assertTrue(assertThrows(TuttiException.Aborted.class, () -> ranks.barrier(LONG))
                     .getMessage().contains("another way"));
    });
  }

  @Test
  void ranksOfOneProcessShrinkAndDoNotGrow() throws Exception {
    Ranks.run(2, (ranks, rank) -> {
      assertThrows(TuttiException.InvalidArgument.class, () -> ranks.grow(-1, LONG));
      try (Communicator next = ranks.shrink(LONG)) {
        assertEquals(2, next.size());
        assertEquals(ranks.epoch() + 1, next.epoch());
        next.barrier(LONG);
        assertEquals(Code.FAILED_PRECONDITION,
            assertThrows(TuttiException.class, () -> next.grow(2, LONG)).code());
      }
    });
  }

  // ---- futures

  @Test
  void futuresCanBeWaitedForInAnyOrder() throws Exception {
    final long seed = Long.getLong("tutti.test.seed", System.nanoTime());
    System.out.println("seed (-Dtutti.test.seed=): " + seed);
    Ranks.run(3, (ranks, rank) -> {
      final int count = 30;
      final List<Tensor> results = new ArrayList<>();
      final List<ValueFuture> calls = new ArrayList<>();
      final List<Integer> order = new ArrayList<>();
      for (int i = 0; i < count; ++i) {
        order.add(i);
        final Tensor result = zeros(3);
        results.add(result);
        try (Tensor mine = ints(i, i + rank, i + 2 * rank)) { // closed while it may be under way
          calls.add(switch (i % 3) {
            case 0 -> ranks.allReduceAsync(mine, ReduceOp.SUM, result, LONG);
            case 1 -> ranks.allToAllAsync(mine, result, LONG);
            default -> ranks.allGatherAsync(mine, LONG);
          });
        }
      }
      Collections.shuffle(order, new Random(seed + rank));
      for (final int i : order) {
        try (ValueFuture call = calls.get(i); Value value = call.get(LONG)) {
          assertTrue(call.isDone());
          switch (i % 3) {
            case 0 -> holds(results.get(i), 3L * i, 3L * i + 3, 3L * i + 6);
            case 1 -> holds(results.get(i), i, i + rank, i + 2L * rank);
            default -> holds(value.asTensor(), i, i, i, i, i + 1, i + 2, i, i + 2, i + 4);
          }
        }
      }
    });
  }

  @Test
  void aCallWithoutAFutureComesBehindThoseThatWereIssued() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor result = zeros(1);
      final ValueFuture call = ranks.allReduceAsync(ints(rank), ReduceOp.SUM, result, LONG);
      ranks.barrier(LONG);
      assertTrue(call.isDone());
      holds(result, 3);
      final CountDownLatch told = new CountDownLatch(1);
      call.onReady(told::countDown);
      assertTrue(told.await(LONG.toSeconds(), TimeUnit.SECONDS));
      done(call);
    });
  }

  @Test
  void whoGivesUpTheWaitLeavesTheCallAlone() throws Exception {
    final CountDownLatch given = new CountDownLatch(1);
    Ranks.run(3, (ranks, rank) -> {
      if (rank != 0) {
        assertTrue(given.await(LONG.toSeconds(), TimeUnit.SECONDS));
        ranks.allReduce(ints(rank), ReduceOp.SUM);
        ranks.barrier(LONG);
        return;
      }
      final Tensor result = zeros(1);
      final ValueFuture call = ranks.allReduceAsync(ints(5), ReduceOp.SUM, result, LONG);
      final ValueFuture forgotten = ranks.barrierAsync(LONG);
      assertThrows(TuttiException.DeadlineExceeded.class, () -> call.get(Duration.ofMillis(1)));
      Thread.currentThread().interrupt();
      try {
        assertThrows(TuttiException.Cancelled.class, () -> call.get(LONG));
      } finally {
        assertTrue(Thread.interrupted());
      }
      forgotten.close();
      given.countDown();
      done(call);
      holds(result, 8);
    });
  }

  @Test
  void anInterruptedThreadLeavesAllTheSame() throws Exception {
    for (int i = 0; i < 20; ++i) {
      final Communicator alone = Communicator.createLocal(1, null).get(0);
      done(alone.allReduceAsync(ints(1), ReduceOp.SUM, zeros(1), LONG)); // it has a thread to end
      Thread.currentThread().interrupt();
      try {
        alone.close();
      } finally {
        assertTrue(Thread.interrupted()); // for who waits next
      }
      assertTrue(alone.isClosed());
    }
  }

  // A call over the memory of buffers that nobody else holds when this has returned.
  private static ValueFuture overBuffers(Communicator ranks, int rank) {
    final int count = 1 << 16;
    final LongBuffer mine =
        ByteBuffer.allocateDirect(8 * count).order(ByteOrder.nativeOrder()).asLongBuffer();
    for (int i = 0; i < count; ++i) {
      mine.put(i, i + rank);
    }
    try (Tensor value = Tensor.wrap(mine)) {
      return ranks.allGatherAsync(value, LONG);
    }
  }

  @Test
  void buffersStayWhileACallIsUnderWay() throws Exception {
    final CountDownLatch collected = new CountDownLatch(1);
    Ranks.run(3, (ranks, rank) -> {
      if (rank == 2) {
        assertTrue(collected.await(LONG.toSeconds(), TimeUnit.SECONDS));
      }
      try (ValueFuture call = overBuffers(ranks, rank)) {
        if (rank == 0) {
          for (int i = 0; i < 3; ++i) {
            System.gc();
            ByteBuffer.allocateDirect(8 << 16); // takes the place of what was given back
          }
          collected.countDown();
        }
        try (Value value = call.get(LONG)) {
          final LongBuffer all = value.asTensor().asLongBuffer();
          for (int i = 0; i < all.capacity(); ++i) {
            final long expected = (i & 0xffff) + (i >> 16);
            if (all.get(i) != expected) {
              assertEquals(expected, all.get(i), "element " + i);
            }
          }
        }
      }
    });
  }

  @Test
  void theTimeoutCountsFromTheIssue() throws Exception {
    final CountDownLatch over = new CountDownLatch(1);
    Ranks.run(3, (ranks, rank) -> {
      if (rank == 0) {
        try (ValueFuture call = ranks.barrierAsync(Duration.ofMillis(5))) {
          assertThrows(TuttiException.DeadlineExceeded.class, () -> call.get(LONG));
        } finally {
          over.countDown();
        }
      }
      assertTrue(over.await(LONG.toSeconds(), TimeUnit.SECONDS));
      assertThrows(TuttiException.DeadlineExceeded.class, () -> ranks.barrier(LONG));
    });
  }

  @Test
  void aMismatchIsTheFuturesOnAllRanks() throws Exception {
    Ranks.run(3, (ranks, rank) -> {
      final Tensor mine = zeros(rank == 2 ? 4 : 3);
      try (ValueFuture call = ranks.allReduceAsync(mine, ReduceOp.SUM, mine, LONG)) {
        assertThrows(TuttiException.InvalidArgument.class, () -> call.get(LONG));
      }
    });
  }
}
