package org.tutti;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.tutti.Ranks.LONG;
import static org.tutti.Ranks.zeros;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What is wrong with a call is refused, and says what it is. */
class CommunicatorWrongUseTest {
  // Each of two ranks is refused `call`, which ends the group.
  private interface Wrong {
    void call(Communicator ranks) throws Exception;
  }

  private static void refused(Code code, Wrong wrong, String... says) throws Exception {
    Ranks.run(2, (ranks, rank) -> {
      final TuttiException refused =
          assertThrows(TuttiException.class, () -> wrong.call(ranks));
      assertEquals(code, refused.code(), refused.toString());
      for (final String part : says) {
        assertTrue(refused.getMessage().contains(part),
            () -> "'" + part + "' is missing in: " + refused.getMessage());
      }
    });
  }

  private static void refused(Wrong wrong, String... says) throws Exception {
    refused(Code.INVALID_ARGUMENT, wrong, says);
  }

  private static void refusedHere(Executable call, String says) {
    final TuttiException refused = assertThrows(TuttiException.InvalidArgument.class, call);
    assertTrue(refused.getMessage().contains(says), refused::getMessage);
  }

  @Test
  void rowsThatCannotBeSharedAreRefused() throws Exception {
    refused(ranks -> ranks.reduceScatter(zeros(3), ReduceOp.SUM, zeros(1), LONG), "3");
    refused(ranks -> ranks.reduceScatterAsync(zeros(3), ReduceOp.SUM, zeros(1), LONG), "3");
    refused(ranks -> ranks.scatter(zeros(3), ranks.rank(), zeros(1), LONG), "3");
    refused(ranks -> ranks.scatterAsync(zeros(3), ranks.rank(), zeros(1), LONG), "3");
    refused(ranks -> ranks.allToAll(zeros(3), zeros(3), LONG), "3");
    refused(ranks -> ranks.allToAllAsync(zeros(3), zeros(3), LONG), "3");
    refused(ranks -> ranks.allGatherInto(zeros(2), zeros(3), LONG), "3");
    refused(ranks -> ranks.allToAll(zeros(3), new long[] {1, 1}, LONG), "3");
    refused(ranks -> ranks.allToAll(zeros(3), new long[] {1, 1, 1}, LONG), "3");
    refused(ranks -> ranks.allToAll(zeros(3), new long[] {-1, 4}, LONG), "-1");
  }

  @Test
  void aResultOfAnotherDtypeOrShapeIsRefused() throws Exception {
    final Tensor floats = Tensor.zeros(DType.FLOAT32, 2);
    refused(ranks -> ranks.allReduce(zeros(2), ReduceOp.SUM, floats, LONG), "float32", "int64");
    refused(ranks -> ranks.allReduceAsync(zeros(2), ReduceOp.SUM, floats, LONG), "float32");
    refused(ranks -> ranks.allReduce(
        List.of(zeros(2)), ReduceOp.SUM, List.of(floats), LONG), "float32");
    refused(ranks -> ranks.reduce(zeros(2), ReduceOp.SUM, ranks.rank(), floats, LONG), "float32");
    refused(ranks -> ranks.allToAll(zeros(2), floats, LONG), "float32");
    refused(ranks -> ranks.allReduce(zeros(2), ReduceOp.SUM, zeros(3), LONG), "[3]");
    refused(ranks -> ranks.allReduce(floats, ReduceOp.BAND), "float32");
    refused(ranks -> ranks.allReduce(Tensor.of(new String[] {"a"}), ReduceOp.SUM,
        Tensor.of(new String[] {"a"}), LONG), "bytes");
  }

  @Test
  void listsOfDifferentLengthsAreRefused() throws Exception {
    refused(ranks -> ranks.allReduce(
        List.of(zeros(2), zeros(3)), ReduceOp.SUM, List.of(zeros(2)), LONG), "as many");
    refused(ranks -> ranks.allReduceAsync(
        List.of(zeros(2)), ReduceOp.SUM, List.of(), LONG), "as many");
  }

  @Test
  void ranksThatAreNotThereAreRefused() throws Exception {
    refused(ranks -> ranks.broadcast(zeros(1), 2, LONG), "2");
    refused(ranks -> ranks.reduce(zeros(1), ReduceOp.SUM, -1, zeros(1), LONG), "-1");
    refused(ranks -> ranks.gather(zeros(1), 2, LONG), "2");
    refused(ranks -> ranks.scatter(zeros(2), 5, zeros(1), LONG), "5");
    refused(ranks -> ranks.send(zeros(1), 2, LONG), "2");
    refused(ranks -> ranks.receive(-1, zeros(1), LONG), "-1");
    refused(ranks -> ranks.send(zeros(1), ranks.rank(), LONG));
    refused(ranks -> ranks.sendAsync(zeros(1), 2, LONG), "2");
  }

