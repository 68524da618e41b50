package tutti

import (
	"context"
	"encoding/json"

	"tutti.dev/tutti/internal/native"
)

// ClusterSpec says which processes there are: addresses by job and task.
type ClusterSpec struct{ o *object }

func ownClusterSpec(pointer uintptr) *ClusterSpec {
	return &ClusterSpec{own(pointer, "cluster spec", native.Tutti_cluster_spec_release)}
}

// NewClusterSpec takes the addresses of each job.
func NewClusterSpec(jobs map[string][]string) (*ClusterSpec, error) {
	text, err := json.Marshal(jobs)
	if err != nil {
		return nil, err
	}
	return ParseClusterSpec(string(text))
}

// ParseClusterSpec takes JSON as in TF_CONFIG's "cluster": {"worker": ["host:port", ...]}.
func ParseClusterSpec(text string) (*ClusterSpec, error) {
	var made uintptr
	if err := check(native.Cluster_spec_create(text, &made)); err != nil {
		return nil, err
	}
	return ownClusterSpec(made), nil
}

// JSON is the spec as ParseClusterSpec reads it.
func (c *ClusterSpec) JSON() (string, error) {
	pointer, err := c.o.use()
	if err != nil {
		return "", err
	}
	defer c.o.done()
	var made uintptr
	if err := check(native.Cluster_spec_json(pointer, &made)); err != nil {
		return "", err
	}
	return takeText(made), nil
}

// Jobs are the names of the jobs.
func (c *ClusterSpec) Jobs() []string {
	pointer, err := c.o.use()
	if err != nil {
		return nil
	}
	defer c.o.done()
	jobs := make([]string, native.Cluster_spec_job_count(pointer))
	for i := range jobs {
		jobs[i] = native.Cluster_spec_job(pointer, int64(i))
	}
	return jobs
}

// Tasks are the addresses of a job by task; nil for an unknown job.
func (c *ClusterSpec) Tasks(job string) map[int]string {
	pointer, err := c.o.use()
	if err != nil {
		return nil
	}
	defer c.o.done()
	var tasks map[int]string
	for i, count := int64(0), native.Cluster_spec_task_count(pointer, job); i < count; i++ {
		if tasks == nil {
			tasks = make(map[int]string)
		}
		index := native.Cluster_spec_task_index(pointer, job, i)
		tasks[int(index)] = native.Cluster_spec_task_address(pointer, job, index)
	}
	return tasks
}

// Close ends the reference.
func (c *ClusterSpec) Close() error {
	c.o.close()
	return nil
}

// ClusterResolver says who the workers are and which of them this process is.
type ClusterResolver struct{ o *object }

func ownClusterResolver(pointer uintptr) *ClusterResolver {
	return &ClusterResolver{own(pointer, "cluster resolver", native.Tutti_cluster_resolver_release)}
}

func (c *ClusterResolver) use() (uintptr, error) {
	if c == nil {
		return 0, nil
	}
	return c.o.use()
}

func (c *ClusterResolver) done() {
	if c != nil {
		c.o.done()
	}
}

// ResolverOptions override what a resolver finds.
type ResolverOptions struct {
	Master      string
	TaskType    string
	TaskID      *int64
	RPCLayer    string
	Environment string
	// NumAccelerators of each worker, for a simple resolver.
	NumAccelerators *int64
}

func optional(number *int64) []int64 {
	if number == nil {
		return nil
	}
	return []int64{*number}
}

// NewSimpleClusterResolver answers with what it is given.
func NewSimpleClusterResolver(spec *ClusterSpec, options ResolverOptions) (*ClusterResolver, error) {
	pointer, err := spec.o.use()
	if err != nil {
		return nil, err
	}
	defer spec.o.done()
	var made uintptr
	if err := check(native.Cluster_resolver_simple(pointer, options.Master, options.TaskType,
		optional(options.TaskID), options.Environment, optional(options.NumAccelerators),
		options.RPCLayer, &made)); err != nil {
		return nil, err
	}
	return ownClusterResolver(made), nil
}

// NewTFConfigClusterResolver reads the variable TF_CONFIG.
func NewTFConfigClusterResolver(options ResolverOptions) (*ClusterResolver, error) {
	var made uintptr
	if err := check(native.Cluster_resolver_tf_config(options.TaskType, optional(options.TaskID),
		options.RPCLayer, options.Environment, &made)); err != nil {
		return nil, err
	}
	return ownClusterResolver(made), nil
}

// ClusterSpec of the workers.
func (c *ClusterResolver) ClusterSpec() (*ClusterSpec, error) {
	made, err := readOut(c.o, native.Cluster_resolver_cluster_spec)
	if err != nil {
		return nil, err
	}
	return ownClusterSpec(made), nil
}

