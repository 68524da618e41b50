// Definitions: options, explain, bytes, and the registry.
#include "core/base/text.h"
#include "core/dataset/graph/dataset.h"

#include <gmock/gmock.h>

#include "core/dataset/graph/envelope.h"
#include "core/dataset/graph/graph_fingerprint.h"
#include "core/dataset/graph/run_report.h"
#include "core/dataset/records/tf_record.h"
#include "core/dataset/testing/dataset_testing.h"
#include "tutti/v1/dataset.pb.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Definition : public DatasetTest {
 protected:
  static std::string Bytes(const Ref<Dataset>& dataset) {
    Result<std::string> bytes = dataset->Serialize();
    EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
    return bytes.ok() ? std::move(bytes).value() : std::string();
  }
  Ref<Dataset> Again(const Ref<Dataset>& dataset) {
    return Ok(Dataset::Deserialize(datasets_, Bytes(dataset)));
  }
  static v1::DatasetDef DefinitionOf(const std::string& bytes) {
    std::string_view content;
    EXPECT_EQ(OpenEnvelope("TUTTI-D1", bytes, &content), nullptr);
    v1::DatasetDef def;
    EXPECT_TRUE(def.ParseFromString(std::string(content)));
    return def;
  }
  static std::string BytesOf(const v1::DatasetDef& def) {
    return SealEnvelope("TUTTI-D1", def.SerializeAsString());
  }
  // "batch_size, drop_remainder": what the definition says of its last op.
  static std::string Written(const Ref<Dataset>& dataset) {
    const v1::DatasetDef def = DefinitionOf(Bytes(dataset));
    std::vector<std::string> names;
    for (const auto& attribute : def.nodes(def.nodes_size() - 1).attributes()) {
      names.push_back(attribute.name());
    }
    return Join(names, ", ");
  }
  static std::string Fingerprint(const Ref<Dataset>& dataset) {
    return GraphFingerprint(dataset->node()).value();
  }
};

TEST_F(Definition, OptionsKnowWhetherTheyWereSet) {
  DatasetOptions options;
  EXPECT_TRUE(options.empty());
  EXPECT_TRUE(options.deterministic());
  EXPECT_EQ(options.Read("deterministic").value(), std::nullopt);
  ASSERT_TRUE(options.SetBool("deterministic", false).ok());
  ASSERT_TRUE(options.SetInt("experimental_distribute.auto_shard_policy", 2).ok());
  EXPECT_EQ(options.Read("deterministic").value(), 0);
  EXPECT_FALSE(options.deterministic());
  EXPECT_EQ(options.auto_shard_policy(), AutoShardPolicy::kData);
  EXPECT_EQ(options.ToString(), "deterministic=false, experimental_distribute.auto_shard_policy=2");
}

TEST_F(Definition, OptionsRefuseUnknownKeysAndValuesOutOfPlace) {
  DatasetOptions options;
  const auto refusal = [](const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(options.SetBool("determinstic", true)),
              AllOf(HasSubstr("unknown key 'determinstic'"),
                    HasSubstr("did you mean 'deterministic'?"), HasSubstr("autotune.ram_budget")));
  EXPECT_THAT(refusal(options.Read("x").status()), HasSubstr("unknown key 'x'"));
  EXPECT_THAT(refusal(options.SetInt("deterministic", 1)), HasSubstr("is a boolean"));
  EXPECT_THAT(refusal(options.SetBool("autotune.ram_budget", true)), HasSubstr("is an integer"));
  EXPECT_THAT(refusal(options.SetInt("experimental_distribute.auto_shard_policy", 4)),
              HasSubstr("must be -1 .. 3, got 4"));
  EXPECT_THAT(refusal(options.SetInt("autotune.ram_budget", -1)), HasSubstr("must be 0 or more"));
  EXPECT_TRUE(options.empty());
}

