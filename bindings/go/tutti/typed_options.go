package tutti

import "time"

// Each call that can be told how takes options of its own type: functions, of which one that serves
// several calls is an option of each, or the struct with all of them, which counts for every field
// and so comes first.

// StrategyOption is an option of what makes a strategy.
type StrategyOption interface{ ofStrategy(*StrategyOptions) }

// VariableOption is an option of NewVariable.
type VariableOption interface{ ofVariable(*VariableOptions) }

// BucketPlanOption is an option of NewBucketPlan.
type BucketPlanOption interface{ ofBucketPlan(*BucketPlanOptions) }

// InputOption is an option of DistributeDataset and DistributeFromFunction.
type InputOption interface{ ofInput(*InputOptions) }

// FunctionOption is an option of NewFunction and RegisterFunction.
type FunctionOption interface{ ofFunction(*FunctionOptions) }

// RunOption is an option of RunWithOptions.
type RunOption interface{ ofRun(*RunOptions) }

// UpdateOption is an option of Update and UpdateNonSlot.
type UpdateOption interface{ ofUpdate(*UpdateOptions) }

// WrapOption is an option of Wrap.
type WrapOption interface{ ofWrap(*WrapOptions) }

// DumpOption is an option of EnableDumpDebugInfo.
type DumpOption interface{ ofDump(*DumpOptions) }

// CommunicationOption is a hint for WithCommunication.
type CommunicationOption interface{ ofCommunication(*CommunicationOptions) }

// ResolverOption is an option of the resolvers that read no service, and of Master.
type ResolverOption interface{ ofResolver(*ResolverOptions) }

// SlurmOption is an option of NewSlurmClusterResolver.
type SlurmOption interface{ ofSlurm(*SlurmOptions) }

// KubernetesOption is an option of NewKubernetesClusterResolver.
type KubernetesOption interface{ ofKubernetes(*KubernetesOptions) }

// GCEOption is an option of NewGCEClusterResolver.
type GCEOption interface{ ofGCE(*GCEOptions) }

// NamingOption is what WithName gives.
type NamingOption interface {
	Option
	StrategyOption
	VariableOption
	FunctionOption
}

// MappingOption is an option of Map and Filter, and of the functions that they take.
type MappingOption interface {
	Option
	FunctionOption
}

// HintOption is a hint for the collectives of a strategy or of one call.
type HintOption interface {
	CommunicationOption
	StrategyOption
}

// PackOption is what WithBytesPerPack gives.
type PackOption interface {
	HintOption
	BucketPlanOption
}

// TaskOption is what says to a resolver, or to Master, which task is meant.
type TaskOption interface {
	ResolverOption
	SlurmOption
	KubernetesOption
	GCEOption
}

// PortOption is what WithPort gives.
type PortOption interface {
	SlurmOption
	KubernetesOption
	GCEOption
}

// ServiceOption is an option of each resolver that asks a service.
type ServiceOption interface {
	KubernetesOption
	GCEOption
}

type (
	strategyOption      func(*StrategyOptions)
	variableOption      func(*VariableOptions)
	bucketPlanOption    func(*BucketPlanOptions)
	inputOption         func(*InputOptions)
	functionOption      func(*FunctionOptions)
	runOption           func(*RunOptions)
	updateOption        func(*UpdateOptions)
	wrapOption          func(*WrapOptions)
	dumpOption          func(*DumpOptions)
	communicationOption func(*CommunicationOptions)
	resolverOption      func(*ResolverOptions)
	slurmOption         func(*SlurmOptions)
	kubernetesOption    func(*KubernetesOptions)
	gceOption           func(*GCEOptions)
)

