#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/disk.h"
#include "core/debugging/dump_reader.h"
#include "core/debugging/dump_writer.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class DumpTest : public ::testing::Test {
 protected:
  DumpTest() { options_.root = "/dumps"; }

  Ref<DumpWriter> Writer() {
    Result<Ref<DumpWriter>> writer = DumpWriter::Create(*disk_, RealClock(), options_);
    EXPECT_TRUE(writer.ok()) << writer.status().ToString();
    return std::move(writer).value();
  }
  static void See(DumpWriter& writer, std::string_view op, const Ref<Tensor>& tensor,
                  int64_t replica = -1) {
    EXPECT_TRUE(writer.Observe({.op = op, .name = "the input", .replica = replica}, *tensor).ok());
  }
  Json Read() {
    const Result<std::string> text = ReadDumps(*disk_, "/dumps");
    EXPECT_TRUE(text.ok()) << text.status().ToString();
    return text.ok() ? Json::parse(*text) : Json();
  }
  // The one file whose name has this in it.
  std::string FileWith(std::string_view part) {
    for (const std::string& name : disk_->List("/dumps").value()) {
      if (name.find(part) != std::string::npos) return "/dumps/" + name;
    }
    return "";
  }

  const std::unique_ptr<Disk> disk_ = MakeMemoryDisk();
  DumpOptions options_;
};

const Ref<Tensor>& Mixed() {
  static const Ref<Tensor>& mixed = *new Ref<Tensor>(Tensor::Vector<float>(
      {-1, 0, 2, 3, std::numeric_limits<float>::infinity(),
       std::numeric_limits<float>::quiet_NaN()}));
  return mixed;
}

TEST_F(DumpTest, EachModeKeepsWhatItSays) {
  for (const DebugMode mode : {DebugMode::kNoTensor, DebugMode::kCurtHealth,
                               DebugMode::kConciseHealth, DebugMode::kFullHealth,
                               DebugMode::kShape}) {
    options_.mode = mode;
    options_.root = std::string("/dumps/") + DebugModeName(mode);
    const Ref<DumpWriter> writer = Writer();
    {
      const ObservedScope step(Observed::kAsBefore, 7);
      See(*writer, "all_reduce", Mixed(), 3);
    }
    See(*writer, "run", Tensor::Scalar<int32_t>(1));
    ASSERT_TRUE(writer->FlushExecution().ok());
    const Json dump = Json::parse(ReadDumps(*disk_, options_.root).value());
    EXPECT_EQ(dump.at("processes").at(0).at("mode"), DebugModeName(mode));
    const Json& event = dump.at("events").at(0);
    EXPECT_EQ(event.at("op"), "all_reduce");
    EXPECT_EQ(event.at("replica"), 3);
    EXPECT_EQ(event.at("step"), 7);
    EXPECT_EQ(event.at("dtype"), "float32");
    EXPECT_EQ(event.contains("shape"), mode == DebugMode::kShape);
    const bool health = mode != DebugMode::kNoTensor && mode != DebugMode::kShape;
    EXPECT_EQ(event.contains("has_nan_or_infinity"), health);
    EXPECT_EQ(dump.at("first_not_finite").is_null(), !health);
    const bool concise = mode == DebugMode::kConciseHealth || mode == DebugMode::kFullHealth;
    ASSERT_EQ(event.contains("nan"), concise);
    if (concise) {
      EXPECT_EQ(event.at("elements"), 6);
      EXPECT_EQ(event.at("nan"), 1);
      EXPECT_EQ(event.at("positive_infinity"), 1);
      EXPECT_EQ(event.at("negative_infinity"), 0);
    }
    ASSERT_EQ(event.contains("zero"), mode == DebugMode::kFullHealth);
    if (mode == DebugMode::kFullHealth) {
      EXPECT_EQ(event.at("rank"), 1);
      EXPECT_EQ(event.at("negative"), 1);
      EXPECT_EQ(event.at("zero"), 1);
      EXPECT_EQ(event.at("positive"), 2);
    }
    const Json& integer = dump.at("events").at(1);
    EXPECT_TRUE(integer.at("replica").is_null());
    EXPECT_TRUE(integer.at("step").is_null());
    EXPECT_FALSE(integer.contains("has_nan_or_infinity"));
    EXPECT_EQ(integer.contains("shape"), mode == DebugMode::kShape);
  }
}

