#include "core/checkpoint/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/checkpoint/watched_text.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "tutti-checkpoint";
constexpr int64_t kVersion = 1;
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 28;

// Reads members of a JSON object; after the first that does not fit `why` says so.
class Members {
 public:
  Members(const Json& json, std::string* why) : json_(json), why_(why) {
    if (!json.is_object()) Fail("something is no object");
  }

  int64_t Int(const char* key, int64_t low, int64_t high) {
    const Json* value = Find(key);
    if (value == nullptr) return low;
    if (value->is_number_unsigned() &&
        value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) {
      const auto number = static_cast<int64_t>(value->get<uint64_t>());
      if (number >= low && number <= high) return number;
    } else if (value->is_number_integer() && !value->is_number_unsigned()) {
      const auto number = value->get<int64_t>();
      if (number >= low && number <= high) return number;
    }
    Fail(Format("\"{}\" is no number from {} on", key, low));
    return low;
  }
  std::string Text(const char* key) {
    const Json* value = Find(key);
    if (value == nullptr) return {};
    if (value->is_string()) return value->get<std::string>();
    Fail(Format("\"{}\" is no text", key));
    return {};
  }
  const Json& List(const char* key) {
    static const Json kEmpty = Json::array();
    const Json* value = Find(key);
    if (value == nullptr) return kEmpty;
    if (value->is_array()) return *value;
    Fail(Format("\"{}\" is no list", key));
    return kEmpty;
  }

 private:
  const Json* Find(const char* key) {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(key);
    if (found != json_.end()) return &*found;
    Fail(Format("\"{}\" is missing", key));
    return nullptr;
  }
  void Fail(std::string why) {
    if (why_->empty()) *why_ = std::move(why);
  }

  const Json& json_;
  std::string* const why_;
};

// "7" of "ckpt-7..." when it is followed by `.`; the rest.
std::optional<int64_t> StepAtFront(std::string_view name, std::string_view stem,
                                   std::string_view* rest) {
  if (!name.starts_with(stem)) return std::nullopt;
  name.remove_prefix(stem.size());
  if (!name.starts_with('-')) return std::nullopt;
  name.remove_prefix(1);
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  const std::string_view digits = name.substr(0, dot);
  if (digits.find_first_not_of("0123456789") != std::string_view::npos ||
      (digits.size() > 1 && digits[0] == '0')) {
    return std::nullopt;  // not as we write it
  }
  *rest = name.substr(dot);
  return ParseInt64(digits);
}

bool TakePrefix(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// The digits at the front; 0 for none.
int64_t TakeNumber(std::string_view* text) {
  const size_t end = std::min(text->find_first_not_of("0123456789"), text->size());
  const std::optional<int64_t> number = ParseInt64(text->substr(0, end));
  text->remove_prefix(end);
  return number.value_or(0);
}

// ".0123456789abcdef.tmp", which the disk appends to the name of a file that is being written.
bool RemoveTemporarySuffix(std::string_view* name) {
  constexpr size_t kDigits = 16;
  if (!name->ends_with(kTemporarySuffix)) return false;
  std::string_view rest = name->substr(0, name->size() - kTemporarySuffix.size());
  if (rest.size() <= kDigits || rest[rest.size() - kDigits - 1] != '.' ||
      rest.substr(rest.size() - kDigits).find_first_not_of("0123456789abcdef") !=
          std::string_view::npos) {
    return false;
  }
  rest.remove_suffix(kDigits + 1);
  *name = rest;
  return true;
}

}  // namespace

const ManifestFile* Manifest::FileOf(int64_t worker) const {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const ManifestFile& f) { return f.worker == worker; });
  return found == files.end() ? nullptr : &*found;
}

