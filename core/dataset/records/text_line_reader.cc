#include "core/dataset/records/text_line_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/disk.h"
#include "core/base/error.h"

namespace tutti {
namespace {

class TextLineReader final : public RecordFileReader {
 public:
  TextLineReader(std::unique_ptr<RecordFileStream> stream, const RecordFileOptions& options)
      : RecordFileReader(std::move(stream), options) {}

  Status Read(size_t max_records, std::vector<BytesView>* records) override {
    if (gave_up()) return OkStatus();
    size_t count = 0;
    while (count < max_records) {
      const char* feed = FindFeed(0);
      if (feed == nullptr) break;
      Append(feed, records);
      ++count;
    }
    if (count > 0) return OkStatus();
    return ReadOne(records);
  }

 private:
  // The first LF in the window that has at least `from` bytes before it; null when there is none.
  const char* FindFeed(size_t from) const {
    const size_t bytes = window_.available() - from;
    if (bytes == 0) return nullptr;
    return static_cast<const char*>(std::memchr(window_.data() + from, '\n', bytes));
  }

  // The line that ends with the LF at `feed`.
  void Append(const char* feed, std::vector<BytesView>* records) {
    const char* begin = window_.data();
    const auto bytes = static_cast<size_t>(feed - begin);
    records->push_back({begin, bytes > 0 && feed[-1] == '\r' ? bytes - 1 : bytes});
    window_.Consume(bytes + 1);
    ++index_;
  }

  // The line whose end is not in the window yet.
  Status ReadOne(std::vector<BytesView>* records) {
    for (;;) {
      const size_t before = window_.available();
      // Twice as much each time, so that a long line is copied a few times only.
      Status status = window_.Fill(std::max<uint64_t>(2 * uint64_t{before}, 1));
      // Also where an error follows, which comes again.
      if (const char* feed = FindFeed(before)) {
        Append(feed, records);
        return OkStatus();
      }
      if (!status.ok()) return Fail(std::move(status));
      if (window_.available() == before) break;
    }
    if (window_.available() == 0) return OkStatus();
    records->push_back({window_.data(), window_.available()});
    window_.Consume(window_.available());
    ++index_;
    return OkStatus();
  }

  // The line at the window's begin cannot be had.
  Status Fail(Status status) {
    status = About(std::move(status).WithPrefix(
                       Format("text_line: line {} at byte {}", index_, window_.offset())),
                   window_.offset());
    // A line for which there is no memory can be passed over; behind anything else there is nothing
    // to be had from this file.
    if (status.code() != StatusCode::kResourceExhausted || !PassLine()) GiveUp();
    return status;
  }

  // Goes behind the next LF, or to the end, a block at a time.
  bool PassLine() {
    for (;;) {
      if (const char* feed = FindFeed(0)) {
        window_.Consume(static_cast<size_t>(feed - window_.data()) + 1);
        break;
      }
      window_.Consume(window_.available());
      if (!window_.Fill(1).ok()) return false;
      if (window_.available() == 0) break;
    }
    ++index_;
    return true;
  }
};

}  // namespace

Result<std::unique_ptr<RecordFileReader>> OpenTextLineReader(Disk& disk, const std::string& path,
                                                             const RecordFileOptions& options) {
  Result<std::unique_ptr<RecordFileStream>> stream =
      OpenRecordFileStream(disk, path, options.compression);
  if (!stream.ok()) return std::move(stream).status().WithPrefix("text_line");
  return std::unique_ptr<RecordFileReader>(
      std::make_unique<TextLineReader>(std::move(stream).value(), options));
}

}  // namespace tutti
