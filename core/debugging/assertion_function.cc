// A slab is looked at as one tensor of one more axis, of which the kernels stop at the first block
// that fails; the row which that is in is then looked at alone, for a message as of that row.
#include "core/debugging/assertion_function.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/debugging/assertion.h"
#include "core/function/function.h"
#include "core/function/function_registry.h"
#include "core/tensor/element_spec.h"

namespace tutti {
namespace {

constexpr std::string_view kAssertionKind = "assertion";
constexpr int64_t kAssertionFormat = 1;
constexpr int32_t kFirstCondition = 16;
constexpr int32_t kFirstRank = 32;

std::optional<Comparison> ComparisonOf(RowAssertion assertion) {
  const auto number = static_cast<int32_t>(assertion);
  if (number < 1 || number > static_cast<int32_t>(Comparison::kNear)) return std::nullopt;
  return static_cast<Comparison>(number);
}

std::optional<Condition> ConditionOf(RowAssertion assertion) {
  const int32_t number = static_cast<int32_t>(assertion) - kFirstCondition;
  if (number < 1 || number > static_cast<int32_t>(Condition::kScalar)) return std::nullopt;
  return static_cast<Condition>(number);
}

std::optional<RankRelation> RankRelationOf(RowAssertion assertion) {
  const int32_t number = static_cast<int32_t>(assertion) - kFirstRank;
  if (number < 1 || number > static_cast<int32_t>(RankRelation::kIn)) return std::nullopt;
  return static_cast<RankRelation>(number);
}

// Empty for a number that is none.
std::string NameOf(RowAssertion assertion) {
  if (const auto comparison = ComparisonOf(assertion)) return AssertionName(*comparison);
  if (const auto condition = ConditionOf(assertion)) return AssertionName(*condition);
  if (const auto relation = RankRelationOf(assertion)) return AssertionName(*relation);
  if (assertion == RowAssertion::kType) return "assert_type";
  if (assertion == RowAssertion::kTrue) return "Assert";
  if (assertion == RowAssertion::kShapes) return "assert_shapes";
  if (assertion == RowAssertion::kSameFloatDType) return "assert_same_float_dtype";
  return {};
}

// "image/0" of `["image"][0]`.
std::string JoinedPath(std::span<const PathStep> path) {
  std::string joined;
  for (const PathStep& step : path) {
    if (!joined.empty()) joined += '/';
    joined += step.is_key() ? step.key() : Format("{}", step.index());
  }
  return joined;
}

bool IsAtOrBelow(std::string_view leaf, std::string_view path) {
  if (path.empty() || leaf == path) return true;
  return leaf.size() > path.size() && leaf.substr(0, path.size()) == path &&
         leaf[path.size()] == '/';
}

// A leaf's path and the shape that its rows have.
struct ShapeOfPath {
  std::string path;
  std::string shape;
};

Result<std::vector<ShapeOfPath>> ReadShapes(std::string_view text) {
  std::vector<ShapeOfPath> shapes;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const size_t equals = one.rfind('=');
    if (equals == std::string_view::npos) {
      return InvalidArgument("assert_shapes: found {} among the shapes; expected a path, '=' and a "
                             "shape, as in \"image=N,3;mask=N\"",
                             Quote(one));
    }
    shapes.push_back({std::string(one.substr(0, equals)), std::string(one.substr(equals + 1))});
  }
  return shapes;
}

// The slab of rows with as many axes of size 1 behind the first as `rank`, that of a row, wants.
Result<Ref<Tensor>> WithRowRank(const Ref<Tensor>& slab, size_t rank) {
  if (slab->rank() >= rank + 1) return slab;
  std::vector<int64_t> dims(rank + 1, 1);
  dims[0] = slab->dim(0);
  std::copy(slab->shape().dims().begin() + 1, slab->shape().dims().end(),
            dims.end() - static_cast<std::ptrdiff_t>(slab->rank() - 1));
  return slab->Reshape(dims);
}

class AssertionFunction final : public Function {
 public:
  explicit AssertionFunction(AssertionFunctionSpec spec)
      : Function(NameOf(spec.assertion)),
        spec_(std::move(spec)),
        comparison_(ComparisonOf(spec_.assertion)),
        condition_(ConditionOf(spec_.assertion)),
        relation_(RankRelationOf(spec_.assertion)) {}

  Granularity granularity() const override { return Granularity::kSlab; }
  bool calls_host() const override { return false; }

