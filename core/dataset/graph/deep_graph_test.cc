// Definitions that are deep, long or use their parts many times: what they allow, and that nothing
// needs more stack or more time for them than a thread of a host has.
#include <gmock/gmock.h>
#include <pthread.h>

#include <functional>

#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/envelope.h"
#include "core/dataset/graph/graph_fingerprint.h"
#include "core/dataset/testing/dataset_testing.h"
#include "tutti/v1/dataset.pb.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What a thread of Java has; instrumented code takes several times as much.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackBytes = size_t{8} << 20;
#else
constexpr size_t kStackBytes = size_t{1} << 20;
#endif

void OnSmallStack(std::function<void()> body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  const auto run = [](void* data) -> void* {
    (*static_cast<std::function<void()>*>(data))();
    return nullptr;
  };
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &body), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

class DeepGraph : public DatasetTest {
 protected:
  using Step = std::function<Result<Ref<Dataset>>(const Ref<Dataset>&)>;

  Ref<Dataset> Chain(int64_t parts, bool to_the_left) {
    Ref<Dataset> chain = Range(0, 1);
    for (int64_t i = 1; i < parts; ++i) {
      const Ref<Dataset> one = Range(i, i + 1);
      chain = Ok(to_the_left ? chain->Concatenate(*one) : one->Concatenate(*chain));
    }
    return chain;
  }
  static std::string Position(Iterator& iterator) {
    const Result<std::string> state = iterator.Save(CallOptions());
    EXPECT_TRUE(state.ok()) << state.status().ToString();
    return state.ok() ? *state : std::string();
  }
  // The number after `count` others.
  static int64_t NumberAfter(Iterator& iterator, int64_t count) {
    for (Slab slab; count > 0 && !slab.end; count -= slab.rows) {
      EXPECT_TRUE(iterator.NextSlab(count, CallOptions(), &slab).ok());
    }
    const Result<Ref<Value>> element = iterator.Next(CallOptions());
    EXPECT_TRUE(element.ok() && *element);
    return element.ok() && *element ? NumberIn(**element) : -1;
  }
  // All that can be done with a definition.
  void UseOnSmallStack(const std::function<Ref<Dataset>()>& make) {
    OnSmallStack([&] {
      Ref<Dataset> dataset = make();
      ASSERT_TRUE(dataset);
      EXPECT_TRUE(dataset->GetElementSpec(CallOptions()).ok());
      EXPECT_THAT(dataset->Explain(), HasSubstr("range"));
      EXPECT_TRUE(GraphFingerprint(dataset->node()).ok());
      const Ref<Iterator> iterator = Iterate(dataset);
      const Result<Ref<Value>> first = iterator->Next(CallOptions());
      EXPECT_TRUE(first.ok()) << first.status().ToString();
      const std::string state = Position(*iterator);
      const Result<Ref<Value>> next = iterator->Next(CallOptions());
      const Status restored = iterator->Restore(state, CallOptions());
      EXPECT_TRUE(restored.ok()) << restored.ToString();
      const Result<Ref<Value>> again = iterator->Next(CallOptions());
      ASSERT_TRUE(next.ok() && again.ok());
      EXPECT_EQ((*next)->ToString(), (*again)->ToString());
      EXPECT_TRUE(iterator->Close(CallOptions()).ok());
    });
  }
};

