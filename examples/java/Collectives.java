import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.IntFunction;
import org.tutti.BucketPlan;
import org.tutti.Cluster;
import org.tutti.Communicator;
import org.tutti.DType;
import org.tutti.ValueFuture;
import org.tutti.ReduceOp;
import org.tutti.Tensor;
import org.tutti.TuttiException;

/**
 * The collectives, one after the other, between the workers of a job; every result is checked.
 *
 * <p>{@code tutti run --workers 3 -- java ... Collectives [--elements N]}. The same program stands
 * in examples/c, examples/python and examples/go. All of them make the same calls, so that the
 * workers of one job may be of different languages.
 */
public final class Collectives {
  private static final int LAYERS = 8;

  private final Communicator communicator;
  private final int rank;
  private final int size;
  private final float total; // 1 + 2 + ... + size
  private final int elements;

  private Collectives(Communicator communicator, int elements) {
    this.communicator = communicator;
    this.elements = elements;
    rank = communicator.rank();
    size = communicator.size();
    total = size * (size + 1) / 2;
  }

  /** A result that is not what it must be. */
  private static final class Wrong extends RuntimeException {
    private static final long serialVersionUID = 1;

    Wrong(String message) {
      super(message);
    }
  }

  /** A tensor of so many times the value. */
  private static Tensor numbers(int count, float value) {
    final float[] elements = new float[count];
    java.util.Arrays.fill(elements, value);
    return Tensor.of(elements);
  }

  private static void check(String what, Tensor tensor, int count, IntFunction<Float> expected) {
    final float[] found = tensor.toFloatArray();
    if (found.length != count) {
      throw new Wrong(what + ": found " + found.length + " elements, expected " + count);
    }
    for (int i = 0; i < count; i++) {
      if (found[i] != expected.apply(i)) {
        throw new Wrong(what + ": element " + i + ": found " + found[i] + ", expected "
            + expected.apply(i));
      }
    }
  }

  private void say(String text) {
    if (rank == 0) {
      System.out.println(text);
    }
  }

  /** Many tensors in one call. */
  private void manyTensors() {
    final int[] counts = {1, 4, elements};
    final List<Tensor> tensors = new ArrayList<>();
    for (final int count : counts) {
      tensors.add(numbers(count, rank + 1));
    }
    communicator.allReduce(tensors, ReduceOp.SUM, tensors);
    for (int i = 0; i < counts.length; i++) {
      check("all_reduce_many", tensors.get(i), counts[i], place -> total);
    }
    say("all_reduce_many: three tensors summed over " + size + " workers");
  }

  /** An all_reduce in two halves: everybody has a part of the sum in between. */
  private void twoHalves() {
    final float[] rows = new float[2 * size];
    for (int i = 0; i < rows.length; i++) {
      rows[i] = i * (rank + 1);
    }
    try (Tensor input = Tensor.of(rows); Tensor part = Tensor.zeros(DType.FLOAT32, 2)) {
      communicator.reduceScatter(input, ReduceOp.SUM, part);
      check("reduce_scatter", part, 2, i -> (2 * rank + i) * total);
      try (Tensor joined = communicator.allGather(part)) {
        check("all_gather", joined, 2 * size, i -> i * total);
      }
    }
    say("reduce_scatter and all_gather: the parts of the sum, and the sum");
  }

  /** A different number of rows for everybody; as many come from them. */
  private void uneven() {
    final long[] sendRows = new long[size];
    final List<Float> expected = new ArrayList<>();
    final FloatBuffer rows = FloatBuffer.allocate(size * size);
    for (int other = 0; other < size; other++) {
      sendRows[other] = 1 + (rank + other) % size;
      for (long i = 0; i < sendRows[other]; i++) {
        rows.put(100 * rank + other);
        expected.add(100f * other + rank);
      }
    }
    final float[] sent = new float[rows.position()];
    rows.flip().get(sent);
    try (Tensor input = Tensor.of(sent);
        Communicator.Received came = communicator.allToAll(input, sendRows)) {
      if (!java.util.Arrays.equals(came.rows(), sendRows)) {
        throw new Wrong("all_to_all: found rows " + java.util.Arrays.toString(came.rows())
            + ", expected " + java.util.Arrays.toString(sendRows));
      }
      check("all_to_all", came.tensor(), expected.size(), expected::get);
    }
    say("all_to_all: uneven rows to everybody");
  }