TEST_F(Definition, OptionsHaveOtherNamesAndCanBeCleared) {
  DatasetOptions options;
  ASSERT_TRUE(options.SetBool("experimental_deterministic", false).ok());
  ASSERT_TRUE(options.SetInt("experimental_threading.private_threadpool_size", 3).ok());
  ASSERT_TRUE(options.SetInt("experimental_threading.max_intra_op_parallelism", 2).ok());
  ASSERT_TRUE(options.SetInt("experimental_external_state_policy", 2).ok());
  ASSERT_TRUE(options.SetBool("experimental_optimization.map_vectorization.enabled", true).ok());
  EXPECT_EQ(options.Read("deterministic").value(), 0);
  EXPECT_EQ(options.Read("experimental_deterministic").value(), 0);
  EXPECT_EQ(options.private_threadpool_size(), 3);
  EXPECT_EQ(options.ToString(),
            "deterministic=false, threading.private_threadpool_size=3, "
            "threading.max_intra_op_parallelism=2, experimental_external_state_policy=2, "
            "experimental_optimization.map_vectorization.enabled=true");
  EXPECT_FALSE(options.SetInt("experimental_external_state_policy", 3).ok());
  DatasetOptions same;
  EXPECT_NE(options, same);
  for (const char* key :
       {"experimental_deterministic", "experimental_threading.private_threadpool_size",
        "threading.max_intra_op_parallelism", "experimental_external_state_policy",
        "experimental_optimization.map_vectorization.enabled"}) {
    ASSERT_TRUE(options.Clear(key).ok()) << key;
  }
  EXPECT_EQ(options, same);
  EXPECT_TRUE(options.deterministic());
  EXPECT_THAT(std::string(options.Clear("experimental_determinstic").message()),
              HasSubstr("did you mean 'experimental_deterministic'?"));
}

TEST_F(Definition, OptionsSayWhatBecomesOfFunctionsOfTheHost) {
  const Ref<TestFunction> function = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> { return Number(NumberIn(in)); },
      {.spec = Int64Scalar()});
  const Ref<Dataset> called = Ok(Range(3)->Map(function));
  const auto with = [&](std::string_view key, int64_t value) {
    DatasetOptions options;
    EXPECT_TRUE(options.SetInt(key, value).ok() || options.SetBool(key, value != 0).ok());
    return Ok(called->WithOptions(options));
  };
  const char* const policy = "experimental_external_state_policy";
  EXPECT_TRUE(Iterate(with(policy, 1))->Save(CallOptions()).ok());
  const Status failed = Iterate(with(policy, 2))->Save(CallOptions()).status();
  EXPECT_EQ(failed.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(failed.message()),
              AllOf(HasSubstr("save: map calls the host's"), HasSubstr("is FAIL")));
  EXPECT_THAT(std::string(with(policy, 2)->Serialize().status().message()),
              HasSubstr("serialize: map calls the host's"));
  const Ref<Iterator> warned = Iterate(with(policy, 0));
  EXPECT_TRUE(warned->Save(CallOptions()).ok());

  const char* const native = "experimental_optimization.native_functions";
  const Status refused = Iterator::Create(with(native, 1), {}, CallOptions()).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("demands that no operation calls"));
  EXPECT_THAT(Numbers(with(native, 0)), ElementsAre(0, 1, 2));

  DatasetOptions slack;
  ASSERT_TRUE(slack.SetBool("experimental_slack", true).ok());
  EXPECT_THAT(Ok(called->WithOptions(slack))->Explain(), HasSubstr("slack: without effect"));
  ASSERT_TRUE(slack.SetInt("experimental_distribute.num_devices", 2).ok());
  const Ref<Dataset> ahead = Ok(Ok(Ok(called->Prefetch(4))->Take(3))->WithOptions(slack));
  EXPECT_THAT(ahead->Explain(), HasSubstr("slack: prefetch pauses after each 2 elements"));
  EXPECT_THAT(Numbers(ahead), ElementsAre(0, 1, 2));
}

TEST_F(Definition, ReplacedOptionsAreThoseAndNoOthers) {
  DatasetOptions first;
  DatasetOptions second;
  ASSERT_TRUE(first.SetInt("threading.private_threadpool_size", 2).ok());
  ASSERT_TRUE(second.SetInt("threading.private_threadpool_size", 3).ok());
  const Ref<Dataset> dataset = Ok(Range(3)->WithOptions(first));
  EXPECT_FALSE(dataset->WithOptions(second).ok());
  EXPECT_EQ(dataset->ReplaceOptions(second)->options(), second);
  EXPECT_TRUE(dataset->ReplaceOptions({})->options().empty());
  EXPECT_EQ(dataset->options(), first);
}

