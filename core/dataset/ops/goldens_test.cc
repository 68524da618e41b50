// What an earlier build wrote: of each operation a definition, its fingerprint and a saved position
// lie in the folder goldens, as text. They are compared with what is written now, and gone on from.
//
// A difference is a change that users meet: their definitions or positions are no longer read, or
// read otherwise. core/dataset/README.md says what to do; then
//     TUTTI_UPDATE_GOLDENS=1 tutti_dataset_test --gtest_filter='Goldens.*'
// writes the files anew.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/dataset/example/parse_example.h"
#include "core/dataset/expression/expression_function.h"
#include "core/dataset/graph/graph_fingerprint.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/ops/snapshot_files.h"
#include "core/dataset/records/fixed_length_record.h"
#include "core/dataset/records/list_files.h"
#include "core/dataset/records/sql.h"
#include "core/dataset/records/text_line.h"
#include "core/dataset/records/tf_record.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/record_file_testing.h"
#include "core/dataset/testing/sqlite_testing.h"
#include "core/dataset/testing/traced_datasets_testing.h"

namespace tutti {
namespace {

// ---- The files: titles, and below each its lines, which two spaces stand before. ----

using Lines = std::vector<std::string>;
using Golden = std::map<std::string, Lines>;

constexpr const char* kDefinition = "definition";
constexpr const char* kFingerprint = "fingerprint";
constexpr const char* kState = "state";
constexpr const char* kRest = "elements behind it";

// Beside this file.
std::filesystem::path Folder() {
  return std::filesystem::path(__FILE__).parent_path() / "goldens";
}

std::filesystem::path PathOf(std::string_view name) {
  return Folder() / Format("{}.txt", name);
}

Golden ReadGolden(std::string_view name) {
  Golden golden;
  std::ifstream file(PathOf(name));
  std::string title;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("  ")) {
      golden[title].push_back(line.substr(2));
    } else {
      title = line;
      golden[title];
    }
  }
  return golden;
}

void WriteGolden(std::string_view name, const Golden& golden) {
  std::ofstream file(PathOf(name));
  for (const auto& [title, lines] : golden) {
    file << title << "\n";
    for (const std::string& line : lines) file << "  " << line << "\n";
  }
  EXPECT_TRUE(file.flush().good()) << PathOf(name);
}

constexpr size_t kBytesPerLine = 48;

Lines Hex(std::string_view bytes) {
  Lines lines;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i % kBytesPerLine == 0) lines.emplace_back();
    lines.back() += Format("{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  return lines;
}

std::string BytesOf(const Lines& hex) {
  std::string bytes;
  for (const std::string& line : hex) {
    for (size_t i = 0; i + 1 < line.size(); i += 2) {
      bytes.push_back(static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16)));
    }
  }
  return bytes;
}

// ---- The pipelines. ----