TEST_F(DeepGraph, AChainOfAHundredThousandPartsDoesAllThatAShortOneDoes) {
  constexpr int64_t kParts = 100'000;
  for (const bool to_the_left : {true, false}) {
    OnSmallStack([&] {
      Ref<Dataset> chain = Chain(kParts, to_the_left);
      const int64_t first = to_the_left ? 0 : kParts - 1;
      const auto number = [&](int64_t i) { return to_the_left ? i : kParts - 1 - i; };
      EXPECT_EQ(chain->cardinality(), kParts);
      EXPECT_EQ(chain->node().depth(), 2);
      EXPECT_EQ(SpecText(chain), "int64[]");
      EXPECT_THAT(chain->Explain(), AllOf(HasSubstr("100000 elements of int64[], 100000 parts\n"),
                                          HasSubstr("\n  range(start=99999, stop=100000,")));
      const Result<std::string> bytes = chain->Serialize();
      ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
      const Result<std::string> fingerprint = GraphFingerprint(chain->node());
      {
        const Ref<Iterator> iterator = Iterate(chain);
        EXPECT_EQ(NumberAfter(*iterator, 0), first);
        EXPECT_EQ(NumberAfter(*iterator, 70'000), number(70'001));
        const std::string state = Position(*iterator);
        EXPECT_LT(state.size(), 1000u);
        EXPECT_EQ(NumberAfter(*iterator, 29'997), number(99'999));
        EXPECT_EQ(Next(*iterator), ".");
        EXPECT_TRUE(iterator->Restore(state, CallOptions()).ok());
        EXPECT_EQ(NumberAfter(*iterator, 0), number(70'002));
        EXPECT_TRUE(iterator->Close(CallOptions()).ok());
      }
      chain.reset();
      Ref<Dataset> back = Ok(Dataset::Deserialize(datasets_, *bytes));
      EXPECT_EQ(GraphFingerprint(back->node()).value(), *fingerprint);
      EXPECT_EQ(NumberAfter(*Iterate(back), 99'998), number(99'998));
    });
  }
}

TEST_F(DeepGraph, AChainThatIsAppendedToItselfIsWalkedAsFarAsItIsAskedFor) {
  Ref<Dataset> chain = Range(3);
  for (int i = 0; i < 40; ++i) chain = Ok(chain->Concatenate(*chain));
  EXPECT_EQ(chain->cardinality(), int64_t{3} << 40);
  EXPECT_THAT(chain->Explain(), HasSubstr("1099511627776 parts\n  range(start=0"));
  const Ref<Iterator> iterator = Iterate(chain);
  EXPECT_EQ(NumberAfter(*iterator, 3000), 0);
  const std::string state = Position(*iterator);
  EXPECT_EQ(NumberAfter(*iterator, 0), 1);
  const Ref<Dataset> back = Ok(Dataset::Deserialize(datasets_, chain->Serialize().value()));
  const Ref<Iterator> other = Iterate(back);
  EXPECT_TRUE(other->Restore(state, CallOptions()).ok());
  EXPECT_EQ(NumberAfter(*other, 0), 1);
}

TEST_F(DeepGraph, WhatIsUsedAgainAndAgainOnManyLevelsIsTreatedOnce) {
  const Ref<TestFunction> function = AddOne(nullptr);
  Ref<Dataset> dataset = Range(1);
  for (int i = 0; i < 20; ++i) {
    dataset = Ok(Ok(dataset->Concatenate(*dataset))->Map(function));
    dataset = Ok(dataset->Concatenate(*dataset));
  }
  EXPECT_EQ(dataset->cardinality(), int64_t{1} << 40);
  EXPECT_THAT(dataset->Explain(), HasSubstr("a spec that the first element tells (as above)"));
  EXPECT_EQ(SpecText(dataset), "int64[]");
  EXPECT_EQ(NumberAfter(*Iterate(dataset), 100), 20);
  EXPECT_TRUE(GraphFingerprint(dataset->node()).ok());
}

TEST_F(DeepGraph, MoreStagesAtOnceThanThereIsMemoryForAreRefused) {
  const Ref<TestFunction> first = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> { return Number(NumberIn(in)); },
      {.spec = Int64Scalar()});
  Ref<Dataset> dataset = Range(3);
  for (int i = 0; i < 40; ++i) {
    const Leaf leaf(LeafKind::kDataset, dataset);
    const Ref<Value> both = Value::Tuple({Value::OfLeaf(leaf), Value::OfLeaf(leaf)});
    dataset = Ok(Ok(Dataset::Zip(datasets_, *both))->Map(first));
  }
  const Status refused = Iterator::Create(dataset, {}, CallOptions()).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1048576 stages at once"));
}

TEST_F(DeepGraph, AChainLearnsTheSpecsOfItsPartsInOnePass) {
  constexpr int64_t kParts = 20'000;
  const Ref<TestFunction> function = AddOne(nullptr);
  Ref<Dataset> chain = Ok(Range(1)->Map(function));
  for (int64_t i = 1; i < kParts; ++i) {
    chain = Ok(chain->Concatenate(*Ok(Range(1)->Map(function))));
  }
  EXPECT_EQ(chain->known_element_spec(), nullptr);
  EXPECT_EQ(SpecText(chain), "int64[]");
  EXPECT_EQ(function->calls, kParts);
}

TEST_F(DeepGraph, WhatIsKnownWithoutTheInputsNeedsNoElementOfThem) {
  const Ref<TestFunction> unknown = AddOne(nullptr);
  const Ref<Dataset> dataset = Ok(Ok(Range(3)->Map(unknown))->Map(AddOne()));
  EXPECT_EQ(SpecText(Ok(dataset->Concatenate(*dataset))), "int64[]");
  EXPECT_EQ(unknown->calls, 0);
}

TEST_F(DeepGraph, AThousandOpsStandOnEachOtherAndNotOneMore) {
  const Ref<TestFunction> function = AddOne(nullptr);
  const Ref<TestFunction> keeps = MakeFunction(
      [](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return Value::OfTensor(Tensor::Scalar(true));
      },
      {.spec = ElementSpec::OfTensor(DType::kBool, PartialShape::Scalar())});
  const std::vector<std::pair<const char*, Step>> steps = {
      {"take", [](const Ref<Dataset>& on) { return on->Take(-1); }},
      {"map", [&](const Ref<Dataset>& on) { return on->Map(function); }},
      {"filter", [&](const Ref<Dataset>& on) { return on->Filter(keeps); }},
      {"shuffle", [](const Ref<Dataset>& on) { return on->Shuffle(2, Seed(1)); }},
      {"repeat", [](const Ref<Dataset>& on) { return on->Repeat(1); }},
      {"cache", [](const Ref<Dataset>& on) { return on->Cache(); }},
      {"shard", [](const Ref<Dataset>& on) { return on->Shard(1, 0); }},
  };
  for (const auto& [name, step] : steps) {
    SCOPED_TRACE(name);
    UseOnSmallStack([&] {
      Ref<Dataset> dataset = Range(5);
      for (int i = 1; i < kMaxDepth; ++i) dataset = Ok(step(dataset));
      const Status refused = step(dataset).status();
      EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(refused.message()),
                  AllOf(HasSubstr(name), HasSubstr("1001 operations deep, and at most 1000")));
      return dataset;
    });
  }
}

