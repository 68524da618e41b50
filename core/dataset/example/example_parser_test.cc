#include "core/dataset/example/example_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/dataset/testing/example_testing.h"
#include "core/dataset/testing/record_file_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::Entry;
using wire::Example;
using wire::Floats;
using wire::Int64s;
using wire::Part;
using wire::Strings;
using wire::Tag;
using wire::Varint;

ExampleFeature Feature(std::string key, DType dtype, Shape shape = Shape(),
                       Ref<const Tensor> default_value = nullptr) {
  return {std::move(key), dtype, std::move(shape), std::move(default_value)};
}

Result<Ref<Value>> Parse(std::vector<ExampleFeature> features, const Ref<const Tensor>& examples) {
  TUTTI_ASSIGN_OR_RETURN(auto parser, ExampleParser::Create(std::move(features)));
  return parser->Parse(examples, nullptr);
}

// The only feature of one example, as text.
std::string ParseOne(const ExampleFeature& feature, const std::string& example) {
  const Result<Ref<Value>> parsed = Parse({feature}, Tensor::Bytes(example));
  if (!parsed.ok()) return std::string(parsed.status().message());
  return parsed.value()->leaf(0).tensor().ToString();
}

TEST(ExampleParser, GivesADictOfItsFeaturesInKeyOrder) {
  const std::string example =
      Example(Entry("label", Int64s({7})) + Entry("image", Floats({1, 2, 3, 4})) +
              Entry("name", Strings({"seven"})));
  const Result<Ref<Value>> parsed =
      Parse({Feature("name", DType::kBytes), Feature("label", DType::kInt64),
             Feature("image", DType::kFloat32, Shape({2, 2}))},
            Tensor::Bytes(example));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed.value()->spec().ToString(), "{'image': *, 'label': *, 'name': *}");
  EXPECT_EQ(parsed.value()->leaf(0).tensor().SpecString(), "float32[2,2]");
  EXPECT_THAT(parsed.value()->leaf(0).tensor().span<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(parsed.value()->leaf(1).tensor().item<int64_t>(), 7);
  EXPECT_EQ(parsed.value()->leaf(2).tensor().item<BytesView>().text(), "seven");
}

TEST(ExampleParser, PutsTheInputsShapeInFrontOfEachFeatures) {
  std::vector<std::string> texts;
  std::vector<BytesView> views;
  for (int i = 0; i < 6; ++i) {
    texts.push_back(
        Example(Entry("x", Int64s({i, 10 * i})) + Entry("s", Strings({std::string(i, 'a')}))));
  }
  for (const std::string& text : texts) views.push_back({text.data(), text.size()});
  const Result<Ref<Value>> parsed =
      Parse({Feature("x", DType::kInt64, Shape({2})), Feature("s", DType::kBytes)},
            Tensor::FromStrings(Shape({2, 3}), views).value());
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed.value()->leaf(0).tensor().SpecString(), "bytes[2,3]");
  EXPECT_EQ(parsed.value()->leaf(0).tensor().span<BytesView>()[5].text(), "aaaaa");
  EXPECT_EQ(parsed.value()->leaf(1).tensor().SpecString(), "int64[2,3,2]");
  EXPECT_THAT(parsed.value()->leaf(1).tensor().span<int64_t>(),
              ElementsAre(0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50));
}

TEST(ExampleParser, ASlabOfNoExamplesGivesEmptyColumns) {
  const Result<Ref<Value>> parsed =
      Parse({Feature("x", DType::kInt64, Shape({2})), Feature("s", DType::kBytes)},
            Tensor::FromStrings(Shape({0}), {}).value());
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed.value()->leaf(0).tensor().SpecString(), "bytes[0]");
  EXPECT_EQ(parsed.value()->leaf(1).tensor().SpecString(), "int64[0,2]");
}

