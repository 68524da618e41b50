package tutti

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
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

// scheduler is a resolver such as a user writes; its cluster grows with each question.
type scheduler struct {
	tasks int
	fails error
}

func (s *scheduler) ClusterSpec() (*ClusterSpec, error) {
	if s.fails != nil {
		return nil, s.fails
	}
	s.tasks++
	addresses := make([]string, s.tasks)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("host%d:1", i)
	}
	return NewClusterSpec(map[string][]string{"worker": addresses})
}

func (s *scheduler) TaskType() (string, error)    { return "worker", nil }
func (s *scheduler) TaskID() (int64, bool, error) { return 0, true, nil }
func (s *scheduler) Environment() (string, error) { return "mine", nil }

func (s *scheduler) Accelerators(options ResolverOptions) (map[string]int64, error) {
	if options.TaskID == nil {
		return nil, nil
	}
	return map[string]int64{"GPU": *options.TaskID, "TPU": 8}, nil
}

func TestOneOfYourOwnIsAskedAnewAtEachQuestion(t *testing.T) {
	own := &scheduler{tasks: 1}
	union, err := NewUnionResolver(ResolverOptions{RPCLayer: "grpc"}, own)
	if err != nil {
		t.Fatal(err)
	}
	for tasks := 2; tasks < 4; tasks++ {
		if got := clusterOf(t, union)["worker"]; len(got) != tasks {
			t.Errorf("%v, expected %d tasks", got, tasks)
		}
	}
	id := int64(3)
	counts, err := union.Accelerators(ResolverOptions{TaskType: "worker", TaskID: &id})
	if err != nil || !reflect.DeepEqual(counts, map[string]int64{"GPU": 3, "TPU": 8}) {
		t.Error(counts, err)
	}
	if environment, err := union.Environment(); environment != "mine" {
		t.Error(environment, err)
	}
	own.fails = errors.New("the scheduler is gone")
	if _, err := union.ClusterSpec(); !errors.Is(err, own.fails) {
		t.Error(err)
	}
}

