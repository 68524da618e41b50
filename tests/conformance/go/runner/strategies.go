package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"sync"
	"syscall"

	"tutti.dev/tutti"
)

// devices are of the type that CONFORMANCE_DEVICE says, else CPUs.
func devices(count int64) (names []string) {
	kind := os.Getenv("CONFORMANCE_DEVICE")
	if kind == "" {
		kind = "CPU"
	}
	for i := int64(0); i < count; i++ {
		names = append(names, fmt.Sprintf("%s:%d", kind, i))
	}
	return names
}

// reserved are addresses of the loopback interface that nobody else gets: the ports stay bound in a
// way that lets a worker listen there all the same (Linux: both sockets have SO_REUSEADDR, and
// these do not listen).
func reserved(count int64) (addresses []string, end func(), err error) {
	var sockets []int
	end = func() {
		for _, socket := range sockets {
			syscall.Close(socket)
		}
	}
	for i := int64(0); i < count; i++ {
		socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err == nil {
			sockets = append(sockets, socket)
			err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
		}
		if err == nil {
			err = syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
		}
		var name syscall.Sockaddr
		if err == nil {
			name, err = syscall.Getsockname(socket)
		}
		if err != nil {
			end()
			return nil, nil, err
		}
		addresses = append(addresses,
			net.JoinHostPort("127.0.0.1", fmt.Sprint(name.(*syscall.SockaddrInet4).Port)))
	}
	return addresses, end, nil
}