TEST_F(Definition, ZipAndConcatenateUniteTheOptionsOfTheirInputs) {
  DatasetOptions first;
  DatasetOptions second;
  ASSERT_TRUE(first.SetInt("threading.private_threadpool_size", 2).ok());
  ASSERT_TRUE(second.SetBool("deterministic", false).ok());
  const Ref<Dataset> one = Ok(Range(3)->WithOptions(first));
  const Ref<Dataset> two = Ok(Range(3)->WithOptions(second));
  const Ref<Value> pair = Value::Tuple(
      {Value::OfLeaf(Leaf(LeafKind::kDataset, one)), Value::OfLeaf(Leaf(LeafKind::kDataset, two))});
  for (const Ref<Dataset>& both :
       {Ok(Dataset::Zip(datasets_, *pair)), Ok(one->Concatenate(*two))}) {
    EXPECT_EQ(both->options().private_threadpool_size(), 2);
    EXPECT_FALSE(both->options().deterministic());
  }
}

TEST_F(Definition, APlanCountsElementsAsPeopleDo) {
  EXPECT_THAT(Range(1)->Explain(), HasSubstr(": 1 element of int64[]"));
  EXPECT_THAT(Range(2)->Explain(), HasSubstr(": 2 elements of int64[]"));
  EXPECT_THAT(Ok(Range(2)->Repeat(-1))->Explain(), HasSubstr(": infinitely many elements of "));
  EXPECT_THAT(Ok(MakeTfRecordDataset(datasets_, {}, {}))->Explain(),
              HasSubstr(": an unknown number of elements of bytes[]"));
}

TEST_F(Definition, MergedOptionsTakeTheLaterValueAndTellWhatChanged) {
  DatasetOptions first;
  DatasetOptions second;
  ASSERT_TRUE(first.SetInt("autotune.ram_budget", 1).ok());
  ASSERT_TRUE(first.SetBool("deterministic", false).ok());
  ASSERT_TRUE(second.SetInt("autotune.ram_budget", 2).ok());
  std::vector<std::string> changed;
  const DatasetOptions merged = first.Merge(second, &changed);
  EXPECT_EQ(merged.Read("autotune.ram_budget").value(), 2);
  EXPECT_EQ(merged.Read("deterministic").value(), 0);
  EXPECT_THAT(changed, ElementsAre("autotune.ram_budget"));
}

TEST_F(Definition, WithOptionsTwiceWithDifferentValuesIsRefused) {
  DatasetOptions one;
  DatasetOptions two;
  ASSERT_TRUE(one.SetInt("autotune.ram_budget", 1).ok());
  ASSERT_TRUE(two.SetInt("autotune.ram_budget", 2).ok());
  const Ref<Dataset> dataset = Ok(Range(3)->WithOptions(one));
  EXPECT_TRUE(dataset->WithOptions(one).ok());
  const Status refused = dataset->WithOptions(two).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'autotune.ram_budget' has another value"));
  DatasetOptions otherwise;
  ASSERT_TRUE(otherwise.SetInt("autotune.ram_budget", 0).ok());
  EXPECT_TRUE(dataset->WithOptions(otherwise).ok());
}

TEST_F(Definition, TransformationsInheritOptions) {
  DatasetOptions options;
  ASSERT_TRUE(options.SetBool("deterministic", false).ok());
  const Ref<Dataset> dataset = Ok(Ok(Range(3)->WithOptions(options))->Batch(2));
  EXPECT_FALSE(dataset->options().deterministic());
  EXPECT_FALSE(
      Ok(Range(2)->Concatenate(*Ok(Range(3)->WithOptions(options))))->options().deterministic());
}

TEST_F(Definition, ExplainTellsThePlan) {
  const Ref<Dataset> dataset =
      Ok(Ok(Ok(Range(10)->Shuffle(4, Seed(7)))->Map(AddOne(nullptr), Named("plus")))->Batch(3));
  EXPECT_EQ(
      dataset->Explain(),
      "batch(batch_size=3, drop_remainder=false): 4 elements of a spec that the first element "
      "tells\n"
      "  map 'plus'(num_parallel_calls=0, callback add_one): 10 elements of a spec that the "
      "first element tells\n"
      "    shuffle(buffer_size=4, seed=7, seed_given=true, reshuffle_each_iteration=true): 10 "
      "elements of int64[]\n"
      "      range(start=0, stop=10, step=1, dtype=int64): 10 elements of int64[]\n");
}