std::string EncodeManifest(const Manifest& manifest) {
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"step", manifest.step},
               {"save_number", manifest.save_number},
               {"generation", manifest.generation},
               {"workers", manifest.workers},
               {"files", Json::array()},
               {"names", manifest.names}};
  for (const ManifestFile& file : manifest.files) {
    json["files"].push_back({{"name", file.name},
                             {"worker", file.worker},
                             {"bytes", file.bytes},
                             {"crc32c", file.crc32c}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Manifest> DecodeManifest(std::string_view text, const std::string& path,
                                const std::function<Status()>& check) {
  const auto damaged = [&](std::string_view why) {
    return DataLoss("{} is no manifest of a checkpoint, or a damaged one: {}", Quote(path), why)
        .With("file", path);
  };
  WatchedText watched(text, check);
  const Json json =
      Json::parse(watched.begin(), watched.end(), nullptr, /*allow_exceptions=*/false);
  TUTTI_RETURN_IF_ERROR(watched.status());
  if (json.is_discarded()) return damaged("it is no JSON");
  std::string why;
  Members members(json, &why);
  if (members.Text("format") != kFormat && why.empty()) why = "its format is another one";
  const int64_t version = members.Int("version", 1, INT64_MAX);
  if (why.empty() && version > kVersion) {
    return Unimplemented("{} is of version {}, and this program knows version {}; use a newer one",
                         Quote(path), version, kVersion)
        .With("file", path);
  }
  Manifest manifest;
  manifest.step = members.Int("step", 0, INT64_MAX);
  manifest.save_number = members.Int("save_number", 0, INT64_MAX - 1);
  manifest.generation = members.Int("generation", 0, INT64_MAX - 1);
  manifest.workers = members.Int("workers", 1, INT32_MAX);
  std::unordered_set<int64_t> workers_seen;
  for (const Json& item : members.List("files")) {
    Members file(item, &why);
    ManifestFile read;
    read.name = file.Text("name");
    read.worker = file.Int("worker", -1, manifest.workers - 1);
    read.bytes = static_cast<uint64_t>(file.Int("bytes", 0, INT64_MAX));
    read.crc32c = static_cast<uint32_t>(file.Int("crc32c", 0, UINT32_MAX));
    // It names files beside itself, never others.
    if (read.name.empty() || read.name.find('/') != std::string::npos || read.name == "." ||
        read.name == ".." || read.name.find('\0') != std::string::npos) {
      why = why.empty() ? Format("{} is no name of a file", Quote(read.name)) : why;
    }
    if (!workers_seen.insert(read.worker).second && why.empty()) {
      why = Format("worker {} has two files", read.worker);
    }
    manifest.files.push_back(std::move(read));
  }
  if (check) TUTTI_RETURN_IF_ERROR(check());
  for (const Json& name : members.List("names")) {
    if (!name.is_string()) {
      why = why.empty() ? "a name is no text" : why;
      break;
    }
    manifest.names.push_back(name.get<std::string>());
  }
  if (!why.empty()) return damaged(why);
  return manifest;
}

Result<Manifest> ReadManifest(Disk& disk, const std::string& prefix,
                              const std::function<Status()>& check) {
  const std::string path = prefix + std::string(kManifestSuffix);
  const Result<FileInfo> info = disk.Stat(path);
  if (!info.ok()) {
    if (info.status().code() != StatusCode::kNotFound) return info.status();
    return NotFound("there is no checkpoint {}: its manifest {} does not exist", Quote(prefix),
                    Quote(path))
        .With("file", path);
  }
  if (info->bytes > kMaxManifestBytes) {
    return DataLoss("{} has {} bytes and is no manifest", Quote(path), info->bytes)
        .With("file", path);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::string text, disk.ReadFile(path));
  return DecodeManifest(text, path, check);
}

std::string DataFileName(std::string_view base, int64_t generation, int64_t worker,
                         int64_t workers) {
  std::string name(base);
  if (generation > 0) name += Format(".g{}", generation);
  if (worker >= 0) name += Format(".worker-{}-of-{}", worker, workers);
  return name + std::string(kSafetensorsSuffix);
}

std::vector<std::string> OwnDataFiles(const Manifest& manifest, std::string_view base) {
  std::vector<std::string> names;
  for (const ManifestFile& file : manifest.files) {
    if (file.name == DataFileName(base, manifest.generation, file.worker, manifest.workers)) {
      names.push_back(file.name);
    }
  }
  return names;
}

std::optional<NamedFile> ParseFileName(std::string_view name, std::string_view stem) {
  std::string_view rest;
  const std::optional<int64_t> step = StepAtFront(name, stem, &rest);
  if (!step.has_value()) return std::nullopt;
  NamedFile file;
  file.step = *step;
  if (RemoveTemporarySuffix(&rest)) {
    file.kind = FileKind::kTemporary;
    if (rest == kManifestSuffix) return file;
  }
  int64_t generation = 0;
  int64_t worker = -1;
  int64_t workers = 1;
  std::string_view parts = rest;
  if (TakePrefix(".g", &parts)) generation = TakeNumber(&parts);
  if (TakePrefix(".worker-", &parts)) {
    worker = TakeNumber(&parts);
    if (TakePrefix("-of-", &parts)) workers = TakeNumber(&parts);
  }
  // Exactly as it is written, or it is not ours.
  if (rest != DataFileName("", generation, worker, workers)) return std::nullopt;
  return file;
}

std::optional<int64_t> StepOfManifest(std::string_view name, std::string_view stem) {
  std::string_view rest;
  const std::optional<int64_t> step = StepAtFront(name, stem, &rest);
  return step.has_value() && rest == kManifestSuffix ? step : std::nullopt;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string BaseOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace tutti
