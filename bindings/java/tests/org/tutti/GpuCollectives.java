package org.tutti;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.tutti.distribute.CommunicationOptions;

/** Collectives of tensors on GPUs, with a fake driver that has two; a test of its own. */
class GpuCollectives {
  private static final CommunicationOptions NCCL =
      new CommunicationOptions().implementation(CommunicationOptions.Implementation.NCCL);

  private static Tensor on(int rank, float... numbers) {
    try (Tensor here = Tensor.of(numbers)) {
      return here.copyTo("GPU:" + rank);
    }
  }

  private static void holds(Tensor tensor, int rank, float... numbers) {
    assertEquals(rank, tensor.cudaDevice());
    assertArrayEquals(numbers, tensor.toFloatArray());
  }

  @Test
  void futuresAndGroups() throws Exception {
    for (final CommunicationOptions options : new CommunicationOptions[] {null, NCCL}) {
      Ranks.run(2, (ranks, rank) -> {
        final int peer = 1 - rank;
        try (Tensor mine = on(rank, rank + 1, 7); Tensor more = on(rank, rank);
            Tensor theirs = on(rank, 0, 0)) {
          final ValueFuture passed =
              rank == 0 ? ranks.sendAsync(mine, peer) : ranks.receiveAsync(peer, theirs);
          final ValueFuture back =
              rank == 1 ? ranks.sendAsync(mine, peer) : ranks.receiveAsync(peer, theirs);
          final ValueFuture sums = ranks.allReduceAsync(
              List.of(mine, more), ReduceOp.SUM, List.of(mine, more), options);
          for (final ValueFuture future : List.of(passed, back, sums)) {
            future.get(Ranks.LONG);
          }
          holds(mine, rank, 3, 14);
          holds(more, rank, 1);
          holds(theirs, rank, peer + 1, 7);
          try (Communicator part = ranks.split(0, -rank);
              Tensor joined = part.allGather(more, options)) {
            holds(joined, rank, 1, 1);
          }
        }
      });
    }
  }

  @Test
  void callsKeepTheOrderOfAStream() throws Exception {
    Ranks.run(2, (ranks, rank) -> {
      try (Tensor mine = on(rank, rank, 1); DeviceStream stream = DeviceStream.on("GPU:" + rank)) {
        stream.order(() -> ranks.allReduce(mine, ReduceOp.SUM, mine));
        stream.order(() -> ranks.allReduceAsync(mine, ReduceOp.SUM, mine))
            .get(Ranks.LONG);
        stream.synchronize(Ranks.LONG);
        holds(mine, rank, 2, 4);
      }
    });
    final List<Communicator> alone = Communicator.createLocal(1);
    try (Tensor mine = on(0, 1); DeviceStream other = DeviceStream.on("GPU:1");
        DeviceStream own = DeviceStream.on("GPU:0")) {
      // The innermost scope counts, and no call behind it.
      other.order(() -> own.order(() -> alone.get(0).allReduce(mine, ReduceOp.SUM, mine)));
      alone.get(0).barrier();
      final TuttiException refused = assertThrows(
          TuttiException.InvalidArgument.class,
          () -> other.order(() -> alone.get(0).allReduce(mine, ReduceOp.SUM, mine)));
      assertTrue(refused.getMessage().contains(
          "the stream is one of GPU:1, and the tensors lie on GPU:0; pass one of theirs"),
          refused.getMessage());
    } finally {
      alone.get(0).close();
    }
  }
}