TEST_F(Definition, ExplainTellsTheNamesOfDTypes) {
  const Ref<Dataset> dataset = Ok(Dataset::Range(datasets_, 0, 3, 1, DType::kFloat16));
  const std::string line = "range(start=0, stop=3, step=1, dtype=float16): 3 elements of float16[]";
  EXPECT_EQ(dataset->Explain(), line + "\n");
  EXPECT_EQ(Again(dataset)->Explain(), line + "\n");
  for (const char* format : {"text", "json", "svg"}) {
    EXPECT_THAT(dataset->ExplainRun().As(format).value(), HasSubstr(line)) << format;
  }
}

TEST_F(Definition, ComesBackFromItsBytes) {
  const Ref<Value> value =
      Value::Dict({{"x", Value::OfTensor(Tensor::Vector<float>({1, 2, 3}))},
                   {"y", Value::OfTensor(
                             Tensor::FromStrings(
                                 Shape({3}), std::vector<BytesView>{{"a", 1}, {"\xff", 1}, {"", 0}})
                                 .value())}})
          .value();
  DatasetOptions options;
  ASSERT_TRUE(options.SetBool("deterministic", false).ok());
  ASSERT_TRUE(options.SetInt("autotune.ram_budget", 5'000'000).ok());
  ASSERT_TRUE(
      functions_
          ->Register(
              "same", MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
                return in.WithLeaves(std::vector<Leaf>(in.leaves().begin(), in.leaves().end()));
              }))
          .ok());
  const Ref<Dataset> slices = Ok(Dataset::FromTensorSlices(datasets_, value, "mine"));
  const Ref<Value> parts =
      Value::Tuple({Value::OfLeaf(Leaf(LeafKind::kDataset, slices)),
                    Value::OfLeaf(Leaf(LeafKind::kDataset, Ok(slices->Enumerate(4))))});
  Ref<Dataset> dataset = Ok(Dataset::Zip(datasets_, *parts));
  dataset = Ok(dataset->Shuffle(2, Seed(7, false)));
  dataset = Ok(dataset->Map(functions_->Find("same").value()));
  dataset = Ok(Ok(Ok(dataset->Repeat(3))->Skip(1))->Take(7));
  dataset = Ok(Ok(Ok(dataset->Shard(2, 1))->Batch(2, true))->Prefetch(1));
  dataset = Ok(Ok(dataset->Concatenate(*dataset))->WithOptions(options));
  const Ref<Dataset> again = Again(dataset);
  EXPECT_EQ(again->Explain(), dataset->Explain());
  EXPECT_EQ(again->options(), dataset->options());
  EXPECT_EQ(All(again), All(dataset));
  EXPECT_EQ(Bytes(again), Bytes(dataset));
  EXPECT_EQ(Fingerprint(again), Fingerprint(dataset));
}

TEST_F(Definition, SaysOfItsAttributesThoseThatAreNotAsOtherwise) {
  EXPECT_EQ(Written(Range(3)), "start, stop");
  EXPECT_EQ(Written(Ok(Dataset::Range(datasets_, 0, 3, 2, DType::kInt32))),
            "start, stop, step, dtype");
  EXPECT_EQ(Written(Ok(Range(3)->Batch(2))), "batch_size");
  EXPECT_EQ(Written(Ok(Range(3)->Batch(2, true))), "batch_size, drop_remainder");
  EXPECT_EQ(Written(Ok(Range(3)->Prefetch(kAutotune))), "");
  EXPECT_EQ(Written(Ok(Range(3)->Prefetch(3))), "buffer_size");
  EXPECT_EQ(Written(Ok(Range(3)->Repeat())), "");
  EXPECT_EQ(Written(Ok(Range(3)->Enumerate(0))), "");
  EXPECT_EQ(Written(Ok(Range(3)->Cache())), "");
  EXPECT_EQ(Written(Ok(Range(3)->Shuffle(2, Seed(7)))), "buffer_size, seed");
  EXPECT_EQ(Written(Ok(Range(3)->Shuffle(2, Seed(7, false)))),
            "buffer_size, seed, reshuffle_each_iteration");
  EXPECT_EQ(Written(Ok(Range(3)->Shuffle(2))), "buffer_size, seed, seed_given");
  ASSERT_TRUE(functions_->Register("add", AddOne()).ok());
  const Ref<Function> add = functions_->Find("add").value();
  EXPECT_EQ(Written(Ok(Range(3)->Map(add))), "");
  MapOptions options = Parallel(2);
  options.deterministic = true;
  EXPECT_EQ(Written(Ok(Range(3)->Map(add, options))), "num_parallel_calls, deterministic");
}

