package tutti

import "tutti.dev/tutti/internal/native"

// Assertion says how an assertion's error reads, and of AssertNear what is near.
//
// An assertion is made of a tensor, a variable (every copy), a per-replica value (every component)
// or a structure of them. One that does not hold is ErrInvalidArgument: Message comes first, then
// what does not hold at which index, then the first elements of the tensors. Assertions about
// elements compare by broadcasting and hold where there are none. They may be called in functions
// of datasets and of replicas.
type Assertion struct {
	Message   string
	Summarize int // elements of each tensor that are shown; 0: three, negative: all
	// Of AssertNear, real numbers that broadcast to the shape of x and y; nil: 10 times the distance
	// from 1 to the next number of their dtype.
	Rtol, Atol *Tensor
}

// The numbers of the library.
const (
	compareEqual = iota + 1
	compareNoneEqual
	compareLess
	compareLessEqual
	compareGreater
	compareGreaterEqual
	compareNear
)
const (
	conditionPositive = iota + 1
	conditionNegative
	conditionNonPositive
	conditionNonNegative
	conditionAllFinite
	conditionNumerics
	conditionInteger
	conditionScalar
)
const (
	rankEqual = iota + 1
	rankAtLeast
	rankIn
)

func assertion(how []Assertion) Assertion {
	if len(how) == 0 {
		return Assertion{}
	}
	return how[0]
}

// optionalTensor gives 0 for nil.
func optionalTensor(tensor *Tensor) (uintptr, func(), error) {
	if tensor == nil {
		return 0, nothing, nil
	}
	pointer, err := tensor.use()
	return pointer, tensor.done, err
}

func assertCompare(comparison int, x, y Value, how []Assertion) error {
	used, end, err := pointers([]Value{x, y})
	if err != nil {
		return err
	}
	defer end()
	options := assertion(how)
	rtol, rtolDone, err := optionalTensor(options.Rtol)
	if err != nil {
		return err
	}
	defer rtolDone()
	atol, atolDone, err := optionalTensor(options.Atol)
	if err != nil {
		return err
	}
	defer atolDone()
	return check(native.Debugging_assert_compare(comparison, used[0], used[1], options.Message,
		int64(options.Summarize), rtol, atol))
}

func assertOne(x Value, how []Assertion, call func(x uintptr, options Assertion) uintptr) error {
	used, end, err := pointers([]Value{x})
	if err != nil {
		return err
	}
	defer end()
	return check(call(used[0], assertion(how)))
}

func assertCondition(condition int, x Value, how []Assertion) error {
	return assertOne(x, how, func(x uintptr, options Assertion) uintptr {
		return native.Debugging_assert_condition(condition, x, options.Message,
			int64(options.Summarize))
	})
}

func assertRank(relation int, x Value, ranks []int64, how []Assertion) error {
	return assertOne(x, how, func(x uintptr, options Assertion) uintptr {
		return native.Debugging_assert_rank(relation, x, ranks, options.Message,
			int64(options.Summarize))
	})
}

// AssertEqual : x == y at every element; a NaN is equal to nothing. Any dtype, the same of both.
func AssertEqual(x, y Value, how ...Assertion) error {
	return assertCompare(compareEqual, x, y, how)
}

// AssertNoneEqual : x != y at every element. Any dtype, the same of both.
func AssertNoneEqual(x, y Value, how ...Assertion) error {
	return assertCompare(compareNoneEqual, x, y, how)
}

// AssertLess : x < y at every element, of integers or floats of one dtype.
func AssertLess(x, y Value, how ...Assertion) error {
	return assertCompare(compareLess, x, y, how)
}

// AssertLessEqual : x <= y at every element, of integers or floats of one dtype.
func AssertLessEqual(x, y Value, how ...Assertion) error {
	return assertCompare(compareLessEqual, x, y, how)
}

// AssertGreater : x > y at every element, of integers or floats of one dtype.
func AssertGreater(x, y Value, how ...Assertion) error {
	return assertCompare(compareGreater, x, y, how)
}

// AssertGreaterEqual : x >= y at every element, of integers or floats of one dtype.
func AssertGreaterEqual(x, y Value, how ...Assertion) error {
	return assertCompare(compareGreaterEqual, x, y, how)
}

// AssertNear : |x - y| < atol + rtol * |y| at every element, of floats or complex numbers of one
// dtype.
func AssertNear(x, y Value, how ...Assertion) error {
	return assertCompare(compareNear, x, y, how)
}

// AssertPositive : every element, an integer or a float, is above 0.
func AssertPositive(x Value, how ...Assertion) error {
	return assertCondition(conditionPositive, x, how)
}

// AssertNegative : every element, an integer or a float, is below 0.
func AssertNegative(x Value, how ...Assertion) error {
	return assertCondition(conditionNegative, x, how)
}

// AssertNonPositive : every element, an integer or a float, is 0 or below.
func AssertNonPositive(x Value, how ...Assertion) error {
	return assertCondition(conditionNonPositive, x, how)
}

// AssertNonNegative : every element, an integer or a float, is 0 or above.
func AssertNonNegative(x Value, how ...Assertion) error {
	return assertCondition(conditionNonNegative, x, how)
}

// AssertAllFinite : no element is NaN or infinite. It gives x back.
func AssertAllFinite(x Value, how ...Assertion) (Value, error) {
	return x, assertCondition(conditionAllFinite, x, how)
}

