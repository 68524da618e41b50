// parse_example of features of which examples have any number of values: sparse, ragged, padded.
#include "core/dataset/example/variable_feature.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "core/dataset/example/parse_example.h"
#include "core/dataset/example/parse_sequence_example.h"
#include "core/dataset/expression/expression_function.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/example_testing.h"
#include "core/dataset/testing/record_file_testing.h"
#include "core/tensor/composite.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::Entry;
using wire::Example;
using wire::Floats;
using wire::Int64s;
using wire::Strings;

ExampleFeature Of(std::string key, DType dtype, FeatureKind kind, Shape shape = Shape(),
                  Ref<const Tensor> default_value = nullptr) {
  return {std::move(key), dtype, std::move(shape), std::move(default_value), kind};
}

// Of three examples: a is 1 2 3, 7, none; s is x, none, y z.
std::vector<std::string> Three() {
  return {Example(Entry("a", Int64s({1, 2, 3})) + Entry("s", Strings({"x"}))),
          Example(Entry("a", Int64s({7}, false))), Example(Entry("s", Strings({"y", "z"})))};
}

Ref<Tensor> TextsOf(const std::vector<std::string>& texts) {
  std::vector<BytesView> views;
  for (const std::string& text : texts) views.push_back({text.data(), text.size()});
  return Tensor::FromStrings(Shape({static_cast<int64_t>(texts.size())}), views).value();
}

class VariableFeatures : public DatasetTest {
 protected:
  Result<Ref<Value>> Parse(std::vector<ExampleFeature> features, const Ref<Tensor>& examples) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Function> parse, MakeParseExample(std::move(features)));
    // What is written down and read is the same function.
    const FunctionDefinition definition = parse->Define().value();
    const Ref<Function> again = datasets_->functions()->Make(definition).value();
    EXPECT_EQ(again->Define().value(), definition);
    Context context(*environment_);
    Ref<Value> out;
    TUTTI_RETURN_IF_ERROR(again->Call(context, *Value::OfTensor(examples), &out));
    const Ref<const ElementSpec> input =
        ElementSpec::OfTensor(DType::kBytes, PartialShape(examples->shape()));
    const Ref<const ElementSpec> spec = again->OutputSpec(input.get()).value();
    EXPECT_TRUE(spec->Check(*out, "parse_example").ok());
    return out;
  }
  std::string Text(std::vector<ExampleFeature> features, const Ref<Tensor>& examples) {
    const Result<Ref<Value>> value = Parse(std::move(features), examples);
    return value.ok() ? value.value()->ToString() : std::string(value.status().message());
  }
  Ref<Dataset> Slices(const std::vector<std::string>& texts) {
    return Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(TextsOf(texts))));
  }
};

TEST_F(VariableFeatures, AreSparseOfOneAndOfSeveralExamples) {
  const std::vector<ExampleFeature> features = {Of("a", DType::kInt64, FeatureKind::kVarLen),
                                                Of("s", DType::kBytes, FeatureKind::kVarLen)};
  const Ref<Value> all = Parse(features, TextsOf(Three())).value();
  ASSERT_EQ(all->num_leaves(), 6u);
  EXPECT_EQ(all->leaf(0).tensor().ToString(), "int64[4,2] [[0 0] [0 1] [0 2] [1 0]]");
  EXPECT_EQ(all->leaf(1).tensor().ToString(), "int64[4] [1 2 3 7]");
  EXPECT_EQ(all->leaf(2).tensor().ToString(), "int64[2] [3 3]");
  EXPECT_EQ(all->leaf(3).tensor().ToString(), "int64[3,2] [[0 0] [2 0] [2 1]]");
  EXPECT_EQ(all->leaf(4).tensor().ToString(), TextsOf({"x", "y", "z"})->ToString());
  EXPECT_EQ(all->leaf(5).tensor().ToString(), "int64[2] [3 2]");
  const Ref<Value> one = Parse(features, Tensor::Bytes(Three()[1])).value();
  EXPECT_EQ(one->leaf(0).tensor().ToString(), "int64[1,1] [[0]]");
  EXPECT_EQ(one->leaf(1).tensor().ToString(), "int64[1] [7]");
  EXPECT_EQ(one->leaf(3).tensor().ToString(), "int64[0,1] []");
  EXPECT_EQ(one->leaf(5).tensor().ToString(), "int64[1] [0]");
  EXPECT_EQ(Parse(features, TextsOf({})).value()->leaf(2).tensor().ToString(), "int64[2] [0 0]");
}

