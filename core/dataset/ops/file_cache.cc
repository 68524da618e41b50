// The cache in a file: records framed as in TFRecord files, so that every byte stands under a
// checksum.
//
//   "TUTTI-C1" and the spec of the elements (SpecDef; nothing when it was not known)
//   2 and of which shards they are                           once, unless they are of all
//   1 and some rows, as they came                            any number of times
//   0 and the number of all rows                             once, at the end
//
// It is written under a temporary name and gets its own when the pass is complete (disk.h), so that
// nobody sees half of one. Whoever writes holds the lock `filename`.lock, which ends with its
// owner; the iterations of one definition share it, each with a temporary file of its own.
// Temporary files that a dead writer left are removed by the next. Who finds the lock taken looks
// at the temporary file's head only: it says of which shards the file is going to be.
#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/disk.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/value_proto.h"
#include "core/dataset/ops/cache_store.h"
#include "core/dataset/records/tf_record_reader.h"
#include "core/dataset/records/tf_record_writer.h"
#include "tutti/v1/dataset.pb.h"

namespace tutti {
namespace {

constexpr std::string_view kMagic = "TUTTI-C1";
constexpr int64_t kEndRecord = 0;
constexpr int64_t kRowsRecord = 1;
constexpr int64_t kShardsRecord = 2;

// Small records are collected up to here, so that the disk sees few large writes.
constexpr size_t kBufferBytes = 256 * 1024;

bool CanStandInAFile(LeafKind kind) {
  return kind == LeafKind::kTensor || kind == LeafKind::kString || kind == LeafKind::kNone;
}

Status CheckKind(LeafKind kind) {
  if (CanStandInAFile(kind)) return OkStatus();
  return InvalidArgument(
      "an element holds a {}, and a file can hold tensors and strings only; cache in memory (no "
      "filename), or map the elements to tensors first",
      LeafKindName(kind));
}

class FileCacheReader final : public CacheReader {
 public:
  FileCacheReader(std::unique_ptr<RecordFileReader> file, const ElementSpec* spec)
      : file_(std::move(file)), spec_(Ref<const ElementSpec>::Retain(spec)) {}

  Status Open(const std::string& shards) {
    TUTTI_RETURN_IF_ERROR(ReadHead());
    return ReadShards(shards);
  }

  void Next(const Demand& demand, Slab* slab) override {
    if (!ended_ && row_ == rows_.rows) {
      slab->status = Load();
      // Nobody can tell what lies behind the damage.
      if (!slab->status.ok()) {
        ended_ = true;
        rows_.Clear();
        row_ = 0;
        return;
      }
    }
    const int64_t rows = std::min(demand.max_rows, rows_.rows - row_);
    if (rows > 0) *slab = rows_.Slice(row_, row_ + rows);
    row_ += rows;
    slab->end = ended_ && row_ == rows_.rows;
  }

  Status Skip(int64_t rows) override {
    int64_t left = rows;
    while (left > 0) {
      if (row_ == rows_.rows) {
        if (!ended_) TUTTI_RETURN_IF_ERROR(Load());
        if (ended_) {
          return FailedPrecondition("file {} has {} of {} elements", Quote(file_->path()),
                                    rows - left, rows)
              .With("file", file_->path());
        }
      }
      const int64_t here = std::min(left, rows_.rows - row_);
      row_ += here;
      left -= here;
    }
    return OkStatus();
  }

  const CacheOrigin* origin() const override { return nullptr; }

 private:
  Status ReadHead() {
    BytesView record{};
    bool found = false;
    TUTTI_RETURN_IF_ERROR(ReadRecord(&record, &found));
    if (!found) return Damaged("it is empty");
    std::string_view text = record.text();
    if (!text.starts_with(kMagic)) {
      return InvalidArgument(
                 "file {} is no cache that this version can read: it should begin with {}; give "
                 "another filename, or remove the file",
                 Quote(file_->path()), Quote(kMagic))
          .With("file", file_->path());
    }
    text.remove_prefix(kMagic.size());
    if (spec_ == nullptr) return OkStatus();
    must_check_ = true;
    if (text.empty()) return OkStatus();
    v1::SpecDef def;
    if (!def.ParseFromArray(text.data(), static_cast<int>(text.size()))) {
      return Damaged("its spec does not parse");
    }
    Result<Ref<const ElementSpec>> kept = ReadSpec(def);
    if (!kept.ok()) return Damaged(kept.status().message());
    must_check_ = !spec_->IsMoreGeneralThan(**kept);
    if (spec_->IsCompatibleWith(**kept)) return OkStatus();
    return OfAnotherSpec((*kept)->ToString());
  }

