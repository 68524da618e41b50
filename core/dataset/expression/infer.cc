// What the nodes of an expression give, of one row, from what their inputs are.
#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/dataset/expression/expression.h"
#include "core/tensor/stateless_random.h"

namespace tutti {
namespace {

using Kind = OperationKind;
using Op = ExpressionOp;
constexpr int64_t kUnknown = PartialShape::kUnknownDim;

class Inference {
 public:
  Inference(std::span<const ExpressionNode> nodes, ExpressionNode* node)
      : nodes_(nodes), node_(*node), operation_(OperationOf(node->op)) {}

  Status Run() {
    for (const int32_t i : node_.inputs) {
      node_.per_row = node_.per_row || nodes_[static_cast<size_t>(i)].per_row;
    }
    const DType dtype = In(0).dtype;
    switch (operation_.kind) {
      case Kind::kLeaf: break;
      case Kind::kArithmetic:
      case Kind::kUnary:
        TUTTI_RETURN_IF_ERROR(IsOfComplex() ? Takes(IsNumeric(dtype), "numbers")
                                            : Takes(IsReal(dtype), "real numbers"));
        if (node_.op == Op::kAbsolute && IsComplex(dtype)) return Elementwise(PartOf(dtype));
        return Elementwise(dtype);
      case Kind::kDivision:
        TUTTI_RETURN_IF_ERROR(
            Takes(IsFloating(dtype) || IsComplex(dtype), "floats (cast integers first)"));
        return Elementwise(dtype);
      case Kind::kBits:
      case Kind::kBitUnary:
        TUTTI_RETURN_IF_ERROR(
            Takes(IsInteger(dtype) || dtype == DType::kBool, "integers or booleans"));
        return Elementwise(dtype);
      case Kind::kShift:
        TUTTI_RETURN_IF_ERROR(Takes(IsInteger(dtype), "integers"));
        return Elementwise(dtype);
      case Kind::kComparison:
        TUTTI_RETURN_IF_ERROR(Takes(
            !IsComplex(dtype) || node_.op == Op::kEqual || node_.op == Op::kNotEqual,
            "real numbers, booleans or bytes (complex numbers have no order)"));
        return Elementwise(DType::kBool);
      case Kind::kLogic:
        TUTTI_RETURN_IF_ERROR(Takes(dtype == DType::kBool, "booleans"));
        return Elementwise(DType::kBool);
      case Kind::kFloatUnary:
        TUTTI_RETURN_IF_ERROR(Takes(IsFloating(dtype) || (IsComplex(dtype) && IsOfComplex()),
                                    "floats (cast integers first)"));
        return Elementwise(dtype);
      case Kind::kFloatTest:
        TUTTI_RETURN_IF_ERROR(Takes(IsFloating(dtype) || IsComplex(dtype), "floats"));
        return Elementwise(DType::kBool);
      case Kind::kComplexPair:
        TUTTI_RETURN_IF_ERROR(Takes(dtype == DType::kFloat32 || dtype == DType::kFloat64,
                                    "two of float32 or of float64"));
        return Elementwise(dtype == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128);
      case Kind::kComplexPart:
        TUTTI_RETURN_IF_ERROR(Takes(IsComplex(dtype), "complex numbers"));
        return Elementwise(node_.op == Op::kConjugate ? dtype : PartOf(dtype));
      case Kind::kWhere:
        TUTTI_RETURN_IF_ERROR(Takes(dtype == DType::kBool, "a boolean condition"));
        return Elementwise(In(1).dtype);
      case Kind::kCast:
        TUTTI_RETURN_IF_ERROR(NeedsDtype());
        TUTTI_RETURN_IF_ERROR(
            Takes((dtype == DType::kBytes) == (node_.attributes.dtype == DType::kBytes),
                  "numbers for a number (as_string and to_number are for texts)"));
        return Elementwise(node_.attributes.dtype);
      case Kind::kMove: return Move();
      case Kind::kReduction: return Reduction();
      case Kind::kString: return String();
      case Kind::kRandom: return Random();
    }
    return OkStatus();
  }