TEST_F(DumpTest, TheBufferKeepsTheMostRecentEventsUntilTheyAreFlushed) {
  options_.circular_buffer_size = 3;
  const Ref<DumpWriter> writer = Writer();
  for (int i = 0; i < 5; ++i) See(*writer, "run", Tensor::Scalar<int32_t>(i));
  EXPECT_EQ(Read().at("events").size(), 0u);
  ASSERT_TRUE(writer->FlushExecution().ok());
  const Json dump = Read();
  ASSERT_EQ(dump.at("events").size(), 3u);
  EXPECT_EQ(dump.at("events").at(0).at("sequence"), 2);
  ASSERT_TRUE(writer->FlushExecution().ok());
  EXPECT_EQ(Read().at("events").size(), 3u);
  See(*writer, "run", Tensor::Scalar<int32_t>(5));
  writer->Close();
  ASSERT_TRUE(writer->FlushExecution().ok());
  EXPECT_EQ(Read().at("events").size(), 3u);
}

TEST_F(DumpTest, AWorkerIsNamedOnceTheProcessIsOne) {
  const Ref<DumpWriter> writer = Writer();
  EXPECT_TRUE(Read().at("processes").at(0).at("worker").is_null());
  EXPECT_TRUE(Read().at("processes").at(0).at("task").is_null());
  See(*writer, "run", Mixed());
  SetDumpedWorker(2, "worker:2");
  See(*writer, "run", Mixed());
  ASSERT_TRUE(writer->FlushExecution().ok());
  SetDumpedWorker(-1, "");
  const Json dump = Read();
  EXPECT_EQ(dump.at("processes").at(0).at("worker"), 2);
  EXPECT_EQ(dump.at("processes").at(0).at("task"), "worker:2");
  EXPECT_TRUE(dump.at("events").at(0).at("worker").is_null());
  EXPECT_EQ(dump.at("events").at(1).at("worker"), 2);
}

TEST_F(DumpTest, WithoutABufferNothingIsLost) {
  options_.circular_buffer_size = 0;
  const Ref<DumpWriter> writer = Writer();
  const size_t count = DumpWriter::kEventsAFile + 3;
  for (size_t i = 0; i < count; ++i) See(*writer, "run", Tensor::Scalar<int32_t>(1));
  EXPECT_EQ(Read().at("events").size(), DumpWriter::kEventsAFile);
  ASSERT_TRUE(writer->FlushExecution().ok());
  EXPECT_EQ(Read().at("events").size(), count);
}

TEST_F(DumpTest, OperationAndDTypeAreFiltered) {
  options_.op_regex = "(?!run$)";
  options_.dtypes = 1 << static_cast<int>(DType::kFloat32);
  const Ref<DumpWriter> writer = Writer();
  See(*writer, "run", Mixed());
  See(*writer, "running", Mixed());
  See(*writer, "all_reduce", Tensor::Scalar<int32_t>(1));
  ASSERT_TRUE(writer->FlushExecution().ok());
  ASSERT_EQ(Read().at("events").size(), 1u);
  EXPECT_EQ(Read().at("events").at(0).at("op"), "running");
  // At the beginning, as a whole word need not.
  options_.root = "/other";
  options_.op_regex = "all";
  const Ref<DumpWriter> other = Writer();
  See(*other, "overall", Mixed());
  See(*other, "all_gather", Mixed());
  ASSERT_TRUE(other->FlushExecution().ok());
  EXPECT_EQ(Json::parse(ReadDumps(*disk_, "/other").value()).at("events").size(), 1u);
}