// runWorkers calls body once per worker: several are runtimes of their own, each with a goroutine.
func runWorkers(workers, replicas int64,
	body func(r *tutti.Runtime, strategy *tutti.Strategy, worker int64) error) error {
	if workers == 1 {
		strategy, err := tutti.NewMirroredStrategy(devices(replicas)...)
		if err != nil {
			return err
		}
		defer strategy.Close()
		return body(nil, strategy, 0)
	}
	addresses, end, err := reserved(workers)
	if err != nil {
		return err
	}
	defer end()
	cluster, err := tutti.NewClusterSpec(map[string][]string{"worker": addresses})
	if err != nil {
		return err
	}
	failures := make([]error, workers)
	var all sync.WaitGroup
	for worker := int64(0); worker < workers; worker++ {
		all.Add(1)
		go func(worker int64) {
			defer all.Done()
			failures[worker] = func() error {
				resolver, err := tutti.NewSimpleClusterResolver(cluster,
					tutti.ResolverOptions{TaskType: "worker", TaskID: &worker})
				if err != nil {
					return err
				}
				own, err := tutti.NewRuntime(nil)
				if err != nil {
					return err
				}
				defer own.Close()
				strategy, err := own.NewMultiWorkerMirroredStrategy(nil,
					tutti.StrategyOptions{Devices: devices(replicas), Resolver: resolver})
				if err != nil {
					return err
				}
				return body(own, strategy, worker)
			}()
		}(worker)
	}
	all.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

var policies = map[string]tutti.AutoShardPolicy{"OFF": tutti.AutoShardOff,
	"AUTO": tutti.AutoShardAuto, "FILE": tutti.AutoShardFile, "DATA": tutti.AutoShardData,
	"HINT": tutti.AutoShardHint}

// steps are the parts of this process's replicas, by step.
func steps(r *tutti.Runtime, strategy *tutti.Strategy,
	test fields) (found [][]tutti.Value, err error) {
	dataset, err := build(r, test["dataset"].(fields))
	if err != nil {
		return nil, err
	}
	if name, ok := test["policy"].(string); ok {
		options, err := tutti.NewDataOptions()
		if err != nil {
			return nil, err
		}
		if err := options.SetInt("experimental_distribute.auto_shard_policy",
			int64(policies[name])); err != nil {
			return nil, err
		}
		dataset = dataset.WithOptions(options)
	}
	iterator, err := strategy.Distribute(nil, dataset)
	if err != nil {
		return nil, err
	}
	defer iterator.Close()
	skip := integer(test, "skip_steps", 0)
	limit := integer(test, "take_steps", math.MaxInt32) + skip
	for int64(len(found)) < limit {
		var step tutti.Value
		if test["api"] != nil {
			next, err := iterator.NextOptional(nil)
			if err != nil {
				return nil, err
			}
			held, ok, err := next.Optional()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			step = held
		} else {
			if !iterator.Next() {
				break
			}
			step = iterator.Value()
		}
		local, err := strategy.LocalResults(step)
		if err != nil {
			return nil, err
		}
		found = append(found, local)
	}
	if err := iterator.Err(); err != nil {
		return nil, err
	}
	if skip > int64(len(found)) {
		skip = int64(len(found))
	}
	return found[skip:], nil
}

func runDistribute(test fields) error {
	if err := known(test, "name", "dataset", "workers", "replicas_per_worker", "expect", "api",
		"skip_steps", "take_steps", "policy"); err != nil {
		return err
	}
	if api := test["api"]; api != nil && api != "get_next_as_optional" {
		return notCovered(fmt.Sprint("api ", api))
	}
	if name, ok := test["policy"].(string); ok {
		if _, ok := policies[name]; !ok {
			return notCovered("policy " + name)
		}
	}
	return runWorkers(integer(test, "workers", 1), integer(test, "replicas_per_worker", 1),
		func(r *tutti.Runtime, strategy *tutti.Strategy, worker int64) error {
			found, err := steps(r, strategy, test)
			expected := test["expect"]
			perWorker, ok := expected.(fields)
			if ok && perWorker["error"] != nil {
				return expectError(perWorker, err)
			}
			if err != nil {
				return err
			}
			if ok {
				var list []any
				for _, tensor := range perWorker[fmt.Sprintf("worker%d", worker)].([]any) {
					list = append(list, []any{tensor})
				}
				expected = list
			}
			wanted := expected.([]any)
			if len(found) != len(wanted) {
				return fmt.Errorf("worker %d: expected %d steps, found %d", worker, len(wanted), len(found))
			}
			for i, step := range found {
				if err := compareEach(step, wanted[i].([]any)); err != nil {
					return fmt.Errorf("worker %d, step %d, %w", worker, i, err)
				}
			}
			return nil
		})
}

func compareEach(found []tutti.Value, wanted []any) error {
	if len(found) != len(wanted) {
		return fmt.Errorf("expected %d replicas, found %d", len(wanted), len(found))
	}
	for i, part := range found {
		if err := compare(part, wanted[i], "", 0); err != nil {
			return fmt.Errorf("replica %d: %w", i, err)
		}
	}
	return nil
}

var reduceOps = map[string]tutti.ReduceOp{"SUM": tutti.Sum, "MEAN": tutti.Mean, "MIN": tutti.Min,
	"MAX": tutti.Max, "PROD": tutti.Prod}

// named is the constant of a name.
func named[T any](field string, all map[string]T, name any) (T, error) {
	constant, ok := all[fmt.Sprint(name)]
	if !ok {
		return constant, notCovered(fmt.Sprint(field, " ", name))
	}
	return constant, nil
}

func runReduce(test fields) error {
	if err := known(test, "name", "op", "axis", "gather", "per_replica", "expect", "tolerance",
		"dtype"); err != nil {
		return err
	}
	given := test["per_replica"].([]any)
	strategy, err := tutti.NewMirroredStrategy(devices(int64(len(given)))...)
	if err != nil {
		return err
	}
	defer strategy.Close()
	result, err := func() (tutti.Value, error) {
		perReplica, err := strategy.DistributeValues(context.Background(),
			func(c tutti.ValueContext) (tutti.Value, error) {
				return readValue(given[c.ReplicaIDInSyncGroup])
			})
		if err != nil {
			return tutti.Value{}, err
		}
		if test["gather"] != nil {
			return strategy.Gather(context.Background(), perReplica, int(integer(test, "gather", 0)))
		}
		op, err := named("op", reduceOps, test["op"])
		if err != nil {
			return tutti.Value{}, err
		}
		if test["axis"] == nil {
			return strategy.Reduce(context.Background(), op, perReplica)
		}
		return strategy.ReduceAxis(context.Background(), op, perReplica, int(integer(test, "axis", 0)))
	}()
	if expected, ok := test["expect"].(fields); ok && expected["error"] != nil {
		return expectError(expected, err)
	}
	if err != nil {
		return err
	}
	dtype, _ := test["dtype"].(string)
	return compare(result, test["expect"], dtype, tolerance(test))
}

func readValue(v any) (tutti.Value, error) {
	described, err := read(v)
	if err != nil {
		return tutti.Value{}, err
	}
	return valueOf(described)
}

// makeValues is a per-replica value, or a plain one.
func makeValues(strategy *tutti.Strategy, described fields) (tutti.Value, error) {
	for kind, argument := range described {
		fn, ok := map[string]func(c tutti.ValueContext) (tutti.Value, error){
			"constant": func(tutti.ValueContext) (tutti.Value, error) { return readValue(argument) },
			"component_of": func(c tutti.ValueContext) (tutti.Value, error) {
				all, err := read(argument)
				if err != nil {
					return tutti.Value{}, err
				}
				list := all.(*array)
				width := len(list.numbers) / int(list.shape[0])
				start := int(c.ReplicaIDInSyncGroup) * width
				return valueOf(&array{dtype: list.dtype, shape: list.shape[1:],
					numbers: list.numbers[start : start+width]})
			},
			"replica_id": func(c tutti.ValueContext) (tutti.Value, error) {
				return tutti.OfInt64(int64(c.ReplicaIDInSyncGroup))
			},
			"num_replicas": func(c tutti.ValueContext) (tutti.Value, error) {
				return tutti.OfInt64(int64(c.NumReplicasInSync))
			},
		}[kind]
		if !ok {
			return tutti.Value{}, notCovered("value_fn " + kind)
		}
		return strategy.DistributeValues(context.Background(), fn)
	}
	return tutti.Value{}, nil
}

func runValues(test fields) error {
	if err := known(test, "name", "replicas", "value_fn", "args", "run", "local", "reduce", "expect",
		"variable", "run_assign_add", "run_scatter", "read", "copies_equal", "error",
		"mirrored"); err != nil {
		return err
	}
	run, ok := map[any]tutti.ReplicaFunc{
		nil: func(_ *tutti.ReplicaContext, x tutti.Value) (tutti.Value, error) { return x, nil },
		"double": func(_ *tutti.ReplicaContext, x tutti.Value) (tutti.Value, error) {
			described, err := describe(x)
			if err != nil {
				return tutti.Value{}, err
			}
			given := described.(*array)
			for i := range given.numbers {
				given.numbers[i] *= 2
			}
			return valueOf(given)
		},
		"all_reduce_sum": func(r *tutti.ReplicaContext, x tutti.Value) (tutti.Value, error) {
			return r.AllReduce(tutti.Sum, x)
		},
		"replica_id": func(r *tutti.ReplicaContext, _ tutti.Value) (tutti.Value, error) {
			return tutti.OfInt64(int64(r.ReplicaID()))
		},
	}[test["run"]]
	if !ok {
		return notCovered(fmt.Sprint("run ", test["run"]))
	}
	strategy, err := tutti.NewMirroredStrategy(devices(integer(test, "replicas", 1))...)
	if err != nil {
		return err
	}
	defer strategy.Close()
	if test["variable"] != nil {
		return runVariable(test, strategy)
	}
	var args tutti.Value
	if test["mirrored"] != nil {
		given, err := readValue(test["mirrored"])
		if err != nil {
			return err
		}
		if args, err = strategy.Mirrored(given); err != nil {
			return err
		}
		if args.Distribution() != tutti.DistributedMirrored {
			return fmt.Errorf("no mirrored value: %v", args)
		}
	} else if described, ok := test["value_fn"].(fields); ok {
		args, err = makeValues(strategy, described)
	} else if list, ok := test["args"].([]any); ok && len(list) == 1 {
		args, err = readValue(list[0])
	} else if ok {
		return notCovered("several args")
	}
	if err != nil {
		return err
	}
	result := args // run would give what differs
	if test["mirrored"] == nil || test["run"] != nil {
		if result, err = strategy.Run(nil, run, args); err != nil {
			return err
		}
	}
	if wanted, ok := test["local"].([]any); ok {
		local, err := strategy.LocalResults(result)
		if err != nil {
			return err
		}
		if err := compareEach(local, wanted); err != nil {
			return err
		}
	}
	if test["reduce"] != nil {
		op, err := named("reduce", reduceOps, test["reduce"])
		if err != nil {
			return err
		}
		reduced, err := strategy.Reduce(context.Background(), op, result)
		if err != nil {
			return err
		}
		return compare(reduced, test["expect"], "", 0)
	}
	return nil
}

func runVariable(test fields, strategy *tutti.Strategy) error {
	described := test["variable"].(fields)
	if err := known(described, "value", "synchronization", "aggregation",
		"made_in_replicas"); err != nil {
		return err
	}
	tensorOf := func(v any) (*tutti.Tensor, error) {
		read, err := read(v)
		if err != nil {
			return nil, err
		}
		return read.(*array).tensor()
	}
	start, err := tensorOf(described["value"])
	if err != nil {
		return err
	}
	synchronization, err := named("synchronization", map[string]tutti.Synchronization{
		"AUTO": tutti.SyncAuto, "NONE": tutti.SyncNone, "ON_WRITE": tutti.SyncOnWrite,
		"ON_READ": tutti.SyncOnRead}, described["synchronization"])
	if err != nil {
		return err
	}
	aggregation, err := named("aggregation", map[string]tutti.Aggregation{
		"NONE": tutti.AggregateNone, "SUM": tutti.AggregateSum, "MEAN": tutti.AggregateMean,
		"ONLY_FIRST_REPLICA": tutti.AggregateOnlyFirstReplica}, described["aggregation"])
	if err != nil {
		return err
	}
	options := tutti.VariableOptions{Synchronization: synchronization, Aggregation: aggregation}
	inReplicas := described["made_in_replicas"] == true
	var outside *tutti.Variable
	if !inReplicas {
		if outside, err = strategy.NewVariable(nil, start, options); err != nil {
			return err
		}
	}
	written, err := strategy.Run(nil, func(r *tutti.ReplicaContext,
		_ tutti.Value) (tutti.Value, error) {
		variable := outside
		if inReplicas {
			made, err := strategy.NewVariable(r, start, options)
			if err != nil {
				return tutti.Value{}, err
			}
			variable = made
		}
		if how, ok := test["run_scatter"].(fields); ok {
			if err := scatter(r, variable, how, tensorOf); err != nil {
				return tutti.Value{}, err
			}
			return tutti.OfVariable(variable)
		}
		delta, err := tensorOf(test["run_assign_add"].([]any)[r.ReplicaID()])
		if err != nil {
			return tutti.Value{}, err
		}
		if err := variable.AssignAdd(r, delta); err != nil {
			return tutti.Value{}, err
		}
		return tutti.OfVariable(variable)
	}, tutti.Value{})
	if test["error"] != nil {
		return expectError(fields{"error": test["error"]}, err)
	}
	if err != nil {
		return err
	}
	variable, err := written.Variable()
	if err != nil {
		return err
	}
	read, err := variable.Read(nil)
	if err != nil {
		return err
	}
	copies := []*tutti.Tensor{read}
	if test["copies_equal"] == true {
		_, all, err := variable.Copies()
		if err != nil {
			return err
		}
		copies = append(copies, all...)
	}
	for _, tensor := range copies {
		found, err := arrayOf(tensor)
		if err != nil {
			return err
		}
		if err := compareParts(found, test["read"], "", 0); err != nil {
			return err
		}
	}
	return nil
}

// scatter is this replica's part of a sparse update.
func scatter(r *tutti.ReplicaContext, variable *tutti.Variable, how fields,
	tensorOf func(any) (*tutti.Tensor, error)) error {
	if err := known(how, "op", "values", "indices"); err != nil {
		return err
	}
	op, err := named("op", map[string]tutti.Scatter{"ADD": tutti.ScatterAdd, "SUB": tutti.ScatterSub,
		"UPDATE": tutti.ScatterUpdate, "MIN": tutti.ScatterMin, "MAX": tutti.ScatterMax,
		"MUL": tutti.ScatterMul, "DIV": tutti.ScatterDiv}, how["op"])
	if err != nil {
		return err
	}
	values, err := tensorOf(how["values"].([]any)[r.ReplicaID()])
	if err != nil {
		return err
	}
	indices, err := tensorOf(how["indices"].([]any)[r.ReplicaID()])
	if err != nil {
		return err
	}
	delta, err := tutti.IndexedSlices(values, indices, nil)
	if err != nil {
		return err
	}
	return variable.Scatter(r, op, delta)
}

// deviceSpec is the spec of these fields.
func deviceSpec(v any) (*tutti.DeviceSpec, error) {
	given := v.(fields)
	if err := known(given, "job", "replica", "task", "device_type", "device_index"); err != nil {
		return nil, err
	}
	text := func(name string) string {
		value, _ := given[name].(string)
		return value
	}
	number := func(name string) *int64 {
		if given[name] == nil {
			return nil
		}
		value := integer(given, name, 0)
		return &value
	}
	return tutti.NewDeviceSpec(tutti.DeviceFields{Job: text("job"), Replica: number("replica"),
		Task: number("task"), DeviceType: text("device_type"), DeviceIndex: number("device_index")})
}

func runDeviceSpec(test fields) error {
	if err := known(test, "name", "parse", "spec", "merge", "scopes", "expect"); err != nil {
		return err
	}
	var spec *tutti.DeviceSpec
	var err error
	switch {
	case test["parse"] != nil:
		spec, err = tutti.ParseDeviceSpec(fmt.Sprint(test["parse"]))
	case test["spec"] != nil:
		spec, err = deviceSpec(test["spec"])
	case test["merge"] != nil:
		parts := test["merge"].([]any)
		var outer, inner *tutti.DeviceSpec
		if outer, err = deviceSpec(parts[0]); err == nil {
			if inner, err = deviceSpec(parts[1]); err == nil {
				spec, err = outer.Merge(inner)
			}
		}
	default:
		scope := context.Background()
		for _, text := range test["scopes"].([]any) {
			if err == nil {
				scope, err = tutti.WithDevice(scope, fmt.Sprint(text))
			}
		}
		if err == nil {
			spec = tutti.CurrentDevice(scope)
		}
	}
	expected, ok := test["expect"].(fields)
	if ok && expected["error"] != nil {
		return expectError(expected, err)
	}
	if err != nil {
		return err
	}
	if !ok {
		if spec.String() != test["expect"] {
			return fmt.Errorf("expected %v, found %v", test["expect"], spec)
		}
		return nil
	}
	wanted, err := deviceSpec(expected)
	if err != nil {
		return err
	}
	if !wanted.Equal(spec) {
		return fmt.Errorf("expected %v, found %v", wanted, spec)
	}
	return nil
}
