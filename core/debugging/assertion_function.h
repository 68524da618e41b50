// Assertions as native functions of datasets: an element that they hold for passes through, one
// that they do not hold for fails. They run without the host, look at whole slabs at once, and can
// be written down.
//
//   AssertionFunctionSpec spec;
//   spec.assertion = RowAssertion::kPositive;
//   spec.path = "weight";
//   TUTTI_ASSIGN_OR_RETURN(Ref<Function> check, MakeAssertionFunction(spec));
//   TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> checked, dataset->Map(check));
//   -> INVALID_ARGUMENT "map: element 7 (record 7 of "a.tfrecord"): assert_positive: x > 0 does not
//      hold at [1], where x["weight"] is -2; x["weight"] float32[3]: [1 -2 3]"
#ifndef TUTTI_CORE_DEBUGGING_ASSERTION_FUNCTION_H_
#define TUTTI_CORE_DEBUGGING_ASSERTION_FUNCTION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Function;
class FunctionRegistry;

// The same numbers as TUTTI_ASSERTION_*; those of comparisons, conditions and ranks are the numbers
// of assertion.h from 0, 16 and 32 on. Definitions keep them.
enum class RowAssertion : int32_t {
  kEqual = 1,
  kNoneEqual = 2,
  kLess = 3,
  kLessEqual = 4,
  kGreater = 5,
  kGreaterEqual = 6,
  kNear = 7,
  kPositive = 17,
  kNegative = 18,
  kNonPositive = 19,
  kNonNegative = 20,
  kAllFinite = 21,
  kNumerics = 22,
  kInteger = 23,
  kScalar = 24,
  kRank = 33,
  kRankAtLeast = 34,
  kRankIn = 35,
  kType = 48,
  kTrue = 49,
  kShapes = 50,
  kSameFloatDType = 51,
};

struct AssertionFunctionSpec {
  RowAssertion assertion = RowAssertion::kNumerics;
  // Keys, fields and indexes joined by '/'; the leaves there and below; empty: every leaf.
  std::string path;
  // What a comparison compares with: a tensor that each row is broadcast against, or the leaf at a
  // path.
  Ref<Tensor> y;
  std::string y_path;
  Ref<Tensor> rtol, atol;         // of kNear; null: as Tolerances has it
  std::vector<int64_t> ranks;     // of those about ranks
  DType dtype = DType::kInvalid;  // of kType; of kSameFloatDType, kInvalid: any
  // Of kShapes, which has no path: the paths of leaves, each with the shape of a row as in
  // ShapeConstraint: "image=N,3;mask=N".
  std::string shapes;
  std::string message;
  int64_t summarize = 3;
};

// INVALID_ARGUMENT for a spec with more or less than its assertion takes. What is known of a
// dataset's elements (paths, dtypes, ranks) is checked where the function is given to it.
Result<Ref<Function>> MakeAssertionFunction(AssertionFunctionSpec spec);

// The function that Define wrote down. INVALID_ARGUMENT for other bytes.
Result<Ref<Function>> ReadAssertionFunction(std::string_view payload);

// Makes the registry read such definitions. ALREADY_EXISTS where it does.
Status AddAssertionKind(FunctionRegistry* functions);

}  // namespace tutti

#endif  // TUTTI_CORE_DEBUGGING_ASSERTION_FUNCTION_H_
