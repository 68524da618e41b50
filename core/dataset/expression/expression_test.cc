// Expressions: what they give, beside what C++ computes row by row; errors that belong to rows; the
// same for every number of rows at once; written down and read again.
#include "core/dataset/expression/expression.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/base/seeded_runs_testing.h"
#include "core/dataset/example/parse_example.h"
#include "core/dataset/expression/expression_function.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/example_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An expression over one tensor, and its nodes by short names.
class Trace {
 public:
  Trace(DType dtype, PartialShape shape)
      : trace_(Expression::Create(ElementSpec::OfTensor(dtype, std::move(shape))).value()),
        x(trace_->Parameter(0).value()) {}

  int64_t Weak(int64_t number) {
    return trace_->Constant(Tensor::Scalar<int64_t>(number), true).value();
  }
  int64_t Weak(double number) { return trace_->Constant(Tensor::Scalar(number), true).value(); }
  int64_t Of(std::string_view name, std::initializer_list<int64_t> inputs,
             ExpressionAttributes attributes = {}) {
    Result<int64_t> node = Try(name, inputs, std::move(attributes));
    EXPECT_TRUE(node.ok()) << node.status().ToString();
    return node.ok() ? node.value() : 0;
  }
  Result<int64_t> Try(std::string_view name, std::initializer_list<int64_t> inputs,
                      ExpressionAttributes attributes = {}) {
    return trace_->Apply(name, std::span(inputs.begin(), inputs.size()), std::move(attributes));
  }
  Ref<Function> Make(int64_t node) {
    return MakeExpressionFunction(*trace_, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()),
                                  {{node}})
        .value();
  }
  Expression& trace() { return *trace_; }

 private:
  const Ref<Expression> trace_;

 public:
  const int64_t x;
};

ExpressionAttributes With(std::vector<int64_t> numbers) {
  ExpressionAttributes attributes;
  attributes.numbers = std::move(numbers);
  return attributes;
}

ExpressionAttributes To(DType dtype) {
  ExpressionAttributes attributes;
  attributes.dtype = dtype;
  return attributes;
}

class Expressions : public DatasetTest {
 protected:
  Result<Ref<Value>> Call(Function& function, const Ref<Tensor>& in) {
    Context context(*environment_);
    Ref<Value> out;
    TUTTI_RETURN_IF_ERROR(function.Call(context, *Value::OfTensor(in), &out));
    return out;
  }
  std::string TextOf(Trace& trace, int64_t node, const Ref<Tensor>& in) {
    const Result<Ref<Value>> result = Call(*trace.Make(node), in);
    return result.ok() ? result.value()->leaf(0).tensor().ToString()
                       : "!" + std::string(result.status().message());
  }
  // 3 * x + 1 where x is odd, else x / 2 rounded down.
  static Ref<Function> Collatz() {
    Trace t(DType::kInt64, Shape());
    const int64_t odd = t.Of("equal", {t.Of("remainder", {t.x, t.Weak(int64_t{2})}),
                                       t.Weak(int64_t{1})});
    const int64_t up = t.Of("add", {t.Of("multiply", {t.x, t.Weak(int64_t{3})}),
                                    t.Weak(int64_t{1})});
    return t.Make(t.Of("where", {odd, up, t.Of("floor_divide", {t.x, t.Weak(int64_t{2})})}));
  }
};

TEST_F(Expressions, MapFilterAndTakeWhileLikeCallbacks) {
  EXPECT_THAT(Numbers(Ok(Range(-3, 5)->Map(Collatz()))), ElementsAre(-8, -1, -2, 0, 4, 1, 10, 2));
  Trace even(DType::kInt64, Shape());
  const Ref<Function> is_even = even.Make(
      even.Of("equal", {even.Of("remainder", {even.x, even.Weak(int64_t{2})}),
                        even.Weak(int64_t{0})}));
  EXPECT_THAT(Numbers(Ok(Range(-3, 5)->Filter(is_even))), ElementsAre(-2, 0, 2, 4));
  Trace small(DType::kInt64, Shape());
  const Ref<Function> below =
      small.Make(small.Of("less", {small.x, small.Weak(int64_t{3})}));
  EXPECT_THAT(Numbers(Ok(Range(9)->TakeWhile(below))), ElementsAre(0, 1, 2));
  EXPECT_EQ(SpecText(Ok(Range(9)->Map(Collatz()))), "int64[]");
  EXPECT_THAT(Ok(Range(9)->Map(Collatz()))->Explain(),
              HasSubstr("native where(((x % 2) == 1), ((x * 3) + 1), (x // 2))"));
  EXPECT_THAT(Ok(Range(9)->Map(AddOne()))->Explain(), HasSubstr("callback add_one"));
}