TEST_F(Definition, OneOfBeforeThatSaysAllAttributesComesBack) {
  const Ref<Dataset> dataset =
      Ok(Ok(Ok(Range(9)->Shuffle(3, Seed(1)))->Batch(2))->Prefetch(kAutotune));
  v1::DatasetDef def = DefinitionOf(Bytes(dataset));
  EXPECT_EQ(def.version(), 2);
  def.set_version(1);
  const auto add = [](v1::NodeDef* node, const char* name) {
    v1::AttributeDef* attribute = node->add_attributes();
    attribute->set_name(name);
    return attribute;
  };
  add(def.mutable_nodes(0), "step")->set_number(1);
  add(def.mutable_nodes(0), "dtype")->set_number(static_cast<int64_t>(DType::kInt64));
  add(def.mutable_nodes(1), "seed_given")->set_flag(true);
  add(def.mutable_nodes(1), "reshuffle_each_iteration")->set_flag(true);
  add(def.mutable_nodes(2), "drop_remainder")->set_flag(false);
  add(def.mutable_nodes(3), "buffer_size")->set_number(kAutotune);
  const Ref<Dataset> again = Ok(Dataset::Deserialize(datasets_, BytesOf(def)));
  EXPECT_EQ(again->Explain(), dataset->Explain());
  EXPECT_EQ(Bytes(again), Bytes(dataset));
  EXPECT_EQ(Fingerprint(again), Fingerprint(dataset));
  EXPECT_EQ(All(again), All(dataset));
}

TEST_F(Definition, WhatANewerReleaseWroteIsRefusedByName) {
  const v1::DatasetDef good = DefinitionOf(Bytes(Ok(Range(9)->Batch(2, false, "mine"))));
  const auto refused = [this](const std::string& bytes, StatusCode code) {
    const Status status = Dataset::Deserialize(datasets_, bytes).status();
    EXPECT_EQ(status.code(), code);
    return std::string(status.message());
  };
  v1::DatasetDef def = good;
  def.mutable_nodes(1)->set_op("batches_of_bytes");
  EXPECT_EQ(refused(BytesOf(def), StatusCode::kNotFound),
            "deserialize: the operation \"batches_of_bytes\" \"mine\" is not known here; a newer "
            "release may have written this definition: read it with that one");
  def = good;
  v1::AttributeDef* attribute = def.mutable_nodes(1)->add_attributes();
  attribute->set_name("align");
  attribute->set_number(3);
  EXPECT_EQ(refused(BytesOf(def), StatusCode::kInvalidArgument),
            "deserialize: the operation \"batch\" \"mine\" has the attribute \"align\", which is "
            "not known here; a newer release may have written this definition: read it with that "
            "one");
  def = good;
  def.mutable_nodes(1)->mutable_attributes(0)->clear_content();
  EXPECT_THAT(refused(BytesOf(def), StatusCode::kInvalidArgument),
              HasSubstr("the attribute \"batch_size\" of the operation \"batch\" \"mine\" has no "
                        "value of a kind that is known here; a newer release"));
  def = good;
  v1::OptionDef* option = def.add_options();
  option->set_key("experimental_hurry");
  option->set_value(1);
  EXPECT_THAT(refused(BytesOf(def), StatusCode::kInvalidArgument),
              AllOf(HasSubstr("deserialize: the option \"experimental_hurry\" is not known here"),
                    HasSubstr("a newer release may have")));
  for (int version : {0, 3}) {
    def = good;
    def.set_version(version);
    EXPECT_EQ(refused(BytesOf(def), StatusCode::kInvalidArgument),
              Format("deserialize: this definition has version {}, and 1 to 2 are known here; read "
                     "it with the release that wrote it",
                     version));
  }
  EXPECT_EQ(refused(SealEnvelope("TUTTI-D2", good.SerializeAsString()),
                    StatusCode::kInvalidArgument),
            "deserialize: this definition has the format TUTTI-D2, and TUTTI-D1 is known here; "
            "read it with the release that wrote it");
}

TEST_F(Definition, FunctionWithoutANameIsNamedByTheRefusal) {
  const Status refused = Ok(Range(3)->Map(AddOne(), Named("plus")))->Serialize().status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("serialize: map 'plus'"));
  const Ref<Dataset> generated =
      Ok(Dataset::FromGenerator(datasets_, AddOne(), AddOne(), Int64Scalar()));
  EXPECT_THAT(std::string(generated->Serialize().status().message()),
              HasSubstr("from_generator lives in this process only"));
  const Ref<Dataset> object = Ok(Dataset::FromTensors(
      datasets_,
      Value::OfLeaf(Leaf(LeafKind::kDataset, Ok(Range(3)->Map(AddOne(), Named("plus")))))));
  const Status within = object->Serialize().status();
  EXPECT_EQ(within.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(within.message()),
              AllOf(HasSubstr("serialize: from_tensors: "), HasSubstr("map 'plus'")));
}

