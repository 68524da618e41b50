package main

import "math"

// A two-layer perceptron for 8x8 digits: 64 pixels, 64 hidden units (ReLU), 10 classes (softmax).
// Its parameters are one row of numbers, in the order hidden weights, hidden biases, output
// weights, output biases. The arithmetic of examples/c/perceptron.c, in float64.
const (
	inputs, hiddenUnits, classes = 64, 64, 10

	hiddenBiases  = inputs * hiddenUnits
	outputWeights = hiddenBiases + hiddenUnits
	outputBiases  = outputWeights + hiddenUnits*classes
	parameters    = outputBiases + classes
)

// draw gives a number in [-1, 1) with 24 bits, by SplitMix64 (Steele, Lea, Flood 2014).
func draw(state *uint64) float64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>40)/8388608 - 1
}

// initial are He et al. 2015: weights uniform in +-sqrt(6 / fan_in), biases zero.
func initial(seed uint64) []float64 {
	row := make([]float64, parameters)
	for i := 0; i < inputs*hiddenUnits; i++ {
		row[i] = math.Sqrt(6.0/inputs) * draw(&seed)
	}
	for i := 0; i < hiddenUnits*classes; i++ {
		row[outputWeights+i] = math.Sqrt(6.0/hiddenUnits) * draw(&seed)
	}
	return row
}

// layer: out[j] = biases[j] + the sum over i of in[i] * weights[i, j].
func layer(weights, biases, in, out []float64) {
	copy(out, biases)
	columns := len(out)
	for i, x := range in {
		row := weights[i*columns : (i+1)*columns]
		for j, w := range row {
			out[j] += x * w
		}
	}
}

// addLayerGradient adds the gradient of a layer to that of its weights and biases.
func addLayerGradient(in, outGradient, weights, biases []float64) {
	columns := len(outGradient)
	for i, x := range in {
		if x == 0 {
			continue
		}
		row := weights[i*columns : (i+1)*columns]
		for j, g := range outGradient {
			row[j] += x * g
		}
	}
	for j, g := range outGradient {
		biases[j] += g
	}
}

// softmax turns scores into probabilities and gives the position of the largest.
func softmax(scores []float64) int {
	best := 0
	for j, score := range scores {
		if score > scores[best] {
			best = j
		}
	}
	largest, sum := scores[best], 0.0
	for j := range scores {
		scores[j] = math.Exp(scores[j] - largest)
		sum += scores[j]
	}
	for j := range scores {
		scores[j] /= sum
	}
	return best
}

// score images [n, 64] against labels [n], n >= 0: the summed loss and the number that is right.
// With a gradient, which starts as zeros, also that of scale * loss.
func score(weights []float64, images []float32, labels []int64, scale float64,
	gradient []float64) (loss float64, correct int64) {
	pixels, hidden := make([]float64, inputs), make([]float64, hiddenUnits)
	outputs, back := make([]float64, classes), make([]float64, hiddenUnits)
	for row, label := range labels {
		for i := range pixels {
			pixels[i] = float64(images[row*inputs+i]) / 16
		}
		layer(weights, weights[hiddenBiases:outputWeights], pixels, hidden)
		for i := range hidden {
			hidden[i] = math.Max(hidden[i], 0)
		}
		layer(weights[outputWeights:], weights[outputBiases:parameters], hidden, outputs)
		if int64(softmax(outputs)) == label {
			correct++
		}
		loss -= math.Log(math.Max(outputs[label], 1e-30))
		if gradient == nil {
			continue
		}

		// From here on outputs and back are gradients of the scores.
		outputs[label]--
		for j := range outputs {
			outputs[j] *= scale
		}
		for i := range back {
			back[i] = 0
			if hidden[i] == 0 {
				continue
			}
			for j, g := range outputs {
				back[i] += g * weights[outputWeights+i*classes+j]
			}
		}
		addLayerGradient(hidden, outputs, gradient[outputWeights:], gradient[outputBiases:])
		addLayerGradient(pixels, back, gradient, gradient[hiddenBiases:])
	}
	return loss, correct
}
