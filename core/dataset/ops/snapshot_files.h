// SnapshotFolder: where a snapshot lies, and who writes it.
//
//   FOLDER/index        what there is: written last, and by that alone the snapshot is there
//   FOLDER/SHARD.shard  the elements of one shard
//   FOLDER/lock         held by who writes
//
// All are records framed as in TFRecord files, so that every byte stands under a checksum:
//
//   index   "TUTTI-S1", the spec of the elements (SpecDef; nothing when it is not known), the
//           number of all rows, and of each shard its number, rows and checksum
//   shard   blocks: how they are compressed, their rows, and rows as they came, up to some size;
//           at the end 0, the number of all rows, and the checksum over the blocks
//
// Each file is written under a temporary name and gets its own when it is complete, the index when
// all shards are. What a dead writer left has no index, and the next writer removes it. A complete
// snapshot is never written again, unless somebody removes its index.
//
// Threads: a folder any; a reader or a writer one at a time.
#ifndef TUTTI_CORE_DATASET_OPS_SNAPSHOT_FILES_H_
#define TUTTI_CORE_DATASET_OPS_SNAPSHOT_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/disk.h"
#include "core/base/environment.h"
#include "core/base/memory_account.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/records/record_file_reader.h"
#include "core/tensor/element_spec.h"

namespace tutti {

enum class SnapshotCompression : int32_t { kNone = 1, kSnappy = 2, kGzip = 3 };

// Of a shard: what its end must say.
struct SnapshotShard {
  int64_t number = 0;
  int64_t rows = 0;
  int64_t checksum = 0;
  std::string path;
};

struct SnapshotIndex {
  std::string spec;  // bytes of a SpecDef; empty when it is not known
  int64_t rows = 0;
  std::vector<SnapshotShard> shards;  // at least one, by number
  int64_t digest = 0;                 // of all this: two snapshots with one are the same
};

// Rows of one shard, in order.
class SnapshotShardReader {
 public:
  // DATA_LOSS when there is no such file: an index says that there is.
  static Result<std::unique_ptr<SnapshotShardReader>> Open(Disk& disk, const SnapshotShard& shard,
                                                           Ref<MemoryAccount> account);

  // As Stage::Next. DATA_LOSS, naming file and offset, for what is damaged, behind which there is
  // nothing.
  void Next(const Demand& demand, Slab* slab);
  // Passes over `rows` rows, whose blocks are not looked into.
  Status Skip(int64_t rows);

 private:
  SnapshotShardReader(std::unique_ptr<RecordFileReader> file, const SnapshotShard& shard)
      : file_(std::move(file)), shard_(shard) {}

  // The next block's rows are in block_, or that was the last one.
  Status NextBlock();
  Status OpenBlock();
  Status NextRows();
  Status Damaged(std::string_view what) const;

  const std::unique_ptr<RecordFileReader> file_;
  const SnapshotShard shard_;
  RecordFilePosition at_;  // of the record that is looked at
  std::string record_;
  // Of the block that is read: its rows, as they stand in the record until somebody wants them.
  int64_t kind_ = 0;
  int64_t block_rows_ = 0;
  int64_t content_bytes_ = 0;
  std::string_view packed_;
  bool is_open_ = false;
  std::string content_;
  std::string_view rest_;  // of content_
  Slab rows_;
  int64_t row_ = 0;  // in rows_
  int64_t count_ = 0;  // rows in all blocks before this one
  int64_t passed_ = 0;  // of this block
  uint32_t checksum_ = 0;
  bool ended_ = false;
};

// Writes the shards of one pass. After an error it is of no use any more; nothing stays of one that
// goes away before Complete.
class SnapshotWriter {
 public:
  ~SnapshotWriter();

  // Row i goes to shard `shards[i]`; all to shard 0 where `shards` is empty.
  Status Append(const Slab& rows, std::span<const int64_t> shards, MemoryAccount* account);
  // `spec` is that of the elements, null when it is not known.
  Status Complete(const ElementSpec* spec);

 private:
  friend Result<std::unique_ptr<SnapshotWriter>> OpenSnapshotWriter(
      Disk& disk, const std::string& folder, SnapshotCompression compression);
  class Shard;
  SnapshotWriter(Disk& disk, std::string folder, SnapshotCompression compression,
                 std::unique_ptr<FileLock> lock);
  Result<Shard*> ShardOf(int64_t number);

  Disk& disk_;
  const std::string folder_;
  const SnapshotCompression compression_;
  // Before the files, which go first.
  std::unique_ptr<FileLock> lock_;
  std::map<int64_t, std::unique_ptr<Shard>> shards_;
};

// None as long as nothing in `folder` is complete. DATA_LOSS, naming file and offset, for an index
// that is damaged.
Result<std::optional<SnapshotIndex>> ReadSnapshotIndex(Disk& disk, const std::string& folder);

// Null when somebody else writes to `folder`, or has just completed it; else nobody else does.
Result<std::unique_ptr<SnapshotWriter>> OpenSnapshotWriter(Disk& disk, const std::string& folder,
                                                           SnapshotCompression compression);

class SnapshotFolder final : public RefCounted {
 public:
  // `path`/`key`.
  SnapshotFolder(Ref<Environment> environment, const std::string& path, std::string_view key);

  Result<std::optional<SnapshotIndex>> ReadIndex() const {
    return ReadSnapshotIndex(environment_->disk(), folder_);
  }
  Result<std::unique_ptr<SnapshotWriter>> OpenWriter(SnapshotCompression compression) const {
    return OpenSnapshotWriter(environment_->disk(), folder_, compression);
  }

  const std::string& path() const { return folder_; }

 private:
  const Ref<Environment> environment_;
  const std::string folder_;
};

// INVALID_ARGUMENT unless such elements can stand in a snapshot.
Status CheckSnapshotSpec(const ElementSpec& spec);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_SNAPSHOT_FILES_H_