TEST_F(Expressions, ReduceWithAStateAndAnElement) {
  const Ref<const ElementSpec> number = ElementSpec::OfTensor(DType::kInt64, Shape());
  const std::vector<Ref<const ElementSpec>> parts = {number, number};
  const Ref<Expression> trace = Expression::Create(ElementSpec::Tuple(parts)).value();
  const int64_t state = trace->Parameter(0).value();
  const int64_t sum = trace->Apply("add", {{state, trace->Parameter(1).value()}}, {}).value();
  const Ref<Function> add =
      MakeExpressionFunction(*trace, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()), {{sum}})
          .value();
  const Result<Ref<Value>> total =
      Range(10)->Reduce(Value::OfTensor(Tensor::Scalar<int64_t>(100)), *add, CallOptions());
  ASSERT_TRUE(total.ok()) << total.status().ToString();
  EXPECT_EQ(total.value()->ToString(), "145");
}

TEST_F(Expressions, DivideAsPythonDoes) {
  for (const int64_t divisor : {-3, -2, 1, 2, 3, 4, 7}) {
    SCOPED_TRACE(divisor);
    Trace t(DType::kInt64, Shape());
    const int64_t by = t.Weak(divisor);
    const Ref<Function> quotient = t.Make(t.Of("floor_divide", {t.x, by}));
    const Ref<Function> rest = t.Make(t.Of("remainder", {t.x, by}));
    for (int64_t x = -9; x < 9; ++x) {
      const auto expected =
          static_cast<int64_t>(std::floor(static_cast<double>(x) / static_cast<double>(divisor)));
      const Ref<Tensor> in = Tensor::Scalar(x);
      EXPECT_EQ(Call(*quotient, in).value()->AsTensor()->item<int64_t>(), expected);
      EXPECT_EQ(Call(*rest, in).value()->AsTensor()->item<int64_t>(), x - expected * divisor);
    }
  }
  // Dividends for which the quotient is found in another way, and others.
  constexpr int64_t kLarge = (int64_t{1} << 40) + 1;
  for (const int64_t divisor : {int64_t{3}, int64_t{10}, int64_t{1'000'003}, kLarge}) {
    Trace t(DType::kInt64, Shape());
    const Ref<Function> quotient = t.Make(t.Of("floor_divide", {t.x, t.Weak(divisor)}));
    const Ref<Function> rest = t.Make(t.Of("remainder", {t.x, t.Weak(divisor)}));
    for (const int64_t place : {int64_t{0}, int64_t{1} << 30, int64_t{1} << 51, int64_t{1} << 62}) {
      for (int64_t near = -40; near < 40; ++near) {
        for (const int64_t x : {place + near, -place - near, (place / divisor) * divisor + near}) {
          const int64_t left = ((x % divisor) + divisor) % divisor;
          EXPECT_EQ(Call(*rest, Tensor::Scalar(x)).value()->AsTensor()->item<int64_t>(), left) << x;
          EXPECT_EQ(Call(*quotient, Tensor::Scalar(x)).value()->AsTensor()->item<int64_t>(),
                    (x - left) / divisor)
              << x;
        }
      }
    }
  }
  Trace f(DType::kFloat64, Shape());
  const Ref<Tensor> in = Tensor::Vector<double>({7.5, -7.5, 6, -0.0});
  EXPECT_EQ(TextOf(f, f.Of("floor_divide", {f.x, f.Weak(int64_t{2})}), in),
            "float64[4] [3 -4 3 -0]");
  EXPECT_EQ(TextOf(f, f.Of("remainder", {f.x, f.Weak(int64_t{-2})}), in),
            "float64[4] [-0.5 -1.5 -0 -0]");
}