  Status Call(Context&, const Value& in, Ref<Value>* out) override {
    if (OfWholeElements()) {
      Status status = CheckElement(in.spec(), [&](size_t leaf) -> Result<Ref<Tensor>> {
        if (!in.leaf(leaf).is_tensor() || in.leaf(leaf).tensor().rank() == 0) {
          return InvalidArgument("{}: it looks at rows of tensors, and is given {}", name(),
                                 LeafSpec::Of(in.leaf(leaf)).ToString());
        }
        // All rows of a slab have one dtype and shape.
        const Ref<Tensor> rows = TensorOf(in, leaf);
        return rows->dim(0) == 0 ? Ref<Tensor>() : rows->Row(0);
      });
      if (!status.ok()) return std::move(status).With("row", 0);
      *out = in.WithLeaves({in.leaves().begin(), in.leaves().end()});
      return OkStatus();
    }
    TUTTI_ASSIGN_OR_RETURN(const Places places, Find(in.spec()));
    int64_t rows = 0;
    for (const Leaf& leaf : in.leaves()) {
      if (!leaf.is_tensor() || leaf.tensor().rank() == 0) {
        return InvalidArgument("{}: it looks at rows of tensors, and is given {}", name(),
                               LeafSpec::Of(leaf).ToString());
      }
      rows = leaf.tensor().dim(0);
    }
    int64_t failed = rows;
    for (const size_t leaf : places.x) {
      if (failed == 0) break;
      failed = std::min(failed, FirstFailedRow(in, places, leaf, failed));
    }
    if (failed < rows) {
      for (const size_t leaf : places.x) {
        const Status status = CheckRow(in, places, leaf, failed);
        if (!status.ok()) return Status(status).With("row", failed);
      }
    }
    *out = in.WithLeaves({in.leaves().begin(), in.leaves().end()});
    return OkStatus();
  }

