package tutti

import (
	"sort"

	"tutti.dev/tutti/internal/native"
)

// ParseSequenceExample is the native function from a serialised tf.train.SequenceExample (bytes, a
// scalar) to a tuple: a dict of its context features, and a dict of its feature lists, each with
// the number of its steps in front of a step's dims. A fixed list with a default takes it for steps
// without values, and is empty where it is missing. The steps of a VarLenFeature or RaggedFeature
// list, which may be missing, have any number of values: they are the rows of a sparse tensor
// [steps, most values] or of a ragged one. A list is no SequenceFeature (ErrInvalidArgument);
// ErrInvalidArgument at iteration names feature and step.
func ParseSequenceExample(context, lists map[string]Feature) *Function {
	return defaultRuntime.ParseSequenceExample(context, lists)
}

// ParseSequenceExample of this runtime.
func (r *Runtime) ParseSequenceExample(context, lists map[string]Feature) *Function {
	var keys []string
	var features []Feature
	for _, half := range []map[string]Feature{context, lists} {
		first := len(keys)
		for key := range half {
			keys = append(keys, key)
		}
		sort.Strings(keys[first:])
		for _, key := range keys[first:] {
			features = append(features, half[key])
		}
	}
	return r.withFeatures(keys, func(i int) Feature { return features[i] },
		func(runtime uintptr, described []uintptr, made *uintptr) uintptr {
			return native.Function_parse_sequence_example(runtime, described,
				int64(len(context)), made)
		})
}

// CSVColumn is a column that DecodeCSV gives.
type CSVColumn struct {
	DType   DType   // Bytes, an integer or a real floating dtype
	Default *Tensor // a scalar that stands for an empty field; nil: the field is required
	Name    string  // for messages
}

// CSVOptions says what records of DecodeCSV look like. Its zero value is RFC 4180.
type CSVOptions struct {
	FieldDelim string // one byte; "": a comma
	NoQuotes   bool   // a quote stands for itself
	NAValue    string // what stands for a missing value besides nothing
	// SelectCols are the places of the columns' fields in a record, growing; nil: a record has these
	// fields alone.
	SelectCols []int64
}

// DecodeCSV is the native function from records of comma-separated values (bytes, a line each) to a
// tuple of columns of the input's shape. ErrInvalidArgument at iteration names record and field;
// spaces around numbers do not count. Expr.Call calls it, too.
func DecodeCSV(columns []CSVColumn, options CSVOptions) *Function {
	return defaultRuntime.DecodeCSV(columns, options)
}

// DecodeCSV of this runtime.
func (r *Runtime) DecodeCSV(columns []CSVColumn, options CSVOptions) *Function {
	keys := make([]string, len(columns))
	for i, column := range columns {
		keys[i] = column.Name
	}
	if _, err := joined([]string{options.FieldDelim, options.NAValue}); err != nil {
		return functionOf(0, err)
	}
	delim := options.FieldDelim
	if delim == "" {
		delim = ","
	}
	return r.withFeatures(keys,
		func(i int) Feature { return Feature{DType: columns[i].DType, Default: columns[i].Default} },
		func(runtime uintptr, described []uintptr, made *uintptr) uintptr {
			return native.Function_decode_csv(runtime, described, options.SelectCols, delim,
				options.NAValue, tristate(!options.NoQuotes), made)
		})
}
