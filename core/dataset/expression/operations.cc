#include "core/dataset/expression/operations.h"

namespace tutti {
namespace {

using Op = ExpressionOp;
using Kind = OperationKind;

constexpr Operation kOperations[] = {
    {Op::kParameter, "parameter", Kind::kLeaf, 0, ""},
    {Op::kConstant, "constant", Kind::kLeaf, 0, ""},
    {Op::kAdd, "add", Kind::kArithmetic, 2, "+"},
    {Op::kSubtract, "subtract", Kind::kArithmetic, 2, "-"},
    {Op::kMultiply, "multiply", Kind::kArithmetic, 2, "*"},
    {Op::kDivide, "divide", Kind::kDivision, 2, "/"},
    {Op::kFloorDivide, "floor_divide", Kind::kArithmetic, 2, "//"},
    {Op::kRemainder, "remainder", Kind::kArithmetic, 2, "%"},
    {Op::kPower, "power", Kind::kArithmetic, 2, "**"},
    {Op::kMinimum, "minimum", Kind::kArithmetic, 2, ""},
    {Op::kMaximum, "maximum", Kind::kArithmetic, 2, ""},
    {Op::kBitwiseAnd, "bitwise_and", Kind::kBits, 2, "&"},
    {Op::kBitwiseOr, "bitwise_or", Kind::kBits, 2, "|"},
    {Op::kBitwiseXor, "bitwise_xor", Kind::kBits, 2, "^"},
    {Op::kLeftShift, "left_shift", Kind::kShift, 2, "<<"},
    {Op::kRightShift, "right_shift", Kind::kShift, 2, ">>"},
    {Op::kEqual, "equal", Kind::kComparison, 2, "=="},
    {Op::kNotEqual, "not_equal", Kind::kComparison, 2, "!="},
    {Op::kLess, "less", Kind::kComparison, 2, "<"},
    {Op::kLessEqual, "less_equal", Kind::kComparison, 2, "<="},
    {Op::kGreater, "greater", Kind::kComparison, 2, ">"},
    {Op::kGreaterEqual, "greater_equal", Kind::kComparison, 2, ">="},
    {Op::kLogicalAnd, "logical_and", Kind::kLogic, 2, "and"},
    {Op::kLogicalOr, "logical_or", Kind::kLogic, 2, "or"},
    {Op::kLogicalXor, "logical_xor", Kind::kLogic, 2, ""},
    {Op::kLogicalNot, "logical_not", Kind::kLogic, 1, ""},
    {Op::kNegative, "negative", Kind::kUnary, 1, ""},
    {Op::kAbsolute, "absolute", Kind::kUnary, 1, ""},
    {Op::kSign, "sign", Kind::kUnary, 1, ""},
    {Op::kSquare, "square", Kind::kUnary, 1, ""},
    {Op::kInvert, "invert", Kind::kBitUnary, 1, ""},
    {Op::kSqrt, "sqrt", Kind::kFloatUnary, 1, ""},
    {Op::kExp, "exp", Kind::kFloatUnary, 1, ""},
    {Op::kExpm1, "expm1", Kind::kFloatUnary, 1, ""},
    {Op::kLog, "log", Kind::kFloatUnary, 1, ""},
    {Op::kLog1p, "log1p", Kind::kFloatUnary, 1, ""},
    {Op::kSin, "sin", Kind::kFloatUnary, 1, ""},
    {Op::kCos, "cos", Kind::kFloatUnary, 1, ""},
    {Op::kTan, "tan", Kind::kFloatUnary, 1, ""},
    {Op::kTanh, "tanh", Kind::kFloatUnary, 1, ""},
    {Op::kFloor, "floor", Kind::kFloatUnary, 1, ""},
    {Op::kCeil, "ceil", Kind::kFloatUnary, 1, ""},
    {Op::kTrunc, "trunc", Kind::kFloatUnary, 1, ""},
    {Op::kRint, "rint", Kind::kFloatUnary, 1, ""},
    {Op::kIsNan, "isnan", Kind::kFloatTest, 1, ""},
    {Op::kIsInf, "isinf", Kind::kFloatTest, 1, ""},
    {Op::kIsFinite, "isfinite", Kind::kFloatTest, 1, ""},
    {Op::kWhere, "where", Kind::kWhere, 3, ""},
    {Op::kCast, "cast", Kind::kCast, 1, ""},
    {Op::kReshape, "reshape", Kind::kMove, 1, ""},
    {Op::kTranspose, "transpose", Kind::kMove, 1, ""},
    {Op::kSlice, "slice", Kind::kMove, 1, ""},
    {Op::kIndex, "index", Kind::kMove, 1, ""},
    {Op::kExpandDims, "expand_dims", Kind::kMove, 1, ""},
    {Op::kStack, "stack", Kind::kMove, -1, ""},
    {Op::kConcatenate, "concatenate", Kind::kMove, -1, ""},
    {Op::kTake, "take", Kind::kMove, 2, ""},
    {Op::kSum, "sum", Kind::kReduction, 1, ""},
    {Op::kProd, "prod", Kind::kReduction, 1, ""},
    {Op::kMin, "min", Kind::kReduction, 1, ""},
    {Op::kMax, "max", Kind::kReduction, 1, ""},
    {Op::kMean, "mean", Kind::kReduction, 1, ""},
    {Op::kAny, "any", Kind::kReduction, 1, ""},
    {Op::kAll, "all", Kind::kReduction, 1, ""},
    {Op::kArgMin, "argmin", Kind::kReduction, 1, ""},
    {Op::kArgMax, "argmax", Kind::kReduction, 1, ""},
    {Op::kOneHot, "one_hot", Kind::kMove, 1, ""},
    {Op::kJoinStrings, "join_strings", Kind::kString, -1, ""},
    {Op::kAsString, "as_string", Kind::kString, 1, ""},
    {Op::kStringLength, "string_length", Kind::kString, 1, ""},
    {Op::kToNumber, "to_number", Kind::kString, 1, ""},
    {Op::kDecodeRaw, "decode_raw", Kind::kString, 1, ""},
    {Op::kStringLower, "string_lower", Kind::kString, 1, ""},
    {Op::kStringUpper, "string_upper", Kind::kString, 1, ""},
    {Op::kStringStrip, "string_strip", Kind::kString, 1, ""},
    {Op::kSubstr, "substr", Kind::kString, 3, ""},
    {Op::kStringSplit, "string_split", Kind::kString, 1, ""},
    {Op::kStringSplitRowSplits, "string_split_row_splits", Kind::kString, 1, ""},
    {Op::kReduceJoin, "reduce_join", Kind::kString, 1, ""},
    {Op::kRegexFullMatch, "regex_full_match", Kind::kString, 1, ""},
    {Op::kRegexReplace, "regex_replace", Kind::kString, 2, ""},
    {Op::kToHashBucketFast, "to_hash_bucket_fast", Kind::kString, 1, ""},
    {Op::kToHashBucketStrong, "to_hash_bucket_strong", Kind::kString, 1, ""},
    {Op::kComplex, "complex", Kind::kComplexPair, 2, ""},
    {Op::kReal, "real", Kind::kComplexPart, 1, ""},
    {Op::kImag, "imag", Kind::kComplexPart, 1, ""},
    {Op::kAngle, "angle", Kind::kComplexPart, 1, ""},
    {Op::kConjugate, "conjugate", Kind::kComplexPart, 1, ""},
    {Op::kRandomUniform, "stateless_random_uniform", Kind::kRandom, 1, ""},
    {Op::kRandomNormal, "stateless_random_normal", Kind::kRandom, 1, ""},
    {Op::kRandomTruncatedNormal, "stateless_random_truncated_normal", Kind::kRandom, 1, ""},
    {Op::kRandomBits, "stateless_random_bits", Kind::kRandom, 1, ""},
    {Op::kRandomIntegers, "stateless_random_integers", Kind::kRandom, 3, ""},
    {Op::kCall, "call", Kind::kLeaf, 1, ""},
};

}  // namespace

const Operation& OperationOf(ExpressionOp op) { return kOperations[static_cast<size_t>(op)]; }

const Operation* FindOperation(std::string_view name) {
  for (const Operation& operation : kOperations) {
    if (operation.name == name) return &operation;
  }
  return nullptr;
}

std::vector<std::string_view> OperationNames() {
  std::vector<std::string_view> names;
  for (const Operation& operation : kOperations) {
    if (operation.kind != Kind::kLeaf) names.push_back(operation.name);
  }
  return names;
}

bool IsElementwise(OperationKind kind) {
  return kind >= Kind::kArithmetic && kind <= Kind::kCast;
}

}  // namespace tutti