TEST(ExampleParser, ReadsPackedAndUnpackedListsOfAnyLength) {
  for (const size_t n : {0, 1, 7, 8, 9, 127, 128, 129, 1000}) {
    std::vector<int64_t> ints;
    std::vector<float> floats;
    for (size_t i = 0; i < n; ++i) {
      // Mostly one byte each, with long ones and negative ones between.
      ints.push_back(i % 11 == 10   ? -static_cast<int64_t>(i) * 1'000'000'007
                     : i % 13 == 12 ? 300
                                    : i % 128);
      floats.push_back(0.5f * static_cast<float>(i));
    }
    for (const bool packed : {true, false}) {
      const std::string example =
          Example(Entry("i", Int64s(ints, packed)) + Entry("f", Floats(floats, packed)));
      const Shape shape({static_cast<int64_t>(n)});
      const Result<Ref<Value>> parsed =
          Parse({Feature("i", DType::kInt64, shape), Feature("f", DType::kFloat32, shape)},
                Tensor::Bytes(example));
      ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
      EXPECT_THAT(parsed.value()->leaf(0).tensor().span<float>(),
                  ::testing::ElementsAreArray(floats));
      EXPECT_THAT(parsed.value()->leaf(1).tensor().span<int64_t>(),
                  ::testing::ElementsAreArray(ints));
    }
  }
}

TEST(ExampleParser, PackedAndUnpackedPiecesOfOneListAreOneList) {
  const std::string pieces =
      Part(1, Varint(1) + Varint(2)) + Tag(1, 0) + Varint(3) + Part(1, Varint(4));
  EXPECT_EQ(ParseOne(Feature("x", DType::kInt64, Shape({4})), Example(Entry("x", Part(3, pieces)))),
            "int64[4] [1 2 3 4]");
}

TEST(ExampleParser, ConvertsToOtherDTypes) {
  const std::string ints = Example(Entry("x", Int64s({0, 1, 127})));
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kUint8,
                            DType::kUint16, DType::kUint32, DType::kUint64}) {
    EXPECT_EQ(ParseOne(Feature("x", dtype, Shape({3})), ints),
              std::string(DTypeName(dtype)) + "[3] [0 1 127]");
  }
  const std::string floats = Example(Entry("x", Floats({0.5, -2})));
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat64}) {
    EXPECT_EQ(ParseOne(Feature("x", dtype, Shape({2})), floats),
              std::string(DTypeName(dtype)) + "[2] [0.5 -2]");
  }
  const Result<Ref<Value>> flags = Parse({Feature("x", DType::kBool, Shape({2}))},
                                         Tensor::Bytes(Example(Entry("x", Int64s({1, 0})))));
  EXPECT_THAT(flags.value()->leaf(0).tensor().span<bool>(), ElementsAre(true, false));
}

TEST(ExampleParser, AValueThatTheDTypeCannotHoldIsNamed) {
  const auto with_ints = [](DType dtype, int64_t value) {
    return ParseOne(Feature("x", dtype), Example(Entry("x", Int64s({value}))));
  };
  EXPECT_EQ(with_ints(DType::kUint8, 256),
            "parse_example: feature \"x\" has the value 256, which uint8 cannot hold; ask for a "
            "wider dtype");
  EXPECT_THAT(with_ints(DType::kUint8, -1), HasSubstr("the value -1, which uint8 cannot hold"));
  EXPECT_THAT(with_ints(DType::kUint64, -1), HasSubstr("which uint64 cannot hold"));
  EXPECT_THAT(with_ints(DType::kInt32, int64_t{1} << 31), HasSubstr("which int32 cannot hold"));
  EXPECT_THAT(with_ints(DType::kBool, 2), HasSubstr("the value 2, which bool cannot hold"));
  EXPECT_EQ(with_ints(DType::kInt32, -(int64_t{1} << 31)), "int32[] -2147483648");
  const auto with_float = [](DType dtype, float value) {
    return ParseOne(Feature("x", dtype), Example(Entry("x", Floats({value}))));
  };
  EXPECT_THAT(with_float(DType::kFloat16, 1e5f), HasSubstr("which float16 cannot hold"));
  EXPECT_THAT(with_float(DType::kBfloat16, std::numeric_limits<float>::max()),
              HasSubstr("which bfloat16 cannot hold"));
  EXPECT_EQ(with_float(DType::kFloat16, std::numeric_limits<float>::infinity()), "float16[] inf");
}