func (o strategyOption) ofStrategy(options *StrategyOptions)                 { o(options) }
func (o variableOption) ofVariable(options *VariableOptions)                 { o(options) }
func (o bucketPlanOption) ofBucketPlan(options *BucketPlanOptions)           { o(options) }
func (o inputOption) ofInput(options *InputOptions)                          { o(options) }
func (o functionOption) ofFunction(options *FunctionOptions)                 { o(options) }
func (o runOption) ofRun(options *RunOptions)                                { o(options) }
func (o updateOption) ofUpdate(options *UpdateOptions)                       { o(options) }
func (o wrapOption) ofWrap(options *WrapOptions)                             { o(options) }
func (o dumpOption) ofDump(options *DumpOptions)                             { o(options) }
func (o communicationOption) ofCommunication(options *CommunicationOptions)  { o(options) }
func (o resolverOption) ofResolver(options *ResolverOptions)                 { o(options) }
func (o slurmOption) ofSlurm(options *SlurmOptions)                          { o(options) }
func (o kubernetesOption) ofKubernetes(options *KubernetesOptions)           { o(options) }
func (o gceOption) ofGCE(options *GCEOptions)                                { o(options) }
func (o StrategyOptions) ofStrategy(options *StrategyOptions)                { *options = o }
func (o VariableOptions) ofVariable(options *VariableOptions)                { *options = o }
func (o BucketPlanOptions) ofBucketPlan(options *BucketPlanOptions)          { *options = o }
func (o InputOptions) ofInput(options *InputOptions)                         { *options = o }
func (o FunctionOptions) ofFunction(options *FunctionOptions)                { *options = o }
func (o RunOptions) ofRun(options *RunOptions)                               { *options = o }
func (o UpdateOptions) ofUpdate(options *UpdateOptions)                      { *options = o }
func (o WrapOptions) ofWrap(options *WrapOptions)                            { *options = o }
func (o DumpOptions) ofDump(options *DumpOptions)                            { *options = o }
func (o CommunicationOptions) ofCommunication(options *CommunicationOptions) { *options = o }
func (o ResolverOptions) ofResolver(options *ResolverOptions)                { *options = o }
func (o SlurmOptions) ofSlurm(options *SlurmOptions)                         { *options = o }
func (o KubernetesOptions) ofKubernetes(options *KubernetesOptions)          { *options = o }
func (o GCEOptions) ofGCE(options *GCEOptions)                               { *options = o }

// collect is what all options say, one after the other; nil says nothing.
func collect[T, O any](options []O, add func(O, *T)) T {
	var all T
	for _, option := range options {
		if any(option) != nil {
			add(option, &all)
		}
	}
	return all
}

type namingOption struct {
	operationOption
	strategyOption
	variableOption
	functionOption
}

// WithName names a dataset's operation, a function, a variable or a strategy in messages.
func WithName(name string) NamingOption {
	return namingOption{func(op *operation) { op.name = name },
		func(options *StrategyOptions) { options.Name = name },
		func(options *VariableOptions) { options.Name = name },
		func(options *FunctionOptions) { options.Name = name }}
}

type mappingOption struct {
	operationOption
	functionOption
}

// WithSlab lets the function of Map or Filter have many rows at once.
func WithSlab() MappingOption {
	return mappingOption{func(op *operation) { op.slab = true },
		func(options *FunctionOptions) { options.Slab = true }}
}

// WithOutput is the spec of what the function of Map gives.
func WithOutput(spec *Spec) MappingOption {
	return mappingOption{func(op *operation) { op.output = spec },
		func(options *FunctionOptions) { options.Output = spec }}
}

// WithDevices are the devices of a strategy's replicas; none: all GPUs, else the CPU.
func WithDevices(devices ...string) StrategyOption {
	return strategyOption(func(options *StrategyOptions) { options.Devices = devices })
}

// WithCrossDeviceOps is how a Mirrored or CentralStorage strategy reduces and copies.
func WithCrossDeviceOps(ops CrossDeviceOps) StrategyOption {
	return strategyOption(func(options *StrategyOptions) { options.CrossDeviceOps = ops })
}

// WithResolver is who says who the workers of a MultiWorkerMirrored strategy are.
func WithResolver(resolver Resolver) StrategyOption {
	return strategyOption(func(options *StrategyOptions) { options.Resolver = resolver })
}

