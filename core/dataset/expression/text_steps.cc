#include "core/dataset/expression/text_steps.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/tensor/cast.h"
#include "core/tensor/text_hash.h"

namespace tutti {
namespace {

using Op = ExpressionOp;

bool IsSpace(char c) { return c == ' ' || ('\t' <= c && c <= '\r'); }

std::string_view Stripped(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

// A byte that goes on with a character of UTF-8.
bool GoesOn(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

int64_t CharactersOf(std::string_view text) {
  return static_cast<int64_t>(text.size()) - std::count_if(text.begin(), text.end(), GoesOn);
}

// Where character `number` begins, counted from the first; the end where there is none.
size_t CharacterAt(std::string_view text, int64_t number) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (!GoesOn(text[i]) && number-- == 0) return i;
  }
  return text.size();
}

// Parts between separators; between runs of blanks, without empty ones, where it is "". At most
// `most` cuts, of -1 as many as there are; without any it is the text itself. Behind the last
// permitted cut comes the rest, which between blanks may be empty: there the end of the text is a
// cut as well, as TensorFlow has it (and str.split has not).
void Split(std::string_view text, std::string_view separator, int64_t most,
           std::vector<BytesView>* parts) {
  const auto add = [&](std::string_view part) { parts->push_back({part.data(), part.size()}); };
  const bool blanks = separator.empty();
  const auto skip_blanks = [&] {
    while (blanks && !text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  };
  for (int64_t cuts = 0; cuts != most; ++cuts) {
    skip_blanks();
    if (blanks && text.empty()) return;
    const size_t cut = blanks ? static_cast<size_t>(std::ranges::find_if(text, IsSpace) -
                                                    text.begin())
                              : std::min(text.find(separator), text.size());
    if (!blanks && cut == text.size()) break;
    add(text.substr(0, cut));
    text.remove_prefix(std::min(cut + std::max<size_t>(separator.size(), 1), text.size()));
    skip_blanks();
  }
  add(text);
}

class TextStep {
 public:
  TextStep(const ExpressionNode& node, std::span<const StepInput> inputs, int64_t rows,
           const TensorOptions& options)
      : node_(node), inputs_(inputs), rows_(rows), options_(options) {}

  Result<Ref<Tensor>> Run() {
    switch (node_.op) {
      case Op::kStringLength: return Length();
      case Op::kStringLower: return Changed('A', 'Z', 32);
      case Op::kStringUpper: return Changed('a', 'z', -32);
      case Op::kStringStrip: return Strip();
      case Op::kSubstr: return Substr();
      case Op::kStringSplit:
        return node_.attributes.numbers[1] > 0 ? SplitInto(node_.attributes.numbers[1])
                                               : SplitAll();
      case Op::kStringSplitRowSplits: return SplitRowSplits();
      case Op::kReduceJoin: return ReduceJoin();
      case Op::kRegexFullMatch: return FullMatch();
      case Op::kRegexReplace: return Replace();
      default: return HashBuckets();
    }
  }

 private:
  const Ref<Tensor>& In() const { return inputs_[0].value; }
  std::span<const BytesView> Texts() const { return In()->span<BytesView>(); }
  std::string_view Name() const { return OperationOf(node_.op).name; }
  bool IsUtf8() const { return node_.attributes.text == "UTF8_CHAR"; }
  int64_t Most() const { return node_.attributes.numbers[0]; }  // string_split's, regex_replace's
  // Of texts that are in the order of the rows.
  int64_t RowOf(size_t text, int64_t texts) const {
    return static_cast<int64_t>(text) / (texts / rows_);
  }

  Result<Ref<Tensor>> Length() {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result,
                           Tensor::Create(DType::kInt32, In()->shape(), options_));
    const std::span<int32_t> lengths = result->mutable_span<int32_t>();
    for (size_t i = 0; i < lengths.size(); ++i) {
      const std::string_view text = Texts()[i].text();
      lengths[i] = static_cast<int32_t>(IsUtf8() ? CharactersOf(text)
                                                 : static_cast<int64_t>(text.size()));
    }
    return result;
  }

  // ASCII letters from `first` to `last` moved by `by`; all other bytes stay.
  Result<Ref<Tensor>> Changed(char first, char last, int by) {
    std::string all;
    for (const BytesView& text : Texts()) all += text.text();
    for (char& c : all) {
      if (first <= c && c <= last) c = static_cast<char>(c + by);
    }
    std::vector<BytesView> views;
    const char* begin = all.data();
    for (const BytesView& text : Texts()) {
      views.push_back({begin, text.size});
      begin += text.size;
    }
    return Tensor::FromStrings(In()->shape(), views, options_.account);
  }

  Result<Ref<Tensor>> Strip() {
    std::vector<BytesView> views;
    for (const BytesView& text : Texts()) {
      const std::string_view stripped = Stripped(text.text());
      views.push_back({stripped.data(), stripped.size()});
    }
    return Tensor::FromBytesViews(In()->shape(), views, In());
  }

  Result<Ref<Tensor>> Substr() {
    PartialShape row = PartialShape::Scalar();
    for (const StepInput& input : inputs_) {
      Result<PartialShape> both =
          BroadcastShapes(row, PartialShape(input.value->shape().RowShape()));
      if (!both.ok()) return OfRow(Status(both.status()).WithPrefix(std::string(Name())), 0);
      row = std::move(both).value();
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, row.Prepend(rows_).ToShape());
    std::vector<Ref<Tensor>> whole;
    for (const StepInput& input : inputs_) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, BroadcastRows(input.value, input.per_row, shape));
      if (tensor->dtype() != DType::kBytes) {
        TUTTI_ASSIGN_OR_RETURN(tensor, Cast(*tensor, DType::kInt64));
      }
      whole.push_back(std::move(tensor));
    }
    const std::span<const BytesView> texts = whole[0]->span<BytesView>();
    std::vector<BytesView> views;
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string_view text = texts[i].text();
      const int64_t size = IsUtf8() ? CharactersOf(text) : static_cast<int64_t>(text.size());
      const int64_t position = whole[1]->span<int64_t>()[i];
      const int64_t length = whole[2]->span<int64_t>()[i];
      const int64_t begin = position < 0 ? position + size : position;
      if (begin < 0 || begin > size) {
        return OfRow(InvalidArgument("substr: there is no position {} in '{}'; expected {} to {}",
                                     position, text.substr(0, 64), -size, size),
                     RowOf(i, shape.num_elements()));
      }
      const int64_t taken = length < 0 ? size - begin : std::min(length, size - begin);
      std::string_view part;
      if (IsUtf8()) {
        const size_t from = CharacterAt(text, begin);
        part = text.substr(from, CharacterAt(text.substr(from), taken));
      } else {
        part = text.substr(static_cast<size_t>(begin), static_cast<size_t>(taken));
      }
      views.push_back({part.data(), part.size()});
    }
    return Tensor::FromBytesViews(shape, views, whole[0]);
  }

  Result<Ref<Tensor>> SplitInto(int64_t count) {
    std::vector<BytesView> parts;
    for (size_t i = 0; i < Texts().size(); ++i) {
      const size_t before = parts.size();
      Split(Texts()[i].text(), node_.attributes.text, Most(), &parts);
      const auto found = static_cast<int64_t>(parts.size() - before);
      if (found == count) continue;
      return OfRow(InvalidArgument("string_split: '{}' has {} part{}, and {} {} asked for",
                                   Texts()[i].text().substr(0, 64), found, found == 1 ? "" : "s",
                                   count, count == 1 ? "was" : "were"),
                   RowOf(i, In()->num_elements()));
    }
    std::vector<int64_t> dims(In()->shape().dims().begin(), In()->shape().dims().end());
    dims.push_back(count);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
    return Tensor::FromBytesViews(shape, parts, In());
  }

  // Rows with as many parts together; a row with another number begins the next run.
  Result<Ref<Tensor>> SplitAll() {
    std::vector<BytesView> parts;
    const size_t each = rows_ == 0 ? 0 : Texts().size() / static_cast<size_t>(rows_);
    size_t first = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      const size_t before = parts.size();
      for (size_t i = 0; i < each; ++i) {
        Split(Texts()[static_cast<size_t>(row) * each + i].text(), node_.attributes.text, Most(),
              &parts);
      }
      const size_t found = parts.size() - before;
      if (row == 0) first = found;
      if (found != first) {
        return OfRow(InvalidArgument("string_split: a row with {} parts stands beside one with {}",
                                     found, first),
                     row);
      }
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, PartialShape({static_cast<int64_t>(first)})
                                                  .Prepend(rows_)
                                                  .ToShape());
    return Tensor::FromBytesViews(shape, parts, In());
  }

  Result<Ref<Tensor>> SplitRowSplits() {
    const int64_t each = In()->dim(1);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, PartialShape({rows_, each + 1}).ToShape());
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result, Tensor::Create(DType::kInt64, shape, options_));
    int64_t* to = result->mutable_span<int64_t>().data();
    const BytesView* text = Texts().data();
    for (int64_t row = 0; row < rows_; ++row) {
      std::vector<BytesView> parts;
      *to++ = 0;
      for (int64_t i = 0; i < each; ++i, ++text) {
        Split(text->text(), node_.attributes.text, Most(), &parts);
        *to++ = static_cast<int64_t>(parts.size());
      }
    }
    return result;
  }

  // The texts along the folded axes with the separator between them: along the first axis named
  // first, what comes of it along the second. All, where none is named, are in row-major order.
  Result<Ref<Tensor>> ReduceJoin() {
    const size_t rank = In()->rank() - 1;
    std::vector<bool> folded(rank, node_.attributes.numbers.empty());
    std::vector<size_t> order;  // of the axes, what goes quickest first
    for (const int64_t axis : node_.attributes.numbers) {
      folded[static_cast<size_t>(axis)] = true;
      order.push_back(static_cast<size_t>(axis));
    }
    const bool all = order.empty();
    std::vector<int64_t> dims = {rows_};
    std::vector<size_t> strides(rank);    // of an axis, in a row of the input
    std::vector<size_t> steps(rank, 0);   // and in the result
    size_t stride = 1;
    size_t step = 1;
    for (size_t axis = rank; axis-- > 0;) {
      const auto dim = static_cast<size_t>(In()->dim(axis + 1));
      strides[axis] = stride;
      stride *= dim;
      if (all || !folded[axis]) order.push_back(axis);
      if (folded[axis]) continue;
      steps[axis] = step;
      step *= dim;
    }
    for (size_t axis = 0; axis < rank; ++axis) {
      if (folded[axis] && !node_.attributes.keep_dims) continue;
      dims.push_back(folded[axis] ? 1 : In()->dim(axis + 1));
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
    std::vector<std::string> joined(static_cast<size_t>(shape.num_elements()));
    std::vector<bool> begun(joined.size());
    for (size_t i = 0; i < Texts().size(); ++i) {
      size_t rest = i % stride;
      size_t from = i - rest;
      size_t place = i / stride * step;
      for (const size_t axis : order) {
        const auto dim = static_cast<size_t>(In()->dim(axis + 1));
        from += rest % dim * strides[axis];
        place += rest % dim * steps[axis];
        rest /= dim;
      }
      if (begun[place]) joined[place] += node_.attributes.text;
      begun[place] = true;
      joined[place] += Texts()[from].text();
    }
    std::vector<BytesView> views;
    for (const std::string& text : joined) views.push_back({text.data(), text.size()});
    return Tensor::FromStrings(shape, views, options_.account);
  }

  Result<Ref<Tensor>> FullMatch() {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result,
                           Tensor::Create(DType::kBool, In()->shape(), options_));
    const std::span<bool> matches = result->mutable_span<bool>();
    for (size_t i = 0; i < matches.size(); ++i) {
      matches[i] = node_.pattern->Matches(Texts()[i].text());
    }
    return result;
  }

  Result<Ref<Tensor>> Replace() {
    const Tensor& rewrites = *inputs_[1].value;
    const bool per_row = inputs_[1].per_row;
    TUTTI_ASSIGN_OR_RETURN(const Shape shape,
                           PartialShape(In()->shape().RowShape()).Prepend(rows_).ToShape());
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> texts,
                           BroadcastRows(In(), inputs_[0].per_row, shape));
    for (int64_t row = 0; row < (per_row ? rows_ : std::min<int64_t>(rows_, 1)); ++row) {
      const std::string_view rewrite =
          rewrites.span<BytesView>()[static_cast<size_t>(row)].text();
      Status status = node_.pattern->CheckRewrite(rewrite);
      if (!status.ok()) return OfRow(std::move(status).WithPrefix(std::string(Name())), row);
    }
    std::vector<std::string> replaced;
    const std::span<const BytesView> all = texts->span<BytesView>();
    for (size_t i = 0; i < all.size(); ++i) {
      const int64_t row = per_row ? RowOf(i, shape.num_elements()) : 0;
      replaced.push_back(node_.pattern->Replaced(
          all[i].text(), rewrites.span<BytesView>()[static_cast<size_t>(row)].text(), Most() == 1));
    }
    std::vector<BytesView> views;
    for (const std::string& text : replaced) views.push_back({text.data(), text.size()});
    return Tensor::FromStrings(shape, views, options_.account);
  }

  Result<Ref<Tensor>> HashBuckets() {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result,
                           Tensor::Create(DType::kInt64, In()->shape(), options_));
    const std::span<int64_t> buckets = result->mutable_span<int64_t>();
    const std::vector<int64_t>& numbers = node_.attributes.numbers;
    for (size_t i = 0; i < buckets.size(); ++i) {
      const std::string_view text = Texts()[i].text();
      const uint64_t hash = node_.op == Op::kToHashBucketFast
                                ? TextFingerprint(text)
                                : KeyedTextHash(static_cast<uint64_t>(numbers[1]),
                                                static_cast<uint64_t>(numbers[2]), text);
      buckets[i] = static_cast<int64_t>(hash % static_cast<uint64_t>(numbers[0]));
    }
    return result;
  }

  const ExpressionNode& node_;
  const std::span<const StepInput> inputs_;
  const int64_t rows_;
  const TensorOptions& options_;
};

}  // namespace

Result<Ref<Tensor>> EvaluateTextStep(const ExpressionNode& node, std::span<const StepInput> inputs,
                                     int64_t rows, const TensorOptions& options) {
  return TextStep(node, inputs, rows, options).Run();
}

}  // namespace tutti