  // What is known of the elements is looked at by way of tensors that have none.
  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec* input) const override {
    if (input == nullptr) return Ref<const ElementSpec>();
    if (OfWholeElements()) {
      TUTTI_RETURN_IF_ERROR(CheckElement(
          input->tree(), [&](size_t leaf) { return StandInOfWhole(*input, leaf); }));
      return Ref<const ElementSpec>::Retain(input);
    }
    TUTTI_ASSIGN_OR_RETURN(const Places places, Find(input->tree()));
    for (const size_t leaf : places.x) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> x, StandIn(*input, leaf));
      Ref<Tensor> y;
      if (comparison_) {
        if (places.y) {
          TUTTI_ASSIGN_OR_RETURN(y, StandIn(*input, *places.y));
        } else {
          TUTTI_ASSIGN_OR_RETURN(y, Tensor::Create(spec_.y->dtype(), Shape({0})));
        }
      }
      if (!x || (comparison_ && !y)) continue;
      TUTTI_RETURN_IF_ERROR(
          Check(Named(input->tree(), leaf, x), {YName(input->tree(), places), y}, false));
    }
    return Ref<const ElementSpec>::Retain(input);
  }

  Result<FunctionDefinition> Define() const override {
    StateWriter writer;
    writer.Section(kAssertionKind);
    writer.Int(kAssertionFormat);
    writer.Int(static_cast<int64_t>(spec_.assertion));
    writer.Bytes(spec_.path);
    writer.Bytes(spec_.y_path);
    writer.Bytes(spec_.message);
    writer.Int(spec_.summarize);
    writer.Ints(spec_.ranks);
    writer.Int(static_cast<int64_t>(spec_.dtype));
    if (spec_.assertion == RowAssertion::kShapes) writer.Bytes(spec_.shapes);
    for (const Ref<Tensor>& tensor : {spec_.y, spec_.rtol, spec_.atol}) {
      writer.Int(tensor != nullptr);
      if (tensor == nullptr) continue;
      Slab slab;
      slab.rows = 1;
      slab.tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
      slab.columns.push_back(Column::Rows({Leaf::OfTensor(tensor)}));
      TUTTI_RETURN_IF_ERROR(writer.Rows(slab));
    }
    return FunctionDefinition{std::string(kAssertionKind), writer.bytes()};
  }

 private:
  // Whether it is about several leaves of an element at once, and not about what is in them.
  bool OfWholeElements() const {
    return spec_.assertion == RowAssertion::kShapes ||
           spec_.assertion == RowAssertion::kSameFloatDType;
  }

  // Such an assertion about the tensors that `tensor_of` gives for leaves; null ones are left out.
  template <class TensorOfLeaf>
  Status CheckElement(const TreeSpec& tree, const TensorOfLeaf& tensor_of) const {
    if (spec_.assertion == RowAssertion::kSameFloatDType) {
      TUTTI_ASSIGN_OR_RETURN(const Places places, Find(tree));
      std::vector<NamedTensor> tensors;
      for (const size_t leaf : places.x) {
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, tensor_of(leaf));
        if (tensor) tensors.push_back(Named(tree, leaf, std::move(tensor)));
      }
      if (tensors.empty()) return OkStatus();
      std::optional<DType> wanted;
      if (spec_.dtype != DType::kInvalid) wanted = spec_.dtype;
      Status status = AssertSameFloatDType(tensors, wanted).status();
      return spec_.message.empty() ? status : std::move(status).WithPrefix(spec_.message);
    }
    TUTTI_ASSIGN_OR_RETURN(const std::vector<ShapeOfPath> shapes, ReadShapes(spec_.shapes));
    std::vector<ShapeConstraint> constraints;
    for (const ShapeOfPath& wanted : shapes) {
      bool found = false;
      for (size_t leaf = 0; leaf < tree.num_leaves(); ++leaf) {
        if (!IsAtOrBelow(JoinedPath(tree.LeafPath(leaf)), wanted.path)) continue;
        found = true;
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, tensor_of(leaf));
        if (tensor) constraints.push_back({Named(tree, leaf, std::move(tensor)), wanted.shape});
      }
      if (!found) return Missing(tree, wanted.path);
    }
    AssertOptions options;
    options.message = spec_.message;
    options.summarize = spec_.summarize;
    return AssertShapes(constraints, {}, options);
  }

  // A tensor of what is known of a leaf, of its shape where that matters; null where too little is.
  Result<Ref<Tensor>> StandInOfWhole(const ElementSpec& input, size_t leaf) const {
    constexpr int64_t kMostElements = 1 << 20;  // it has memory
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, StandIn(input, leaf));
    if (!tensor || spec_.assertion != RowAssertion::kShapes) return tensor;
    const PartialShape& shape = input.leaf(leaf).shape;
    if (!shape.IsFullyKnown()) return Ref<Tensor>();
    TUTTI_ASSIGN_OR_RETURN(const Shape whole, shape.ToShape());
    if (whole.num_elements() > kMostElements) return Ref<Tensor>();
    return Tensor::Create(tensor->dtype(), whole);
  }

  // Which leaves are looked at.
  struct Places {
    std::vector<size_t> x;
    std::optional<size_t> y;
  };

  Result<Places> Find(const TreeSpec& tree) const {
    Places places;
    for (size_t i = 0; i < tree.num_leaves(); ++i) {
      const std::string path = JoinedPath(tree.LeafPath(i));
      if (IsAtOrBelow(path, spec_.path)) places.x.push_back(i);
      if (!spec_.y_path.empty() && path == spec_.y_path) places.y = i;
    }
    if (places.x.empty()) return Missing(tree, spec_.path);
    if (!spec_.y_path.empty() && !places.y) return Missing(tree, spec_.y_path);
    return places;
  }

  Status Missing(const TreeSpec& tree, std::string_view path) const {
    std::vector<std::string> paths;
    for (size_t i = 0; i < tree.num_leaves(); ++i) paths.push_back(JoinedPath(tree.LeafPath(i)));
    return InvalidArgument("{}: the element has nothing at {}; its leaves are at {}", name(),
                           Quote(path), Quote(Join(paths, ", ")))
        .With("structure", "path");
  }

  static NamedTensor Named(const TreeSpec& tree, size_t leaf, Ref<Tensor> tensor) {
    return {PathToString(tree.LeafPath(leaf)), std::move(tensor)};
  }

  // Of a constant there is none.
  static std::string YName(const TreeSpec& tree, const Places& places) {
    return places.y ? PathToString(tree.LeafPath(*places.y)) : std::string();
  }

  // A tensor of what is known of a leaf; null where that is not enough.
  Result<Ref<Tensor>> StandIn(const ElementSpec& input, size_t leaf) const {
    const LeafSpec& spec = input.leaf(leaf);
    if (!spec.is_tensor()) {
      return InvalidArgument("{}: x{} is {}; expected a tensor", name(),
                             PathToString(input.tree().LeafPath(leaf)), spec.ToString())
          .With("structure", "leaf");
    }
    if (!IsValid(spec.dtype)) return Ref<Tensor>();
    const bool by_rank = relation_ || condition_ == Condition::kScalar;
    if (!by_rank) return Tensor::Create(spec.dtype, Shape({0}));
    if (!spec.shape.has_rank()) return Ref<Tensor>();
    return Tensor::Create(spec.dtype, Shape(std::vector<int64_t>(spec.shape.rank(), 0)));
  }

  // The assertion about x; `tolerances`: with those that were given.
  Status Check(const NamedTensor& x, const NamedTensor& y, bool tolerances) const {
    AssertOptions options;
    options.message = spec_.message;
    options.summarize = spec_.summarize;
    if (comparison_) {
      Tolerances near;
      if (tolerances) near = {spec_.rtol.get(), spec_.atol.get()};
      return AssertCompare(*comparison_, x, y, near, options);
    }
    if (condition_) return AssertCondition(*condition_, x, options);
    if (relation_) return AssertRank(*relation_, x, spec_.ranks, options);
    if (spec_.assertion == RowAssertion::kType) return AssertType(x, spec_.dtype, options);
    return AssertTrue(x, {}, options);
  }

  static Ref<Tensor> TensorOf(const Value& in, size_t leaf) { return in.leaf(leaf).tensor_ref(); }

  Status CheckRow(const Value& in, const Places& places, size_t leaf, int64_t row) const {
    NamedTensor y;
    if (comparison_) {
      y = {YName(in.spec(), places),
           places.y ? TensorOf(in, *places.y)->Row(row) : spec_.y};
    }
    return Check(Named(in.spec(), leaf, TensorOf(in, leaf)->Row(row)), y, true);
  }

  // Among the first `rows`; `rows` where the assertion holds for them.
  int64_t FirstFailedRow(const Value& in, const Places& places, size_t leaf, int64_t rows) const {
    const bool of_elements = comparison_ || spec_.assertion == RowAssertion::kTrue ||
                             (condition_ && *condition_ <= Condition::kNumerics);
    if (!of_elements) return CheckRow(in, places, leaf, 0).ok() ? rows : 0;
    Ref<Tensor> x = TensorOf(in, leaf)->Slice(0, rows);
    NamedTensor y;
    int64_t per_row = x->num_elements() / rows;
    if (comparison_) {
      // Each row is broadcast against y, and never the axis of the rows.
      y.tensor = places.y ? TensorOf(in, *places.y)->Slice(0, rows) : spec_.y;
      const size_t y_rank = y.tensor->rank() - (places.y ? 1 : 0);
      const size_t rank = std::max(x->rank() - 1, y_rank);
      Result<Ref<Tensor>> x_rows = WithRowRank(x, rank);
      Result<Ref<Tensor>> y_rows =
          places.y ? WithRowRank(y.tensor, rank) : Result<Ref<Tensor>>(y.tensor);
      if (!x_rows.ok() || !y_rows.ok()) return 0;
      x = std::move(x_rows).value();
      y.tensor = std::move(y_rows).value();
      const Result<Shape> shape = BroadcastShape(x->shape(), y.tensor->shape());
      if (!shape.ok()) return 0;
      per_row = shape.value().num_elements() / rows;
    }
    const Status status = Check({"", std::move(x)}, y, true);
    if (status.ok()) return rows;
    const StatusDetail* index = status.FindDetail("index");
    const int64_t* place = index == nullptr ? nullptr : std::get_if<int64_t>(&index->value);
    if (place == nullptr || per_row == 0) return 0;
    return std::clamp<int64_t>(*place / per_row, 0, rows - 1);
  }

  const AssertionFunctionSpec spec_;
  const std::optional<Comparison> comparison_;
  const std::optional<Condition> condition_;
  const std::optional<RankRelation> relation_;
};