TEST_F(VariableFeatures, AreRaggedOfSeveralExamplesAndATensorOfOne) {
  const std::vector<ExampleFeature> features = {Of("a", DType::kInt32, FeatureKind::kRagged),
                                                Of("s", DType::kBytes, FeatureKind::kRagged)};
  const Ref<Value> all = Parse(features, TextsOf(Three())).value();
  ASSERT_EQ(all->num_leaves(), 4u);
  EXPECT_EQ(all->leaf(0).tensor().ToString(), "int32[4] [1 2 3 7]");
  EXPECT_EQ(all->leaf(1).tensor().ToString(), "int64[4] [0 3 4 4]");
  EXPECT_EQ(all->leaf(3).tensor().ToString(), "int64[4] [0 1 1 3]");
  const Ref<Value> one = Parse(features, Tensor::Bytes(Three()[0])).value();
  ASSERT_EQ(one->num_leaves(), 2u);
  EXPECT_EQ(one->leaf(0).tensor().ToString(), "int32[3] [1 2 3]");
  const std::string pairs = Example(Entry("p", Floats({1, 2, 3, 4})));
  const std::vector<ExampleFeature> steps = {
      Of("p", DType::kFloat64, FeatureKind::kRagged, Shape({2}))};
  EXPECT_EQ(Parse(steps, TextsOf({pairs, ""})).value()->leaf(0).tensor().ToString(),
            "float64[2,2] [[1 2] [3 4]]");
  EXPECT_EQ(Parse(steps, TextsOf({pairs, ""})).value()->leaf(1).tensor().ToString(),
            "int64[3] [0 2 2]");
}

TEST_F(VariableFeatures, ArePaddedToTheLongest) {
  const auto minus = Tensor::Scalar<int64_t>(-1);
  EXPECT_EQ(Text({Of("a", DType::kInt16, FeatureKind::kSequence, Shape(), minus)},
                 TextsOf(Three())),
            "{'a': [[1 2 3] [7 -1 -1] [-1 -1 -1]]}");
  EXPECT_EQ(Text({Of("a", DType::kInt64, FeatureKind::kSequence, Shape(), minus)},
                 Tensor::Bytes(Three()[0])),
            "{'a': [1 2 3]}");
  const Ref<Tensor> square = TextsOf({Three()[0], Three()[1], Three()[2], ""})
                                 ->Reshape(std::vector<int64_t>{2, 2})
                                 .value();
  EXPECT_EQ(Text({Of("s", DType::kBytes, FeatureKind::kSequence)}, square),
            "{'s': [[[\"x\" \"\"] [\"\" \"\"]] [[\"y\" \"z\"] [\"\" \"\"]]]}");
  EXPECT_THAT(Text({Of("a", DType::kInt64, FeatureKind::kVarLen)}, square),
              HasSubstr("feature \"a\" is sparse, and the examples have 2 axes"));
  EXPECT_THAT(Text({Of("a", DType::kInt64, FeatureKind::kSequence, Shape({2}))},
                   TextsOf(Three())),
              AllOf(HasSubstr("feature \"a\" should be steps of 2 values (int64[2])"),
                    HasSubstr("has 3 values")));
}

