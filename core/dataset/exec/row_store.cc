#include "core/dataset/exec/row_store.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace tutti {
namespace {

// One row as a leaf that pins nothing but itself.
Result<Leaf> OwnRow(const Column& column, int64_t i) {
  if (!column.is_dense()) return column.Row(i);
  TensorOptions options;
  options.zeroed = false;
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> row, column.dense()->Row(i)->Copy(options));
  return Leaf::OfTensor(std::move(row));
}

// So many rows ahead are fetched: slots are drawn at random, and what larger rows lie in is no
// longer in the first cache.
constexpr size_t kRowsFetched = 8;
constexpr size_t kLineBytes = 64;
constexpr size_t kMostFetchedBytes = 1024;  // of a row; the processor finds the rest itself

// Smaller ones are copied as soon as a place is noted.
constexpr size_t kLeastBorrowedBytes = 64;

void FetchRow(const char* row, size_t bytes) {
  for (size_t i = 0; i < std::min(bytes, kMostFetchedBytes); i += kLineBytes) {
    __builtin_prefetch(row + i);
  }
}

// out[k] = block[slots[k]]; block[slots[k]] = in[k] for k < refills. kBytes is the width of a row,
// or 0 for any, which `row_bytes` tells.
template <size_t kBytes>
void ExchangeRows(std::span<const int64_t> slots, size_t row_bytes, char* block, const char* in,
                  size_t refills, char* out) {
  const size_t bytes = kBytes != 0 ? kBytes : row_bytes;
  for (size_t k = 0; k < slots.size(); ++k) {
    if (kBytes == 0 && k + kRowsFetched < slots.size()) {
      FetchRow(block + static_cast<size_t>(slots[k + kRowsFetched]) * bytes, bytes);
    }
    char* row = block + static_cast<size_t>(slots[k]) * bytes;
    if (out != nullptr) std::memcpy(out + k * bytes, row, bytes);
    if (k < refills) std::memcpy(row, in + k * bytes, bytes);
  }
}

// The same of rows that stay where they are: places[i] is where slot i's is.
void ExchangePlaces(std::span<const int64_t> slots, size_t row_bytes, const char** places,
                    const char* in, size_t refills, char* out) {
  for (size_t k = 0; k < slots.size(); ++k) {
    const auto slot = static_cast<size_t>(slots[k]);
    if (out != nullptr) {
      if (k + kRowsFetched < slots.size()) {
        FetchRow(places[static_cast<size_t>(slots[k + kRowsFetched])], row_bytes);
      }
      std::memcpy(out + k * row_bytes, places[slot], row_bytes);
    }
    if (k < refills) places[slot] = in + k * row_bytes;
  }
}

}  // namespace

void RowStore::Clear() {
  tree_.reset();
  columns_.clear();
  origins_.clear();
  slots_ = 0;
}

void RowStore::ChooseColumns(const Slab& rows) {
  tree_ = rows.tree;
  columns_.resize(rows.columns.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = rows.columns[i];
    if (!column.is_dense() || column.dense()->dtype() == DType::kBytes) continue;
    columns_[i].dense = true;
    columns_[i].dtype = column.dense()->dtype();
    columns_[i].row_shape = column.dense()->shape().RowShape();
    columns_[i].row_bytes =
        static_cast<size_t>(columns_[i].row_shape.num_elements()) * ItemSize(columns_[i].dtype);
    const RefCounted* const owner = column.is_borrowed() ? column.dense()->owner() : nullptr;
    if (owner != nullptr && columns_[i].row_bytes >= kLeastBorrowedBytes) {
      columns_[i].owner = Ref<const RefCounted>::Retain(owner);
    }
  }
}

bool RowStore::Fits(const StoredColumn& stored, const Column& column) const {
  return column.is_dense() && column.dense()->dtype() == stored.dtype &&
         column.dense()->shape().RowShape() == stored.row_shape;
}