// The elements of the dataset that each element is.
std::vector<std::string> Inside(const Ref<Dataset>& outer) {
  const Result<Ref<Iterator>> iterator = Iterator::Create(outer, {}, CallOptions());
  std::vector<std::string> all;
  while (true) {
    const Result<Ref<Value>> element = (*iterator)->Next(CallOptions());
    if (!element.ok() || !*element) break;
    const Leaf& leaf = (*element)->leaf();
    if (leaf.kind() != LeafKind::kDataset) {
      all.push_back((*element)->ToString());
      continue;
    }
    all.push_back("<");
    for (std::string& text : Inside(Ref<Dataset>::Retain(
             const_cast<Dataset*>(leaf.object_as<const Dataset>())))) {
      all.push_back(std::move(text));
    }
    all.push_back(">");
  }
  return all;
}

TEST_F(Definition, DatasetsInValuesComeBackWithIt) {
  // A window of windows.
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(8)->Window(2))->Window(3)));
  const Ref<Value> element = iterator->Next(CallOptions()).value();
  const Ref<Dataset> window =
      Ref<Dataset>::Retain(const_cast<Dataset*>(element->leaf().object_as<const Dataset>()));
  const std::vector<std::string> texts = Inside(window);
  EXPECT_THAT(texts, ElementsAre("<", "0", "1", ">", "<", "2", "3", ">", "<", "4", "5", ">"));
  EXPECT_EQ(Inside(Again(window)), texts);
  EXPECT_EQ(Fingerprint(Again(window)), Fingerprint(window));
  // Of any operations, with their options.
  DatasetOptions options;
  ASSERT_TRUE(options.SetBool("deterministic", false).ok());
  const Ref<Dataset> inner = Ok(Ok(Ok(Range(9)->Shuffle(4, Seed(7, false)))->Batch(2))
                                    ->WithOptions(options));
  const Ref<Dataset> outer =
      Ok(Dataset::FromTensors(datasets_, Value::OfLeaf(Leaf(LeafKind::kDataset, inner))));
  const Ref<Dataset> again = Again(outer);
  EXPECT_EQ(Inside(again), Inside(outer));
  const Ref<Value> found = Iterate(again)->Next(CallOptions()).value();
  EXPECT_EQ(found->leaf().object_as<const Dataset>()->options(), options);
}

TEST_F(Definition, DatasetsInValuesAreAsDeepAsTheyAreRead) {
  Ref<Dataset> dataset = Range(2);
  for (int levels = 0; levels < 40; ++levels) {
    SCOPED_TRACE(levels);
    const Result<std::string> bytes = dataset->Serialize();
    EXPECT_EQ(bytes.ok(), levels <= 32);
    if (bytes.ok()) {
      EXPECT_EQ(Bytes(Ok(Dataset::Deserialize(datasets_, *bytes))), *bytes);
    } else {
      EXPECT_THAT(std::string(bytes.status().message()), HasSubstr("levels deep"));
    }
    dataset = Ok(Dataset::FromTensors(datasets_, Value::OfLeaf(Leaf(LeafKind::kDataset, dataset))));
  }
}

TEST_F(Definition, StructuresAreWrittenAsDeepAsTheyAreRead) {
  Ref<Value> tuples = Number(1);
  Ref<Value> optionals = Number(1);
  Ref<Value> both = Number(1);
  for (int levels = 0; levels < 70; ++levels) {
    SCOPED_TRACE(levels);
    for (const Ref<Value>& value : {tuples, optionals, both}) {
      const Ref<Dataset> dataset = Ok(Dataset::FromTensors(datasets_, value));
      EXPECT_EQ(Fingerprint(dataset).size(), 32u);
      const Result<std::string> bytes = dataset->Serialize();
      // An optional in a tuple is as deep as the tuple's other parts.
      const int counted = value == both && levels > 0 ? levels / 2 + 1 : levels;
      EXPECT_EQ(bytes.ok(), counted <= 32);
      if (bytes.ok()) {
        EXPECT_EQ(All(Ok(Dataset::Deserialize(datasets_, *bytes))), All(dataset));
        continue;
      }
      EXPECT_EQ(bytes.status().code(), StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(bytes.status().message()),
                  AllOf(HasSubstr("serialize: from_tensors"),
                        HasSubstr(Format("nested {} levels deep", counted)),
                        HasSubstr("at most 32; flatten it")));
      EXPECT_TRUE(Iterate(dataset)->Save(CallOptions()).ok());
    }
    tuples = Value::Tuple({std::move(tuples)});
    optionals = Value::OfLeaf(Leaf::OfOptional(std::move(optionals)));
    both = levels % 2 == 0 ? Value::Tuple({std::move(both)})
                           : Value::OfLeaf(Leaf::OfOptional(std::move(both)));
  }
}