TEST_F(VariableFeatures, RefuseWhatDoesNotFitWhereTheyAreMade) {
  const auto why = [](ExampleFeature feature) {
    return std::string(MakeParseExample({std::move(feature)}).status().message());
  };
  EXPECT_THAT(why(Of("a", DType::kInt64, FeatureKind::kVarLen, Shape({2}))),
              HasSubstr("leave the shape away"));
  EXPECT_THAT(why(Of("a", DType::kInt64, FeatureKind::kRagged, Shape(),
                     Tensor::Scalar<int64_t>(1))),
              HasSubstr("leave the default away"));
  EXPECT_THAT(why(Of("a", DType::kInt64, FeatureKind::kSequence, Shape({2}),
                     Tensor::Vector<int64_t>({1, 2}))),
              HasSubstr("that of a sequence is a scalar"));
  EXPECT_THAT(why(Of("a", DType::kInt64, FeatureKind::kRagged, Shape({0}))),
              HasSubstr("nobody could count"));
  EXPECT_THAT(why(Of("a", DType::kInt64, static_cast<FeatureKind>(9))),
              HasSubstr("there is no such kind"));
  EXPECT_THAT(why(Of("a", DType::kComplex64, FeatureKind::kVarLen)),
              HasSubstr("no list of an Example holds"));
  const Status sequence =
      MakeParseSequenceExample({}, {Of("a", DType::kInt64, FeatureKind::kSequence)}).status();
  EXPECT_THAT(std::string(sequence.message()),
              HasSubstr("feature list \"a\" is a sequence of sequences; expected fixed"));
}

TEST_F(VariableFeatures, AnotherKindOfListAndMalformedBytesAreTheirExamplesErrors) {
  const std::vector<ExampleFeature> features = {Of("a", DType::kInt8, FeatureKind::kVarLen)};
  const auto text = [&](const std::string& example) {
    return Text(features, TextsOf({Three()[1], example}));
  };
  EXPECT_THAT(text(Example(Entry("a", Floats({1})))), HasSubstr("is float_list of 1 values"));
  EXPECT_THAT(text(Example(Entry("a", Int64s({1, 128})))), HasSubstr("the value 128, which int8"));
  EXPECT_THAT(text("junk"), HasSubstr("malformed"));
  // A list of numbers that ends in the middle of one.
  std::string cut = Int64s({1, 300});
  cut.back() = static_cast<char>(0x80);
  EXPECT_THAT(text(Example(Entry("a", cut))), HasSubstr("malformed"));
  const Result<Ref<Value>> failed =
      Parse(features, TextsOf({Three()[1], Example(Entry("a", Floats({1})))}));
  EXPECT_EQ(Detail<int64_t>(failed.status(), "row"), 1);
  EXPECT_EQ(Detail<std::string>(failed.status(), "feature"), "a");
}