TEST_F(DumpTest, WrongExpressionsAreRefused) {
  options_.op_regex = "(";
  EXPECT_THAT(DumpWriter::Create(*disk_, RealClock(), options_).status().message(),
              HasSubstr("does not read"));
  options_.op_regex = std::string(2000, 'a');
  EXPECT_THAT(DumpWriter::Create(*disk_, RealClock(), options_).status().message(),
              HasSubstr("at most 1024"));
}

TEST_F(DumpTest, ADamagedFileIsReadToItsLastWholeRecord) {
  const Ref<DumpWriter> writer = Writer();
  for (int i = 0; i < 3; ++i) See(*writer, "run", Mixed());
  ASSERT_TRUE(writer->FlushExecution().ok());
  const std::string path = FileWith(".execution-");
  const std::string whole = disk_->ReadFile(path).value();
  ASSERT_TRUE(disk_->WriteFile(path, whole.substr(0, whole.size() - 5)).ok());
  Json dump = Read();
  EXPECT_EQ(dump.at("events").size(), 2u);
  EXPECT_THAT(dump.at("damaged").at(0).at("reason").get<std::string>(), HasSubstr("cut off"));
  std::string flipped = whole;
  flipped[flipped.size() - 8] ^= 1;
  ASSERT_TRUE(disk_->WriteFile(path, flipped).ok());
  dump = Read();
  EXPECT_EQ(dump.at("events").size(), 2u);
  EXPECT_THAT(dump.at("damaged").at(0).at("reason").get<std::string>(),
              HasSubstr("a record is damaged"));
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(disk_->WriteFile(path, whole.substr(0, size)).ok());
    EXPECT_LE(Read().at("events").size(), 2u);
  }
  ASSERT_TRUE(disk_->WriteFile(FileWith(".metadata"), "nonsense").ok());
  EXPECT_EQ(ReadDumps(*disk_, "/dumps").status().code(), StatusCode::kDataLoss);
}

// The memory disk, which may have no room for new files.
class FullDisk final : public Disk {
 public:
  explicit FullDisk(Disk& disk) : disk_(disk) {}
  bool is_full = false;

  Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    return disk_.Open(path);
  }
  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    if (!is_full) return disk_.Create(path);
    return Status(StatusCode::kResourceExhausted, path + ": the disk is full");
  }
  Result<FileInfo> Stat(const std::string& path) override { return disk_.Stat(path); }
  Result<std::vector<std::string>> List(const std::string& path) override {
    return disk_.List(path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return disk_.Rename(from, to);
  }
  Status Remove(const std::string& path) override { return disk_.Remove(path); }
  Status MakeDirectories(const std::string& path, uint32_t mode) override {
    return disk_.MakeDirectories(path, mode);
  }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return disk_.Lock(path);
  }

 private:
  Disk& disk_;
};

TEST_F(DumpTest, AFullDiskIsTheFlushsErrorAndLosesNothing) {
  FullDisk disk(*disk_);
  options_.circular_buffer_size = 2;
  const Ref<DumpWriter> writer = DumpWriter::Create(disk, RealClock(), options_).value();
  See(*writer, "run", Mixed());
  disk.is_full = true;
  const Status status = writer->FlushExecution();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("writing a dump: /dumps/tutti_debug."));
  EXPECT_EQ(writer->FlushNonExecution().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(DumpWriter::Create(disk, RealClock(), options_).status().code(),
            StatusCode::kResourceExhausted);
  disk.is_full = false;
  ASSERT_TRUE(writer->FlushExecution().ok());
  EXPECT_EQ(Read().at("events").size(), 1u);
}

TEST_F(DumpTest, AFolderWithoutADumpIsNotFound) {
  ASSERT_TRUE(disk_->MakeDirectories("/dumps").ok());
  EXPECT_EQ(ReadDumps(*disk_, "/dumps").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadDumps(*disk_, "/nothing").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tutti
