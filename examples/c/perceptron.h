/* A two-layer perceptron in plain C: 64 pixels, one hidden layer of rectified units, ten classes,
 * cross-entropy. It knows nothing of Tutti: it stands for a framework's own arithmetic. It computes
 * in float64, so that the losses of one replica and of several stay alike to the last epoch: a sum
 * over other parts is rounded otherwise, and training magnifies that from step to step. */
#ifndef EXAMPLES_C_PERCEPTRON_H_
#define EXAMPLES_C_PERCEPTRON_H_

#include <stdint.h>

enum {
  PERCEPTRON_INPUTS = 64,
  PERCEPTRON_HIDDEN = 64,
  PERCEPTRON_CLASSES = 10,
  /* All weights in one row: hidden weights [inputs, hidden], hidden biases [hidden], output weights
   * [hidden, classes], output biases [classes]. */
  PERCEPTRON_PARAMETERS = PERCEPTRON_INPUTS * PERCEPTRON_HIDDEN + PERCEPTRON_HIDDEN +
                          PERCEPTRON_HIDDEN * PERCEPTRON_CLASSES + PERCEPTRON_CLASSES
};

typedef struct perceptron_score {
  double loss; /* cross-entropy, summed over the rows */
  int64_t correct;
} perceptron_score;

/* Weights drawn from `seed`, biases 0. The same seed gives the same bits everywhere. */
void perceptron_init(uint64_t seed, double *parameters);

/* Scores `rows` images of 64 pixels from 0 to 16; labels are 0 to 9. Unless `gradient` is NULL,
 * adds to it `scale` times the gradient of the summed loss. */
perceptron_score perceptron_run(const double *parameters, int64_t rows, const float *images,
                                const int64_t *labels, double scale, double *gradient);

#endif /* EXAMPLES_C_PERCEPTRON_H_ */