type hintOption struct {
	communicationOption
	strategyOption
}

func hint(set func(*CommunicationOptions)) hintOption {
	return hintOption{set, func(options *StrategyOptions) { set(&options.Communication) }}
}

// WithTimeout limits collectives whose context has no deadline; 0: no limit.
func WithTimeout(timeout time.Duration) HintOption {
	return hint(func(options *CommunicationOptions) { options.Timeout = &timeout })
}

// WithImplementation is how the bytes of collectives move.
func WithImplementation(implementation CommunicationImplementation) HintOption {
	return hint(func(options *CommunicationOptions) { options.Implementation = implementation })
}

type packOption struct {
	hintOption
	bucketPlanOption
}

// WithBytesPerPack is how many bytes of many tensors travel in one call; 0: as the strategy says,
// of a bucket plan 4 MiB.
func WithBytesPerPack(bytes int) PackOption {
	return packOption{hint(func(options *CommunicationOptions) { options.BytesPerPack = bytes }),
		func(options *BucketPlanOptions) { options.BytesPerPack = int64(bytes) }}
}

// WithOwnTensors lets a bucket plan make its gradients, see BucketPlan.Tensor.
func WithOwnTensors() BucketPlanOption {
	return bucketPlanOption(func(options *BucketPlanOptions) { options.OwnTensors = true })
}

// WithNames are the names of a bucket plan's gradients.
func WithNames(names ...string) BucketPlanOption {
	return bucketPlanOption(func(options *BucketPlanOptions) { options.Names = names })
}

// WithSynchronization is when the copies of a variable become one.
func WithSynchronization(synchronization Synchronization) VariableOption {
	return variableOption(func(o *VariableOptions) { o.Synchronization = synchronization })
}

// WithAggregation is what the replicas' writes into a variable become together.
func WithAggregation(aggregation Aggregation) VariableOption {
	return variableOption(func(options *VariableOptions) { options.Aggregation = aggregation })
}

// WithTrainable says whether an optimizer changes a variable. Without it: yes.
func WithTrainable(flag bool) VariableOption {
	return variableOption(func(options *VariableOptions) { options.NotTrainable = !flag })
}

// WithShape is what the first value of a variable has to fit, -1 for a size that may be any.
func WithShape(dims ...int64) VariableOption {
	return variableOption(func(options *VariableOptions) {
		options.Shape = append([]int64{}, dims...)
	})
}

// WithRebatch is how batches are cut.
func WithRebatch(rebatch Rebatch) InputOption {
	return inputOption(func(options *InputOptions) { options.Rebatch = rebatch })
}

// WithReplicationMode is how many input pipelines there are.
func WithReplicationMode(mode InputReplicationMode) InputOption {
	return inputOption(func(options *InputOptions) { options.ReplicationMode = mode })
}

// WithPrefetch says whether what is made ahead lies on the replicas' devices. Without it: yes.
func WithPrefetch(flag bool) InputOption {
	return inputOption(func(options *InputOptions) { options.NoPrefetch = !flag })
}

// WithDatasetOnDevice makes elements on the device of the replica, see InputOptions.
func WithDatasetOnDevice() InputOption {
	return inputOption(func(options *InputOptions) { options.PlaceDatasetOnDevice = true })
}

// WithDynamicBatchSize says whether batches may be partial, see RunOptions. Without it: yes.
func WithDynamicBatchSize(flag bool) RunOption {
	return runOption(func(options *RunOptions) { options.NoDynamicBatchSize = !flag })
}

// WithBucketizing pads shapes to few, see RunOptions.
func WithBucketizing(flag bool) RunOption {
	return runOption(func(options *RunOptions) { options.BucketizingDynamicShape = flag })
}

// WithGrouped says whether Update gives one value, or else a tuple of the devices' results. Without
// it: one value.
func WithGrouped(flag bool) UpdateOption {
	return updateOption(func(options *UpdateOptions) { options.Ungrouped = !flag })
}

