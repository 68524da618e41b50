#include "core/dataset/ops/snapshot_files.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/base/crc32c.h"
#include "core/base/error.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/exec/pick_rows.h"
#include "core/dataset/graph/value_proto.h"
#include "core/dataset/records/snappy_block.h"
#include "core/dataset/records/tf_record_reader.h"
#include "core/dataset/records/tf_record_writer.h"
#include "tutti/v1/dataset.pb.h"

namespace tutti {
namespace {

constexpr std::string_view kIndexMagic = "TUTTI-S1";
constexpr int64_t kEndOfShard = 0;
// Rows are collected up to here: what is compressed, and read, at once.
constexpr size_t kBlockBytes = 128 * 1024;
// Each is an open file while the snapshot is written.
constexpr int64_t kMostShards = 1000;
constexpr int64_t kMostCount = std::numeric_limits<int64_t>::max();
// DEFLATE has no more.
constexpr int64_t kMostInflation = 1040;
constexpr int kGzipBits = 15 + 16;

Status CheckSnapshotKind(LeafKind kind) {
  if (kind == LeafKind::kTensor || kind == LeafKind::kString || kind == LeafKind::kNone) {
    return OkStatus();
  }
  return InvalidArgument(
      "an element holds a {}, and a snapshot can hold tensors and strings only; map the elements "
      "to tensors first",
      LeafKindName(kind));
}

std::string FrameOf(std::string_view record) {
  const std::array<char, kTfRecordHeaderBytes> head = TfRecordHeader(record);
  const std::array<char, kTfRecordFooterBytes> foot = TfRecordFooter(record);
  std::string frame;
  frame.reserve(head.size() + record.size() + foot.size());
  frame.append(head.data(), head.size());
  frame.append(record);
  frame.append(foot.data(), foot.size());
  return frame;
}

Result<std::string> GzipBlock(std::string_view content) {
  z_stream zlib = {};
  if (deflateInit2(&zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipBits, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return Status::OutOfMemory();
  }
  std::string block(deflateBound(&zlib, static_cast<uLong>(content.size())), '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  zlib.avail_in = static_cast<uInt>(content.size());
  zlib.next_out = reinterpret_cast<Bytef*>(block.data());
  zlib.avail_out = static_cast<uInt>(block.size());
  deflate(&zlib, Z_FINISH);
  const size_t unused = zlib.avail_out;
  deflateEnd(&zlib);
  return block.substr(0, block.size() - unused);
}

// Null where it is no such block, of so many bytes.
std::optional<std::string> GunzipBlock(std::string_view block, int64_t bytes) {
  z_stream zlib = {};
  if (inflateInit2(&zlib, kGzipBits) != Z_OK) return std::nullopt;
  std::string content(static_cast<size_t>(bytes), '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(block.data()));
  zlib.avail_in = static_cast<uInt>(block.size());
  zlib.next_out = reinterpret_cast<Bytef*>(content.data());
  zlib.avail_out = static_cast<uInt>(content.size());
  const int result = inflate(&zlib, Z_FINISH);
  const bool good = result == Z_STREAM_END && zlib.avail_in == 0 && zlib.avail_out == 0;
  inflateEnd(&zlib);
  if (!good) return std::nullopt;
  return content;
}

std::string IndexPath(const std::string& folder) { return folder + "/index"; }
std::string ShardPath(const std::string& folder, int64_t number) {
  return Format("{}/{:05}.shard", folder, number);
}

}  // namespace

// ---- Writing. ----

class SnapshotWriter::Shard {
 public:
  Shard(std::unique_ptr<WritableFile> file, SnapshotCompression compression)
      : file_(std::move(file)), compression_(compression) {}

  Status Append(const Slab& rows) {
    TUTTI_RETURN_IF_ERROR(block_.Rows(rows));
    block_rows_ += rows.rows;
    rows_ += rows.rows;
    return block_.bytes().size() >= kBlockBytes ? WriteBlock() : OkStatus();
  }

  // All but the file's name.
  Status Finish(SnapshotShard* shard) {
    TUTTI_RETURN_IF_ERROR(WriteBlock());
    shard->rows = rows_;
    shard->checksum = checksum_;
    StateWriter record;
    record.Int(kEndOfShard);
    record.Int(rows_);
    record.Int(checksum_);
    return file_->Append(FrameOf(record.bytes()));
  }

  Status Commit() { return file_->Commit(); }

 private:
  Status WriteBlock() {
    if (block_rows_ == 0) return OkStatus();
    const std::string content = std::move(block_).TakeBytes();
    block_ = StateWriter();
    // zlib counts in unsigned int; one element may be that large.
    const SnapshotCompression compression =
        content.size() <= std::numeric_limits<uInt>::max() / 2 ? compression_
                                                               : SnapshotCompression::kNone;
    StateWriter record;
    record.Int(static_cast<int64_t>(compression));
    record.Int(std::exchange(block_rows_, 0));
    record.Int(static_cast<int64_t>(content.size()));
    switch (compression) {
      case SnapshotCompression::kNone:
        record.Bytes(content);
        break;
      case SnapshotCompression::kSnappy: {
        TUTTI_ASSIGN_OR_RETURN(const std::string block, SnappyCompress(content));
        record.Bytes(block);
        break;
      }
      case SnapshotCompression::kGzip: {
        TUTTI_ASSIGN_OR_RETURN(const std::string block, GzipBlock(content));
        record.Bytes(block);
        break;
      }
    }
    checksum_ = ExtendCrc32c(checksum_, record.bytes().data(), record.bytes().size());
    return file_->Append(FrameOf(record.bytes()));
  }

  const std::unique_ptr<WritableFile> file_;
  const SnapshotCompression compression_;
  StateWriter block_;
  int64_t block_rows_ = 0;
  int64_t rows_ = 0;
  uint32_t checksum_ = 0;
};

SnapshotWriter::SnapshotWriter(Disk& disk, std::string folder, SnapshotCompression compression,
                               std::unique_ptr<FileLock> lock)
    : disk_(disk),
      folder_(std::move(folder)),
      compression_(compression),
      lock_(std::move(lock)) {}

SnapshotWriter::~SnapshotWriter() = default;

Result<SnapshotWriter::Shard*> SnapshotWriter::ShardOf(int64_t number) {
  std::unique_ptr<Shard>& shard = shards_[number];
  if (shard == nullptr) {
    if (static_cast<int64_t>(shards_.size()) > kMostShards) {
      return InvalidArgument(
          "shard_func has given more than {} different numbers, and a snapshot has no more shards; "
          "give its remainder by the number of shards that are wanted",
          kMostShards);
    }
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                           disk_.Create(ShardPath(folder_, number)));
    shard = std::make_unique<Shard>(std::move(file), compression_);
  }
  return shard.get();
}

Status SnapshotWriter::Append(const Slab& rows, std::span<const int64_t> shards,
                              MemoryAccount* account) {
  if (rows.rows == 0) return OkStatus();
  if (rows.columns.empty()) {
    return InvalidArgument("an element is {}, in which there is nothing that a snapshot could keep",
                           rows.tree ? rows.tree->ToString() : "empty");
  }
  for (const Column& column : rows.columns) {
    for (const Leaf& leaf : column.leaves()) TUTTI_RETURN_IF_ERROR(CheckSnapshotKind(leaf.kind()));
  }
  if (shards.empty()) {
    TUTTI_ASSIGN_OR_RETURN(Shard* const only, ShardOf(0));
    return only->Append(rows);
  }
  std::map<int64_t, std::vector<int64_t>> of_shards;
  for (int64_t i = 0; i < rows.rows; ++i) {
    of_shards[shards[static_cast<size_t>(i)]].push_back(i);
  }
  for (const auto& [number, picked] : of_shards) {
    TUTTI_ASSIGN_OR_RETURN(Shard* const shard, ShardOf(number));
    TUTTI_ASSIGN_OR_RETURN(const Slab part, PickRows(rows, picked, account));
    TUTTI_RETURN_IF_ERROR(shard->Append(part));
  }
  return OkStatus();
}

Status SnapshotWriter::Complete(const ElementSpec* spec) {
  // A dataset without elements has a shard, too.
  if (shards_.empty()) TUTTI_RETURN_IF_ERROR(ShardOf(0).status());
  std::string spec_bytes;
  if (spec != nullptr) {
    TUTTI_RETURN_IF_ERROR(CheckLevels(*spec));
    v1::SpecDef def;
    WriteSpec(*spec, &def);
    spec_bytes = def.SerializeAsString();
  }
  StateWriter parts;
  int64_t rows = 0;
  for (const auto& [number, shard] : shards_) {
    SnapshotShard made;
    TUTTI_RETURN_IF_ERROR(shard->Finish(&made));
    TUTTI_RETURN_IF_ERROR(shard->Commit());
    rows += made.rows;
    parts.Int(number);
    parts.Int(made.rows);
    parts.Int(made.checksum);
  }
  StateWriter index;
  index.Bytes(kIndexMagic);
  index.Bytes(spec_bytes);
  index.Int(rows);
  index.Int(static_cast<int64_t>(shards_.size()));
  TUTTI_RETURN_IF_ERROR(
      disk_.WriteFile(IndexPath(folder_), FrameOf(index.bytes() + parts.bytes())));
  shards_.clear();
  lock_.reset();
  return OkStatus();
}

// ---- The folder. ----

SnapshotFolder::SnapshotFolder(Ref<Environment> environment, const std::string& path,
                               std::string_view key)
    : environment_(std::move(environment)), folder_(Format("{}/{}", path, key)) {}

Result<std::optional<SnapshotIndex>> ReadSnapshotIndex(Disk& disk, const std::string& folder) {
  const std::string path = IndexPath(folder);
  Result<std::unique_ptr<RecordFileReader>> file =
      OpenTfRecordReader(disk, path, RecordFileOptions());
  if (file.status().code() == StatusCode::kNotFound) return std::optional<SnapshotIndex>();
  TUTTI_RETURN_IF_ERROR(file.status());
  std::vector<BytesView> records;
  Status status = (*file)->Read(1, &records);
  const std::string advice =
      Format("the snapshot is damaged (remove folder {} to have it made again)", Quote(folder));
  if (status.code() == StatusCode::kDataLoss) return status.WithPrefix(advice);
  TUTTI_RETURN_IF_ERROR(status);
  const auto damaged = [&](std::string_view what) {
    return DataLoss("{}: file {}: offset 0: {}", advice, Quote(path), what)
        .With("file", path)
        .With("offset", int64_t{0});
  };
  if (records.empty()) return damaged("it is empty");
  const std::string_view record = records[0].text();
  SnapshotIndex index;
  index.digest = Crc32c(record.data(), record.size());
  StateReader reader(record);
  if (reader.Bytes() != kIndexMagic) {
    return InvalidArgument(
               "file {} is no snapshot that this version can read: it should begin with {}; remove "
               "the folder {} to have it made again",
               Quote(path), Quote(kIndexMagic), Quote(folder))
        .With("file", path);
  }
  index.spec = std::string(reader.Bytes());
  index.rows = reader.IntIn(0, kMostCount);
  const int64_t count = reader.IntIn(1, kMostShards);
  int64_t rows = 0;
  for (int64_t i = 0; i < count && reader.ok(); ++i) {
    SnapshotShard shard;
    shard.number = reader.IntIn(0, kMostCount);
    shard.rows = reader.IntIn(0, index.rows - rows);
    shard.checksum = reader.IntIn(0, std::numeric_limits<uint32_t>::max());
    shard.path = ShardPath(folder, shard.number);
    rows += shard.rows;
    index.shards.push_back(std::move(shard));
  }
  if (!reader.ok() || !reader.at_end() || rows != index.rows) {
    return damaged("what it says of its shards does not fit");
  }
  return std::optional<SnapshotIndex>(std::move(index));
}

Result<std::unique_ptr<SnapshotWriter>> OpenSnapshotWriter(Disk& disk, const std::string& folder,
                                                           SnapshotCompression compression) {
  TUTTI_RETURN_IF_ERROR(disk.MakeDirectories(folder));
  Result<std::unique_ptr<FileLock>> lock = disk.Lock(folder + "/lock");
  if (lock.status().code() == StatusCode::kAlreadyExists) return std::unique_ptr<SnapshotWriter>();
  TUTTI_RETURN_IF_ERROR(lock.status());
  // Who had the lock before may have completed it.
  if (disk.Exists(IndexPath(folder))) return std::unique_ptr<SnapshotWriter>();
  // Nobody else writes: what is there is of dead writers.
  const Result<std::vector<std::string>> names = disk.List(folder);
  for (size_t i = 0; names.ok() && i < names->size(); ++i) {
    const std::string& name = (*names)[i];
    if (name.find(".shard") == std::string::npos && !name.starts_with("index.")) continue;
    [[maybe_unused]] const Status removed = disk.Remove(folder + "/" + name);
  }
  return std::unique_ptr<SnapshotWriter>(
      new SnapshotWriter(disk, folder, compression, std::move(lock).value()));
}

// ---- Reading. ----

Result<std::unique_ptr<SnapshotShardReader>> SnapshotShardReader::Open(Disk& disk,
                                                                       const SnapshotShard& shard,
                                                                       Ref<MemoryAccount> account) {
  RecordFileOptions options;
  options.account = std::move(account);
  Result<std::unique_ptr<RecordFileReader>> file = OpenTfRecordReader(disk, shard.path, options);
  if (file.status().code() == StatusCode::kNotFound) {
    return DataLoss("the snapshot is damaged: file {}: offset 0: it is gone; remove the folder "
                    "that it stood in to have the snapshot made again",
                    Quote(shard.path))
        .With("file", shard.path)
        .With("offset", int64_t{0});
  }
  TUTTI_RETURN_IF_ERROR(file.status());
  return std::unique_ptr<SnapshotShardReader>(
      new SnapshotShardReader(std::move(file).value(), shard));
}

Status SnapshotShardReader::Damaged(std::string_view what) const {
  return DataLoss(
             "the snapshot is damaged: file {}: record {} at offset {}: {}; remove the folder that "
             "it stands in to have the snapshot made again",
             Quote(shard_.path), at_.index, at_.offset, what)
      .With("file", shard_.path)
      .With("offset", static_cast<int64_t>(at_.offset));
}

Status SnapshotShardReader::NextBlock() {
  if (is_open_ && (!rest_.empty() || row_ != rows_.rows)) {
    return Damaged("a block has more elements than it says");
  }
  count_ += block_rows_;
  block_rows_ = passed_ = 0;
  is_open_ = false;
  rows_.Clear();
  row_ = 0;
  std::vector<BytesView> records;
  at_ = file_->position();
  const Status status = file_->Read(1, &records);
  if (status.code() == StatusCode::kDataLoss) {
    return status.WithPrefix(
        "the snapshot is damaged (remove the folder that it stands in to have it made again)");
  }
  TUTTI_RETURN_IF_ERROR(status);
  if (records.empty()) return Damaged("it ends without its last record");
  record_.assign(records[0].text());
  StateReader reader(record_);
  kind_ = reader.IntIn(kEndOfShard, static_cast<int64_t>(SnapshotCompression::kGzip));
  if (kind_ == kEndOfShard) {
    const int64_t rows = reader.Int();
    const int64_t checksum = reader.Int();
    if (!reader.ok() || !reader.at_end() || rows != count_ || checksum != checksum_) {
      return Damaged("its last record does not fit the others");
    }
    if (rows != shard_.rows || checksum != shard_.checksum) {
      return Damaged("it is another file than the one that the snapshot's index names");
    }
    ended_ = true;
    return OkStatus();
  }
  block_rows_ = reader.IntIn(1, kMostCount);
  content_bytes_ = reader.IntIn(0, kMostCount);
  packed_ = reader.Bytes();
  if (!reader.ok() || !reader.at_end()) {
    block_rows_ = 0;
    return Damaged("a block does not parse");
  }
  if (block_rows_ > shard_.rows - count_) {
    block_rows_ = 0;
    return Damaged(Format("there are more than the {} elements that the snapshot's index names",
                          shard_.rows));
  }
  checksum_ = ExtendCrc32c(checksum_, record_.data(), record_.size());
  return OkStatus();
}

Status SnapshotShardReader::OpenBlock() {
  is_open_ = true;
  switch (static_cast<SnapshotCompression>(kind_)) {
    case SnapshotCompression::kNone:
      rest_ = packed_;
      break;
    case SnapshotCompression::kSnappy: {
      Result<std::string> content = SnappyDecompress(packed_);
      if (!content.ok()) return Damaged(content.status().message());
      content_ = std::move(content).value();
      rest_ = content_;
      break;
    }
    case SnapshotCompression::kGzip: {
      const auto packed = static_cast<int64_t>(packed_.size());
      std::optional<std::string> content;
      if (content_bytes_ / kMostInflation <= packed) content = GunzipBlock(packed_, content_bytes_);
      if (!content) return Damaged("a block is not what GZIP gives");
      content_ = std::move(*content);
      rest_ = content_;
      break;
    }
  }
  if (static_cast<int64_t>(rest_.size()) != content_bytes_) {
    return Damaged("a block has another size than it says");
  }
  // What Skip has passed over.
  for (int64_t left = passed_; left > 0;) {
    TUTTI_RETURN_IF_ERROR(NextRows());
    row_ = std::min(left, rows_.rows);
    left -= row_;
  }
  return OkStatus();
}

Status SnapshotShardReader::NextRows() {
  rows_.Clear();
  row_ = 0;
  StateReader reader(rest_);
  reader.Rows(&rows_);
  if (!reader.ok() || rows_.rows < 1 || rows_.columns.empty()) {
    rows_.Clear();
    return Damaged("a block's rows do not parse");
  }
  rest_ = reader.rest();
  return OkStatus();
}

void SnapshotShardReader::Next(const Demand& demand, Slab* slab) {
  Status status;
  while (status.ok() && !ended_ && passed_ == block_rows_) status = NextBlock();
  if (status.ok() && !ended_ && !is_open_) status = OpenBlock();
  if (status.ok() && !ended_ && row_ == rows_.rows) status = NextRows();
  if (!status.ok()) {
    // Nobody can tell what lies behind the damage.
    ended_ = true;
    passed_ = block_rows_ = row_ = 0;
    rows_.Clear();
    slab->status = WithLoss(std::move(status), Loss::kMany);
    return;
  }
  if (!ended_) {
    const int64_t rows =
        std::min({demand.max_rows, rows_.rows - row_, block_rows_ - passed_});
    *slab = rows_.Slice(row_, row_ + rows);
    row_ += rows;
    passed_ += rows;
  }
  slab->end = ended_;
}

Status SnapshotShardReader::Skip(int64_t rows) {
  while (rows > 0) {
    if (passed_ == block_rows_) {
      TUTTI_RETURN_IF_ERROR(NextBlock());
      if (ended_) return Damaged("it has fewer elements than were read of it before");
    }
    const int64_t here = std::min(rows, block_rows_ - passed_);
    passed_ += here;
    rows -= here;
  }
  return OkStatus();
}

Status CheckSnapshotSpec(const ElementSpec& spec) {
  for (const LeafSpec& leaf : spec.leaves()) TUTTI_RETURN_IF_ERROR(CheckSnapshotKind(leaf.kind));
  return OkStatus();
}

}  // namespace tutti
