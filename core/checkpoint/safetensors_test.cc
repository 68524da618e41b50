// The writer and the reader of safetensors files: layout, every dtype, and that no bytes can make
// the reader do anything but return an error that names the file.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/crc32c.h"
#include "core/base/random.h"
#include "core/base/seeded_runs_testing.h"
#include "core/checkpoint/checkpoint_testing.h"
#include "core/checkpoint/safetensors_reader.h"
#include "core/checkpoint/safetensors_writer.h"
#include "core/tensor/copy.h"

namespace tutti {
namespace {

constexpr const char* kPath = "/model.safetensors";

class SafetensorsTest : public CheckpointTest {
 protected:
  Result<WrittenFile> Write(const SafetensorsWriter& writer, const std::string& path = kPath) {
    return writer.Write(disk_, environment_->clock(), path);
  }
  std::unique_ptr<SafetensorsReader> Open(const std::string& path = kPath) {
    Result<std::unique_ptr<SafetensorsReader>> reader = SafetensorsReader::Open(disk_, path);
    EXPECT_TRUE(reader.ok()) << reader.status().ToString();
    return reader.ok() ? std::move(reader).value() : nullptr;
  }
  // The error of opening a file of these bytes and reading all its tensors.
  Status Failure(const std::string& bytes) {
    EXPECT_TRUE(disk_.WriteFile(kPath, bytes).ok());
    Result<std::unique_ptr<SafetensorsReader>> reader = SafetensorsReader::Open(disk_, kPath);
    TUTTI_RETURN_IF_ERROR(reader.status());
    for (const std::string& name : (*reader)->names()) {
      TUTTI_RETURN_IF_ERROR((*reader)->GetTensor(name).status());
    }
    return OkStatus();
  }
  // A file of this header and data.
  static std::string File(std::string_view json, std::string_view data = {}) {
    const uint64_t length = json.size();
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    return bytes + std::string(json) + std::string(data);
  }
  void ExpectNotAFile(const std::string& bytes, std::string_view reason, StatusCode code) {
    const Status failure = Failure(bytes);
    EXPECT_EQ(failure.code(), code) << failure.ToString();
    EXPECT_NE(failure.message().find(reason), std::string::npos) << failure.ToString();
    EXPECT_NE(failure.message().find(kPath), std::string::npos) << failure.ToString();
  }
  // A small file with something of each kind.
  std::string SmallFile() {
    SafetensorsWriter writer;
    EXPECT_TRUE(writer.PutTensor("f", Tensor::Vector<float>({1, 2, 3})).ok());
    EXPECT_TRUE(writer.PutTensor("flag", Tensor::Vector<bool>({true, false})).ok());
    const BytesView texts[] = {{"ab", 2}, {"", 0}, {"cde", 3}};
    EXPECT_TRUE(
        writer.PutTensor("s", Tensor::FromStrings(Shape({3, 1}), texts).value()).ok());
    EXPECT_TRUE(writer.PutTensor("c", Tensor::Scalar(Complex64{1, -1})).ok());
    EXPECT_TRUE(Write(writer).ok());
    return disk_.ReadFile(kPath).value();
  }
};

TEST_F(SafetensorsTest, AFileIsLaidOutAsTheFormatSays) {
  SafetensorsWriter writer;
  ASSERT_TRUE(writer.PutTensor("b", Tensor::Vector<uint8_t>({7, 8})).ok());
  ASSERT_TRUE(writer.PutTensor("a", Tensor::Vector<float>({1.5f})).ok());
  writer.PutMetadata("who", "me");
  const Result<WrittenFile> written = Write(writer);
  ASSERT_TRUE(written.ok()) << written.status().ToString();
  const std::string bytes = disk_.ReadFile(kPath).value();
  std::string json =
      R"({"__metadata__":{"who":"me"},"a":{"data_offsets":[0,4],"dtype":"F32","shape":[1]},)"
      R"("b":{"data_offsets":[4,6],"dtype":"U8","shape":[2]}})";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(bytes, File(json, std::string("\x00\x00\xc0\x3f\x07\x08", 6)));
  EXPECT_EQ(written->bytes, bytes.size());
  EXPECT_EQ(written->crc32c, Crc32c(bytes.data(), bytes.size()));
}

TEST_F(SafetensorsTest, EveryDTypeAndShapeComesBackBitByBit) {
  SafetensorsWriter writer;
  std::vector<std::pair<std::string, Ref<Tensor>>> all;
  SplitMix64 random(1);
  for (int32_t number = 1; number < static_cast<int32_t>(DType::kBytes); ++number) {
    const auto dtype = static_cast<DType>(number);
    for (const Shape& shape :
         {Shape(), Shape({0}), Shape({3}), Shape({2, 0, 3}), Shape({2, 3, 5})}) {
      const Ref<Tensor> tensor = Tensor::Create(dtype, shape).value();
      auto* bytes = static_cast<uint8_t*>(tensor->mutable_data());
      for (size_t i = 0; i < tensor->byte_size(); ++i) {
        bytes[i] = static_cast<uint8_t>(dtype == DType::kBool ? random.Next() % 2 : random.Next());
      }
      all.emplace_back(Format("{}/{}", DTypeName(dtype), shape.ToString()), tensor);
      ASSERT_TRUE(writer.PutTensor(all.back().first, tensor).ok());
    }
  }
  ASSERT_TRUE(Write(writer).ok());
  const std::unique_ptr<SafetensorsReader> reader = Open();
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->names().size(), all.size());
  for (const auto& [name, tensor] : all) {
    const Result<TensorSpec> spec = reader->GetSpec(name);
    ASSERT_TRUE(spec.ok()) << spec.status().ToString();
    EXPECT_EQ(*spec, tensor->spec()) << name;
    const Result<Ref<Tensor>> back = reader->GetTensor(name);
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    ASSERT_EQ((*back)->spec(), tensor->spec()) << name;
    EXPECT_EQ(std::memcmp((*back)->data(), tensor->data(), tensor->byte_size()), 0) << name;
  }
}

TEST_F(SafetensorsTest, ByteStringsComeBackWithTheirShape) {
  SafetensorsWriter writer;
  const std::string long_text(10'000'000, 'x');
  const BytesView texts[] = {
      {"a", 1}, {"", 0}, {"\0\xff", 2}, {long_text.data(), long_text.size()}};
  ASSERT_TRUE(writer.PutTensor("s", Tensor::FromStrings(Shape({2, 2}), texts).value()).ok());
  ASSERT_TRUE(writer.PutTensor("one", Tensor::Bytes("text")).ok());
  ASSERT_TRUE(writer.PutTensor("none", Tensor::FromStrings(Shape({0}), {}).value()).ok());
  ASSERT_TRUE(Write(writer).ok());
  const std::unique_ptr<SafetensorsReader> reader = Open();
  EXPECT_EQ(reader->names(), (std::vector<std::string>{"none", "one", "s"}));
  EXPECT_EQ(reader->GetTensor("one").value()->item<BytesView>().text(), "text");
  EXPECT_EQ(reader->GetTensor("none").value()->shape(), Shape({0}));
  const Ref<Tensor> back = reader->GetTensor("s").value();
  ASSERT_EQ(back->spec().ToString(), "bytes[2,2]");
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(static_cast<const BytesView*>(back->ElementAt(i))->text(), texts[i].text()) << i;
  }
}