  // The record behind the head, if it is about shards; else it is kept for Load.
  Status ReadShards(const std::string& expected) {
    first_ = FirstRecord{file_->position(), OkStatus()};
    first_->status = ReadRecord(&first_->record, &first_->found);
    std::string found;
    if (first_->status.ok() && first_->found) {
      StateReader reader(first_->record.text());
      if (reader.IntIn(kEndRecord, kShardsRecord) == kShardsRecord) {
        found = reader.Bytes();
        if (!reader.ok() || !reader.at_end() || found.empty()) {
          return Damaged("a record does not parse", first_->at);
        }
        first_.reset();
      }
    }
    if (found == expected) return OkStatus();
    const auto name = [](const std::string& shards) {
      return shards.empty() ? std::string("all shards") : shards;
    };
    return InvalidArgument(
               "file {} keeps the elements of {}, and this dataset has those of {}; give each "
               "worker a filename of its own, or remove the file to have the elements made again",
               Quote(file_->path()), name(found), name(expected))
        .With("file", file_->path());
  }

  // The next rows, at least one, or the end.
  Status Load() {
    rows_.Clear();
    row_ = 0;
    BytesView record{};
    bool found = false;
    const RecordFilePosition at = first_.has_value() ? first_->at : file_->position();
    if (first_.has_value()) {
      // It has been read, to see whether it says of which shards the elements are.
      const FirstRecord first = *std::exchange(first_, std::nullopt);
      TUTTI_RETURN_IF_ERROR(first.status);
      found = first.found;
      record = first.record;
    } else {
      TUTTI_RETURN_IF_ERROR(ReadRecord(&record, &found));
    }
    if (!found) return Damaged("it ends without its last record");
    StateReader reader(record.text());
    const int64_t kind = reader.IntIn(kEndRecord, kRowsRecord);
    if (kind == kEndRecord) {
      const int64_t count = reader.Int();
      if (!reader.ok() || !reader.at_end() || count != count_) {
        return Damaged("its last record does not fit", at);
      }
      ended_ = true;
      return OkStatus();
    }
    reader.Rows(&rows_);
    if (!reader.ok() || !reader.at_end() || rows_.rows < 1 || rows_.columns.empty()) {
      return Damaged("a record does not parse", at);
    }
    if (must_check_) {
      for (int64_t i = 0; i < rows_.rows; ++i) {
        TUTTI_ASSIGN_OR_RETURN(const Ref<Value> row, rows_.Row(i));
        if (!spec_->Check(*row, "an element").ok()) {
          return OfAnotherSpec(ElementSpec::OfValue(*row)->ToString());
        }
      }
    }
    count_ += rows_.rows;
    return OkStatus();
  }

  // The view is good until the next call.
  Status ReadRecord(BytesView* record, bool* found) {
    records_.clear();
    const Status status = file_->Read(1, &records_);
    if (status.code() == StatusCode::kDataLoss) {
      return status.WithPrefix(
          "the cache is damaged (remove the file to have the elements made again)");
    }
    TUTTI_RETURN_IF_ERROR(status);
    *found = !records_.empty();
    if (*found) *record = records_[0];
    return OkStatus();
  }

  Status Damaged(std::string_view what) const { return Damaged(what, file_->position()); }
  Status Damaged(std::string_view what, const RecordFilePosition& at) const {
    return DataLoss(
               "the cache is damaged: file {}: record {} at byte {}: {}; remove the file to have "
               "the elements made again",
               Quote(file_->path()), at.index, at.offset, what)
        .With("file", file_->path())
        .With("offset", at.offset);
  }

  Status OfAnotherSpec(const std::string& found) const {
    return InvalidArgument(
               "file {} keeps elements of {}, and this dataset has {}; give another filename, or "
               "remove the file to have the elements made again",
               Quote(file_->path()), found, spec_->ToString())
        .With("file", file_->path());
  }