// WithStrides are those of wrapped memory, in elements.
func WithStrides(strides ...int64) WrapOption {
	return wrapOption(func(options *WrapOptions) { options.Strides = strides })
}

// WithReadOnly says that nobody writes wrapped memory through the tensor.
func WithReadOnly() WrapOption {
	return wrapOption(func(options *WrapOptions) { options.ReadOnly = true })
}

// WithRelease is called once when nobody uses wrapped memory any more, see WrapOptions.
func WithRelease(release func()) WrapOption {
	return wrapOption(func(options *WrapOptions) { options.Release = release })
}

// WithDebugMode is what a dump keeps of a tensor.
func WithDebugMode(mode DebugMode) DumpOption {
	return dumpOption(func(options *DumpOptions) { options.Mode = mode })
}

// WithCircularBufferSize is how many of the most recent events a dump keeps until they are flushed;
// 0 or less: all are written.
func WithCircularBufferSize(events int64) DumpOption {
	return dumpOption(func(options *DumpOptions) { options.CircularBufferSize = &events })
}

// WithOps are the operations that a dump takes, an expression in ECMAScript's syntax that
// is matched at the beginning of their names.
func WithOps(expression string) DumpOption {
	return dumpOption(func(options *DumpOptions) { options.OpRegex = expression })
}

// WithDTypes says of a dtype whether a dump takes it.
func WithDTypes(taken func(DType) bool) DumpOption {
	return dumpOption(func(options *DumpOptions) { options.DTypes = taken })
}

type taskOption struct {
	resolverOption
	slurmOption
	kubernetesOption
	gceOption
}

// WithTask is the task that is meant: of this process, or whose address Master gives.
func WithTask(taskType string, id int64) TaskOption {
	return taskOption{
		func(options *ResolverOptions) { options.TaskType, options.TaskID = taskType, &id },
		func(options *SlurmOptions) { options.TaskType, options.TaskID = taskType, &id },
		func(options *KubernetesOptions) { options.TaskType, options.TaskID = taskType, &id },
		func(options *GCEOptions) { options.TaskType, options.TaskID = taskType, id }}
}

// WithRPCLayer is "grpc", say, which stands before an address of Master.
func WithRPCLayer(layer string) TaskOption {
	return taskOption{
		func(options *ResolverOptions) { options.RPCLayer = layer },
		func(options *SlurmOptions) { options.RPCLayer = layer },
		func(options *KubernetesOptions) { options.RPCLayer = layer },
		func(options *GCEOptions) { options.RPCLayer = layer }}
}

// WithMaster is the address that a simple resolver gives as Master.
func WithMaster(address string) ResolverOption {
	return resolverOption(func(options *ResolverOptions) { options.Master = address })
}

// WithEnvironment is the platform's name.
func WithEnvironment(name string) ResolverOption {
	return resolverOption(func(options *ResolverOptions) { options.Environment = name })
}

// WithNumAccelerators is how many each worker has, for a simple resolver.
func WithNumAccelerators(count int64) ResolverOption {
	return resolverOption(func(options *ResolverOptions) { options.NumAccelerators = &count })
}

// WithAccelerators is how many each worker has of each type, for a simple resolver.
func WithAccelerators(counts map[string]int64) ResolverOption {
	return resolverOption(func(options *ResolverOptions) { options.Accelerators = counts })
}

type portOption struct {
	slurmOption
	kubernetesOption
	gceOption
}

// WithPort is the port of each task; of Slurm the first one on each node.
func WithPort(port int) PortOption {
	return portOption{
		func(options *SlurmOptions) { options.PortBase = port },
		func(options *KubernetesOptions) { options.Port = port },
		func(options *GCEOptions) { options.Port = port }}
}

type serviceOption struct {
	kubernetesOption
	gceOption
}

// WithServiceTimeout limits a question to the service with all its pages; without it 30 s.
func WithServiceTimeout(timeout time.Duration) ServiceOption {
	return serviceOption{
		func(options *KubernetesOptions) { options.Timeout = timeout },
		func(options *GCEOptions) { options.Timeout = timeout }}
}