TEST_F(SafetensorsTest, ATensorWithGapsIsWrittenInRowMajorOrder) {
  const Ref<Tensor> tensor = Tensor::Vector<int32_t>({0, 1, 2, 3, 4, 5});
  const int64_t dims[] = {2, 3};
  const Ref<Tensor> matrix = tensor->Reshape(dims).value();
  SafetensorsWriter writer;
  ASSERT_TRUE(writer.PutTensor("column", matrix->SliceAxis(1, 1, 2).value()).ok());
  ASSERT_TRUE(Write(writer).ok());
  const Ref<Tensor> back = Open()->GetTensor("column").value();
  EXPECT_EQ(back->shape(), Shape({2, 1}));
  EXPECT_EQ(back->span<int32_t>()[0], 1);
  EXPECT_EQ(back->span<int32_t>()[1], 4);
}

TEST_F(SafetensorsTest, SlicesAreWrittenAsOneTensorAndReadInOtherSlices) {
  SafetensorsWriter writer;
  TensorSlice slice{Shape({4}), Dims({2})};
  ASSERT_TRUE(writer.PutSlice("v", Tensor::Vector<int64_t>({2, 3}), slice).ok());
  EXPECT_EQ(Write(writer).status().code(), StatusCode::kFailedPrecondition);
  slice.begin = Dims({0});
  ASSERT_TRUE(writer.PutSlice("v", Tensor::Vector<int64_t>({0, 1}), slice).ok());
  EXPECT_FALSE(writer.PutSlice("v", Tensor::Vector<int64_t>({0, 1}), slice).ok());
  SafetensorsWriter outside;
  slice.begin = Dims({3});
  EXPECT_FALSE(outside.PutSlice("v", Tensor::Vector<int64_t>({0, 1}), slice).ok());
  SafetensorsWriter whole;
  for (int64_t begin : {0, 2}) {
    const TensorSlice part{Shape({4}), Dims({begin})};
    ASSERT_TRUE(whole.PutSlice("v", Tensor::Vector<int64_t>({begin, begin + 1}), part).ok());
  }
  ASSERT_TRUE(Write(whole).ok());
  const auto reader = Open();
  const Result<Ref<Tensor>> middle =
      reader->GetSlice("v", TensorSlice{Shape({4}), Dims({1})}, Shape({2}));
  ASSERT_TRUE(middle.ok()) << middle.status().ToString();
  EXPECT_EQ((*middle)->span<int64_t>()[0], 1);
  EXPECT_EQ((*middle)->span<int64_t>()[1], 2);
  EXPECT_FALSE(reader->GetSlice("v", TensorSlice{Shape({5}), Dims({1})}, Shape({2})).ok());
  EXPECT_FALSE(reader->GetSlice("v", TensorSlice{Shape({4}), Dims({3})}, Shape({2})).ok());
}

