package tutti

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"tutti.dev/tutti/internal/native"
)

// SlurmOptions of NewSlurmClusterResolver; the zero value takes everything from Slurm.
type SlurmOptions struct {
	// Jobs in the order in which they take Slurm's tasks; none: every task is a worker.
	Jobs []SlurmJob
	// TasksPerNode is the same for all nodes, TasksOfNode by their names; neither: as Slurm says.
	TasksPerNode int
	TasksOfNode  map[string]int
	// PortBase is the first port on each node; 0: 8888.
	PortBase int
	// GPUsPerNode; nil: those that nvidia-smi lists, else 0. GPUsPerTask; nil: those of a node by
	// its tasks.
	GPUsPerNode, GPUsPerTask *int64
	// KeepVisibleDevices leaves CUDA_VISIBLE_DEVICES as it is.
	KeepVisibleDevices bool
	RPCLayer           string
	// TaskType and TaskID beat what Slurm says.
	TaskType string
	TaskID   *int64
}

// SlurmJob is a job of the cluster and the number of its tasks.
type SlurmJob struct {
	Name  string
	Tasks int
}

// NewSlurmClusterResolver reads what srun tells each task of a step, anew at each question. Reading
// the cluster puts this task's part of the node's GPUs into CUDA_VISIBLE_DEVICES. What it is asked
// fails with FailedPrecondition where Slurm has not started this process, or started fewer tasks or
// has fewer GPUs than are asked for.
func NewSlurmClusterResolver(options ...SlurmOption) (*ClusterResolver, error) {
	chosen := collect(options, SlurmOption.ofSlurm)
	var jobs, nodes []string
	for _, job := range chosen.Jobs {
		jobs = append(jobs, job.Name+":"+strconv.Itoa(job.Tasks))
	}
	for node, tasks := range chosen.TasksOfNode {
		nodes = append(nodes, node+":"+strconv.Itoa(tasks))
	}
	if chosen.TasksPerNode != 0 {
		nodes = append(nodes, strconv.Itoa(chosen.TasksPerNode))
	}
	var made uintptr
	if err := check(native.Cluster_resolver_slurm(strings.Join(jobs, ","), strings.Join(nodes, ","),
		portOf(chosen.PortBase), optional(chosen.GPUsPerNode), optional(chosen.GPUsPerTask),
		tristate(!chosen.KeepVisibleDevices), chosen.RPCLayer, chosen.TaskType,
		optional(chosen.TaskID), &made)); err != nil {
		return nil, err
	}
	return ownClusterResolver(made), nil
}

// KubernetesOptions of NewKubernetesClusterResolver; the zero value takes everything from the pod.
type KubernetesOptions struct {
	// JobLabels are the label selectors of each job's pods; none: worker has "job-name=tensorflow".
	JobLabels map[string][]string
	// Port of each task; 0: 8470.
	Port     int
	RPCLayer string
	// TaskType and TaskID of this process; unset: those of the pod with this machine's name.
	TaskType string
	TaskID   *int64
	// HostIP takes the addresses of the pods' nodes.
	HostIP bool
	// AccountFolder and Namespace of the service account; "": the pod's.
	AccountFolder, Namespace string
	// Timeout of a question with all its pages; 0: 30 s.
	Timeout time.Duration
	// Client is asked instead of the API server: for the pods of a label selector it gives the JSON
	// of a PodList. page is "" for the first one, else what metadata.continue said.
	Client func(labelSelector, page string) (string, error)
}

// NewKubernetesClusterResolver asks Kubernetes for the running pods of each job, in the natural
// order of their names, anew at each question, as the pod's service account, which needs the right
// to list pods.
func NewKubernetesClusterResolver(options ...KubernetesOption) (*ClusterResolver, error) {
	chosen := collect(options, KubernetesOption.ofKubernetes)
	labels := ""
	if chosen.JobLabels != nil {
		text, err := json.Marshal(chosen.JobLabels)
		if err != nil {
			return nil, err
		}
		labels = string(text)
	}
	var made uintptr
	if chosen.Client != nil {
		handle := answerCallback(func(question []string) (string, error) {
			return chosen.Client(question[1], question[2])
		})
		defer handle.Delete()
		err := defaultRuntime.with(func(runtime uintptr) uintptr {
			return native.Cluster_resolver_kubernetes_client(runtime, uintptr(handle), labels,
				portOf(chosen.Port), chosen.RPCLayer, chosen.TaskType,
				optional(chosen.TaskID), tristate(chosen.HostIP), int64(chosen.Timeout), &made)
		})
		if err != nil {
			return nil, err
		}
		return ownClusterResolver(made), nil
	}
	if err := check(native.Cluster_resolver_kubernetes(labels, portOf(chosen.Port),
		chosen.RPCLayer, chosen.TaskType, optional(chosen.TaskID), tristate(chosen.HostIP),
		chosen.AccountFolder, chosen.Namespace, int64(chosen.Timeout), &made)); err != nil {
		return nil, err
	}
	return ownClusterResolver(made), nil
}

