#include "capi/tool/bench_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "capi/tool/command_line.h"
#include "capi/tool/run_options.h"

namespace tutti::tool {
namespace {

constexpr const char* kUsage =
    "tutti bench [COLLECTIVE] [OPTIONS]\n"
    "       tutti bench --tune FILE [COLLECTIVE...] [OPTIONS]\n"
    "       TF_CONFIG=... tutti bench --join ...      on each of several hosts\n"
    "       tutti bench --device GPU ...              copies of this machine's GPUs";
constexpr const char* kFooter = R"(
Columns are those of nccl-tests: the size is that of the larger side of the call in bytes, algbw is
size over time, and busbw is algbw times 2(n-1)/n for all_reduce, (n-1)/n for what scatters, gathers
or exchanges shares, and 1 for broadcast and reduce. time is the mean over the ranks of their middle
batch of calls; p50 and p99 are of single calls of rank 0, in another loop. Calls go round among
several sets of tensors, so that small caches do not flatter, and the results of every set are
compared with what must come out: #wrong counts elements. The status is 1 when there are wrong ones.

The cores' round trip, before and after, is the time in which a cache line goes from one core to
another and back: figures with different ones cannot be compared.

--buffers shared measures tensors that the communicator makes (create_tensor), in memory that the
ranks of one machine map: large calls read them where they lie. In all_gather, gather and the uneven
exchange that goes for the inputs; their results are made by the call.

With --in-flight several calls are under way at once, through futures: time is that of all over
their number, p50 and p99 go from a call's issue to its end.

--tune measures every algorithm and chunk that the table of algorithms (tutti doctor prints it) may
choose, between so many workers and over the transport that is in use, and writes rows for what is
over 5 % faster than now, on this machine. TUTTI_COLLECTIVE_TABLE=FILE uses them; rows of several
runs may stand in one file. Over shared memory it goes on to the rows of shared_window, with tensors
that the ranks map, and between hosts of several ranks to those of hosts.

With --join the command is itself a worker: of the cluster that TF_CONFIG describes, started once
for each worker with the same words, as any program is. So several hosts are measured and tuned;
rank 0 prints and writes.

  tutti bench all_reduce --workers 2 --max 64M --svg bandwidth.svg --peer "Open MPI=mpi.json"
  tutti bench --tune here.table --workers 4 --seconds 120)";

// Those that the table of algorithms has rows for.
constexpr const char* kTunable[] = {"all_reduce", "reduce",     "reduce_scatter", "broadcast",
                                    "all_gather", "gather",     "scatter",        "all_to_all"};
constexpr double kSecondsOfTuning = 60;

struct Operation {
  const char* name;
  tutti_reduce_op op;
};
constexpr Operation kOperations[] = {{"sum", TUTTI_REDUCE_SUM}, {"mean", TUTTI_REDUCE_MEAN},
                                     {"min", TUTTI_REDUCE_MIN}, {"max", TUTTI_REDUCE_MAX},
                                     {"prod", TUTTI_REDUCE_PROD}};

constexpr tutti_dtype kDTypes[] = {
    TUTTI_DTYPE_INT8,    TUTTI_DTYPE_INT16,    TUTTI_DTYPE_INT32,   TUTTI_DTYPE_INT64,
    TUTTI_DTYPE_UINT8,   TUTTI_DTYPE_UINT16,   TUTTI_DTYPE_UINT32,  TUTTI_DTYPE_UINT64,
    TUTTI_DTYPE_FLOAT16, TUTTI_DTYPE_BFLOAT16, TUTTI_DTYPE_FLOAT32, TUTTI_DTYPE_FLOAT64};

std::string CheckByteSize(const std::string& text) {
  const std::optional<int64_t> bytes = ParseByteSize(text);
  if (bytes && *bytes > 0) return "";
  return fmt::format("\"{}\" is no size; expected one like 8, 64K or 16M", text);
}

// Says what is wrong and gives the status for it.
template <typename... Args>
int Refuse(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "tutti bench: {}\ntutti bench --help says more\n",
             fmt::format(format, std::forward<Args>(args)...));
  return kExitUsage;
}

}  // namespace

std::optional<int64_t> ParseByteSize(const std::string& text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || number < 0) return std::nullopt;
  std::string unit(rest, end);
  for (const char* suffix : {"iB", "B"}) {
    if (unit.ends_with(suffix)) {
      unit.resize(unit.size() - std::string(suffix).size());
      break;
    }
  }
  int shift = 0;
  if (unit == "K" || unit == "k") shift = 10;
  if (unit == "M") shift = 20;
  if (unit == "G") shift = 30;
  if (shift == 0 && !unit.empty()) return std::nullopt;
  if (number > (std::numeric_limits<int64_t>::max() >> shift)) return std::nullopt;
  return number << shift;
}

