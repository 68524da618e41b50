// Nodes that cut texts, draw numbers of a seed and compute with complex numbers: what they give,
// whose errors belong to rows, the same for every number of rows at once and after being read.
#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <random>

#include "core/base/seeded_runs_testing.h"
#include "core/dataset/example/parse_example.h"
#include "core/dataset/expression/apply.h"
#include "core/dataset/expression/expression.h"
#include "core/dataset/expression/expression_function.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/example_testing.h"
#include "core/tensor/composite.h"
#include "core/tensor/stateless_random.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ExpressionAttributes Told(std::vector<int64_t> numbers, std::string text = "",
                          DType dtype = DType::kInvalid) {
  ExpressionAttributes attributes;
  attributes.numbers = std::move(numbers);
  attributes.text = std::move(text);
  attributes.dtype = dtype;
  return attributes;
}

Ref<Tensor> TextsOf(const std::vector<std::string>& texts) {
  std::vector<BytesView> views;
  for (const std::string& text : texts) views.push_back({text.data(), text.size()});
  return Tensor::FromStrings(Shape({static_cast<int64_t>(texts.size())}), views).value();
}

Ref<Tensor> Complexes(std::vector<std::complex<double>> numbers) {
  return Tensor::FromData(DType::kComplex128, Shape({static_cast<int64_t>(numbers.size())}),
                          numbers.data(), numbers.size() * 16)
      .value();
}

class MoreNodes : public DatasetTest {
 protected:
  // What an operation gives of tensors at once; the message of a failure.
  std::string Applied(std::string_view name, std::vector<Ref<Tensor>> inputs,
                      ExpressionAttributes attributes = {}) {
    const Result<Ref<Tensor>> result =
        ApplyOperation(*environment_, name, inputs, std::move(attributes));
    return result.ok() ? result.value()->ToString() : std::string(result.status().message());
  }
  // The function of one operation of a leaf of this spec.
  static Ref<Function> Of(std::string_view name, DType dtype, const PartialShape& shape,
                          ExpressionAttributes attributes) {
    const Ref<Expression> trace =
        Expression::Create(ElementSpec::OfTensor(dtype, shape)).value();
    const int64_t x = trace->Parameter(0).value();
    const int64_t node = trace->Apply(name, {{x}}, std::move(attributes)).value();
    return MakeExpressionFunction(*trace, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()), {{node}})
        .value();
  }
  Ref<Dataset> Slices(const Ref<Tensor>& tensor) {
    return Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(tensor)));
  }
  // The function after being written down and read.
  Ref<Function> Again(const Ref<Function>& function) {
    return datasets_->functions()->Make(function->Define().value()).value();
  }
};

TEST_F(MoreNodes, ChangeAndMeasureTexts) {
  const Ref<Tensor> texts = TextsOf({" \t\n\v\f\rA b\xC3\x84 ", "", "\x1c Zz"});
  EXPECT_EQ(Applied("string_lower", {texts}), TextsOf({" \t\n\v\f\ra b\xC3\x84 ", "", "\x1c zz"})
                                                  ->ToString());
  EXPECT_EQ(Applied("string_upper", {texts}), TextsOf({" \t\n\v\f\rA B\xC3\x84 ", "", "\x1c ZZ"})
                                                  ->ToString());
  EXPECT_EQ(Applied("string_strip", {texts}),
            TextsOf({"A b\xC3\x84", "", "\x1c Zz"})->ToString());
  EXPECT_EQ(Applied("string_length", {texts}), "int32[3] [12 0 4]");
  EXPECT_EQ(Applied("string_length", {texts}, Told({}, "UTF8_CHAR")), "int32[3] [11 0 4]");
  EXPECT_THAT(Applied("string_length", {texts}, Told({}, "WORD")),
              HasSubstr("the unit is 'WORD'; expected BYTE or UTF8_CHAR"));
  EXPECT_THAT(Applied("string_lower", {Tensor::Scalar(1.0)}), HasSubstr("expected bytes"));
}