  @Test
  void aGroupNeedsRanks() {
    for (final int size : new int[] {-1, 0, 1 << 20}) {
      refusedHere(() -> Communicator.createLocal(size, "none"), "rank");
    }
  }

  @Test
  void theRootNeedsWhatTheOthersDoNot() throws Exception {
    refused(ranks -> ranks.reduce(zeros(1), ReduceOp.SUM, ranks.rank(), null, LONG));
    refused(ranks -> ranks.scatter(null, ranks.rank(), zeros(1), LONG));
  }

  @Test
  void readOnlyResultsAreRefused() throws Exception {
    final Tensor tensor =
        Tensor.wrap(ByteBuffer.allocateDirect(16).asReadOnlyBuffer(), DType.INT64);
    assertTrue(tensor.isReadOnly());
    refused(Code.FAILED_PRECONDITION,
        ranks -> ranks.allReduceAsync(zeros(2), ReduceOp.SUM, tensor, LONG), "read-only");
    refused(Code.FAILED_PRECONDITION,
        ranks -> ranks.receive(1 - ranks.rank(), tensor, LONG), "read-only");
  }

  // Every method, given `tensor` and a list of it.
  private static List<Executable> everyCall(Communicator ranks, Tensor tensor, List<Tensor> list) {
    final ReduceOp sum = ReduceOp.SUM;
    return List.of(() -> ranks.allReduce(tensor, sum, tensor, LONG),
        () -> ranks.allReduce(list, sum, list, LONG),
        () -> ranks.reduce(tensor, sum, 0, tensor, LONG),
        () -> ranks.reduceScatter(tensor, sum, tensor, LONG),
        () -> ranks.broadcast(tensor, 0, LONG), () -> ranks.allGather(tensor, LONG),
        () -> ranks.allGatherInto(tensor, tensor, LONG), () -> ranks.gather(tensor, 0, LONG),
        () -> ranks.scatter(tensor, 0, tensor, LONG), () -> ranks.allToAll(tensor, tensor, LONG),
        () -> ranks.allToAll(tensor, new long[] {1}, LONG), () -> ranks.send(tensor, 0, LONG),
        () -> ranks.receive(0, tensor, LONG),
        () -> ranks.allReduceAsync(tensor, sum, tensor, LONG),
        () -> ranks.allReduceAsync(list, sum, list, LONG),
        () -> ranks.reduceAsync(tensor, sum, 0, tensor, LONG),
        () -> ranks.reduceScatterAsync(tensor, sum, tensor, LONG),
        () -> ranks.broadcastAsync(tensor, 0, LONG), () -> ranks.allGatherAsync(tensor, LONG),
        () -> ranks.allGatherIntoAsync(tensor, tensor, LONG),
        () -> ranks.gatherAsync(tensor, 0, LONG),
        () -> ranks.scatterAsync(tensor, 0, tensor, LONG),
        () -> ranks.allToAllAsync(tensor, tensor, LONG), () -> ranks.sendAsync(tensor, 0, LONG),
        () -> ranks.receiveAsync(0, tensor, LONG));
  }

  @Test
  void closedCommunicatorsAndTensorsSaySo() {
    final Communicator closed = Communicator.createLocal(1, "closed").get(0);
    closed.close();
    final Communicator alone = Communicator.createLocal(1, "alone").get(0);
    final Tensor open = zeros(1);
    final Tensor gone = zeros(1);
    gone.close();
    final List<Executable> uses = new ArrayList<>(everyCall(closed, open, List.of(open)));
    uses.addAll(everyCall(alone, gone, List.of(gone)));
    uses.addAll(List.of(() -> closed.split(0, 0, null, LONG), () -> closed.barrier(LONG),
        () -> closed.barrierAsync(LONG), () -> closed.abort("late"), () -> closed.revoke("late"),
        () -> closed.shrink(LONG), () -> closed.grow(0, LONG),
        () -> closed.createTensor(DType.INT64, 1)));
    for (final Executable use : uses) {
      assertTrue(assertThrows(TuttiException.FailedPrecondition.class, use)
                     .getMessage().contains("closed"));
    }
    alone.barrier(LONG); // none of them has reached the group
    alone.close();
  }

  @Test
  void nullIsNamed() {
    final Communicator alone = Communicator.createLocal(1, "alone").get(0);
    final Tensor tensor = zeros(1);
    final List<Executable> uses = new ArrayList<>(everyCall(alone, null, null));
    uses.addAll(List.of(() -> alone.allReduce(tensor, null), () -> alone.abort(null),
        () -> alone.revoke(null),
        () -> alone.allReduce(Collections.singletonList(null), ReduceOp.SUM,
            Collections.singletonList(tensor), LONG),
        () -> alone.allToAll(tensor, (long[]) null, LONG)));
    for (final Executable use : uses) {
      assertNotNull(assertThrows(NullPointerException.class, use).getMessage());
    }
    alone.barrier(LONG); // none of them has reached the group
    alone.close();
  }
}