  /** Round in a ring; who is odd receives first. */
  private void ring() {
    final int previous = (rank + size - 1) % size;
    try (Tensor mine = numbers(4, rank); Tensor came = numbers(4, 0)) {
      if (rank % 2 == 1) {
        communicator.receive(previous, came);
      }
      communicator.send(mine, (rank + 1) % size);
      if (rank % 2 == 0) {
        communicator.receive(previous, came);
      }
      check("receive", came, 4, i -> (float) previous);
    }
    say("send and receive: round in a ring");
  }

  /** Groups of the even and of the odd ones. */
  private void groups() {
    int sum = 0;
    int count = 0;
    for (int other = rank % 2; other < size; other += 2) {
      sum += other;
      count++;
    }
    final float expected = sum;
    try (Communicator group = communicator.split(rank % 2, rank);
        Tensor mine = numbers(4, rank)) {
      if (group.size() != count) {
        throw new Wrong("split: " + group.size() + " ranks, expected " + count);
      }
      group.allReduce(mine, ReduceOp.SUM, mine);
      check("all_reduce of a group", mine, 4, i -> expected);
    }
    say("split: sums of the even ones and of the odd ones");
  }

  /** Three calls under way, the last one waited for first. */
  private void futures() {
    final List<Tensor> tensors = new ArrayList<>();
    final List<ValueFuture> futures = new ArrayList<>();
    for (int factor = 1; factor <= 3; factor++) {
      final Tensor tensor = numbers(elements, rank * factor);
      tensors.add(tensor);
      futures.add(communicator.allReduceAsync(tensor, ReduceOp.SUM, tensor));
    }
    for (int i = 2; i >= 0; i--) {
      final float expected = (total - size) * (i + 1);
      futures.get(i).get();
      futures.get(i).close();
      check("all_reduce_async", tensors.get(i), elements, place -> expected);
    }
    say("futures: three sums, waited for in another order");
  }

  /**
   * Gradients are reduced while the backward pass makes more of them, last layer first. The plan
   * makes them, like the layers, in memory that all workers of a machine map.
   */
  private void backward() {
    final List<Tensor> layers = Collections.nCopies(LAYERS, numbers(elements, 0));
    try (BucketPlan plan = BucketPlan.ofOwnTensors(communicator, layers, ReduceOp.SUM)) {
      final List<Tensor> gradients = new ArrayList<>();
      for (int i = 0; i < LAYERS; i++) {
        gradients.add(plan.tensor(i));
      }
      for (int step = 0; step < 2; step++) {
        for (int i = 0; i < LAYERS; i++) {
          final FloatBuffer gradient = gradients.get(i).asFloatBuffer();
          for (int j = 0; j < elements; j++) {
            gradient.put(j, (rank + 1) * (i + step)); // what a backward pass would compute here
          }
          plan.ready(i);
        }
        plan.await();
        for (int i = 0; i < LAYERS; i++) {
          final float expected = total * (i + step);
          check("bucket plan", gradients.get(i), elements, place -> expected);
        }
      }
    }
    say("bucket plan: " + LAYERS + " gradients, two steps");
  }

  private void show() {
    manyTensors();
    twoHalves();
    uneven();
    ring();
    groups();
    futures();
    backward();
    System.out.println("worker " + rank + " of " + size + " (Java): all right");
  }

  private static void refuse(String message, int status) {
    System.err.println("collectives: " + message);
    System.exit(status);
  }

  public static void main(String[] words) {
    int elements = 1000;
    if (words.length == 2 && words[0].equals("--elements")
        && words[1].matches("[1-9][0-9]{0,5}")) {
      elements = Integer.parseInt(words[1]);
    } else if (words.length != 0) {
      refuse("usage: Collectives [--elements N], N from 1 to 999999", 2);
    }
    try (Cluster cluster = Cluster.join()) {
      if (cluster.workerCount() < 2) {
        refuse("needs two workers or more: tutti run --workers 2 -- ...", 1);
      }
      try (Communicator communicator = Communicator.create(cluster, "collectives")) {
        new Collectives(communicator, elements).show();
      }
    } catch (TuttiException | Wrong failed) {
      refuse(failed.getMessage(), 1);
    }
  }
}