TEST(ExampleParser, AMissingFeatureTakesItsDefault) {
  const std::string example = Example(Entry("other", Int64s({7})));
  EXPECT_EQ(
      ParseOne(Feature("x", DType::kFloat32, Shape({2}), Tensor::Vector<float>({3, 4})), example),
      "float32[2] [3 4]");
  EXPECT_EQ(ParseOne(Feature("x", DType::kBytes, Shape(), Tensor::Bytes("none")), example),
            ParseOne(Feature("x", DType::kBytes), Example(Entry("x", Strings({"none"})))));
  // A feature without a list counts as missing, too.
  EXPECT_EQ(ParseOne(Feature("x", DType::kInt64, Shape(), Tensor::Scalar<int64_t>(5)),
                     Example(Entry("x", ""))),
            "int64[] 5");
  EXPECT_EQ(ParseOne(Feature("x", DType::kInt64, Shape(), Tensor::Scalar<int64_t>(5)), ""),
            "int64[] 5");
}

TEST(ExampleParser, ConvertsADefaultToTheFeaturesDType) {
  EXPECT_EQ(ParseOne(Feature("x", DType::kFloat32, Shape({2}), Tensor::Vector<int64_t>({3, 4})),
                     Example("")),
            "float32[2] [3 4]");
  EXPECT_EQ(ParseOne(Feature("x", DType::kInt8, Shape(), Tensor::Scalar<int64_t>(5)), Example("")),
            "int8[] 5");
  for (const DType dtype : {DType::kBytes, DType::kInt64, DType::kBfloat16, DType::kBool}) {
    EXPECT_EQ(ParseOne(Feature("x", dtype, Shape({0}), Tensor::Vector<double>({})), Example("")),
              std::string(DTypeName(dtype)) + "[0] []");
  }
}

TEST(ExampleParser, ARequiredFeatureThatIsMissingIsNamedWithTheOnesThatAreThere) {
  const std::string example = Example(Entry("label", Int64s({7})) + Entry("image", Floats({1})));
  const Result<Ref<Value>> parsed = Parse({Feature("labl", DType::kInt64)}, Tensor::Bytes(example));
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parsed.status().message(),
            "parse_example: feature \"labl\" is required and missing; the example has \"image\", "
            "\"label\"; did you mean \"label\"?");
  EXPECT_EQ(Detail<std::string>(parsed.status(), "feature"), "labl");
  EXPECT_THAT(ParseOne(Feature("x", DType::kInt64), ""), HasSubstr("the example has no features"));
}

TEST(ExampleParser, AWrongKindOfListIsNamed) {
  EXPECT_EQ(
      ParseOne(Feature("x", DType::kInt64, Shape({2})), Example(Entry("x", Floats({1, 2, 3})))),
      "parse_example: feature \"x\" should be 2 values (int64[2]) and is float_list of 3 "
      "values; ask for a dtype that fits, or write it as int64_list");
  EXPECT_THAT(ParseOne(Feature("x", DType::kFloat32), Example(Entry("x", Int64s({1})))),
              HasSubstr("is int64_list of 1 values"));
  EXPECT_THAT(ParseOne(Feature("x", DType::kFloat32), Example(Entry("x", Strings({"a"})))),
              HasSubstr("is bytes_list of 1 values"));
  EXPECT_THAT(ParseOne(Feature("x", DType::kBytes), Example(Entry("x", Int64s({1})))),
              HasSubstr("is int64_list of 1 values"));
}

TEST(ExampleParser, AWrongNumberOfValuesNamesTheShapeAndWhatWasFound) {
  for (const int n : {0, 1, 3, 200}) {
    const std::string expected = "parse_example: feature \"x\" should be 2 values (";
    const std::string found = "and has " + std::to_string(n) + " values";
    EXPECT_THAT(ParseOne(Feature("x", DType::kInt64, Shape({2, 1})),
                         Example(Entry("x", Int64s(std::vector<int64_t>(n, 300))))),
                AllOf(HasSubstr(expected + "int64[2,1])"), HasSubstr(found)));
    EXPECT_THAT(ParseOne(Feature("x", DType::kUint8, Shape({2})),
                         Example(Entry("x", Int64s(std::vector<int64_t>(n, 3))))),
                HasSubstr(found));
    EXPECT_THAT(ParseOne(Feature("x", DType::kFloat32, Shape({2})),
                         Example(Entry("x", Floats(std::vector<float>(n, 3))))),
                HasSubstr(found));
    EXPECT_THAT(ParseOne(Feature("x", DType::kBytes, Shape({2})),
                         Example(Entry("x", Strings(std::vector<std::string>(n, "a"))))),
                HasSubstr(found));
  }
}