TEST_F(VariableFeatures, TheLastEntryAndTheLastKindCount) {
  const std::vector<ExampleFeature> features = {Of("a", DType::kInt64, FeatureKind::kSequence)};
  std::vector<int64_t> many(5000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(i * i * i);
  const std::string twice =
      Example(Entry("a", Int64s(many))) + Example(Entry("a", Int64s({4, 5})));
  EXPECT_EQ(Text(features, Tensor::Bytes(twice)), "{'a': [4 5]}");
  const std::string merged = Example(Entry("a", Floats({1}) + Int64s({1}) + Int64s({2, 3}, false)));
  EXPECT_EQ(Text(features, Tensor::Bytes(merged)), "{'a': [1 2 3]}");
  const Ref<Value> all = Parse(features, TextsOf({Example(Entry("a", Int64s(many))), twice,
                                                  Example(Entry("a", Int64s(many, false)))}))
                             .value();
  const Tensor& numbers = all->leaf(0).tensor();
  ASSERT_EQ(numbers.shape(), Shape({3, 5000}));
  for (size_t i = 0; i < many.size(); ++i) {
    ASSERT_EQ(numbers.span<int64_t>()[i], many[i]);
    ASSERT_EQ(numbers.span<int64_t>()[2 * many.size() + i], many[i]);
  }
}

TEST_F(VariableFeatures, MapRowsAndBatches) {
  const Ref<Function> parse =
      MakeParseExample({Of("a", DType::kInt64, FeatureKind::kRagged),
                        Of("s", DType::kBytes, FeatureKind::kVarLen),
                        {"n", DType::kInt64, Shape(), Tensor::Scalar<int64_t>(5)}})
          .value();
  const Ref<Dataset> rows = Ok(Slices(Three())->Map(parse));
  EXPECT_THAT(SpecText(rows), AllOf(HasSubstr("'a': int64[?]"), HasSubstr("sparse")));
  const Ref<Dataset> batches = Ok(Ok(Slices(Three())->Batch(2))->Map(parse));
  EXPECT_THAT(SpecText(batches), HasSubstr("ragged"));
  const Ref<Iterator> iterator = Iterate(rows);
  const Ref<Value> first = iterator->Next(CallOptions()).value();
  EXPECT_EQ(first->leaf(0).tensor().ToString(), "int64[3] [1 2 3]");
  EXPECT_EQ(iterator->Next(CallOptions()).value()->leaf(0).tensor().ToString(), "int64[1] [7]");
  EXPECT_EQ(iterator->Next(CallOptions()).value()->leaf(0).tensor().ToString(), "int64[0] []");
  const Ref<Iterator> by_batch = Iterate(batches);
  EXPECT_EQ(by_batch->Next(CallOptions()).value()->leaf(1).tensor().ToString(), "int64[3] [0 3 4]");
  EXPECT_EQ(by_batch->Next(CallOptions()).value()->leaf(1).tensor().ToString(), "int64[2] [0 0]");
  // Serialised with the dataset.
  const Ref<Dataset> again = Ok(Dataset::Deserialize(datasets_, batches->Serialize().value()));
  EXPECT_EQ(Iterate(again)->Next(CallOptions()).value()->leaf(0).tensor().ToString(),
            "int64[4] [1 2 3 7]");
}

// In an expression rows of as many values run together.
TEST_F(VariableFeatures, AreNodesOfExpressions) {
  const Ref<Expression> trace =
      Expression::Create(ElementSpec::OfTensor(DType::kBytes, Shape())).value();
  const int64_t x = trace->Parameter(0).value();
  const Ref<Function> parse = MakeParseExample({Of("a", DType::kInt64, FeatureKind::kRagged),
                                                Of("s", DType::kBytes, FeatureKind::kVarLen)})
                                  .value();
  const int64_t numbers = trace->Call(parse, x, 0).value();
  EXPECT_EQ(trace->SpecOf(numbers).value().shape.ToString(), "[?]");
  const int64_t sum = trace->Apply("sum", {{numbers}}, {}).value();
  const Ref<const TreeSpec> leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  const Ref<Function> sums = MakeExpressionFunction(*trace, leaf, {{sum}}).value();
  std::vector<std::string> examples = Three();
  for (const std::string& more : Three()) examples.push_back(more);
  examples.insert(examples.begin(), Three()[0]);
  EXPECT_THAT(Numbers(Ok(Slices(examples)->Map(sums))), ElementsAre(6, 6, 7, 0, 6, 7, 0));
  examples[2] = "junk";
  const Ref<Iterator> iterator = Iterate(Ok(Slices(examples)->Map(sums)));
  EXPECT_EQ(Next(*iterator), "6");
  EXPECT_EQ(Next(*iterator), "6");
  EXPECT_THAT(Next(*iterator), HasSubstr("element 2: parse_example: malformed"));
  EXPECT_EQ(Next(*iterator), "0");
  // The parts of a sparse one, put together again.
  std::vector<int64_t> parts;
  for (int64_t i = 1; i < 4; ++i) parts.push_back(trace->Call(parse, x, i).value());
  const Ref<Function> texts = MakeExpressionFunction(*trace, SparseTree(), parts).value();
  const Ref<Function> again = datasets_->functions()->Make(texts->Define().value()).value();
  const Ref<Dataset> sparse = Ok(Slices(Three())->Map(again));
  EXPECT_THAT(SpecText(sparse), HasSubstr("sparse"));
  const Ref<Iterator> by_row = Iterate(sparse);
  const auto next = [&] {
    return CompositeToDense(*by_row->Next(CallOptions()).value(), nullptr).value()->ToString();
  };
  EXPECT_EQ(next(), TextsOf({"x"})->ToString());
  EXPECT_EQ(next(), TextsOf({})->ToString());
  EXPECT_EQ(next(), TextsOf({"y", "z"})->ToString());
}

// ---- SequenceExample

class VariableSequences : public VariableFeatures {
 protected:
  // Of one context entry, which may be "", and one feature list.
  static std::string Sequence(const std::string& context, const std::string& key,
                              const std::vector<std::string>& steps) {
    std::string list;
    for (const std::string& step : steps) list += wire::Part(1, step);
    return wire::Part(1, context) +
           wire::Part(2, wire::Part(1, wire::Part(1, key) + wire::Part(2, list)));
  }
  // By the function that is written down and read.
  Result<Ref<Value>> ParseSequence(std::vector<ExampleFeature> context,
                                   std::vector<ExampleFeature> lists, const std::string& example) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Function> made,
                           MakeParseSequenceExample(std::move(context), std::move(lists)));
    TUTTI_ASSIGN_OR_RETURN(const FunctionDefinition definition, made->Define());
    TUTTI_ASSIGN_OR_RETURN(const Ref<Function> parse, datasets_->functions()->Make(definition));
    EXPECT_EQ(parse->Define().value(), definition);
    Context call(*environment_);
    Ref<Value> out;
    TUTTI_RETURN_IF_ERROR(parse->Call(call, *Value::OfTensor(Tensor::Bytes(example)), &out));
    const Ref<const ElementSpec> spec = parse->OutputSpec(nullptr).value();
    EXPECT_TRUE(spec->Check(*out, "parse_sequence_example").ok()) << spec->ToString();
    return out;
  }
};