class GoldenPipelines : public DatasetTest {
 protected:
  // Paths are relative, so that definitions and states are the same everywhere.
  GoldenPipelines() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
    for (const char* part : {"a", "b"}) {
      const std::string name(part);
      folder_.Write(name + ".records", TfRecordFrames({name + "0", name + "1", name + "2"}));
      folder_.Write(name + ".gz", Deflated(TfRecordFrames({name + "0", name + "1"}), true));
      folder_.Write(name + ".fixed", "HH" + name + "00" + name + "11" + name + "22F");
      folder_.Write(name + ".txt", name + "0\r\n" + name + "1\n\n" + name + "2");
    }
    const TestDatabase people("people.db", {"create table people (id integer, name text)",
                                            "insert into people values (1, 'ada'), (2, 'bo'), "
                                            "(3, null), (4, 'cy')"});
    const auto add = [this](std::string name, Ref<Function> function) {
      EXPECT_TRUE(functions_->Register(std::move(name), std::move(function)).ok());
    };
    add("add_one", AddOne());
    add("add_one_later_known", AddOne(nullptr));
    add("shuffled_from",
        MakeFunction(
            [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
              const int64_t first = 10 * NumberIn(in);
              TUTTI_ASSIGN_OR_RETURN(
                  Ref<Dataset> made,
                  Dataset::Range(*static_cast<const Ref<DatasetEnvironment>*>(data), first,
                                 first + 3, 1));
              TUTTI_ASSIGN_OR_RETURN(made, made->Shuffle(3));
              return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(made)));
            },
            {.data = const_cast<Ref<DatasetEnvironment>*>(&datasets_),
             .spec = ElementSpec::Dataset(Int64Scalar())}));
    add("itself", MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          return Value::OfLeaf(in.leaf(0));
        }));
    add("mod_three", MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          return Number(NumberIn(in) % 3);
        }));
    add("one_more", AddOne());
    add("batches_of_two", MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made, in.leaf(1).object_as<Dataset>()->Batch(2));
          return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(made)));
        }));
    add("remainder", MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          return Number(NumberIn(in) % 2);
        }));
    add("flat", MakeFunction(
                    [](Context&, const Value& in, void* self) -> Result<Ref<Value>> {
                      TUTTI_ASSIGN_OR_RETURN(
                          Ref<Dataset> made,
                          in.leaf(0).object_as<const Dataset>()->FlatMap(
                              static_cast<GoldenPipelines*>(self)->Registered("itself")));
                      return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(made)));
                    },
                    {.data = this}));
    add("is_small", MakeFunction(
                        [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
                          return Value::OfTensor(Tensor::Scalar(NumberIn(in) % 10 < 6));
                        },
                        {.spec = ElementSpec::OfTensor(DType::kBool, PartialShape::Scalar())}));
  }
  ~GoldenPipelines() override { std::filesystem::current_path(before_); }

  Ref<Function> Registered(std::string_view name) { return functions_->Find(name).value(); }

  static Ref<Value> Texts(const std::vector<std::string>& texts, Shape shape) {
    std::vector<BytesView> views;
    for (const std::string& text : texts) views.push_back({text.data(), text.size()});
    return Value::OfTensor(Tensor::FromStrings(shape, views).value());
  }
  Ref<Dataset> Slices() {
    const Ref<Value> value =
        Value::Dict({{"number", Value::OfTensor(Tensor::Vector<float>({1, 2.5, -3}))},
                     {"text", Texts({"one", "", "three"}, Shape({3}))}})
            .value();
    return Ok(Dataset::FromTensorSlices(datasets_, value));
  }
  Ref<Dataset> Zipped(const Ref<Dataset>& left, const Ref<Dataset>& right) {
    const Ref<Value> both = Value::Tuple({Value::OfLeaf(Leaf(LeafKind::kDataset, left)),
                                          Value::OfLeaf(Leaf(LeafKind::kDataset, right))});
    return Ok(Dataset::Zip(datasets_, *both));
  }
  Ref<Dataset> Records(const char* pattern, RecordCompression compression) {
    const Ref<Dataset> files =
        Ok(MakeListFilesDataset(datasets_, {pattern}, {.name = {}, .shuffle = false, .seed = {}}));
    return Ok(MakeTfRecordDataset(*files, {.name = {}, .compression = compression}));
  }
  Ref<Dataset> Generated() {
    const Ref<Function> start = MakeFunction(
        [](Context&, const Value&, void* count) -> Result<Ref<Value>> {
          *static_cast<int64_t*>(count) = 0;
          return Value::None();
        },
        {.data = &generated_, .name = "start"});
    const Ref<Function> next = MakeFunction(
        [](Context&, const Value&, void* count) -> Result<Ref<Value>> {
          int64_t& made = *static_cast<int64_t*>(count);
          return made == 6 ? Value::None() : Number(++made);
        },
        {.data = &generated_, .name = "next"});
    return Ok(Dataset::FromGenerator(datasets_, start, next, Int64Scalar()));
  }
  // Of x: (2 x + [1, 2], whether x > 3).
  static Ref<Function> TwicePlus() {
    const Ref<Expression> trace =
        Expression::Create(ElementSpec::OfTensor(DType::kInt64, Shape())).value();
    const auto number = [&](int64_t value) {
      return trace->Constant(Tensor::Scalar(value), true).value();
    };
    const int64_t x = trace->Parameter(0).value();
    const int64_t twice = trace->Apply("multiply", {{x, number(2)}}, {}).value();
    const int64_t table = trace->Constant(Tensor::Vector<int64_t>({1, 2}), false).value();
    const int64_t sums = trace->Apply("add", {{twice, table}}, {}).value();
    const int64_t large = trace->Apply("greater", {{x, number(3)}}, {}).value();
    const Ref<const TreeSpec> leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
    return MakeExpressionFunction(*trace, TreeSpec::Tuple({leaf, leaf}), {{sums, large}}).value();
  }
  // Of x: draws of the seed (x, 7), its text cut and split, and a complex number's size.
  static Ref<Function> MoreNodes() {
    const Ref<Expression> trace =
        Expression::Create(ElementSpec::OfTensor(DType::kInt64, Shape())).value();
    const auto number = [&](int64_t value) {
      return trace->Constant(Tensor::Scalar(value), true).value();
    };
    const auto apply = [&](std::string_view name, std::vector<int64_t> inputs,
                           std::vector<int64_t> numbers = {}, DType dtype = DType::kInvalid,
                           std::string text = "") {
      ExpressionAttributes attributes;
      attributes.numbers = std::move(numbers);
      attributes.dtype = dtype;
      attributes.text = std::move(text);
      return trace->Apply(name, inputs, std::move(attributes)).value();
    };
    const int64_t x = trace->Parameter(0).value();
    const int64_t seed = apply("stack", {x, number(7)});
    const int64_t drawn = apply("stateless_random_integers", {seed, number(0), number(9)}, {2});
    const int64_t uniform = apply("stateless_random_uniform", {seed}, {2}, DType::kFloat64);
    const int64_t words =
        trace->Constant(Texts({"Ab,c d"}, Shape({1}))->leaf(0).tensor_ref(), false).value();
    const int64_t parts = apply("string_split", {words}, {-1, 2}, DType::kInvalid, ",");
    const int64_t text = apply("reduce_join", {apply("string_upper", {parts})}, {}, DType::kInvalid,
                               "+");
    const int64_t cut = apply("substr", {text, apply("negative", {x}), number(2)});
    const int64_t real = apply("cast", {x}, {}, DType::kFloat64);
    const int64_t size = apply("absolute", {apply("complex", {real, real})});
    const Ref<const TreeSpec> leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
    return MakeExpressionFunction(*trace, TreeSpec::Tuple({leaf, leaf, leaf, leaf}),
                                  {{drawn, uniform, cut, size}})
        .value();
  }
  // Of no examples: sparse, ragged and padded features.
  Ref<Dataset> ParsedOfAnyLength() {
    const Ref<Function> parse =
        MakeParseExample({{"p", DType::kInt64, Shape({2}), Tensor::Scalar<int64_t>(-1),
                           FeatureKind::kSequence},
                          {"r", DType::kFloat32, Shape(), nullptr, FeatureKind::kRagged},
                          {"v", DType::kBytes, Shape(), nullptr, FeatureKind::kVarLen}})
            .value();
    const Ref<Dataset> examples =
        Ok(Dataset::FromTensorSlices(datasets_, Texts({"", "", "", ""}, Shape({4}))));
    return Ok(Ok(examples->Batch(2))->Map(parse));
  }
  Ref<Dataset> Parsed(const std::vector<std::string>& examples = {"", ""}) {
    const Ref<Tensor> none = Tensor::Vector<int64_t>({4, 5});
    const Ref<Function> parse = MakeParseExample({{"x", DType::kInt64, Shape({2}), none}}).value();
    const Shape shape({static_cast<int64_t>(examples.size())});
    return Ok(Ok(Dataset::FromTensorSlices(datasets_, Texts(examples, shape)))->Map(parse));
  }
  Ref<Dataset> ShardedNames() {
    const Ref<Value> names = Texts({"a", "b", "c", "d", "e", "f"}, Shape({2, 3}));
    Attributes attributes;
    attributes.Set("num_shards", int64_t{2}).Set("index", int64_t{0});
    return Ok(Dataset::Make(datasets_, "shard_names", "", std::move(attributes),
                            {Ok(Dataset::FromTensorSlices(datasets_, names))}));
  }
  Ref<Value> TwoRanges() {
    return Value::Tuple({Value::OfLeaf(Leaf(LeafKind::kDataset, Range(4))),
                         Value::OfLeaf(Leaf(LeafKind::kDataset, Range(7, 10)))});
  }
  // It is there from now on.
  static Ref<Dataset> Written(const Ref<Dataset>& snapshot) {
    All(snapshot);
    return snapshot;
  }
  // More parts than have stages at once.
  Ref<Dataset> ManyParts() {
    Ref<Dataset> dataset = Range(1);
    for (int i = 0; i < 9; ++i) dataset = Ok(dataset->Concatenate(*dataset));
    return Ok(dataset->Take(5));
  }

  // Five numbers, which two files of texts come before.
  Ref<Dataset> AfterWrites() {
    Attributes attributes;
    attributes.Set("paths", std::vector<std::string>{"w.first", "w.second"})
        .Set("compressions", std::vector<int64_t>{1, 2})
        .Set("levels", std::vector<int64_t>{6, 9})
        .Set("counts", std::vector<int64_t>{1, 2});
    const std::string paths[] = {"a.txt", "b.txt"};
    const Ref<Dataset> texts = Ok(MakeTextLineDataset(datasets_, paths, {}));
    return Ok(Dataset::Make(datasets_, "after_writes", "", std::move(attributes),
                            {Range(5), texts, Ok(texts->Take(1)), texts}));
  }

  struct Case {
    Ref<Dataset> dataset;
    int64_t position;  // elements before the state is saved
    // It also says what threads were at: each is good, and all are read.
    bool state_varies = false;
  };
  // By the name of the op that the case is there for; what comes behind a dot tells its cases
  // apart.
  std::map<std::string, std::function<Case()>> Cases() {
    return {
        {"after_writes", [this] { return Case{AfterWrites(), 2}; }},
        {"after_writes.fresh", [this] { return Case{AfterWrites(), 0}; }},
        {"assert_cardinality", [this] { return Case{Ok(Range(4)->AssertCardinality(3)), 2}; }},
        {"batch", [this] { return Case{Ok(Range(10)->Batch(3)), 2}; }},
        {"batch.dropping", [this] { return Case{Ok(Range(10)->Batch(3, true)), 1}; }},
        {"bucket_by_sequence_length",
         [this] {
           const Ref<Value> boundaries = Value::OfTensor(Tensor::Vector<int64_t>({1, 2}));
           const Ref<Value> sizes = Value::OfTensor(Tensor::Vector<int64_t>({2, 3, 2}));
           return Case{Ok(Range(10)->BucketBySequenceLength(Registered("mod_three"), boundaries,
                                                            sizes)),
                       2};
         }},
        {"cache", [this] { return Case{Ok(Range(6)->Cache()), 3}; }},
        {"cache.second_pass",
         [this] { return Case{Ok(Ok(Ok(Range(4)->Shuffle(4, Seed(1)))->Cache())->Repeat(2)), 6}; }},
        {"choose_from_datasets",
         [this] {
           const Ref<Value> numbers = Value::OfTensor(Tensor::Vector<int64_t>({1, 0, 0, 1, 1}));
           const Ref<Dataset> choices = Ok(Dataset::FromTensorSlices(datasets_, numbers));
           return Case{Ok(Dataset::ChooseFromDatasets(datasets_, *TwoRanges(), *choices, false)),
                       3};
         }},
        {"concatenate", [this] { return Case{Ok(Range(4)->Concatenate(*Range(7, 10))), 5}; }},
        {"concatenate.many_parts", [this] { return Case{ManyParts(), 3}; }},
        {"dense_to_sparse_batch",
         [this] {
           return Case{Ok(Ok(Range(10)->Batch(3))->DenseToSparseBatch(
                           3, Value::OfTensor(Tensor::Vector<int64_t>({4})))),
                       1};
         }},
        {"enumerate", [this] { return Case{Ok(Range(5)->Enumerate(7)), 2}; }},
        {"filter", [this] { return Case{Ok(Range(20)->Filter(Registered("is_small"))), 4}; }},
        {"fixed_length_record",
         [this] {
           const std::string paths[] = {"a.fixed", "b.fixed"};
           const FixedLengthRecordFormat format = {
               .record_bytes = 3, .header_bytes = 2, .footer_bytes = 1};
           return Case{Ok(MakeFixedLengthRecordDataset(datasets_, paths, format, {})), 4};
         }},
        {"flat_map",
         [this] {
           environment_->SetDefaultSeed(5);
           return Case{Ok(Range(4)->FlatMap(Registered("shuffled_from"))), 4};
         }},
        {"flat_map.expression",
         [this] { return Case{Ok(Range(4)->FlatMap(TracedSums(datasets_))), 2}; }},
        {"flat_map.expression_in_expression",
         [this] { return Case{Ok(Range(4)->FlatMap(TracedTwice(datasets_))), 2}; }},
        {"flat_map.window_batches",
         [this] {
           const Ref<Dataset> windows = Ok(Range(9)->Window(4, 2));
           return Case{Ok(windows->FlatMap(TracedBatches(*windows, 3))), 3};
         }},
        {"from_elements",
         [this] {
           Attributes attributes;
           attributes.Set("value", Ref<const Value>(Value::List(
                                       {Value::OfTensor(Tensor::Vector<int64_t>({1, 2})),
                                        Number(3)})));
           return Case{Ok(Dataset::Make(datasets_, "from_elements", "", attributes, {})), 1};
         }},
        {"from_generator", [this] { return Case{Generated(), 2}; }},
        {"from_tensor_slices", [this] { return Case{Slices(), 1}; }},
        {"from_tensors",
         [this] {
           return Case{Ok(Dataset::FromTensors(
                           datasets_, Value::Tuple({Number(1), Texts({"x"}, Shape({}))}))),
                       0};
         }},
        {"interleave",
         [this] {
           environment_->SetDefaultSeed(6);
           return Case{Ok(Range(4)->Interleave(Registered("shuffled_from"), 2)), 4};
         }},
        {"latency_stats", [this] { return Case{Ok(Range(4)->LatencyStats("made")), 2}; }},
        {"list_files",
         [this] {
           return Case{Ok(MakeListFilesDataset(datasets_, {"*.records", "*.gz"},
                                               {.name = {}, .shuffle = false, .seed = {}})),
                       2};
         }},
        {"list_files.shuffled",
         [this] {
           return Case{Ok(MakeListFilesDataset(datasets_, {"*.records", "*.gz"},
                                               {.name = {}, .shuffle = true, .seed = 3})),
                       2};
         }},
        {"map", [this] { return Case{Ok(Range(6)->Map(Registered("add_one"))), 2}; }},
        {"interleave.expression",
         [this] { return Case{Ok(Range(4)->Interleave(TracedRepeats(datasets_), 2)), 3}; }},
        {"map.expression", [this] { return Case{Ok(Range(6)->Map(TwicePlus())), 2}; }},
        {"map.expression_of_more_nodes",
         [this] { return Case{Ok(Range(1, 6)->Map(MoreNodes())), 2}; }},
        {"map.first_element_made_to_learn_the_spec",
         [this] { return Case{Ok(Range(3)->Map(Registered("add_one_later_known"))), 0}; }},
        {"map.parallel",
         [this] { return Case{Ok(Range(6)->Map(Registered("add_one"), Parallel(3))), 2, true}; }},
        {"map.parse_example_of_any_length", [this] { return Case{ParsedOfAnyLength(), 1}; }},
        {"map.parse_example", [this] { return Case{Parsed(), 1}; }},
        {"on_error",
         [this] { return Case{Ok(Parsed({"", "none", "", ""})->OnError("skip", 2)), 2}; }},
        {"padded_batch", [this] { return Case{Ok(Ok(Range(10)->Batch(3))->PaddedBatch(3)), 1}; }},
        {"padded_batch.shapes_and_values",
         [this] {
           const Ref<Value> shapes =
               Value::Dict({{"number", Value::OfTensor(Tensor::Vector<int64_t>({}))},
                            {"text", Value::None()}})
                   .value();
           return Case{Ok(Slices()->PaddedBatch(
                           2, shapes, Value::OfTensor(Tensor::Scalar(0.5f)))),
                       1};
         }},
        {"prefetch", [this] { return Case{Ok(Range(9)->Prefetch(2)), 4}; }},
        {"progress", [this] { return Case{Ok(Range(4)->Progress("train")), 2}; }},
        {"range", [this] { return Case{Range(5), 2}; }},
        {"range.of_other_numbers",
         [this] { return Case{Ok(Dataset::Range(datasets_, 9, -9, -5, DType::kFloat32)), 1}; }},
        {"repeat", [this] { return Case{Ok(Range(3)->Repeat(3)), 4}; }},
        {"shard", [this] { return Case{Ok(Range(10)->Shard(3, 1)), 1}; }},
        {"shard_names", [this] { return Case{ShardedNames(), 1}; }},
        {"shuffle", [this] { return Case{Ok(Range(12)->Shuffle(5, Seed(7))), 4}; }},
        {"shuffle.second_epoch",
         [this] { return Case{Ok(Ok(Range(5)->Shuffle(3, Seed(7)))->Repeat(2)), 7}; }},
        {"skip", [this] { return Case{Ok(Range(6)->Skip(2)), 1}; }},
        {"sql",
         [this] {
           return Case{Ok(MakeSqlDataset(datasets_,
                                         {"sqlite", "people.db",
                                          "select id, name from people order by id",
                                          {DType::kInt64, DType::kBytes}})),
                       2};
         }},

        {"snapshot.writing", [this] { return Case{Ok(Range(6)->Snapshot("snap")), 3}; }},
        {"snapshot.reading", [this] { return Case{Written(Ok(Range(6)->Snapshot("snap"))), 3}; }},
        {"snapshot.reader_func",
         [this] {
           SnapshotOptions options;
           options.compression = "GZIP";
           options.shard_func = Registered("remainder");
           options.reader_func = Registered("flat");
           environment_->SetDefaultSeed(5);
           return Case{Written(Ok(Range(6)->Snapshot("snap", options))), 3};
         }},
        {"snapshot.shards",
         [this] {
           SnapshotOptions options;
           options.shard_func = Registered("remainder");
           return Case{Written(Ok(Range(6)->Snapshot("snap", options))), 3, true};
         }},
        {"snapshot_shard",
         [this] {
           Written(Ok(Range(6)->Snapshot("only")));
           const std::string key =
               std::filesystem::directory_iterator("only")->path().filename().string();
           const std::optional<SnapshotIndex> index =
               SnapshotFolder(environment_, "only", key).ReadIndex().value();
           const SnapshotShard& shard = index->shards.at(0);
           Attributes attributes;
           attributes.Set("value", Ref<const Value>(Value::Tuple(
                                       {Value::OfString(shard.path), Value::OfString(index->spec),
                                        Value::OfTensor(Tensor::Vector<int64_t>(
                                            {shard.number, shard.rows, shard.checksum}))})));
           return Case{Ok(Dataset::Make(datasets_, "snapshot_shard", "", attributes, {})), 4};
         }},
        {"take", [this] { return Case{Ok(Range(9)->Take(5)), 3}; }},
        {"take_while",
         [this] { return Case{Ok(Range(9)->TakeWhile(Registered("is_small"))), 3}; }},
        {"text_line",
         [this] {
           const std::string paths[] = {"a.txt", "b.txt"};
           return Case{Ok(MakeTextLineDataset(datasets_, paths, {})), 2};
         }},
        {"text_line.parallel",
         [this] {
           const std::string paths[] = {"a.txt", "b.txt", "a.txt"};
           TextLineOptions options;
           options.num_parallel_reads = 2;
           return Case{Ok(MakeTextLineDataset(datasets_, paths, options)), 2, true};
         }},
        {"sample_from_datasets",
         [this] {
           SampleOptions options;
           options.weights = Value::OfTensor(Tensor::Vector<double>({0.25, 0.75}));
           options.seed = 3;
           return Case{Ok(Dataset::SampleFromDatasets(datasets_, *TwoRanges(), options)), 4};
         }},
        {"sample_from_datasets.vectors",
         [this] {
           SampleOptions options;
           Ref<Tensor> rows =
               Tensor::FromSpan<double>(Shape({3, 2}),
                                        std::vector<double>{0.25, 0.75, 1, 0, 0.5, 0.5})
                   .value();
           const Ref<Dataset> vectors = Ok(
               Dataset::FromTensorSlices(datasets_, Value::OfTensor(std::move(rows))));
           options.weights = Value::OfLeaf(Leaf(LeafKind::kDataset, Ok(vectors->Repeat(-1))));
           options.seed = 3;
           return Case{Ok(Dataset::SampleFromDatasets(datasets_, *TwoRanges(), options)), 4};
         }},
        {"tf_record", [this] { return Case{Records("*.records", RecordCompression::kNone), 4}; }},
        {"tf_record.gzip", [this] { return Case{Records("*.gz", RecordCompression::kGzip), 1}; }},
        {"group_by_window",
         [this] {
           environment_->SetDefaultSeed(5);
           return Case{Ok(Range(14)->GroupByWindow(Registered("mod_three"),
                                                   Registered("batches_of_two"), 4)),
                       3};
         }},
        {"group_by_window.own_sizes",
         [this] {
           environment_->SetDefaultSeed(5);
           return Case{Ok(Range(14)->GroupByWindow(Registered("mod_three"),
                                                   Registered("batches_of_two"), {},
                                                   Registered("one_more"))),
                       4};
         }},
        {"unbatch", [this] { return Case{Ok(Ok(Range(9)->Batch(4))->Unbatch()), 5}; }},
        {"unique",
         [this] {
           const Ref<Value> values = Value::OfTensor(Tensor::Vector<int64_t>({3, 1, 3, 2, 1, 4}));
           return Case{Ok(Ok(Dataset::FromTensorSlices(datasets_, values))->Unique()), 2};
         }},
        {"window",
         [this] {
           environment_->SetDefaultSeed(5);
           return Case{Ok(Ok(Range(8)->Window(3, 2))->FlatMap(Registered("itself"))), 4};
         }},
        {"window.kept",
         [this] {
           environment_->SetDefaultSeed(5);
           return Case{Ok(Ok(Ok(Range(8)->Window(2))->Prefetch(2))->FlatMap(Registered("itself"))),
                       3};
         }},
        {"zip",
         [this] {
           return Case{Zipped(Range(5), Ok(Ok(Range(8)->Batch(2))->Prefetch(1))), 2};
         }},
    };
  }

  static std::string OpOf(std::string_view case_name) {
    return std::string(case_name.substr(0, case_name.find('.')));
  }

  static Golden Write(const Case& one) {
    Golden golden;
    const Result<std::string> definition = one.dataset->Serialize();
    if (definition.ok()) golden[kDefinition] = Hex(*definition);
    golden[kFingerprint] = Hex(GraphFingerprint(one.dataset->node()).value());
    const Ref<Iterator> iterator = Iterate(one.dataset);
    EXPECT_EQ(static_cast<int64_t>(Take(*iterator, one.position).size()), one.position);
    const Result<std::string> state = iterator->Save(CallOptions());
    EXPECT_TRUE(state.ok()) << state.status().ToString();
    if (state.ok()) golden[kState] = Hex(*state);
    golden[kRest] = All(*iterator);
    return golden;
  }

  // Whether the state that was kept is still one of the dataset, and these elements are behind it.
  static bool GoesOn(const Ref<Dataset>& dataset, const Golden& kept, const Lines& rest) {
    const auto state = kept.find(kState);
    if (state == kept.end()) return false;
    const Ref<Iterator> iterator = Iterate(dataset);
    return iterator->Restore(BytesOf(state->second), CallOptions()).ok() &&
           All(*iterator) == rest;
  }

  static void ExpectGoesOn(const Ref<Dataset>& dataset, const Golden& golden) {
    const Ref<Iterator> iterator = Iterate(dataset);
    const Status restored = iterator->Restore(BytesOf(golden.at(kState)), CallOptions());
    ASSERT_TRUE(restored.ok()) << restored.ToString();
    EXPECT_EQ(All(*iterator), golden.at(kRest));
  }

 private:
  const TempFolder folder_;
  int64_t generated_ = 0;  // by the one iterator over Generated() that there is at a time
  const std::filesystem::path before_;
};