TEST_F(Definition, AnEmptyOptionalKeepsItsSpecInTheBytes) {
  const auto of = [this](const Leaf& leaf) {
    return Ok(Dataset::FromTensors(datasets_, Value::OfLeaf(leaf)));
  };
  const Ref<const ElementSpec> spec =
      ElementSpec::Dataset(ElementSpec::OfTensor(DType::kInt64, PartialShape({-1, 3})),
                           PartialShape::Unknown());
  const Ref<Dataset> dataset = of(Leaf::OfEmptyOptional(spec));
  EXPECT_EQ(Again(dataset)->known_element_spec()->ToString(),
            "optional(dataset<unknown>(int64[?,3]))");
  EXPECT_TRUE(*Again(dataset)->known_element_spec() == *ElementSpec::Optional(spec));
  const Ref<Dataset> plain = of(Leaf::OfEmptyOptional(ElementSpec::Dataset(nullptr)));
  EXPECT_TRUE(*Again(plain)->known_element_spec() ==
              *ElementSpec::Optional(ElementSpec::Dataset(nullptr)));
  EXPECT_NE(Fingerprint(dataset), Fingerprint(plain));
  EXPECT_EQ(Again(of(Leaf::OfOptional(nullptr)))->known_element_spec()->ToString(), "optional");
}

TEST_F(Definition, ComesBackFromAVariantOfTheSameElements) {
  const auto of = [](const Ref<Dataset>& dataset) {
    return Value::OfLeaf(Leaf(LeafKind::kDataset, dataset));
  };
  const Ref<Dataset> batches = Ok(Range(5)->Batch(2));
  const auto ints = [](PartialShape shape) {
    return ElementSpec::OfTensor(DType::kInt64, std::move(shape));
  };
  const CallOptions call;
  EXPECT_EQ(Ok(Dataset::FromVariant(*of(batches), *ints({-1}), call)).get(), batches.get());
  EXPECT_EQ(Ok(Dataset::FromVariant(*of(batches), *ints({2}), call)).get(), batches.get());
  const Status misfit = Dataset::FromVariant(*of(batches), *ints({2, 2}), call).status();
  EXPECT_EQ(misfit.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(misfit.message(),
            "from_variant: expected a dataset of int64[2,2], found one of int64[?]; give the "
            "structure that the dataset has (its element_spec)");
  const Status none = Dataset::FromVariant(*Number(1), *ints({-1}), call).status();
  EXPECT_EQ(none.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.message()), HasSubstr("expected a dataset as a value, found int64"));
  EXPECT_EQ(Dataset::FromVariant(*Value::Tuple({of(batches)}), *ints({-1}), call).status().code(),
            StatusCode::kInvalidArgument);
  // What its elements are is learnt from one of them.
  const Ref<Dataset> mapped = Ok(Range(3)->Map(MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return in.WithLeaves(std::vector<Leaf>(in.leaves().begin(), in.leaves().end()));
      })));
  EXPECT_EQ(mapped->known_element_spec(), nullptr);
  EXPECT_EQ(Dataset::FromVariant(*of(mapped), *ints({7}), call).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(All(Ok(Dataset::FromVariant(*of(mapped), *ints({}), call))), All(Range(3)));
}

TEST_F(Definition, RefusesBytesThatAreNone) {
  const auto code = [this](std::string_view bytes) {
    return Dataset::Deserialize(datasets_, bytes).status().code();
  };
  EXPECT_EQ(code(""), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("\xff\xff\xff"), StatusCode::kInvalidArgument);
  const std::string good = Bytes(Ok(Ok(Range(9)->Shuffle(3, Seed(1)))->Batch(2)));
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_NE(code(good.substr(0, i)), StatusCode::kOk) << i;
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x15);
    EXPECT_EQ(code(bad), StatusCode::kInvalidArgument) << i;
  }
}