// CheckNumerics : no element is NaN or infinite, of floats or complex numbers only. It gives the
// tensor back.
func CheckNumerics(tensor Value, how ...Assertion) (Value, error) {
	return tensor, assertCondition(conditionNumerics, tensor, how)
}

// AssertInteger : the dtype of x is an integer's.
func AssertInteger(x Value, how ...Assertion) error {
	return assertCondition(conditionInteger, x, how)
}

// AssertScalar : the tensor has no axes.
func AssertScalar(tensor Value, how ...Assertion) error {
	return assertCondition(conditionScalar, tensor, how)
}

// AssertRank : the tensor has rank axes.
func AssertRank(x Value, rank int64, how ...Assertion) error {
	return assertRank(rankEqual, x, []int64{rank}, how)
}

// AssertRankAtLeast : the tensor has rank axes or more.
func AssertRankAtLeast(x Value, rank int64, how ...Assertion) error {
	return assertRank(rankAtLeast, x, []int64{rank}, how)
}

// AssertRankIn : the tensor has as many axes as one of ranks says.
func AssertRankIn(x Value, ranks []int64, how ...Assertion) error {
	return assertRank(rankIn, x, ranks, how)
}

// AssertType : the tensor is of a dtype; of a sparse or ragged one its values are.
func AssertType(tensor Value, dtype DType, how ...Assertion) error {
	return assertOne(tensor, how, func(x uintptr, options Assertion) uintptr {
		return native.Debugging_assert_type(x, int(dtype), options.Message,
			int64(options.Summarize))
	})
}

// AssertSameFloatDType gives the dtype of all tensors (none is passed over), which must be one of
// floats and, unless that is 0, dtype; Float32 where neither is given.
func AssertSameFloatDType(tensors []Value, dtype DType) (DType, error) {
	all, err := Tuple(tensors...)
	if err != nil {
		return 0, err
	}
	defer all.Close()
	var common int64
	err = assertOne(all, nil, func(x uintptr, _ Assertion) uintptr {
		return native.Debugging_assert_same_float_dtype(x, int(dtype), &common)
	})
	return DType(common), err
}

// Shaped is a tensor and what is said of its shape: axes by commas, sizes, symbols that stand for
// one size wherever they are, and "." for any size; "..." or "*" in front stands for any number of
// axes. A scalar counts as one axis of size 1, and so does an empty text.
type Shaped struct {
	Tensor Value
	Shape  string
}

// AssertShapes : the shapes of tensors fit what is said of them, and each other. The error shows
// data, unless that is none, in place of the tensor that does not fit.
func AssertShapes(shapes []Shaped, data Value, how ...Assertion) error {
	tensors, texts := make([]Value, len(shapes)), make([]string, len(shapes))
	for i, shaped := range shapes {
		tensors[i], texts[i] = shaped.Tensor, shaped.Shape
	}
	all, err := Tuple(tensors...)
	if err != nil {
		return err
	}
	defer all.Close()
	names, err := joined(texts)
	if err != nil {
		return err
	}
	shown, err := data.use()
	if err != nil {
		return err
	}
	defer data.done()
	return assertOne(all, how, func(x uintptr, options Assertion) uintptr {
		return native.Debugging_assert_shapes(x, names, shown, options.Message,
			int64(options.Summarize))
	})
}

// AssertTrue : the condition, a tensor of booleans, is true at every element; else data is shown,
// unless it is none.
func AssertTrue(condition, data Value, how ...Assertion) error {
	shown, err := data.use()
	if err != nil {
		return err
	}
	defer data.done()
	return assertOne(condition, how, func(x uintptr, options Assertion) uintptr {
		return native.Debugging_assert_true(x, shown, options.Message, int64(options.Summarize))
	})
}

// IsNumericTensor says whether tensor is one, a variable or a per-replica value, and its elements
// are numbers: neither booleans nor byte strings.
func IsNumericTensor(tensor Value) bool {
	pointer, err := tensor.use()
	if err != nil || pointer == 0 {
		return false
	}
	defer tensor.done()
	return native.Debugging_is_numeric(pointer)
}

// EnableCheckNumerics makes a NaN or an infinity ErrInvalidArgument from now on, where it enters or
// leaves a collective, a reduction over replicas, the update of a variable or a checkpoint, or is
// returned by a replica's function. The error names the operation, the variable or the path in the
// structure, replica and worker or rank, dtype and shape, how many elements are NaN, +Inf and -Inf,
// and the first of them; where workers or ranks take part it is the error of all of them.
//
// It holds for the whole process, because a goroutine has no thread of its own; between the workers
// of a strategy it is enough that one has enabled it. Calling it twice is as calling it once.
func EnableCheckNumerics() error {
	if native.Debugging_is_checking_numerics() {
		return nil
	}
	return check(native.Debugging_enable_check_numerics(tristate(true)))
}

// DisableCheckNumerics ends what EnableCheckNumerics began.
func DisableCheckNumerics() { native.Debugging_disable_check_numerics() }

// SetLogDevicePlacement says whether a line of the log tells of each variable, per-replica value,
// run, dataset and collective from now on which devices it is on, and why; false at first. For the
// whole process. Under a log level that leaves out "info" the lines come with the lowest that it
// does not.
func SetLogDevicePlacement(enabled bool) { native.Debugging_set_log_device_placement(enabled) }

// LogDevicePlacement says whether placements are logged.
func LogDevicePlacement() bool { return native.Debugging_is_logging_device_placement() }
