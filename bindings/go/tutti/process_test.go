package tutti

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Tests that need processes of their own start this program again in a role.
const roleVariable = "TUTTI_GO_TEST_ROLE"

var roles = map[string]func() error{}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := roles[role](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is this program in a role.
type process struct {
	*exec.Cmd
	out, err bytes.Buffer
	in       io.WriteCloser
	watch    *time.Timer // kills one that hangs
}

func start(t *testing.T, role string, variables ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0])}
	p.Env = append(append(os.Environ(), roleVariable+"="+role), variables...)
	p.Stdout, p.Stderr = &p.out, &p.err
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.watch = time.AfterFunc(120*time.Second, func() { p.Process.Kill() })
	t.Cleanup(func() {
		p.watch.Stop()
		p.Process.Kill()
		p.Wait()
	})
	return p
}

func (p *process) finish() error {
	defer p.watch.Stop()
	return p.Wait()
}

// reserve gives addresses of the loopback interface that nobody else gets: the ports stay bound in
// a way that lets a worker listen there all the same, for both have SO_REUSEADDR and these do not
// listen.
func reserve(t *testing.T, count int) []string {
	t.Helper()
	addresses := make([]string, count)
	for i := range addresses {
		socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(socket) })
		if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
		name, err := syscall.Getsockname(socket)
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	}
	return addresses
}

// workers starts a job of this program in a role.
func workers(t *testing.T, role string, count int, variables ...string) []*process {
	t.Helper()
	addresses := reserve(t, count)
	job := make([]*process, count)
	for i := range job {
		config := sure(json.Marshal(map[string]any{
			"cluster": map[string]any{"worker": addresses},
			"task":    map[string]any{"type": "worker", "index": i}}))
		job[i] = start(t, role, append([]string{"TF_CONFIG=" + string(config),
			"TUTTI_JOB_SECRET=" + strings.Repeat("5a", 32)}, variables...)...)
	}
	return job
}

// ---- what ends its goroutine

func init() {
	leave := func() { runtime.Goexit() }
	roles["leave a replica"] = func() error {
		strategy := sure(NewMirroredStrategy("CPU:0", "CPU:1"))
		_, err := strategy.Run(nil, func(*ReplicaContext, Value) (Value, error) {
			leave()
			return Value{}, nil
		}, Value{})
		return err
	}
	roles["leave a map"] = func() error {
		iterator, err := Range(0, 9, 1).Map(func(Value) (Value, error) {
			leave()
			return Value{}, nil
		}, WithParallelCalls(2)).Iterator(nil)
		if err != nil {
			return err
		}
		iterator.Next()
		return iterator.Err()
	}
	roles["leave a notification"] = func() error {
		future := sure(NewFuture())
		if err := future.OnReady(leave); err != nil {
			return err
		}
		if err := future.Complete(Value{}, nil); err != nil {
			return err
		}
		select {}
	}
}

func TestTheEndOfAGoroutineInAFunctionEndsTheProcessAndSaysSo(t *testing.T) {
	for _, role := range []string{"leave a replica", "leave a map", "leave a notification"} {
		p := start(t, role)
		err := p.finish()
		if p.ProcessState.ExitCode() != 2 || !strings.Contains(p.err.String(), "runtime.Goexit") ||
			!strings.Contains(p.err.String(), "process_test.go") {
			t.Fatalf("%s: %v\n%s", role, err, p.err.String())
		}
	}
}

// ---- several workers

func init() {
	roles["train"] = func() error {
		strategy, err := NewMultiWorkerMirroredStrategy(nil, "CPU:0", "CPU:1")
		if err != nil {
			return err
		}
		defer strategy.Close()
		initial := sure(TensorOf([]float64{float64(10 * strategy.Worker())}))
		weights, err := strategy.NewVariable(nil, initial, VariableOptions{Aggregation: AggregateSum})
		if err != nil {
			return err
		}
		result, err := strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
			mine := sure(TensorOf([]float64{float64(r.ReplicaID())}))
			defer mine.Close()
			if err := weights.AssignAdd(r, mine); err != nil {
				return Value{}, err
			}
			value := sure(OfTensor(mine))
			defer value.Close()
			return r.AllGather(value, 0)
		}, Value{})
		if err != nil {
			return err
		}
		read := sure(weights.Read(nil))
		fmt.Println(strategy.NumWorkers(), strategy.NumReplicasInSync(),
			sure(strategy.LocalResults(result)), read)
		return nil
	}
	roles["lose a worker"] = func() error {
		cluster, err := Join(nil, nil, 1)
		if err != nil {
			return err
		}
		communicator, err := cluster.NewCommunicator(nil, "all")
		if err != nil {
			return err
		}
		if err := communicator.Barrier(nil); err != nil {
			return err
		}
		if cluster.Worker() == 1 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		err = communicator.Barrier(nil)
		if err == nil {
			return fmt.Errorf("a barrier without worker 1")
		}
		fmt.Println(err)
		return nil
	}
}

func TestWorkersOfSeveralProcessesTrainTogether(t *testing.T) {
	for _, p := range workers(t, "train", 2) {
		if err := p.finish(); err != nil {
			t.Fatal(err, p.err.String())
		}
		want := "2 4 [[0 1 2 3] [0 1 2 3]] float64[1] [6]\n"
		if got := p.out.String(); got != want {
			t.Fatal(got, want)
		}
	}
}

func TestTheLossOfAWorkerIsAnErrorThatNamesIt(t *testing.T) {
	job := workers(t, "lose a worker", 3)
	for i, p := range job {
		err := p.finish()
		if i == 1 {
			continue
		}
		if err != nil || !strings.HasPrefix(p.out.String(), "UNAVAILABLE: ") ||
			!strings.Contains(p.out.String(), "worker 1") {
			t.Fatal(i, err, p.out.String(), p.err.String())
		}
	}
}
