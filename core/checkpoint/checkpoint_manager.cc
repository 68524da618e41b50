#include "core/checkpoint/checkpoint_manager.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/checkpoint/safetensors_reader.h"

namespace tutti {

CheckpointManager::CheckpointManager(Ref<Checkpoint> checkpoint, std::string directory,
                                     CheckpointManagerOptions options)
    : checkpoint_(std::move(checkpoint)),
      directory_(std::move(directory)),
      options_(std::move(options)) {}

CheckpointManager::~CheckpointManager() = default;

Result<Ref<CheckpointManager>> CheckpointManager::Create(Ref<Checkpoint> checkpoint,
                                                         std::string directory,
                                                         CheckpointManagerOptions options) {
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  if (directory.empty() || options.max_to_keep < 0) {
    return InvalidArgument(
        "checkpoint manager: expected a directory and a max_to_keep from 0 (all) on, got {} and {}",
        Quote(directory), options.max_to_keep);
  }
  if (options.name.empty() || options.name.find_first_of(std::string_view("/\0", 2)) !=
                                  std::string::npos) {
    return InvalidArgument("checkpoint manager: {} is no name for a checkpoint's files",
                           Quote(options.name));
  }
  return MakeRef<CheckpointManager>(std::move(checkpoint), std::move(directory),
                                    std::move(options));
}

std::string CheckpointManager::PrefixOf(int64_t step) const {
  return Format("{}/{}-{}", directory_, options_.name, step);
}

Result<std::vector<CheckpointManager::Found>> CheckpointManager::Find() const {
  Disk& disk = checkpoint_->environment().disk();
  const Result<std::vector<std::string>> names = disk.List(directory_);
  if (names.status().code() == StatusCode::kNotFound) return std::vector<Found>();
  TUTTI_RETURN_IF_ERROR(names.status());
  std::vector<Found> found;
  for (const std::string& name : *names) {
    const std::optional<int64_t> step = StepOfManifest(name, options_.name);
    if (!step.has_value()) continue;
    const std::string prefix =
        directory_ + "/" + name.substr(0, name.size() - kManifestSuffix.size());
    Result<Manifest> manifest = ReadManifest(disk, prefix);
    // Worker 0 may have removed it meanwhile.
    if (manifest.status().code() == StatusCode::kNotFound) continue;
    found.push_back({*step, std::move(manifest)});
  }
  const auto age = [](const Found& one) {
    return one.manifest.ok() ? one.manifest->save_number : std::numeric_limits<int64_t>::max();
  };
  std::sort(found.begin(), found.end(), [&](const Found& a, const Found& b) {
    return std::make_pair(age(a), a.step) < std::make_pair(age(b), b.step);
  });
  return found;
}

Result<std::vector<CheckpointManager::Restored>> CheckpointManager::List() const {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Found> found, Find());
  std::vector<Restored> all;
  for (const Found& one : found) {
    TUTTI_RETURN_IF_ERROR(one.manifest.status());
    all.push_back({PrefixOf(one.step), one.step});
  }
  return all;
}

Result<std::optional<CheckpointManager::Restored>> CheckpointManager::Latest() const {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Restored> all, List());
  if (all.empty()) return std::optional<Restored>();
  return std::optional<Restored>(all.back());
}

void CheckpointManager::Remove(const std::string& name) const {
  const std::string path = directory_ + "/" + name;
  const Status removed = checkpoint_->environment().disk().Remove(path);
  if (removed.ok() || removed.code() == StatusCode::kNotFound) return;
  checkpoint_->environment().log().Warning(
      Format("checkpoint: a file that is of no use any more stays: {}", removed.message()));
}

// Whether a save wrote this data file, and under this name.
bool CheckpointManager::IsMarked(const std::string& name) const {
  const Result<std::unique_ptr<SafetensorsReader>> reader =
      SafetensorsReader::Open(checkpoint_->environment().disk(), directory_ + "/" + name);
  if (!reader.ok()) return false;
  const auto mark = (*reader)->metadata().find(kDataFileMark);
  return mark != (*reader)->metadata().end() && mark->second == name;
}

// Worker 0, while nobody writes: makes the directory, removes what killed programs left, counts.
Result<int64_t> CheckpointManager::Prepare() {
  Disk& disk = checkpoint_->environment().disk();
  TUTTI_RETURN_IF_ERROR(disk.MakeDirectories(directory_));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Found> found, Find());
  std::set<std::string> in_use;
  std::set<int64_t> unknown;  // steps with a manifest that nobody can read: nothing is touched
  int64_t number = 0;
  for (const Found& one : found) {
    if (!one.manifest.ok()) {
      unknown.insert(one.step);
      checkpoint_->environment().log().Warning(
          Format("checkpoint: {}", one.manifest.status().message()));
      continue;
    }
    number = std::max(number, one.manifest->save_number + 1);
    for (const ManifestFile& file : one.manifest->files) in_use.insert(file.name);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(directory_));
  for (const std::string& name : names) {
    const std::optional<NamedFile> file = ParseFileName(name, options_.name);
    if (!file.has_value() || in_use.contains(name) || unknown.contains(file->step)) continue;
    // Who writes objects to such a path without a manager gets a file of the same name.
    if (file->kind == FileKind::kData && !IsMarked(name)) continue;
    Remove(name);
  }
  return number;
}

// Worker 0, behind a save. The manifests go first: what remains of an interrupted removal is no
// checkpoint.
void CheckpointManager::RemoveOld(int64_t saved_step) {
  if (options_.max_to_keep == 0) return;
  Result<std::vector<Found>> found = Find();
  if (!found.ok()) {
    checkpoint_->environment().log().Warning(
        Format("checkpoint: old ones stay: {}", found.status().message()));
    return;
  }
  std::erase_if(*found, [](const Found& one) { return !one.manifest.ok(); });
  const auto keep = static_cast<size_t>(options_.max_to_keep);
  for (size_t i = 0; i + keep < found->size(); ++i) {
    const Found& old = (*found)[i];
    if (old.step == saved_step) continue;
    const std::string base = BaseOf(PrefixOf(old.step));
    Remove(base + std::string(kManifestSuffix));
    for (const std::string& name : OwnDataFiles(*old.manifest, base)) Remove(name);
  }
}

Result<std::string> CheckpointManager::Save(int64_t step, const CallOptions& call) {
  const std::string prefix = PrefixOf(step);
  TUTTI_RETURN_IF_ERROR(
      checkpoint_->Save(prefix, step, call, [this] { return Prepare(); }).status());
  if (checkpoint_->team().worker == 0) RemoveOld(step);
  return prefix;
}

Result<std::optional<CheckpointManager::Restored>> CheckpointManager::RestoreLatest(
    const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(checkpoint_->environment().CheckUsable("checkpoint restore_latest"));
  std::string step;
  Status status;
  if (checkpoint_->team().worker == 0) {
    const Result<std::optional<Restored>> latest = Latest();
    status = latest.status();
    if (latest.ok() && latest->has_value()) step = Format("{}", (*latest)->step);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> steps,
                         checkpoint_->Meet("latest", std::move(status), std::move(step), call));
  if (steps[0].empty()) return std::optional<Restored>();
  const std::optional<int64_t> chosen = ParseInt64(steps[0]);
  if (!chosen.has_value()) return Internal("checkpoint: worker 0 chose no step");
  TUTTI_RETURN_IF_ERROR(checkpoint_->Restore(PrefixOf(*chosen), call).status());
  return std::optional<Restored>(Restored{PrefixOf(*chosen), *chosen});
}

}  // namespace tutti
