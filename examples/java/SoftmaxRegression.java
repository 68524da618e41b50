import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.LongBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.tutti.DType;
import org.tutti.ReduceOp;
import org.tutti.Tensor;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.Variable;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetFunction;
import org.tutti.data.TFRecordDataset;
import org.tutti.distribute.DistributedDataset;
import org.tutti.distribute.MultiWorkerMirroredStrategy;
import org.tutti.distribute.ReplicaContext;
import org.tutti.distribute.ReplicaFunction;
import org.tutti.distribute.Strategy;

/**
 * Softmax regression on handwritten digits: the shortest training program over several workers.
 *
 * <p>SoftmaxRegression [--epochs E] [--data DIR], alone or under
 * {@code tutti run --workers 4 -- ...}. The same program stands in examples/c, examples/python and
 * examples/go; all four compute in float32 in the same order, so that any of them gives the same
 * weights, bit for bit, and the four can be the workers of one job ({@code examples/run polyglot}).
 */
public final class SoftmaxRegression {
  private static final int PIXELS = 64;
  private static final int CLASSES = 10;
  private static final int BATCH = 64; // rows over all replicas of all workers
  private static final float LEARNING_RATE = 0.5f;

  private final Strategy strategy;
  private final Variable weights;
  private final DistributedDataset training;
  private final DistributedDataset heldOut;

  private SoftmaxRegression(Strategy strategy, String folder) {
    this.strategy = strategy;
    try (Tensor zeros = Tensor.zeros(DType.FLOAT32, PIXELS + 1, CLASSES)) {
      // A copy per replica; what the replicas of all workers assign is summed.
      weights = Variable.builder(zeros).strategy(strategy).name("weights")
                    .aggregation(Variable.Aggregation.SUM).create();
    }
    // Each of several workers reads files of its own, for datasets are sharded by themselves.
    final Dataset examples = examples(folder);
    training = strategy.distribute(training(examples));
    heldOut = strategy.distribute(heldOut(examples));
  }

  // ---- data

  private static Dataset examples(String folder) {
    final Dataset files = Dataset.listFiles(List.of(folder + "/digits-*.tfrecord"), false);
    return TFRecordDataset.of(files).map(DatasetFunction.parseExample(Map.of(
        "image", new DatasetFunction.Feature(DType.FLOAT32, PIXELS),
        "label", new DatasetFunction.Feature(DType.INT64)))).cache(); // read and parsed once
  }

  private static Dataset training(Dataset examples) {
    Dataset training = examples.shard(5, 0);
    for (int fifth = 1; fifth < 4; ++fifth) {
      training = training.concatenate(examples.shard(5, fifth));
    }
    return training.shuffle(2000, 1).batch(BATCH);
  }

  private static Dataset heldOut(Dataset examples) {
    return examples.shard(5, 4).batch(BATCH);
  }

  // ---- the arithmetic; what is written as a loop is added up in that order

  /**
   * Writes the chances of the classes and gives the likeliest. The last row of the weights are the
   * biases.
   */
  private static int softmax(float[] weights, float[] pixels, float[] chances) {
    System.arraycopy(weights, PIXELS * CLASSES, chances, 0, CLASSES);
    for (int i = 0; i < PIXELS; ++i) {
      for (int j = 0; j < CLASSES; ++j) {
        chances[j] += pixels[i] * weights[i * CLASSES + j];
      }
    }
    int best = 0;
    for (int j = 1; j < CLASSES; ++j) {
      best = chances[j] > chances[best] ? j : best;
    }
    final float largest = chances[best];
    float total = 0;
    for (int j = 0; j < CLASSES; ++j) {
      chances[j] = (float) Math.exp(chances[j] - largest);
      total += chances[j];
    }
    for (int j = 0; j < CLASSES; ++j) {
      chances[j] /= total;
    }
    return best;
  }

  /** Adds to {@code gradient} that of one row's loss; {@code chances} are those of the row. */
  private static void addGradient(float[] pixels, int label, float[] chances, float[] gradient) {
    chances[label] -= 1;
    for (int i = 0; i < PIXELS; ++i) {
      for (int j = 0; j < CLASSES; ++j) {
        gradient[i * CLASSES + j] += pixels[i] * chances[j];
      }
    }
    for (int j = 0; j < CLASSES; ++j) {
      gradient[PIXELS * CLASSES + j] += chances[j];
    }
  }

