// What the fuzz targets of the readers of record files share: a file of arbitrary bytes on a disk
// in memory, read to its end, and again from a position in it.
//
// Input: the compression, how many bytes are read at once, where reading goes on from, then the
// file. Properties: a reader comes to an end, errors say where they are, records lie in what was
// read, and who goes on from a position reads what follows it.

#ifndef TUTTI_TESTS_FUZZ_RECORD_FILE_FUZZING_H_
#define TUTTI_TESTS_FUZZ_RECORD_FILE_FUZZING_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/disk.h"
#include "core/base/memory_account.h"
#include "core/dataset/records/record_file_reader.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {

class RecordFileFuzz {
 public:
  using Open = Result<std::unique_ptr<RecordFileReader>> (*)(Disk& disk, const std::string& path,
                                                             const RecordFileOptions& options);

  // Records, and "!" for an error, from the file's start.
  using Records = std::vector<std::string>;

  RecordFileFuzz(const uint8_t* data, size_t size) : input_(data, size) {
    constexpr RecordCompression kAll[] = {RecordCompression::kNone, RecordCompression::kGzip,
                                          RecordCompression::kZlib};
    options_.compression = kAll[input_.Take<uint8_t>() % 3];
    options_.buffer_bytes = 1 + input_.Take<uint8_t>();
    stop_ = input_.Take<uint8_t>();
    options_.account = MakeRef<MemoryAccount>("fuzz");
    // What an input of a few kilobytes decompresses to may be large.
    options_.account->set_limit_bytes(16 << 20);
    content_ = input_.TakeRest();
    Require(disk_->WriteFile("/file", content_).ok(), "a file is written");
  }

  bool is_plain() const { return options_.compression == RecordCompression::kNone; }
  const std::string& content() const { return content_; }

  Records Run(Open open) {
    Result<std::unique_ptr<RecordFileReader>> reader = open(*disk_, "/file", options_);
    if (!reader.ok()) {
      Require(!reader.status().message().empty(), "a refusal says why");
      return {};
    }
    RecordFilePosition position;
    bool gave_up = false;
    const Records all = Read(**reader, stop_, &position, &gave_up);
    if (gave_up || stop_ > all.size()) return all;
    Result<std::unique_ptr<RecordFileReader>> other = open(*disk_, "/file", options_);
    Require(other.ok(), "a file is opened again");
    if (!(*other)->Seek(position).ok()) {
      Require(!is_plain(), "a position is found again");
      return all;
    }
    const Records rest = Read(**other, SIZE_MAX, &position, &gave_up);
    Require(rest == Records(all.begin() + static_cast<int64_t>(stop_), all.end()),
            "what follows a position is the same");
    return all;
  }

 private:
  // Where the reader stands before record `stop`.
  static Records Read(RecordFileReader& reader, size_t stop, RecordFilePosition* position,
                      bool* gave_up) {
    Records all;
    std::vector<BytesView> records;
    while (true) {
      if (all.size() == stop) {
        *position = reader.position();
        *gave_up = reader.gave_up();
      }
      records.clear();
      const Status status = reader.Read(1, &records);
      if (!status.ok()) {
        Require(records.empty(), "an error comes alone");
        Require(status.FindDetail("file") != nullptr && status.FindDetail("offset") != nullptr,
                "an error says where it is");
        all.emplace_back("!");
        continue;
      }
      if (records.empty()) return all;
      Require(records.size() == 1, "no more records than were asked for");
      all.emplace_back(records[0].text());
    }
  }

  FuzzInput input_;
  RecordFileOptions options_;
  size_t stop_ = 0;
  std::string content_;
  const std::unique_ptr<Disk> disk_ = MakeMemoryDisk();
};

}  // namespace tutti

#endif  // TUTTI_TESTS_FUZZ_RECORD_FILE_FUZZING_H_