TEST_F(SafetensorsTest, NamesThatCannotBeAreRefused) {
  SafetensorsWriter writer;
  const auto put = [&](std::string_view name) {
    return writer.PutTensor(name, Tensor::Scalar<int32_t>(1)).code();
  };
  EXPECT_EQ(put("ünïcødé/\"quoted\"\n"), StatusCode::kOk);
  EXPECT_EQ(put(""), StatusCode::kInvalidArgument);
  EXPECT_EQ(put("__metadata__"), StatusCode::kInvalidArgument);
  for (const char* bad : {"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80"}) {
    EXPECT_EQ(put(bad), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(put("x"), StatusCode::kOk);
  EXPECT_EQ(put("x"), StatusCode::kAlreadyExists);
  ASSERT_TRUE(Write(writer).ok());
  EXPECT_TRUE(Open()->GetTensor("ünïcødé/\"quoted\"\n").ok());
  // The second tensor of byte strings would take a name that is in use.
  ASSERT_TRUE(writer.PutTensor("s", Tensor::Bytes("text")).ok());
  EXPECT_EQ(put("s.offsets"), StatusCode::kOk);
  EXPECT_EQ(Write(writer).status().code(), StatusCode::kAlreadyExists);
}

TEST_F(SafetensorsTest, AMissingNameIsAnErrorThatNamesTheNearest) {
  SmallFile();
  const Status failure = Open()->GetTensor("flags").status();
  EXPECT_EQ(failure.code(), StatusCode::kNotFound);
  EXPECT_NE(failure.message().find("did you mean \"flag\""), std::string::npos)
      << failure.ToString();
  EXPECT_EQ(SafetensorsReader::Open(disk_, "/other").status().code(), StatusCode::kNotFound);
}

TEST_F(SafetensorsTest, AFileThatIsCutOffAnywhereIsRefusedWithItsName) {
  const std::string whole = SmallFile();
  ASSERT_TRUE(Failure(whole).ok());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const Status failure = Failure(whole.substr(0, bytes));
    ASSERT_EQ(failure.code(), StatusCode::kDataLoss) << bytes << ": " << failure.ToString();
    ASSERT_NE(failure.message().find(kPath), std::string::npos) << failure.ToString();
    ASSERT_NE(failure.FindDetail("offset"), nullptr) << failure.ToString();
  }
  EXPECT_EQ(Failure(whole + "x").code(), StatusCode::kDataLoss);
}

TEST_F(SafetensorsTest, ForeignFilesAreRefusedWithTheReason) {
  const StatusCode kInvalid = StatusCode::kInvalidArgument;
  ExpectNotAFile("", "0 bytes", StatusCode::kDataLoss);
  ExpectNotAFile("A text file, for instance.", "at most 100000000", kInvalid);
  ExpectNotAFile(File("{}").replace(0, 1, "@"), "cut off, or no safetensors file",
                 StatusCode::kDataLoss);
  ExpectNotAFile(std::string(16, '\xff'), "at most 100000000", kInvalid);
  ExpectNotAFile(File(""), "no JSON object", kInvalid);
  ExpectNotAFile(File("[1]"), "no JSON object", kInvalid);
  ExpectNotAFile(File("{\"a\": \xff}"), "no JSON object", kInvalid);
  ExpectNotAFile(File(R"({"a":1})"), "\"a\" is no object", kInvalid);
  ExpectNotAFile(File(R"({"a":{"dtype":"F32","shape":[1]}})"), "data_offsets", kInvalid);
  ExpectNotAFile(File(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "abcd"), "F33",
                 kInvalid);
  ExpectNotAFile(File(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd"),
                 "impossible shape", kInvalid);
  ExpectNotAFile(File(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", "abcd"),
                 "impossible shape", kInvalid);
  ExpectNotAFile(
      File(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", "abcd"),
      "impossible shape", kInvalid);
  ExpectNotAFile(
      File(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})"),
      "bytes of data", kInvalid);
  ExpectNotAFile(File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd"),
                 "4 bytes of data", kInvalid);
  ExpectNotAFile(File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "abcd"),
                 "impossible data_offsets", kInvalid);
  ExpectNotAFile(File(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                      R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                      "abc"),
                 "begins at 1 of the data, but \"a\" ends at 2", kInvalid);
  ExpectNotAFile(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                      R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                      "abc"),
                 "begins at 2 of the data, but \"a\" ends at 1", kInvalid);
  ExpectNotAFile(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                      R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                      "a"),
                 "the same name twice", kInvalid);
  ExpectNotAFile(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "ab"),
                 "longer than its tensors", StatusCode::kDataLoss);
  ExpectNotAFile(File(R"({"__metadata__":{"x":1}})"), "__metadata__", kInvalid);
  ExpectNotAFile(File(std::string(1'000'000, '[')), "no JSON object", kInvalid);
  ExpectNotAFile(File("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
                 "nested too deeply", kInvalid);
  ExpectNotAFile(File(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\1\2"),
                 "element 1 of \"a\" is 2", StatusCode::kDataLoss);
}

TEST_F(SafetensorsTest, OurOwnMetadataIsNotTrustedEither) {
  const auto file = [](std::string_view kind, std::string_view rest, std::string_view data) {
    return File(Format(R"({{"__metadata__":{{"tutti:a":"{}"}},{}}})", kind, rest), data);
  };
  const std::string_view u8 = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  const StatusCode kInvalid = StatusCode::kInvalidArgument;
  ExpectNotAFile(file("bytes 1", u8, "ab"), "not there as they should be", kInvalid);
  ExpectNotAFile(file("complex", u8, "ab"), "the tensor is uint8[2]", kInvalid);
  ExpectNotAFile(file("sparse", u8, "ab"), "unknown", kInvalid);
  ExpectNotAFile(File(R"({"__metadata__":{"tutti:b":"complex"}})"), "no such tensor", kInvalid);
  const std::string_view both =
      R"("a.offsets":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
      R"("a":{"dtype":"U8","shape":[2],"data_offsets":[16,18]})";
  const auto offsets = [](int64_t first, int64_t second) {
    std::string bytes(16, '\0');
    std::memcpy(bytes.data(), &first, 8);
    std::memcpy(bytes.data() + 8, &second, 8);
    return bytes + "ab";
  };
  EXPECT_TRUE(Failure(file("bytes ", both, offsets(0, 2))).ok());
  EXPECT_TRUE(Failure(file("bytes 1", both, offsets(0, 2))).ok());
  ExpectNotAFile(file("bytes 2", both, offsets(0, 2)), "has not as many elements", kInvalid);
  ExpectNotAFile(file("bytes -1", both, offsets(0, 2)), "dim", kInvalid);
  ExpectNotAFile(file("bytes x", both, offsets(0, 2)), "is no shape", kInvalid);
  for (const auto& [first, second] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 1}, {1, 2}, {0, 3}, {-1, 2}, {0, -1}, {2, 0}, {0, INT64_MAX}, {INT64_MIN, 2}}) {
    ExpectNotAFile(file("bytes 1", both, offsets(first, second)), "of 2 bytes",
                   StatusCode::kDataLoss);
  }
}

