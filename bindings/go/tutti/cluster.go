package tutti

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"tutti.dev/tutti/internal/native"
)

// ClusterSpec says which processes there are: addresses by job and task.
type ClusterSpec struct{ o *object }

func (c *ClusterSpec) object() *object {
	if c == nil {
		return nil
	}
	return c.o
}

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
	return readText(c.object(), native.Cluster_spec_json)
}

// Jobs are the names of the jobs, sorted. With Tasks they are what a message ClusterDef lists.
func (c *ClusterSpec) Jobs() []string {
	pointer, err := c.object().use()
	if err != nil {
		return nil
	}
	defer c.object().done()
	jobs := make([]string, native.Cluster_spec_job_count(pointer))
	for i := range jobs {
		jobs[i] = native.Cluster_spec_job(pointer, int64(i))
	}
	return jobs
}

// Tasks are the addresses of a job by task, of the indices that there are; nil for an unknown job.
func (c *ClusterSpec) Tasks(job string) map[int]string {
	pointer, err := c.object().use()
	if err != nil {
		return nil
	}
	defer c.object().done()
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

// String is the JSON.
func (c *ClusterSpec) String() string {
	text, err := c.JSON()
	if err != nil {
		return "<" + err.Error() + ">"
	}
	return text
}

// Close ends the reference.
func (c *ClusterSpec) Close() error {
	c.object().close()
	return nil
}

// Resolver finds which processes a job has, and which of them this one is. A *ClusterResolver is
// one; one of your own may also have the methods RPCLayer, Environment, Master and Accelerators or
// NumAccelerators of *ClusterResolver, for which there are defaults. It is asked anew at each
// question, on the goroutine that asks.
type Resolver interface {
	// ClusterSpec are the tasks of the cluster as they are now. The caller does not close it.
	ClusterSpec() (*ClusterSpec, error)
	// TaskType is the job of this process, "worker" and so on; "" when it is not known.
	TaskType() (string, error)
	// TaskID is the index of this process within its job, and whether it is known.
	TaskID() (int64, bool, error)
}

// resolverOf is the library's resolver for any, 0 for none, which stands for TF_CONFIG; end is
// called when it is not needed any more.
func resolverOf(resolver Resolver) (pointer uintptr, end func(), err error) {
	if resolver == nil {
		return 0, nothing, nil
	}
	if own, ok := resolver.(*ClusterResolver); ok {
		if own == nil {
			return 0, nothing, nil
		}
		pointer, err = own.o.use()
		return pointer, own.o.done, err
	}
	handle := answerCallback(func(question []string) (string, error) {
		return answerOf(resolver, question)
	})
	defer handle.Delete()
	name := strings.TrimPrefix(fmt.Sprintf("%T", resolver), "*")
	var made uintptr
	if err := defaultRuntime.with(func(runtime uintptr) uintptr {
		return native.Cluster_resolver_own(runtime, name, uintptr(handle), &made)
	}); err != nil {
		return 0, nothing, err
	}
	return made, func() { native.Tutti_cluster_resolver_release(made) }, nil
}

// ClusterResolver says who the workers are and which of them this process is.
type ClusterResolver struct{ o *object }

func (c *ClusterResolver) object() *object {
	if c == nil {
		return nil
	}
	return c.o
}

func ownClusterResolver(pointer uintptr) *ClusterResolver {
	return &ClusterResolver{own(pointer, "cluster resolver", native.Tutti_cluster_resolver_release)}
}

// ResolverOptions override what a resolver finds.
type ResolverOptions struct {
	Master      string
	TaskType    string
	TaskID      *int64
	RPCLayer    string
	Environment string
	// NumAccelerators of each worker, for a simple resolver: GPUs, or Accelerators by their types;
	// neither: none.
	NumAccelerators *int64
	Accelerators    map[string]int64
}

// accelerators is what the library reads; "" where nothing is said.
func (r ResolverOptions) accelerators() (string, error) {
	if r.Accelerators != nil && r.NumAccelerators != nil {
		return "", invalidArgument("NumAccelerators and Accelerators are both set")
	}
	if r.NumAccelerators != nil {
		return acceleratorsText(map[string]int64{"GPU": *r.NumAccelerators})
	}
	return acceleratorsText(r.Accelerators)
}

func acceleratorsText(counts map[string]int64) (string, error) {
	if counts == nil {
		return "", nil
	}
	text, err := json.Marshal(counts)
	return string(text), err
}

func optional(number *int64) []int64 {
	if number == nil {
		return nil
	}
	return []int64{*number}
}

// NewSimpleClusterResolver answers with what it is given.
func NewSimpleClusterResolver(spec *ClusterSpec,
	options ...ResolverOption) (*ClusterResolver, error) {
	chosen := collect(options, ResolverOption.ofResolver)
	accelerators, err := chosen.accelerators()
	if err != nil {
		return nil, err
	}
	return as(ownClusterResolver)(readOut(spec.object(), func(pointer uintptr, made *uintptr) uintptr {
		return native.Cluster_resolver_simple(pointer, chosen.Master, chosen.TaskType,
			optional(chosen.TaskID), chosen.Environment, accelerators, chosen.RPCLayer, made)
	}))
}

// NewTFConfigClusterResolver reads the variable TF_CONFIG.
func NewTFConfigClusterResolver(options ...ResolverOption) (*ClusterResolver, error) {
	chosen := collect(options, ResolverOption.ofResolver)
	var made uintptr
	if err := check(native.Cluster_resolver_tf_config(chosen.TaskType, optional(chosen.TaskID),
		chosen.RPCLayer, chosen.Environment, &made)); err != nil {
		return nil, err
	}
	return ownClusterResolver(made), nil
}

// ClusterSpec of the workers.
func (c *ClusterResolver) ClusterSpec() (*ClusterSpec, error) {
	return as(ownClusterSpec)(readOut(c.object(), native.Cluster_resolver_cluster_spec))
}

// ClusterSpecContext is ClusterSpec; the wait for a service ends with ctx, within a second.
func (c *ClusterResolver) ClusterSpecContext(ctx context.Context) (*ClusterSpec, error) {
	return as(ownClusterSpec)(waitOut(ctx, c.object(), native.Cluster_resolver_ask_cluster_spec))
}

// Changed is the same resolver, which says what options set of TaskType, TaskID and RPCLayer.
func (c *ClusterResolver) Changed(options ...ResolverOption) (*ClusterResolver, error) {
	chosen := collect(options, ResolverOption.ofResolver)
	return as(ownClusterResolver)(readOut(c.object(), func(pointer uintptr, made *uintptr) uintptr {
		return native.Cluster_resolver_changed(pointer, chosen.TaskType, optional(chosen.TaskID),
			chosen.RPCLayer, made)
	}))
}

// Accelerators of a task by types of devices; of this one without TaskType and TaskID, which is all
// that the library's own resolvers know of. Where nothing is said, those of this machine; a simple
// resolver has what it was given.
func (c *ClusterResolver) Accelerators(options ...ResolverOption) (map[string]int64, error) {
	chosen := collect(options, ResolverOption.ofResolver)
	text, err := readText(c.object(), func(pointer uintptr, made *uintptr) uintptr {
		return native.Cluster_resolver_read_accelerators(pointer, chosen.TaskType,
			optional(chosen.TaskID), made)
	})
	if err != nil {
		return nil, err
	}
	var counts map[string]int64
	err = json.Unmarshal([]byte(text), &counts)
	return counts, err
}

// TaskType of this process; "" where there is none.
func (c *ClusterResolver) TaskType() (string, error) {
	return readText(c.object(), native.Cluster_resolver_task_type)
}

// TaskID of this process, and whether there is one.
func (c *ClusterResolver) TaskID() (int64, bool, error) {
	pointer, err := c.object().use()
	if err != nil {
		return 0, false, err
	}
	defer c.object().done()
	var number native.OptionalInt64
	err = check(native.Cluster_resolver_task_id(pointer, &number))
	return number.Value, number.Present != 0, err
}

// RPCLayer is "grpc", say; "" where there is none.
func (c *ClusterResolver) RPCLayer() (string, error) {
	return readText(c.object(), native.Cluster_resolver_rpc_layer)
}

// Environment is the platform's name; "" where there is none.
func (c *ClusterResolver) Environment() (string, error) {
	return readText(c.object(), native.Cluster_resolver_environment)
}

// Master is the address of a task; of this process's without options.
func (c *ClusterResolver) Master(options ...ResolverOption) (string, error) {
	chosen := collect(options, ResolverOption.ofResolver)
	return readText(c.object(), func(pointer uintptr, made *uintptr) uintptr {
		return native.Cluster_resolver_master(pointer, chosen.TaskType, optional(chosen.TaskID),
			chosen.RPCLayer, made)
	})
}

// NumAccelerators of this worker.
func (c *ClusterResolver) NumAccelerators() (int64, error) {
	pointer, err := c.object().use()
	if err != nil {
		return 0, err
	}
	defer c.object().done()
	var count int64
	err = check(native.Cluster_resolver_num_accelerators(pointer, &count))
	return count, err
}

// Close ends the reference.
func (c *ClusterResolver) Close() error {
	if c != nil {
		c.object().close()
	}
	return nil
}

// Cluster is this process's seat among the workers.
type Cluster struct{ o *object }

func (c *Cluster) object() *object {
	if c == nil {
		return nil
	}
	return c.o
}

// Join takes the seat and waits for all workers. numReplicas is what this worker brings; a nil
// resolver reads TF_CONFIG, and without that the cluster is one of this process alone, so that the
// same program can be run by itself. After the setting join_warning (10 s) the log warns of who is
// missing.
func Join(ctx context.Context, resolver Resolver, numReplicas int) (*Cluster, error) {
	return defaultRuntime.Join(ctx, resolver, numReplicas)
}

// Join with this runtime.
func (r *Runtime) Join(ctx context.Context, resolver Resolver, numReplicas int) (*Cluster, error) {
	pointer, end, err := resolverOf(resolver)
	if err != nil {
		return nil, err
	}
	defer end()
	return as(ownCluster)(waitOut(ctx, r, func(runtime uintptr, call *native.CallOptions,
		made *uintptr) uintptr {
		return native.Cluster_join(runtime, pointer, int64(numReplicas), call, made)
	}))
}

func ownCluster(pointer uintptr) *Cluster {
	return &Cluster{own(pointer, "cluster", native.Tutti_cluster_release)}
}

// Worker is this process's place, -1 when closed.
func (c *Cluster) Worker() int { return c.number(native.Cluster_worker) }

// String is for people: this worker, and of how many.
func (c *Cluster) String() string {
	if c.object().isClosed() {
		return "closed cluster"
	}
	return fmt.Sprintf("cluster, worker %d of %d", c.Worker(), c.NumWorkers())
}

// NumWorkers counts the workers, -1 when closed.
func (c *Cluster) NumWorkers() int { return c.number(native.Cluster_worker_count) }

func (c *Cluster) number(read func(uintptr) int64) int {
	return int(ask(c.object(), -1, read))
}

// DescribeWorker is for people.
func (c *Cluster) DescribeWorker(worker int) (string, error) {
	return readText(c.object(), func(pointer uintptr, made *uintptr) uintptr {
		return native.Cluster_describe_worker(pointer, int64(worker), made)
	})
}

// Check is the failure of the cluster, if it has failed.
func (c *Cluster) Check() error {
	return wait(nil, c.object(), func(pointer uintptr, _ *native.CallOptions) uintptr {
		return native.Cluster_check(pointer)
	})
}

// Abort ends the job on all workers.
func (c *Cluster) Abort(message string) {
	pointer, err := c.object().use()
	if err != nil {
		return
	}
	defer c.object().done()
	native.Cluster_abort(pointer, message)
}

// Fail is for a worker that goes because of an error of its own: the job ends as by Abort, so that
// the others hear why; an elastic job, which goes on without it, does not.
func (c *Cluster) Fail(message string) {
	pointer, err := c.object().use()
	if err != nil {
		return
	}
	defer c.object().done()
	native.Cluster_fail(pointer, message)
}

// Close leaves. Where it is deferred and a panic goes by, the others hear of the panic, as by Fail.
func (c *Cluster) Close() error {
	if cause := recover(); cause != nil {
		if message := whyPanicked(cause); message != "" {
			c.Fail(fmt.Sprintf("worker %d has left by %s", c.Worker(), message))
		}
		_ = closeWith(c.object(), native.Cluster_close)
		panic(cause)
	}
	return closeWith(c.object(), native.Cluster_close)
}

// What a panic tells the others; "" for an error that is about a peer itself, which they know.
func whyPanicked(cause any) string {
	if err, ok := cause.(error); ok {
		if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrAborted) {
			return ""
		}
	}
	return fmt.Sprintf("a panic: %v", cause)
}