TEST_F(Definition, SurvivesEveryContentThatBytesCouldHave) {
  const std::string good = Bytes(Ok(Ok(Range(9)->Shuffle(3, Seed(1)))->Batch(2)));
  std::string_view content;
  ASSERT_EQ(OpenEnvelope("TUTTI-D1", good, &content), nullptr);
  for (size_t i = 0; i < content.size(); ++i) {
    for (int flip : {0x01, 0x15, 0x80, 0xff}) {
      std::string bad(content);
      bad[i] = static_cast<char>(bad[i] ^ flip);
      // Refused or taken, and what is taken can be asked and iterated.
      const Result<Ref<Dataset>> taken =
          Dataset::Deserialize(datasets_, SealEnvelope("TUTTI-D1", bad));
      if (taken.ok()) {
        (void)(*taken)->Explain();
        Take(*Iterate(*taken), 3);
      }
    }
  }
}

TEST_F(Definition, FingerprintsTellSequencesApart) {
  const Ref<Dataset> dataset = Ok(Range(9)->Shuffle(3, {}));
  EXPECT_EQ(Fingerprint(dataset), Fingerprint(Ok(Range(9)->Shuffle(3, {}))));
  EXPECT_NE(Fingerprint(dataset), Fingerprint(Ok(Range(9)->Shuffle(4, {}))));
  EXPECT_NE(Fingerprint(Ok(Range(9)->Shuffle(3, Seed(1)))),
            Fingerprint(Ok(Range(9)->Shuffle(3, Seed(2)))));
  EXPECT_EQ(Fingerprint(Range(3)),
            Fingerprint(Ok(Dataset::Range(datasets_, 0, 3, 1, DType::kInt64, "name"))));
  // How soon elements come is no part of it; what is promised of their order is.
  EXPECT_EQ(Fingerprint(Ok(Range(9)->Prefetch(2))), Fingerprint(Ok(Range(9)->Prefetch(8))));
  const auto mapped = [this](int64_t calls, std::optional<bool> deterministic) {
    MapOptions options = Parallel(calls);
    options.deterministic = deterministic;
    return Fingerprint(Ok(Range(9)->Map(AddOne(), options)));
  };
  EXPECT_EQ(mapped(4, {}), mapped(1, {}));
  EXPECT_NE(mapped(4, {}), mapped(4, false));
  EXPECT_NE(mapped(4, true), mapped(4, false));
  const auto tensors = [this](int64_t last) {
    return Fingerprint(
        Ok(Dataset::FromTensors(datasets_, Value::OfTensor(Tensor::Vector<int64_t>({1, last})))));
  };
  EXPECT_EQ(tensors(2), tensors(2));
  EXPECT_NE(tensors(2), tensors(3));
}

TEST_F(Definition, UnknownOpsAreNamedWithTheNearest) {
  const Status status = Dataset::Make(datasets_, "batc", "", {}, {Range(3)}).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "there is no dataset op 'batc'; did you mean 'batch'?");
  EXPECT_EQ(Dataset::Make(datasets_, "batch", "", {}, {}).status().message(),
            "batch: expected 1 inputs, got 0");
  EXPECT_EQ(Dataset::Make(datasets_, "batch", "", {}, {Range(3)}).status().message(),
            "batch: the attribute 'batch_size' must be an integer, and is missing");
  Attributes misspelt;
  misspelt.Set("batch_size", int64_t{3}).Set("drop_reminder", true);
  EXPECT_EQ(Dataset::Make(datasets_, "batch", "", misspelt, {Range(3)}).status().message(),
            "batch: there is no attribute 'drop_reminder', did you mean 'drop_remainder'?; there "
            "are batch_size, drop_remainder");
  Attributes of_another_type;
  of_another_type.Set("batch_size", int64_t{3}).Set("drop_remainder", int64_t{1});
  EXPECT_EQ(Dataset::Make(datasets_, "batch", "", of_another_type, {Range(3)}).status().message(),
            "batch: the attribute 'drop_remainder' must be a boolean, and is of another type");
  static constinit const OpTraits again = {.name = "batch"};
  EXPECT_EQ(datasets_->ops().Add(again).code(), StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace tutti