TEST_F(Expressions, WrapIntegersAndHoldWhatHalvesHold) {
  Trace small(DType::kInt8, Shape());
  EXPECT_EQ(TextOf(small, small.Of("multiply", {small.x, small.Weak(int64_t{2})}),
                   Tensor::Vector<int8_t>({100, -128, 3})),
            "int8[3] [-56 0 6]");
  EXPECT_EQ(TextOf(small, small.Of("floor_divide", {small.x, small.Weak(int64_t{-1})}),
                   Tensor::Vector<int8_t>({-128, 5})),
            "int8[2] [-128 -5]");
  EXPECT_EQ(TextOf(small, small.Of("power", {small.x, small.Weak(int64_t{2})}),
                   Tensor::Vector<int8_t>({16, -3})),
            "int8[2] [0 9]");
  Trace half(DType::kFloat32, Shape());
  const int64_t h = half.Of("cast", {half.x}, To(DType::kFloat16));
  // 2048 + 1 is not a float16; rounded after the sum, not after both.
  const int64_t sum = half.Of("subtract", {half.Of("add", {h, half.Weak(int64_t{1})}),
                                           half.Weak(int64_t{1})});
  EXPECT_EQ(TextOf(half, half.Of("cast", {sum}, To(DType::kFloat32)),
                   Tensor::Vector<float>({2048, 2, 0.1f})),
            "float32[3] [2047 2 0.099609375]");
}

TEST_F(Expressions, RefuseWhatDoesNotFitWhereItIsPutTogether) {
  Trace t(DType::kUint8, Shape({2, 3}));
  const auto message = [](const Result<int64_t>& result) {
    return std::string(result.ok() ? "" : result.status().message());
  };
  EXPECT_THAT(message(t.Try("add", {t.x, t.Weak(int64_t{300})})),
              AllOf(HasSubstr("300"), HasSubstr("uint8"), HasSubstr("cast")));
  EXPECT_THAT(message(t.Try("add", {t.x, t.Weak(0.5)})), HasSubstr("0.5 does not become uint8"));
  const int64_t wide = t.Of("cast", {t.x}, To(DType::kInt32));
  EXPECT_THAT(message(t.Try("add", {t.x, wide})), HasSubstr("two dtypes meet, uint8 and int32"));
  EXPECT_THAT(message(t.Try("sqrt", {t.x})), HasSubstr("expected floats"));
  EXPECT_THAT(message(t.Try("divide", {t.x, t.x})), HasSubstr("expected floats"));
  EXPECT_THAT(message(t.Try("logical_not", {t.x})), HasSubstr("expected booleans, got uint8[2,3]"));
  EXPECT_THAT(message(t.Try("sum", {t.x}, With({2}))), HasSubstr("axis 2 is none"));
  EXPECT_THAT(message(t.Try("reshape", {t.x}, With({4, -1}))), HasSubstr("6 elements"));
  EXPECT_THAT(message(t.Try("index", {t.x}, With({1, 3}))), HasSubstr("no place 3"));
  EXPECT_THAT(message(t.Try("add", {t.x, 77})), HasSubstr("77 is none of its nodes"));
  EXPECT_THAT(message(t.Try("add", {t.x})), HasSubstr("expected 2 inputs, got 1"));
  EXPECT_THAT(message(t.Try("plus", {t.x, t.x})), HasSubstr("there is no operation 'plus'"));
  const int64_t turned = t.Of("transpose", {t.x});
  EXPECT_THAT(message(t.Try("add", {t.x, turned})), HasSubstr("do not broadcast"));
  EXPECT_THAT(std::string(Expression::Create(ElementSpec::OfTensor(DType::kInt64, PartialShape()))
                              .status()
                              .message()),
              HasSubstr("must be tensors of known rank"));
  EXPECT_THAT(std::string(Range(3)->Map(t.Make(t.x)).status().message()),
              AllOf(HasSubstr("uint8[2,3]"), HasSubstr("int64[]")));
}

