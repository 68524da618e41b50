import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.tutti.DType;
import org.tutti.Spec;
import org.tutti.TuttiException;
import org.tutti.Value;
import org.tutti.data.Dataset;
import org.tutti.data.DatasetIterator;
import org.tutti.data.DatasetFunction;
import org.tutti.data.Padding;
import org.tutti.data.TFRecordDataset;

/**
 * An input pipeline that prepares its data once: shards of records are read several at a time,
 * parsed, mapped to lists of different lengths, kept on disk and in memory, shuffled and padded.
 *
 * <p>{@code java ... InputPipeline SNAPSHOT_FOLDER [DATA_FOLDER]}. Of each digit the list of its
 * inked pixels is wanted. The function that makes it is called in the first epoch alone: later
 * epochs have the cache, and a definition that is made anew, as by the next run of the program, has
 * the snapshot. The same program stands in examples/c, examples/python and examples/go.
 */
public final class InputPipeline {
  private static final int BATCH = 32;
  private static final long PADDING = -1;
  private static final AtomicLong CALLS = new AtomicLong();

  private InputPipeline() {}

  /** The numbers of the pixels that are at least half black, as many as there are; the label. */
  private static Object ink(Value digit) {
    CALLS.incrementAndGet();
    final float[] pixels = digit.get("image").asTensor().toFloatArray();
    final long[] inked =
        IntStream.range(0, pixels.length).filter(i -> pixels[i] >= 8).asLongStream().toArray();
    return new Object[] {inked, digit.get("label")};
  }

  /** A snapshot goes by the names of the functions that stand in its pipeline. */
  private static void registerFunctions() {
    DatasetFunction.register("input_pipeline.read_shard",
        name -> TFRecordDataset.of(name.stringValue()), false);
    DatasetFunction.register("input_pipeline.ink", InputPipeline::ink,
        Spec.tuple(Spec.tensor(DType.INT64, Spec.UNKNOWN), Spec.tensor(DType.INT64)), false);
  }

  /** Batches ([n, longest], [n]) of int64. */
  private static Dataset pipeline(String data, String snapshot) {
    try (DatasetFunction readShard = DatasetFunction.registered("input_pipeline.read_shard");
         DatasetFunction parse = DatasetFunction.parseExample(Map.of(
             "image", new DatasetFunction.Feature(DType.FLOAT32, 64),
             "label", new DatasetFunction.Feature(DType.INT64)));
         DatasetFunction ink = DatasetFunction.registered("input_pipeline.ink")) {
      return Dataset.listFiles(List.of(data + "/digits-*.tfrecord"), false)
          .interleave(readShard, 4, 16, 4)
          .map(parse)
          .map(ink)
          .snapshot(snapshot)
          .cache()
          .shuffle(500, 1)
          .paddedBatch(BATCH, new Padding().values(PADDING))
          .prefetch(2);
    }
  }

  private static void walk(Dataset batches, int definition, int epoch) {
    long count = 0;
    long digits = 0;
    long inked = 0;
    CALLS.set(0);
    try (DatasetIterator iterator = batches.iterator()) {
      while (iterator.hasNext()) {
        final Value batch = iterator.next();
        inked += Arrays.stream(batch.get(0).asTensor().toLongArray())
            .filter(number -> number != PADDING).count();
        digits += batch.get(1).asTensor().shape()[0];
        ++count;
      }
    }
    System.out.println("definition " + definition + ", epoch " + epoch + ": " + count
        + " batches, " + digits + " digits, " + inked + " inked pixels, " + CALLS + " calls");
  }

  public static void main(String[] words) {
    if (words.length != 1 && words.length != 2) {
      System.err.println("usage: InputPipeline SNAPSHOT_FOLDER [DATA_FOLDER]");
      System.exit(2);
    }
    try {
      registerFunctions();
      for (int definition = 1; definition <= 2; ++definition) {
        final Dataset batches =
            pipeline(words.length == 2 ? words[1] : "examples/data", words[0]);
        walk(batches, definition, 1);
        walk(batches, definition, 2);
      }
    } catch (TuttiException failed) {
      System.err.println("InputPipeline: " + failed);
      System.exit(1);
    }
  }
}
