package tutti

import (
	"tutti.dev/tutti/internal/native"
)

// DataOptions are options by name, each of which knows whether it was set: the booleans
// deterministic, experimental_slack and most of experimental_optimization.*; the integers
// experimental_external_state_policy, threading.private_threadpool_size,
// threading.max_intra_op_parallelism, autotune.ram_budget,
// experimental_distribute.auto_shard_policy, experimental_distribute.num_devices,
// experimental_optimization.autotune_cpu_budget; the boolean experimental_distribute.share_files,
// with which workers share files where there are fewer than workers; of experimental_stats the
// boolean latency_all_edges and profile, the texts prefix and counter_prefix, and the
// StatsAggregator. experimental_deterministic and experimental_threading.* are other names of
// deterministic and threading.*. Dataset.Explain says which are kept without effect: most of
// experimental_optimization.*. Its native_functions demands that no operation calls Go: an iterator
// is ErrFailedPrecondition otherwise. With experimental_slack the thread of the last prefetch
// pauses after each experimental_distribute.num_devices elements, which a strategy sets.
//
// autotune.ram_budget is how many bytes of elements the buffers of one iterator may hold in all (0:
// any number). Beyond it prefetch, parallel maps and parallel interleaves wait; what has to keep
// elements, as Shuffle and Batch do, is ErrResourceExhausted and names the operation that keeps
// most, and a cache in memory is given up.
//
// Those of Dataset.Options are the dataset's: what is set in them counts for it.
type DataOptions struct {
	o       *object
	dataset *Dataset // whose options these are; nil: nobody's
}

func (o *DataOptions) object() *object {
	if o == nil {
		return nil
	}
	return o.o
}

func ownDataOptions(pointer uintptr) *DataOptions {
	return &DataOptions{o: own(pointer, "options", native.Tutti_data_options_release)}
}

// AutoShardPolicy says how a dataset is divided between workers; a value of the option
// experimental_distribute.auto_shard_policy.
type AutoShardPolicy int64

// The policies.
const (
	AutoShardOff  AutoShardPolicy = -1
	AutoShardAuto AutoShardPolicy = 0
	AutoShardFile AutoShardPolicy = 1
	AutoShardData AutoShardPolicy = 2
	AutoShardHint AutoShardPolicy = 3
)

// ExternalStatePolicy says what becomes of state outside of a dataset that is saved; a value of the
// option experimental_external_state_policy. Functions of the program's may have such state. Unset:
// nothing is said of it.
type ExternalStatePolicy int64

// The policies: it is thrown away with a warning or without one, or to save it is an error.
const (
	ExternalStateWarn   ExternalStatePolicy = 0
	ExternalStateIgnore ExternalStatePolicy = 1
	ExternalStateFail   ExternalStatePolicy = 2
)

// NewDataOptions has nothing set.
func NewDataOptions() (*DataOptions, error) {
	var made uintptr
	if err := check(native.Data_options_create(&made)); err != nil {
		return nil, err
	}
	return ownDataOptions(made), nil
}

// now are the options as they are: a dataset's may have changed since they were asked for.
func (o *DataOptions) now() (pointer uintptr, done func(), err error) {
	if pointer, err = o.object().use(); err != nil || o.dataset == nil {
		return pointer, o.object().done, err
	}
	o.object().done()
	made, err := readOut(o.dataset, native.Dataset_options)
	return made, func() { native.Tutti_data_options_release(made) }, err
}

// change sets something, for the dataset, too.
func (o *DataOptions) change(set func(options uintptr) uintptr) error {
	pointer, err := o.object().use()
	if err != nil {
		return err
	}
	defer o.object().done()
	if err := check(set(pointer)); err != nil || o.dataset == nil {
		return err
	}
	if _, err := o.dataset.use(); err != nil {
		return err
	}
	defer o.dataset.done()
	return o.dataset.o.become(func(dataset uintptr, made *uintptr) error {
		var options uintptr
		if err := check(native.Dataset_options(dataset, &options)); err != nil {
			return err
		}
		defer native.Tutti_data_options_release(options)
		if err := check(set(options)); err != nil {
			return err
		}
		return check(native.Dataset_replace_options(dataset, options, made))
	})
}