TEST_F(Expressions, NameTheFirstRowThatFailsAndGoOnBehindIt) {
  Trace t(DType::kInt64, Shape());
  // Fails for 4 in what comes first, and for 2 in what comes then.
  const int64_t hundred = t.trace().Constant(Tensor::Scalar<int64_t>(100), false).value();
  const auto over = [&](int64_t number) {
    return t.Of("floor_divide", {hundred, t.Of("subtract", {t.x, t.Weak(number)})});
  };
  const int64_t table =
      t.trace().Constant(Tensor::Vector<int64_t>({5, 6, 7, 8, 9}), false).value();
  const int64_t taken = t.Of("take", {table, t.x});
  const Ref<Dataset> dataset = Ok(
      Range(7)->Map(t.Make(t.Of("add", {t.Of("add", {over(4), over(2)}), taken}))));
  const Ref<Iterator> iterator = Iterate(dataset);
  EXPECT_EQ(Next(*iterator), "-70");
  EXPECT_EQ(Next(*iterator), "-128");
  EXPECT_THAT(Next(*iterator),
              HasSubstr("element 2: floor_divide: the divisor is zero"));
  EXPECT_EQ(Next(*iterator), "8");
  EXPECT_THAT(Next(*iterator), HasSubstr("element 4: floor_divide"));
  EXPECT_THAT(Next(*iterator), HasSubstr("element 5: take: there is no place 5 among 5"));
  EXPECT_THAT(Next(*iterator), HasSubstr("element 6: take: there is no place 6"));
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(Expressions, MoveElements) {
  Trace t(DType::kInt32, Shape({2, 3}));
  const Ref<Tensor> in =
      Tensor::Vector<int32_t>({1, 2, 3, 4, 5, 6})->Reshape(std::vector<int64_t>{2, 3}).value();
  constexpr int64_t kAll = ExpressionAttributes::kMissing;
  EXPECT_EQ(TextOf(t, t.Of("transpose", {t.x}), in), "int32[3,2] [[1 4] [2 5] [3 6]]");
  EXPECT_EQ(TextOf(t, t.Of("slice", {t.x}, With({kAll, kAll, kAll, kAll, kAll, -2})), in),
            "int32[2,2] [[3 1] [6 4]]");
  EXPECT_EQ(TextOf(t, t.Of("index", {t.x}, With({1, -1})), in), "int32[2] [3 6]");
  EXPECT_EQ(TextOf(t, t.Of("reshape", {t.x}, With({3, -1})), in),
            "int32[3,2] [[1 2] [3 4] [5 6]]");
  EXPECT_EQ(TextOf(t, t.Of("expand_dims", {t.x}, With({-1})), in),
            "int32[2,3,1] [[[1] [2] [3]] [[4] [5] [6]]]");
  const int64_t row = t.Of("index", {t.x}, With({0, 0}));
  EXPECT_EQ(TextOf(t, t.Of("stack", {row, row}, With({1})), in),
            "int32[3,2] [[1 1] [2 2] [3 3]]");
  EXPECT_EQ(TextOf(t, t.Of("concatenate", {row, row}), in), "int32[6] [1 2 3 1 2 3]");
  EXPECT_EQ(TextOf(t, t.Of("add", {t.x, row}), in), "int32[2,3] [[2 4 6] [5 7 9]]");
  EXPECT_EQ(TextOf(t, t.Of("take", {t.x, t.Weak(int64_t{-1})}, With({1})), in),
            "int32[2] [3 6]");
  EXPECT_EQ(TextOf(t, t.Of("one_hot", {row}, [] {
              ExpressionAttributes depth = With({4});
              depth.dtype = DType::kInt8;
              return depth;
            }()), in),
            "int8[3,4] [[0 1 0 0] [0 0 1 0] [0 0 0 1]]");
}

TEST_F(Expressions, FoldAxes) {
  Trace t(DType::kInt32, Shape({2, 3}));
  const Ref<Tensor> in =
      Tensor::Vector<int32_t>({4, 2, 3, 1, 5, 6})->Reshape(std::vector<int64_t>{2, 3}).value();
  EXPECT_EQ(TextOf(t, t.Of("sum", {t.x}), in), "int32[] 21");
  EXPECT_EQ(TextOf(t, t.Of("sum", {t.x}, With({0})), in), "int32[3] [5 7 9]");
  EXPECT_EQ(TextOf(t, t.Of("max", {t.x}, With({1})), in), "int32[2] [4 6]");
  EXPECT_EQ(TextOf(t, t.Of("argmin", {t.x}, With({1})), in), "int64[2] [1 0]");
  EXPECT_EQ(TextOf(t, t.Of("argmax", {t.x}), in), "int64[] 5");
  ExpressionAttributes kept = With({0});
  kept.keep_dims = true;
  EXPECT_EQ(TextOf(t, t.Of("prod", {t.x}, kept), in), "int32[1,3] [[4 10 18]]");
  const int64_t large = t.Of("greater", {t.x, t.Weak(int64_t{3})});
  EXPECT_EQ(TextOf(t, t.Of("any", {large}, With({0})), in), "bool[3] [True True True]");
  EXPECT_EQ(TextOf(t, t.Of("all", {large}, With({1})), in), "bool[2] [False False]");
  const int64_t real = t.Of("cast", {t.x}, To(DType::kFloat64));
  EXPECT_EQ(TextOf(t, t.Of("mean", {real}), in), "float64[] 3.5");
}

TEST_F(Expressions, ReadBytes) {
  Trace t(DType::kBytes, Shape());
  const std::vector<BytesView> texts = {{"12", 2}, {"ab", 2}, {"-7", 2}};
  const Ref<Tensor> in = Tensor::FromStrings(Shape({3}), texts).value();
  EXPECT_EQ(TextOf(t, t.Of("decode_raw", {t.x}, To(DType::kUint8)), in),
            "uint8[3,2] [[49 50] [97 98] [45 55]]");
  EXPECT_EQ(TextOf(t, t.Of("string_length", {t.x}), in), "int32[3] [2 2 2]");
  EXPECT_THAT(TextOf(t, t.Of("to_number", {t.x}, To(DType::kInt16)), in),
              HasSubstr("!to_number: 'ab' is no int16"));
  const std::vector<BytesView> numbers = {{" 12\t", 4}, {"+7", 2}, {"-1e99", 5}};
  const Ref<Tensor> blank = Tensor::FromStrings(Shape({3}), numbers).value();
  EXPECT_EQ(TextOf(t, t.Of("to_number", {t.x}, To(DType::kFloat32)), blank),
            "float32[3] [12 7 -inf]");
  ExpressionAttributes dash;
  dash.text = "-";
  EXPECT_EQ(TextOf(t, t.Of("join_strings", {t.x, t.x}, dash), in),
            TextOf(t, t.Of("where", {t.Of("equal", {t.x, t.x}),
                                     t.Of("join_strings", {t.x, t.x}, dash), t.x}), in));
  // Strings of several lengths are several slabs.
  const std::vector<BytesView> uneven = {{"a", 1}, {"b", 1}, {"cde", 3}, {"", 0}};
  const Ref<Dataset> dataset = Ok(
      Ok(Dataset::FromTensorSlices(
             datasets_, Value::OfTensor(Tensor::FromStrings(Shape({4}), uneven).value())))
          ->Map(t.Make(t.Of("decode_raw", {t.x}, To(DType::kUint8)))));
  EXPECT_EQ(SpecText(dataset), "uint8[?]");
  EXPECT_THAT(All(dataset), ElementsAre("[97]", "[98]", "[99 100 101]", "[]"));
}

TEST_F(Expressions, CallParseExampleOnce) {
  Trace t(DType::kBytes, Shape());
  const Ref<Function> parse =
      MakeParseExample({{"label", DType::kInt64, Shape(), nullptr}}).value();
  const int64_t label = t.trace().Call(parse, t.x, 0).value();
  const Ref<Function> function = t.Make(t.Of("add", {label, t.Weak(int64_t{1})}));
  const std::string seven = wire::Example(wire::Entry("label", wire::Int64s({7})));
  EXPECT_EQ(Call(*function, Tensor::Bytes(seven)).value()->ToString(), "8");
  const Ref<Function> read =
      datasets_->functions()->Make(function->Define().value()).value();
  EXPECT_EQ(Call(*read, Tensor::Bytes(seven)).value()->ToString(), "8");
  EXPECT_THAT(std::string(t.trace().Call(parse, label, 0).status().message()),
              HasSubstr("should be serialised examples"));
}

TEST_F(Expressions, AreReadBackAsTheyWereWritten) {
  const Ref<Function> function = Collatz();
  const FunctionDefinition definition = function->Define().value();
  EXPECT_EQ(definition.kind, "expression");
  const Ref<Function> again = datasets_->functions()->Make(definition).value();
  EXPECT_EQ(again->Define().value(), definition);
  EXPECT_EQ(again->name(), function->name());
  const Ref<Dataset> mapped = Ok(Range(6)->Map(function));
  const std::string bytes = mapped->Serialize().value();
  const Ref<Dataset> read = Ok(Dataset::Deserialize(datasets_, bytes));
  EXPECT_EQ(Numbers(read), Numbers(mapped));
  // Bad bytes are errors, or another function; never more.
  const std::string& good = definition.payload;
  EXPECT_EQ(ReadExpressionFunction(good + "x").status().code(), StatusCode::kInvalidArgument);
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(ReadExpressionFunction(good.substr(0, i)).ok()) << i;
    for (const char flip : {'\x01', '\xff'}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      const Result<Ref<Function>> other = ReadExpressionFunction(bad);
      if (other.ok()) (void)Call(*other.value(), Tensor::Vector<int64_t>({1, 2, 3}));
    }
  }
}

