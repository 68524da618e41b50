// The cache in memory: chunks of some thousand rows, each column of a chunk dense where its rows
// have one dtype and shape. Rows are handed out as views; the chunks go with the last dataset and
// element that use them.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/cache_store.h"

namespace tutti {
namespace {

// A chunk is made when either is reached.
constexpr int64_t kChunkRows = 1024;
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

// What a row costs beside its elements where it is a leaf of its own.
constexpr uint64_t kBytesPerLeaf = sizeof(Leaf) + sizeof(Tensor) + Tensor::kInlineBytes;

uint64_t BytesOf(const Tensor& tensor) {
  uint64_t bytes = tensor.byte_size();
  if (tensor.dtype() != DType::kBytes) return bytes;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    bytes += static_cast<const BytesView*>(tensor.ElementAt(i))->text().size();
  }
  return bytes;
}

uint64_t BytesOf(const Slab& rows) {
  uint64_t bytes = 0;
  for (const Column& column : rows.columns) {
    if (column.is_dense()) {
      bytes += BytesOf(*column.dense());
      continue;
    }
    for (const Leaf& leaf : column.leaves()) {
      bytes += kBytesPerLeaf + (leaf.is_tensor() ? BytesOf(leaf.tensor()) : 0);
    }
  }
  return bytes;
}

// The rows of one pass. Does not change any more once it is kept.
struct CachedPass final : public RefCounted {
  explicit CachedPass(Ref<MemoryAccount> account) : account(std::move(account)) {}
  ~CachedPass() override { account->Unreserve(charged); }

  const Ref<MemoryAccount> account;
  std::vector<Slab> chunks;
  uint64_t charged = 0;  // for leaves; tensors charge themselves
  CacheOrigin origin;
};

class MemoryCacheReader final : public CacheReader {
 public:
  explicit MemoryCacheReader(Ref<const CachedPass> pass) : pass_(std::move(pass)) {}

  void Next(const Demand& demand, Slab* slab) override {
    const std::vector<Slab>& chunks = pass_->chunks;
    if (chunk_ < chunks.size()) {
      const Slab& chunk = chunks[chunk_];
      const int64_t rows = std::min(demand.max_rows, chunk.rows - row_);
      if (demand.count_only) {
        slab->rows = rows;
      } else {
        *slab = chunk.Slice(row_, row_ + rows);
      }
      Advance(rows);
    }
    slab->end = chunk_ == chunks.size();
  }

  Status Skip(int64_t rows) override {
    int64_t left = rows;
    while (left > 0 && chunk_ < pass_->chunks.size()) {
      const int64_t here = std::min(left, pass_->chunks[chunk_].rows - row_);
      Advance(here);
      left -= here;
    }
    if (left == 0) return OkStatus();
    return FailedPrecondition("{} of {} elements are in memory", rows - left, rows);
  }

  const CacheOrigin* origin() const override { return &pass_->origin; }
  int64_t bytes() const override {
    int64_t bytes = 0;
    for (const Slab& chunk : pass_->chunks) bytes += ElementBytes(chunk);
    return bytes;
  }

 private:
  void Advance(int64_t rows) {
    row_ += rows;
    if (row_ < pass_->chunks[chunk_].rows) return;
    row_ = 0;
    ++chunk_;
  }

  const Ref<const CachedPass> pass_;
  size_t chunk_ = 0;
  int64_t row_ = 0;  // in the chunk
};

class MemoryCache final : public CacheStore {
 public:
  explicit MemoryCache(Ref<MemoryAccount> account) : account_(std::move(account)) {}

  Result<std::unique_ptr<CacheReader>> OpenReader(const ExecContext&, const ElementSpec*) override {
    std::lock_guard lock(mutex_);
    if (!pass_) return std::unique_ptr<CacheReader>();
    return std::unique_ptr<CacheReader>(std::make_unique<MemoryCacheReader>(pass_));
  }

  Result<std::unique_ptr<CacheWriter>> OpenWriter(const ElementSpec*,
                                                  const CacheOrigin& origin) override;

  const Ref<MemoryAccount>& account() const { return account_; }
  void Keep(Ref<const CachedPass> pass) {
    std::lock_guard lock(mutex_);
    if (!pass_) pass_ = std::move(pass);
  }

 private:
  const Ref<MemoryAccount> account_;
  std::mutex mutex_;  // guards pass_
  Ref<const CachedPass> pass_;
};

class MemoryCacheWriter final : public CacheWriter {
 public:
  MemoryCacheWriter(Ref<MemoryCache> cache, const CacheOrigin& origin)
      : cache_(std::move(cache)), pass_(MakeRef<CachedPass>(cache_->account())) {
    pass_->origin = origin;
  }

  Status Append(const Slab& rows) override {
    if (rows.rows == 0) return OkStatus();
    open_.push_back(rows.Slice(0, rows.rows));
    open_rows_ += rows.rows;
    open_bytes_ += BytesOf(rows);
    return open_rows_ >= kChunkRows || open_bytes_ >= kChunkBytes ? MakeChunk() : OkStatus();
  }

  Status Complete() override {
    TUTTI_RETURN_IF_ERROR(MakeChunk());
    cache_->Keep(std::move(pass_));
    return OkStatus();
  }

 private:
  Status MakeChunk() {
    if (open_.empty()) return OkStatus();
    Result<Slab> made = JoinRows(open_, &*pass_->account);
    if (!made.ok()) return Full(made.status());
    Slab chunk = std::move(made).value();
    // Where they would take about as much as the rows they are not worth it.
    if (chunk.origins.num_runs() > static_cast<size_t>(8 + chunk.rows / 16)) {
      chunk.origins = Origins();
    }
    for (Column& column : chunk.columns) {
      if (column.is_dense()) {
        column = Column::Borrowed(column.dense());
        continue;
      }
      const uint64_t bytes = static_cast<uint64_t>(chunk.rows) * kBytesPerLeaf;
      const Status reserved = pass_->account->Reserve(bytes);
      if (!reserved.ok()) return Full(reserved);
      pass_->charged += bytes;
    }
    pass_->chunks.push_back(std::move(chunk));
    open_.clear();
    open_rows_ = 0;
    open_bytes_ = 0;
    return OkStatus();
  }

  static Status Full(const Status& status) {
    if (status.code() != StatusCode::kResourceExhausted) return status;
    return Status(status.code(),
                  Format("the elements do not fit in memory: {}; cache to a file by giving a "
                         "filename, or cache before what makes the elements large",
                         status.message()))
        .WithCause(status);
  }

  const Ref<MemoryCache> cache_;
  Ref<CachedPass> pass_;
  std::vector<Slab> open_;  // rows of the chunk to come
  int64_t open_rows_ = 0;
  uint64_t open_bytes_ = 0;
};

Result<std::unique_ptr<CacheWriter>> MemoryCache::OpenWriter(const ElementSpec*,
                                                             const CacheOrigin& origin) {
  return std::unique_ptr<CacheWriter>(
      std::make_unique<MemoryCacheWriter>(Ref<MemoryCache>::Retain(this), origin));
}

}  // namespace

Ref<CacheStore> MakeMemoryCache(DatasetEnvironment& environment, const std::string& label) {
  return MakeRef<MemoryCache>(MakeRef<MemoryAccount>(
      label, Ref<MemoryAccount>::Retain(&environment.environment().memory())));
}

}  // namespace tutti
