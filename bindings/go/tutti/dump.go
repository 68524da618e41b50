package tutti

import "tutti.dev/tutti/internal/native"

// DebugMode says what a dump keeps of a tensor beside operation, name, replica, step and dtype.
type DebugMode int

// The modes.
const (
	DebugNoTensor      DebugMode = iota + 1 // nothing
	DebugCurtHealth                         // whether there is a NaN or an infinity
	DebugConciseHealth                      // how many elements, NaN, +Inf and -Inf there are
	DebugFullHealth                         // and the rank, and how many finite ones are < 0, 0, > 0
	DebugShape                              // the shape
)

// DumpOptions say how a dump is made.
type DumpOptions struct {
	Mode DebugMode // 0: DebugNoTensor
	// How many of the most recent events are kept until they are flushed; nil: 1000. 0 or less: all
	// are written, a thousand at a time.
	CircularBufferSize *int64
	// Matched at the beginning of an operation's name ("all_reduce"), in ECMAScript's syntax; "": all
	// operations.
	OpRegex string
	// Says of a dtype whether it is taken; nil: all are.
	DTypes func(DType) bool
}

// DumpWriter writes a dump's files.
type DumpWriter struct{ number int64 }

// EnableDumpDebugInfo makes the tensors that EnableCheckNumerics would look at leave an event each
// from now on, in files under dumpRoot, a directory that is made where it is missing. Once more
// with the same root it goes on; another root ends the dump before. ErrInvalidArgument for a mode
// or buffer size other than that of a dump that goes on, and for an expression that does not read.
// The command "tutti debug" shows what was dumped.
func EnableDumpDebugInfo(dumpRoot string, options ...DumpOption) (*DumpWriter, error) {
	chosen := collect(options, DumpOption.ofDump)
	var mask int64
	if chosen.DTypes != nil {
		mask = 1 // no dtype at all is a choice, too
		for dtype := Bool; dtype <= Bytes; dtype++ {
			if chosen.DTypes(dtype) {
				mask |= 1 << dtype
			}
		}
	}
	writer := &DumpWriter{}
	err := check(native.Debugging_enable_dump(dumpRoot, int(chosen.Mode),
		optional(chosen.CircularBufferSize), chosen.OpRegex, mask, &writer.number))
	if err != nil {
		return nil, err
	}
	return writer, nil
}

// FlushExecutionFiles writes the events that wait. ErrFailedPrecondition when the dump has ended;
// the disk's error where it cannot be written.
func (w *DumpWriter) FlushExecutionFiles() error {
	return check(native.Debugging_flush_execution_files(w.number))
}

// FlushNonExecutionFiles writes what is known of the process and of the dump; it fails as
// FlushExecutionFiles.
func (w *DumpWriter) FlushNonExecutionFiles() error {
	return check(native.Debugging_flush_non_execution_files(w.number))
}

// DisableDumpDebugInfo ends the dump; what was not flushed is gone. Without one nothing happens.
func DisableDumpDebugInfo() { native.Debugging_disable_dump() }

// ReadDumpDebugInfo gives the dumps of all processes in a directory as a JSON object: processes,
// events in the order of time, first_not_finite and damaged. ErrNotFound where there is no dump.
func ReadDumpDebugInfo(dumpRoot string) (string, error) {
	var text uintptr
	err := check(native.Debugging_read_dumps(dumpRoot, &text))
	return takeText(text), err
}