  // What stands behind the head, unless it was about shards.
  struct FirstRecord {
    RecordFilePosition at;
    Status status;
    bool found = false;
    BytesView record{};  // good until the next one is read
  };

  const std::unique_ptr<RecordFileReader> file_;
  const Ref<const ElementSpec> spec_;
  std::optional<FirstRecord> first_;
  bool must_check_ = false;  // the file does not say enough about its elements
  std::vector<BytesView> records_;
  Slab rows_;
  int64_t row_ = 0;    // in rows_
  int64_t count_ = 0;  // of all rows so far
  bool ended_ = false;
};

class FileCacheWriter final : public CacheWriter {
 public:
  FileCacheWriter(Disk& disk, std::unique_ptr<WritableFile> file, std::shared_ptr<FileLock> lock)
      : disk_(disk), lock_(std::move(lock)), file_(std::move(file)) {}

  Status Begin(const ElementSpec* spec, const std::string& shards) {
    std::string head(kMagic);
    if (spec != nullptr) {
      TUTTI_RETURN_IF_ERROR(CheckLevels(*spec));
      v1::SpecDef def;
      WriteSpec(*spec, &def);
      head += def.SerializeAsString();
    }
    TUTTI_RETURN_IF_ERROR(AppendRecord(head));
    if (!shards.empty()) {
      StateWriter record;
      record.Int(kShardsRecord);
      record.Bytes(shards);
      TUTTI_RETURN_IF_ERROR(AppendRecord(record.bytes()));
    }
    // Others look at it while the rows are to come.
    return Flush();
  }

  Status Append(const Slab& rows) override {
    if (rows.rows == 0) return OkStatus();
    if (rows.columns.empty()) {
      return InvalidArgument("an element is {}, in which there is nothing that a file could keep",
                             rows.tree ? rows.tree->ToString() : "empty");
    }
    for (const Column& column : rows.columns) {
      for (const Leaf& leaf : column.leaves()) TUTTI_RETURN_IF_ERROR(CheckKind(leaf.kind()));
    }
    StateWriter record;
    record.Int(kRowsRecord);
    TUTTI_RETURN_IF_ERROR(record.Rows(rows));
    count_ += rows.rows;
    return AppendRecord(record.bytes());
  }

  Status Complete() override {
    StateWriter record;
    record.Int(kEndRecord);
    record.Int(count_);
    TUTTI_RETURN_IF_ERROR(AppendRecord(record.bytes()));
    TUTTI_RETURN_IF_ERROR(Flush());
    if (!disk_.Exists(file_->path())) TUTTI_RETURN_IF_ERROR(file_->Commit());
    file_.reset();
    lock_.reset();
    return OkStatus();
  }

 private:
  Status AppendRecord(std::string_view record) {
    const std::array<char, kTfRecordHeaderBytes> head = TfRecordHeader(record);
    const std::array<char, kTfRecordFooterBytes> foot = TfRecordFooter(record);
    buffer_.append(head.data(), head.size());
    buffer_.append(record);
    buffer_.append(foot.data(), foot.size());
    return buffer_.size() >= kBufferBytes ? Flush() : OkStatus();
  }

  Status Flush() {
    Status status = file_->Append(buffer_);
    buffer_.clear();
    return status;
  }

  Disk& disk_;
  // Before the file, which goes first.
  std::shared_ptr<FileLock> lock_;
  std::unique_ptr<WritableFile> file_;
  std::string buffer_;
  int64_t count_ = 0;
};

class FileCache final : public CacheStore {
 public:
  FileCache(Ref<Environment> environment, const std::string& filename, std::string shards)
      : environment_(std::move(environment)),
        path_(filename + ".cache"),
        lock_path_(filename + ".lock"),
        shards_(std::move(shards)) {}

  Result<std::unique_ptr<CacheReader>> OpenReader(const ExecContext& context,
                                                  const ElementSpec* spec) override {
    RecordFileOptions options;
    options.account = Ref<MemoryAccount>::Retain(context.account);
    Result<std::unique_ptr<RecordFileReader>> file = OpenTfRecordReader(disk(), path_, options);
    if (file.status().code() == StatusCode::kNotFound) return std::unique_ptr<CacheReader>();
    TUTTI_RETURN_IF_ERROR(file.status());
    auto reader = std::make_unique<FileCacheReader>(std::move(file).value(), spec);
    TUTTI_RETURN_IF_ERROR(reader->Open(shards_));
    return std::unique_ptr<CacheReader>(std::move(reader));
  }

