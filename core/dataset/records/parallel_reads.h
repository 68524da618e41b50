// num_parallel_reads of readers: records of several files in turn.
//
// With n files at a time they come in the order of an interleave with cycle_length n and
// block_length 1 over the files, each of which is read by the same reader, one after another. That
// interleave is what runs: threads open files and read ahead. Its stages are made here, so that a
// definition has the reader alone.
#ifndef TUTTI_CORE_DATASET_RECORDS_PARALLEL_READS_H_
#define TUTTI_CORE_DATASET_RECORDS_PARALLEL_READS_H_

#include <memory>

#include "core/base/status.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/node.h"

namespace tutti {

// Whether the reader `node` has more than one file at a time.
bool HasParallelReads(const Node& node);

// The stage of such a reader.
Result<std::unique_ptr<Stage>> MakeParallelReadsStage(const Node& node, const ExecContext& context,
                                                      StageInputs inputs);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_PARALLEL_READS_H_
