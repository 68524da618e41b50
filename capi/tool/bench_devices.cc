#include "capi/tool/bench_devices.h"

#include <fmt/format.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "capi/tool/bench_options.h"
#include "capi/tool/c_handles.h"
#include "capi/tool/command_line.h"
#include "capi/tool/progress_line.h"
#include "capi/tool/run_options.h"

namespace tutti::tool {
namespace {

using CStream = std::unique_ptr<tutti_stream, Releaser<tutti_stream_release>>;

constexpr const char* kDevicesUsage = "tutti bench --device GPU[:N] [OPTIONS]";
constexpr const char* kDevicesFooter =
    "A row is a copy from one place to another: pageable is ordinary memory of the host, pinned is "
    "memory that a GPU copies from and to by itself. time is the middle one of several copies, "
    "until the copy is there, GB/s its size over that; #wrong counts bytes of the last copy that "
    "differ. Bytes of a copy within a GPU are read and written: its memory moves twice as many.";
constexpr int kMostCopies = 1000;
constexpr int kLeastCopies = 5;

struct Measured {
  std::string from, to;
  int64_t bytes = 0;
  double time_us = 0;
  int64_t wrong = 0;
  double gbps() const { return static_cast<double>(bytes) / time_us / 1e3; }
};

struct DeviceOptions {
  std::string device;
  int64_t min_bytes = 4096, max_bytes = int64_t{64} << 20, factor = 16;
  double seconds = 0.2;
  bool as_json = false;
};

// "GPU:0", "pinned" or "pageable".
CStatus MakeAt(const std::string& place, int64_t bytes, CTensor* tensor) {
  tutti_tensor_options options = TUTTI_TENSOR_OPTIONS_INIT;
  if (place == "pinned") {
    options.pinned = TUTTI_TRUE;
  } else if (place != "pageable") {
    options.device = place.c_str();
  }
  return CStatus(
      tutti_tensor_create(nullptr, TUTTI_DTYPE_UINT8, 1, &bytes, &options, Out(tensor)));
}

// The elements of `tensor` are those of `expected`, which lies on the host.
CStatus CountWrongBytes(const CTensor& tensor, const CTensor& expected, int64_t* wrong) {
  CTensor here;
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_tensor_copy_to(nullptr, tensor.get(), "CPU:0", nullptr, nullptr, Out(&here)));
  const auto* found = static_cast<const unsigned char*>(tutti_tensor_get_data(here.get()));
  const auto* wanted = static_cast<const unsigned char*>(tutti_tensor_get_data(expected.get()));
  const size_t bytes = tutti_tensor_get_byte_size(expected.get());
  *wrong = 0;
  for (size_t i = 0; i < bytes; ++i) *wrong += found[i] != wanted[i] ? 1 : 0;
  return nullptr;
}

CStatus MeasureCopy(const DeviceOptions& options, Measured* row) {
  CTensor numbers, from, to;
  TUTTI_TOOL_RETURN_IF_FAILED(MakeAt("pageable", row->bytes, &numbers));
  void* data = nullptr;
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_get_mutable_data(numbers.get(), &data));
  for (int64_t i = 0; i < row->bytes; ++i) {
    static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(i * 7 + i / 251);
  }
  TUTTI_TOOL_RETURN_IF_FAILED(MakeAt(row->from, row->bytes, &from));
  TUTTI_TOOL_RETURN_IF_FAILED(MakeAt(row->to, row->bytes, &to));
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_copy_into(numbers.get(), from.get()));
  // A copy between GPUs goes on when the call has returned.
  const bool returns_early = row->from.starts_with("GPU") && row->to.starts_with("GPU");
  CStream stream;
  if (returns_early) {
    TUTTI_TOOL_RETURN_IF_FAILED(
        tutti_device_get_stream(nullptr, row->to.c_str(), Out(&stream)));
  }
  std::vector<double> times;
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(options.seconds);
  while (times.size() < kLeastCopies ||
         (times.size() < kMostCopies && std::chrono::steady_clock::now() < end)) {
    const auto began = std::chrono::steady_clock::now();
    TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_copy_into(from.get(), to.get()));
    if (stream) TUTTI_TOOL_RETURN_IF_FAILED(tutti_stream_synchronize(stream.get(), nullptr));
    const std::chrono::duration<double, std::micro> took =
        std::chrono::steady_clock::now() - began;
    times.push_back(took.count());
  }
  std::sort(times.begin(), times.end());
  row->time_us = times[times.size() / 2];
  return CountWrongBytes(to, numbers, &row->wrong);
}

std::vector<Measured> RowsOf(const std::vector<std::string>& gpus, int64_t bytes) {
  std::vector<Measured> rows;
  const auto add = [&](const std::string& from, const std::string& to) {
    rows.push_back({from, to, bytes, 0, 0});
  };
  for (const std::string& gpu : gpus) {
    for (const char* host : {"pageable", "pinned"}) {
      add(host, gpu);
      add(gpu, host);
    }
    for (const std::string& other : gpus) add(gpu, other);
  }
  return rows;
}

int Failed(const CStatus& status) {
  fmt::print(stderr, "tutti bench: {}\n", tutti_status_get_message(status.get()));
  return tutti_status_get_code(status.get()) == TUTTI_NOT_FOUND ? kExitUsage : 1;
}