// Copies rows that were borrowed, of slots that have one.
Status RowStore::MakeOwned(StoredColumn* stored, int64_t slots) {
  const auto count =
      std::min(static_cast<size_t>(slots), stored->block->bytes() / sizeof(const char*));
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Buffer> block,
      Buffer::Create(std::max<size_t>(count, 1) * stored->row_bytes, /*zeroed=*/true, account_));
  auto* const to = static_cast<char*>(block->data());
  for (size_t i = 0; i < count; ++i) {
    const char* const row = static_cast<const char* const*>(stored->block->data())[i];
    if (row != nullptr) std::memcpy(to + i * stored->row_bytes, row, stored->row_bytes);
  }
  stored->block = std::move(block);
  stored->owner.reset();
  return OkStatus();
}

Status RowStore::MakeSparse(StoredColumn* stored, int64_t slots) {
  if (stored->owner) TUTTI_RETURN_IF_ERROR(MakeOwned(stored, slots));
  std::vector<Leaf> leaves(static_cast<size_t>(slots));
  for (int64_t i = 0; i < slots; ++i) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> row,
                           Tensor::FromData(stored->dtype, stored->row_shape,
                                            static_cast<const char*>(stored->block->data()) +
                                                static_cast<size_t>(i) * stored->row_bytes,
                                            stored->row_bytes));
    leaves[static_cast<size_t>(i)] = Leaf::OfTensor(std::move(row));
  }
  stored->leaves = std::move(leaves);
  stored->block.reset();
  stored->dense = false;
  return OkStatus();
}

Status RowStore::Reserve(StoredColumn* stored, int64_t slots) {
  if (!stored->dense) {
    if (stored->leaves.size() < static_cast<size_t>(slots)) {
      stored->leaves.resize(static_cast<size_t>(slots));
    }
    return OkStatus();
  }
  const size_t needed = static_cast<size_t>(slots) * stored->slot_bytes();
  const size_t have = stored->block ? stored->block->bytes() : 0;
  if (stored->block && needed <= have) return OkStatus();
  // A buffer that fills at once gets what it needs; one that grows doubles.
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Buffer> block,
      Buffer::Create(std::max(needed, std::min(have * 2, needed * 2)),
                     /*zeroed=*/static_cast<bool>(stored->owner), account_));
  if (stored->block) std::memcpy(block->data(), stored->block->data(), have);
  stored->block = std::move(block);
  return OkStatus();
}

// Makes sure that the rows can be stored, in `slots` slots.
Status RowStore::Accept(const Slab& rows, int64_t slots) {
  if (!tree_) ChooseColumns(rows);
  if (!(*tree_ == *rows.tree)) {
    return InvalidArgument("elements have the structures {} and {}", tree_->ToString(),
                           rows.tree->ToString());
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    StoredColumn& stored = columns_[i];
    if (stored.dense && !Fits(stored, rows.columns[i])) {
      TUTTI_RETURN_IF_ERROR(MakeSparse(&stored, slots_));
    }
    if (stored.owner && stored.owner.get() != rows.columns[i].dense()->owner()) {
      if (stored.block) {
        TUTTI_RETURN_IF_ERROR(MakeOwned(&stored, slots_));
      } else {
        stored.owner.reset();
      }
    }
    TUTTI_RETURN_IF_ERROR(Reserve(&stored, slots));
  }
  return OkStatus();
}

