// What holds for every reader of files: TFRecord, fixed length, text lines.
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/dataset/records/fixed_length_record.h"
#include "core/dataset/records/text_line.h"
#include "core/dataset/records/tf_record.h"
#include "core/dataset/testing/op_walks_testing.h"
#include "core/dataset/testing/record_file_testing.h"

namespace tutti {
namespace {

using Strings = std::vector<std::string>;

struct ReaderOptions {
  RecordCompression compression = RecordCompression::kNone;
  int64_t buffer_bytes = 0;
  int64_t num_parallel_reads = 0;
};

// A reader, and what a file of records of two bytes is for it.
struct Reader {
  std::string name;
  std::function<Result<Ref<Dataset>>(const Dataset& files, const ReaderOptions&)> read;
  std::function<std::string(const Strings& records)> content;
};

template <class Options>
Options OptionsOf(const ReaderOptions& given) {
  Options options;
  options.compression = given.compression;
  options.buffer_bytes = given.buffer_bytes;
  options.num_parallel_reads = given.num_parallel_reads;
  return options;
}

std::vector<Reader> AllReaders() {
  return {
      {"tf_record",
       [](const Dataset& files, const ReaderOptions& options) {
         return MakeTfRecordDataset(files, OptionsOf<TfRecordOptions>(options));
       },
       TfRecordFrames},
      {"fixed_length_record",
       [](const Dataset& files, const ReaderOptions& options) {
         return MakeFixedLengthRecordDataset(files, {.record_bytes = 2},
                                             OptionsOf<FixedLengthRecordOptions>(options));
       },
       [](const Strings& records) {
         std::string content;
         for (const std::string& record : records) content += record;
         return content;
       }},
      {"text_line",
       [](const Dataset& files, const ReaderOptions& options) {
         return MakeTextLineDataset(files, OptionsOf<TextLineOptions>(options));
       },
       [](const Strings& records) {
         std::string content;
         for (const std::string& record : records) content += record + "\r\n";
         return content;
       }},
  };
}

class Readers : public OpWalksTest {
 protected:
  static Ref<Value> TextsValue(const Strings& texts) {
    std::vector<BytesView> views;
    for (const std::string& text : texts) views.push_back({text.data(), text.size()});
    return Value::OfTensor(
        Tensor::FromStrings(Shape({static_cast<int64_t>(texts.size())}), views).value());
  }
  Ref<Dataset> Names(const Strings& paths) {
    return Ok(Dataset::FromTensorSlices(datasets_, TextsValue(paths)));
  }
  // Elements as walks have them.
  static Strings Quoted(const Strings& texts) {
    Strings quoted;
    for (const std::string& text : texts) {
      quoted.push_back(text.starts_with("!") ? text : "\"" + text + "\"");
    }
    return quoted;
  }
  std::string Write(const Reader& reader, const std::string& name, const Strings& records,
                    RecordCompression compression = RecordCompression::kNone) {
    std::string content = reader.content(records);
    if (compression != RecordCompression::kNone) {
      content = Deflated(content, compression == RecordCompression::kGzip);
    }
    return folder_.Write(reader.name + "-" + name, content);
  }