 private:
  static bool IsReal(DType dtype) { return IsInteger(dtype) || IsFloating(dtype); }
  static DType PartOf(DType dtype) {
    return dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
  }
  // Whether the operation is one of complex numbers, too.
  bool IsOfComplex() const {
    switch (node_.op) {
      case Op::kAdd:
      case Op::kSubtract:
      case Op::kMultiply:
      case Op::kPower:
      case Op::kNegative:
      case Op::kAbsolute:
      case Op::kSquare:
      case Op::kSqrt:
      case Op::kExp:
      case Op::kLog:
      case Op::kSin:
      case Op::kCos:
      case Op::kTan:
      case Op::kTanh:
      case Op::kSum:
      case Op::kProd:
      case Op::kMean: return true;
      default: return false;
    }
  }

  const ExpressionNode& In(size_t i) const {
    return nodes_[static_cast<size_t>(node_.inputs[i])];
  }

  Status Takes(bool does, std::string_view what) const {
    if (does) return OkStatus();
    return InvalidArgument("{}: expected {}, got {}{}", operation_.name, what,
                           DTypeName(In(0).dtype), In(0).shape.ToString());
  }

  Status NeedsDtype() const {
    if (IsValid(node_.attributes.dtype)) return OkStatus();
    return InvalidArgument("{}: expected a dtype, got {}", operation_.name,
                           static_cast<int32_t>(node_.attributes.dtype));
  }

  Status NeedsNumbers(size_t count, std::string_view what) const {
    if (node_.attributes.numbers.size() == count) return OkStatus();
    return InvalidArgument("{}: expected {}, got {} numbers", operation_.name, what,
                           node_.attributes.numbers.size());
  }

  Status Elementwise(DType dtype) {
    node_.dtype = dtype;
    node_.shape = In(0).shape;
    for (size_t i = 1; i < node_.inputs.size(); ++i) {
      Result<PartialShape> shape = BroadcastShapes(node_.shape, In(i).shape);
      if (!shape.ok()) return Status(shape.status()).WithPrefix(std::string(operation_.name));
      node_.shape = std::move(shape).value();
    }
    return OkStatus();
  }

  // Axis number `i` of the attributes, of a tensor of `rank` axes, made positive.
  Result<size_t> Axis(size_t i, size_t rank) {
    int64_t& axis = node_.attributes.numbers[i];
    const auto axes = static_cast<int64_t>(rank);
    if (axis < -axes || axis >= axes) {
      return InvalidArgument("{}: axis {} is none of the {} axes of a row, {}{}", operation_.name,
                             axis, axes, DTypeName(In(0).dtype), In(0).shape.ToString());
    }
    if (axis < 0) axis += axes;
    return static_cast<size_t>(axis);
  }

