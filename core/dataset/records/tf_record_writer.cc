#include "core/dataset/records/tf_record_writer.h"

#include <cstring>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/crc32c.h"
#include "core/base/disk.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/exec/recorded_writes.h"
#include "core/dataset/graph/dataset.h"
#include "core/function/function.h"

namespace tutti {
namespace {

// Small records are collected up to here, so that the disk sees few large writes.
constexpr size_t kBufferBytes = 256 * 1024;

constexpr int64_t kWrittenRowsAtOnce = 1024;

template <class T>
void Store(char* destination, T value) {
  std::memcpy(destination, &value, sizeof(value));
}

}  // namespace

std::array<char, kTfRecordHeaderBytes> TfRecordHeader(std::string_view record) {
  std::array<char, kTfRecordHeaderBytes> head;
  Store<uint64_t>(head.data(), record.size());
  Store<uint32_t>(head.data() + sizeof(uint64_t),
                  MaskCrc32c(Crc32c(head.data(), sizeof(uint64_t))));
  return head;
}

std::array<char, kTfRecordFooterBytes> TfRecordFooter(std::string_view record) {
  std::array<char, kTfRecordFooterBytes> foot;
  Store<uint32_t>(foot.data(), MaskCrc32c(Crc32c(record.data(), record.size())));
  return foot;
}

Result<Ref<TfRecordWriter>> TfRecordWriter::Create(Ref<Environment> environment,
                                                   const std::string& path,
                                                   const TfRecordWriterOptions& options) {
  TUTTI_RETURN_IF_ERROR(environment->CheckUsable("tf_record_writer"));
  TUTTI_RETURN_IF_ERROR(CheckRecordCompression(options.compression, "tf_record_writer"));
  if (CurrentCallbackClass() == CallbackClass::kDataset) {
    return Record(std::move(environment), path, options);
  }
  Result<std::unique_ptr<WritableFile>> created = environment->disk().Create(path);
  if (!created.ok()) return std::move(created).status().WithPrefix("tf_record_writer");
  std::unique_ptr<WritableFile> file = std::move(created).value();
  if (options.compression != RecordCompression::kNone) {
    Result<std::unique_ptr<WritableFile>> compressed =
        MakeCompressedWriter(std::move(file), options.compression, options.compression_level);
    if (!compressed.ok()) return std::move(compressed).status().WithPrefix("tf_record_writer");
    file = std::move(compressed).value();
  }
  Ref<TfRecordWriter> writer = Ref<TfRecordWriter>::Adopt(new TfRecordWriter(
      std::move(environment), path, std::move(file), nullptr, options.by_finish_only));
  TUTTI_RETURN_IF_ERROR(writer->Register());
  return writer;
}

Result<Ref<TfRecordWriter>> TfRecordWriter::Record(Ref<Environment> environment,
                                                   const std::string& path,
                                                   const TfRecordWriterOptions& options) {
  RecordedWrites* const writes = RecordedWrites::Current();
  if (writes == nullptr) {
    return FailedPrecondition(
               "tf_record_writer: file {} cannot be written in this function, which gives no "
               "dataset: write outside of it, or in the function of flat_map, interleave or "
               "group_by_window",
               Quote(path))
        .With("file", path);
  }
  Ref<RecordedWrite> record = MakeRef<RecordedWrite>(
      path, static_cast<int64_t>(options.compression), int64_t{options.compression_level});
  writes->Add(record);
  return Ref<TfRecordWriter>::Adopt(
      new TfRecordWriter(std::move(environment), path, nullptr, std::move(record), false));
}

TfRecordWriter::TfRecordWriter(Ref<Environment> environment, std::string path,
                               std::unique_ptr<WritableFile> file, Ref<RecordedWrite> record,
                               bool by_finish_only)
    : Closable(std::move(environment), "tf_record_writer " + path),
      path_(std::move(path)),
      record_(std::move(record)),
      by_finish_only_(by_finish_only),
      file_(std::move(file)) {}

TfRecordWriter::~TfRecordWriter() = default;

Status TfRecordWriter::Write(std::string_view record) {
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable("tf_record_writer"));
  if (record_) {
    return FailedPrecondition(
               "tf_record_writer: file {}: a writer that was made in a dataset function takes "
               "datasets only; make one of the records with from_tensor_slices",
               Quote(path_))
        .With("file", path_);
  }
  const std::lock_guard lock(mutex_);
  if (!error_.ok()) return error_;
  if (file_ == nullptr) {
    return FailedPrecondition(
               "tf_record_writer: file {} is closed; make a new writer, which "
               "overwrites the file",
               Quote(path_))
        .With("file", path_);
  }
  const std::array<char, kTfRecordHeaderBytes> head = TfRecordHeader(record);
  const std::array<char, kTfRecordFooterBytes> foot = TfRecordFooter(record);
  TUTTI_RETURN_IF_ERROR(Append({head.data(), head.size()}));
  TUTTI_RETURN_IF_ERROR(Append(record));
  TUTTI_RETURN_IF_ERROR(Append({foot.data(), foot.size()}));
  ++count_;
  return OkStatus();
}