Status RowStore::Append(const Slab& rows, int64_t first) {
  const int64_t slots = std::max(slots_, first + rows.rows);
  TUTTI_RETURN_IF_ERROR(Accept(rows, slots));
  slots_ = slots;
  if (!rows.origins.empty() || !origins_.empty()) {
    origins_.resize(static_cast<size_t>(slots));
    for (int64_t r = 0; r < rows.rows; ++r) {
      origins_[static_cast<size_t>(first + r)] = rows.origins.Of(r);
    }
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    StoredColumn& stored = columns_[i];
    const Column& column = rows.columns[i];
    if (stored.owner) {
      auto* const places = static_cast<const char**>(stored.block->data()) + first;
      const char* const from = static_cast<const char*>(column.dense()->data());
      for (int64_t r = 0; r < rows.rows; ++r) {
        places[r] = from + static_cast<size_t>(r) * stored.row_bytes;
      }
      continue;
    }
    if (stored.dense) {
      std::memcpy(
          static_cast<char*>(stored.block->data()) + static_cast<size_t>(first) * stored.row_bytes,
          column.dense()->data(), static_cast<size_t>(rows.rows) * stored.row_bytes);
      continue;
    }
    for (int64_t r = 0; r < rows.rows; ++r) {
      TUTTI_ASSIGN_OR_RETURN(stored.leaves[static_cast<size_t>(first + r)], OwnRow(column, r));
    }
  }
  return OkStatus();
}

Status RowStore::Exchange(std::span<const int64_t> slots, const Slab& refill, Slab* out) {
  if (refill.rows > 0) TUTTI_RETURN_IF_ERROR(Accept(refill, slots_));
  const auto refills = static_cast<size_t>(refill.rows);
  const auto rows = static_cast<int64_t>(slots.size());
  if (out != nullptr) {
    out->rows = rows;
    out->tree = tree_;
  }
  if (!refill.origins.empty() || !origins_.empty()) {
    origins_.resize(static_cast<size_t>(slots_));
    for (size_t k = 0; k < slots.size(); ++k) {
      Origin& kept = origins_[static_cast<size_t>(slots[k])];
      if (out != nullptr) out->origins.Add(kept, 1);
      kept = k < refills ? refill.origins.Of(static_cast<int64_t>(k)) : Origin();
    }
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    StoredColumn& stored = columns_[i];
    if (!stored.dense) {
      std::vector<Leaf> leaves(slots.size());
      for (size_t k = 0; k < slots.size(); ++k) {
        Leaf& leaf = stored.leaves[static_cast<size_t>(slots[k])];
        leaves[k] = std::move(leaf);
        if (k >= refills) continue;
        TUTTI_ASSIGN_OR_RETURN(leaf, OwnRow(refill.columns[i], static_cast<int64_t>(k)));
      }
      if (out != nullptr) out->columns.push_back(Column::Rows(std::move(leaves)));
      continue;
    }
    Ref<Tensor> result;
    if (out != nullptr) {
      TensorOptions options;
      options.zeroed = false;
      options.account = account_;
      TUTTI_ASSIGN_OR_RETURN(result,
                             Tensor::Create(stored.dtype, stored.row_shape.Prepend(rows), options));
    }
    char* to = result ? static_cast<char*>(result->mutable_data()) : nullptr;
    const char* from =
        refills > 0 ? static_cast<const char*>(refill.columns[i].dense()->data()) : nullptr;
    char* block = static_cast<char*>(stored.block->data());
    const size_t bytes = stored.row_bytes;
    if (stored.owner) {
      ExchangePlaces(slots, bytes, reinterpret_cast<const char**>(block), from, refills, to);
      if (result) out->columns.push_back(Column::Dense(std::move(result)));
      continue;
    }
    switch (bytes) {
      case 1:
        ExchangeRows<1>(slots, bytes, block, from, refills, to);
        break;
      case 2:
        ExchangeRows<2>(slots, bytes, block, from, refills, to);
        break;
      case 4:
        ExchangeRows<4>(slots, bytes, block, from, refills, to);
        break;
      case 8:
        ExchangeRows<8>(slots, bytes, block, from, refills, to);
        break;
      default:
        ExchangeRows<0>(slots, bytes, block, from, refills, to);
    }
    if (result) out->columns.push_back(Column::Dense(std::move(result)));
  }
  return OkStatus();
}

}  // namespace tutti
