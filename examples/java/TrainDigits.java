import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.LongBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.tutti.DType;
import org.tutti.ReduceOp;
import org.tutti.Spec;
import org.tutti.Tensor;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.Variable;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetFunction;
import org.tutti.data.Options;
import org.tutti.data.TFRecordDataset;
import org.tutti.distribute.DistributedDataset;
import org.tutti.distribute.DistributedIterator;
import org.tutti.distribute.MultiWorkerMirroredStrategy;
import org.tutti.distribute.ReplicaContext;
import org.tutti.distribute.ReplicaFunction;
import org.tutti.distribute.Strategy;
import org.tutti.train.Checkpoint;
import org.tutti.train.CheckpointManager;

/**
 * Trains a two-layer perceptron on handwritten digits, on the replicas of one or several workers.
 *
 * <p>The twin of examples/python/train_digits.py: each replica computes the gradient of its part of
 * a batch, scaled by one over the rows of the whole batch; all_reduce adds the gradients, so that
 * every replica takes the same step. At the end the accuracy on the held-out fifth is printed, and
 * the SHA-256 of each replica's weights: the program fails when the accuracy is under 95 % or two
 * replicas' weights differ in a bit. With --devices GPU:0,GPU:1 weights and velocities lie on GPUs,
 * and gradients are added up there; Java computes on copies in the host's memory. With
 * --checkpoints a program that is started again goes on from there.
 */
public final class TrainDigits {
  private static final double LEARNING_RATE = 0.1;
  private static final double MOMENTUM = 0.9;
  private static final double LOWEST_ACCURACY = 95;
  private static final String USAGE = "usage: train_digits [--replicas N | --devices NAMES] "
      + "[--epochs E] [--batch B] [--seed S] [--data DIR] [--checkpoints DIR] [--save-every STEPS]";

  /** What the command line says. */
  private static final class Arguments {
    int replicas; // 0: as TUTTI_REPLICAS says, else 1
    String[] devices; // of this worker's replicas; null: CPUs
    int epochs = 20;
    int batch = 16;
    int seed = 1;
    Path data;
    String checkpoints;
    int saveEvery = 25;

    static Arguments parse(String[] words) {
      final Arguments arguments = new Arguments();
      for (int i = 0; i < words.length; i += 2) {
        final String option = words[i];
        if (option.equals("--help")) {
          System.out.println(USAGE);
          System.exit(0);
        }
        if (i + 1 == words.length) {
          refuse("unexpected argument or missing value: '" + option + "'; see --help");
        }
        final String value = words[i + 1];
        switch (option) {
          case "--replicas" -> arguments.replicas = number(option, value, 1);
          case "--devices" -> arguments.devices = value.split(",", -1);
          case "--epochs" -> arguments.epochs = number(option, value, 1);
          case "--batch" -> arguments.batch = number(option, value, 1);
          case "--seed" -> arguments.seed = number(option, value, 0);
          case "--save-every" -> arguments.saveEvery = number(option, value, 1);
          case "--data" -> arguments.data = Path.of(value);
          case "--checkpoints" -> arguments.checkpoints = value;
          default -> refuse("unexpected argument '" + option + "'; see --help");
        }
      }
      return arguments;
    }

    String[] devices() {
      if (devices != null) {
        return devices;
      }
      final String[] names = new String[replicas];
      Arrays.setAll(names, i -> "CPU:" + i);
      return names;
    }

    private static int number(String option, String text, int least) {
      try {
        final int number = Integer.parseInt(text);
        if (number >= least) {
          return number;
        }
      } catch (NumberFormatException none) {
        // said below
      }
      refuse(option + " " + text + ": expected a whole number, " + least + " or more");
      return 0;
    }

    private static void refuse(String message) {
      System.err.println("train_digits: " + message);
      System.exit(2);
    }
  }

  private final Arguments arguments;
  private final Path folder;
  private final Strategy strategy;
  private final Variable weights;
  private final Variable velocity;
  private final boolean talks;
  // How far training has come: epoch, steps; of the epoch that is running: loss, right ones, rows.
  private final Tensor progress = Tensor.of(new double[] {1, 0, 0, 0, 0});
  private final DoubleBuffer numbers = progress.asDoubleBuffer();

  private TrainDigits(Arguments arguments, Strategy strategy) throws IOException {
    this.arguments = arguments;
    this.strategy = strategy;
    folder = arguments.data != null ? arguments.data : dataFolder();
    talks = strategy.worker() == 0;
    try (Strategy.InScope scope = strategy.scope()) {
      // All replicas bring the same update.
      weights = Variable.builder(Perceptron.initial(arguments.seed)).name("weights")
                    .aggregation(Variable.Aggregation.ONLY_FIRST_REPLICA).create();
      // Each replica has its own, which comes out equal because the gradients do.
      velocity = Variable.builder(new double[Perceptron.PARAMETERS]).name("velocity")
                     .synchronization(Variable.Synchronization.ON_READ)
                     .aggregation(Variable.Aggregation.MEAN).create();
    }
  }

  // ---- data