TEST(ExampleParser, TheLastOfSeveralEntriesWithOneKeyCounts) {
  // The first ones would not even fit.
  const std::string entries = Entry("x", Floats({1})) + Entry("x", Int64s({1, 2, 3})) +
                              Entry("x", Int64s({1000})) + Entry("x", Int64s({5}));
  EXPECT_EQ(ParseOne(Feature("x", DType::kInt8), Example(entries)), "int8[] 5");
  EXPECT_EQ(ParseOne(Feature("x", DType::kInt8, Shape(), Tensor::Scalar<int8_t>(9)),
                     Example(entries + Entry("x", ""))),
            "int8[] 9");
  // The same over several Features messages, which are merged.
  EXPECT_EQ(
      ParseOne(Feature("x", DType::kInt8), Example(entries) + Example(Entry("x", Int64s({6})))),
      "int8[] 6");
}

TEST(ExampleParser, TheLastKindOfAFeatureCountsAndEqualKindsAreMerged) {
  EXPECT_EQ(ParseOne(Feature("x", DType::kInt64, Shape({2})),
                     Example(Entry("x", Floats({1}) + Int64s({5}) + Int64s({6})))),
            "int64[2] [5 6]");
  // A key behind its value, and a Feature in two pieces.
  const std::string entry = Part(2, Int64s({5})) + Part(2, Int64s({6})) + Part(1, "x");
  EXPECT_EQ(ParseOne(Feature("x", DType::kInt64, Shape({2})), Example(Part(1, entry))),
            "int64[2] [5 6]");
}

TEST(ExampleParser, PassesOverUnknownFieldsAndFeatures) {
  const std::string group = Tag(9, 3) + Tag(10, 3) + Tag(1, 0) + Varint(3) + Tag(10, 4) + Tag(9, 4);
  const std::string unknown = Tag(7, 0) + Varint(1u << 30) + Tag(8, 1) + std::string(8, 'x') +
                              Part(100, "unknown") + Tag(6, 5) + "abcd" + group;
  const std::string list = unknown + Tag(1, 0) + Varint(4) + unknown;
  const std::string feature = unknown + Part(3, list) + unknown;
  const std::string entry = unknown + Part(1, "x") + unknown + Part(2, feature) + unknown;
  const std::string example =
      unknown + Part(1, unknown + Entry("y", Floats({1})) + Part(1, entry) + unknown) + unknown;
  EXPECT_EQ(ParseOne(Feature("x", DType::kInt64), example), "int64[] 4");
}

TEST(ExampleParser, ManyFeaturesInChangingOrderFindTheirColumns) {
  constexpr int kFeatures = 40;
  std::vector<ExampleFeature> features;
  for (int i = 0; i < kFeatures; ++i) {
    features.push_back(Feature("feature " + std::to_string(i), DType::kInt64));
  }
  std::mt19937 random(1);
  std::vector<int> order(kFeatures);
  for (int i = 0; i < kFeatures; ++i) order[i] = i;
  std::vector<std::string> examples;
  for (int example = 0; example < 20; ++example) {
    std::shuffle(order.begin(), order.end(), random);
    std::string entries;
    for (const int i : order) {
      entries += Entry("feature " + std::to_string(i), Int64s({100 * example + i}));
      entries += Entry("unknown " + std::to_string(i), Int64s({-1}));
    }
    examples.push_back(Example(entries));
  }
  std::vector<BytesView> views;
  for (const std::string& example : examples) views.push_back({example.data(), example.size()});
  const Result<Ref<Value>> parsed =
      Parse(features, Tensor::FromStrings(Shape({20}), views).value());
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  for (int i = 0; i < kFeatures; ++i) {
    const Ref<Value> column = parsed.value()->Find("feature " + std::to_string(i)).value();
    for (int example = 0; example < 20; ++example) {
      EXPECT_EQ(column->AsTensor()->span<int64_t>()[example], 100 * example + i);
    }
  }
}

