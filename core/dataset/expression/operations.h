// The operations of expressions: names, which are NumPy's where NumPy has the operation, and what
// is known of each before anything is computed. Numbers are never written down; names are.
#ifndef TUTTI_CORE_DATASET_EXPRESSION_OPERATIONS_H_
#define TUTTI_CORE_DATASET_EXPRESSION_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tutti {

enum class ExpressionOp : uint8_t {
  kParameter,
  kConstant,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kPower,
  kMinimum,
  kMaximum,
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
  kLeftShift,
  kRightShift,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor,
  kLogicalNot,
  kNegative,
  kAbsolute,
  kSign,
  kSquare,
  kInvert,
  kSqrt,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kTanh,
  kFloor,
  kCeil,
  kTrunc,
  kRint,
  kIsNan,
  kIsInf,
  kIsFinite,
  kWhere,
  kCast,
  kReshape,
  kTranspose,
  kSlice,
  kIndex,
  kExpandDims,
  kStack,
  kConcatenate,
  kTake,
  kSum,
  kProd,
  kMin,
  kMax,
  kMean,
  kAny,
  kAll,
  kArgMin,
  kArgMax,
  kOneHot,
  kJoinStrings,
  kAsString,
  kStringLength,
  kToNumber,
  kDecodeRaw,
  kStringLower,
  kStringUpper,
  kStringStrip,
  kSubstr,
  kStringSplit,
  kStringSplitRowSplits,
  kReduceJoin,
  kRegexFullMatch,
  kRegexReplace,
  kToHashBucketFast,
  kToHashBucketStrong,
  kComplex,
  kReal,
  kImag,
  kAngle,
  kConjugate,
  kRandomUniform,
  kRandomNormal,
  kRandomTruncatedNormal,
  kRandomBits,
  kRandomIntegers,
  kCall,
};

// What an operation does, so far as typing and running go by it.
enum class OperationKind : uint8_t {
  kLeaf,         // made by calls of their own
  kArithmetic,   // two numbers of one dtype, which is the result's
  kDivision,     // the same, of floats
  kBits,         // two integers or two booleans
  kShift,        // two integers
  kComparison,   // two of one dtype, to a boolean
  kLogic,        // booleans
  kUnary,        // a number
  kBitUnary,     // an integer or a boolean
  kFloatUnary,   // a float
  kFloatTest,    // a float, to a boolean
  kWhere,
  kComplexPair,  // two floats, to a complex number
  kComplexPart,  // a complex number, to a float or another one
  kCast,
  kMove,         // elements to other places
  kReduction,
  kString,
  kRandom,       // of a seed, and of bounds
};

struct Operation {
  ExpressionOp op;
  std::string_view name;
  OperationKind kind;
  int8_t inputs;            // -1: one or more
  std::string_view symbol;  // between two inputs, in texts; may be empty
};

const Operation& OperationOf(ExpressionOp op);
// Null for a name that is none.
const Operation* FindOperation(std::string_view name);
// All that Expression::Apply takes, for messages.
std::vector<std::string_view> OperationNames();
// Element by element, so that it runs in one pass with its neighbours.
bool IsElementwise(OperationKind kind);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXPRESSION_OPERATIONS_H_