Status CheckAssertionSpec(const AssertionFunctionSpec& spec) {
  const std::string name = NameOf(spec.assertion);
  if (name.empty()) {
    return InvalidArgument("assertion: there is none of number {}",
                           static_cast<int32_t>(spec.assertion));
  }
  const bool compares = ComparisonOf(spec.assertion).has_value();
  const bool has_y = spec.y != nullptr || !spec.y_path.empty();
  if (compares != has_y || (spec.y != nullptr && !spec.y_path.empty())) {
    return InvalidArgument("{}: found y {} and y_path {}; expected {}", name,
                           spec.y != nullptr ? spec.y->SpecString() : "(none)",
                           Quote(spec.y_path), compares ? "one of the two" : "neither");
  }
  if (!spec.y_path.empty() && spec.path.empty()) {
    return InvalidArgument("{}: y_path is {} and path is empty; say which leaf is compared with it",
                           name, Quote(spec.y_path));
  }
  if (spec.assertion != RowAssertion::kNear && (spec.rtol != nullptr || spec.atol != nullptr)) {
    return InvalidArgument("{}: rtol and atol are assert_near's", name);
  }
  const auto relation = RankRelationOf(spec.assertion);
  if (!relation && !spec.ranks.empty()) {
    return InvalidArgument("{}: found {} ranks; expected none", name, spec.ranks.size());
  }
  if (relation) {
    // What it says of them it says of any tensor.
    for (const int64_t rank : spec.ranks) {
      if (rank < 0) return InvalidArgument("{}: a rank is {}; expected 0 or more", name, rank);
    }
    if (*relation != RankRelation::kIn && spec.ranks.size() != 1) {
      return InvalidArgument("{}: expected one rank, found {}", name, spec.ranks.size());
    }
  }
  const bool of_shapes = spec.assertion == RowAssertion::kShapes;
  if (of_shapes != !spec.shapes.empty() || (of_shapes && !spec.path.empty())) {
    return InvalidArgument("{}: found shapes {} and path {}; expected {}", name,
                           Quote(spec.shapes), Quote(spec.path),
                           of_shapes ? "shapes, which have paths of their own" : "no shapes");
  }
  if (of_shapes) TUTTI_RETURN_IF_ERROR(ReadShapes(spec.shapes).status());
  const bool has_dtype = spec.dtype != DType::kInvalid;
  if (has_dtype != (spec.assertion == RowAssertion::kType) &&
      spec.assertion != RowAssertion::kSameFloatDType) {
    return InvalidArgument("{}: found {}; expected {}", name,
                           has_dtype ? DTypeName(spec.dtype) : "no dtype",
                           has_dtype ? "no dtype" : "one");
  }
  if (has_dtype && !IsValid(spec.dtype)) {
    return InvalidArgument("{}: there is no dtype {}", name, static_cast<int32_t>(spec.dtype));
  }
  return OkStatus();
}

}  // namespace

