#include "core/dataset/expression/steps.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/number_text.h"
#include "core/base/text.h"
#include "core/dataset/expression/random_steps.h"
#include "core/dataset/expression/text_steps.h"
#include "core/tensor/as_string.h"
#include "core/tensor/cast.h"
#include "core/tensor/concat.h"
#include "core/tensor/gather.h"
#include "core/tensor/half.h"
#include "core/tensor/join_strings.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

using Op = ExpressionOp;

class KeptTensors final : public RefCounted {
 public:
  explicit KeptTensors(std::vector<Ref<Tensor>> tensors) : tensors_(std::move(tensors)) {}

 private:
  ~KeptTensors() override = default;
  const std::vector<Ref<Tensor>> tensors_;
};

class Step {
 public:
  Step(const ExpressionNode& node, std::span<const StepInput> inputs, int64_t rows,
       const TensorOptions& options)
      : node_(node), inputs_(inputs), rows_(rows), options_(options) {}

  Result<Ref<Tensor>> Run() {
    switch (node_.op) {
      case Op::kReshape: return Reshape();
      case Op::kTranspose: return Transpose();
      case Op::kSlice: return Slice();
      case Op::kIndex: return Index();
      case Op::kExpandDims: return ExpandDims();
      case Op::kStack:
      case Op::kConcatenate: return Join();
      case Op::kTake: return Take();
      case Op::kOneHot: return OneHot();
      case Op::kWhere: return ChooseBytes();
      case Op::kCast: return In(0);  // of bytes to bytes
      case Op::kJoinStrings: return JoinTexts();
      case Op::kAsString: return AsString(*In(0));
      case Op::kToNumber: return ToNumber();
      case Op::kDecodeRaw: return DecodeRaw();
      case Op::kStringLength:
      case Op::kStringLower:
      case Op::kStringUpper:
      case Op::kStringStrip:
      case Op::kSubstr:
      case Op::kStringSplit:
      case Op::kStringSplitRowSplits:
      case Op::kReduceJoin:
      case Op::kRegexFullMatch:
      case Op::kRegexReplace:
      case Op::kToHashBucketFast:
      case Op::kToHashBucketStrong: return EvaluateTextStep(node_, inputs_, rows_, options_);
      case Op::kRandomUniform:
      case Op::kRandomNormal:
      case Op::kRandomTruncatedNormal:
      case Op::kRandomBits:
      case Op::kRandomIntegers: return EvaluateRandomStep(node_, inputs_, rows_, options_);
      default: return Reduce();
    }
  }

 private:
  const Ref<Tensor>& In(size_t i) const { return inputs_[i].value; }
  int64_t Number(size_t i) const { return node_.attributes.numbers[i]; }
  std::string_view Name() const { return OperationOf(node_.op).name; }

  Result<Ref<Tensor>> Reshape() {
    std::vector<int64_t> dims = node_.attributes.numbers;
    const int64_t row_elements = rows_ == 0 ? 0 : In(0)->num_elements() / rows_;
    int64_t known = 1;
    for (const int64_t dim : dims) known *= dim == -1 ? 1 : dim;
    const bool open = std::find(dims.begin(), dims.end(), -1) != dims.end();
    const bool fits = open ? known > 0 && row_elements % known == 0 : row_elements == known;
    if (!fits && rows_ > 0) {
      return OfRow(InvalidArgument("reshape: a row is {}{}, which does not become {}",
                                   DTypeName(In(0)->dtype()),
                                   In(0)->shape().RowShape().ToString(), DimsToString(dims)),
                   0);
    }
    for (int64_t& dim : dims) {
      if (dim == -1) dim = known > 0 ? row_elements / known : 0;
    }
    dims.insert(dims.begin(), rows_);
    return In(0)->Reshape(dims);
  }

  // The axes in another order; axis 0 is that of the rows.
  static Result<Ref<Tensor>> Permuted(const Ref<Tensor>& tensor, std::span<const int64_t> order) {
    std::vector<int64_t> dims = {tensor->dim(0)};
    std::vector<int64_t> strides = {tensor->strides()[0]};
    for (const int64_t axis : order) {
      dims.push_back(tensor->dim(static_cast<size_t>(axis) + 1));
      strides.push_back(tensor->strides()[static_cast<size_t>(axis) + 1]);
    }
    return Tensor::View(const_cast<void*>(tensor->data()), tensor->dtype(),
                        Shape(std::span<const int64_t>(dims)), strides, true, tensor)
        ->Contiguous();
  }

