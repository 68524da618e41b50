// The records of one file, in order: the part that all record formats share.
//
//   std::vector<BytesView> records;
//   for (;;) {
//     records.clear();
//     Status status = reader->Read(128, &records);
//     if (!status.ok()) ...                       // about one record; the next Read goes on behind
//     it else if (records.empty()) break;            // the end of the file Ref<const RefCounted>
//     payload = reader->block();   // what the views lie in
//   }
//
// Records are views into a block of file content; nothing is copied, except that a record which
// spans two blocks is put together in one. The caller retains block() for as long as it uses the
// views, and takes it before the next Read.
#ifndef TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_READER_H_
#define TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/memory_account.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/records/record_file_stream.h"
#include "core/dataset/records/record_file_window.h"
#include "core/tensor/dtype.h"

namespace tutti {

inline constexpr size_t kDefaultRecordBufferBytes = 256 * 1024;

struct RecordFileOptions {
  RecordCompression compression = RecordCompression::kNone;
  size_t buffer_bytes = kDefaultRecordBufferBytes;  // read at once
  Ref<MemoryAccount> account;                       // may be null
};

// Where a reader stands: what an iterator's state keeps, so that it can go on without reading what
// lies before.
struct RecordFilePosition {
  uint64_t offset = 0;  // in the content, that is, after decompression
  uint64_t index = 0;   // records before it
};

// One thread.
class RecordFileReader {
 public:
  virtual ~RecordFileReader();

  // Appends at least one record and at most `max_records` (which must not be 0), all of them in
  // block(); none at the end of the file. Reads from the file only while it has no record to give.
  // An error comes without records, is about the one record at position(), and carries the details
  // "file", "offset" and "index"; the next Read goes on behind that record, or, when nobody can
  // tell where that is, is at the end.
  virtual Status Read(size_t max_records, std::vector<BytesView>* records) = 0;

  // Goes to a position that this file's reader had.
  Status Seek(const RecordFilePosition& position);

  RecordFilePosition position() const { return {window_.offset(), index_}; }
  const Ref<Buffer>& block() const { return window_.block(); }
  const std::string& path() const { return window_.path(); }
  // After an error behind which nothing can be found: every later Read is at the end.
  bool gave_up() const { return gave_up_; }

 protected:
  RecordFileReader(std::unique_ptr<RecordFileStream> stream, const RecordFileOptions& options);

  // The details that every error of a record carries.
  Status About(Status status, uint64_t offset) const;
  void GiveUp() { gave_up_ = true; }

  RecordFileWindow window_;
  uint64_t index_ = 0;  // of the record at the window's begin

 private:
  bool gave_up_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_RECORD_FILE_READER_H_
