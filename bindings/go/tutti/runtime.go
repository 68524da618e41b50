package tutti

import (
	"context"
	"encoding/json"
	"math"
	"runtime/cgo"
	"sort"
	"strings"
	"sync"

	"tutti.dev/tutti/internal/native"
)

// Runtime holds threads, memory accounts, settings and the log. A nil *Runtime is the process's
// default one, which starts at first use; the functions of the package use it.
type Runtime struct{ o *object }

// NewRuntime starts a runtime beside the default one. An unknown setting is ErrInvalidArgument and
// names the known.
func NewRuntime(settings map[string]string) (*Runtime, error) {
	keys := make([]string, 0, len(settings))
	for key := range settings {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	values := make([]string, len(keys))
	for i, key := range keys {
		values[i] = settings[key]
	}
	joinedKeys, err := joined(keys)
	if err != nil {
		return nil, err
	}
	joinedValues, err := joined(values)
	if err != nil {
		return nil, err
	}
	var made uintptr
	err = check(native.Runtime_create(joinedKeys, joinedValues, &made))
	return as(ownRuntime)(made, err)
}

func ownRuntime(pointer uintptr) *Runtime {
	return &Runtime{own(pointer, "runtime", native.Tutti_runtime_release)}
}

func (r *Runtime) use() (uintptr, error) {
	if r == nil {
		return 0, nil
	}
	return r.o.use()
}

func (r *Runtime) done() {
	if r != nil {
		r.o.done()
	}
}

// with uses the runtime for one call.
func (r *Runtime) with(call func(runtime uintptr) uintptr) error {
	pointer, err := r.use()
	if err != nil {
		return err
	}
	defer r.done()
	return check(call(pointer))
}

// make uses the runtime for a call that makes something.
func (r *Runtime) make(call func(runtime uintptr, made *uintptr) uintptr) (uintptr, error) {
	var made uintptr
	err := r.with(func(runtime uintptr) uintptr { return call(runtime, &made) })
	return made, err
}

// Shutdown closes every iterator, strategy and communicator and joins all threads. The default
// runtime starts again at its next use.
func (r *Runtime) Shutdown(ctx context.Context) error {
	call, end, err := callOf(ctx)
	if err != nil {
		return err
	}
	defer end()
	err = r.with(func(runtime uintptr) uintptr { return native.Runtime_shutdown(runtime, call) })
	return err
}

// Fail is for a process that goes because of an error of its own, before it shuts down: the workers
// of its job hear why, as by Cluster.Fail. Nothing happens without a job.
func (r *Runtime) Fail(message string) {
	pointer, err := r.use()
	if err != nil {
		return
	}
	defer r.done()
	native.Runtime_fail(pointer, message)
}

// Close is Shutdown without a limit, and ends the reference.
func (r *Runtime) Close() error {
	if r != nil && r.o.isClosed() {
		return nil
	}
	err := r.Shutdown(nil)
	if r != nil {
		r.o.close()
	}
	return err
}

// IsRunning says that it can be used.
func (r *Runtime) IsRunning() bool {
	return ask(r, false, native.Runtime_is_running)
}

// Set changes a setting: log_level, compute_threads, memory_limit, default_timeout,
// flight_recorder_dir; replicas, join_timeout, silence_limit, transport, elastic, reproducible (1:
// sums of floats have the same bits however the ranks are spread over hosts, and the replicas of a
// strategy over workers) and collective_table (see DescribeCollectives) for what is made
// afterwards. logical_cpu_devices is fixed at start: ErrFailedPrecondition.
func (r *Runtime) Set(key, value string) error {
	return r.with(func(runtime uintptr) uintptr { return native.Runtime_set(runtime, key, value) })
}

func (r *Runtime) text(call func(runtime uintptr, made *uintptr) uintptr) (string, error) {
	made, err := r.make(call)
	if err != nil {
		return "", err
	}
	return takeText(made), nil
}

// Setting is the effective value.
func (r *Runtime) Setting(key string) (string, error) {
	return r.text(func(runtime uintptr, made *uintptr) uintptr {
		return native.Runtime_read_setting(runtime, key, made)
	})
}

// Setting of Describe: its value and where it comes from ("argument", "variable", "file",
// "default").
type Setting struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
}

// Describe gives all settings.
func (r *Runtime) Describe() (map[string]Setting, error) {
	text, err := r.text(func(runtime uintptr, made *uintptr) uintptr {
		return native.Runtime_describe(runtime, made)
	})
	if err != nil {
		return nil, err
	}
	settings := make(map[string]Setting)
	return settings, json.Unmarshal([]byte(text), &settings)
}