  Status Move() {
    node_.dtype = In(0).dtype;
    const PartialShape& shape = In(0).shape;
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    std::vector<int64_t>& numbers = node_.attributes.numbers;
    switch (node_.op) {
      case Op::kReshape: return Reshape();
      case Op::kTranspose: {
        if (numbers.empty()) {
          for (size_t i = dims.size(); i-- > 0;) numbers.push_back(static_cast<int64_t>(i));
        }
        TUTTI_RETURN_IF_ERROR(NeedsNumbers(dims.size(), "each axis of a row once"));
        std::vector<bool> seen(dims.size());
        std::vector<int64_t> turned;
        for (size_t i = 0; i < numbers.size(); ++i) {
          TUTTI_ASSIGN_OR_RETURN(const size_t axis, Axis(i, dims.size()));
          if (seen[axis]) {
            return InvalidArgument("transpose: axis {} comes twice in {}", axis,
                                   DimsToString(numbers));
          }
          seen[axis] = true;
          turned.push_back(dims[axis]);
        }
        dims = turned;
        break;
      }
      case Op::kSlice: {
        if (numbers.size() % 3 != 0 || numbers.size() / 3 > dims.size()) {
          return InvalidArgument(
              "slice: expected start, stop and step of each of up to {} axes, got {} numbers",
              dims.size(), numbers.size());
        }
        for (size_t i = 0; i < numbers.size() / 3; ++i) {
          const int64_t* const slice = &numbers[3 * i];
          if (slice[2] == 0) return InvalidArgument("slice: the step along axis {} is 0", i);
          constexpr int64_t kMissing = ExpressionAttributes::kMissing;
          const bool whole = slice[0] == kMissing && slice[1] == kMissing &&
                             (slice[2] == kMissing || slice[2] == 1 || slice[2] == -1);
          if (whole) continue;
          if (dims[i] != kUnknown) {
            dims[i] = SliceOfAxis(dims[i], slice[0], slice[1], slice[2]).size;
          }
        }
        break;
      }
      case Op::kIndex: {
        TUTTI_RETURN_IF_ERROR(NeedsNumbers(2, "an axis and a place"));
        TUTTI_ASSIGN_OR_RETURN(const size_t axis, Axis(0, dims.size()));
        const int64_t dim = dims[axis];
        if (dim != kUnknown && (numbers[1] < -dim || numbers[1] >= dim)) {
          return OutOfRange("index: there is no place {} along axis {} of {}{}", numbers[1], axis,
                            DTypeName(node_.dtype), shape.ToString());
        }
        dims.erase(dims.begin() + static_cast<int64_t>(axis));
        break;
      }
      case Op::kExpandDims: {
        TUTTI_RETURN_IF_ERROR(NeedsNumbers(1, "an axis"));
        TUTTI_ASSIGN_OR_RETURN(const size_t axis, Axis(0, dims.size() + 1));
        dims.insert(dims.begin() + static_cast<int64_t>(axis), 1);
        break;
      }
      case Op::kStack: {
        if (numbers.empty()) numbers = {0};
        TUTTI_RETURN_IF_ERROR(NeedsNumbers(1, "an axis"));
        TUTTI_ASSIGN_OR_RETURN(const size_t axis, Axis(0, dims.size() + 1));
        for (size_t i = 1; i < node_.inputs.size(); ++i) {
          TUTTI_ASSIGN_OR_RETURN(dims, MergedDims(i, dims, dims.size()));
        }
        dims.insert(dims.begin() + static_cast<int64_t>(axis),
                    static_cast<int64_t>(node_.inputs.size()));
        break;
      }
      case Op::kConcatenate: {
        if (numbers.empty()) numbers = {0};
        TUTTI_RETURN_IF_ERROR(NeedsNumbers(1, "an axis"));
        TUTTI_ASSIGN_OR_RETURN(const size_t axis, Axis(0, dims.size()));
        for (size_t i = 1; i < node_.inputs.size(); ++i) {
          const int64_t sum = dims[axis];
          TUTTI_ASSIGN_OR_RETURN(dims, MergedDims(i, dims, axis));
          const int64_t more = In(i).shape.dim(axis);
          const bool unknown = sum == kUnknown || more == kUnknown;
          if (unknown) dims[axis] = kUnknown;
          if (!unknown && __builtin_add_overflow(sum, more, &dims[axis])) {
            return InvalidArgument("concatenate: there are more places along axis {} than can be "
                                   "counted", axis);
          }
        }
        break;
      }
      case Op::kTake: {
        if (numbers.empty()) numbers = {0};
        TUTTI_RETURN_IF_ERROR(NeedsNumbers(1, "an axis"));
        TUTTI_ASSIGN_OR_RETURN(const size_t axis, Axis(0, dims.size()));
        if (!IsInteger(In(1).dtype)) {
          return InvalidArgument("take: expected integers as places, got {}",
                                 DTypeName(In(1).dtype));
        }
        const std::span<const int64_t> places = In(1).shape.dims();
        dims.erase(dims.begin() + static_cast<int64_t>(axis));
        dims.insert(dims.begin() + static_cast<int64_t>(axis), places.begin(), places.end());
        break;
      }
      case Op::kOneHot: {
        TUTTI_RETURN_IF_ERROR(NeedsNumbers(1, "a depth"));
        TUTTI_RETURN_IF_ERROR(Takes(IsInteger(node_.dtype), "integers"));
        if (node_.attributes.dtype == DType::kInvalid) node_.attributes.dtype = DType::kFloat32;
        TUTTI_RETURN_IF_ERROR(NeedsDtype());
        if (numbers[0] < 1 || node_.attributes.dtype == DType::kBytes) {
          return InvalidArgument("one_hot: expected a depth of 1 or more and a dtype of numbers, "
                                 "got {} and {}",
                                 numbers[0], DTypeName(node_.attributes.dtype));
        }
        node_.dtype = node_.attributes.dtype;
        dims.push_back(numbers[0]);
        break;
      }
      default: break;
    }
    TUTTI_ASSIGN_OR_RETURN(node_.shape, PartialShape::Create(dims.data(), dims.size()));
    return OkStatus();
  }

