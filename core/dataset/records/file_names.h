// FileNames: the names of files in the elements of a stage's input, which are scalars or vectors of
// byte strings, one name after the other.
#ifndef TUTTI_CORE_DATASET_RECORDS_FILE_NAMES_H_
#define TUTTI_CORE_DATASET_RECORDS_FILE_NAMES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/node.h"

namespace tutti {

class FileNames {
 public:
  // Of the input of `node`'s stage.
  FileNames(const Node& node, Stage& input) : node_(node), input_(input) {}

  // Names that have been pulled and not been taken.
  size_t size() const { return names_.size() - next_; }
  bool empty() const { return size() == 0; }
  const std::string& operator[](size_t i) const { return names_[next_ + i]; }
  std::string Take() { return std::move(names_[next_++]); }

  // Those in the input's next element, when there are no others; slab->status or slab->end when
  // there is no element. It may name no file.
  void Pull(const Demand& demand, const CallOptions& options, Slab* slab);
  void Clear();

  // Two parts, in the order in which readers write them. The state of the input itself is the
  // stage's.
  void SaveNames(StateWriter* writer) const;
  void RestoreNames(StateReader* reader);
  Status SaveInput(StateWriter* writer) const { return input_.Save(writer); }
  void RestoreInput(StateReader* reader) { input_.Restore(reader); }

 private:
  const Node& node_;
  InputRows input_;
  std::vector<std::string> names_;  // of the input's last element
  size_t next_ = 0;                 // the first of them that has not been taken
};

// A stage of the names, as scalars.
std::unique_ptr<Stage> MakeFileNamesStage(const Node& node, const ExecContext& context,
                                          StageInputs inputs);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_FILE_NAMES_H_