TEST_F(MoreNodes, CutPartsOutOfTexts) {
  const auto part = [&](const char* text, int64_t position, int64_t length,
                        std::string unit = "") {
    return Applied("substr", {Tensor::Bytes(text), Tensor::Scalar(position),
                              Tensor::Scalar(length)}, Told({}, std::move(unit)));
  };
  EXPECT_EQ(part("hello", 1, 2), "bytes[] \"el\"");
  EXPECT_EQ(part("hello", -3, 2), "bytes[] \"ll\"");
  EXPECT_EQ(part("hello", 2, 100), "bytes[] \"llo\"");
  EXPECT_EQ(part("hello", 1, -1), "bytes[] \"ello\"");
  EXPECT_EQ(part("hello", 5, 2), "bytes[] \"\"");
  EXPECT_EQ(part("hello", -5, INT64_MAX), "bytes[] \"hello\"");
  EXPECT_THAT(part("hello", 6, 2),
              HasSubstr("there is no position 6 in 'hello'; expected -5 to 5"));
  EXPECT_THAT(part("hello", -6, 2), HasSubstr("no position -6"));
  EXPECT_THAT(part("hello", INT64_MIN, 2), HasSubstr("no position -9223372036854775808"));
  EXPECT_EQ(part("h\xC3\xA4\xC3\x9Fx", 1, 2, "UTF8_CHAR"),
            Tensor::Bytes("\xC3\xA4\xC3\x9F")->ToString());
  EXPECT_EQ(part("h\xC3\xA4\xC3\x9Fx", 4, 1, "UTF8_CHAR"), "bytes[] \"\"");
  EXPECT_EQ(Applied("substr", {TextsOf({"abc", "de"}), Tensor::Vector<int32_t>({1, 0}),
                               Tensor::Scalar<int32_t>(1)}),
            TextsOf({"b", "d"})->ToString());
  EXPECT_THAT(Applied("substr", {TextsOf({"a"}), Tensor::Scalar(1.0), Tensor::Scalar(1.0)}),
              HasSubstr("expected integers as position and length"));
}

TEST_F(MoreNodes, SplitTextsAsTheReferenceDoes) {
  const auto parts = [&](const char* text, std::string separator, int64_t most) {
    return Applied("string_split", {Tensor::Bytes(text)}, Told({most}, std::move(separator)));
  };
  const auto texts = [](const std::vector<std::string>& all) { return TextsOf(all)->ToString(); };
  EXPECT_EQ(parts("  a b  c ", "", -1), texts({"a", "b", "c"}));
  EXPECT_EQ(parts("  a b  c ", "", 1), texts({"a", "b  c "}));
  EXPECT_EQ(parts("  a b  c ", "", 0), texts({"  a b  c "}));
  EXPECT_EQ(parts("", "", -1), texts({}));
  EXPECT_EQ(parts("", "", 0), texts({""}));
  EXPECT_EQ(parts("", "", 1), texts({}));
  EXPECT_EQ(parts("a", "", 1), texts({"a", ""}));
  EXPECT_EQ(parts("a", "", 2), texts({"a"}));
  EXPECT_EQ(parts("a b ", "", 1), texts({"a", "b "}));
  EXPECT_EQ(parts(" a b ", "", 2), texts({"a", "b", ""}));
  EXPECT_EQ(parts("   ", "", -1), texts({}));
  EXPECT_EQ(parts("", ",", -1), texts({""}));
  EXPECT_EQ(parts("a,,b,", ",", -1), texts({"a", "", "b", ""}));
  EXPECT_EQ(parts("a,,b,", ",", 1), texts({"a", ",b,"}));
  EXPECT_EQ(parts("a,b", ",", 0), texts({"a,b"}));
  EXPECT_EQ(parts("aXXbXX", "XX", -1), texts({"a", "b", ""}));
  EXPECT_EQ(Applied("string_split", {TextsOf({"1:2", "3:4"})}, Told({-1, 2}, ":")),
            TextsOf({"1", "2", "3", "4"})->Reshape(std::vector<int64_t>{2, 2}).value()->ToString());
  EXPECT_THAT(Applied("string_split", {TextsOf({"1:2", "3"})}, Told({-1, 2}, ":")),
              HasSubstr("'3' has 1 part, and 2 were asked for"));
  const Ref<Tensor> ragged = TextsOf({"a b", "", "c"});
  EXPECT_EQ(Applied("string_split", {ragged}), TextsOf({"a", "b", "c"})->ToString());
  EXPECT_EQ(Applied("string_split_row_splits", {ragged}), "int64[4] [0 2 2 3]");
  EXPECT_THAT(Applied("string_split_row_splits", {Tensor::Bytes("a")}), HasSubstr("a vector"));
  EXPECT_THAT(Applied("string_split", {ragged}, Told({-2})), HasSubstr("expected a number"));
  EXPECT_THAT(Applied("string_split", {ragged}, Told({1, 2, 3})), HasSubstr("got 3 numbers"));
  const Ref<Tensor> square = ragged->Reshape(std::vector<int64_t>{3, 1}).value();
  EXPECT_THAT(Applied("string_split", {square}), HasSubstr("say into how many parts"));
}