  // `dims` and those of input `i`, which are equal but along `except`.
  Result<std::vector<int64_t>> MergedDims(size_t i, std::vector<int64_t> dims, size_t except) {
    const PartialShape& other = In(i).shape;
    bool fits = other.rank() == dims.size();
    for (size_t axis = 0; fits && axis < dims.size(); ++axis) {
      if (axis == except || other.dim(axis) == kUnknown) continue;
      if (dims[axis] == kUnknown) dims[axis] = other.dim(axis);
      fits = dims[axis] == other.dim(axis);
    }
    if (fits) return dims;
    return InvalidArgument("{}: input 0 is {}{}, and input {} is {}{}", operation_.name,
                           DTypeName(In(0).dtype), In(0).shape.ToString(), i,
                           DTypeName(In(i).dtype), other.ToString());
  }

  Status Reshape() {
    std::vector<int64_t> dims = node_.attributes.numbers;
    const PartialShape& from = In(0).shape;
    __int128 known = 1;
    int64_t open = -1;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] < -1 || (dims[i] == -1 && open >= 0)) {
        return InvalidArgument("reshape: expected dims of which one may be -1, got {}",
                               DimsToString(dims));
      }
      if (dims[i] == -1) {
        open = static_cast<int64_t>(i);
      } else if (known <= INT64_MAX) {
        known *= dims[i];
      }
    }
    if (known > INT64_MAX) {
      return InvalidArgument("reshape: {} has more elements than can be counted",
                             DimsToString(dims));
    }
    if (from.IsFullyKnown()) {
      TUTTI_ASSIGN_OR_RETURN(const Shape shape, from.ToShape());
      const int64_t count = shape.num_elements();
      const bool fits = open < 0 ? known == count
                                 : known > 0 && count % static_cast<int64_t>(known) == 0;
      if (!fits) {
        return InvalidArgument("reshape: {}{} has {} elements, which do not become {}",
                               DTypeName(node_.dtype), from.ToString(), count, DimsToString(dims));
      }
      if (open >= 0) dims[static_cast<size_t>(open)] = count / static_cast<int64_t>(known);
    }
    TUTTI_ASSIGN_OR_RETURN(node_.shape, PartialShape::Create(dims.data(), dims.size()));
    return OkStatus();
  }

  Status Reduction() {
    const DType dtype = In(0).dtype;
    const bool is_logic = node_.op == Op::kAny || node_.op == Op::kAll;
    const bool is_place = node_.op == Op::kArgMin || node_.op == Op::kArgMax;
    if (is_logic) {
      TUTTI_RETURN_IF_ERROR(Takes(dtype == DType::kBool, "booleans"));
    } else if (node_.op == Op::kMean) {
      TUTTI_RETURN_IF_ERROR(
          Takes(IsFloating(dtype) || IsComplex(dtype), "floats (cast integers first)"));
    } else if (IsOfComplex()) {
      TUTTI_RETURN_IF_ERROR(Takes(IsNumeric(dtype), "numbers (cast booleans first)"));
    } else {
      TUTTI_RETURN_IF_ERROR(Takes(IsReal(dtype), "real numbers (cast booleans first)"));
    }
    node_.dtype = is_place ? DType::kInt64 : dtype;
    return FoldedShape();
  }

  // Without the axes that are folded, all where none are named.
  Status FoldedShape() {
    const PartialShape& shape = In(0).shape;
    std::vector<int64_t>& axes = node_.attributes.numbers;
    std::vector<bool> folded(shape.rank(), axes.empty());
    for (size_t i = 0; i < axes.size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(const size_t axis, Axis(i, shape.rank()));
      if (folded[axis]) {
        return InvalidArgument("{}: axis {} comes twice in {}", operation_.name, axis,
                               DimsToString(axes));
      }
      folded[axis] = true;
    }
    std::vector<int64_t> dims;
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      if (!folded[axis]) dims.push_back(shape.dim(axis));
      if (folded[axis] && node_.attributes.keep_dims) dims.push_back(1);
    }
    node_.shape = PartialShape(std::span<const int64_t>(dims));
    return OkStatus();
  }

  // "" and BYTE: bytes; UTF8_CHAR: the characters of UTF-8.
  Status NeedsUnit() const {
    const std::string& unit = node_.attributes.text;
    if (unit.empty() || unit == "BYTE" || unit == "UTF8_CHAR") return OkStatus();
    return InvalidArgument("{}: the unit is '{}'; expected BYTE or UTF8_CHAR", operation_.name,
                           unit);
  }

  Status String() {
    const DType dtype = In(0).dtype;
    node_.shape = In(0).shape;
    if (node_.op == Op::kAsString) {
      node_.dtype = DType::kBytes;
      return OkStatus();
    }
    TUTTI_RETURN_IF_ERROR(Takes(dtype == DType::kBytes, "bytes"));
    node_.dtype = DType::kBytes;
    switch (node_.op) {
      case Op::kJoinStrings: return Elementwise(DType::kBytes);
      case Op::kStringLength:
        TUTTI_RETURN_IF_ERROR(NeedsUnit());
        node_.dtype = DType::kInt32;
        return OkStatus();
      case Op::kStringLower:
      case Op::kStringUpper:
      case Op::kStringStrip: return OkStatus();
      case Op::kSubstr: {
        TUTTI_RETURN_IF_ERROR(NeedsUnit());
        for (size_t i = 1; i < 3; ++i) {
          if (IsInteger(In(i).dtype)) continue;
          return InvalidArgument("substr: expected integers as position and length, got {}",
                                 DTypeName(In(i).dtype));
        }
        return Elementwise(DType::kBytes);
      }
      case Op::kStringSplit: return Split();
      case Op::kStringSplitRowSplits: {
        TUTTI_RETURN_IF_ERROR(Split());
        if (In(0).shape.rank() != 1 || node_.attributes.numbers[1] > 0) {
          return InvalidArgument("string_split_row_splits: expected a vector of texts, to be split "
                                 "into as many parts as there are, got bytes{}",
                                 In(0).shape.ToString());
        }
        node_.dtype = DType::kInt64;
        const int64_t texts = In(0).shape.dim(0);
        node_.shape = PartialShape({texts == kUnknown ? kUnknown : texts + 1});
        return OkStatus();
      }
      case Op::kReduceJoin: return FoldedShape();
      case Op::kRegexFullMatch:
        node_.dtype = DType::kBool;
        return CompilePattern();
      case Op::kRegexReplace: return RegexReplace();
      case Op::kToHashBucketFast:
      case Op::kToHashBucketStrong:
        node_.dtype = DType::kInt64;
        return Buckets();
      default: break;
    }
    TUTTI_RETURN_IF_ERROR(NeedsDtype());
    node_.dtype = node_.attributes.dtype;
    const bool real = IsReal(node_.dtype);
    if (node_.op == Op::kToNumber && !real) {
      return InvalidArgument("to_number: expected a dtype of real numbers, got {}",
                             DTypeName(node_.dtype));
    }
    if (node_.op == Op::kDecodeRaw) {
      if (node_.dtype == DType::kBytes) {
        return InvalidArgument("decode_raw: expected a dtype of numbers, got bytes");
      }
      node_.shape = node_.shape.Concatenate(PartialShape({kUnknown}));
    }
    return OkStatus();
  }

  Status CompilePattern() {
    Result<Ref<const Pattern>> pattern = Pattern::Create(node_.attributes.text);
    if (!pattern.ok()) return Status(pattern.status()).WithPrefix(std::string(operation_.name));
    node_.pattern = std::move(pattern).value();
    return OkStatus();
  }

  Status RegexReplace() {
    std::vector<int64_t>& numbers = node_.attributes.numbers;
    if (numbers.empty()) numbers = {1};
    TUTTI_RETURN_IF_ERROR(NeedsNumbers(1, "1 for all matches or 0 for the first one"));
    if (numbers[0] != 0 && numbers[0] != 1) {
      return InvalidArgument("regex_replace: expected 1 for all matches or 0 for the first one, "
                             "got {}", numbers[0]);
    }
    const ExpressionNode& rewrite = In(1);
    if (rewrite.dtype != DType::kBytes || rewrite.shape.rank() != 0) {
      return InvalidArgument("regex_replace: the rewrite is {}{}; expected one text",
                             DTypeName(rewrite.dtype), rewrite.shape.ToString());
    }
    TUTTI_RETURN_IF_ERROR(CompilePattern());
    if (rewrite.op != Op::kConstant) return OkStatus();
    Status status = node_.pattern->CheckRewrite(rewrite.constant->span<BytesView>()[0].text());
    return status.ok() ? OkStatus() : std::move(status).WithPrefix("regex_replace");
  }

  Status Buckets() {
    if (node_.op == Op::kToHashBucketFast) {
      TUTTI_RETURN_IF_ERROR(NeedsNumbers(1, "a number of buckets"));
    } else {
      TUTTI_RETURN_IF_ERROR(NeedsNumbers(3, "a number of buckets and a key of two numbers"));
    }
    const int64_t buckets = node_.attributes.numbers[0];
    if (buckets >= 1) return OkStatus();
    return InvalidArgument("{}: expected 1 or more buckets, got {}", operation_.name, buckets);
  }

  // At how many places at most, and into how many parts; -1 and 0: as many as there are.
  Status Split() {
    std::vector<int64_t>& numbers = node_.attributes.numbers;
    if (numbers.size() > 2) {
      return InvalidArgument("{}: expected at how many places at most, and into how many parts, "
                             "got {} numbers",
                             operation_.name, numbers.size());
    }
    if (numbers.empty()) numbers.push_back(-1);
    if (numbers.size() == 1) numbers.push_back(0);
    if (numbers[0] < -1 || numbers[1] < 0) {
      return InvalidArgument("{}: expected a number of places of 0 or more, or -1, and a number of "
                             "parts of 1 or more, or 0, got {}",
                             operation_.name, DimsToString(numbers));
    }
    if (numbers[1] > 0) {
      node_.shape = In(0).shape.Concatenate(PartialShape({numbers[1]}));
      return OkStatus();
    }
    if (In(0).shape.rank() > 1) {
      return InvalidArgument("{}: the parts of bytes{} have no shape; say into how many parts",
                             operation_.name, In(0).shape.ToString());
    }
    node_.shape = PartialShape({kUnknown});
    return OkStatus();
  }

  Status Random() {
    const std::string_view name = operation_.name;
    if (!IsInteger(In(0).dtype) || In(0).shape.rank() != 1 ||
        (In(0).shape.dim(0) != 2 && In(0).shape.dim(0) != kUnknown)) {
      return InvalidArgument("{}: expected a seed of two integers, got {}{}", name,
                             DTypeName(In(0).dtype), In(0).shape.ToString());
    }
    const bool floats = node_.op == Op::kRandomUniform || node_.op == Op::kRandomNormal ||
                        node_.op == Op::kRandomTruncatedNormal;
    DType& dtype = node_.attributes.dtype;
    if (node_.op == Op::kRandomIntegers) {
      if (dtype != DType::kInvalid && dtype != In(1).dtype) {
        return InvalidArgument("{}: the bounds are {}, and {} was asked for", name,
                               DTypeName(In(1).dtype), DTypeName(dtype));
      }
      for (size_t i = 1; i < 3; ++i) {
        if (In(i).shape.rank() == 0) continue;
        return InvalidArgument("{}: a bound is one number, not {}{}", name,
                               DTypeName(In(i).dtype), In(i).shape.ToString());
      }
      dtype = In(1).dtype;
    } else if (dtype == DType::kInvalid) {
      dtype = floats ? DType::kFloat32 : DType::kInt32;
    }
    if (!IsValid(dtype) || (floats ? !HasRandomFloats(dtype) : !HasRandomIntegers(dtype))) {
      return InvalidArgument("{}: expected {}, got {}", name,
                             floats ? "a floating dtype" : "int32, int64, uint32 or uint64",
                             IsValid(dtype) ? std::string(DTypeName(dtype))
                                            : std::to_string(static_cast<int32_t>(dtype)));
    }
    node_.dtype = dtype;
    const std::vector<int64_t>& dims = node_.attributes.numbers;
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
    node_.shape = PartialShape(shape);
    return OkStatus();
  }

  const std::span<const ExpressionNode> nodes_;
  ExpressionNode& node_;
  const Operation& operation_;
};

}  // namespace