TEST_F(VariableSequences, AreInTheContextAndTheListsOfASequenceExample) {
  const std::string example =
      Sequence(Entry("a", Int64s({5, 6})), "x", {Int64s({1, 2, 3}), Int64s({}), "", Int64s({4})});
  const Ref<Value> sparse =
      ParseSequence({Of("a", DType::kInt64, FeatureKind::kVarLen)},
                     {Of("x", DType::kInt64, FeatureKind::kVarLen),
                      Of("y", DType::kBytes, FeatureKind::kVarLen)},
                     example)
          .value();
  ASSERT_EQ(sparse->num_leaves(), 9u);
  EXPECT_EQ(sparse->leaf(0).tensor().ToString(), "int64[2,1] [[0] [1]]");
  EXPECT_EQ(sparse->leaf(1).tensor().ToString(), "int64[2] [5 6]");
  EXPECT_EQ(sparse->leaf(2).tensor().ToString(), "int64[1] [2]");
  EXPECT_EQ(sparse->leaf(3).tensor().ToString(), "int64[4,2] [[0 0] [0 1] [0 2] [3 0]]");
  EXPECT_EQ(sparse->leaf(4).tensor().ToString(), "int64[4] [1 2 3 4]");
  EXPECT_EQ(sparse->leaf(5).tensor().ToString(), "int64[2] [4 3]");
  EXPECT_EQ(sparse->leaf(6).tensor().ToString(), "int64[0,2] []");
  EXPECT_EQ(sparse->leaf(8).tensor().ToString(), "int64[2] [0 0]");
  const Ref<Value> ragged =
      ParseSequence({Of("a", DType::kInt64, FeatureKind::kRagged),
                      Of("b", DType::kInt32, FeatureKind::kSequence)},
                     {Of("x", DType::kInt32, FeatureKind::kRagged),
                      Of("y", DType::kInt64, FeatureKind::kRagged)},
                     example)
          .value();
  ASSERT_EQ(ragged->num_leaves(), 6u);
  EXPECT_EQ(ragged->leaf(0).tensor().ToString(), "int64[2] [5 6]");
  EXPECT_EQ(ragged->leaf(1).tensor().ToString(), "int32[0] []");
  EXPECT_EQ(ragged->leaf(2).tensor().ToString(), "int32[4] [1 2 3 4]");
  EXPECT_EQ(ragged->leaf(3).tensor().ToString(), "int64[5] [0 3 3 3 4]");
  EXPECT_EQ(ragged->leaf(4).tensor().ToString(), "int64[0] []");
  EXPECT_EQ(ragged->leaf(5).tensor().ToString(), "int64[1] [0]");
}