  /** The nearest examples/data above the working directory, else the one this was built beside. */
  private static Path dataFolder() throws IOException {
    for (Path here = Path.of("").toAbsolutePath(); here != null; here = here.getParent()) {
      final Path data = here.resolve("examples").resolve("data");
      if (Files.isDirectory(data)) {
        try (DirectoryStream<Path> files = Files.newDirectoryStream(data, "digits-*.tfrecord")) {
          if (files.iterator().hasNext()) {
            return data;
          }
        }
      }
    }
    try (InputStream beside = TrainDigits.class.getResourceAsStream("/data_folder")) {
      return Path.of(new String(beside.readAllBytes(), StandardCharsets.UTF_8).strip());
    }
  }

  /** The fifth that examples/data/README.md names. */
  private static boolean isHeldOut(long number) {
    return number % 5 == 4;
  }

  /** Images [n, 64] and labels [n] of one part, in batches; the training part shuffled. */
  private Dataset digits(boolean heldOut, int seed) {
    final Dataset files =
        Dataset.listFiles(List.of(folder + "/digits-*.tfrecord"), false);
    Dataset examples = TFRecordDataset.of(files).enumerate(0)
        .filter(numbered -> isHeldOut(numbered.get(0).longValue()) == heldOut)
        .map(numbered -> numbered.get(1), Spec.tensor(DType.BYTES))
        .map(DatasetFunction.parseExample(Map.of(
            "image", new DatasetFunction.Feature(DType.FLOAT32, 64),
            "label", new DatasetFunction.Feature(DType.INT64))));
    if (!heldOut) {
      examples = examples.shuffle(2000, seed);
    }
    // Several workers share every batch: the numbers of the examples decide to what part they
    // belong, and only a worker that reads all files knows them.
    return examples.batch(arguments.batch)
        .withOptions(new Options().autoShardPolicy(Options.AutoShardPolicy.DATA));
  }

  // ---- what each replica does

  // What Java reads: the memory itself, or a copy of what lies on a GPU.

  private static DoubleBuffer doubles(Tensor tensor) {
    return tensor.cudaDevice() < 0 ? tensor.asDoubleBuffer()
                                   : DoubleBuffer.wrap(tensor.toDoubleArray());
  }

  private static FloatBuffer images(Value batch) {
    final Tensor images = batch.get("image").asTensor();
    return images.cudaDevice() < 0 ? images.asFloatBuffer()
                                   : FloatBuffer.wrap(images.toFloatArray());
  }

  private static LongBuffer labels(Value batch) {
    final Tensor labels = batch.get("label").asTensor();
    return labels.cudaDevice() < 0 ? labels.asLongBuffer()
                                   : LongBuffer.wrap(labels.toLongArray());
  }

  /** Of all replicas, added up on their devices. */
  private static Value sumOf(double[] gradient, ReplicaContext replica) {
    if (!replica.device().startsWith("GPU")) {
      return replica.allReduce(ReduceOp.SUM, gradient);
    }
    try (Tensor mine = Tensor.of(gradient); Tensor there = mine.copyTo(replica.device())) {
      return replica.allReduce(ReduceOp.SUM, there);
    }
  }

  /** Runs once per replica, concurrently. */
  private Object trainStep(ReplicaContext replica, Value batch) {
    final double[] gradient = new double[Perceptron.PARAMETERS];
    final Perceptron.Score score;
    try (Tensor live = weights.data()) {
      score = Perceptron.run(doubles(live), images(batch), labels(batch),
          1.0 / replica.globalRows(), gradient);
    }
    final double[] update = new double[Perceptron.PARAMETERS];
    try (Value sum = sumOf(gradient, replica); Tensor live = velocity.data()) {
      final DoubleBuffer total = doubles(sum.asTensor());
      final DoubleBuffer before = doubles(live);
      for (int i = 0; i < update.length; ++i) {
        update[i] = MOMENTUM * before.get(i) + LEARNING_RATE * total.get(i);
      }
    }
    velocity.assign(update);
    weights.assignSub(update);
    return scoreOf(score, batch);
  }

  private Object evaluateStep(ReplicaContext replica, Value batch) {
    try (Tensor live = weights.data()) {
      return scoreOf(Perceptron.run(doubles(live), images(batch), labels(batch), 1, null),
          batch);
    }
  }

  private static Object scoreOf(Perceptron.Score score, Value batch) {
    return new double[] {score.loss(), score.correct(),
        batch.get("label").asTensor().elementCount()};
  }

  /**
   * Runs {@code step} for a batch and adds to {@code sums}, from {@code at} on, what all replicas
   * give.
   */
  private void takeStep(ReplicaFunction step, Value batch, DoubleBuffer sums, int at) {
    try (batch; Value scores = strategy.run(step, batch);
         Value score = strategy.reduce(ReduceOp.SUM, scores)) {
      for (int i = 0; i < 3; ++i) {
        sums.put(at + i, sums.get(at + i) + score.asDoubleBuffer().get(i));
      }
    }
  }

  // ---- training

  private int epoch() {
    return (int) numbers.get(0);
  }

