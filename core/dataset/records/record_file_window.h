// A moving window over the content of a record file: the bytes from the current offset on, as many
// as a record needs, in one piece.
//
//   RecordFileWindow window(std::move(stream), 256 * 1024, account);
//   TUTTI_RETURN_IF_ERROR(window.Fill(16));
//   if (window.available() < 16) ...                 // the content ends here
//   std::string_view head(window.data(), 16);
//   window.Consume(16);
//
// Content is read in blocks of at most `block_bytes` into reference-counted buffers. Whoever keeps
// a view of a record retains block(); a block that nobody else holds is filled again, so that plain
// reading stays in the processor's cache. Bytes that are in the window when it needs the next block
// (the first part of a record that spans two) are copied to it.
#ifndef TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_WINDOW_H_
#define TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/records/record_file_stream.h"
#include "core/tensor/buffer.h"

namespace tutti {

class MemoryAccount;

// One thread.
class RecordFileWindow {
 public:
  // Blocks are charged to `account` (may be null).
  RecordFileWindow(std::unique_ptr<RecordFileStream> stream, size_t block_bytes,
                   Ref<MemoryAccount> account);
  ~RecordFileWindow();

  // Where the window begins in the content, and how many bytes of it are there.
  uint64_t offset() const { return offset_; }
  const char* data() const { return begin_; }
  size_t available() const { return static_cast<size_t>(end_ - begin_); }

  // Makes `bytes` available, or all that is left when the content has fewer. Memory grows with what
  // is there to be read, not with what is asked for. An error (the disk's, DATA_LOSS of the
  // compression, RESOURCE_EXHAUSTED) leaves the window as it was or larger.
  Status Fill(uint64_t bytes);
  // Moves the window forward; `bytes` are available.
  void Consume(size_t bytes) {
    begin_ += bytes;
    offset_ += bytes;
  }
  Status Seek(uint64_t offset);

  // The block that the window lies in; null before the first Fill.
  const Ref<Buffer>& block() const { return block_; }
  const std::string& path() const { return stream_->path(); }
  std::optional<uint64_t> size() const { return stream_->size(); }

 private:
  Status MakeRoom(uint64_t bytes);
  char* block_end() const { return static_cast<char*>(block_->data()) + block_->bytes(); }

  const std::unique_ptr<RecordFileStream> stream_;
  const size_t block_bytes_;
  const Ref<MemoryAccount> account_;
  Ref<Buffer> block_;
  char* begin_ = nullptr;  // the window within block_
  char* end_ = nullptr;
  uint64_t offset_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_WINDOW_H_
