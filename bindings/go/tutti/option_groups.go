package tutti

import "strings"

// OptionValue is the value of an option, a boolean as 0 or 1, which knows whether it was set.
type OptionValue struct {
	Set   bool
	Value int64
}

// ThreadingOptions are the options under threading; 0: the library chooses. They are equal (==)
// when the same ones are set, to the same values.
type ThreadingOptions struct {
	// MaxIntraOpParallelism is how many calls one operation makes at once.
	MaxIntraOpParallelism OptionValue
	// PrivateThreadpoolSize is how many calls the parallel maps of one iterator make at once, in all.
	PrivateThreadpoolSize OptionValue
}

// OptimizationOptions are the options under experimental_optimization by their names without that,
// booleans as 0 and 1: what is not there is not set. native_functions demands native functions;
// with apply_default_optimizations 0 batches of windows are not made without the windows; the
// others are kept without effect.
type OptimizationOptions map[string]int64

// Equal says whether the same options are set, to the same values.
func (o OptimizationOptions) Equal(other OptimizationOptions) bool {
	if len(o) != len(other) {
		return false
	}
	for name, value := range o {
		if found, set := other[name]; !set || found != value {
			return false
		}
	}
	return true
}

const (
	optimizationPrefix = "experimental_optimization."
	optimizationNumber = "autotune_cpu_budget"
)

// The names of what OptimizationOptions has.
const optimizationNames = "apply_default_optimizations autotune autotune_buffers " +
	optimizationNumber + " filter_fusion filter_with_random_uniform_fusion hoist_random_uniform " +
	"map_and_batch_fusion map_and_filter_fusion map_fusion map_parallelization " +
	"map_vectorization.enabled map_vectorization.use_choose_fastest native_functions " +
	"noop_elimination parallel_batch reorder_data_discarding_ops shuffle_and_repeat_fusion"

// Threading is what is set under threading.
func (o *DataOptions) Threading() (threading ThreadingOptions, err error) {
	threading.MaxIntraOpParallelism, err = o.value("threading.max_intra_op_parallelism")
	if err == nil {
		threading.PrivateThreadpoolSize, err = o.value("threading.private_threadpool_size")
	}
	return threading, err
}

// SetThreading sets what threading has, and clears what it has not.
func (o *DataOptions) SetThreading(threading ThreadingOptions) error {
	err := o.put("threading.max_intra_op_parallelism", threading.MaxIntraOpParallelism)
	if err != nil {
		return err
	}
	return o.put("threading.private_threadpool_size", threading.PrivateThreadpoolSize)
}

// Optimization is what is set under experimental_optimization.
func (o *DataOptions) Optimization() (OptimizationOptions, error) {
	found := OptimizationOptions{}
	for _, name := range strings.Fields(optimizationNames) {
		value, err := o.value(optimizationPrefix + name)
		if err != nil {
			return nil, err
		}
		if value.Set {
			found[name] = value.Value
		}
	}
	return found, nil
}

// SetOptimization sets what optimization has, and clears what it has not. ErrInvalidArgument for a
// name that there is not.
func (o *DataOptions) SetOptimization(optimization OptimizationOptions) error {
	names := strings.Fields(optimizationNames)
	known := " " + optimizationNames + " "
	for name := range optimization {
		if !strings.Contains(known, " "+name+" ") {
			return invalidArgument("there is no option %q of optimization; there are %s", name,
				optimizationNames)
		}
	}
	for _, name := range names {
		value, set := optimization[name]
		var err error
		if set && name != optimizationNumber {
			err = o.SetBool(optimizationPrefix+name, value != 0)
		} else {
			err = o.put(optimizationPrefix+name, OptionValue{set, value})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *DataOptions) value(key string) (OptionValue, error) {
	number, set, err := o.Read(key)
	return OptionValue{set, number}, err
}

func (o *DataOptions) put(key string, value OptionValue) error {
	if !value.Set {
		return o.Clear(key)
	}
	return o.SetInt(key, value.Value)
}