// readOut is a call that gives one thing of an object.
func readOut(o *object, call func(pointer uintptr, made *uintptr) uintptr) (uintptr, error) {
	pointer, err := o.use()
	if err != nil {
		return 0, err
	}
	defer o.done()
	var made uintptr
	if err := check(call(pointer, &made)); err != nil {
		return 0, err
	}
	return made, nil
}

func readText(o *object, call func(pointer uintptr, made *uintptr) uintptr) (string, error) {
	made, err := readOut(o, call)
	return takeText(made), err
}

// TaskType of this process; "" where there is none.
func (c *ClusterResolver) TaskType() (string, error) {
	return readText(c.o, native.Cluster_resolver_task_type)
}

// TaskID of this process, and whether there is one.
func (c *ClusterResolver) TaskID() (int64, bool, error) {
	pointer, err := c.o.use()
	if err != nil {
		return 0, false, err
	}
	defer c.o.done()
	var number native.OptionalInt64
	err = check(native.Cluster_resolver_task_id(pointer, &number))
	return number.Value, number.Present != 0, err
}

// RPCLayer is "grpc", say; "" where there is none.
func (c *ClusterResolver) RPCLayer() (string, error) {
	return readText(c.o, native.Cluster_resolver_rpc_layer)
}

// Environment is the platform's name; "" where there is none.
func (c *ClusterResolver) Environment() (string, error) {
	return readText(c.o, native.Cluster_resolver_environment)
}

// Master is the address of a task; of this process's without options.
func (c *ClusterResolver) Master(options ResolverOptions) (string, error) {
	return readText(c.o, func(pointer uintptr, made *uintptr) uintptr {
		return native.Cluster_resolver_master(pointer, options.TaskType, optional(options.TaskID),
			options.RPCLayer, made)
	})
}

// NumAccelerators of this worker.
func (c *ClusterResolver) NumAccelerators() (int64, error) {
	pointer, err := c.o.use()
	if err != nil {
		return 0, err
	}
	defer c.o.done()
	var count int64
	err = check(native.Cluster_resolver_num_accelerators(pointer, &count))
	return count, err
}

// Close ends the reference.
func (c *ClusterResolver) Close() error {
	if c != nil {
		c.o.close()
	}
	return nil
}

// Cluster is this process's seat among the workers.
type Cluster struct{ o *object }

// Join takes the seat and waits for all workers. numReplicas is what this worker brings.
func Join(ctx context.Context, resolver *ClusterResolver, numReplicas int) (*Cluster, error) {
	return defaultRuntime.Join(ctx, resolver, numReplicas)
}

// Join with this runtime.
func (r *Runtime) Join(ctx context.Context, resolver *ClusterResolver, numReplicas int) (*Cluster, error) {
	pointer, err := resolver.use()
	if err != nil {
		return nil, err
	}
	defer resolver.done()
	call, end, err := callOf(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	made, err := r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Cluster_join(runtime, pointer, int64(numReplicas), call, made)
	})
	if err != nil {
		return nil, err
	}
	return &Cluster{own(made, "cluster", native.Tutti_cluster_release)}, nil
}

// Worker is this process's place, -1 when closed.
func (c *Cluster) Worker() int { return c.number(native.Cluster_worker) }

// NumWorkers counts the workers, -1 when closed.
func (c *Cluster) NumWorkers() int { return c.number(native.Cluster_worker_count) }

func (c *Cluster) number(read func(uintptr) int64) int {
	pointer, err := c.o.use()
	if err != nil {
		return -1
	}
	defer c.o.done()
	return int(read(pointer))
}

// DescribeWorker is for people.
func (c *Cluster) DescribeWorker(worker int) (string, error) {
	return readText(c.o, func(pointer uintptr, made *uintptr) uintptr {
		return native.Cluster_describe_worker(pointer, int64(worker), made)
	})
}

// Check is the failure of the cluster, if it has failed.
func (c *Cluster) Check() error {
	pointer, err := c.o.use()
	if err != nil {
		return err
	}
	defer c.o.done()
	return check(native.Cluster_check(pointer))
}

// Abort ends the job on all workers.
func (c *Cluster) Abort(message string) {
	pointer, err := c.o.use()
	if err != nil {
		return
	}
	defer c.o.done()
	native.Cluster_abort(pointer, message)
}

// Close leaves.
func (c *Cluster) Close() error { return closeWith(c.o, native.Cluster_close) }

// closeWith closes what has a close of its own; again it is nothing.
func closeWith(o *object, call func(pointer uintptr, call *native.CallOptions) uintptr) error {
	if o.isClosed() {
		return nil
	}
	pointer, err := o.use()
	if err != nil {
		return nil
	}
	err = check(call(pointer, nil))
	o.done()
	o.close()
	return err
}
