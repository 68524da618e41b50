#include "core/tensor/value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/host_data.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Ref<Value> Number(int32_t number) { return Value::OfTensor(Tensor::Scalar(number)); }

int32_t NumberOf(const Value& value) { return value.AsTensor()->item<int32_t>(); }

// {'a': (0, 1), 'b': 2}
Ref<Value> Sample() {
  return Value::Dict({{"b", Number(2)}, {"a", Value::Tuple({Number(0), Number(1)})}}).value();
}

std::string Message(const Status& status) { return std::string(status.message()); }

TEST(TreeSpec, PrintsItsStructure) {
  EXPECT_EQ(Sample()->spec().ToString(), "{'a': (*, *), 'b': *}");
  EXPECT_EQ(TreeSpec::Leaf().ToString(), "*");
  EXPECT_EQ(Value::Tuple({Number(1)})->spec().ToString(), "(*,)");
  EXPECT_EQ(Value::List({Number(1), Value::Tuple({})})->spec().ToString(), "[*, ()]");
  const Ref<Value> children[] = {Number(1), Number(2)};
  EXPECT_EQ(Value::NamedTuple("Point", {"y", "x"}, children).value()->spec().ToString(),
            "Point(y=*, x=*)");
}

TEST(TreeSpec, IsEqualWhenTheStructureIs) {
  EXPECT_EQ(Sample()->spec(), Sample()->spec());
  EXPECT_FALSE(Value::Tuple({Number(1)})->spec() == Value::List({Number(1)})->spec());
  EXPECT_FALSE(Value::Tuple({})->spec() == TreeSpec::Leaf());
  const Ref<Value> children[] = {Number(1)};
  const Ref<Value> point = Value::NamedTuple("Point", {"x"}, children).value();
  EXPECT_FALSE(point->spec() == Value::NamedTuple("Other", {"x"}, children).value()->spec());
  EXPECT_FALSE(point->spec() == Value::NamedTuple("Point", {"y"}, children).value()->spec());
  EXPECT_EQ(point->spec(), Value::NamedTuple("Point", {"x"}, children).value()->spec());
}

TEST(TreeSpec, SortsKeysByTheirBytes) {
  const Ref<Value> value =
      Value::Dict({{"z", Number(1)}, {"\xc3\xa4", Number(2)}, {"B", Number(3)}}).value();
  EXPECT_THAT(value->spec().keys(), ElementsAre("B", "z", "\xc3\xa4"));
  EXPECT_EQ(NumberOf(*value->Child(0)), 3);
  EXPECT_EQ(NumberOf(*value->Child(2)), 2);
  std::vector<std::string> keys = {"b", "a"};
  TreeSpec::Children children = {Value::Tuple({})->spec_ref(), Number(1)->spec_ref()};
  EXPECT_EQ(TreeSpec::Dict(keys, children).value()->ToString(), "{'a': *, 'b': ()}");
}

