// The bytes of an iterator's saved state: numbers, byte strings and tensors one after the other,
// each with a tag, so that foreign or torn bytes are noticed where they differ. Envelope (magic,
// version, fingerprint, checksum) in iterator.cc.
#ifndef TUTTI_CORE_DATASET_EXEC_ITERATOR_STATE_H_
#define TUTTI_CORE_DATASET_EXEC_ITERATOR_STATE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/slab.h"
#include "core/tensor/tree_spec.h"

namespace tutti {

class Dataset;
class DatasetEnvironment;

// INVALID_ARGUMENT: a state has `what` ("shuffle") in version `saved`, and `known` is read here.
Status OtherStateVersion(std::string_view what, int64_t saved, int64_t known);

class StateWriter {
 public:
  void Int(int64_t value);
  void Bytes(std::string_view value);
  void Ints(std::span<const int64_t> values);
  // Marks where a stage begins; StateReader checks the same name there.
  void Section(std::string_view name);
  void Tree(const TreeSpec& tree);
  // The rows and their structure. A dataset in them is written with all its elements where it is a
  // value of its own (OpTraits::is_value, as windows are). FAILED_PRECONDITION for leaves that
  // cannot be written: other datasets, host objects.
  Status Rows(const Slab& slab);
  // Code, message and loss; OK, too.
  void Failure(const Status& status);

  const std::string& bytes() const { return bytes_; }
  std::string&& TakeBytes() && { return std::move(bytes_); }

 private:
  void Tag(char tag) { bytes_.push_back(tag); }
  void Number(uint64_t value);
  void Text(std::string_view value);
  Status WriteTensor(const Tensor& tensor);
  Status WriteDataset(const Dataset& dataset);

  std::string bytes_;
  int dataset_depth_ = 0;  // datasets in datasets
};

// After the first thing that does not fit all reads give zeros, and status() says what it was.
class StateReader {
 public:
  // The bytes must outlive the reader. Datasets that stand in rows are made in `environment`, and
  // cannot be read without one.
  explicit StateReader(std::string_view bytes, DatasetEnvironment* environment = nullptr)
      : rest_(bytes), environment_(environment) {}
  // For states within this one.
  DatasetEnvironment* environment() const { return environment_; }

  int64_t Int();
  // An Int that must lie in [low, high].
  int64_t IntIn(int64_t low, int64_t high);
  std::string_view Bytes();
  std::vector<int64_t> Ints();
  void Section(std::string_view name);
  // Whether that section comes next; reads nothing.
  bool IsAt(std::string_view section) const;
  // An Int that says in which version `what` was written: fails with OtherStateVersion.
  void Version(std::string_view what, int64_t known);
  // Null when it failed.
  Ref<const TreeSpec> Tree();
  // Rows that were only counted come back without a tree.
  void Rows(Slab* slab);
  Status Failure();

  bool ok() const { return status_.ok(); }
  bool at_end() const { return rest_.empty(); }
  // What has not been read yet.
  std::string_view rest() const { return rest_; }
  // INVALID_ARGUMENT once something did not fit.
  const Status& status() const { return status_; }
  void Fail(std::string_view why);

 private:
  bool Tag(char tag);
  uint64_t Number();
  std::string_view Text();
  Ref<Tensor> ReadTensor();
  Ref<const TreeSpec> ReadTree(int depth);
  Ref<Dataset> ReadDataset();

  std::string_view rest_;
  DatasetEnvironment* environment_;
  int dataset_depth_ = 0;
  Status status_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_ITERATOR_STATE_H_
