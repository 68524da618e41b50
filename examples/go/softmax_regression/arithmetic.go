package main

import "math"

// Softmax regression in float32. What is written as a loop is added up in that order, and every
// product is rounded by a conversion: on some processors the compiler would fuse it with the sum.

const (
	pixels, classes = 64, 10
	parameters      = (pixels + 1) * classes // the last row are the biases
)

// softmax writes the chances of the classes and gives the likeliest.
func softmax(weights, image, chances []float32) int {
	copy(chances, weights[pixels*classes:])
	for i, value := range image {
		pixel := value / 16
		for j := range chances {
			chances[j] += float32(pixel * weights[i*classes+j])
		}
	}
	best := 0
	for j, chance := range chances {
		if chance > chances[best] {
			best = j
		}
	}
	largest, total := chances[best], float32(0)
	for j := range chances {
		chances[j] = float32(math.Exp(float64(chances[j] - largest)))
		total += chances[j]
	}
	for j := range chances {
		chances[j] /= total
	}
	return best
}

// addGradient adds to gradient that of the loss of one row, whose chances are given.
func addGradient(image []float32, label int64, chances, gradient []float32) {
	chances[label]--
	for i, value := range image {
		pixel := value / 16
		for j, chance := range chances {
			gradient[i*classes+j] += float32(pixel * chance)
		}
	}
	for j, chance := range chances {
		gradient[pixels*classes+j] += chance
	}
}

// score is what a batch gave: summed loss, right ones, rows.
type score [3]float64

// scoreRows scores one image for each label. Unless gradient is nil it adds that of the loss.
func scoreRows(weights, images []float32, labels []int64, gradient []float32) score {
	sum := score{0, 0, float64(len(labels))}
	chances := make([]float32, classes)
	for row, label := range labels {
		image := images[row*pixels : (row+1)*pixels]
		if int64(softmax(weights, image, chances)) == label {
			sum[1]++
		}
		sum[0] -= math.Log(math.Max(float64(chances[label]), 1e-30))
		if gradient != nil {
			addGradient(image, label, chances, gradient)
		}
	}
	return sum
}
