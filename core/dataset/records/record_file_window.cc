#include "core/dataset/records/record_file_window.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/memory_account.h"

namespace tutti {
namespace {

// A small file needs no large block.
size_t BlockBytes(const RecordFileStream& stream, size_t block_bytes) {
  const uint64_t size = stream.size().value_or(block_bytes);
  return static_cast<size_t>(std::max<uint64_t>(std::min<uint64_t>(size, block_bytes), 1));
}

}  // namespace

RecordFileWindow::RecordFileWindow(std::unique_ptr<RecordFileStream> stream, size_t block_bytes,
                                   Ref<MemoryAccount> account)
    : stream_(std::move(stream)),
      block_bytes_(BlockBytes(*stream_, block_bytes)),
      account_(std::move(account)) {}

RecordFileWindow::~RecordFileWindow() = default;

Status RecordFileWindow::Fill(uint64_t bytes) {
  while (available() < bytes) {
    if (const std::optional<uint64_t> size = stream_->size()) {
      const uint64_t left = *size > offset_ ? *size - offset_ : 0;
      if (available() >= left) return OkStatus();
      bytes = std::min(bytes, left);
    }
    const bool fits = block_ != nullptr && bytes <= static_cast<uint64_t>(block_end() - begin_);
    const bool at_start = block_ != nullptr && begin_ == block_->data();
    if (!fits && (!at_start || end_ == block_end())) TUTTI_RETURN_IF_ERROR(MakeRoom(bytes));
    TUTTI_ASSIGN_OR_RETURN(const size_t got,
                           stream_->Read(end_, static_cast<size_t>(block_end() - end_)));
    if (got == 0) return OkStatus();
    end_ += got;
  }
  return OkStatus();
}

// Moves what is in the window to the start of a block with room for more: for all `bytes` when the
// content is known to have them, else for twice as much as there is already. A block that was made
// for one large record is not kept for small ones.
Status RecordFileWindow::MakeRoom(uint64_t bytes) {
  const size_t kept = available();
  uint64_t capacity = bytes;
  if (!stream_->size().has_value()) capacity = std::min<uint64_t>(bytes, 2 * uint64_t{kept});
  capacity = std::max<uint64_t>(capacity, block_bytes_);

  const bool reusable = block_ != nullptr && block_->IsUnique() && block_->bytes() >= capacity &&
                        (block_->bytes() == block_bytes_ || capacity > block_bytes_);
  if (reusable) {
    auto* start = static_cast<char*>(block_->data());
    std::memmove(start, begin_, kept);
    begin_ = start;
  } else {
    TUTTI_ASSIGN_OR_RETURN(Ref<Buffer> next, Buffer::Create(static_cast<size_t>(capacity),
                                                            /*zeroed=*/false, account_.get()));
    auto* start = static_cast<char*>(next->data());
    if (kept > 0) std::memcpy(start, begin_, kept);
    block_ = std::move(next);
    begin_ = start;
  }
  end_ = begin_ + kept;
  return OkStatus();
}

Status RecordFileWindow::Seek(uint64_t offset) {
  if (offset >= offset_ && offset - offset_ <= available()) {
    Consume(static_cast<size_t>(offset - offset_));
    return OkStatus();
  }
  begin_ = end_;
  offset_ = offset;
  return stream_->Seek(offset);
}

}  // namespace tutti
