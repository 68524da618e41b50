package tutti

import "fmt"

// What objects say of themselves when they are printed; the zero of a closed one is "closed ...".

func describe(o *object, what string, more func() string) string {
	if o.isClosed() {
		return "closed " + what
	}
	if more == nil {
		return what
	}
	return what + ", " + more()
}

// String is for people.
func (c *Checkpoint) String() string { return describe(c.object(), "checkpoint", nil) }

// String is for people.
func (c *ClusterResolver) String() string { return describe(c.object(), "cluster resolver", nil) }

// String is for people.
func (i *Iterator) String() string { return describe(i.object(), "iterator", nil) }

// String is for people.
func (w *RecordWriter) String() string { return describe(w.object(), "record writer", nil) }

// String is for people.
func (w *ExampleWriter) String() string {
	return describe(w.records.object(), "example writer", nil)
}

// String is for people: what went wrong in making it, or that it can be used.
func (f *Function) String() string {
	switch {
	case f == nil:
		return "no function"
	case f.err != nil:
		return "function that failed: " + f.err.Error()
	}
	return describe(f.o, "function", nil)
}

// String is for people: its kind, and how many replicas it has.
func (s *Strategy) String() string {
	if s == nil {
		return "no strategy"
	}
	return describe(s.o, "strategy", func() string {
		return fmt.Sprintf("%d replicas", s.NumReplicasInSync())
	})
}

// String is for people: whether it runs.
func (r *Runtime) String() string {
	if r == nil || r == defaultRuntime {
		return "default runtime"
	}
	return describe(r.o, "runtime", nil)
}

// String is for people.
func (m *CheckpointManager) String() string {
	return describe(m.object(), "checkpoint manager", nil)
}

// String is for people.
func (d *DistributedDataset) String() string {
	return describe(d.object(), "distributed dataset", nil)
}

// String is for people: which replica, and of how many.
func (c InputContext) String() string {
	return fmt.Sprintf("input pipeline %d of %d, for %d replicas", c.InputPipelineID,
		c.NumInputPipelines, c.NumReplicasInSync)
}

// String is for people: which replica, and of how many.
func (c ValueContext) String() string {
	return fmt.Sprintf("replica %d of %d", c.ReplicaIDInSyncGroup, c.NumReplicasInSync)
}

// choice is the name of a number among those from first on.
func choice(number, first int, names ...string) string {
	if at := number - first; at >= 0 && at < len(names) {
		return names[at]
	}
	return fmt.Sprintf("unknown (%d)", number)
}

// String is the name, "sum".
func (o ReduceOp) String() string {
	return choice(int(o), 1, "sum", "mean", "min", "max", "prod", "band", "bor", "bxor")
}

// String is the name, "mean".
func (a Aggregation) String() string {
	return choice(int(a), 1, "none", "sum", "mean", "only first replica")
}

// String is the name, "on write".
func (s Synchronization) String() string {
	return choice(int(s), 1, "auto", "none", "on write", "on read")
}

// String is the name, "gzip".
func (c Compression) String() string { return choice(int(c), 1, "uncompressed", "gzip", "zlib") }

// String is the name, "file".
func (p AutoShardPolicy) String() string {
	return choice(int(p), -1, "off", "auto", "file", "data", "hint")
}

// String is the name, "warn".
func (p ExternalStatePolicy) String() string { return choice(int(p), 0, "warn", "ignore", "fail") }

// String is the name, "per worker".
func (m InputReplicationMode) String() string {
	return choice(int(m), 1, "per worker", "per replica")
}

// String is the name, "ring".
func (c CommunicationImplementation) String() string {
	return choice(int(c), 0, "auto", "ring", "NCCL", "shared memory", "TCP")
}
