// The readers of a snapshot: its index, its shards, and the blocks in these that are compressed
// with Snappy.
//
// Input: which reader, then its bytes. 0: a shard's file. 1: a shard's records, each behind its
// length in two bytes, framed with the checksums that belong to them, so that what lies behind the
// checksums is reached. 2: the record of an index, framed likewise. 3: a block of Snappy's.
//
// Properties: a reader comes to an end, errors say which file and where, a shard has no more rows
// than its index says, who passes over rows reads what follows them, and what Snappy's compressor
// makes of what a block holds gives the same.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/disk.h"
#include "core/base/memory_account.h"
#include "core/dataset/ops/snapshot_files.h"
#include "core/dataset/records/snappy_block.h"
#include "core/dataset/records/tf_record_writer.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

constexpr const char* kShardPath = "/snapshot/00000.shard";
constexpr int64_t kRowsOfIndex = 5000;

std::string Framed(std::string_view record) {
  const std::array<char, kTfRecordHeaderBytes> head = TfRecordHeader(record);
  const std::array<char, kTfRecordFooterBytes> foot = TfRecordFooter(record);
  return std::string(head.data(), head.size()) + std::string(record) +
         std::string(foot.data(), foot.size());
}

// Each behind its length.
std::string FramedRecords(FuzzInput input) {
  std::string file;
  while (!input.empty()) {
    const auto length = input.Take<uint16_t>();
    file += Framed(input.TakeBytes(length));
  }
  return file;
}

void RequirePlace(const Status& status) {
  Require(!status.message().empty(), "a refusal says why");
  Require(status.code() != StatusCode::kDataLoss || (status.FindDetail("file") != nullptr &&
                                                     status.FindDetail("offset") != nullptr),
          "an error says where it is");
}

// The rows behind the first `skipped`, as text, and "!" for an error.
std::vector<std::string> RowsOf(Disk& disk, int64_t skipped) {
  const auto account = MakeRef<MemoryAccount>("fuzz");
  account->set_limit_bytes(64 << 20);
  const SnapshotShard shard{0, kRowsOfIndex, 0, kShardPath};
  const Result<std::unique_ptr<SnapshotShardReader>> reader =
      SnapshotShardReader::Open(disk, shard, account);
  if (!reader.ok()) {
    RequirePlace(reader.status());
    return {"!"};
  }
  const Status passed = (*reader)->Skip(skipped);
  if (!passed.ok()) {
    RequirePlace(passed);
    return {"!"};
  }
  std::vector<std::string> rows;
  for (bool end = false; !end;) {
    Slab slab;
    (*reader)->Next(Demand{7, false}, &slab);
    Require(slab.rows > 0 || !slab.status.ok() || slab.end, "a call gives something");
    Require(slab.rows <= 7, "no more rows than were asked for");
    for (int64_t i = 0; i < slab.rows; ++i) {
      const Result<Ref<Value>> row = slab.Row(i);
      rows.push_back(row.ok() ? (*row)->ToString() : std::string("?"));
    }
    Require(static_cast<int64_t>(rows.size()) <= kRowsOfIndex, "no more rows than the index says");
    if (!slab.status.ok()) {
      RequirePlace(slab.status);
      rows.emplace_back("!");
    }
    end = slab.end;
  }
  return rows;
}

void ReadShard(const std::string& file) {
  constexpr int64_t kPassed = 3;
  const std::unique_ptr<Disk> disk = MakeMemoryDisk();
  Require(disk->MakeDirectories("/snapshot").ok() && disk->WriteFile(kShardPath, file).ok(),
          "a file is written");
  const std::vector<std::string> all = RowsOf(*disk, 0);
  const std::vector<std::string> rest = RowsOf(*disk, kPassed);
  // Damage before that may be passed over.
  const auto good = std::find(all.begin(), all.end(), "!") - all.begin();
  if (good <= kPassed) return;
  Require(rest == std::vector<std::string>(all.begin() + kPassed, all.end()),
          "what follows passed rows is the same");
}

void ReadSnappy(std::string_view block) {
  const Result<std::string> content = SnappyDecompress(block);
  if (!content.ok()) {
    Require(content.status().code() == StatusCode::kDataLoss, "a bad block is a loss of data");
    return;
  }
  const Result<std::string> again = SnappyCompress(*content);
  Require(again.ok(), "content is compressed again");
  const Result<std::string> back = SnappyDecompress(*again);
  Require(back.ok() && *back == *content, "content is compressed to what gives it back");
}

void ReadIndex(std::string_view record) {
  const std::unique_ptr<Disk> disk = MakeMemoryDisk();
  Require(disk->MakeDirectories("/snapshot").ok() &&
              disk->WriteFile("/snapshot/index", Framed(record)).ok(),
          "a file is written");
  const Result<std::optional<SnapshotIndex>> index = ReadSnapshotIndex(*disk, "/snapshot");
  if (!index.ok()) return RequirePlace(index.status());
  Require(index->has_value(), "an index is there");
  Require(!(*index)->shards.empty(), "a snapshot has a shard");
  int64_t rows = 0;
  for (const SnapshotShard& shard : (*index)->shards) rows += shard.rows;
  Require(rows == (*index)->rows, "all rows are those of the shards");
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  FuzzInput input(data, size);
  switch (input.Take<uint8_t>() % 4) {
    case 0:
      ReadShard(std::string(input.TakeRest()));
      break;
    case 1:
      ReadShard(FramedRecords(input));
      break;
    case 2:
      ReadIndex(input.TakeRest());
      break;
    default:
      ReadSnappy(input.TakeRest());
  }
  return 0;
}