Status InferNode(std::span<const ExpressionNode> nodes, ExpressionNode* node) {
  return Inference(nodes, node).Run();
}

Result<PartialShape> BroadcastShapes(const PartialShape& a, const PartialShape& b) {
  const size_t rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t left = i < a.rank() ? a.dim(a.rank() - 1 - i) : 1;
    const int64_t right = i < b.rank() ? b.dim(b.rank() - 1 - i) : 1;
    int64_t& dim = dims[rank - 1 - i];
    if (left == right || right == 1) {
      dim = left;
    } else if (left == 1) {
      dim = right;
    } else if (left == kUnknown || right == kUnknown) {
      dim = std::max(left, right);  // the one that is known
    } else {
      return InvalidArgument("the shapes {} and {} do not broadcast", a.ToString(), b.ToString());
    }
  }
  return PartialShape::Create(dims.data(), dims.size());
}

AxisSlice SliceOfAxis(int64_t dim, int64_t start, int64_t stop, int64_t step) {
  constexpr int64_t kMissing = ExpressionAttributes::kMissing;
  if (step == kMissing) step = 1;
  const bool back = step < 0;
  const int64_t lowest = back ? -1 : 0;
  const int64_t highest = back ? dim - 1 : dim;
  const auto clipped = [&](int64_t place) {
    return std::clamp(place < 0 ? place + dim : place, lowest, highest);
  };
  const int64_t from = start == kMissing ? (back ? highest : lowest) : clipped(start);
  const int64_t to = stop == kMissing ? (back ? lowest : highest) : clipped(stop);
  // Wide enough for any step.
  const __int128 span = back ? __int128{from} - to : __int128{to} - from;
  const __int128 stride = back ? -__int128{step} : __int128{step};
  const auto size = span <= 0 ? int64_t{0} : static_cast<int64_t>((span + stride - 1) / stride);
  return {size == 0 ? 0 : from, size, size <= 1 ? 1 : step};
}

}  // namespace tutti