TEST(ExampleParser, MalformedBytesAreNamedByTheirOffset) {
  const auto message = [](const std::string& example) {
    return ParseOne(Feature("x", DType::kInt64), example);
  };
  EXPECT_EQ(message("\x0a\x05"
                    "abc"),
            "parse_example: malformed at byte 1 of 5: a length goes beyond the end; the input "
            "should be a serialised tf.train.Example");
  EXPECT_THAT(message(std::string(11, '\xff')),
              HasSubstr("byte 0 of 11: a varint has more than 10 bytes"));
  EXPECT_THAT(message("\xff"), HasSubstr("byte 0 of 1: a varint goes beyond the end"));
  EXPECT_THAT(message(std::string("\0\0", 2)), HasSubstr("byte 0 of 2: there is no such field"));
  EXPECT_THAT(message("\x0e"), HasSubstr("byte 1 of 1: there is no such wire type"));
  EXPECT_THAT(message("\x0c"), HasSubstr("byte 1 of 1: a group ends that has not begun"));
  EXPECT_THAT(message("\x0b"), HasSubstr("byte 1 of 1: a group does not end"));
  EXPECT_THAT(message("\x0d"
                      "abc"),
              HasSubstr("byte 1 of 4: a 4-byte value goes beyond the end"));
  EXPECT_THAT(message("\x09"
                      "abc"),
              HasSubstr("byte 1 of 4: an 8-byte value goes beyond the end"));
  // Inside the list of the wanted feature: the offset is that in the whole example.
  const std::string good = Example(Entry("x", Int64s({300})));
  std::string bad = good;
  bad.back() = '\xff';
  EXPECT_THAT(message(bad),
              HasSubstr("malformed at byte " + std::to_string(good.size() - 2) + " of " +
                        std::to_string(good.size()) + ": a varint goes beyond"));
  const std::string floats = Example(Entry("x", Part(2, Part(1, "abcde"))));
  EXPECT_THAT(message(floats), HasSubstr("a packed list of floats has no multiple of 4 bytes"));
}

TEST(ExampleParser, TheErrorNamesTheRowByADetail) {
  const std::string good = Example(Entry("x", Int64s({1})));
  const std::string bad = "junk";
  const std::vector<BytesView> views = {{good.data(), good.size()},
                                        {good.data(), good.size()},
                                        {good.data(), good.size()},
                                        {bad.data(), bad.size()}};
  const std::vector<ExampleFeature> features = {Feature("x", DType::kInt64)};
  const Status of_slab = Parse(features, Tensor::FromStrings(Shape({4}), views).value()).status();
  EXPECT_EQ(Detail<int64_t>(of_slab, "row"), 3);
  EXPECT_EQ(of_slab.FindDetail("offset") != nullptr, true);
  const Status of_batches =
      Parse(features, Tensor::FromStrings(Shape({2, 2}), views).value()).status();
  EXPECT_EQ(Detail<int64_t>(of_batches, "row"), 1);
  EXPECT_THAT(std::string(of_batches.message()), HasSubstr("parse_example: example 1: malformed"));
  EXPECT_EQ(Parse(features, Tensor::Bytes(bad)).status().FindDetail("row"), nullptr);
}

TEST(ExampleParser, TakesOnlyByteStrings) {
  const Status status =
      Parse({Feature("x", DType::kInt64)}, Tensor::Vector<int64_t>({1, 2, 3})).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "parse_example: the input should be serialised examples (bytes) and is int64[3]");
}

