import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.LongBuffer;

/**
 * A two-layer perceptron for 8x8 digits: 64 pixels, 64 hidden units (ReLU), 10 classes (softmax).
 *
 * <p>Its parameters are one row of numbers: hidden weights, hidden biases, output weights, output
 * biases. The arithmetic of examples/c/perceptron.c, in double: the order in which gradients are
 * added up then shows in no digit that is printed, however many replicas there are.
 */
final class Perceptron {
  static final int INPUTS = 64;
  static final int HIDDEN = 64;
  static final int CLASSES = 10;

  // Where the parts of a row of parameters begin.
  private static final int HIDDEN_BIASES = INPUTS * HIDDEN;
  private static final int OUTPUT_WEIGHTS = HIDDEN_BIASES + HIDDEN;
  private static final int OUTPUT_BIASES = OUTPUT_WEIGHTS + HIDDEN * CLASSES;
  static final int PARAMETERS = OUTPUT_BIASES + CLASSES;

  /** The summed loss, and how many rows were right. */
  record Score(double loss, long correct) {}

  private Perceptron() {}

  /**
   * Scrambles a state of SplitMix64 (Steele, Lea, Flood 2014); a number in [-1, 1) with 24 bits.
   */
  private static double draw(long state) {
    long z = state;
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
    z ^= z >>> 31;
    return (z >>> 40) / 8388608.0 - 1.0;
  }

  /** He et al. 2015: weights uniform in +-sqrt(6 / fan_in), biases zero. */
  static double[] initial(long seed) {
    final double[] parameters = new double[PARAMETERS];
    long state = seed;
    for (int i = 0; i < HIDDEN_BIASES; ++i) {
      parameters[i] = Math.sqrt(6.0 / INPUTS) * draw(state += 0x9e3779b97f4a7c15L);
    }
    for (int i = OUTPUT_WEIGHTS; i < OUTPUT_BIASES; ++i) {
      parameters[i] = Math.sqrt(6.0 / HIDDEN) * draw(state += 0x9e3779b97f4a7c15L);
    }
    return parameters;
  }

  /**
   * Scores images [n, 64] against labels [n], n >= 0. Adds the gradient of scale * loss to
   * {@code gradient}, which may be null.
   */
  static Score run(DoubleBuffer live, FloatBuffer images, LongBuffer labels, double scale,
      double[] gradient) {
    final double[] parameters = new double[PARAMETERS];
    live.get(0, parameters);
    final double[] pixels = new double[INPUTS];
    final double[] hidden = new double[HIDDEN];
    final double[] outputs = new double[CLASSES];
    final double[] back = new double[HIDDEN];
    double loss = 0;
    long correct = 0;
    for (int row = 0; row < labels.limit(); ++row) {
      for (int i = 0; i < INPUTS; ++i) {
        pixels[i] = images.get(row * INPUTS + i) / 16.0;
      }
      layer(parameters, 0, HIDDEN_BIASES, pixels, hidden);
      for (int i = 0; i < HIDDEN; ++i) {
        hidden[i] = Math.max(hidden[i], 0);
      }
      layer(parameters, OUTPUT_WEIGHTS, OUTPUT_BIASES, hidden, outputs);
      final int best = softmax(outputs);
      final int label = (int) labels.get(row);
      correct += best == label ? 1 : 0;
      loss -= Math.log(Math.max(outputs[label], 1e-30));
      if (gradient == null) {
        continue;
      }
      outputs[label] -= 1;
      for (int j = 0; j < CLASSES; ++j) {
        outputs[j] *= scale;
      }
      for (int i = 0; i < HIDDEN; ++i) {
        back[i] = 0;
        for (int j = 0; j < CLASSES && hidden[i] != 0; ++j) {
          back[i] += outputs[j] * parameters[OUTPUT_WEIGHTS + i * CLASSES + j];
        }
      }
      addLayerGradient(hidden, outputs, gradient, OUTPUT_WEIGHTS, OUTPUT_BIASES);
      addLayerGradient(pixels, back, gradient, 0, HIDDEN_BIASES);
    }
    return new Score(loss, correct);
  }

  // out[j] = biases[j] + sum over i of in[i] * weights[i, j].
  private static void layer(
      double[] parameters, int weights, int biases, double[] in, double[] out) {
    System.arraycopy(parameters, biases, out, 0, out.length);
    for (int i = 0; i < in.length; ++i) {
      for (int j = 0; j < out.length; ++j) {
        out[j] += in[i] * parameters[weights + i * out.length + j];
      }
    }
  }

  private static void addLayerGradient(
      double[] in, double[] back, double[] gradient, int weights, int biases) {
    for (int i = 0; i < in.length; ++i) {
      for (int j = 0; j < back.length && in[i] != 0; ++j) {
        gradient[weights + i * back.length + j] += in[i] * back[j];
      }
    }
    for (int j = 0; j < back.length; ++j) {
      gradient[biases + j] += back[j];
    }
  }

  // Turns scores into probabilities; gives the position of the largest.
  private static int softmax(double[] scores) {
    int best = 0;
    for (int j = 1; j < CLASSES; ++j) {
      best = scores[j] > scores[best] ? j : best;
    }
    final double largest = scores[best];
    double sum = 0;
    for (int j = 0; j < CLASSES; ++j) {
      scores[j] = Math.exp(scores[j] - largest);
      sum += scores[j];
    }
    for (int j = 0; j < CLASSES; ++j) {
      scores[j] /= sum;
    }
    return best;
  }
}
