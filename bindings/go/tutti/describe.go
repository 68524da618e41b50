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
