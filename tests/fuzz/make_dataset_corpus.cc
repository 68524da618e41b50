// What fuzzing the targets of datasets begins from: record files, snapshots, tensors, examples,
// records of CSV, definitions, expressions and positions.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/crc32c.h"
#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/real_environment.h"
#include "core/dataset/example/decode_csv.h"
#include "core/dataset/example/tensor_proto.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/expression/expression.h"
#include "core/dataset/expression/expression_function.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/dataset_function_kind.h"
#include "core/dataset/graph/envelope.h"
#include "core/dataset/ops/snapshot_files.h"
#include "core/dataset/records/compressed_writer.h"
#include "core/dataset/records/snappy_block.h"
#include "core/dataset/records/tf_record_reader.h"
#include "core/dataset/testing/traced_datasets_testing.h"
#include "core/function/function_registry.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/position_pipelines.h"

namespace tutti {
namespace {

// Shards of every compression, as files and as their records; an index; blocks of Snappy's.
void MakeSnapshots(const std::filesystem::path& folder) {
  Corpus corpus(folder, "snapshot_shard");
  Slab rows;
  rows.rows = 20;
  rows.tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  const std::vector<int64_t> zeros(60);
  rows.columns = {Column::Dense(Tensor::FromData(DType::kInt64, Shape({20, 3}), zeros.data(),
                                                 zeros.size() * sizeof(int64_t))
                                    .value())};
  Slab text = rows.Slice(0, 1);
  text.columns = {Column::Rows({Leaf::OfString("a text, a text, a text")})};
  const auto with_kind = [](char kind, std::string_view bytes) {
    return std::string(1, kind) + std::string(bytes);
  };
  const auto records_of = [](std::string_view file) {
    std::string records;
    while (!file.empty()) {
      uint64_t length;
      std::memcpy(&length, file.data(), sizeof(length));
      Put(&records, static_cast<uint16_t>(length));
      records += file.substr(kTfRecordHeaderBytes, length);
      file.remove_prefix(kTfRecordHeaderBytes + length + kTfRecordFooterBytes);
    }
    return records;
  };
  for (const SnapshotCompression compression :
       {SnapshotCompression::kNone, SnapshotCompression::kSnappy, SnapshotCompression::kGzip}) {
    const std::unique_ptr<Disk> disk = MakeMemoryDisk();
    const std::unique_ptr<SnapshotWriter> writer =
        OpenSnapshotWriter(*disk, "/snapshot", compression).value();
    const bool written = writer->Append(rows, {}, nullptr).ok() &&
                         writer->Append(text, {}, nullptr).ok() && writer->Complete(nullptr).ok();
    Require(written, "a snapshot is written");
    const std::string shard = disk->ReadFile("/snapshot/00000.shard").value();
    corpus.Add(with_kind(0, shard));
    corpus.Add(with_kind(0, std::string_view(shard).substr(0, shard.size() / 2)));
    corpus.Add(with_kind(1, records_of(shard)));
    corpus.Add(with_kind(2, std::string_view(records_of(disk->ReadFile("/snapshot/index").value()))
                                .substr(sizeof(uint16_t))));
  }
  for (const char* content : {"", "abcabcabcabc", "a text of few repetitions"}) {
    corpus.Add(with_kind(3, SnappyCompress(content).value()));
  }
}

std::string Packed(const std::string& content, RecordCompression compression) {
  const std::unique_ptr<Disk> disk = MakeMemoryDisk();
  std::unique_ptr<WritableFile> file = disk->Create("/file").value();
  if (compression != RecordCompression::kNone) {
    file = MakeCompressedWriter(std::move(file), compression, kDefaultCompressionLevel).value();
  }
  const bool written = file->Append(content).ok() && file->Commit().ok();
  Require(written, "a file is written");
  return disk->ReadFile("/file").value();
}

std::string FramesOf(const std::vector<std::string>& records) {
  std::string content;
  for (const std::string& record : records) {
    std::string length;
    Put(&length, uint64_t{record.size()});
    content += length;
    Put(&content, MaskCrc32c(Crc32c(length.data(), length.size())));
    content += record;
    Put(&content, MaskCrc32c(Crc32c(record.data(), record.size())));
  }
  return content;
}

// As they are, and each packed in both ways, whole and cut off; read in blocks of several sizes.
void AddFiles(const std::filesystem::path& folder, const char* target,
              const std::vector<std::string>& contents) {
  Corpus corpus(folder, target);
  for (const std::string& content : contents) {
    for (uint8_t compression = 0; compression < 3; ++compression) {
      const std::string file = Packed(content, static_cast<RecordCompression>(compression + 1));
      std::string head(1, static_cast<char>(compression));
      head += static_cast<char>(7 * compression);
      head += '\1';
      corpus.Add(head + file);
      corpus.Add(head + file.substr(0, file.size() - std::min<size_t>(3, file.size())));
    }
  }
}

void MakeRecordFiles(const std::filesystem::path& folder) {
  AddFiles(folder, "text_line",
           {"one\ntwo\r\n\nfour\r\r\nlast", "\r",
            std::string(300, 'x') + "\n" + std::string(40, '\n')});
  std::string corrupt = FramesOf({"one", "two", "three"});
  corrupt[19 + 12] ^= 1;
  std::string large = FramesOf({"one"});
  large[7] = '\x7f';
  AddFiles(folder, "tf_record",
           {FramesOf({"one", "", "three"}), FramesOf({std::string(300, 'x')}), corrupt, large});
}

// A byte for the columns' dtypes, then the query.
void MakeQueries(const std::filesystem::path& folder) {
  Corpus corpus(folder, "sql_query");
  const std::pair<int, const char*> queries[] = {
      {0, "select name from people"},
      {4, "select id from people order by id"},
      {8, "select id from people where id > 2 -- rest"},
      {5, "select id, score from people"},
      {3, "select data, id, id, score from people order by id limit 2 offset 1"},
      {4, "with recursive n(i) as (select 0 union all select i + 1 from n) select i from n"},
      {4, "with recursive n(i) as (select 0 union all select i + 1 from n) "
          "select i from n where i < 0"},
      {0, "select group_concat(a.name || b.name) from people a join people b group by a.id"},
      {4, "select abs(-9223372036854775808)"},
      {0, "select zeroblob(1000000000)"},
      {0, "select printf('%1000000d', 7)"},
      {1, "values (1, 2), (x'00', null)"},
      {4, "insert into people values (4, '', 0, null) returning id"},
      {4, "select 1; select 2"},
      {0, "pragma table_info(people)"},
      {0, "attach 'other.db' as other"},
      {0, "select json_extract('{\"a\": [1, 2]}', '$.a[1]')"},
      {0, "select sql from sqlite_master"},
  };
  for (const auto& [shape, query] : queries) {
    corpus.Add(std::string(1, static_cast<char>(shape)) + query);
  }
}

// A byte for the dtype that is asked for, then the tensor.
void MakeTensors(const std::filesystem::path& folder) {
  Corpus corpus(folder, "tensor_proto");
  const std::string_view texts[] = {"one", "", "three"};
  std::vector<BytesView> views;
  for (const std::string_view text : texts) views.push_back(BytesView{text.data(), text.size()});
  for (const Ref<Tensor>& tensor :
       {Tensor::Scalar<int64_t>(7), Tensor::Vector<float>({1.5f, -2.0f}),
        Tensor::Vector<bool>({true, false}), Tensor::Scalar(Complex64{1, 2}),
        Tensor::FromStrings(Shape({3, 1}), views).value(),
        Tensor::Create(DType::kUint16, Shape({2, 0})).value()}) {
    const Ref<Tensor> serialized = SerializeTensor(*tensor).value();
    const auto dtype = static_cast<char>(static_cast<int32_t>(tensor->dtype()) - 1);
    corpus.Add(dtype + std::string(serialized->item<BytesView>().text()));
  }
  // Elements one by one, the last of which stands for the rest; byte strings as content.
  using std::string_literals::operator""s;
  for (const auto& [dtype, bytes] :
       {std::pair{DType::kInt64, "\x08\x09\x12\x04\x12\x02\x08\x03\x52\x02\x05\x07"s},
        std::pair{DType::kFloat64, "\x08\x02\x12\x00\x31\0\0\0\0\0\0\xf8\x3f"s},
        std::pair{DType::kFloat16, "\x08\x13\x12\x04\x12\x02\x08\x02\x6a\x03\x80\xf8\x00"s},
        std::pair{DType::kBytes, "\x08\x07\x12\x04\x12\x02\x08\x02\x22\x05\x02\x01xyz"s}}) {
    corpus.Add(static_cast<char>(static_cast<int32_t>(dtype) - 1) + bytes);
  }
}

std::string Field(int number, std::string_view bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) +
         std::string(bytes);
}

void MakeExamples(const std::filesystem::path& folder) {
  Corpus corpus(folder, "example");
  using std::string_literals::operator""s;
  const auto feature = [](std::string_view key, int list, std::string_view values) {
    return Field(1, Field(1, key) + Field(2, Field(list, values)));
  };
  const std::string whole = feature("i", 3, Field(1, "\x07\x81\x01"s)) +
                            feature("f", 2, Field(1, "\0\0\x80\x3f"s)) +
                            feature("s", 1, Field(1, "text")) +
                            feature("b", 3, "\x08\x05"s);
  for (const char parser : {'\0', '\1'}) {
    corpus.Add(parser + Field(1, whole));
    corpus.Add(parser + Field(1, whole + feature("i", 3, Field(1, "\x01\x02"s))));
    corpus.Add(parser + Field(1, feature("f", 2, "\x0d\0\0\0\0"s)));
    corpus.Add(parser + Field(7, "unknown") + Field(1, feature("other", 1, "")));
  }
}

// The definitions of all operations, as they are written down (core/dataset/ops/goldens).
void MakeDefinitions(const std::filesystem::path& folder) {
  Corpus corpus(folder, "dataset_definition");
  std::vector<std::filesystem::path> goldens;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder / "../../../core/dataset/ops/goldens")) {
    goldens.push_back(entry.path());
  }
  std::sort(goldens.begin(), goldens.end());
  for (const std::filesystem::path& path : goldens) {
    std::ifstream file(path);
    std::string line;
    std::string hex;
    bool is_definition = false;
    while (std::getline(file, line)) {
      if (!line.starts_with("  ")) {
        is_definition = line == "definition";
      } else if (is_definition) {
        hex += line.substr(2);
      }
    }
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    std::string_view content;
    if (OpenEnvelope("TUTTI-D1", bytes, &content) == nullptr) corpus.Add(std::string(content));
  }
}