// GCEOptions of NewGCEClusterResolver; what is unset is this instance's.
type GCEOptions struct {
	Project, Zone string
	// Port of each task; 0: 8470.
	Port int
	// TaskType of all instances, by default "worker", and TaskID of this one.
	TaskType string
	TaskID   int64
	RPCLayer string
	Token    string
	// Endpoint is where the service is, and CAFile has its certificates.
	Endpoint, CAFile string
	// Timeout of a question with all its pages; 0: 30 s.
	Timeout time.Duration
	// Service is asked instead of Compute Engine; Credentials for the token of each request, instead
	// of Token.
	Service     GCEService
	Credentials func() (string, error)
}

// NewGCEClusterResolver asks Google Compute Engine for the running instances of a group, in the
// natural order of their names, anew at each question.
func NewGCEClusterResolver(instanceGroup string, options ...GCEOption) (*ClusterResolver, error) {
	chosen := collect(options, GCEOption.ofGCE)
	var made uintptr
	if chosen.Service != nil || chosen.Credentials != nil {
		handle := answerCallback(chosen.answer)
		defer handle.Delete()
		err := defaultRuntime.with(func(runtime uintptr) uintptr {
			return native.Cluster_resolver_gce_service(runtime, instanceGroup, uintptr(handle),
				chosen.Service != nil, chosen.Credentials != nil, chosen.Project, chosen.Zone,
				portOf(chosen.Port), chosen.TaskType, []int64{chosen.TaskID}, chosen.RPCLayer,
				chosen.Endpoint, chosen.CAFile, int64(chosen.Timeout), &made)
		})
		if err != nil {
			return nil, err
		}
		return ownClusterResolver(made), nil
	}
	if err := check(native.Cluster_resolver_gce(instanceGroup, chosen.Project, chosen.Zone,
		portOf(chosen.Port), chosen.TaskType, []int64{chosen.TaskID}, chosen.RPCLayer,
		chosen.Token, chosen.Endpoint, chosen.CAFile, int64(chosen.Timeout),
		&made)); err != nil {
		return nil, err
	}
	return ownClusterResolver(made), nil
}

func portOf(port int) []int64 {
	if port == 0 {
		return nil
	}
	return []int64{int64(port)}
}

// UnionResolver is several resolvers as one, each asked anew at each question.
type UnionResolver struct {
	resolvers []Resolver
	options   ResolverOptions
}

// NewUnionResolver joins the clusters of the resolvers: lists of one job in order; where one has
// gaps all keep their indices, and a task that comes twice is NotFound when the cluster is read.
// TaskType, TaskID and RPCLayer of the options beat what the first resolver says, which answers
// everything else.
func NewUnionResolver(options ResolverOptions, resolvers ...Resolver) (*UnionResolver, error) {
	union := &UnionResolver{resolvers, options}
	made, err := union.now()
	if err != nil {
		return nil, err
	}
	return union, made.Close()
}

// now is the library's resolver of what all say now.
func (u *UnionResolver) now() (*ClusterResolver, error) {
	var pointers []uintptr
	for _, resolver := range u.resolvers {
		pointer, end, err := resolverOf(resolver)
		if err != nil {
			return nil, err
		}
		defer end()
		pointers = append(pointers, pointer)
	}
	var made uintptr
	if err := check(native.Cluster_resolver_union(pointers, u.options.TaskType,
		optional(u.options.TaskID), u.options.RPCLayer, &made)); err != nil {
		return nil, err
	}
	return ownClusterResolver(made), nil
}

func askUnion[T any](u *UnionResolver, ask func(c *ClusterResolver) (T, error)) (T, error) {
	made, err := u.now()
	if err != nil {
		var nothing T
		return nothing, err
	}
	defer made.Close()
	return ask(made)
}

// ClusterSpec has the jobs of all.
func (u *UnionResolver) ClusterSpec() (*ClusterSpec, error) {
	return askUnion(u, (*ClusterResolver).ClusterSpec)
}

// TaskType of this process; "" where there is none.
func (u *UnionResolver) TaskType() (string, error) {
	return askUnion(u, (*ClusterResolver).TaskType)
}

// TaskID of this process, and whether there is one.
func (u *UnionResolver) TaskID() (id int64, known bool, err error) {
	id, err = askUnion(u, func(c *ClusterResolver) (int64, error) {
		var id int64
		var err error
		id, known, err = c.TaskID()
		return id, err
	})
	return id, known, err
}

// RPCLayer is "grpc", say; "" where there is none.
func (u *UnionResolver) RPCLayer() (string, error) {
	return askUnion(u, (*ClusterResolver).RPCLayer)
}

// Environment is the platform's name; "" where there is none.
func (u *UnionResolver) Environment() (string, error) {
	return askUnion(u, (*ClusterResolver).Environment)
}

// Master is the address of a task; without both of its parts the first resolver's.
func (u *UnionResolver) Master(options ...ResolverOption) (string, error) {
	return askUnion(u, func(c *ClusterResolver) (string, error) { return c.Master(options...) })
}

// Accelerators of a task by types of devices: as the first resolver says.
func (u *UnionResolver) Accelerators(options ...ResolverOption) (map[string]int64, error) {
	return askUnion(u, func(c *ClusterResolver) (map[string]int64, error) {
		return c.Accelerators(options...)
	})
}

// NumAccelerators of this worker.
func (u *UnionResolver) NumAccelerators() (int64, error) {
	return askUnion(u, (*ClusterResolver).NumAccelerators)
}
