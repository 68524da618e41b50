// WovenRows: rows of several slabs in an order of their own, as one slab. Each column is gathered
// once; rows that are large, or do not lie in one piece, are views.
#ifndef TUTTI_CORE_DATASET_OPS_WOVEN_ROWS_H_
#define TUTTI_CORE_DATASET_OPS_WOVEN_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/dataset/exec/slab.h"
#include "core/tensor/gather.h"

namespace tutti {

class MemoryAccount;

class WovenRows {
 public:
  // A slab to pick from, which stays where it is until the rows are made; gives its number. Its
  // status and end are the caller's to look at.
  size_t AddSource(const Slab* slab) {
    sources_.push_back(slab);
    return sources_.size() - 1;
  }
  const Slab& source(size_t i) const { return *sources_[i]; }

  void Reserve(int64_t rows) { picks_.reserve(static_cast<size_t>(rows)); }
  // Rows [begin, end) of a source.
  void Pick(size_t source, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      picks_.push_back({static_cast<uint32_t>(source), row});
    }
  }
  int64_t rows() const { return static_cast<int64_t>(picks_.size()); }

  // Makes the rows that were picked, of which there are some. Sources have one structure.
  Status Make(MemoryAccount* account, Slab* slab) const;

 private:
  bool IsGathered(size_t column) const;

  std::vector<const Slab*> sources_;
  std::vector<RowRef> picks_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_WOVEN_ROWS_H_