  Result<Ref<Tensor>> Transpose() { return Permuted(In(0), node_.attributes.numbers); }

  Result<Ref<Tensor>> Slice() {
    const Tensor& tensor = *In(0);
    std::vector<int64_t> begin(tensor.rank(), 0);
    std::vector<int64_t> size(tensor.shape().dims().begin(), tensor.shape().dims().end());
    std::vector<int64_t> step(tensor.rank(), 1);
    for (size_t i = 0; i < node_.attributes.numbers.size() / 3; ++i) {
      const AxisSlice slice =
          SliceOfAxis(tensor.dim(i + 1), Number(3 * i), Number(3 * i + 1), Number(3 * i + 2));
      begin[i + 1] = slice.begin;
      size[i + 1] = slice.size;
      step[i + 1] = slice.step;
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> view, tensor.SliceGeneral(begin, size, step));
    return view->Contiguous();
  }

  Result<Ref<Tensor>> Index() {
    const Tensor& tensor = *In(0);
    const auto axis = static_cast<size_t>(Number(0)) + 1;
    const int64_t place = Number(1) < 0 ? Number(1) + tensor.dim(axis) : Number(1);
    if (place < 0 || place >= tensor.dim(axis)) {
      return OfRow(InvalidArgument("index: there is no place {} along axis {} of a row, {}{}",
                                   Number(1), axis - 1, DTypeName(tensor.dtype()),
                                   tensor.shape().RowShape().ToString()),
                   0);
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> view, tensor.SliceAxis(axis, place, place + 1));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> whole, view->Contiguous());
    return whole->Reshape(whole->shape().WithoutAxis(axis).dims());
  }

  Result<Ref<Tensor>> ExpandDims() {
    std::vector<int64_t> dims(In(0)->shape().dims().begin(), In(0)->shape().dims().end());
    dims.insert(dims.begin() + Number(0) + 1, 1);
    return In(0)->Reshape(dims);
  }

  // The inputs with as many rows as the result.
  Result<std::vector<Ref<Tensor>>> WithRows() {
    std::vector<Ref<Tensor>> whole;
    for (const StepInput& input : inputs_) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor,
                             BroadcastRows(input.value, input.per_row,
                                           input.value->shape().WithDim(0, rows_)));
      whole.push_back(std::move(tensor));
    }
    return whole;
  }

  Result<Ref<Tensor>> Join() {
    TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Tensor>> parts, WithRows());
    const auto axis = static_cast<size_t>(Number(0)) + 1;
    std::vector<const Tensor*> tensors;
    for (Ref<Tensor>& part : parts) {
      if (node_.op == Op::kStack) {
        std::vector<int64_t> dims(part->shape().dims().begin(), part->shape().dims().end());
        dims.insert(dims.begin() + static_cast<int64_t>(axis), 1);
        TUTTI_ASSIGN_OR_RETURN(part, part->Reshape(dims));
      }
      tensors.push_back(part.get());
    }
    Result<Ref<Tensor>> joined = Concat(tensors, axis, options_);
    if (!joined.ok() && joined.status().code() == StatusCode::kInvalidArgument) {
      return OfRow(Status(joined.status()).WithPrefix(std::string(Name())), 0);
    }
    return joined;
  }

  // Views of byte strings, with what keeps them.
  Result<Ref<Tensor>> TextsOf(const Shape& shape, const std::vector<BytesView>& views) {
    std::vector<Ref<Tensor>> kept;
    for (const StepInput& input : inputs_) kept.push_back(input.value);
    return Tensor::FromBytesViews(shape, views, MakeRef<KeptTensors>(std::move(kept)));
  }

  Result<Ref<Tensor>> Take() {
    const Tensor& table = *In(0);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> places, Cast(*In(1), DType::kInt64));
    const auto axis = static_cast<size_t>(Number(0)) + 1;
    int64_t outer = 1;
    for (size_t i = 1; i < axis; ++i) outer *= table.dim(i);
    int64_t inner = 1;
    for (size_t i = axis + 1; i < table.rank(); ++i) inner *= table.dim(i);
    const int64_t size = table.dim(axis);
    const int64_t each = places->dim(0) == 0 ? 0 : places->num_elements() / places->dim(0);
    std::vector<int64_t> dims = {rows_};
    const auto append = [&](std::span<const int64_t> some) {
      dims.insert(dims.end(), some.begin(), some.end());
    };
    append(table.shape().dims().subspan(1, axis - 1));
    append(places->shape().dims().subspan(1));
    append(table.shape().dims().subspan(axis + 1));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
    const bool texts = table.dtype() == DType::kBytes;
    std::vector<BytesView> views(texts ? static_cast<size_t>(shape.num_elements()) : 0);
    Ref<Tensor> result;
    if (!texts) {
      TUTTI_ASSIGN_OR_RETURN(result, Tensor::Create(table.dtype(), shape, options_));
    }
    auto* to = texts ? reinterpret_cast<char*>(views.data())
                     : static_cast<char*>(result->mutable_data());
    const size_t bytes = static_cast<size_t>(inner) * table.item_size();
    for (int64_t row = 0; row < rows_; ++row) {
      const auto* from = static_cast<const char*>(table.data()) +
                         (inputs_[0].per_row ? row * outer * size : 0) *
                             static_cast<int64_t>(bytes);
      const int64_t* index =
          places->span<int64_t>().data() + (inputs_[1].per_row ? row * each : 0);
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t k = 0; k < each; ++k, to += bytes) {
          const int64_t place = index[k] < 0 ? index[k] + size : index[k];
          if (place < 0 || place >= size) {
            return OfRow(InvalidArgument("take: there is no place {} among {}", index[k], size),
                         row);
          }
          const char* const item = from + (o * size + place) * static_cast<int64_t>(bytes);
          if (bytes > 0) std::memcpy(to, item, bytes);
        }
      }
    }
    return texts ? TextsOf(shape, views) : std::move(result);
  }

  Result<Ref<Tensor>> OneHot() {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> places, Cast(*In(0), DType::kInt64));
    const int64_t depth = Number(0);
    std::vector<int64_t> dims(places->shape().dims().begin(), places->shape().dims().end());
    dims.push_back(depth);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
    TensorOptions zeroed = options_;
    zeroed.zeroed = true;
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result, Tensor::Create(node_.dtype, shape, zeroed));
    char one[16];
    const bool yes = true;
    CastElements(DType::kBool, &yes, node_.dtype, one, 1);
    char* to = static_cast<char*>(result->mutable_data());
    const size_t size = result->item_size();
    for (const int64_t place : places->span<int64_t>()) {
      if (0 <= place && place < depth) {
        std::memcpy(to + static_cast<size_t>(place) * size, one, size);
      }
      to += static_cast<size_t>(depth) * size;
    }
    return result;
  }

  Result<Ref<Tensor>> ChooseBytes() {
    PartialShape row = PartialShape::Scalar();
    for (const StepInput& input : inputs_) {
      Result<PartialShape> both =
          BroadcastShapes(row, PartialShape(input.value->shape().RowShape()));
      if (!both.ok()) return OfRow(Status(both.status()).WithPrefix("where"), 0);
      row = std::move(both).value();
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, row.Prepend(rows_).ToShape());
    std::vector<Ref<Tensor>> whole;
    for (const StepInput& input : inputs_) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor,
                             BroadcastRows(input.value, input.per_row, shape));
      whole.push_back(std::move(tensor));
    }
    const std::span<const bool> condition = whole[0]->span<bool>();
    std::vector<BytesView> views;
    views.reserve(condition.size());
    for (size_t i = 0; i < condition.size(); ++i) {
      views.push_back(whole[condition[i] ? 1 : 2]->span<BytesView>()[i]);
    }
    return Tensor::FromBytesViews(shape, views, MakeRef<KeptTensors>(std::move(whole)));
  }

  Result<Ref<Tensor>> JoinTexts() {
    PartialShape row = PartialShape::Scalar();
    for (const StepInput& input : inputs_) {
      Result<PartialShape> both =
          BroadcastShapes(row, PartialShape(input.value->shape().RowShape()));
      if (!both.ok()) return OfRow(Status(both.status()).WithPrefix(std::string(Name())), 0);
      row = std::move(both).value();
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, row.Prepend(rows_).ToShape());
    std::vector<Ref<Tensor>> whole;
    std::vector<const Tensor*> tensors;
    for (const StepInput& input : inputs_) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor,
                             BroadcastRows(input.value, input.per_row, shape));
      tensors.push_back(tensor.get());
      whole.push_back(std::move(tensor));
    }
    return JoinStrings(tensors, node_.attributes.text);
  }

  // In the widest type of the dtype's kind, of which the dtype must hold what is there.
  template <class T>
  Result<Ref<Tensor>> Parsed() {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> wide,
                           Tensor::Create(DTypeOf<T>, In(0)->shape(), options_));
    const std::span<T> numbers = wide->mutable_span<T>();
    const std::span<const BytesView> texts = In(0)->span<BytesView>();
    for (size_t i = 0; i < texts.size(); ++i) {
      bool good = ReadNumber(texts[i].text(), &numbers[i]);
      if constexpr (std::is_integral_v<T>) {
        T there = 0;
        T back = 0;
        if (good) {
          CastElements(DTypeOf<T>, &numbers[i], node_.dtype, &there, 1);
          CastElements(node_.dtype, &there, DTypeOf<T>, &back, 1);
          good = back == numbers[i];
        }
      }
      if (!good) {
        return OfRow(InvalidArgument("to_number: '{}' is no {}", texts[i].text().substr(0, 64),
                                     DTypeName(node_.dtype)),
                     static_cast<int64_t>(i) / (In(0)->num_elements() / rows_));
      }
    }
    return Cast(*wide, node_.dtype, options_);
  }

  Result<Ref<Tensor>> ToNumber() {
    if (node_.dtype == DType::kUint64) return Parsed<uint64_t>();
    if (IsInteger(node_.dtype)) return Parsed<int64_t>();
    if (node_.dtype == DType::kFloat64) return Parsed<double>();
    return Parsed<float>();
  }

  // Rows of one length together; a row of another length begins the next run.
  Result<Ref<Tensor>> DecodeRaw() {
    const std::span<const BytesView> texts = In(0)->span<BytesView>();
    const size_t size = ItemSize(node_.dtype);
    const size_t length = texts.empty() ? 0 : texts[0].size;
    for (size_t i = 0; i < texts.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / (In(0)->num_elements() / rows_);
      if (texts[i].size % size != 0) {
        return OfRow(InvalidArgument("decode_raw: {} bytes are no whole number of {}, of {} each",
                                     texts[i].size, DTypeName(node_.dtype), size),
                     row);
      }
      if (texts[i].size != length) {
        return OfRow(InvalidArgument("decode_raw: a string of {} bytes stands beside one of {}",
                                     texts[i].size, length),
                     row);
      }
    }
    std::vector<int64_t> dims(In(0)->shape().dims().begin(), In(0)->shape().dims().end());
    dims.push_back(static_cast<int64_t>(length / size));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result, Tensor::Create(node_.dtype, shape, options_));
    char* to = static_cast<char*>(result->mutable_data());
    for (const BytesView& text : texts) {
      if (length > 0) std::memcpy(to, text.data, length);
      to += length;
    }
    if (node_.dtype == DType::kBool) {
      for (bool& flag : result->mutable_span<bool>()) {
        unsigned char byte;
        std::memcpy(&byte, &flag, 1);
        flag = byte != 0;
      }
    }
    return result;
  }

  template <class T>
  static void Places(const T* from, int64_t groups, int64_t size, bool largest, int64_t* to) {
    for (int64_t i = 0; i < groups; ++i, from += size) {
      int64_t best = 0;
      for (int64_t k = 1; k < size && from[best] == from[best]; ++k) {
        const bool better = largest ? from[k] > from[best] : from[k] < from[best];
        if (better || from[k] != from[k]) best = k;  // the first NaN counts
      }
      to[i] = best;
    }
  }

  Result<Ref<Tensor>> ArgReduce(const Ref<Tensor>& flat, int64_t groups, int64_t size) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result,
                           Tensor::Create(DType::kInt64, Shape({groups}), options_));
    Ref<Tensor> numbers = flat;
    if (flat->item_size() == 2 && IsFloating(flat->dtype())) {
      TUTTI_ASSIGN_OR_RETURN(numbers, Cast(*flat, DType::kFloat32));
    }
    int64_t* const to = result->mutable_span<int64_t>().data();
    VisitDType(numbers->dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_arithmetic_v<T>) {
        Places(static_cast<const T*>(numbers->data()), groups, size, node_.op == Op::kArgMax, to);
      }
    });
    return result;
  }

  static ReduceOp FoldOf(Op op) {
    switch (op) {
      case Op::kSum: return ReduceOp::kSum;
      case Op::kProd: return ReduceOp::kProd;
      case Op::kMin:
      case Op::kAll: return ReduceOp::kMin;
      case Op::kMean: return ReduceOp::kMean;
      default: return ReduceOp::kMax;
    }
  }

  // The folded axes are put behind the others, and become one.
  Result<Ref<Tensor>> Reduce() {
    const size_t rank = In(0)->rank() - 1;
    std::vector<bool> folded(rank, node_.attributes.numbers.empty());
    for (const int64_t axis : node_.attributes.numbers) folded[static_cast<size_t>(axis)] = true;
    std::vector<int64_t> order;
    std::vector<int64_t> dims = {rows_};
    int64_t groups = rows_;
    int64_t size = 1;
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t dim = In(0)->dim(axis + 1);
      if (folded[axis]) {
        size *= dim;
        if (node_.attributes.keep_dims) dims.push_back(1);
      } else {
        order.push_back(static_cast<int64_t>(axis));
        dims.push_back(dim);
        groups *= dim;
      }
    }
    for (size_t axis = 0; axis < rank; ++axis) {
      if (folded[axis]) order.push_back(static_cast<int64_t>(axis));
    }
    const bool needs_some = node_.op != Op::kSum && node_.op != Op::kProd &&
                            node_.op != Op::kMean && node_.op != Op::kAny && node_.op != Op::kAll;
    if (size == 0 && needs_some && groups > 0) {
      return OfRow(InvalidArgument("{}: a row is {}{}, and of no elements there is none", Name(),
                                   DTypeName(In(0)->dtype()),
                                   In(0)->shape().RowShape().ToString()),
                   0);
    }
    Ref<Tensor> flat = In(0);
    if (!std::is_sorted(order.begin(), order.end())) {
      TUTTI_ASSIGN_OR_RETURN(flat, Permuted(In(0), order));
    }
    const std::vector<int64_t> pairs = {groups, size};
    TUTTI_ASSIGN_OR_RETURN(flat, flat->Reshape(pairs));
    Ref<Tensor> result;
    if (node_.op == Op::kArgMin || node_.op == Op::kArgMax) {
      TUTTI_ASSIGN_OR_RETURN(result, ArgReduce(flat, groups, size));
    } else if (size == 0 && In(0)->dtype() == DType::kBool) {
      TUTTI_ASSIGN_OR_RETURN(result, Tensor::Create(DType::kBool, Shape({groups}), options_));
      for (bool& flag : result->mutable_span<bool>()) flag = node_.op == Op::kAll;
    } else {
      TUTTI_ASSIGN_OR_RETURN(result, ReduceAxis(FoldOf(node_.op), *flat, 1, options_));
    }
    return result->Reshape(dims);
  }

  const ExpressionNode& node_;
  const std::span<const StepInput> inputs_;
  const int64_t rows_;
  const TensorOptions& options_;
};

}  // namespace

