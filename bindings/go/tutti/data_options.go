package tutti

import (
	"tutti.dev/tutti/internal/native"
)

// DataOptions are options by name, each of which knows whether it was set: the booleans
// deterministic, experimental_slack, experimental_optimization.apply_default_optimizations; the
// integers threading.private_threadpool_size, threading.max_intra_op_parallelism,
// autotune.ram_budget, experimental_distribute.auto_shard_policy,
// experimental_distribute.num_devices.
type DataOptions struct{ o *object }

func (o *DataOptions) object() *object {
	if o == nil {
		return nil
	}
	return o.o
}

func ownDataOptions(pointer uintptr) *DataOptions {
	return &DataOptions{own(pointer, "options", native.Tutti_data_options_release)}
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

// NewDataOptions has nothing set.
func NewDataOptions() (*DataOptions, error) {
	var made uintptr
	if err := check(native.Data_options_create(&made)); err != nil {
		return nil, err
	}
	return ownDataOptions(made), nil
}

// SetInt sets an integer.
func (o *DataOptions) SetInt(key string, number int64) error {
	pointer, err := o.object().use()
	if err != nil {
		return err
	}
	defer o.object().done()
	return check(native.Data_options_set_int64(pointer, key, number))
}

// SetBool sets a boolean.
func (o *DataOptions) SetBool(key string, flag bool) error {
	pointer, err := o.object().use()
	if err != nil {
		return err
	}
	defer o.object().done()
	return check(native.Data_options_set_bool(pointer, key, flag))
}

// Read is the value, a boolean as 0 or 1, and whether it was set.
func (o *DataOptions) Read(key string) (int64, bool, error) {
	pointer, err := o.object().use()
	if err != nil {
		return 0, false, err
	}
	defer o.object().done()
	var number native.OptionalInt64
	err = check(native.Data_options_read(pointer, key, &number))
	return number.Value, number.Present != 0, err
}

// Merge is other where it was set, else o.
func (o *DataOptions) Merge(other *DataOptions) (*DataOptions, error) {
	pointer, err := other.object().use()
	if err != nil {
		return nil, err
	}
	defer other.object().done()
	return as(ownDataOptions)(readOut(o.object(), func(options uintptr, made *uintptr) uintptr {
		return native.Data_options_merge(options, pointer, made)
	}))
}

// Close ends the reference.
func (o *DataOptions) Close() error {
	o.object().close()
	return nil
}