  // ---- the steps: they run once per replica, concurrently, each time on a part of a batch

  /** Summed loss, right ones, rows; adds the gradient to {@code gradient}, which may be null. */
  private double[] score(Value batch, float[] gradient) {
    final float[] parameters;
    try (Tensor live = weights.data()) {
      parameters = live.toFloatArray();
    }
    final FloatBuffer images = batch.get("image").asFloatBuffer();
    final LongBuffer labels = batch.get("label").asLongBuffer();
    final float[] pixels = new float[PIXELS];
    final float[] chances = new float[CLASSES];
    double loss = 0;
    double right = 0;
    for (int row = 0; row < labels.limit(); ++row) {
      final int label = (int) labels.get(row);
      for (int i = 0; i < PIXELS; ++i) {
        pixels[i] = images.get(row * PIXELS + i) / 16;
      }
      right += softmax(parameters, pixels, chances) == label ? 1 : 0;
      loss -= Math.log(Math.max(chances[label], 1e-30));
      if (gradient != null) {
        addGradient(pixels, label, chances, gradient);
      }
    }
    return new double[] {loss, right, labels.limit()};
  }

  private double[] evaluateStep(ReplicaContext replica, Value batch) {
    return score(batch, null);
  }

  private double[] trainStep(ReplicaContext replica, Value batch) {
    final float[] gradient = new float[(PIXELS + 1) * CLASSES];
    final double[] score = score(batch, gradient);
    final float rate = LEARNING_RATE / replica.globalRows(); // rows of the whole batch
    for (int i = 0; i < gradient.length; ++i) {
      gradient[i] *= rate;
    }
    try (Tensor update = Tensor.of(gradient, PIXELS + 1, CLASSES)) {
      weights.assignSub(update);
    }
    return score;
  }

  /** One walk over the data: the sum of what the replicas of all workers gave. */
  private double[] walk(ReplicaFunction step, DistributedDataset batches) {
    final double[] sum = new double[3];
    for (final Value batch : batches) {
      try (batch; Value scores = strategy.run(step, batch);
           Value score = strategy.reduce(ReduceOp.SUM, scores)) {
        for (int i = 0; i < sum.length; ++i) {
          sum[i] += score.asDoubleBuffer().get(i);
        }
      }
    }
    return sum;
  }

  // ---- the program

  private String hash() throws NoSuchAlgorithmException {
    final ByteBuffer bytes =
        ByteBuffer.allocate((PIXELS + 1) * CLASSES * Float.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    try (Tensor copy = weights.read()) {
      bytes.asFloatBuffer().put(copy.asFloatBuffer());
    }
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes.array()));
  }

  private void train(int epochs) throws NoSuchAlgorithmException {
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      final double[] sum = walk(this::trainStep, training);
      System.out.printf(Locale.ROOT, "epoch %d: loss %.6f%n", epoch, sum[0] / sum[2]);
    }
    final double[] sum = walk(this::evaluateStep, heldOut);
    System.out.printf(Locale.ROOT, "held-out accuracy: %.2f %%%n", 100 * sum[1] / sum[2]);
    System.out.printf("worker %d (Java): weights sha256 %s%n", strategy.worker(), hash());
  }

  private static void refuse(String message, int status) {
    System.out.flush();
    System.err.println("softmax_regression: " + message);
    System.exit(status);
  }

  /** The program. */
  public static void main(String[] words) throws NoSuchAlgorithmException {
    int epochs = 20;
    String folder = "examples/data";
    for (int i = 0; i < words.length; i += 2) {
      final String value = i + 1 < words.length ? words[i + 1] : "";
      if (words[i].equals("--epochs") && value.matches("[1-9][0-9]{0,8}")) {
        epochs = Integer.parseInt(value);
      } else if (words[i].equals("--data") && !value.isEmpty()) {
        folder = value;
      } else {
        refuse("unexpected " + words[i] + " " + value + "; usage: SoftmaxRegression [--epochs E] "
            + "[--data DIR], E a whole number, 1 or more", 2);
      }
    }
    try (Strategy strategy = MultiWorkerMirroredStrategy.of()) { // the workers stand in TF_CONFIG
      new SoftmaxRegression(strategy, folder).train(epochs);
    } catch (TuttiException failed) {
      refuse(failed.toString(), 1);
    }
  }
}