using Goldens = GoldenPipelines;

TEST_F(Goldens, AreWrittenTheSameAgain) {
  const bool update = std::getenv("TUTTI_UPDATE_GOLDENS") != nullptr;
  for (const auto& [name, make] : Cases()) {
    SCOPED_TRACE(name);
    const Case one = make();
    Golden now = Write(one);
    if (update) {
      // What varies is written anew where it has to be, not whenever threads were elsewhere.
      const Golden kept = ReadGolden(name);
      if (one.state_varies && GoesOn(one.dataset, kept, now.at(kRest))) {
        now[kState] = kept.at(kState);
      }
      WriteGolden(name, now);
    }
    const Golden before = ReadGolden(name);
    ASSERT_FALSE(before.empty()) << "there is no " << PathOf(name)
                                 << "; TUTTI_UPDATE_GOLDENS=1 writes it";
    if (one.state_varies) now[kState] = before.at(kState);
    for (const char* title : {kDefinition, kFingerprint, kState, kRest}) {
      EXPECT_EQ(before.contains(title), now.contains(title)) << title;
      if (before.contains(title) && now.contains(title)) {
        EXPECT_EQ(before.at(title), now.at(title))
            << "the " << title << " of " << PathOf(name) << " is another one now. If that is meant,"
            << " core/dataset/README.md says what it needs besides TUTTI_UPDATE_GOLDENS=1";
      }
    }
  }
}