  private long steps() {
    return (long) numbers.get(1);
  }

  private CheckpointManager manager(Map<String, Object> objects) {
    return new CheckpointManager(new Checkpoint(strategy, objects), arguments.checkpoints);
  }

  private void train() {
    if (arguments.checkpoints != null) {
      manager(Map.of("progress", progress)).restoreLatest();
      if (talks && steps() > 0) {
        System.out.printf("going on after step %d, in epoch %d%n", steps(), epoch());
      }
    }
    while (epoch() <= arguments.epochs) {
      final long start = System.nanoTime();
      final double rowsBefore = numbers.get(4);
      runEpoch();
      final double elapsed = (System.nanoTime() - start) / 1e9;
      final double rows = numbers.get(4);
      if (talks) {
        System.out.printf(Locale.ROOT,
            "epoch %2d/%d: loss %.10f, accuracy %5.2f %%, %.0f examples/s%n", epoch(),
            arguments.epochs, numbers.get(2) / rows, 100 * numbers.get(3) / rows,
            (rows - rowsBefore) / elapsed);
      }
      if (!Double.isFinite(numbers.get(2))) {
        fail("the loss is not finite");
      }
      numbers.put(0, epoch() + 1).put(2, 0).put(3, 0).put(4, 0);
    }
  }

  /** One walk over the training part, in an order of its own: the epoch is part of the seed. */
  private void runEpoch() {
    try (DistributedDataset steps = strategy.distribute(digits(false, arguments.seed + epoch()));
         DistributedIterator batches = steps.iterator()) {
      CheckpointManager manager = null;
      if (arguments.checkpoints != null) {
        manager = manager(Map.of("progress", progress, "weights", weights, "velocity", velocity,
            "batches", batches));
        if (numbers.get(4) > 0) {
          manager.restoreLatest();
        }
      }
      for (Value batch = batches.poll(null); batch != null; batch = batches.poll(null)) {
        takeStep(this::trainStep, batch, numbers, 2);
        numbers.put(1, steps() + 1);
        if (manager != null && steps() % arguments.saveEvery == 0) {
          manager.save(steps());
        }
      }
    }
  }

  /** On the held-out part, in percent. */
  private double accuracy() {
    final DoubleBuffer sums = DoubleBuffer.allocate(3);
    try (DistributedDataset batches = strategy.distribute(digits(true, 0))) {
      for (final Value batch : batches) {
        takeStep(this::evaluateStep, batch, sums, 0);
      }
    }
    return sums.get(2) > 0 ? 100 * sums.get(1) / sums.get(2) : 0;
  }

  /** Prints the hash of each replica's weights, and compares those of all workers. */
  private boolean hashesAreEqual() throws NoSuchAlgorithmException {
    final List<Tensor> hashes = new ArrayList<>();
    for (final Tensor copy : weights.copies()) {
      final byte[] hash = MessageDigest.getInstance("SHA-256").digest(bytesOf(copy));
      System.out.printf("worker %d replica %d weights sha256: %s%n", strategy.worker(),
          hashes.size(), HexFormat.of().formatHex(hash));
      hashes.add(Tensor.of(DType.UINT8, hash, 1, hash.length));
    }
    try (Value mine = strategy.perReplica(hashes); Value all = strategy.gather(mine, 0)) {
      final byte[] joined = bytesOf(all.asTensor());
      final int width = joined.length / strategy.replicaCount();
      for (int i = 1; i < strategy.replicaCount(); ++i) {
        if (!Arrays.equals(joined, 0, width, joined, i * width, (i + 1) * width)) {
          return false;
        }
      }
      return true;
    }
  }

  private static byte[] bytesOf(Tensor tensor) {
    if (tensor.cudaDevice() >= 0) {
      try (Tensor here = tensor.copyTo("CPU:0")) {
        return bytesOf(here);
      }
    }
    final ByteBuffer memory = tensor.asByteBuffer();
    final byte[] bytes = new byte[memory.remaining()];
    memory.get(bytes);
    return bytes;
  }

  private static void fail(String message) {
    System.out.flush();
    System.err.println("train_digits: " + message);
    System.exit(1);
  }

  /** The program. */
  public static void main(String[] words) throws Exception {
    final Arguments arguments = Arguments.parse(words);
    try (Strategy strategy = MultiWorkerMirroredStrategy.of(arguments.devices())) {
      final TrainDigits training = new TrainDigits(arguments, strategy);
      if (training.talks && arguments.devices != null) {
        System.out.println("replicas on " + String.join(", ", arguments.devices));
      }
      training.train();
      final double accuracy = training.accuracy();
      if (training.talks) {
        System.out.printf(Locale.ROOT, "held-out accuracy: %.2f %%%n", accuracy);
      }
      if (!training.hashesAreEqual()) {
        fail("the weights of the replicas differ");
      }
      if (accuracy < LOWEST_ACCURACY) {
        fail(String.format(Locale.ROOT, "the accuracy is under %.0f %%", LOWEST_ACCURACY));
      }
    } catch (TuttiException failed) {
      fail(failed.toString());
    }
  }
}
