#include "perceptron.h"

#include <math.h>
#include <stddef.h>

enum { INPUTS = PERCEPTRON_INPUTS, HIDDEN = PERCEPTRON_HIDDEN, CLASSES = PERCEPTRON_CLASSES };

/* Where the parts of a row of parameters begin. */
enum {
  HIDDEN_BIASES = INPUTS * HIDDEN,
  OUTPUT_WEIGHTS = HIDDEN_BIASES + HIDDEN,
  OUTPUT_BIASES = OUTPUT_WEIGHTS + HIDDEN * CLASSES
};

/* SplitMix64 (Steele, Lea, Flood 2014); a number in [-1, 1) with 24 bits. */
static double draw(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return (double)(z >> 40) / 8388608.0 - 1.0;
}

void perceptron_init(uint64_t seed, double *parameters) {
  /* He et al. 2015: uniform in +-sqrt(6 / fan_in). */
  const double hidden_limit = sqrt(6.0 / INPUTS), output_limit = sqrt(6.0 / HIDDEN);
  for (int i = 0; i < PERCEPTRON_PARAMETERS; ++i) parameters[i] = 0.0;
  for (int i = 0; i < INPUTS * HIDDEN; ++i) parameters[i] = hidden_limit * draw(&seed);
  for (int i = 0; i < HIDDEN * CLASSES; ++i) {
    parameters[OUTPUT_WEIGHTS + i] = output_limit * draw(&seed);
  }
}

/* out[j] += sum over i of in[i] * weights[i, j], then the biases. */
static void layer(const double *weights, const double *biases, const double *in, int rows,
                  int columns, double *out) {
  for (int j = 0; j < columns; ++j) out[j] = biases[j];
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) out[j] += in[i] * weights[i * columns + j];
  }
}

/* The gradient of a layer, added to that of its weights and biases. */
static void add_layer_gradient(const double *in, const double *out_gradient, int rows, int columns,
                               double *weights, double *biases) {
  for (int i = 0; i < rows; ++i) {
    if (in[i] == 0.0) continue;
    for (int j = 0; j < columns; ++j) weights[i * columns + j] += in[i] * out_gradient[j];
  }
  for (int j = 0; j < columns; ++j) biases[j] += out_gradient[j];
}

/* Turns scores into probabilities; gives the position of the largest. */
static int softmax(double *scores) {
  int best = 0;
  for (int j = 1; j < CLASSES; ++j) best = scores[j] > scores[best] ? j : best;
  const double largest = scores[best];
  double sum = 0.0;
  for (int j = 0; j < CLASSES; ++j) sum += scores[j] = exp(scores[j] - largest);
  for (int j = 0; j < CLASSES; ++j) scores[j] /= sum;
  return best;
}

perceptron_score perceptron_run(const double *parameters, int64_t rows, const float *images,
                                const int64_t *labels, double scale, double *gradient) {
  perceptron_score score = {0.0, 0};
  for (int64_t row = 0; row < rows; ++row) {
    double pixels[INPUTS], hidden[HIDDEN], outputs[CLASSES], hidden_gradient[HIDDEN];
    for (int i = 0; i < INPUTS; ++i) pixels[i] = images[row * INPUTS + i] / 16.0;
    layer(parameters, parameters + HIDDEN_BIASES, pixels, INPUTS, HIDDEN, hidden);
    for (int i = 0; i < HIDDEN; ++i) hidden[i] = hidden[i] > 0.0 ? hidden[i] : 0.0;
    layer(parameters + OUTPUT_WEIGHTS, parameters + OUTPUT_BIASES, hidden, HIDDEN, CLASSES,
          outputs);
    const int best = softmax(outputs), label = (int)labels[row];
    score.correct += best == label;
    score.loss -= log(fmax(outputs[label], 1e-30));
    if (gradient == NULL) continue;

    /* From here on `outputs` and `hidden_gradient` are gradients of the scores. */
    outputs[label] -= 1.0;
    for (int j = 0; j < CLASSES; ++j) outputs[j] *= scale;
    for (int i = 0; i < HIDDEN; ++i) {
      hidden_gradient[i] = 0.0;
      if (hidden[i] == 0.0) continue;
      for (int j = 0; j < CLASSES; ++j) {
        hidden_gradient[i] += outputs[j] * parameters[OUTPUT_WEIGHTS + i * CLASSES + j];
      }
    }
    add_layer_gradient(hidden, outputs, HIDDEN, CLASSES, gradient + OUTPUT_WEIGHTS,
                       gradient + OUTPUT_BIASES);
    add_layer_gradient(pixels, hidden_gradient, INPUTS, HIDDEN, gradient, gradient + HIDDEN_BIASES);
  }
  return score;
}
