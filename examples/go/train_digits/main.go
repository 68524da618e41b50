// Train_digits trains a two-layer perceptron on handwritten digits, on the replicas of one or
// several workers.
//
//	train_digits [--replicas N | --devices NAMES] [--epochs E] [--batch B] [--seed S] [--data DIR]
//	             [--checkpoints DIR] [--save-every STEPS]
//
// or under `tutti run --workers 2 --replicas 2 -- train_digits ...`. Each replica computes the
// gradient of its part of a batch, scaled by one over the rows of the whole batch; AllReduce adds
// the gradients, so that every replica takes the same step. At the end the accuracy on the held-out
// fifth is printed, and the SHA-256 of each replica's weights: the program fails when the accuracy
// is under 95 % or two replicas' weights differ in a bit.
//
// With --devices GPU:0,GPU:1 weights and velocities lie on GPUs, and gradients are added up there;
// Go computes on copies in the host's memory.
//
// With --checkpoints, weights and place in the data are saved every few steps, and a program that
// is started again goes on from there, to the same losses.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"time"
	"unsafe"

	"tutti.dev/tutti"
)

const lowestAccuracy = 95.0

type arguments struct {
	replicas, epochs, batch, seed, saveEvery int64
	data, checkpoints                        string
	devices                                  []string
}

// wholeNumber is a flag of a number that is at least least.
func wholeNumber(name string, into *int64, start, least int64, usage string) {
	*into = start
	flag.Func(name, usage, func(text string) error {
		var number int64
		var rest string
		if found, _ := fmt.Sscanf(text, "%d%s", &number, &rest); found != 1 || number < least {
			return fmt.Errorf("expected a whole number, %d or more", least)
		}
		*into = number
		return nil
	})
}

func parseArguments() (a arguments) {
	wholeNumber("replicas", &a.replicas, 0, 1,
		"of this worker; default: as TUTTI_REPLICAS says, else 1")
	flag.Func("devices", "of this worker's replicas: GPU:0,GPU:1", func(names string) error {
		a.devices = strings.Split(names, ",")
		return nil
	})
	wholeNumber("epochs", &a.epochs, 20, 1, "`number` of walks over the data (default 20)")
	wholeNumber("batch", &a.batch, 16, 1, "`rows` over all replicas of all workers (default 16)")
	wholeNumber("seed", &a.seed, 1, 0, "of weights and order (default 1)")
	wholeNumber("save-every", &a.saveEvery, 25, 1, "`steps` between checkpoints (default 25)")
	flag.StringVar(&a.data, "data", "",
		"`folder` of the digits; default: found from the working directory")
	flag.StringVar(&a.checkpoints, "checkpoints", "", "`folder` of the checkpoints; default: none")
	flag.Usage = func() {
		out := flag.CommandLine.Output()
		fmt.Fprintln(out, "usage: train_digits [--replicas N] [--epochs E] [--batch B] [--seed S] "+
			"[--data DIR]\n                    [--checkpoints DIR] [--save-every STEPS]")
		flag.PrintDefaults()
	}
	flag.CommandLine.Init("train_digits", flag.ContinueOnError)
	for _, argument := range os.Args[1:] {
		if argument == "--help" || argument == "-h" {
			flag.CommandLine.SetOutput(os.Stdout)
		}
	}
	err := flag.CommandLine.Parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flag.Arg(0))
		fmt.Fprintln(os.Stderr, "train_digits:", err)
	}
	if err != nil {
		os.Exit(2)
	}
	return a
}

// progress is how far training has come, in a tensor that checkpoints hold: the epoch, the steps,
// and the sums of the epoch that is running.
type progress struct {
	tensor  *tutti.Tensor
	numbers []float64
}

func newProgress() (*progress, error) {
	tensor, err := tutti.TensorOf([]float64{1, 0, 0, 0, 0})
	if err != nil {
		return nil, err
	}
	numbers, err := tutti.MutableSlice[float64](tensor)
	return &progress{tensor, numbers}, err
}

func (p *progress) epoch() int64    { return int64(p.numbers[0]) }
func (p *progress) steps() int64    { return int64(p.numbers[1]) }
func (p *progress) sums() []float64 { return p.numbers[2:] }

type training struct {
	arguments
	model *model
	talks bool
}

func (t *training) run() error {
	progress, err := newProgress()
	if err != nil {
		return err
	}
	defer progress.tensor.Close()
	if t.checkpoints != "" {
		manager, err := t.manager(progress, nil)
		if err != nil {
			return err
		}
		if _, _, err := manager.RestoreLatest(context.Background()); err != nil {
			return err
		}
		if t.talks && progress.steps() > 0 {
			fmt.Printf("going on after step %d, in epoch %d\n", progress.steps(), progress.epoch())
		}
	}
	for progress.epoch() <= t.epochs {
		start, before := time.Now(), progress.sums()[2]
		if err := t.runEpoch(progress); err != nil {
			return err
		}
		elapsed := time.Since(start).Seconds()
		loss, correct, rows := progress.sums()[0], progress.sums()[1], progress.sums()[2]
		if t.talks {
			fmt.Printf("epoch %2d/%d: loss %.10f, accuracy %5.2f %%, %.0f examples/s\n", progress.epoch(),
				t.epochs, loss/rows, 100*correct/rows, (rows-before)/elapsed)
		}
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return errors.New("the loss is not finite")
		}
		progress.numbers[0]++
		copy(progress.sums(), []float64{0, 0, 0})
	}
	return nil
}

