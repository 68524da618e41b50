// `tutti bench --tune`: measures, on the machine it runs on, which algorithm and chunk each
// collective should take, and writes the rows of the table of algorithms (TUTTI_COLLECTIVE_TABLE)
// in which that differs from what is built in.
//
// Which algorithms there are and what they can take the library is asked, by trying rows out: what
// it does not refuse is a candidate.
//
// A group may follow the rows of two localities. Those of its transport come first: over shared
// memory with tensors of which no rank knows the others', between hosts by calls that go from rank
// to rank. On these the others are tuned, of which one choice is to do as the first ones say:
// shared_window with tensors that all ranks map, and hosts.

#ifndef TUTTI_CAPI_TOOL_BENCH_TUNE_H_
#define TUTTI_CAPI_TOOL_BENCH_TUNE_H_

#include <string>
#include <vector>

#include "capi/tool/bench_job.h"
#include "capi/tool/bench_options.h"
#include "capi/tool/bench_tuner.h"

namespace tutti::tool {

// The side of it that measures, in a worker of the job.
class TuneWorker {
 public:
  explicit TuneWorker(const BenchOptions& options) : options_(options), job_(options_) {}

  int Run();

 private:
  CStatus ReadTables();
  // The group's second locality; empty for none, and then says why.
  CStatus FindSecondLocality(tutti_communicator* communicator, std::string* locality);
  // Whether all ranks have the same to do. Those of one process have; others may have been started
  // with tables of their own, and would wait for each other in vain.
  CStatus AreAlike(tutti_communicator* communicator, const std::vector<TuneTask>& tasks,
                   bool* alike);
  // What there is to tune at `locality`, if anything.
  void AddTasks(const std::string& locality, std::vector<TuneTask>* tasks) const;
  // What can be chosen at a place, the present choices first.
  std::vector<FitCandidate> CandidatesAt(const SelectorPlace& place,
                                         const std::vector<SelectorStep>& steps) const;
  // Whether the library would take such a table.
  bool Takes(const std::string& rows) const;
  CStatus UseRows(const std::string& rows) const;
  // A collective's calls from rank to rank, where that is to be chosen.
  std::string FlatRows(const SelectorPlace& place) const;
  // One collective. Returns the status to exit with.
  int Tune(const TuneTask& task);
  int Conclude() const;
  void Report(const TuneTask& task, const TuneOutcome& outcome);
  void Print(const std::string& line) const;

  BenchOptions options_;
  BenchJob job_;
  std::string locality_, second_locality_;
  int64_t rank_ = 0;  // in a process with all ranks, 0
  std::string built_in_, present_;
  // What the user's table says besides.
  std::string own_rows_;
  std::string rows_;  // that are to be written; they hold for what is tuned afterwards
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_TUNE_H_