TEST_F(VariableSequences, OfAListHaveStepsOfAShapeOrTextsBesideFixedOnes) {
  const std::string example =
      Sequence("", "p", {Floats({1, 2, 3, 4}), Floats({}), Floats({5, 6})});
  const Ref<Value> pairs =
      ParseSequence({}, {Of("p", DType::kFloat64, FeatureKind::kRagged, Shape({2}))}, example)
          .value();
  EXPECT_EQ(pairs->leaf(0).tensor().ToString(), "float64[3,2] [[1 2] [3 4] [5 6]]");
  EXPECT_EQ(pairs->leaf(1).tensor().ToString(), "int64[4] [0 2 2 3]");
  const Ref<Value> texts =
      ParseSequence({},
                     {Of("n", DType::kInt64, FeatureKind::kFixed, Shape(),
                         Tensor::Scalar<int64_t>(1)),
                      Of("t", DType::kBytes, FeatureKind::kRagged)},
                     Sequence("", "t", {Strings({"x", "yz"}), Strings({"w"})}))
          .value();
  EXPECT_EQ(texts->leaf(0).tensor().ToString(), "int64[0] []");
  EXPECT_EQ(texts->leaf(1).tensor().ToString(), TextsOf({"x", "yz", "w"})->ToString());
  EXPECT_EQ(texts->leaf(2).tensor().ToString(), "int64[3] [0 2 3]");
}

TEST_F(VariableSequences, OfASequenceExampleThatDoNotFitAreNamedWithTheirStep) {
  const auto why = [this](ExampleFeature list, const std::string& step) {
    const Result<Ref<Value>> parsed =
        ParseSequence({}, {std::move(list)}, Sequence("", "x", {Int64s({1}), step}));
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    return std::string(parsed.status().message());
  };
  for (const FeatureKind kind : {FeatureKind::kVarLen, FeatureKind::kRagged}) {
    EXPECT_THAT(why(Of("x", DType::kInt64, kind), Floats({2})),
                AllOf(HasSubstr("step 1 of feature list \"x\""), HasSubstr("is float_list")));
    EXPECT_THAT(why(Of("x", DType::kInt8, kind), Int64s({300})),
                HasSubstr("the value 300, which int8"));
    EXPECT_THAT(why(Of("x", DType::kInt64, kind), "junk"), HasSubstr("no SequenceExample"));
  }
  EXPECT_THAT(why(Of("x", DType::kInt64, FeatureKind::kRagged, Shape({2})), Int64s({2})),
              AllOf(HasSubstr("step 0"), HasSubstr("should be steps of 2 values")));
  // A fixed list without a default has values in every step.
  EXPECT_THAT(why(Of("x", DType::kInt64, FeatureKind::kFixed), ""),
              AllOf(HasSubstr("step 1 of feature list \"x\""), HasSubstr("there are no values")));
}

}  // namespace
}  // namespace tutti