  const TempFolder folder_;
};

TEST_F(Readers, WalkAsTheyShould) {
  Strings many;
  for (int i = 10; i < 100; ++i) many.push_back(std::to_string(i));
  for (const Reader& reader : AllReaders()) {
    const std::string a = Write(reader, "a", {"a1", "a2", "a3"});
    const std::string b = Write(reader, "b", {"b1"});
    const std::string none = Write(reader, "none", {});
    const std::string long_one = Write(reader, "many", many);
    const std::string missing = folder_.Path("missing");
    const RecordCompression gzip = RecordCompression::kGzip;
    const std::string packed = Write(reader, "packed", {"p1", "p2"}, gzip);
    const std::string whole = ReadWholeFile(packed);
    const std::string cut =
        folder_.Write(reader.name + "-cut", whole.substr(0, whole.size() - 3));
    const auto read = [&](const Strings& paths, ReaderOptions options = {}) {
      return [this, &reader, paths, options] {
        return Ok(reader.read(*Names(paths), options));
      };
    };
    ExpectAllWalks({
        {reader.name + " of files", read({a, none, b, a}),
         Quoted({"a1", "a2", "a3", "b1", "a1", "a2", "a3"})},
        {reader.name + " in small blocks", read({long_one}, {.buffer_bytes = 5}), Quoted(many)},
        {reader.name + " of compressed files", read({packed, packed}, {.compression = gzip}),
         Quoted({"p1", "p2", "p1", "p2"})},
        {reader.name + " of no files", read({}), {}},
        {reader.name + " of empty files", read({none, none}), {}},
        {reader.name + " of a missing file", read({a, missing, b}),
         Quoted({"a1", "a2", "a3", "!missing", "b1"})},
        {reader.name + " of missing files alone", read({missing, missing}),
         {"!missing", "!missing"}},
        {reader.name + " of a truncated file", read({packed, cut, packed}, {.compression = gzip}),
         Quoted({"p1", "p2", "p1", "p2", "!ends early", "p1", "p2"})},
        {reader.name + " of vectors of names",
         [&] { return Ok(reader.read(*Ok(Names({a, b, none, b})->Batch(3)), {})); },
         Quoted({"a1", "a2", "a3", "b1", "b1"})},
        {reader.name + " without an end",
         [&] { return Ok(reader.read(*Ok(Names({a, b})->Repeat(-1)), {})); },
         Quoted({"a1", "a2", "a3", "b1", "a1", "a2", "a3", "b1", "a1"}), true},
    });
  }
}

// The records of files in turn: those of interleave with that cycle_length.
TEST_F(Readers, WalkOverSeveralFilesInTurn) {
  for (const Reader& reader : AllReaders()) {
    const std::string a = Write(reader, "a", {"a1", "a2", "a3"});
    const std::string b = Write(reader, "b", {"b1"});
    const std::string c = Write(reader, "c", {"c1", "c2"});
    const std::string none = Write(reader, "none", {});
    const std::string missing = folder_.Path("missing");
    Strings many, others, both;
    for (int i = 100; i < 180; ++i) {
      many.push_back("m" + std::string(1, static_cast<char>('a' + i % 26)));
      others.push_back("o" + std::string(1, static_cast<char>('a' + i % 26)));
      both.insert(both.end(), {many.back(), others.back()});
    }
    const std::string long_one = Write(reader, "many", many);
    const std::string long_other = Write(reader, "others", others);
    const RecordCompression gzip = RecordCompression::kGzip;
    const std::string packed = Write(reader, "packed", {"p1", "p2"}, gzip);
    const std::string whole = ReadWholeFile(packed);
    const std::string cut =
        folder_.Write(reader.name + "-cut", whole.substr(0, whole.size() - 3));
    const auto read = [&](const Strings& paths, int64_t files, ReaderOptions options = {}) {
      options.num_parallel_reads = files;
      return [this, &reader, paths, options] {
        return Ok(reader.read(*Names(paths), options));
      };
    };
    ExpectAllWalks({
        {reader.name + " of one file at a time", read({a, b, c}, 1),
         Quoted({"a1", "a2", "a3", "b1", "c1", "c2"})},
        {reader.name + " of two files at a time", read({a, b, c}, 2),
         Quoted({"a1", "b1", "a2", "a3", "c1", "c2"})},
        {reader.name + " of three files at a time", read({a, b, none, c}, 3),
         Quoted({"a1", "b1", "a2", "c1", "a3", "c2"})},
        {reader.name + " of more files than there are", read({a, b, c}, 1'000'000'000'000),
         Quoted({"a1", "b1", "c1", "a2", "c2", "a3"})},
        {reader.name + " of a number of files that is chosen",
         read(Strings(12, c), kAutotune),
         Quoted({"c1", "c1", "c1", "c1", "c1", "c1", "c1", "c1", "c1", "c1",  //
                 "c2", "c2", "c2", "c2", "c2", "c2", "c2", "c2", "c2", "c2",  //
                 "c1", "c1", "c2", "c2"})},
        {reader.name + " of long files", read({long_one, long_other}, 2, {.buffer_bytes = 16}),
         Quoted(both)},
        {reader.name + " of no files at a time", read({}, 2), {}},
        {reader.name + " of empty files at a time", read({none, none, none}, 2), {}},
        {reader.name + " of a missing file among others", read({a, missing, c, b}, 2),
         Quoted({"a1", "!missing", "a2", "a3", "c1", "c2", "b1"})},
        {reader.name + " of missing files at a time", read({missing, missing}, 2),
         {"!missing", "!missing"}},
        {reader.name + " of a truncated file among others",
         read({packed, cut, packed}, 2, {.compression = gzip}),
         Quoted({"p1", "p1", "p2", "p2", "!ends early", "p1", "p2"})},
        {reader.name + " of vectors of names at a time",
         [&] {
           return Ok(reader.read(*Ok(Names({a, b, c})->Batch(2)),
                                 {.num_parallel_reads = 2}));
         },
         Quoted({"a1", "b1", "a2", "a3", "c1", "c2"})},
        {reader.name + " of files at a time without an end",
         [&] {
           return Ok(reader.read(*Ok(Names({a, b})->Repeat(-1)), {.num_parallel_reads = 2}));
         },
         Quoted({"a1", "b1", "a2", "a3", "a1", "a2", "b1", "a3", "a1", "b1"}), true},
        {reader.name + " of files at a time below a shuffle",
         [&] {
           return Ok(Ok(reader.read(*Names({a, b, c}), {.num_parallel_reads = 2}))
                         ->Shuffle(1, Seed(1)));
         },
         Quoted({"a1", "b1", "a2", "a3", "c1", "c2"})},
    });
  }
}

// Wherever a compressed file is cut off, what comes before is what was written, and then there is
// one DATA_LOSS.
TEST_F(Readers, ACompressedFileThatIsTruncatedAnywhereIsDataLoss) {
  const Strings records = {"r1", "r2", "r3", "r4"};
  for (const Reader& reader : AllReaders()) {
    for (const bool gzip : {true, false}) {
      const ReaderOptions options{gzip ? RecordCompression::kGzip : RecordCompression::kZlib};
      const std::string whole = Deflated(reader.content(records), gzip);
      for (size_t size = 1; size < whole.size(); ++size) {
        SCOPED_TRACE(Format("{}, {}, {} of {} bytes", reader.name,
                            RecordCompressionName(options.compression), size, whole.size()));
        const std::string path = folder_.Write("cut", whole.substr(0, size));
        const Ref<Iterator> iterator = Iterate(Ok(reader.read(*Names({path}), options)));
        size_t given = 0;
        for (;; ++given) {
          const Result<Ref<Value>> element = iterator->Next(CallOptions());
          if (!element.ok()) {
            EXPECT_EQ(element.status().code(), StatusCode::kDataLoss)
                << element.status().ToString();
            EXPECT_EQ(Detail<std::string>(element.status(), "file"), path);
            break;
          }
          ASSERT_LT(given, records.size()) << "no error";
          ASSERT_NE(*element, nullptr) << "no error";
          EXPECT_EQ((*element)->ToString(), "\"" + records[given] + "\"");
        }
        EXPECT_EQ(Next(*iterator), ".");
        Close(*iterator);
      }
    }
  }
}

// What can be had of a truncated stream does not depend on how much is read at once, nor on where
// one went on from.
TEST_F(Readers, WhatATruncatedFileGivesDoesNotDependOnItsBlocks) {
  const Strings records = {"r1", "r2", "r1", "r2", "r1", "r2", "r1", "r2", "r3"};
  for (const Reader& reader : AllReaders()) {
    const std::string whole = Deflated(reader.content(records), true);
    for (size_t size = 10; size < whole.size(); ++size) {
      SCOPED_TRACE(Format("{}, {} of {} bytes", reader.name, size, whole.size()));
      const std::string path = folder_.Write("cut", whole.substr(0, size));
      const auto read = [&](int64_t buffer_bytes) {
        return Ok(reader.read(*Names({path}), {RecordCompression::kGzip, buffer_bytes}));
      };
      const auto count = [](Strings all) { return all.size(); };
      const size_t all = count(All(read(0)));
      for (const int64_t buffer_bytes : {1, 3, 7}) {
        EXPECT_EQ(count(All(read(buffer_bytes))), all) << "blocks of " << buffer_bytes;
      }
      const Ref<Dataset> dataset = read(0);
      const Ref<Iterator> iterator = Iterate(dataset);
      for (size_t place = 0; place <= all; ++place) {
        const Ref<Iterator> resumed = Iterate(dataset);
        const Result<std::string> state = iterator->Save(CallOptions());
        ASSERT_TRUE(state.ok() && resumed->Restore(*state, CallOptions()).ok()) << place;
        EXPECT_EQ(place + count(All(*resumed)), all) << "from " << place << " on";
        Next(*iterator);
      }
    }
  }
}

TEST_F(Readers, ATfRecordFileThatIsTruncatedInARecordOrItsHeaderIsDataLoss) {
  const Reader reader = AllReaders()[0];
  const std::string whole = TfRecordFrames({"r1", "r2"});
  const size_t frame = whole.size() / 2;
  for (size_t size = 0; size <= whole.size(); ++size) {
    SCOPED_TRACE(Format("{} of {} bytes", size, whole.size()));
    const std::string path = folder_.Write("cut", whole.substr(0, size));
    const Ref<Iterator> iterator = Iterate(Ok(reader.read(*Names({path}), {})));
    for (size_t i = 0; i < size / frame; ++i) {
      EXPECT_EQ(Next(*iterator), i == 0 ? "\"r1\"" : "\"r2\"");
    }
    if (size % frame != 0) {
      const Result<Ref<Value>> element = iterator->Next(CallOptions());
      EXPECT_EQ(element.status().code(), StatusCode::kDataLoss) << element.status().ToString();
      EXPECT_EQ(Detail<int64_t>(element.status(), "index"), static_cast<int64_t>(size / frame));
    }
    EXPECT_EQ(Next(*iterator), ".");
    Close(*iterator);
  }
}

}  // namespace
}  // namespace tutti
