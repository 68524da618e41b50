// Auto-sharding: the part of a dataset that one of several workers reads, as a rewriting of its
// graph. Nodes are looked at by their traits, never by their names; the graph that comes in is not
// changed.
//
//   TUTTI_ASSIGN_OR_RETURN(ShardedDataset part, AutoShard(batches, policy, workers, worker, call));
//   if (part.policy == AutoShardPolicy::kData) ...       // cut the batches, then keep every
//                                                        // num_workers-th of the slices
//   if (part.needs_agreed_seed) ...                      // WithSeed(*part.dataset, agreed seed)
//
// FILE looks, from the end of the graph on and in every branch of it, for the first place where the
// elements are names of files: the input of a reader, or, when functions of the user read the
// files, what a file source makes. A shard goes there, below whatever only changes the order of the
// names or repeats them (a shuffle of names, for which every worker may then draw a seed of its
// own) and above whatever picks some of them (take, filter) or makes them (map). Where an element
// holds several names, the names are dealt out and not the elements.
//
// A function that gives datasets (flat_map, interleave) is called for the first element: where the
// dataset that comes is read from files, the op is a reader of all its elements, and they are dealt
// out.
//
// The files are counted here and now, without calling other functions of the user: names that a
// function picks or generates are of unknown number, which is not held against them. The shards of
// all workers then are disjoint and complete provided that every worker sees the same files and
// that the functions which make names do the same everywhere.
//
// Where there are fewer files than workers, several may share the files of a part
// (TooFewFiles::kShare): the workers w, w + parts, ... read the part w alike, and each keeps every
// `stride`-th of its elements, from number `before` on. Who reads does that: it is no operation of
// the dataset.
//
// DATA leaves the dataset as it is, for the shard belongs behind the cutting of its batches.
#ifndef TUTTI_CORE_DATASET_SHARD_AUTO_SHARD_H_
#define TUTTI_CORE_DATASET_SHARD_AUTO_SHARD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_options.h"

namespace tutti {

struct ShardedDataset {
  Ref<Dataset> dataset;  // rewritten, or the very one that came in
  // What was done: kOff, kFile, kData or kHint, never kAuto. kOff with one worker.
  AutoShardPolicy policy = AutoShardPolicy::kOff;
  // "sharded by file: 4 of 8 files, because ..."; one line.
  std::string explanation;
  // All files of the place that has the fewest, where they could be counted.
  std::optional<int64_t> num_files;
  // What is dealt out to the workers comes in an order that was drawn at random, by each for
  // itself: unless they agree on a seed (WithSeed) their shards overlap.
  bool needs_agreed_seed = false;
  // Of a part that several workers share: how many parts there are, which one it is, and which of
  // its elements are this worker's. 0 parts: it is this worker's alone.
  int64_t num_parts = 0;
  int64_t part = 0;
  int64_t before = 0;
  int64_t stride = 1;
};

// What becomes of fewer files than workers.
enum class TooFewFiles { kError, kShare };

// The part of `worker` of `num_workers`. Of one worker everything.
//
// INVALID_ARGUMENT for FILE where a branch reads no files, for FILE and AUTO with fewer files than
// workers (where they may share: with none), for HINT without a shard(kShardHint, kShardHint), for
// a policy or a worker out of range; the disk's errors. AUTO falls back to DATA, and logs it, where
// a branch reads no files.
Result<ShardedDataset> AutoShard(const Dataset& dataset, AutoShardPolicy policy,
                                 int64_t num_workers, int64_t worker, const CallOptions& call,
                                 TooFewFiles too_few = TooFewFiles::kError);

// Whether some op draws an order for which nobody gave a seed, so that another process would draw
// another one.
bool HasUnseededRandomness(const Dataset& dataset);

// The same graph with seeds derived from `seed` and from the op's place, wherever nobody gave one.
// They still count as not given: a saved iterator fits also a job that agrees on another seed.
Result<Ref<Dataset>> WithSeed(const Dataset& dataset, int64_t seed);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_SHARD_AUTO_SHARD_H_