Result<Ref<Function>> MakeAssertionFunction(AssertionFunctionSpec spec) {
  TUTTI_RETURN_IF_ERROR(CheckAssertionSpec(spec));
  return Ref<Function>(MakeRef<AssertionFunction>(std::move(spec)));
}

Result<Ref<Function>> ReadAssertionFunction(std::string_view payload) {
  StateReader reader(payload);
  reader.Section(kAssertionKind);
  reader.Version("the assertion", kAssertionFormat);
  AssertionFunctionSpec spec;
  spec.assertion = static_cast<RowAssertion>(reader.IntIn(0, INT32_MAX));
  spec.path = std::string(reader.Bytes());
  spec.y_path = std::string(reader.Bytes());
  spec.message = std::string(reader.Bytes());
  spec.summarize = reader.Int();
  spec.ranks = reader.Ints();
  spec.dtype = static_cast<DType>(reader.IntIn(0, INT32_MAX));
  if (spec.assertion == RowAssertion::kShapes) spec.shapes = std::string(reader.Bytes());
  for (Ref<Tensor>* tensor : {&spec.y, &spec.rtol, &spec.atol}) {
    if (reader.IntIn(0, 1) == 0) continue;
    Slab slab;
    reader.Rows(&slab);
    if (!reader.ok()) break;
    if (slab.rows != 1 || slab.columns.size() != 1 || !slab.columns[0].Row(0).is_tensor()) {
      reader.Fail("there is no tensor where one is due");
      break;
    }
    *tensor = slab.columns[0].Row(0).tensor_ref();
  }
  if (reader.ok() && !reader.at_end()) reader.Fail("there are bytes behind its end");
  if (!reader.ok()) {
    return Status(reader.status()).WithPrefix("assertion: these bytes are no definition of one");
  }
  return MakeAssertionFunction(std::move(spec));
}

Status AddAssertionKind(FunctionRegistry* functions) {
  return functions->AddKind(std::string(kAssertionKind), ReadAssertionFunction);
}

}  // namespace tutti
