package tutti

import "tutti.dev/tutti/internal/native"

// ---- texts

func (x Expr) text(name, text string, numbers ...int64) Expr {
	return x.Operation(name, nil, numbers, 0, false, text)
}

// StringLength is, of bytes, how many each has, Int32.
func (x Expr) StringLength() Expr { return x.of("string_length") }

// Lower is, of bytes, with ASCII letters in lower case.
func (x Expr) Lower() Expr { return x.of("string_lower") }

// Upper is, of bytes, with ASCII letters in upper case.
func (x Expr) Upper() Expr { return x.of("string_upper") }

// Strip is, of bytes, without ASCII blanks at both ends.
func (x Expr) Strip() Expr { return x.of("string_strip") }

// Substr is, of bytes, length of them from position on, counted from the end where it is negative;
// a negative length: to the end. A position outside is an ErrInvalidArgument of its row.
func (x Expr) Substr(position, length any) Expr { return x.of("substr", position, length) }

// Split is, of one text, the parts between separator, between runs of blanks where it is "".
func (x Expr) Split(separator string) Expr { return x.text("string_split", separator) }

// SplitRows is the same of a vector of texts: a ragged tensor.
func (x Expr) SplitRows(separator string) Expr {
	return RaggedOf(x.Split(separator), x.text("string_split_row_splits", separator))
}

// SplitInto is that many parts, along a new last axis; another number is an ErrInvalidArgument of
// its row.
func (x Expr) SplitInto(separator string, parts int64) Expr {
	return x.text("string_split", separator, -1, parts)
}

// Join is, of bytes, x, then others, with separator between them.
func (x Expr) Join(separator string, others ...any) Expr {
	return x.Operation("join_strings", others, nil, 0, false, separator)
}

// ReduceJoin is, of bytes, those along axes of a row, along the first one first, all in row-major
// order where none are given, with separator between them.
func (x Expr) ReduceJoin(separator string, axes ...int64) Expr {
	return x.text("reduce_join", separator, axes...)
}

// RegexFullMatch is, of bytes, whether pattern, in RE2's syntax, matches all of it. What is no
// pattern is an ErrInvalidArgument of the expression.
func (x Expr) RegexFullMatch(pattern string) Expr { return x.text("regex_full_match", pattern) }

// RegexReplace is, of bytes, with rewrite, one text, in place of all that pattern, in RE2's syntax,
// matches; \0 in it is what matched, \1 to \9 are the groups. What is no pattern, and a group that
// it has not, is an ErrInvalidArgument: of the expression, or of its row where rewrite is an Expr.
func (x Expr) RegexReplace(pattern string, rewrite any) Expr {
	return x.Operation("regex_replace", []any{rewrite}, []int64{1}, 0, false, pattern)
}

// RegexReplaceFirst is the same of the first match alone.
func (x Expr) RegexReplaceFirst(pattern string, rewrite any) Expr {
	return x.Operation("regex_replace", []any{rewrite}, []int64{0}, 0, false, pattern)
}

// ToHashBucketFast is, of bytes, FarmHash's Fingerprint64 modulo buckets, Int64.
func (x Expr) ToHashBucketFast(buckets int64) Expr {
	return x.text("to_hash_bucket_fast", "", buckets)
}

// ToHashBucketStrong is, of bytes, SipHash-2-4 under a key of two words, modulo buckets, Int64.
func (x Expr) ToHashBucketStrong(buckets int64, key [2]uint64) Expr {
	return x.text("to_hash_bucket_strong", "", buckets, int64(key[0]), int64(key[1]))
}

// AsString is numbers as texts, as Tensor.AsStrings gives them.
func (x Expr) AsString() Expr { return x.of("as_string") }

// ToNumber is, of texts, the numbers that they are; one that is none is an ErrInvalidArgument of
// its row.
func (x Expr) ToNumber(dtype DType) Expr {
	return x.Operation("to_number", nil, nil, dtype, false, "")
}

// ---- complex numbers

// Complex is, of floats, the complex number whose real part x is.
func (x Expr) Complex(imaginary any) Expr { return x.of("complex", imaginary) }

// Real is, of complex numbers, the real part.
func (x Expr) Real() Expr { return x.of("real") }

// Imag is, of complex numbers, the imaginary part.
func (x Expr) Imag() Expr { return x.of("imag") }

// Angle is, of complex numbers, from -pi to pi.
func (x Expr) Angle() Expr { return x.of("angle") }

// Conjugate is of complex numbers.
func (x Expr) Conjugate() Expr { return x.of("conjugate") }

// ---- numbers of a seed, which x is: two integers