Result<Ref<Tensor>> EvaluateStep(const ExpressionNode& node, std::span<const StepInput> inputs,
                                 int64_t rows, const TensorOptions& options) {
  return Step(node, inputs, rows, options).Run();
}

Result<Ref<Tensor>> BroadcastRows(const Ref<Tensor>& value, bool per_row, const Shape& shape) {
  if (value->shape() == shape) return value;
  const size_t rank = shape.rank();
  Dims strides(rank, 0);
  if (per_row) strides[0] = value->strides()[0];
  bool fits = value->rank() <= rank && (!per_row || value->dim(0) == shape.dim(0));
  for (size_t i = 1; fits && i < value->rank(); ++i) {
    const size_t from = value->rank() - i;
    const int64_t dim = value->dim(from);
    fits = dim == 1 || dim == shape.dim(rank - i);
    if (dim != 1) strides[rank - i] = value->strides()[from];
  }
  if (!fits) {
    return OfRow(InvalidArgument("a row of {} does not broadcast to one of {}",
                                 value->shape().RowShape().ToString(),
                                 shape.RowShape().ToString()),
                 0);
  }
  return Tensor::View(const_cast<void*>(value->data()), value->dtype(), shape, strides.span(), true,
                      value)
      ->Copy();
}

}  // namespace tutti
