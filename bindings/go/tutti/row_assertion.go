package tutti

import "tutti.dev/tutti/internal/native"

// RowCheck is an assertion about one tensor, or about one and another, as RowAssertion has it.
type RowCheck int

// The assertions of this package. Of RowTrue x is of booleans.
const (
	RowEqual        RowCheck = 1
	RowNoneEqual    RowCheck = 2
	RowLess         RowCheck = 3
	RowLessEqual    RowCheck = 4
	RowGreater      RowCheck = 5
	RowGreaterEqual RowCheck = 6
	RowNear         RowCheck = 7
	RowPositive     RowCheck = 17
	RowNegative     RowCheck = 18
	RowNonPositive  RowCheck = 19
	RowNonNegative  RowCheck = 20
	RowAllFinite    RowCheck = 21
	RowNumerics     RowCheck = 22
	RowInteger      RowCheck = 23
	RowScalar       RowCheck = 24
	RowRank         RowCheck = 33
	RowRankAtLeast  RowCheck = 34
	RowRankIn       RowCheck = 35
	RowType         RowCheck = 48
	RowTrue         RowCheck = 49
	// RowShapes and RowSameFloatDType are about the leaves of an element together.
	RowShapes         RowCheck = 50
	RowSameFloatDType RowCheck = 51
)

// RowAssertion is what AssertRows asserts of elements.
type RowAssertion struct {
	Check RowCheck
	// Path is of the leaves that are looked at, and those below: keys, fields and indexes joined by
	// '/'. Empty: every leaf.
	Path string
	// Y is what a comparison compares each row with, broadcast, of the rows' dtype; YPath is the leaf
	// that it compares with in place of Y.
	Y     *Tensor
	YPath string
	Ranks []int64 // of those about ranks
	DType DType   // of RowType; of RowSameFloatDType, 0: any floating one
	// Shapes are of RowShapes: paths of leaves with the shape of a row, "image=N,3;mask=N".
	Shapes string
	How    Assertion
}

// AssertRows is the native function that gives an element on as it is where an assertion holds for
// it, and fails where not: ErrInvalidArgument that names node, element, leaf and, where elements
// are read from files, the record (details: index, node, row, source_file, source_record). It looks
// at many rows at once without calling Go, and is serialisable. What is known of a dataset's
// elements (paths, dtypes, ranks) is checked where the function is given to it.
func AssertRows(assertion RowAssertion) *Function { return defaultRuntime.AssertRows(assertion) }

// AssertRows of this runtime.
func (r *Runtime) AssertRows(assertion RowAssertion) *Function {
	how := assertion.How
	var used [3]uintptr
	for i, tensor := range []*Tensor{assertion.Y, how.Rtol, how.Atol} {
		pointer, done, err := optionalTensor(tensor)
		if err != nil {
			return functionOf(0, err)
		}
		defer done()
		used[i] = pointer
	}
	return functionOf(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Function_assertion(runtime, int(assertion.Check), used[0], assertion.Ranks,
			assertion.Path, assertion.YPath, how.Message, int64(how.Summarize),
			int(assertion.DType), used[1], used[2], assertion.Shapes, made)
	}))
}