// SetInt sets an integer.
func (o *DataOptions) SetInt(key string, number int64) error {
	return o.change(func(options uintptr) uintptr {
		return native.Data_options_set_int64(options, key, number)
	})
}

// SetBool sets a boolean.
func (o *DataOptions) SetBool(key string, flag bool) error {
	return o.change(func(options uintptr) uintptr {
		return native.Data_options_set_bool(options, key, flag)
	})
}

// SetText sets a text.
func (o *DataOptions) SetText(key, text string) error {
	return o.change(func(options uintptr) uintptr {
		return native.Data_options_set_string(options, key, text)
	})
}

// SetStatsAggregator sets experimental_stats.aggregator; Clear takes it away.
func (o *DataOptions) SetStatsAggregator(aggregator *StatsAggregator) error {
	pointer, err := aggregator.object().use()
	if err != nil {
		return err
	}
	defer aggregator.object().done()
	return o.change(func(options uintptr) uintptr {
		return native.Data_options_set_stats_aggregator(options, pointer)
	})
}

// Clear takes an option away, as if it had never been set.
func (o *DataOptions) Clear(key string) error {
	return o.change(func(options uintptr) uintptr { return native.Data_options_clear(options, key) })
}

// Read is the value, a boolean as 0 or 1, and whether it was set.
func (o *DataOptions) Read(key string) (int64, bool, error) {
	pointer, done, err := o.now()
	if err != nil {
		return 0, false, err
	}
	defer done()
	var number native.OptionalInt64
	err = check(native.Data_options_read(pointer, key, &number))
	return number.Value, number.Present != 0, err
}

// ReadText is the text, and whether it was set.
func (o *DataOptions) ReadText(key string) (string, bool, error) {
	pointer, done, err := o.now()
	if err != nil {
		return "", false, err
	}
	defer done()
	var made uintptr
	if err := check(native.Data_options_read_string(pointer, key, &made)); err != nil || made == 0 {
		return "", false, err
	}
	return takeText(made), true, nil
}

// StatsAggregator is experimental_stats.aggregator, nil where it was not set.
func (o *DataOptions) StatsAggregator() (*StatsAggregator, error) {
	pointer, done, err := o.now()
	if err != nil {
		return nil, err
	}
	defer done()
	var made uintptr
	err = check(native.Data_options_stats_aggregator(pointer, &made))
	if err != nil || made == 0 {
		return nil, err
	}
	return ownStatsAggregator(made), nil
}

// Merge is other where it was set, else o; a value that changes is logged as a warning.
func (o *DataOptions) Merge(other *DataOptions) (*DataOptions, error) {
	mine, done, err := o.now()
	if err != nil {
		return nil, err
	}
	defer done()
	others, done, err := other.now()
	if err != nil {
		return nil, err
	}
	defer done()
	var made uintptr
	if err := check(native.Data_options_merge(mine, others, &made)); err != nil {
		return nil, err
	}
	return ownDataOptions(made), nil
}

// Equal says whether the same options are set, to the same values.
func (o *DataOptions) Equal(other *DataOptions) bool {
	mine, done, err := o.now()
	if err != nil {
		return false
	}
	defer done()
	others, done, err := other.now()
	if err != nil {
		return false
	}
	defer done()
	return native.Data_options_equal(mine, others)
}

// String is what is set: "deterministic=false, threading.private_threadpool_size=2".
func (o *DataOptions) String() string {
	pointer, done, err := o.now()
	if err != nil {
		return ""
	}
	defer done()
	var made uintptr
	if check(native.Data_options_to_string(pointer, &made)) != nil {
		return ""
	}
	return takeText(made)
}

// Close ends the reference.
func (o *DataOptions) Close() error {
	o.object().close()
	return nil
}