// StatelessUniform is floats in [0, 1) that depend on the seed x alone, as the function
// StatelessUniform gives them.
func (x Expr) StatelessUniform(dtype DType, dims ...int64) Expr {
	return x.Operation("stateless_random_uniform", nil, dims, dtype, false, "")
}

// StatelessNormal is the same of a normal distribution of mean 0 and deviation 1.
func (x Expr) StatelessNormal(dtype DType, dims ...int64) Expr {
	return x.Operation("stateless_random_normal", nil, dims, dtype, false, "")
}

// StatelessTruncatedNormal is the same of a normal distribution without numbers of size 2 or more.
func (x Expr) StatelessTruncatedNormal(dtype DType, dims ...int64) Expr {
	return x.Operation("stateless_random_truncated_normal", nil, dims, dtype, false, "")
}

// StatelessBits is integers of Int32, Int64, Uint32 or Uint64, all as likely.
func (x Expr) StatelessBits(dtype DType, dims ...int64) Expr {
	return x.Operation("stateless_random_bits", nil, dims, dtype, false, "")
}

// StatelessIntegers is integers from low up to, not with, high.
func (x Expr) StatelessIntegers(low, high any, dtype DType, dims ...int64) Expr {
	return x.Operation("stateless_random_integers", []any{low, high}, dims, dtype, false, "")
}

// ---- sparse and ragged tensors, for what a function gives

// RaggedOf is the ragged tensor of these parts, which have to fit each other in each row.
func RaggedOf(values, rowSplits Expr) Expr {
	return Expr{trace: values.trace, value: &exprParts{name: raggedTypeName,
		names: []string{"values", "row_splits"}, parts: []Expr{values, rowSplits}}}
}

// SparseTensorOf is the sparse tensor of these parts, which have to fit each other in each row.
func SparseTensorOf(indices, values, denseShape Expr) Expr {
	return Expr{trace: indices.trace, value: &exprParts{name: sparseTypeName,
		names: []string{"indices", "values", "dense_shape"},
		parts: []Expr{indices, values, denseShape}}}
}

// ---- at once

// ApplyOperation is what the operation of that name (tutti/expression.h lists them) makes of
// inputs, told numbers, a dtype (0: none) and a text: the bits that Expr.Operation gives of rows
// that they are. All inputs are of one dtype, where the operation asks for that.
func ApplyOperation(name string, inputs []*Tensor, numbers []int64, dtype DType, keepDims bool,
	text string) (*Tensor, error) {
	return defaultRuntime.ApplyOperation(name, inputs, numbers, dtype, keepDims, text)
}

// ApplyOperation in this runtime.
func (r *Runtime) ApplyOperation(name string, inputs []*Tensor, numbers []int64, dtype DType,
	keepDims bool, text string) (*Tensor, error) {
	used := make([]uintptr, 0, len(inputs))
	for _, tensor := range inputs {
		pointer, err := tensor.use()
		if err != nil {
			return nil, err
		}
		defer tensor.done()
		used = append(used, pointer)
	}
	made, err := r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Operation_apply(runtime, name, used, numbers, int(dtype), tristate(keepDims),
			text, made)
	})
	if err != nil {
		return nil, err
	}
	return ownTensor(made), nil
}

func drawn(name string, seed [2]int64, dtype DType, dims []int64) (*Tensor, error) {
	numbers, err := TensorOf(seed[:], 2)
	if err != nil {
		return nil, err
	}
	defer numbers.Close()
	return ApplyOperation(name, []*Tensor{numbers}, dims, dtype, false, "")
}

// StatelessUniform is floats in [0, 1) that depend on the seed alone: Philox-4x32-10, the same in
// every process and language.
func StatelessUniform(seed [2]int64, dtype DType, dims ...int64) (*Tensor, error) {
	return drawn("stateless_random_uniform", seed, dtype, dims)
}

// StatelessNormal is the same of a normal distribution of mean 0 and deviation 1.
func StatelessNormal(seed [2]int64, dtype DType, dims ...int64) (*Tensor, error) {
	return drawn("stateless_random_normal", seed, dtype, dims)
}

// StatelessTruncatedNormal is the same of a normal distribution without numbers of size 2 or more.
func StatelessTruncatedNormal(seed [2]int64, dtype DType, dims ...int64) (*Tensor, error) {
	return drawn("stateless_random_truncated_normal", seed, dtype, dims)
}

// StatelessBits is integers of Int32, Int64, Uint32 or Uint64, all as likely.
func StatelessBits(seed [2]int64, dtype DType, dims ...int64) (*Tensor, error) {
	return drawn("stateless_random_bits", seed, dtype, dims)
}
