#include "core/dataset/records/tf_record_reader.h"

#include <cstring>
#include <limits>
#include <utility>

#include "core/base/crc32c.h"
#include "core/base/disk.h"
#include "core/base/error.h"

namespace tutti {
namespace {

constexpr uint64_t kFrameBytes = kTfRecordHeaderBytes + kTfRecordFooterBytes;

template <class T>
T Load(const char* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

uint32_t StoredCrc32c(const char* data) { return UnmaskCrc32c(Load<uint32_t>(data)); }

class TfRecordReader final : public RecordFileReader {
 public:
  TfRecordReader(std::unique_ptr<RecordFileStream> stream, const RecordFileOptions& options)
      : RecordFileReader(std::move(stream), options), compression_(options.compression) {}

  Status Read(size_t max_records, std::vector<BytesView>* records) override {
    if (gave_up()) return OkStatus();
    size_t count = 0;
    while (count < max_records && AppendFromWindow(records)) ++count;
    if (count > 0) return OkStatus();
    return ReadOne(records);
  }

 private:
  // The hot path: takes the next record when all of it is in the window and both checksums are
  // right. All else is ReadOne's.
  bool AppendFromWindow(std::vector<BytesView>* records) {
    const size_t available = window_.available();
    if (available < kFrameBytes) return false;
    const char* head = window_.data();
    const auto length = Load<uint64_t>(head);
    if (length > available - kFrameBytes) return false;
    if (Crc32c(head, sizeof(length)) != StoredCrc32c(head + sizeof(length))) return false;
    const char* data = head + kTfRecordHeaderBytes;
    if (Crc32c(data, length) != StoredCrc32c(data + length)) return false;
    records->push_back({data, static_cast<size_t>(length)});
    window_.Consume(static_cast<size_t>(length + kFrameBytes));
    ++index_;
    return true;
  }

  // The record at the window's begin, after reading what it needs; or what is wrong with it.
  Status ReadOne(std::vector<BytesView>* records) {
    TUTTI_RETURN_IF_ERROR(Fill(kTfRecordHeaderBytes));
    if (window_.available() == 0) return OkStatus();
    if (window_.available() < kTfRecordHeaderBytes) {
      return Truncated("its header", kTfRecordHeaderBytes, window_.available());
    }
    const auto length = Load<uint64_t>(window_.data());
    const uint32_t stored = StoredCrc32c(window_.data() + sizeof(length));
    const uint32_t computed = Crc32c(window_.data(), sizeof(length));
    if (stored != computed) return CorruptLength(length, stored, computed);

    const uint64_t needed = length <= std::numeric_limits<uint64_t>::max() - kFrameBytes
                                ? length + kFrameBytes
                                : std::numeric_limits<uint64_t>::max();
    TUTTI_RETURN_IF_ERROR(Fill(needed));
    if (window_.available() < needed) {
      return Truncated("its data and checksum", needed - kTfRecordHeaderBytes,
                       LeftInFile() - kTfRecordHeaderBytes);
    }
    if (AppendFromWindow(records)) return OkStatus();
    return CorruptData(length);
  }

  Status Fill(uint64_t bytes) {
    Status status = window_.Fill(bytes);
    if (status.ok()) return status;
    status = About(std::move(status).WithPrefix(
                       Format("tf_record: record {} at byte {}", index_, window_.offset())),
                   window_.offset());
    // A record for which there is no memory can be passed over; behind anything else there is
    // nothing to be had from this file.
    if (status.code() == StatusCode::kResourceExhausted && bytes > kTfRecordHeaderBytes &&
        window_.Seek(window_.offset() + bytes).ok()) {
      ++index_;
    } else {
      GiveUp();
    }
    return status;
  }

  Status Truncated(std::string_view part, uint64_t expected, uint64_t found) {
    GiveUp();
    return About(DataLoss("{} is truncated: {} should have {} bytes, the file ends after {}; the "
                          "file was not written to its end: write it again or leave it out",
                          Where(), part, expected, found),
                 window_.offset());
  }

  Status CorruptLength(uint64_t length, uint32_t stored, uint32_t computed) {
    GiveUp();
    return About(DataLoss("{} has a corrupt length: its bytes say {}, their crc32c is {:#010x} and "
                          "should be {:#010x}; records behind it cannot be found{}",
                          Where(), length, computed, stored, Advice()),
                 window_.offset());
  }

  Status CorruptData(uint64_t length) {
    const char* data = window_.data() + kTfRecordHeaderBytes;
    const uint32_t stored = StoredCrc32c(data + length);
    Status status = About(
        DataLoss("{} has corrupt data: the crc32c of its {} bytes is {:#010x} and should be "
                 "{:#010x}; the records behind it can still be read, write the file again to get "
                 "this one back",
                 Where(), length, Crc32c(data, length), stored),
        window_.offset());
    window_.Consume(static_cast<size_t>(length + kFrameBytes));
    ++index_;
    return status;
  }

  // What may have gone wrong when not even the first length is right.
  std::string_view Advice() const {
    constexpr std::string_view kGeneral = "; write the file again or leave it out";
    if (window_.offset() != 0 || compression_ != RecordCompression::kNone) return kGeneral;
    const auto first = static_cast<uint8_t>(window_.data()[0]);
    const auto second = static_cast<uint8_t>(window_.data()[1]);
    if (first == 0x1f && second == 0x8b) return "; the file looks like GZIP: pass compression GZIP";
    if (first == 0x78 && (first * 256 + second) % 31 == 0) {
      return "; the file looks like ZLIB: pass compression ZLIB";
    }
    return "; is it a TFRecord file?";
  }

  std::string Where() const {
    return Format("tf_record: file {}: record {} at byte {}", Quote(path()), index_,
                  window_.offset());
  }

  // From the window's begin on; known once a Fill came back short.
  uint64_t LeftInFile() const {
    const std::optional<uint64_t> size = window_.size();
    return size.has_value() && *size > window_.offset() ? *size - window_.offset()
                                                        : window_.available();
  }

  const RecordCompression compression_;
};

}  // namespace

Result<std::unique_ptr<RecordFileReader>> OpenTfRecordReader(Disk& disk, const std::string& path,
                                                             const RecordFileOptions& options) {
  Result<std::unique_ptr<RecordFileStream>> stream =
      OpenRecordFileStream(disk, path, options.compression);
  if (!stream.ok()) return std::move(stream).status().WithPrefix("tf_record");
  return std::unique_ptr<RecordFileReader>(
      std::make_unique<TfRecordReader>(std::move(stream).value(), options));
}

}  // namespace tutti