TEST(ExampleParser, LargeByteStringsAreViewsIntoTheExamplesAndKeepThemAlive) {
  Ref<const Tensor> examples =
      Tensor::Bytes(Example(Entry("x", Strings({std::string(5000, 'x')}))));
  const char* payload = examples->item<BytesView>().data;
  const Result<Ref<Value>> parsed = Parse({Feature("x", DType::kBytes)}, examples);
  ASSERT_TRUE(parsed.ok());
  const BytesView view = parsed.value()->leaf(0).tensor().item<BytesView>();
  EXPECT_GT(view.data, payload);
  EXPECT_LT(view.data, payload + 5020);
  examples.reset();
  EXPECT_EQ(view.text(), std::string(5000, 'x'));
}

TEST(ExampleParser, SmallByteStringsOfLargeExamplesAreCopied) {
  Ref<const Tensor> examples = Tensor::Bytes(
      Example(Entry("x", Strings({"small"})) + Entry("y", Strings({std::string(5000, 'x')}))));
  const char* payload = examples->item<BytesView>().data;
  const Result<Ref<Value>> parsed = Parse({Feature("x", DType::kBytes)}, examples);
  ASSERT_TRUE(parsed.ok());
  const BytesView view = parsed.value()->leaf(0).tensor().item<BytesView>();
  EXPECT_TRUE(view.data < payload || view.data >= payload + 5000);
  EXPECT_EQ(view.text(), "small");
}

TEST(ExampleParser, RefusesFeaturesThatCannotBe) {
  const auto message = [](std::vector<ExampleFeature> features) {
    const auto parser = ExampleParser::Create(std::move(features));
    EXPECT_EQ(parser.status().code(), StatusCode::kInvalidArgument);
    return std::string(parser.status().message());
  };
  EXPECT_THAT(message({}), HasSubstr("there are no features"));
  EXPECT_THAT(message({Feature("", DType::kInt64)}), HasSubstr("empty key"));
  EXPECT_THAT(message({Feature("x", DType::kInt64), Feature("x", DType::kFloat32)}),
              HasSubstr("\"x\" is named twice"));
  EXPECT_THAT(message({Feature("x", DType::kComplex64)}), HasSubstr("has dtype complex64"));
  EXPECT_THAT(message({Feature("x", DType::kInt64, Shape(), Tensor::Scalar<float>(1))}),
              HasSubstr("feature \"x\" is int64[], its default value float32[]; 1 is a float, "
                        "which never becomes an integer"));
  EXPECT_THAT(message({Feature("x", DType::kInt64, Shape({2}), Tensor::Scalar<int64_t>(1))}),
              HasSubstr("feature \"x\" is int64[2], its default value int64[]"));
}

// Random and randomly damaged bytes in blocks of exactly their size, so that the sanitizers notice
// any read outside of them.
TEST(ExampleParser, NeverReadsOutsideOfRandomBytes) {
  const unsigned seed = ::testing::UnitTest::GetInstance()->random_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto parser = ExampleParser::Create(
      {Feature("x", DType::kInt64, Shape({3})), Feature("y", DType::kFloat32, Shape({4})),
       Feature("z", DType::kBytes, Shape({2})),
       Feature("w", DType::kUint8, Shape({9}), Tensor::Create(DType::kUint8, Shape({9})).value())});
  ASSERT_TRUE(parser.ok());
  const std::string whole = Example(
      Entry("x", Int64s({1, -2, 300})) + Entry("y", Floats({1, 2, 3, 4}, false)) +
      Entry("z", Strings({"one", "two"})) + Entry("w", Int64s({1, 2, 3, 4, 5, 6, 7, 8, 9})));
  int parsed = 0;
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole;
    if (round % 4 == 0) {
      bytes.resize(random() % 64);
      for (char& byte : bytes) byte = static_cast<char>(random());
    } else {
      for (unsigned i = 0; i <= random() % 4; ++i) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      if (round % 4 == 1) bytes.resize(random() % bytes.size());
    }
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const Ref<Tensor> examples = Tensor::BytesViewScalar({exact.data(), exact.size()}, nullptr);
    const Result<Ref<Value>> result = parser.value()->Parse(examples, nullptr);
    ++(result.ok() ? parsed : refused);
    if (!result.ok()) {
      EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    }
  }
  EXPECT_GT(parsed, 100);
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace tutti