void MakeExpressions(const std::filesystem::path& folder) {
  Corpus corpus(folder, "expression");
  const auto add = [&](DType dtype, PartialShape shape, auto&& build) {
    const Ref<Expression> trace =
        Expression::Create(ElementSpec::OfTensor(dtype, std::move(shape))).value();
    const int64_t x = trace->Parameter(0).value();
    const int64_t result = build(*trace, x);
    corpus.Add(MakeExpressionFunction(*trace, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()),
                                      {{result}})
                   .value()
                   ->Define()
                   .value()
                   .payload);
  };
  const auto apply = [](Expression& trace, std::string_view name, std::vector<int64_t> inputs,
                        std::vector<int64_t> numbers = {}) {
    ExpressionAttributes attributes;
    attributes.numbers = std::move(numbers);
    return trace.Apply(name, inputs, std::move(attributes)).value();
  };
  const auto weak = [](Expression& trace, int64_t number) {
    return trace.Constant(Tensor::Scalar<int64_t>(number), true).value();
  };
  add(DType::kInt64, PartialShape::Scalar(), [&](Expression& trace, int64_t x) {
    return apply(trace, "add", {apply(trace, "multiply", {x, weak(trace, 3)}), weak(trace, 1)});
  });
  add(DType::kInt64, PartialShape::Scalar(), [&](Expression& trace, int64_t x) {
    return apply(trace, "floor_divide", {x, weak(trace, 4)});
  });
  add(DType::kInt64, PartialShape({2}), [&](Expression& trace, int64_t x) {
    return apply(trace, "reshape", {x}, {2, 1});
  });
  add(DType::kFloat32, PartialShape({3}), [&](Expression& trace, int64_t x) {
    return apply(trace, "multiply", {x, x});
  });
}