// The GPUs that are meant: one, or all.
CStatus FindGpus(const std::string& device, std::vector<std::string>* gpus) {
  CBytes known;
  if (device == "GPU") {
    TUTTI_TOOL_RETURN_IF_FAILED(tutti_device_list(nullptr, "GPU", Out(&known)));
    std::istringstream names(TextOf(known));
    for (std::string name; names >> name;) gpus->push_back(name);
    if (!gpus->empty()) return nullptr;
  }
  // Says which devices there are, and why there is no GPU.
  const std::string name = device == "GPU" ? "GPU:0" : device;
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_device_describe(nullptr, name.c_str(), Out(&known)));
  gpus->push_back(nlohmann::json::parse(TextOf(known)).at("name"));
  return nullptr;
}

std::optional<int> ReadDeviceOptions(const std::vector<std::string>& words,
                                     DeviceOptions* options) {
  CLI::App app("Measures copies to, from, within and between GPUs, and checks them.",
               "tutti bench");
  app.footer(kDevicesFooter);
  std::string least = "4K", most = "64M";
  app.add_option("--device", options->device, "GPU: all of them, or GPU:N")->type_name("NAME");
  app.add_option("--min", least, "The smallest copy (default 4K)")->type_name("BYTES");
  app.add_option("--max", most, "The largest copy (default 64M)")->type_name("BYTES");
  app.add_option("--factor", options->factor, "Each size is so many times the last (default 16)")
      ->type_name("N")
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--seconds", options->seconds, "How long each row should take (default 0.2)")
      ->type_name("TIME")
      ->check(CLI::Range(0.001, 3600.0));
  app.add_flag("--json", options->as_json, "One JSON object instead of the table");
  if (const std::optional<int> status = ReadWords(app, kDevicesUsage, words)) return status;
  const auto refuse = [](const std::string& why) {
    fmt::print(stderr, "tutti bench: {}\ntutti bench --device GPU --help says more\n", why);
    return kExitUsage;
  };
  if (!options->device.starts_with("GPU")) {
    return refuse(fmt::format("--device {}: expected GPU, for all, or GPU:N; collectives between "
                              "CPUs are measured without --device", options->device));
  }
  const std::optional<int64_t> min_bytes = ParseByteSize(least), max_bytes = ParseByteSize(most);
  if (!min_bytes || *min_bytes < 1 || !max_bytes || *max_bytes > int64_t{1} << 40) {
    return refuse(fmt::format("--min {} and --max {}: expected sizes like 8, 64K or 16M, from 1 to "
                              "1024G", least, most));
  }
  if (*min_bytes > *max_bytes) {
    return refuse(fmt::format("--min {} is more than --max {}", least, most));
  }
  options->min_bytes = *min_bytes;
  options->max_bytes = *max_bytes;
  return std::nullopt;
}

}  // namespace

bool AsksForDevices(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "--device" || word.starts_with("--device=");
  });
}

int BenchDevicesCommand(const std::vector<std::string>& words) {
  DeviceOptions options;
  if (const std::optional<int> status = ReadDeviceOptions(words, &options)) return *status;
  std::vector<std::string> gpus;
  if (const CStatus failed = FindGpus(options.device, &gpus)) return Failed(failed);
  nlohmann::json all = {{"device", options.device}, {"copies", nlohmann::json::array()}};
  for (const std::string& gpu : gpus) {
    CBytes known;
    if (const CStatus failed{tutti_device_describe(nullptr, gpu.c_str(), Out(&known))}) {
      return Failed(failed);
    }
    const nlohmann::json about = nlohmann::json::parse(TextOf(known));
    all["gpus"].push_back(about);
    if (!options.as_json) {
      fmt::print("# {}: {}, compute capability {}.{}\n", gpu,
                 about.at("device_name").get<std::string>(),
                 about.at("compute_capability")[0].get<int>(),
                 about.at("compute_capability")[1].get<int>());
    }
  }
  if (!options.as_json) {
    fmt::print("{:>12} {:>9} {:>9} {:>10} {:>9} {:>7}\n", "bytes", "from", "to", "time us", "GB/s",
               "#wrong");
  }
  size_t sizes = 0;
  for (int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
    ++sizes;
  }
  std::optional<ProgressLine> progress(std::in_place,
                                       ProgressFormOf(ProgressOfTerminal(options.as_json)),
                                       "tutti bench: copies", "sizes", sizes);
  size_t measured = 0;
  int64_t wrong = 0;
  for (int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
    for (Measured& row : RowsOf(gpus, bytes)) {
      if (const CStatus failed = MeasureCopy(options, &row)) return Failed(failed);
      wrong += row.wrong;
      all["copies"].push_back({{"from", row.from},
                               {"to", row.to},
                               {"bytes", row.bytes},
                               {"time_us", row.time_us},
                               {"gbps", row.gbps()},
                               {"wrong", row.wrong}});
      if (options.as_json) continue;
      fmt::print("{:>12} {:>9} {:>9} {:>10.2f} {:>9.2f} {:>7}\n", row.bytes, row.from, row.to,
                 row.time_us, row.gbps(), row.wrong);
    }
    progress->Tell(++measured);
  }
  progress.reset();
  if (options.as_json) fmt::print("{}\n", all.dump());
  return wrong == 0 ? 0 : 1;
}

}  // namespace tutti::tool