// WithJobs are the jobs in the order in which they take Slurm's tasks. Without it every task is a
// worker.
func WithJobs(jobs ...SlurmJob) SlurmOption {
	return slurmOption(func(options *SlurmOptions) { options.Jobs = jobs })
}

// WithTasksPerNode is how many tasks each node has. Without it: as Slurm says.
func WithTasksPerNode(tasks int) SlurmOption {
	return slurmOption(func(options *SlurmOptions) { options.TasksPerNode = tasks })
}

// WithTasksOfNode is how many tasks each node has, by the nodes' names.
func WithTasksOfNode(tasks map[string]int) SlurmOption {
	return slurmOption(func(options *SlurmOptions) { options.TasksOfNode = tasks })
}

// WithGPUsPerNode is how many GPUs each node has. Without it: those that nvidia-smi lists, else 0.
func WithGPUsPerNode(count int64) SlurmOption {
	return slurmOption(func(options *SlurmOptions) { options.GPUsPerNode = &count })
}

// WithGPUsPerTask is how many GPUs each task has. Without it: those of a node by its tasks.
func WithGPUsPerTask(count int64) SlurmOption {
	return slurmOption(func(options *SlurmOptions) { options.GPUsPerTask = &count })
}

// WithVisibleDevicesKept leaves CUDA_VISIBLE_DEVICES as it is.
func WithVisibleDevicesKept() SlurmOption {
	return slurmOption(func(options *SlurmOptions) { options.KeepVisibleDevices = true })
}

// WithJobLabels are the label selectors of each job's pods. Without it worker has
// "job-name=tensorflow".
func WithJobLabels(labels map[string][]string) KubernetesOption {
	return kubernetesOption(func(options *KubernetesOptions) { options.JobLabels = labels })
}

// WithHostIP takes the addresses of the pods' nodes.
func WithHostIP() KubernetesOption {
	return kubernetesOption(func(options *KubernetesOptions) { options.HostIP = true })
}

// WithAccountFolder is where the service account is. Without it: the pod's.
func WithAccountFolder(folder string) KubernetesOption {
	return kubernetesOption(func(options *KubernetesOptions) { options.AccountFolder = folder })
}

// WithNamespace is whose pods are meant. Without it: the service account's.
func WithNamespace(name string) KubernetesOption {
	return kubernetesOption(func(options *KubernetesOptions) { options.Namespace = name })
}

// WithProject is that of the group. Without it: this instance's.
func WithProject(name string) GCEOption {
	return gceOption(func(options *GCEOptions) { options.Project = name })
}

// WithZone is that of the group. Without it: this instance's.
func WithZone(name string) GCEOption {
	return gceOption(func(options *GCEOptions) { options.Zone = name })
}

// WithToken is what requests carry. Without it: this instance's account gives it.
func WithToken(token string) GCEOption {
	return gceOption(func(options *GCEOptions) { options.Token = token })
}

// WithEndpoint is where the service is, and WithCAFile has its certificates.
func WithEndpoint(url string) GCEOption {
	return gceOption(func(options *GCEOptions) { options.Endpoint = url })
}

// WithCAFile is a file of certificates that the service's is checked by. Without it: the system's.
func WithCAFile(file string) GCEOption {
	return gceOption(func(options *GCEOptions) { options.CAFile = file })
}

// WithClient is asked instead of the API server, as KubernetesOptions.Client says.
func WithClient(client func(labelSelector, page string) (string, error)) KubernetesOption {
	return kubernetesOption(func(options *KubernetesOptions) { options.Client = client })
}

// WithService is asked instead of Compute Engine.
func WithService(service GCEService) GCEOption {
	return gceOption(func(options *GCEOptions) { options.Service = service })
}

// WithCredentials is asked for the token of each request.
func WithCredentials(token func() (string, error)) GCEOption {
	return gceOption(func(options *GCEOptions) { options.Credentials = token })
}