TEST_F(Goldens, AreReadAndGoneOnFrom) {
  for (const auto& [name, make] : Cases()) {
    SCOPED_TRACE(name);
    const Golden golden = ReadGolden(name);
    ASSERT_TRUE(golden.contains(kState) && golden.contains(kRest));
    ExpectGoesOn(make().dataset, golden);
    if (!golden.contains(kDefinition)) continue;
    const Ref<Dataset> read =
        Ok(Dataset::Deserialize(datasets_, BytesOf(golden.at(kDefinition))));
    ASSERT_NE(read, nullptr);
    EXPECT_EQ(Hex(GraphFingerprint(read->node()).value()), golden.at(kFingerprint));
    ExpectGoesOn(read, golden);
  }
}

TEST_F(Goldens, EveryOperationHasOne) {
  std::set<std::string> names;
  std::map<std::string, int> cases_of;
  for (const auto& [name, make] : Cases()) {
    names.insert(name);
    const Case one = make();
    bool found = false;
    for (const Node* node : InputsFirst(one.dataset->node())) {
      found = found || node->op().name == OpOf(name);
    }
    EXPECT_TRUE(found) << name << " has no " << OpOf(name);
    ++cases_of[OpOf(name)];
  }
  for (const OpTraits* op : datasets_->ops().all()) {
    // These stand in functions that give datasets, and have no iterator.
    if (op->name == "traced_source" || op->name == "traced_count") continue;
    EXPECT_GT(cases_of[std::string(op->name)], 0)
        << "the operation " << op->name
        << " has no golden: add a case to Cases(), and write its file with TUTTI_UPDATE_GOLDENS=1";
  }
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    EXPECT_TRUE(names.contains(entry.path().stem().string()))
        << entry.path() << " is of no case";
  }
}

}  // namespace
}  // namespace tutti