TEST_F(DeepGraph, BytesWithMoreOpsOnEachOtherAreRefused) {
  constexpr std::string_view kMagic = "TUTTI-D1";
  const std::string bytes = Ok(Range(3)->Take(2))->Serialize().value();
  std::string_view content;
  ASSERT_EQ(OpenEnvelope(kMagic, bytes, &content), nullptr);
  v1::DatasetDef def;
  ASSERT_TRUE(def.ParseFromString(std::string(content)));
  for (int i = 2; i < 100'000; ++i) {
    v1::NodeDef* node = def.add_nodes();
    *node = def.nodes(1);
    node->set_inputs(0, i - 1);
  }
  const Result<Ref<Dataset>> deep =
      Dataset::Deserialize(datasets_, SealEnvelope(kMagic, def.SerializeAsString()));
  EXPECT_EQ(deep.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(deep.status().message()),
              HasSubstr("take: this dataset would be 1001 operations deep"));
}

TEST_F(DeepGraph, ChainsThatAlternateWithOtherOpsCountEachOfThem) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer knows 64 locks that a thread holds, and stopping takes one each";
#endif
  const Ref<TestFunction> function = AddOne(nullptr);
  UseOnSmallStack([&] {
    Ref<Dataset> dataset = Range(3);
    for (int i = 0; i < 499; ++i) {
      dataset = Ok(Ok(dataset->Concatenate(*dataset))->Map(function));
    }
    EXPECT_EQ(dataset->node().depth(), 999);
    Ref<Dataset> chain = dataset;
    for (int i = 0; i < 10; ++i) chain = Ok(dataset->Concatenate(*chain));
    EXPECT_EQ(chain->node().depth(), 1000);
    EXPECT_EQ(chain->cardinality(), kUnknownCardinality);
    EXPECT_FALSE(chain->Take(1).ok());
    return chain;
  });
}

TEST_F(DeepGraph, CardinalitiesThatOverflowAreUnknown) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Ref<Dataset> chain = Range(3);
  for (int i = 0; i < 64; ++i) chain = Ok(chain->Concatenate(*chain));
  EXPECT_EQ(chain->cardinality(), kUnknownCardinality);
  EXPECT_EQ(Ok(chain->Batch(7))->cardinality(), kUnknownCardinality);
  EXPECT_EQ(NumberAfter(*Iterate(chain), 1000), 1);
  EXPECT_EQ(Ok(Range(3)->Repeat(kMax))->cardinality(), kUnknownCardinality);
  EXPECT_EQ(Ok(Range(1)->Repeat(kMax))->cardinality(), kMax);
  EXPECT_EQ(Ok(Range(1)->Repeat(kMax))->Concatenate(*Range(1)).value()->cardinality(),
            kUnknownCardinality);
  EXPECT_EQ(Range(-kMax, kMax)->cardinality(), kUnknownCardinality);
}

}  // namespace
}  // namespace tutti
