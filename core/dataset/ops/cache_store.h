// CacheStore: where cache keeps the elements of one complete pass over its input, in memory
// (memory_cache.cc) or in a file (file_cache.cc). The iterations of a definition share one.
//
//   reader = store->OpenReader(...)          null: nothing is complete yet
//   writer = store->OpenWriter(...)          writer->Append(rows); ... writer->Complete();
//
// A writer that goes away before Complete leaves nothing behind. Several of one store may write at
// once; the first that completes decides what is kept, and for the others Complete does nothing. A
// file that another store writes, in this process or elsewhere, has no second writer.
//
// Threads: a store any; a reader or a writer one at a time.
#ifndef TUTTI_CORE_DATASET_OPS_CACHE_STORE_H_
#define TUTTI_CORE_DATASET_OPS_CACHE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/node.h"
#include "core/tensor/element_spec.h"

namespace tutti {

// From which position of the input a pass began, as its stages saved it: what makes the same
// elements again elsewhere.
struct CacheOrigin {
  Status status;  // why there is no state
  std::string state;
};

class CacheReader {
 public:
  virtual ~CacheReader() = default;

  // As Stage::Next.
  virtual void Next(const Demand& demand, Slab* slab) = 0;
  // Passes over `rows` rows. FAILED_PRECONDITION when there are fewer.
  virtual Status Skip(int64_t rows) = 0;
  // Of the pass that is kept. Null when what is kept stands for itself, as a file does.
  virtual const CacheOrigin* origin() const = 0;
  // Of the elements that are kept in memory (exec/ram_budget.h).
  virtual int64_t bytes() const { return 0; }
};

class CacheWriter {
 public:
  virtual ~CacheWriter() = default;

  // After an error the writer is of no use any more.
  virtual Status Append(const Slab& rows) = 0;
  // The pass is complete.
  virtual Status Complete() = 0;
};

class CacheStore : public RefCounted {
 public:
  // `context` is the reading iterator's, `spec` what its elements must fit, null for any.
  virtual Result<std::unique_ptr<CacheReader>> OpenReader(const ExecContext& context,
                                                          const ElementSpec* spec) = 0;
  // `spec` is that of the elements to come, null when it is not known. No writer, with success,
  // when a pass is complete by now, or is being written by somebody else.
  virtual Result<std::unique_ptr<CacheWriter>> OpenWriter(const ElementSpec* spec,
                                                          const CacheOrigin& origin) = 0;
};

// Charged to an account of its own below `environment`'s.
Ref<CacheStore> MakeMemoryCache(DatasetEnvironment& environment, const std::string& label);

// In the file `filename`.cache. `shards` says which part of the data its elements are, empty for
// all of it: a file of another part, or one that is being written, is INVALID_ARGUMENT.
Ref<CacheStore> MakeFileCache(DatasetEnvironment& environment, const std::string& filename,
                              std::string shards);

// INVALID_ARGUMENT unless such elements can stand in a file.
Status CheckFileCacheSpec(const ElementSpec& spec);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_CACHE_STORE_H_
