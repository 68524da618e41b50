// `tutti doctor`, the library: asked through its C interface, as any program would.

#include <dlfcn.h>
#include <fmt/format.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <set>
#include <utility>

#include "capi/tool/c_handles.h"
#include "capi/tool/doctor_checks.h"

namespace tutti::tool {
namespace {

// The variables that are no settings of a runtime; the last ones are for working on Tutti.
constexpr const char* kOtherVariables[] = {
    "TUTTI_CONFIG_FILE",     "TUTTI_CUDA_DRIVER",     "TUTTI_JOB_SECRET",
    "TUTTI_JOB_SECRET_FILE", "TUTTI_NCCL_LIBRARY",    "TUTTI_NCCL_REGISTER",
    "TUTTI_RESTART",         "TUTTI_SKIP_PACKAGES",   "TUTTI_TEST_FIRST_SEED",
    "TUTTI_TEST_SEED",       "TUTTI_TEST_SCALE",      "TUTTI_SIMULATION_SEED",
    "TUTTI_UPDATE_GOLDENS",  "TUTTI_CONFORMANCE_DIR"};

std::string LibraryFile() {
  Dl_info about = {};
  const auto address = reinterpret_cast<const void*>(&tutti_api_version);
  if (dladdr(address, &about) == 0 || about.dli_fname == nullptr) return "unknown";
  char resolved[PATH_MAX];
  return realpath(about.dli_fname, resolved) != nullptr ? resolved : about.dli_fname;
}

// The text behind a call that fills a tutti_bytes, and what it failed with.
template <typename Call>
std::pair<std::string, CStatus> Ask(Call call) {
  CBytes bytes;
  CStatus status(call(Out(&bytes)));
  return {status ? "" : TextOf(bytes), std::move(status)};
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    if (end > from) lines.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return lines;
}

// The path in TUTTI_JOB_SECRET_FILE is none, but somebody may have put the secret itself there.
bool IsSecret(const std::string& name) { return name.find("SECRET") != std::string::npos; }

std::string VariableOf(const std::string& setting) {
  std::string name = "TUTTI_";
  for (char c : setting) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

// "GPU:0: NVIDIA H100 80GB HBM3, compute capability 9.0, 79 GiB, driver 13.0".
std::string Line(const Json& gpu) {
  const Json compute = gpu.value("compute_capability", Json::array({0, 0}));
  return fmt::format("{}: {}, compute capability {}.{}, {} GiB, driver for CUDA {}{}",
                     gpu.value("name", ""), gpu.value("device_name", ""), compute[0].get<int>(),
                     compute[1].get<int>(), gpu.value("memory_bytes", int64_t{0}) >> 30,
                     gpu.value("driver_version", ""),
                     gpu.value("kernels", false) ? "" : ", no kernels for it");
}

// The settings of a runtime with the variables as they are, {key: {"value", "source"}}; starts one
// for the purpose.
Json Settings(DoctorReport* report, std::vector<std::string>* devices,
              std::vector<std::string>* collectives, std::vector<Json>* described, Json* plugins) {
  CRuntime runtime;
  CStatus status(tutti_runtime_create(nullptr, Out(&runtime)));
  Json settings = Json::object();
  if (!status) {
    auto [text, failure] = Ask([&](tutti_bytes** out) {
      return tutti_runtime_describe(runtime.get(), out);
    });
    status = std::move(failure);
    settings = Json::parse(text, nullptr, false);
    if (settings.is_discarded()) settings = Json::object();
  }
  if (!status) {
    auto [text, failure] = Ask([&](tutti_bytes** out) {
      return tutti_device_list(runtime.get(), nullptr, out);
    });
    status = std::move(failure);
    *devices = Lines(text);
  }
  for (const std::string& device : *devices) {
    if (status) break;
    auto [text, failure] = Ask([&](tutti_bytes** out) {
      return tutti_device_describe(runtime.get(), device.c_str(), out);
    });
    status = std::move(failure);
    described->push_back(Json::parse(text, nullptr, false));
  }
  if (!status) {
    auto [text, failure] = Ask([&](tutti_bytes** out) {
      return tutti_device_describe_plugins(runtime.get(), out);
    });
    status = std::move(failure);
    *plugins = Json::parse(text, nullptr, false);
  }
  if (!status) {
    auto [text, failure] = Ask([&](tutti_bytes** out) {
      return tutti_runtime_describe_collectives(runtime.get(), out);
    });
    status = std::move(failure);
    *collectives = Lines(text);
  }
  if (runtime) {
    const CStatus shut_down(tutti_runtime_shutdown(runtime.get(), nullptr));
    if (shut_down) {
      report->AddProblem(
          fmt::format("a runtime does not shut down: {}",
                      tutti_status_get_message(shut_down.get())),
          "report this with the output of tutti doctor --json");
    }
  }
  if (status) {
    report->AddFatalProblem(
        fmt::format("no runtime starts: {}", tutti_status_get_message(status.get())),
        "correct what the message names; the settings are TUTTI_* variables and the file that "
        "TUTTI_CONFIG_FILE names");
  }
  return settings;
}

}  // namespace

std::vector<std::string> CheckLibrary(DoctorReport* report) {
  const uint32_t loaded = tutti_api_version();
  const std::string file = LibraryFile();
  const std::string built_for = fmt::format("{}.{}.{}", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                                            TUTTI_VERSION_PATCH);
  const std::string version = tutti_api_version_string();
  std::vector<std::string> devices, collectives;
  std::vector<Json> described;
  Json plugins = Json::array();
  const Json settings = Settings(report, &devices, &collectives, &described, &plugins);
  std::vector<std::string> lines = {fmt::format("{} from {}", version, file)};
  if (version != built_for) {
    lines.push_back(fmt::format("this command was built for {}", built_for));
  }
  report->Add("library",
              {{"version", version}, {"interface", loaded}, {"file", file},
               {"command_version", built_for}},
              std::move(lines));
  if (loaded >> 16 != TUTTI_VERSION_MAJOR || ((loaded >> 8) & 0xff) < TUTTI_VERSION_MINOR) {
    report->AddFatalProblem(
        fmt::format("the library {} is of version {}, this command of {}", file, version,
                    built_for),
        "install both from the same build; LD_LIBRARY_PATH may lead to another one");
  }
  std::vector<std::string> device_lines = {
      devices.empty() ? "unknown" : fmt::format("{}", fmt::join(devices, ", "))};
  for (const Json& device : described) {
    if (!device.is_object() || device.value("type", "") != "GPU") continue;
    device_lines.push_back(Line(device));
  }
  report->Add("devices", Json(devices), std::move(device_lines));
  std::vector<std::string> plugin_lines;
  for (const Json& plugin : plugins) {
    const Json& reason = plugin["reason"];
    plugin_lines.push_back(fmt::format(
        "{}: {}", plugin.value("name", ""),
        reason.is_string() ? "no GPUs: " + reason.get<std::string>()
                           : fmt::format("{} GPUs by {}",
                                         plugin.value("devices", 0), plugin.value("file", ""))));
    const Json& nccl = plugin["nccl"];
    plugin_lines.push_back(
        nccl.is_object() ? fmt::format("nccl: {} from {}: {}", nccl.value("version", ""),
                                       nccl.value("origin", ""), nccl.value("file", ""))
                         : "nccl: none: " + plugin.value("nccl_reason", ""));
  }
  report->Add("plugins", std::move(plugins), std::move(plugin_lines));

  Json chosen = Json::object();
  std::vector<std::string> keys, setting_lines;
  for (const auto& [key, setting] : settings.items()) {
    keys.push_back(key);
    chosen[key] = setting;
    const std::string value = setting.value("value", "");
    setting_lines.push_back(fmt::format("{} = {} ({})", key, value.empty() ? "\"\"" : value,
                                        setting.value("source", "")));
  }
  if (setting_lines.empty()) setting_lines.push_back("unknown");
  report->Add("settings", std::move(chosen), std::move(setting_lines));
  Json rows(collectives);
  if (collectives.empty()) {
    collectives.push_back("unknown");
  } else {
    // Comments of the table's form: what is printed can be put into a file.
    const char* const about[] = {
        "# the first row that fits holds; TUTTI_COLLECTIVE_TABLE=FILE puts rows before these,",
        "# and tutti bench --tune FILE writes such as suit this machine",
        "# collective   where         ranks up to       algorithm [chunk]"};
    collectives.insert(collectives.begin(), std::begin(about), std::end(about));
  }
  report->Add("collectives", std::move(rows), std::move(collectives));
  return keys;
}

void CheckVariables(const std::vector<std::string>& settings, DoctorReport* report) {
  std::set<std::string> known(std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const std::string& setting : settings) known.insert(VariableOf(setting));
  Json facts = Json::object();
  std::vector<std::string> lines;
  for (const char* const* variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const size_t equals = text.find('=');
    // Without one it is no variable: getenv does not find it.
    if (equals == std::string::npos || !text.starts_with("TUTTI_")) continue;
    const std::string name = text.substr(0, equals);
    const std::string value = IsSecret(name) ? "(set, not shown)" : text.substr(equals + 1);
    facts[name] = value;
    lines.push_back(fmt::format("{} = {}", name, value));
    if (!settings.empty() && known.count(name) == 0) {
      report->AddProblem(fmt::format("{} is no variable of Tutti's, nobody reads it", name),
                         fmt::format("unset it, or correct its name; there are {}",
                                     fmt::join(known, ", ")));
    }
  }
  if (lines.empty()) lines.push_back("no TUTTI_* variable is set");
  report->Add("variables", std::move(facts), std::move(lines));
}

}  // namespace tutti::tool