TEST_F(MoreNodes, SplitRowsIntoAsManyPartsAsEachHas) {
  const Ref<Tensor> texts = TextsOf({"a b", "c d", "e", "", "f g h"});
  const Ref<Function> split =
      Again(Of("string_split", DType::kBytes, Shape(), Told({})));
  const Ref<Dataset> dataset = Ok(Slices(texts)->Map(split));
  EXPECT_EQ(SpecText(dataset), "bytes[?]");
  EXPECT_THAT(All(dataset),
              ElementsAre("[\"a\" \"b\"]", "[\"c\" \"d\"]", "[\"e\"]", "[]",
                          "[\"f\" \"g\" \"h\"]"));
  const Ref<Iterator> iterator = Iterate(Ok(
      Slices(texts)->Map(Of("string_split", DType::kBytes, Shape(), Told({-1, 2})))));
  EXPECT_EQ(Next(*iterator), "[\"a\" \"b\"]");
  EXPECT_EQ(Next(*iterator), "[\"c\" \"d\"]");
  EXPECT_THAT(Next(*iterator), HasSubstr("element 2: string_split: 'e' has 1 part"));
  EXPECT_THAT(Next(*iterator), HasSubstr("element 3: string_split: '' has 0 parts"));
  EXPECT_THAT(Next(*iterator), HasSubstr("element 4: string_split: 'f g h' has 3 parts"));
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(MoreNodes, MatchWholeTexts) {
  const Ref<Tensor> texts = TextsOf({"abc", "ab", "", "xabc", "ab\n", "ab\xC3\xA4", "ab\xFF"});
  EXPECT_EQ(Applied("regex_full_match", {texts}, Told({}, "ab.?")),
            "bool[7] [True True False False False True False]");
  EXPECT_EQ(Applied("regex_full_match", {Tensor::Bytes("")}, Told({}, "")), "bool[] True");
  EXPECT_THAT(Applied("regex_full_match", {texts}, Told({}, "a(b")),
              HasSubstr("regex_full_match: 'a(b' is no pattern: missing ): a(b; expected RE2's"));
  EXPECT_THAT(Applied("regex_full_match", {texts}, Told({}, "\xFF")), HasSubstr("UTF-8"));
  EXPECT_THAT(Applied("regex_full_match", {Tensor::Scalar(1.0)}, Told({}, "a")),
              HasSubstr("expected bytes"));
  // Backtracking would take longer than anybody waits.
  EXPECT_EQ(Applied("regex_full_match", {Tensor::Bytes(std::string(5000, 'a'))},
                    Told({}, "(a*)*(a*)*b")), "bool[] False");
  EXPECT_THAT(All(Ok(Slices(texts)->Map(
                  Again(Of("regex_full_match", DType::kBytes, Shape(), Told({}, "ab?c?")))))),
              ElementsAre("True", "True", "False", "False", "False", "False", "False"));
}

// What TensorFlow 2.21 gives.
TEST_F(MoreNodes, ReplaceWhatMatches) {
  const Ref<Tensor> texts = TextsOf({"a1b2", "", "x\xC3\xA4x", "a\na"});
  const auto replaced = [&](std::string pattern, std::string_view rewrite, int64_t all = 1) {
    return Applied("regex_replace", {texts, Tensor::Bytes(std::string(rewrite))},
                   Told({all}, std::move(pattern)));
  };
  const auto is = [](const std::vector<std::string>& all) { return TextsOf(all)->ToString(); };
  EXPECT_EQ(replaced("(\\w)(\\d)", "\\2-\\1"), is({"1-a2-b", "", "x\xC3\xA4x", "a\na"}));
  EXPECT_EQ(replaced("(\\w)(\\d)", "\\2-\\1", 0), is({"1-ab2", "", "x\xC3\xA4x", "a\na"}));
  EXPECT_EQ(replaced("", "-"), is({"-a-1-b-2-", "-", "-x-\xC3\xA4-x-", "-a-\n-a-"}));
  EXPECT_EQ(replaced("x*", "."), is({".a.1.b.2.", ".", ".\xC3\xA4.", ".a.\n.a."}));
  EXPECT_EQ(replaced(".", "_"), is({"____", "", "___", "_\n_"}));
  EXPECT_EQ(replaced(".", "", 0), is({"1b2", "", "\xC3\xA4x", "\na"}));
  EXPECT_EQ(replaced("a$", "\\0\\\\"), is({"a1b2", "", "x\xC3\xA4x", "a\na\\"}));
  EXPECT_THAT(replaced("[", ""), HasSubstr("regex_replace: '[' is no pattern: missing ]"));
  EXPECT_THAT(replaced("(a)", "\\2"), HasSubstr("'\\2' is no rewrite of '(a)': "));
  EXPECT_THAT(replaced("(a)", "\\x"), HasSubstr("expected \\0 for what matched"));
  EXPECT_THAT(replaced("a", "", 2), HasSubstr("0 for the first one, got 2"));
  EXPECT_THAT(Applied("regex_replace", {texts, texts}, Told({}, "a")),
              HasSubstr("the rewrite is bytes[4]; expected one text"));
  EXPECT_THAT(Applied("regex_replace", {texts, Tensor::Scalar(1.0)}, Told({}, "a")),
              HasSubstr("the rewrite is float64[]"));
  EXPECT_THAT(Applied("regex_replace", {texts, Tensor::Bytes("")}, Told({1, 1}, "a")),
              HasSubstr("got 2 numbers"));
}

TEST_F(MoreNodes, RewriteWithWhatTheRowSays) {
  const Ref<Expression> trace =
      Expression::Create(ElementSpec::OfTensor(DType::kBytes, Shape())).value();
  const int64_t x = trace->Parameter(0).value();
  const auto text = [&](const char* of) {
    return trace->Constant(Tensor::Bytes(of), false).value();
  };
  // A rewrite of the program's is looked at where the node is made.
  EXPECT_THAT(std::string(trace->Apply("regex_replace", {{x, text("\\1")}}, Told({}, "a"))
                              .status().message()),
              HasSubstr("regex_replace: '\\1' is no rewrite of 'a'"));
  const int64_t own = trace->Apply("regex_replace", {{text("a-b"), x}}, Told({}, "-|b")).value();
  const int64_t fixed = trace->Apply("regex_replace", {{x, text("<\\0>")}}, Told({}, "c")).value();
  const auto leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  const Ref<Function> function = Again(
      MakeExpressionFunction(*trace, TreeSpec::Tuple({leaf, leaf}), {{own, fixed}}).value());
  const Ref<Iterator> iterator =
      Iterate(Ok(Slices(TextsOf({"c", "\\0", "\\1", ""}))->Map(function)));
  EXPECT_EQ(Next(*iterator), "(\"acc\", \"<c>\")");
  EXPECT_EQ(Next(*iterator), "(\"a-b\", \"\\\\0\")");
  EXPECT_THAT(Next(*iterator), HasSubstr("element 2: regex_replace: '\\1' is no rewrite"));
  EXPECT_EQ(Next(*iterator), "(\"a\", \"\")");
}

// What TensorFlow 2.21 gives.
TEST_F(MoreNodes, HashTextsIntoBuckets) {
  const Ref<Tensor> texts = TextsOf({"a", "b", ""});
  EXPECT_EQ(Applied("to_hash_bucket_fast", {texts}, Told({10})), "int64[3] [9 2 3]");
  EXPECT_EQ(Applied("to_hash_bucket_strong", {texts}, Told({10, 1, 2})), "int64[3] [6 4 5]");
  EXPECT_EQ(Applied("to_hash_bucket_fast", {Tensor::Bytes("abc")}, Told({INT64_MAX})),
            "int64[] 2640714258260161385");
  EXPECT_THAT(Applied("to_hash_bucket_fast", {texts}, Told({0})),
              HasSubstr("to_hash_bucket_fast: expected 1 or more buckets, got 0"));
  EXPECT_THAT(Applied("to_hash_bucket_fast", {texts}), HasSubstr("got 0 numbers"));
  EXPECT_THAT(Applied("to_hash_bucket_strong", {texts}, Told({10})),
              HasSubstr("a number of buckets and a key of two numbers, got 1 numbers"));
  EXPECT_THAT(Applied("to_hash_bucket_fast", {Tensor::Scalar(1.0)}, Told({1})),
              HasSubstr("expected bytes"));
  const Ref<Function> strong =
      Again(Of("to_hash_bucket_strong", DType::kBytes, Shape(), Told({10, 1, 2})));
  EXPECT_THAT(All(Ok(Slices(texts)->Map(strong))), ElementsAre("6", "4", "5"));
  EXPECT_EQ(strong->name(), "to_hash_bucket_strong(x)");  // without the key
}

TEST_F(MoreNodes, JoinTextsAlongAxes) {
  const Ref<Tensor> texts =
      TextsOf({"a", "b", "c", "d"})->Reshape(std::vector<int64_t>{2, 2}).value();
  EXPECT_EQ(Applied("reduce_join", {texts}, Told({0}, "-")), TextsOf({"a-c", "b-d"})->ToString());
  EXPECT_EQ(Applied("reduce_join", {texts}, Told({-1})), TextsOf({"ab", "cd"})->ToString());
  EXPECT_EQ(Applied("reduce_join", {texts}, Told({}, "-")), "bytes[] \"a-b-c-d\"");
  EXPECT_EQ(Applied("reduce_join", {texts}, Told({0, 1}, "-")), "bytes[] \"a-c-b-d\"");
  EXPECT_EQ(Applied("reduce_join", {texts}, Told({1, 0}, "-")), "bytes[] \"a-b-c-d\"");
  const Ref<Tensor> cube =
      TextsOf({"a", "b", "c", "d", "e", "f", "g", "h"})->Reshape(std::vector<int64_t>{2, 2, 2})
          .value();
  EXPECT_EQ(Applied("reduce_join", {cube}, Told({0, 2})), TextsOf({"aebf", "cgdh"})->ToString());
  EXPECT_EQ(Applied("reduce_join", {cube}, Told({2, 0})), TextsOf({"abef", "cdgh"})->ToString());
  ExpressionAttributes kept = Told({1}, "+");
  kept.keep_dims = true;
  EXPECT_EQ(Applied("reduce_join", {texts}, kept),
            TextsOf({"a+b", "c+d"})->Reshape(std::vector<int64_t>{2, 1}).value()->ToString());
  EXPECT_EQ(Applied("reduce_join", {Tensor::Create(DType::kBytes, Shape({2, 0})).value()},
                    Told({1})),
            TextsOf({"", ""})->ToString());
  EXPECT_THAT(Applied("reduce_join", {texts}, Told({2})), HasSubstr("axis 2 is none"));
}

// A dataset of pairs of a sparse or ragged tensor's parts would take them apart.
TEST_F(MoreNodes, GiveRaggedTensorsOfParts) {
  const Ref<Expression> trace =
      Expression::Create(ElementSpec::OfTensor(DType::kBytes, PartialShape({-1}))).value();
  const int64_t x = trace->Parameter(0).value();
  const int64_t values = trace->Apply("string_split", {{x}}, {}).value();
  const int64_t splits = trace->Apply("string_split_row_splits", {{x}}, {}).value();
  const Ref<Function> split =
      Again(MakeExpressionFunction(*trace, RaggedTree(1), {{values, splits}}).value());
  EXPECT_EQ(split->granularity(), Granularity::kRow);
  const Ref<Dataset> dataset =
      Ok(Ok(Slices(TextsOf({"a b", "", "c", "d e f"}))->Batch(2))->Map(split));
  EXPECT_THAT(SpecText(dataset), HasSubstr("ragged"));
  const Ref<Iterator> iterator = Iterate(dataset);
  const auto next = [&] {
    return CompositeToDense(*iterator->Next(CallOptions()).value(), nullptr).value()->ToString();
  };
  EXPECT_EQ(next(), TextsOf({"a", "b", "", ""})->Reshape(std::vector<int64_t>{2, 2}).value()
                        ->ToString());
  EXPECT_EQ(next(), TextsOf({"c", "", "", "d", "e", "f"})
                        ->Reshape(std::vector<int64_t>{2, 3}).value()->ToString());
  // Parts that do not fit each other are their row's error.
  const int64_t other = trace->Constant(Tensor::Vector<int64_t>({0, 9}), false).value();
  const Ref<Function> wrong =
      MakeExpressionFunction(*trace, RaggedTree(1), {{values, other}}).value();
  EXPECT_THAT(Next(*Iterate(Ok(Ok(Slices(TextsOf({"a"}))->Batch(1))->Map(wrong)))),
              AllOf(HasSubstr("element 0"), HasSubstr("row_splits")));
  // And parts of other dtypes are refused where they are put together.
  EXPECT_EQ(MakeExpressionFunction(*trace, RaggedTree(1), {{splits, values}}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(MoreNodes, DrawNumbersOfTheirSeedAlone) {
  const Ref<Tensor> seed = Tensor::Vector<int64_t>({1, 2});
  EXPECT_EQ(Applied("stateless_random_integers",
                    {seed, Tensor::Scalar<int32_t>(-3), Tensor::Scalar<int32_t>(1000)},
                    Told({5})),
            "int32[5] [97 284 647 168 310]");
  EXPECT_EQ(Applied("stateless_random_bits", {seed}, Told({2, 2}, "", DType::kInt32)),
            "int32[2,2] [[1105988140 1738052849] [-335576002 370444179]]");
  EXPECT_EQ(Applied("stateless_random_uniform", {seed}, Told({0})), "float32[0] []");
  EXPECT_THAT(Applied("stateless_random_uniform", {seed}, Told({2}, "", DType::kInt32)),
              HasSubstr("expected a floating dtype, got int32"));
  EXPECT_THAT(Applied("stateless_random_bits", {seed}, Told({2}, "", DType::kInt8)),
              HasSubstr("expected int32, int64, uint32 or uint64, got int8"));
  EXPECT_THAT(Applied("stateless_random_normal", {Tensor::Scalar<int64_t>(1)}, Told({2})),
              HasSubstr("expected a seed of two integers, got int64[]"));
  EXPECT_THAT(Applied("stateless_random_normal", {seed}, Told({-1})), HasSubstr("-1"));
  EXPECT_THAT(Applied("stateless_random_integers",
                      {seed, Tensor::Scalar<int64_t>(4), Tensor::Scalar<int64_t>(4)}, Told({})),
              HasSubstr("expected a lower bound below the upper one, got 4 and 4"));

  // A row is what its seed says, whoever stands beside it.
  constexpr int64_t kRows = 700;
  Ref<Tensor> seeds = Tensor::Create(DType::kInt64, Shape({kRows, 2})).value();
  for (int64_t i = 0; i < 2 * kRows; ++i) seeds->mutable_span<int64_t>()[size_t(i)] = i * i - 900;
  for (const char* name : {"stateless_random_uniform", "stateless_random_normal",
                           "stateless_random_truncated_normal", "stateless_random_bits"}) {
    const Ref<Function> draw = Again(Of(name, DType::kInt64, Shape({2}), Told({7})));
    Context context(*environment_);
    Ref<Value> all;
    ASSERT_TRUE(draw->Call(context, *Value::OfTensor(seeds), &all).ok());
    for (int64_t row = 0; row < kRows; row += 97) {
      Ref<Value> alone;
      ASSERT_TRUE(draw->Call(context, *Value::OfTensor(seeds->Row(row)), &alone).ok());
      EXPECT_TRUE(alone->ContentsEqual(*Value::OfTensor(all->AsTensor()->Row(row)))) << row;
    }
    // A seed of the program's is one row for all.
    EXPECT_EQ(SpecText(Ok(Slices(seeds)->Map(draw))),
              std::string(name) == "stateless_random_bits" ? "int32[7]" : "float32[7]");
  }
}

TEST_F(MoreNodes, BoundsOfARowAreItsOwn) {
  const Ref<Expression> trace =
      Expression::Create(ElementSpec::OfTensor(DType::kInt64, Shape())).value();
  const int64_t x = trace->Parameter(0).value();
  const auto weak = [&](int64_t number) {
    return trace->Constant(Tensor::Scalar(number), true).value();
  };
  const int64_t seed = trace->Apply("stack", {{weak(7), x}}, {}).value();
  const int64_t drawn =
      trace->Apply("stateless_random_integers", {{seed, weak(0), x}}, Told({3})).value();
  const Ref<Function> draw =
      MakeExpressionFunction(*trace, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()), {{drawn}})
          .value();
  const Ref<Iterator> iterator = Iterate(Ok(Range(0, 3)->Map(draw)));
  EXPECT_THAT(Next(*iterator), HasSubstr("element 0: stateless_random_integers: expected a lower"));
  EXPECT_EQ(Next(*iterator), "[0 0 0]");
  EXPECT_THAT(Next(*iterator), ::testing::MatchesRegex("\\[[01] [01] [01]\\]"));
  // Bounds of the program's become the dtype that is asked for.
  const int64_t small =
      trace->Apply("stateless_random_integers", {{seed, weak(0), weak(9)}},
                   Told({}, "", DType::kUint64))
          .value();
  EXPECT_EQ(trace->SpecOf(small).value().dtype, DType::kUint64);
  EXPECT_FALSE(trace
                   ->Apply("stateless_random_integers", {{seed, weak(-1), weak(9)}},
                           Told({}, "", DType::kUint64))
                   .ok());
}

TEST_F(MoreNodes, ComputeWithComplexNumbers) {
  const Ref<Tensor> a = Complexes({{1, 2}, {3, -4}});
  const Ref<Tensor> b = Complexes({{0, 1}, {2, 0}});
  EXPECT_EQ(Applied("add", {a, b}), Complexes({{1, 3}, {5, -4}})->ToString());
  EXPECT_EQ(Applied("multiply", {a, b}), Complexes({{-2, 1}, {6, -8}})->ToString());
  EXPECT_EQ(Applied("divide", {a, b}), Complexes({{2, -1}, {1.5, -2}})->ToString());
  EXPECT_EQ(Applied("square", {b}), Complexes({{-1, 0}, {4, 0}})->ToString());
  EXPECT_EQ(Applied("conjugate", {a}), Complexes({{1, -2}, {3, 4}})->ToString());
  EXPECT_EQ(Applied("absolute", {a}), Tensor::Vector<double>({std::sqrt(5.0), 5})->ToString());
  EXPECT_EQ(Applied("real", {a}), "float64[2] [1 3]");
  EXPECT_EQ(Applied("imag", {a}), "float64[2] [2 -4]");
  EXPECT_EQ(Applied("equal", {a, a}), "bool[2] [True True]");
  EXPECT_EQ(Applied("not_equal", {a, b}), "bool[2] [True True]");
  EXPECT_EQ(Applied("sum", {a}), Applied("sum", {Complexes({{4, -2}})}));
  EXPECT_EQ(Applied("complex", {Tensor::Vector<double>({1, 3}), Tensor::Vector<double>({2, -4})}),
            a->ToString());
  EXPECT_EQ(Applied("isfinite", {Complexes({{1, INFINITY}, {NAN, 0}, {1, 1}})}),
            "bool[3] [False False True]");
  EXPECT_THAT(Applied("less", {a, b}), HasSubstr("complex numbers have no order"));
  EXPECT_THAT(Applied("maximum", {a, b}), HasSubstr("expected real numbers, got complex128"));
  EXPECT_THAT(Applied("floor", {a}), HasSubstr("expected floats"));
  EXPECT_THAT(Applied("real", {Tensor::Scalar(1.0)}), HasSubstr("expected complex numbers"));
  EXPECT_THAT(Applied("complex", {Tensor::Scalar<int64_t>(1), Tensor::Scalar<int64_t>(1)}),
              HasSubstr("two of float32 or of float64"));
}

TEST_F(MoreNodes, ComplexChainsRunInOnePassAndAdaptNumbers) {
  const Ref<Expression> trace =
      Expression::Create(ElementSpec::OfTensor(DType::kComplex64, Shape({3}))).value();
  const int64_t x = trace->Parameter(0).value();
  const auto constant = [&](Ref<Tensor> number) {
    return trace->Constant(std::move(number), true).value();
  };
  const std::complex<double> turn(0, 1);
  const int64_t imaginary =
      constant(Tensor::FromData(DType::kComplex128, Shape(), &turn, sizeof(turn)).value());
  const int64_t half = constant(Tensor::Scalar(0.5));
  const int64_t turned = trace->Apply("multiply", {{x, imaginary}}, {}).value();
  const int64_t sum = trace->Apply("add", {{turned, half}}, {}).value();
  const int64_t size = trace->Apply("absolute", {{sum}}, {}).value();
  EXPECT_EQ(trace->SpecOf(sum).value().dtype, DType::kComplex64);
  EXPECT_EQ(trace->SpecOf(size).value().dtype, DType::kFloat32);
  EXPECT_EQ(trace->ToString(size).value(), "absolute(((x * 0+1j) + 0.5+0j))");
  const Ref<Function> function = Again(
      MakeExpressionFunction(*trace, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()), {{size}})
          .value());
  std::vector<std::complex<float>> numbers;
  for (int i = 0; i < 900; ++i) numbers.emplace_back(float(i) / 3, float(i % 7));
  const Ref<Tensor> in = Tensor::FromData(DType::kComplex64, Shape({300, 3}), numbers.data(),
                                          numbers.size() * 8)
                             .value();
  Context context(*environment_);
  Ref<Value> out;
  ASSERT_TRUE(function->Call(context, *Value::OfTensor(in), &out).ok());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::complex<float> expected(0.5f - numbers[i].imag(), numbers[i].real());
    EXPECT_EQ(out->AsTensor()->span<float>()[i], std::hypot(expected.real(), expected.imag()));
  }
  const int64_t whole = trace->Constant(Tensor::Scalar<float>(1), false).value();
  EXPECT_THAT(std::string(trace->Apply("add", {{x, whole}}, {}).status().message()),
              HasSubstr("two dtypes meet, complex64 and float32"));
}

}  // namespace
}  // namespace tutti
