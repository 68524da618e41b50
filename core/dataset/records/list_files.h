// list_files: the dataset of the names of the files that match glob patterns, and the dataset of
// names that are known already.
//
// The patterns are looked up when an iteration begins. Names come in byte order, each once, however
// many patterns match it; directories are left out. When nothing matches, iteration fails with
// NOT_FOUND naming the patterns. Shuffling is an op of its own behind it, so that sharding by file
// can go between the two.
#ifndef TUTTI_CORE_DATASET_RECORDS_LIST_FILES_H_
#define TUTTI_CORE_DATASET_RECORDS_LIST_FILES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

class Dataset;
class DatasetEnvironment;
struct OpTraits;

struct ListFilesOptions {
  std::string name;
  bool shuffle = true;  // anew for each iteration
  std::optional<int64_t> seed;
};

// INVALID_ARGUMENT without a pattern and for an empty one.
Result<Ref<Dataset>> MakeListFilesDataset(const Ref<DatasetEnvironment>& environment,
                                          std::vector<std::string> patterns,
                                          ListFilesOptions options);

// The names themselves, in order, whether there are such files or not.
Result<Ref<Dataset>> MakeFileNamesDataset(const Ref<DatasetEnvironment>& environment,
                                          std::span<const std::string> paths);

extern const OpTraits kListFilesOp;

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_LIST_FILES_H_