std::vector<int64_t> BenchOptions::Sizes() const {
  if (collective->input == BenchPart::kNone && collective->output == BenchPart::kNone) return {0};
  std::vector<int64_t> sizes;
  for (int64_t bytes = min_bytes; bytes <= max_bytes; bytes *= factor) sizes.push_back(bytes);
  return sizes;
}

std::optional<int> ReadBenchOptions(const std::vector<std::string>& words, BenchOptions* options) {
  CLI::App app("Measures a collective between workers on this machine, and checks its results.",
               "tutti bench");
  app.footer(kFooter + 1);  // without its first line end
  std::string least = "8", most = "64M", dtype = "float32";
  std::string buffers = "private";
  std::vector<std::string> collectives, peers;
  bool no_bind = false;
  app.add_option("collective", collectives,
                 fmt::format("{} (default all_reduce)", BenchCollectiveNames()))
      ->type_name("");
  CLI::Option* const workers_option =
      app.add_option("--workers", options->workers, "How many ranks (default 2)")
          ->type_name("N")
          ->check(CLI::Range(1, BenchOptions::kMaxWorkers));
  app.add_flag("--join", options->join,
               "Start nothing: this process is one worker of the cluster in TF_CONFIG");
  CLI::Option* const min_option =
      app.add_option("--min", least, "The smallest size (default 8; with --tune 256)")
          ->type_name("BYTES")
          ->check(CheckByteSize);
  CLI::Option* const max_option =
      app.add_option("--max", most, "The largest size (default 64M; with --tune 16M)")
          ->type_name("BYTES")
          ->check(CheckByteSize);
  app.add_option("--factor", options->factor, "Each size is so many times the last (default 2)")
      ->type_name("N")
      ->check(CLI::Range(2, 1024));
  app.add_option("--transport", options->transport,
                 "auto, shared_memory, tcp, or in_process: threads instead of processes")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "shared_memory", "tcp", "in_process"}));
  app.add_option("--dtype", dtype, "The elements (default float32)")->type_name("NAME");
  app.add_option("--op", options->op_name, "sum, mean, min, max or prod (default sum)")
      ->type_name("NAME");
  app.add_option("--iterations", options->iterations,
                 "Calls per size and loop; otherwise as many as fit into --seconds")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}));
  CLI::Option* const seconds_option =
      app.add_option("--seconds", options->seconds,
                     "How long a loop should take (default 0.2); with --tune all together (60)")
          ->type_name("TIME")
          ->check(CLI::Range(0.001, 3600.0));
  app.add_option("--in-flight", options->in_flight,
                 "So many calls under way at once, through futures")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app.add_option("--tensors", options->tensors,
                 "So many tensors in each call (all_reduce), the size of all together")
      ->type_name("N")
      ->check(CLI::Range(1, 100000));
  CLI::Option* const buffers_option =
      app.add_option("--buffers", buffers,
                     "private, or shared: tensors in memory that the ranks map (default private)")
          ->type_name("KIND")
          ->check(CLI::IsMember({"private", "shared"}));
  app.add_option("--tune", options->tune,
                 "Write rows of the table of algorithms that suit this machine; - is stdout")
      ->type_name("FILE");
  app.add_flag("--no-bind", no_bind,
               "Leave the ranks' threads to the scheduler; otherwise each has a core of its own, "
               "where there are enough");
  app.add_flag("--json", options->as_json, "One JSON object instead of the table");
  app.add_option("--progress", options->progress,
                 "How far it is, on stderr: line, lines (one for each size) or off (default line "
                 "on a terminal that shows nothing else meanwhile)")
      ->type_name("FORM")
      ->check(CLI::IsMember({"line", "lines", "off"}));
  app.add_option("--svg", options->svg, "Also draw bus bandwidth over size")->type_name("FILE");
  app.add_option("--peer", peers,
                 "Draw what --json wrote, for another system or another time, beside it")
      ->type_name("NAME=FILE");
  if (const std::optional<int> status = ReadWords(app, kUsage, words)) return status;

  if (options->join && !workers_option->empty()) {
    return Refuse("--join takes the number of workers from the cluster; leave out --workers");
  }
  if (options->join && options->transport == "in_process") {
    return Refuse("--join is for workers of a cluster, and not for --transport in_process");
  }
  if (!options->tune.empty()) {
    if (min_option->empty()) least = "256";
    if (max_option->empty()) most = "16M";
    if (seconds_option->empty()) options->seconds = kSecondsOfTuning;
    if (collectives.empty()) collectives.assign(std::begin(kTunable), std::end(kTunable));
    if (options->workers < 2 && !options->join) return Refuse("--tune needs two workers at least");
    if (options->iterations || options->as_json || !options->svg.empty() ||
        options->in_flight > 0 || options->tensors > 1 || !buffers_option->empty()) {
      return Refuse("--tune goes with --workers, --join, --transport, --min, --max, --factor, "
                    "--dtype, --op, --seconds, --progress and --no-bind only");
    }
  }
  if (collectives.empty()) collectives = {"all_reduce"};
  if (options->tune.empty() && collectives.size() > 1) {
    return Refuse("one collective at a time, but there are {}", fmt::join(collectives, " and "));
  }
  for (const std::string& name : collectives) {
    options->collective = FindBenchCollective(name);
    if (options->collective == nullptr) {
      return Refuse("there is no collective {}; there are {}", name, BenchCollectiveNames());
    }
    if (options->tune.empty()) break;
    if (std::find(std::begin(kTunable), std::end(kTunable), name) == std::end(kTunable)) {
      return Refuse("there is nothing to choose for {}; --tune knows {}", name,
                    fmt::join(kTunable, ", "));
    }
    if (std::find(options->tuned.begin(), options->tuned.end(), options->collective) !=
        options->tuned.end()) {
      return Refuse("{} is there twice", name);
    }
    options->tuned.push_back(options->collective);
  }
  if (options->in_flight > 0 && options->collective->start == nullptr) {
    return Refuse("--in-flight: {} has no future", options->collective->name);
  }
  if (options->tensors > 1 && options->collective->call_many == nullptr) {
    return Refuse("--tensors: {} takes one tensor; all_reduce takes several",
                  options->collective->name);
  }
  options->mapped = buffers == "shared";
  if (options->mapped && options->Sizes() == std::vector<int64_t>{0}) {
    return Refuse("--buffers: {} has no tensors", options->collective->name);
  }
  if (options->mapped && options->transport == "in_process") {
    return Refuse("--buffers shared: ranks of one process read each other's tensors wherever they "
                  "lie; leave it out");
  }
  if (options->mapped && options->transport == "tcp") {
    return Refuse("--buffers shared: over tcp there is no memory that all ranks map; leave out one "
                  "of both");
  }
  options->min_bytes = *ParseByteSize(least);
  options->max_bytes = *ParseByteSize(most);
  if (options->min_bytes > options->max_bytes) {
    return Refuse("--min {} is more than --max {}", least, most);
  }
  if (options->max_bytes > int64_t{1} << 40) return Refuse("--max {} is more than 1024G", most);
  options->dtype = TUTTI_DTYPE_INVALID;
  std::string dtypes;
  for (const tutti_dtype known : kDTypes) {
    const char* const name = tutti_dtype_get_name(known);
    if (dtype == name) options->dtype = known;
    dtypes += (dtypes.empty() ? "" : ", ") + std::string(name);
  }
  if (options->dtype == TUTTI_DTYPE_INVALID) {
    return Refuse("--dtype {} cannot be measured; {} can", dtype, dtypes);
  }
  options->op = 0;
  for (const Operation& operation : kOperations) {
    if (options->op_name == operation.name) options->op = operation.op;
  }
  if (options->op == 0) {
    return Refuse("--op {} is none of sum, mean, min, max and prod", options->op_name);
  }
  if (options->tune.empty() && !options->collective->reduces) options->op_name = "none";
  if (!peers.empty() && options->svg.empty()) {
    return Refuse("--peer is for the picture; say where it goes with --svg FILE");
  }
  if (!options->svg.empty() && options->Sizes().size() < 2) {
    return Refuse("--svg needs two sizes or more to draw");
  }
  for (const std::string& peer : peers) {
    const size_t equals = peer.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == peer.size()) {
      return Refuse("--peer {}: expected NAME=FILE.json", peer);
    }
    options->peers.push_back({peer.substr(0, equals), peer.substr(equals + 1)});
  }
  options->in_process = options->transport == "in_process";
  options->bind = !no_bind;
  return std::nullopt;
}

}  // namespace tutti::tool