// DescribeCollectives says which algorithm a collective takes, a row a line as the setting
// collective_table reads them: the first that fits a call holds. In a group of several processes
// the table of worker 0 holds.
func (r *Runtime) DescribeCollectives() (string, error) {
	return r.text(func(runtime uintptr, made *uintptr) uintptr {
		return native.Runtime_describe_collectives(runtime, made)
	})
}

// SetRandomSeed sets the seed behind every dataset operation that was given none; RandomSeed goes
// back to seeds by chance.
func (r *Runtime) SetRandomSeed(seed int64) error {
	return r.with(func(runtime uintptr) uintptr {
		return native.Runtime_set_random_seed(runtime, seedOf(seed))
	})
}

// RandomSeed stands for no seed.
const RandomSeed int64 = math.MinInt64

func seedOf(seed int64) []int64 {
	if seed == RandomSeed {
		return nil
	}
	return []int64{seed}
}

var logSinks struct {
	sync.Mutex // guards the map
	handles    map[*Runtime]cgo.Handle
}

// SetLog sends the lines of the log to sink, with level "debug", "info", "warning" or "error"; nil
// brings standard error back.
func (r *Runtime) SetLog(sink func(level, line string)) error {
	var handle cgo.Handle
	if sink != nil {
		handle = cgo.NewHandle(native.LogSink(func(level int32, line string) {
			names := [...]string{"error", "debug", "info", "warning", "error"}
			if level < 0 || int(level) >= len(names) {
				level = 0
			}
			sink(names[level], line)
		}))
	}
	logSinks.Lock()
	defer logSinks.Unlock()
	err := r.with(func(runtime uintptr) uintptr {
		return native.Runtime_set_log_sink(runtime, uintptr(handle))
	})
	if err != nil {
		if handle != 0 {
			handle.Delete()
		}
		return err
	}
	if former, ok := logSinks.handles[r]; ok {
		former.Delete()
		delete(logSinks.handles, r)
	}
	if handle != 0 {
		if logSinks.handles == nil {
			logSinks.handles = make(map[*Runtime]cgo.Handle)
		}
		logSinks.handles[r] = handle
	}
	return nil
}

// FlightRecorder is the record of the last operations, as JSON.
func (r *Runtime) FlightRecorder() (string, error) {
	return r.text(func(runtime uintptr, made *uintptr) uintptr {
		return native.Runtime_dump_recorder(runtime, made)
	})
}

// DescribeDevice is what is known of a device ("GPU:0"), as a JSON object: name, type and memory
// (bytes); of a GPU also device_name, compute_capability, multiprocessors, memory_bytes, l2_bytes,
// bus_id, uuid, integrated, driver_version and kernels. NotFound for a device that is not there.
func (r *Runtime) DescribeDevice(name string) (string, error) {
	return r.text(func(runtime uintptr, made *uintptr) uintptr {
		return native.Device_describe(runtime, name, made)
	})
}

// DescribePlugins are the plugins for devices, as a JSON list: of each name, file, devices (how
// many), version (null: not opened), reason, why there are no devices (null: there are), nccl, of
// version, file and origin, who had it (null: there is none), and nccl_reason, why.
func (r *Runtime) DescribePlugins() (string, error) {
	return r.text(func(runtime uintptr, made *uintptr) uintptr {
		return native.Device_describe_plugins(runtime, made)
	})
}

// Devices are the names of the devices of a type ("CPU", "GPU"; "" for all).
func (r *Runtime) Devices(deviceType string) ([]string, error) {
	text, err := r.text(func(runtime uintptr, made *uintptr) uintptr {
		return native.Device_list(runtime, deviceType, made)
	})
	if err != nil {
		return nil, err
	}
	var devices []string
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &devices); err == nil {
		return devices, nil
	}
	return strings.Fields(strings.ReplaceAll(text, ",", " ")), nil
}

var defaultRuntime *Runtime

// DefaultRuntime is the process's, which the functions of the package use. Its methods take options
// for which those have no place: DefaultRuntime().NewMirroredStrategy(ctx, WithDevices(...)).
func DefaultRuntime() *Runtime { return defaultRuntime }

// Shutdown shuts the default runtime down. A worker of a job calls it before it ends (Go runs
// nothing of ours at exit): it says goodbye to the others, who else take the end of the process for
// its death.
func Shutdown(ctx context.Context) error { return defaultRuntime.Shutdown(ctx) }

// Fail tells the workers of the default runtime's job why this process goes: Runtime.Fail.
func Fail(message string) {
	if IsRunning() {
		defaultRuntime.Fail(message)
	}
}

// IsRunning says that the default runtime runs.
func IsRunning() bool { return defaultRuntime.IsRunning() }

// Set changes a setting of the default runtime.
func Set(key, value string) error { return defaultRuntime.Set(key, value) }

// Version of the library.
func Version() string { return native.Api_version() }