// A byte for the form, then the record; or 128, then a definition.
void MakeCsvRecords(const std::filesystem::path& folder) {
  Corpus corpus(folder, "decode_csv");
  using std::string_literals::operator""s;
  for (const auto& [form, record] :
       {std::pair{0, "12,a text,2.5"s}, std::pair{1, ",,"s}, std::pair{1, "+7 ,\"\", -1e3\r\n"s},
        std::pair{4, "1;\"a; \"\"b\"\"\";inf"s}, std::pair{9, "na,na,na\n"s},
        std::pair{2, "1,\"a,3"s}, std::pair{16, "1,x,two,x,x,0.5,x"s},
        std::pair{32, "\"a\nb\",c,\"\""s},
        std::pair{33, ",,"s}, std::pair{34, "a,\"b,c\""s}, std::pair{47, "na;;c\n"s},
        std::pair{64, "255,x,65504"s}, std::pair{65, "256,\"x"s}, std::pair{0, "1,\"a\"b,2"s},
        std::pair{32, "a\0b,\xff,\t"s}}) {
    corpus.Add(std::string(1, static_cast<char>(form)) + record);
  }
  for (const bool selects : {false, true}) {
    CsvFormat format;
    format.columns = {{"id", DType::kInt64, nullptr},
                      {"name", DType::kBytes, Tensor::Bytes("none")}};
    if (selects) format.select_cols = {0, 2};
    corpus.Add("\x80" + MakeDecodeCsv(std::move(format)).value()->Define().value().payload);
  }
}

