#include "core/dataset/records/record_file_reader.h"

#include <utility>

namespace tutti {

RecordFileReader::RecordFileReader(std::unique_ptr<RecordFileStream> stream,
                                   const RecordFileOptions& options)
    : window_(std::move(stream), options.buffer_bytes, options.account) {}

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
