// Writes TFRecord files (see tf_record_reader.h for the format), plain or compressed.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<TfRecordWriter> writer,
//                          TfRecordWriter::Create(environment, "train.tfrecord", {}));
//   TUTTI_RETURN_IF_ERROR(writer->Write("a record"));
//   TUTTI_RETURN_IF_ERROR(writer->Close(CallOptions()));
//
// The file appears under its name, complete and synced, when the writer is closed; one that was
// there before stays until then, and for good when the writer is abandoned. A writer whose last
// reference goes away unclosed is closed by the environment's reaper, and one that is open at
// shutdown by that, both without a report.
//
// Threads: calls are ordered by a lock; the order of records from several threads is theirs to
// settle.
//
// In a dataset function nothing is written: a writer that is made there notes the datasets that it
// is given, and the file is written, whole or not at all, before the dataset that the function
// gives has its first element (exec/recorded_writes.h). Such a writer belongs to that call of the
// function. A function that gives no dataset, as a map's, has no writers: FAILED_PRECONDITION.
#ifndef TUTTI_CORE_DATASET_RECORDS_TF_RECORD_WRITER_H_
#define TUTTI_CORE_DATASET_RECORDS_TF_RECORD_WRITER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/closable.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/records/compressed_writer.h"
#include "core/dataset/records/record_file_stream.h"
#include "core/dataset/records/tf_record_reader.h"

namespace tutti {

class Dataset;
class Environment;
class RecordedWrite;
struct Slab;
class WritableFile;

struct TfRecordWriterOptions {
  RecordCompression compression = RecordCompression::kNone;
  int compression_level = kDefaultCompressionLevel;  // 0 to 9
  // The file appears by Finish only: whatever else closes the writer leaves what stood there.
  bool by_finish_only = false;
};

// What stands before and behind a record.
std::array<char, kTfRecordHeaderBytes> TfRecordHeader(std::string_view record);
std::array<char, kTfRecordFooterBytes> TfRecordFooter(std::string_view record);

class TfRecordWriter final : public Closable {
 public:
  // INVALID_ARGUMENT for bad options, the disk's error when the file cannot be made.
  static Result<Ref<TfRecordWriter>> Create(Ref<Environment> environment, const std::string& path,
                                            const TfRecordWriterOptions& options);

  // FAILED_PRECONDITION after Close. After an error of the disk every call gives that error again:
  // the file could not be complete.
  Status Write(std::string_view record);
  // Every element of `dataset`, which must be scalars of byte strings: INVALID_ARGUMENT otherwise.
  // An error of an element ends it; what came before is written.
  Status Write(const Dataset& dataset, const CallOptions& call);
  // The rows of a slab, each a scalar of byte strings; its status and end are not looked at.
  Status WriteRows(const Slab& slab);

  // Close, and afterwards the same error once more for who asks again. A writer whose error has
  // been said is closed: nobody logs it a second time.
  Status Finish();
  // Closes without the new file: what stood there before stays. OK on a writer that is closed.
  Status Abandon();
  // Made in a dataset function.
  bool is_recorded() const { return static_cast<bool>(record_); }

  const std::string& path() const { return path_; }
  // Records written so far.
  uint64_t count() const;

 protected:
  ~TfRecordWriter() override;
  Status OnClose(const CallOptions& options) override;

 private:
  TfRecordWriter(Ref<Environment> environment, std::string path,
                 std::unique_ptr<WritableFile> file, Ref<RecordedWrite> record,
                 bool by_finish_only);
  static Result<Ref<TfRecordWriter>> Record(Ref<Environment> environment, const std::string& path,
                                            const TfRecordWriterOptions& options);
  Status Append(std::string_view bytes);
  Status Flush();
  Status Remember(Status status);

  const std::string path_;
  const Ref<RecordedWrite> record_;  // of a dataset function; null of a file that is written
  const bool by_finish_only_;
  mutable std::mutex mutex_;            // guards all below
  std::unique_ptr<WritableFile> file_;  // null once it is closed
  std::string buffer_;                  // not yet given to file_
  uint64_t count_ = 0;
  bool finished_ = false;
  bool told_ = false;  // whoever closes the writer has heard of its error
  Status error_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_TF_RECORD_WRITER_H_
