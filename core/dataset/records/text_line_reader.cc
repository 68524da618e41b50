#include "core/dataset/records/text_line_reader.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

#include "core/base/disk.h"
#include "core/base/error.h"

namespace tutti {
namespace {

constexpr ptrdiff_t kPieceBytes = 64;
constexpr ptrdiff_t kLongLineBytes = 4 * kPieceBytes;

// A bit for each byte of the piece at `at` that is an LF.
uint64_t FeedsIn(const char* at) {
  uint64_t feeds = 0;
#ifdef __SSE2__
  const __m128i feed = _mm_set1_epi8('\n');
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at) + i);
    const int equal = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, feed));
    feeds |= static_cast<uint64_t>(static_cast<uint32_t>(equal)) << (16 * i);
  }
#else
  for (int i = 0; i < kPieceBytes; ++i) feeds |= uint64_t{at[i] == '\n'} << i;
#endif
  return feeds;
}

class TextLineReader final : public RecordFileReader {
 public:
  TextLineReader(std::unique_ptr<RecordFileStream> stream, const RecordFileOptions& options)
      : RecordFileReader(std::move(stream), options) {}

  Status Read(size_t max_records, std::vector<BytesView>* records) override {
    if (gave_up()) return OkStatus();
    const size_t before = records->size();
    AppendLines(max_records, records);
    if (records->size() > before) return OkStatus();
    return ReadOne(records);
  }

 private:
  // The lines in the window, up to so many. Short ones are found by the piece: one search for each
  // would take longer than all the rest.
  void AppendLines(size_t max_records, std::vector<BytesView>* records) {
    const char* const start = window_.data();
    const char* const end = start + window_.available();
    const char* begin = start;  // of the line
    const char* at = start;     // up to where there are no more ends of lines
    size_t count = 0;
    const auto append = [&](const char* feed) {
      const auto bytes = static_cast<size_t>(feed - begin);
      records->push_back({begin, bytes > 0 && feed[-1] == '\r' ? bytes - 1 : bytes});
      begin = feed + 1;
      ++count;
    };
    while (count < max_records && end - at >= kPieceBytes) {
      uint64_t feeds = FeedsIn(at);
      for (; feeds != 0 && count < max_records; feeds &= feeds - 1) {
        append(at + std::countr_zero(feeds));
      }
      at += kPieceBytes;
      // A long line: a search is faster.
      if (at - begin <= kLongLineBytes || feeds != 0) continue;
      at = FindFrom(at, end);
    }
    at = std::max(at, begin);
    while (count < max_records && at < end) {
      const char* const feed = FindFrom(at, end);
      if (feed == end) break;
      append(feed);
      at = begin;
    }
    window_.Consume(static_cast<size_t>(begin - start));
    index_ += count;
  }

  static const char* FindFrom(const char* at, const char* end) {
    const void* const feed = std::memchr(at, '\n', static_cast<size_t>(end - at));
    return feed == nullptr ? end : static_cast<const char*>(feed);
  }

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