// runEpoch is one walk over the training part, in an order of its own, for the epoch is part of the
// seed.
func (t *training) runEpoch(progress *progress) error {
	data, err := digits(t.data, false, t.batch, t.seed+progress.epoch())
	if err != nil {
		return err
	}
	batches, err := t.model.strategy.Distribute(context.Background(), data)
	if err != nil {
		return err
	}
	defer batches.Close()
	var manager *tutti.CheckpointManager
	if t.checkpoints != "" {
		if manager, err = t.manager(progress, batches); err != nil {
			return err
		}
		if progress.sums()[2] > 0 {
			if _, _, err := manager.RestoreLatest(context.Background()); err != nil {
				return err
			}
		}
	}
	return t.model.takeSteps(t.model.trainStep, batches, progress.sums(), func() error {
		progress.numbers[1]++
		if manager == nil || progress.steps()%t.saveEvery != 0 {
			return nil
		}
		_, err := manager.Save(context.Background(), progress.steps())
		return err
	})
}

// manager of checkpoints: of the progress alone, or with batches of everything.
func (t *training) manager(progress *progress,
	batches *tutti.DistributedIterator) (*tutti.CheckpointManager, error) {
	checkpoint, err := t.model.strategy.NewCheckpoint()
	if err != nil {
		return nil, err
	}
	if err := checkpoint.AddTensor("progress", progress.tensor); err != nil {
		return nil, err
	}
	if batches != nil {
		if err := checkpoint.AddVariable("weights", t.model.weights); err != nil {
			return nil, err
		}
		if err := checkpoint.AddVariable("velocity", t.model.velocity); err != nil {
			return nil, err
		}
		if err := checkpoint.AddDistributedIterator("batches", batches); err != nil {
			return nil, err
		}
	}
	return checkpoint.Manager(t.checkpoints, 5, "")
}

// accuracy on the held-out part, in percent.
func (t *training) accuracy() (float64, error) {
	data, err := digits(t.data, true, t.batch, 0)
	if err != nil {
		return 0, err
	}
	batches, err := t.model.strategy.Distribute(context.Background(), data)
	if err != nil {
		return 0, err
	}
	defer batches.Close()
	sums := make([]float64, 3)
	err = t.model.takeSteps(t.model.evaluateStep, batches, sums, func() error { return nil })
	if err != nil || sums[2] == 0 {
		return 0, err
	}
	return 100 * sums[1] / sums[2], nil
}

// checkHashes prints the hash of the weights of each of this worker's replicas, and compares those
// of all workers.
func checkHashes(strategy *tutti.Strategy, weights *tutti.Variable) error {
	_, copies, err := weights.Copies()
	if err != nil {
		return err
	}
	var hashes []tutti.Value
	for replica, tensor := range copies {
		var hash [sha256.Size]byte
		here, err := onHost(tensor)
		if err != nil {
			return err
		}
		err = tutti.View(here, func(row []float64) error {
			hash = sha256.Sum256(unsafe.Slice((*byte)(unsafe.Pointer(&row[0])), 8*len(row)))
			return nil
		})
		here.Close()
		if err != nil {
			return err
		}
		fmt.Printf("worker %d replica %d weights sha256: %x\n", strategy.Worker(), replica, hash)
		value, err := tutti.Of(hash[:], 1, sha256.Size)
		if err != nil {
			return err
		}
		hashes = append(hashes, value)
	}
	mine, err := strategy.PerReplica(hashes...)
	if err != nil {
		return err
	}
	all, err := strategy.Gather(context.Background(), mine, 0)
	if err != nil {
		return err
	}
	tensor, err := all.Tensor()
	if err != nil {
		return err
	}
	return tutti.View(tensor, func(bytes []uint8) error {
		for i, b := range bytes {
			if b != bytes[i%sha256.Size] {
				return errors.New("the weights of the replicas differ")
			}
		}
		return nil
	})
}

func train(a arguments) (err error) {
	// A worker that leaves without a goodbye counts as dead.
	defer func() {
		limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if left := tutti.Shutdown(limit); err == nil {
			err = left
		}
	}()
	devices := a.devices
	for i := int64(0); i < a.replicas && a.devices == nil; i++ {
		devices = append(devices, fmt.Sprintf("CPU:%d", i))
	}
	strategy, err := tutti.NewMultiWorkerMirroredStrategy(context.Background(), devices...)
	if err != nil {
		return err
	}
	defer strategy.Close()
	model, err := newModel(strategy, uint64(a.seed))
	if err != nil {
		return err
	}
	if a.data == "" {
		a.data = dataFolder()
	}
	t := &training{a, model, strategy.Worker() == 0}
	if t.talks && a.devices != nil {
		fmt.Println("replicas on", strings.Join(a.devices, ", "))
	}
	if err := t.run(); err != nil {
		return err
	}
	accuracy, err := t.accuracy()
	if err != nil {
		return err
	}
	if t.talks {
		fmt.Printf("held-out accuracy: %.2f %%\n", accuracy)
	}
	if err := checkHashes(strategy, model.weights); err != nil {
		return err
	}
	if accuracy < lowestAccuracy {
		return fmt.Errorf("the accuracy is under %.0f %%", lowestAccuracy)
	}
	return nil
}

func main() {
	if err := train(parseArguments()); err != nil {
		fmt.Fprintln(os.Stderr, "train_digits:", err)
		os.Exit(1)
	}
}