// A random tree over float32[3] and int64[3], and rows for it: all rows at once give the bits that
// each row gives alone.
TEST_F(Expressions, GiveTheSameBitsForEverySlabSize) {
  SeededRuns runs("random expressions", 300);
  while (runs.Next()) {
    std::mt19937_64 random(runs.number());
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const bool real = below(2) == 0;
    Trace t(real ? DType::kFloat32 : DType::kInt64, Shape({3}));
    std::vector<int64_t> nodes = {t.x, real ? t.Of("add", {t.x, t.Weak(0.5)})
                                            : t.Of("bitwise_or", {t.x, t.Weak(int64_t{1})})};
    const std::vector<std::string> both = {"add", "subtract", "multiply", "minimum", "maximum"};
    const std::vector<std::string> reals = {"tanh", "floor", "sin", "sqrt", "rint"};
    const std::vector<std::string> others = {"negative", "absolute", "sign", "square"};
    const std::vector<std::string> folds = {"sum", "max", "min"};
    const size_t count = 3 + below(20);
    for (size_t i = 0; i < count; ++i) {
      const int64_t a = nodes[below(nodes.size())];
      const int64_t b = nodes[below(nodes.size())];
      switch (below(5)) {
        case 0: nodes.push_back(t.Of(others[below(others.size())], {a})); break;
        case 1:
          nodes.push_back(real ? t.Of(reals[below(reals.size())], {a})
                               : t.Of("remainder", {a, t.Weak(int64_t{1} + int64_t(below(5)))}));
          break;
        case 2: nodes.push_back(t.Of("where", {t.Of("less", {a, b}), b, a})); break;
        case 3: {
          ExpressionAttributes kept;
          kept.keep_dims = true;
          const int64_t fold = t.Of(folds[below(folds.size())], {a}, kept);
          nodes.push_back(t.Of("add", {b, fold}));
          break;
        }
        default: nodes.push_back(t.Of(both[below(both.size())], {a, b})); break;
      }
    }
    const Ref<Function> function = t.Make(nodes.back());
    const auto rows = static_cast<int64_t>(1 + below(700));
    const DType dtype = real ? DType::kFloat32 : DType::kInt64;
    Ref<Tensor> in = Tensor::Create(dtype, Shape({rows, 3})).value();
    for (int64_t i = 0; i < rows * 3; ++i) {
      const auto number = static_cast<int64_t>(random() >> (8 * below(8)));
      if (real) {
        in->mutable_span<float>()[static_cast<size_t>(i)] = static_cast<float>(number) / 3;
      } else {
        in->mutable_span<int64_t>()[static_cast<size_t>(i)] = number;
      }
    }
    const Ref<Value> all = Call(*function, in).value();
    const Tensor& whole = *all->AsTensor();
    ASSERT_EQ(whole.dim(0), rows);
    const size_t bytes = whole.byte_size() / static_cast<size_t>(rows);
    for (int64_t row = 0; row < rows; row += 1 + int64_t(below(40))) {
      const Ref<Value> alone = Call(*function, in->Row(row)).value();
      ASSERT_EQ(std::memcmp(alone->AsTensor()->data(), whole.Row(row)->data(), bytes), 0)
          << "seed " << runs.number() << ", row " << row << " of " << rows << ": "
          << function->name();
    }
  }
}

}  // namespace
}  // namespace tutti
