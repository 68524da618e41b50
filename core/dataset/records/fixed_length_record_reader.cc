#include "core/dataset/records/fixed_length_record_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/disk.h"
#include "core/base/error.h"

namespace tutti {
namespace {

class FixedLengthRecordReader final : public RecordFileReader {
 public:
  FixedLengthRecordReader(std::unique_ptr<RecordFileStream> stream,
                          const FixedLengthRecordFormat& format, const RecordFileOptions& options)
      : RecordFileReader(std::move(stream), options),
        record_(static_cast<uint64_t>(format.record_bytes)),
        header_(static_cast<uint64_t>(format.header_bytes)),
        footer_(static_cast<uint64_t>(format.footer_bytes)) {}

  // The sizes when they are known before reading.
  Status CheckSize() {
    const std::optional<uint64_t> size = window_.size();
    if (!size.has_value()) return OkStatus();
    if (*size < header_ || *size - header_ < footer_ ||
        (*size - header_ - footer_) % record_ != 0) {
      return WrongSize(*size);
    }
    return OkStatus();
  }

  Status Read(size_t max_records, std::vector<BytesView>* records) override {
    if (gave_up()) return OkStatus();
    TUTTI_RETURN_IF_ERROR(PassHeader());
    const uint64_t behind = BytesBehindRecords();
    if (window_.available() < record_ || window_.available() - record_ < behind) {
      TUTTI_RETURN_IF_ERROR(Fill(record_ + behind));
      if (window_.available() < record_ + behind) return CheckEnd();
    }
    uint64_t usable = window_.available() - behind;
    if (const std::optional<uint64_t> size = window_.size()) {
      usable = std::min(usable, *size - footer_ - window_.offset());
      if (usable < record_) return OkStatus();
    }
    const auto count = static_cast<size_t>(std::min<uint64_t>(usable / record_, max_records));
    for (size_t i = 0; i < count; ++i) {
      records->push_back({window_.data(), static_cast<size_t>(record_)});
      window_.Consume(static_cast<size_t>(record_));
    }
    index_ += count;
    return OkStatus();
  }

 private:
  // How many bytes must be seen behind a record before it is known to be one: the footer, unless
  // the size of the file tells where that begins.
  uint64_t BytesBehindRecords() const { return window_.size().has_value() ? 0 : footer_; }

  Status PassHeader() {
    if (window_.offset() >= header_) return OkStatus();
    if (window_.size().has_value()) return window_.Seek(header_);
    while (window_.offset() < header_) {
      if (window_.available() == 0) {
        TUTTI_RETURN_IF_ERROR(Fill(1));
        if (window_.available() == 0) {
          GiveUp();
          return WrongSize(window_.offset());
        }
      }
      window_.Consume(
          static_cast<size_t>(std::min<uint64_t>(window_.available(), header_ - window_.offset())));
    }
    return OkStatus();
  }

  Status CheckEnd() {
    GiveUp();
    if (window_.available() == footer_) return OkStatus();
    return WrongSize(window_.offset() + window_.available());
  }

  Status Fill(uint64_t bytes) {
    Status status = window_.Fill(bytes);
    if (status.ok()) return status;
    GiveUp();
    return About(std::move(status).WithPrefix(
                     Format("fixed_length_record: record {} at byte {}", index_, window_.offset())),
                 window_.offset());
  }

  Status WrongSize(uint64_t size) const {
    const uint64_t rest = size >= header_ + footer_ ? (size - header_ - footer_) % record_ : 0;
    const std::string problem =
        size >= header_ + footer_
            ? Format("{} bytes are left over behind its last whole record", rest)
            : std::string("header and footer alone are larger than that");
    return About(InvalidArgument("fixed_length_record: file {} has {} bytes, which do not fit a "
                                 "header of {}, records of {} and a footer of {}: {}; check the "
                                 "sizes and the compression that the file was written with",
                                 Quote(path()), size, header_, record_, footer_, problem),
                 size - rest)
        .With("size", size);
  }

  const uint64_t record_;
  const uint64_t header_;
  const uint64_t footer_;
};

}  // namespace

Status FixedLengthRecordFormat::Check() const {
  // Sums of the three must not overflow.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 4;
  if (record_bytes < 1 || record_bytes > kMost) {
    return InvalidArgument(
               "fixed_length_record: record_bytes must be positive, got {}; pass the "
               "size of one record in bytes",
               record_bytes)
        .With("record_bytes", record_bytes);
  }
  if (header_bytes < 0 || header_bytes > kMost) {
    return InvalidArgument("fixed_length_record: header_bytes must not be negative, got {}",
                           header_bytes)
        .With("header_bytes", header_bytes);
  }
  if (footer_bytes < 0 || footer_bytes > kMost) {
    return InvalidArgument("fixed_length_record: footer_bytes must not be negative, got {}",
                           footer_bytes)
        .With("footer_bytes", footer_bytes);
  }
  return OkStatus();
}

Result<std::unique_ptr<RecordFileReader>> OpenFixedLengthRecordReader(
    Disk& disk, const std::string& path, const FixedLengthRecordFormat& format,
    const RecordFileOptions& options) {
  Result<std::unique_ptr<RecordFileStream>> stream =
      OpenRecordFileStream(disk, path, options.compression);
  if (!stream.ok()) return std::move(stream).status().WithPrefix("fixed_length_record");
  auto reader =
      std::make_unique<FixedLengthRecordReader>(std::move(stream).value(), format, options);
  TUTTI_RETURN_IF_ERROR(reader->CheckSize());
  return std::unique_ptr<RecordFileReader>(std::move(reader));
}

}  // namespace tutti