// A byte, then the definition; or its parts, of which the dataset is without its envelope.
void MakeDatasetExpressions(const std::filesystem::path& folder) {
  Corpus corpus(folder, "dataset_expression");
  const Ref<DatasetEnvironment> environment = DatasetEnvironment::Create(
      MakeRef<RealEnvironment>(), MakeRef<FunctionRegistry>());
  for (const Ref<Function>& function :
       {TracedSums(environment), TracedRepeats(environment), TracedTwice(environment)}) {
    const std::string payload = function->Define().value().payload;
    corpus.Add(std::string(1, '\0') + payload);
    StateReader reader(payload);
    reader.Section(kDatasetFunctionKind);
    (void)reader.Int();
    const bool has_values = reader.Int() != 0;
    const std::string_view values = reader.Bytes();
    const std::string_view dataset = reader.Bytes();
    std::string_view content;
    Require(reader.ok() && OpenEnvelope("TUTTI-D1", dataset, &content) == nullptr,
            "a definition has its parts");
    std::string parts(1, has_values ? '\3' : '\1');
    Put(&parts, static_cast<uint16_t>(values.size()));
    corpus.Add(parts.append(values).append(content));
  }
}

void MakePositions(const std::filesystem::path& folder) {
  Corpus corpus(folder, "position");
  const PositionPipelines world;
  for (size_t kind = 0; kind < world.pipelines.size(); ++kind) {
    const Ref<Iterator> iterator =
        Iterator::Create(world.pipelines[kind], {}, CallOptions()).value();
    for (int i = 0; i < 3; ++i) {
      const std::string state = iterator->Save(CallOptions()).value();
      std::string_view content;
      Require(OpenEnvelope("TUTTI-I2", state, &content) == nullptr, "a position is sealed");
      corpus.Add(static_cast<char>(kind) + std::string(content));
      (void)iterator->Next(CallOptions());
    }
    (void)iterator->Close(CallOptions());
  }
  const Ref<DistributedIterator> iterator = world.Distributed();
  (void)iterator->Next(CallOptions());
  const auto content = [](std::string_view state) {
    for (const char* kind : {"distributed_iterator", "dealt_iterator", "joint_iterator"}) {
      StateReader envelope(state);
      envelope.Section(kind);
      (void)envelope.Int();
      (void)envelope.Int();
      const std::string_view bytes = envelope.Bytes();
      if (envelope.ok()) return std::string(bytes);
    }
    return std::string();
  };
  const auto count = static_cast<char>(world.pipelines.size());
  const std::string own = content(iterator->Save(CallOptions()).value());
  corpus.Add(count + own);
  corpus.Add(static_cast<char>(count + 2) + content(iterator->SaveJoint(CallOptions()).value()));
  std::string several(1, static_cast<char>(count + 3));
  several += '\1';
  for (int i = 0; i < 2; ++i) {
    several += '\0';
    Put(&several, static_cast<uint16_t>(own.size()));
    several += own;
  }
  corpus.Add(several);
  (void)iterator->Close(CallOptions());
}

}  // namespace

void MakeDatasetCorpus(const std::filesystem::path& folder) {
  MakeSnapshots(folder);
  MakeRecordFiles(folder);
  MakeQueries(folder);
  MakeTensors(folder);
  MakeExamples(folder);
  MakeCsvRecords(folder);
  MakeDefinitions(folder);
  MakeExpressions(folder);
  MakeDatasetExpressions(folder);
  MakePositions(folder);
}

}  // namespace tutti