TEST_F(SafetensorsTest, DTypesThatWeDoNotHaveLeaveTheOthersReadable) {
  ASSERT_TRUE(disk_.WriteFile(kPath,
                              File(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]},)"
                                   R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                   "ab"))
                  .ok());
  const auto reader = Open();
  EXPECT_EQ(reader->GetTensor("b").value()->item<uint8_t>(), 'b');
  EXPECT_EQ(reader->GetTensor("a").status().code(), StatusCode::kUnimplemented);
}

TEST_F(SafetensorsTest, MutatedBytesNeverDoMoreThanFail) {
  const std::string whole = SmallFile();
  const uint64_t seed = TestSeed(20'261'121);
  int failures = 0;
  SeededRuns runs("damaged files", 20'000);
  while (runs.Next()) {
    const uint64_t round = runs.number();
    SCOPED_TRACE(Format("TUTTI_TEST_SEED={} round {}", seed, round));
    SplitMix64 random(seed + round);
    std::string bytes = whole;
    const uint64_t changes = 1 + random.Next() % 4;
    for (uint64_t i = 0; i < changes; ++i) {
      const size_t at = random.Next() % bytes.size();
      switch (random.Next() % 5) {
        case 0: bytes[at] = static_cast<char>(random.Next()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.Next() % 8)); break;
        case 2: bytes.erase(at, 1 + random.Next() % 9); break;
        case 3: bytes.insert(at, 1 + random.Next() % 9, static_cast<char>(random.Next())); break;
        default: {  // digits and braces, which the header is made of
          constexpr std::string_view kText = "0123456789{}[]\":,-.eE";
          bytes[at] = kText[random.Next() % kText.size()];
        }
      }
      if (bytes.empty()) break;
    }
    const Status failure = Failure(bytes);
    if (failure.ok()) continue;
    ++failures;
    ASSERT_NE(failure.message().find(kPath), std::string::npos) << failure.ToString();
  }
  EXPECT_GT(failures, static_cast<int>(runs.done() / 2));  // the others changed values only
}

TEST_F(SafetensorsTest, AnExpiredDeadlineEndsWritingAndLeavesNothing) {
  CallOptions call;
  call.deadline = Deadline::At(0);
  SafetensorsWriter writer(call);
  ASSERT_TRUE(writer.PutTensor("x", Tensor::Scalar<int32_t>(1)).ok());
  EXPECT_EQ(Write(writer).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Files("/").empty());
}

}  // namespace
}  // namespace tutti