TEST(TreeSpec, RefusesAKeyThatComesTwice) {
  const Status status = Value::Dict({{"a", Number(1)}, {"a", Number(2)}}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("\"a\" comes twice"));
  const Ref<Value> children[] = {Number(1)};
  EXPECT_EQ(Value::NamedTuple("Point", {"x", "y"}, children).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(TreeSpec, NamesThePathOfEveryLeaf) {
  const Ref<Value> value = Sample();
  EXPECT_EQ(PathToString(value->spec().LeafPath(0)), "[\"a\"][0]");
  EXPECT_EQ(PathToString(value->spec().LeafPath(1)), "[\"a\"][1]");
  EXPECT_EQ(PathToString(value->spec().LeafPath(2)), "[\"b\"]");
  const Ref<Value> hollow = Value::Tuple({Value::List({}), Number(1), Value::List({})});
  EXPECT_EQ(PathToString(hollow->spec().LeafPath(0)), "[1]");
}

TEST(TreeSpec, NamesTheFirstPathThatDiffers) {
  const Ref<Value> other =
      Value::Dict({{"a", Value::Tuple({Number(0), Value::List({})})}, {"b", Number(2)}}).value();
  const Status status = CheckSameStructure(Sample()->spec(), other->spec(), "map");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("map: structures differ at [\"a\"][1]: expected a leaf, "
                                         "found a list of 0"));
  const Ref<Value> renamed =
      Value::Dict({{"a", Value::Tuple({Number(0), Number(1)})}, {"c", Number(2)}}).value();
  EXPECT_THAT(Message(CheckSameStructure(Sample()->spec(), renamed->spec(), "map")),
              HasSubstr("keys differ: expected {'a', 'b'}, found {'a', 'c'}"));
  EXPECT_TRUE(CheckSameStructure(Sample()->spec(), Sample()->spec(), "map").ok());
}

TEST(Value, GivesItsChildrenAsValues) {
  const Ref<Value> value = Sample();
  EXPECT_EQ(value->num_children(), 2u);
  EXPECT_EQ(value->num_leaves(), 3u);
  EXPECT_EQ(value->Child(0)->ToString(), "(0, 1)");
  EXPECT_EQ(NumberOf(*value->Find("b").value()), 2);
  EXPECT_EQ(NumberOf(*value->Get({"a", 1}).value()), 1);
  EXPECT_EQ(NumberOf(*value->GetByText("a/1").value()), 1);
  EXPECT_EQ(value->GetByText("").value()->ToString(), value->ToString());
  EXPECT_TRUE(value->Get({"b"}).value()->is_leaf());
  EXPECT_EQ(value->AllChildren().size(), 2u);
}

TEST(Value, SaysWhichStepOfAPathLeadsNowhere) {
  const Ref<Value> value = Sample();
  const Status no_key = value->Find("c").status();
  EXPECT_EQ(no_key.code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(no_key), HasSubstr("[\"c\"]"));
  EXPECT_THAT(Message(no_key), HasSubstr("{'a', 'b'}"));
  EXPECT_THAT(Message(value->Get({"a", 2}).status()), HasSubstr("no [2] in [\"a\"]"));
  EXPECT_THAT(Message(value->GetByText("a/1/x").status()), HasSubstr("no [\"x\"] in [\"a\"][1]"));
  EXPECT_EQ(value->GetByText("9/9").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(value->At(2).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(value->At(-1).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(Number(1)->At(0).status().code(), StatusCode::kOutOfRange);
}

TEST(Value, FindsFieldsOfNamedTuples) {
  const Ref<Value> children[] = {Number(1), Number(2)};
  const Ref<Value> point = Value::NamedTuple("Point", {"y", "x"}, children).value();
  EXPECT_EQ(NumberOf(*point->Find("x").value()), 2);
  EXPECT_EQ(NumberOf(*point->Get({0}).value()), 1);
  EXPECT_EQ(point->ToString(), "Point(y=1, x=2)");
}

TEST(Value, IsMadeOfASpecAndItsLeaves) {
  const Ref<Value> value = Sample();
  std::vector<Leaf> leaves(value->leaves().begin(), value->leaves().end());
  const Ref<Value> again = Value::FromLeaves(value->spec_ref(), leaves).value();
  EXPECT_TRUE(again->ContentsEqual(*value));
  leaves.pop_back();
  const Status status = Value::FromLeaves(value->spec_ref(), leaves).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("has 3 leaves, but 2 are given"));
}

TEST(Value, MapsItsLeaves) {
  const Ref<Value> mapped = Sample()
                                ->MapLeaves([](const Leaf& leaf) -> Result<Leaf> {
                                  const int32_t number = leaf.tensor().item<int32_t>();
                                  return Leaf::OfTensor(Tensor::Scalar(10 * number));
                                })
                                .value();
  EXPECT_EQ(mapped->ToString(), "{'a': (0, 10), 'b': 20}");
  const auto fail = [](const Leaf&) -> Result<Leaf> {
    return Status(StatusCode::kDataLoss, "broken");
  };
  EXPECT_EQ(Sample()->MapLeaves(fail).status().code(), StatusCode::kDataLoss);
}

TEST(Value, BroadcastsAPrefixOverAStructure) {
  const Ref<Value> prefix = Value::Dict({{"a", Number(5)}, {"b", Number(6)}}).value();
  const Ref<Value> full = prefix->BroadcastTo(Sample()->spec_ref(), "padding").value();
  EXPECT_EQ(full->ToString(), "{'a': (5, 5), 'b': 6}");
  EXPECT_EQ(Number(7)->BroadcastTo(Sample()->spec_ref(), "padding").value()->ToString(),
            "{'a': (7, 7), 'b': 7}");
  const Ref<Value> wrong =
      Value::Dict({{"a", Value::Tuple({Number(1)})}, {"b", Number(6)}}).value();
  EXPECT_THAT(Message(wrong->BroadcastTo(Sample()->spec_ref(), "padding").status()),
              HasSubstr("padding: structures differ at [\"a\"]"));
}

TEST(Value, HoldsLeavesOfEveryKindItKnows) {
  int destroyed = 0;
  {
    const Ref<Value> value = Value::List(
        {Value::OfString("text"), Value::None(), Value::OfLeaf(Leaf::OfOptional(Number(4))),
         Value::OfLeaf(Leaf::OfOptional(nullptr)),
         Value::OfLeaf(Leaf::OfHostObject(MakeRef<HostData>(
             &destroyed, [](void* count) { ++*static_cast<int*>(count); }, nullptr)))});
    EXPECT_EQ(value->ToString(), "[\"text\", None, Optional(4), Optional(), <host object>]");
    EXPECT_EQ(value->leaf(0).string(), "text");
    EXPECT_TRUE(value->leaf(1).is_none());
    EXPECT_EQ(NumberOf(*value->leaf(2).optional_value()), 4);
    EXPECT_EQ(value->leaf(3).optional_value(), nullptr);
    EXPECT_EQ(value->leaf(4).host_object().data(), &destroyed);
    EXPECT_EQ(value->Child(1)->AsTensor(), nullptr);
    EXPECT_THAT(Message(value->Child(0)->GetTensor("add").status()),
                HasSubstr("add: expected a tensor, found a leaf of kind string"));
    EXPECT_THAT(Message(value->GetTensor("add").status()), HasSubstr("[*, *, *, *, *]"));
  }
  EXPECT_EQ(destroyed, 1);
}

TEST(Value, PrintsObjectsThatSayHow) {
  class Thing final : public RefCounted, public Printable {
   public:
    std::string ToString() const override { return "PerReplica:{0: 1}"; }
  };
  EXPECT_EQ(Value::OfLeaf(Leaf(LeafKind::kDistributed, MakeRef<Thing>()))->ToString(),
            "PerReplica:{0: 1}");
}

TEST(Value, ComparesContentsButKeepsIdentityApart) {
  EXPECT_TRUE(Sample()->ContentsEqual(*Sample()));
  EXPECT_FALSE(Sample()->leaf(0).SameObject(Sample()->leaf(0)));
  const Ref<Value> value = Sample();
  EXPECT_TRUE(value->leaf(0).SameObject(value->Child(0)->leaf(0)));
  EXPECT_TRUE(Leaf::None().SameObject(Leaf::None()));
  EXPECT_FALSE(Value::OfString("a")->ContentsEqual(*Value::OfString("b")));
  EXPECT_TRUE(Value::OfLeaf(Leaf::OfOptional(Number(1)))
                  ->ContentsEqual(*Value::OfLeaf(Leaf::OfOptional(Number(1)))));
  EXPECT_FALSE(Value::OfLeaf(Leaf::OfOptional(Number(1)))
                   ->ContentsEqual(*Value::OfLeaf(Leaf::OfOptional(nullptr))));
  EXPECT_FALSE(Value::None()->ContentsEqual(*Value::OfString("a")));
}

}  // namespace
}  // namespace tutti