func TestAcceleratorsAreCountedByTheirTypes(t *testing.T) {
	spec, err := NewClusterSpec(map[string][]string{"worker": {"a:1", "b:2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer spec.Close()
	given := map[string]int64{"GPU": 4, "TPU": 1}
	resolver, err := NewSimpleClusterResolver(spec, ResolverOptions{Accelerators: given})
	if err != nil {
		t.Fatal(err)
	}
	defer resolver.Close()
	counts, err := resolver.Accelerators(ResolverOptions{})
	if err != nil || !reflect.DeepEqual(counts, given) {
		t.Error(counts, err)
	}
	if gpus, err := resolver.NumAccelerators(); gpus != 4 {
		t.Error(gpus, err)
	}
	id := int64(1)
	changed, err := resolver.Changed(ResolverOptions{TaskType: "worker", TaskID: &id})
	if err != nil {
		t.Fatal(err)
	}
	defer changed.Close()
	if now, known, err := changed.TaskID(); now != 1 || !known {
		t.Error(now, known, err)
	}
	if _, known, err := resolver.TaskID(); known {
		t.Error("the first one was changed", err)
	}
	for _, wrong := range []ResolverOptions{{Accelerators: map[string]int64{"GPU": -1}},
		{Accelerators: given, NumAccelerators: &id}} {
		if _, err := NewSimpleClusterResolver(spec, wrong); !errors.Is(err, ErrInvalidArgument) {
			t.Error(err)
		}
	}
}

const onePod = `{"items": [{"metadata": {"name": "a-%s"},
	"status": {"phase": "Running", "podIP": "10.0.0.%s"}}], "metadata": {"continue": "%s"}}`

// instances of a group of one.
type instances struct{ t *testing.T }

func (i instances) ListInstances(project, zone, group, page string) (string, error) {
	if project != "p" || zone != "z" || group != "g" || page != "" {
		i.t.Error(project, zone, group, page)
	}
	return `{"items": [{"instance": "https://x/instances/vm-1"}]}`, nil
}

func (i instances) Instance(project, zone, name string) (string, error) {
	return `{"networkInterfaces": [{"networkIP": "10.0.0.7"}]}`, nil
}

func TestAClientOfYourOwnIsAskedInsteadOfTheService(t *testing.T) {
	refused := errors.New("no client")
	pods, err := NewKubernetesClusterResolver(KubernetesOptions{
		JobLabels: map[string][]string{"worker": {"job-name=a"}, "ps": {}},
		Client: func(label, page string) (string, error) {
			switch {
			case refused != nil:
				return "", refused
			case page == "":
				return fmt.Sprintf(onePod, "10", "2", "more"), nil
			}
			return fmt.Sprintf(onePod, "9", "1", ""), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Close()
	if _, err := pods.ClusterSpec(); !errors.Is(err, refused) {
		t.Error(err)
	}
	refused = nil
	expected := map[int]string{0: "10.0.0.1:8470", 1: "10.0.0.2:8470"}
	if got := clusterOf(t, pods)["worker"]; !reflect.DeepEqual(got, expected) {
		t.Error(got)
	}
	group, err := NewGCEClusterResolver("g", WithProject("p"), WithZone("z"),
		WithService(instances{t}))
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	spec, err := group.ClusterSpecContext(context.Background())
	if err != nil || spec.Tasks("worker")[0] != "10.0.0.7:8470" {
		t.Error(spec, err)
	}
	spec.Close()
	without, err := NewGCEClusterResolver("g", GCEOptions{Project: "p", Zone: "z",
		Credentials: func() (string, error) { return "", nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if _, err := without.ClusterSpec(); !errors.Is(err, ErrUnauthenticated) {
		t.Error(err)
	}
}

func TestWhatAServiceRefusesHasItsError(t *testing.T) {
	const token = "ya29.a-token-that-nobody-may-see"
	var followed int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		followed++
	}))
	defer other.Close()
	var status int
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.Header().Set("Location", other.URL)
		w.WriteHeader(status)
		fmt.Fprint(w, body+r.Header.Get("Authorization"))
	}))
	defer server.Close()
	t.Setenv("http_proxy", "")
	resolver, err := NewGCEClusterResolver("g", GCEOptions{Project: "p", Zone: "z", Token: token,
		Endpoint: server.URL, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer resolver.Close()
	for _, refusal := range []struct {
		status int
		code   Code
		said   string
	}{
		{401, ErrUnauthenticated, "does not take the token"},
		{403, ErrPermissionDenied, "does not allow it to this account"},
		{404, ErrNotFound, "does not know that"},
		{429, ErrResourceExhausted, "asked too often"},
		{500, ErrUnavailable, "fails (500)"},
		{302, ErrFailedPrecondition, "is not followed, since the token would go along"},
		{200, ErrDataLoss, "no JSON object"},
	} {
		status, body = refusal.status, "said by the service "
		_, err := resolver.ClusterSpec()
		if !errors.Is(err, refusal.code) || !strings.Contains(err.Error(), refusal.said) {
			t.Error(refusal.status, err)
		}
		if strings.Contains(fmt.Sprint(err), token) {
			t.Error("the token is in", err)
		}
	}
	if followed != 0 {
		t.Error("the redirect was followed")
	}
}

func TestATokenFileMayChangeMeanwhile(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-new-token" {
			write("token", "the-new-token\n")
			w.WriteHeader(401)
			return
		}
		fmt.Fprintf(w, onePod, "1", "1", "")
	}))
	defer server.Close()
	write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw})))
	write("namespace", "training")
	host, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "https://"), ":")
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT_HTTPS", port)
	t.Setenv("https_proxy", "")
	resolver, err := NewKubernetesClusterResolver(KubernetesOptions{AccountFolder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer resolver.Close()
	if _, err := resolver.ClusterSpec(); !errors.Is(err, ErrFailedPrecondition) ||
		!strings.Contains(err.Error(), "service account") {
		t.Error("without a token:", err)
	}
	write("token", "the-old-token\n")
	if got := clusterOf(t, resolver)["worker"]; got[0] != "10.0.0.1:8470" {
		t.Error(got)
	}
}

func TestAWaitForAServiceEndsWithItsContext(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		<-ended
	}))
	defer server.Close()
	defer close(ended)
	t.Setenv("http_proxy", "")
	resolver, err := NewGCEClusterResolver("g", GCEOptions{Project: "p", Zone: "z", Token: "t",
		Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer resolver.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := resolver.ClusterSpecContext(ctx); !errors.Is(err, ErrDeadlineExceeded) &&
		!errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// What is not set by a function would have to be set by a struct.
func TestEveryFieldOfAServiceHasAFunction(t *testing.T) {
	task, port, limit := WithTask("ps", 3), WithPort(7), WithServiceTimeout(time.Second)
	slurm := collect([]SlurmOption{task, port, WithRPCLayer("grpc"), WithJobs(SlurmJob{"ps", 1}),
		WithTasksPerNode(2), WithTasksOfNode(map[string]int{"n": 1}), WithGPUsPerNode(0),
		WithGPUsPerTask(0), WithVisibleDevicesKept()}, SlurmOption.ofSlurm)
	pods := collect([]KubernetesOption{task, port, limit, WithRPCLayer("grpc"),
		WithJobLabels(map[string][]string{"worker": {"job=a"}}), WithHostIP(),
		WithAccountFolder("folder"), WithNamespace("space"),
		WithClient(func(_, _ string) (string, error) { return "", nil })},
		KubernetesOption.ofKubernetes)
	group := collect([]GCEOption{task, port, limit, WithRPCLayer("grpc"), WithProject("p"),
		WithZone("z"), WithToken("t"), WithEndpoint("e"), WithCAFile("f"), WithService(instances{t}),
		WithCredentials(func() (string, error) { return "", nil })}, GCEOption.ofGCE)
	for _, options := range []any{slurm, pods, group} {
		set := reflect.ValueOf(options)
		for i := 0; i < set.NumField(); i++ {
			if set.Field(i).IsZero() {
				t.Errorf("%T: no function has set %s", options, set.Type().Field(i).Name)
			}
		}
	}
	if *slurm.TaskID != 3 || slurm.PortBase != 7 || pods.Port != 7 || group.Port != 7 ||
		pods.Timeout != time.Second || group.Timeout != time.Second {
		t.Errorf("%+v, %+v, %+v", slurm, pods, group)
	}
	resolver := must[*ClusterResolver](t)(NewSlurmClusterResolver(WithPort(99)))
	defer resolver.Close()
	if _, err := NewSlurmClusterResolver(WithPort(99999)); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}
