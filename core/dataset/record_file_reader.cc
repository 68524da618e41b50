#include "core/dataset/record_file_reader.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

// A small file needs no large block.
size_t BlockBytes(const RecordFileStream& stream, size_t buffer_bytes) {
  const uint64_t size = stream.size().value_or(buffer_bytes);
  return static_cast<size_t>(std::min<uint64_t>(size, buffer_bytes));
}

}  // namespace

RecordFileReader::RecordFileReader(std::unique_ptr<RecordFileStream> stream,
                                   const RecordFileOptions& options)
    : RecordFileReader(BlockBytes(*stream, options.buffer_bytes), std::move(stream),
                       options.account) {}

RecordFileReader::RecordFileReader(size_t block_bytes, std::unique_ptr<RecordFileStream> stream,
                                   const Ref<MemoryAccount>& account)
    : window_(std::move(stream), block_bytes, account) {}

RecordFileReader::~RecordFileReader() = default;

Status RecordFileReader::Seek(const RecordFilePosition& position) {
  TUTTI_RETURN_IF_ERROR(window_.Seek(position.offset));
  index_ = position.index;
  gave_up_ = false;
  return OkStatus();
}

Status RecordFileReader::About(Status status, uint64_t offset) const {
  return std::move(status).With("file", path()).With("offset", offset).With("index", index_);
}

}  // namespace tutti
