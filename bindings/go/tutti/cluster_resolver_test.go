package tutti

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// slurmStep is what srun tells task 3 of 4 on two nodes.
func slurmStep(t *testing.T, more map[string]string) {
	t.Helper()
	step := map[string]string{
		"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
		"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3",
	}
	for name, value := range more {
		step[name] = value
	}
	for name, value := range step {
		t.Setenv(name, value)
	}
}

func clusterOf(t *testing.T, resolver Resolver) map[string]map[int]string {
	t.Helper()
	spec, err := resolver.ClusterSpec()
	if err != nil {
		t.Fatal(err)
	}
	defer spec.Close()
	jobs := map[string]map[int]string{}
	for _, job := range spec.Jobs() {
		jobs[job] = spec.Tasks(job)
	}
	return jobs
}

func TestSlurmSaysWhoTheWorkersAre(t *testing.T) {
	none := int64(0)
	resolver, err := NewSlurmClusterResolver(SlurmOptions{
		Jobs: []SlurmJob{{"ps", 1}, {"worker", 3}}, PortBase: 9000, GPUsPerNode: &none,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resolver.Close()
	if _, err := resolver.ClusterSpec(); !errors.Is(err, ErrFailedPrecondition) ||
		!strings.Contains(err.Error(), "SLURM_STEP_NODELIST is not set") {
		t.Fatal(err)
	}
	slurmStep(t, nil)
	jobs := clusterOf(t, resolver)
	if jobs["ps"][0] != "n1:9000" || jobs["worker"][0] != "n1:9001" ||
		jobs["worker"][2] != "n2:9001" {
		t.Fatal(jobs)
	}
	job, _ := resolver.TaskType()
	if id, known, _ := resolver.TaskID(); job != "worker" || id != 2 || !known {
		t.Fatal(job, id, known)
	}
	t.Setenv("SLURM_STEP_NODELIST", "n[0-999999999]")
	if _, err := resolver.ClusterSpec(); !errors.Is(err, ErrInvalidArgument) ||
		!strings.Contains(err.Error(), "more than 65536 hosts") {
		t.Fatal(err)
	}
	if _, err := NewSlurmClusterResolver(SlurmOptions{PortBase: 99999}); !errors.Is(err,
		ErrInvalidArgument) {
		t.Fatal(err)
	}
	given, err := NewSlurmClusterResolver(SlurmOptions{
		TasksOfNode: map[string]int{"n1": 1, "n2": 3}, GPUsPerTask: &none,
		KeepVisibleDevices: true, TaskType: "worker", TaskID: &none,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	t.Setenv("SLURM_STEP_NODELIST", "n[1-2]")
	if jobs := clusterOf(t, given); jobs["worker"][3] != "n2:8890" {
		t.Fatal(jobs)
	}
}

func TestAUnionHasTheJobsOfAll(t *testing.T) {
	spec, err := NewClusterSpec(map[string][]string{"ps": {"p:1"}, "worker": {"c:3"}})
	if err != nil {
		t.Fatal(err)
	}
	defer spec.Close()
	other, err := NewSimpleClusterResolver(spec, ResolverOptions{TaskType: "ps"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	own := ownResolver{addresses: []string{"a:1", "b:2"}, task: 1}
	union, err := NewUnionResolver(ResolverOptions{RPCLayer: "grpc"}, own, other)
	if err != nil {
		t.Fatal(err)
	}
	jobs := clusterOf(t, union)
	if jobs["ps"][0] != "p:1" || jobs["worker"][1] != "b:2" || jobs["worker"][2] != "c:3" {
		t.Fatal(jobs)
	}
	job, _ := union.TaskType()
	id, known, _ := union.TaskID()
	layer, _ := union.RPCLayer()
	environment, _ := union.Environment()
	count, _ := union.NumAccelerators()
	if job != "worker" || id != 1 || !known || layer != "grpc" || environment != "" || count != 0 {
		t.Fatal(job, id, known, layer, environment, count)
	}
	zero := int64(0)
	master, err := union.Master(ResolverOptions{TaskType: "ps", TaskID: &zero})
	if err != nil || master != "grpc://p:1" {
		t.Fatal(master, err)
	}
	if _, err := NewUnionResolver(ResolverOptions{}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}

func TestServicesAreAskedOnTheirMachinesAlone(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	pods, err := NewKubernetesClusterResolver(KubernetesOptions{
		JobLabels: map[string][]string{"worker": {"job-name=a"}}, TaskType: "worker",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Close()
	if _, err := pods.ClusterSpec(); !errors.Is(err, ErrFailedPrecondition) {
		t.Fatal(err)
	}
	if _, err := NewKubernetesClusterResolver(KubernetesOptions{Port: -1}); !errors.Is(err,
		ErrInvalidArgument) {
		t.Fatal(err)
	}
	t.Setenv("GCE_METADATA_HOST", "127.0.0.1:1")
	instances, err := NewGCEClusterResolver("group", GCEOptions{TaskID: 2, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer instances.Close()
	if id, known, err := instances.TaskID(); id != 2 || !known || err != nil {
		t.Fatal(id, known, err)
	}
	if _, err := instances.ClusterSpec(); err == nil {
		t.Fatal("the metadata server is not there")
	}
	if _, err := NewGCEClusterResolver("", GCEOptions{}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}