Status TfRecordWriter::Write(const Dataset& dataset, const CallOptions& call) {
  const Ref<const ElementSpec> spec = dataset.known_element_spec();
  if (spec != nullptr &&
      !(spec->tree().is_leaf() && spec->leaf(0).is_tensor() &&
        spec->leaf(0).dtype == DType::kBytes && spec->leaf(0).shape.IsCompatibleWith(Shape()))) {
    return InvalidArgument(
        "tf_record_writer: the elements of the dataset should be scalars of byte "
        "strings (bytes[]) and are {}; map them to serialised messages first",
        spec->ToString()).With("expected_dtype", "bytes");
  }
  if (record_) return record_->Add(Ref<const Dataset>::Retain(&dataset));
  if (CurrentCallbackClass() == CallbackClass::kDataset) {
    return FailedPrecondition(
               "tf_record_writer: file {} cannot be written in a dataset function; make the writer "
               "in the function, which then notes what is to be written",
               Quote(path_))
        .With("file", path_);
  }
  TUTTI_ASSIGN_OR_RETURN(
      const Ref<Iterator> iterator,
      Iterator::Create(Ref<const Dataset>::Retain(&dataset), {"tf_record_writer"}, call));
  Status status;
  Slab slab;
  while (status.ok() && !slab.end) {
    slab.Clear();
    status = iterator->NextSlab(kWrittenRowsAtOnce, call, &slab);
    if (status.ok()) status = WriteRows(slab);
    if (status.ok()) status = slab.status;
  }
  const Status closed = iterator->Close(CallOptions());
  return status.ok() ? closed : status;
}

Status TfRecordWriter::WriteRows(const Slab& slab) {
  for (int64_t i = 0; i < slab.rows; ++i) {
    const Leaf leaf = slab.columns.size() == 1 ? slab.columns[0].Row(i) : Leaf::None();
    if (!leaf.is_tensor() || leaf.tensor().dtype() != DType::kBytes || leaf.tensor().rank() != 0) {
      return InvalidArgument(
          "tf_record_writer: an element should be a scalar byte string and is {}; map the dataset "
          "to serialised messages first",
          leaf.is_tensor() ? leaf.tensor().SpecString() : std::string(LeafKindName(leaf.kind())))
          .With("expected_dtype", "bytes");
    }
    TUTTI_RETURN_IF_ERROR(Write(leaf.tensor().item<BytesView>().text()));
  }
  return OkStatus();
}

uint64_t TfRecordWriter::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

Status TfRecordWriter::Append(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) TUTTI_RETURN_IF_ERROR(Flush());
  if (bytes.size() >= kBufferBytes) return Remember(file_->Append(bytes));
  buffer_.append(bytes);
  return OkStatus();
}

Status TfRecordWriter::Flush() {
  if (buffer_.empty()) return OkStatus();
  Status status = Remember(file_->Append(buffer_));
  buffer_.clear();
  return status;
}

// The first error of the disk is every later call's.
Status TfRecordWriter::Remember(Status status) {
  if (status.ok()) return status;
  error_ = std::move(status).WithPrefix(
      Format("tf_record_writer: the file is incomplete after {} records and was left as it was "
             "before",
             count_));
  return error_;
}

Status TfRecordWriter::Finish() {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  Status status = Close(CallOptions());
  {
    const std::lock_guard lock(mutex_);
    if (error_.ok()) return status;
    status = error_;
    told_ = true;
  }
  (void)Close(CallOptions());
  return status;
}

Status TfRecordWriter::Abandon() {
  if (record_) record_->Abandon();
  {
    const std::lock_guard lock(mutex_);
    file_.reset();
    buffer_ = std::string();
    told_ = true;
  }
  return Close(CallOptions());
}

Status TfRecordWriter::OnClose(const CallOptions&) {
  if (record_) record_->Close();
  const std::lock_guard lock(mutex_);
  if (!error_.ok()) {
    file_.reset();
    return told_ ? OkStatus() : error_;
  }
  if (file_ == nullptr) return OkStatus();
  if (by_finish_only_ && !finished_) {
    file_.reset();
    return OkStatus();
  }
  Status status = Flush();
  if (status.ok()) status = Remember(file_->Commit());
  file_.reset();
  buffer_ = std::string();
  return status;
}

}  // namespace tutti