  Result<std::unique_ptr<CacheWriter>> OpenWriter(const ElementSpec* spec,
                                                  const CacheOrigin&) override {
    TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<FileLock> lock, Lock());
    if (lock == nullptr) {
      TUTTI_RETURN_IF_ERROR(CheckUnfinished());
      return std::unique_ptr<CacheWriter>();
    }
    // Who had the lock before may have completed the file.
    if (disk().Exists(path_)) return std::unique_ptr<CacheWriter>();
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, disk().Create(path_));
    auto writer = std::make_unique<FileCacheWriter>(disk(), std::move(file), std::move(lock));
    TUTTI_RETURN_IF_ERROR(writer->Begin(spec, shards_));
    return std::unique_ptr<CacheWriter>(std::move(writer));
  }

 private:
  Disk& disk() const { return environment_->disk(); }

  // Null when somebody else has it.
  Result<std::shared_ptr<FileLock>> Lock() {
    std::lock_guard guard(mutex_);
    if (std::shared_ptr<FileLock> held = lock_.lock()) return held;
    Result<std::unique_ptr<FileLock>> taken = disk().Lock(lock_path_);
    if (taken.status().code() == StatusCode::kAlreadyExists) return std::shared_ptr<FileLock>();
    if (taken.status().code() == StatusCode::kNotFound) {
      return NotFound("cannot write file {}: its folder does not exist; make the folder first",
                      Quote(path_))
          .With("file", path_);
    }
    TUTTI_RETURN_IF_ERROR(taken.status());
    std::shared_ptr<FileLock> lock = std::move(taken).value();
    lock_ = lock;
    RemoveLeftovers();
    return lock;
  }

  // INVALID_ARGUMENT when what somebody else is writing is going to be of other shards. A head that
  // is not there yet, or not any more, says nothing.
  Status CheckUnfinished() const {
    for (const std::string& path : Unfinished()) {
      Result<std::unique_ptr<RecordFileReader>> file = OpenTfRecordReader(disk(), path, {});
      if (!file.ok()) continue;
      FileCacheReader reader(std::move(file).value(), nullptr);
      const Status fits = reader.Open(shards_);
      if (fits.code() != StatusCode::kInvalidArgument) continue;
      return fits.WithPrefix(Format("file {} is being written", Quote(path_)));
    }
    return OkStatus();
  }

  // With the lock: nobody else writes, so temporary files are of dead writers.
  void RemoveLeftovers() const {
    for (const std::string& path : Unfinished()) {
      [[maybe_unused]] const Status removed = disk().Remove(path);
    }
  }

  // The temporary files of this one.
  std::vector<std::string> Unfinished() const {
    const size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : path_.substr(0, slash + 1);
    const std::string prefix = path_.substr(folder.size()) + ".";
    std::vector<std::string> paths;
    const Result<std::vector<std::string>> names = disk().List(folder.empty() ? "." : folder);
    if (!names.ok()) return paths;
    for (const std::string& name : *names) {
      if (name.starts_with(prefix) && name.ends_with(".tmp")) paths.push_back(folder + name);
    }
    return paths;
  }

  const Ref<Environment> environment_;
  const std::string path_;
  const std::string lock_path_;
  const std::string shards_;
  std::mutex mutex_;               // guards lock_
  std::weak_ptr<FileLock> lock_;   // what the writers of this definition share
};

}  // namespace

Ref<CacheStore> MakeFileCache(DatasetEnvironment& environment, const std::string& filename,
                              std::string shards) {
  return MakeRef<FileCache>(environment.environment_ref(), filename, std::move(shards));
}

Status CheckFileCacheSpec(const ElementSpec& spec) {
  for (const LeafSpec& leaf : spec.leaves()) TUTTI_RETURN_IF_ERROR(CheckKind(leaf.kind));
  return OkStatus();
}

}  // namespace tutti
