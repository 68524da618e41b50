#include "core/checkpoint/checkpoint.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/clock.h"
#include "core/base/crc32c.h"
#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/checkpoint/memory_tensors.h"
#include "core/checkpoint/safetensors_reader.h"
#include "core/checkpoint/safetensors_writer.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr size_t kChunkBytes = size_t{4} << 20;

std::string PathOf(const std::string& prefix, const std::string& file) {
  return DirectoryOf(prefix) + "/" + file;
}

// What the workers tell each other before a save: the generation (worker 0's counts) and what they
// are about to save.
std::string Announcement(int64_t generation, std::string_view what) {
  return Format("{} {}", generation, what);
}
std::string_view AnnouncedObjects(std::string_view announcement) {
  return announcement.substr(std::min(announcement.find(' '), announcement.size()));
}
int64_t AnnouncedGeneration(std::string_view announcement) {
  return ParseInt64(announcement.substr(0, announcement.find(' '))).value_or(0);
}

// Size and checksum as the manifest has them.
Status CheckFile(Disk& disk, const Clock& clock, const CallOptions& call, const std::string& path,
                 const ManifestFile& expected) {
  const auto damaged = [&](const std::string& why) {
    return DataLoss("the checkpoint is damaged: its file {} {}", Quote(path), why)
        .With("file", path);
  };
  Result<std::unique_ptr<ReadableFile>> opened = disk.Open(path);
  if (opened.status().code() == StatusCode::kNotFound) return damaged("is missing");
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, std::move(opened));
  if (file->bytes() != expected.bytes) {
    return damaged(Format("has {} bytes and should have {}", file->bytes(), expected.bytes))
        .With("offset", static_cast<int64_t>(std::min(file->bytes(), expected.bytes)));
  }
  std::string chunk(static_cast<size_t>(std::min<uint64_t>(expected.bytes, kChunkBytes)), '\0');
  uint32_t crc = 0;
  for (uint64_t offset = 0; offset < expected.bytes;) {
    TUTTI_RETURN_IF_ERROR(CheckCallOptions(call, clock, "checking a checkpoint"));
    const auto wanted =
        static_cast<size_t>(std::min<uint64_t>(chunk.size(), expected.bytes - offset));
    TUTTI_ASSIGN_OR_RETURN(const size_t got, file->ReadAt(offset, chunk.data(), wanted));
    if (got < wanted) return damaged("got shorter while it was read");
    crc = ExtendCrc32c(crc, chunk.data(), got);
    offset += got;
  }
  if (crc == expected.crc32c) return OkStatus();
  return damaged(Format("has the checksum {:08x} and should have {:08x}", crc, expected.crc32c));
}

}  // namespace

// The values of all objects, by part.
struct Checkpoint::Values {
  explicit Values(const CallOptions& call) : shared(call), own(call) {}
  MemoryTensors& of(Part part) { return part == Part::kShared ? shared : own; }

  MemoryTensors shared;
  MemoryTensors own;
};

// What this worker wrote.
struct Checkpoint::Written {
  std::vector<ManifestFile> files;
  std::vector<std::string> names;
};

// Leaves when it goes out of scope.
class Checkpoint::Busy {
 public:
  explicit Busy(Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  ~Busy() { checkpoint_.Leave(); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  Checkpoint& checkpoint_;
};

Checkpoint::Checkpoint(Ref<Environment> environment, CheckpointTeam team)
    : environment_(std::move(environment)), team_(std::move(team)) {}

Checkpoint::~Checkpoint() = default;

Ref<Checkpoint> Checkpoint::Create(Ref<Environment> environment, CheckpointTeam team) {
  return MakeRef<Checkpoint>(std::move(environment), std::move(team));
}

Status Checkpoint::Add(std::string_view name, Saveable* object, Ref<const RefCounted> keeper,
                       Part part) {
  if (name.empty()) return InvalidArgument("checkpoint: the name of an object is empty");
  std::lock_guard lock(mutex_);
  const auto at = std::lower_bound(
      entries_.begin(), entries_.end(), name,
      [](const Entry& entry, std::string_view added) { return entry.name < added; });
  if (at != entries_.end() && at->name == name) {
    return AlreadyExists("checkpoint: there is an object {} already; name objects differently",
                         Quote(name))
        .With("name", name);
  }
  entries_.insert(at, {std::string(name), object, std::move(keeper), part});
  return OkStatus();
}

Result<std::vector<Checkpoint::Entry>> Checkpoint::Enter(const char* what) {
  TUTTI_RETURN_IF_ERROR(environment_->CheckUsable(what));
  std::lock_guard lock(mutex_);
  if (busy_) {
    return FailedPrecondition("{}: this checkpoint is being saved or restored by another thread",
                              what);
  }
  busy_ = true;
  return entries_;
}

void Checkpoint::Leave() {
  std::lock_guard lock(mutex_);
  busy_ = false;
}

bool Checkpoint::HasOwn(const std::vector<Entry>& entries) const {
  return std::any_of(entries.begin(), entries.end(),
                     [](const Entry& entry) { return entry.part == Part::kPerWorker; });
}

Result<std::vector<std::string>> Checkpoint::Meet(std::string_view where, Status status,
                                                  std::string text,
                                                  const CallOptions& call) const {
  if (team_.num_workers == 1) {
    TUTTI_RETURN_IF_ERROR(std::move(status));
    return std::vector<std::string>{std::move(text)};
  }
  const Json report = {{"code", static_cast<int32_t>(status.code())},
                       {"message", std::string(status.message())},
                       {"text", std::move(text)}};
  Result<std::vector<std::string>> all = team_.exchange(
      Format("checkpoint/{}", where), report.dump(-1, ' ', false, Json::error_handler_t::replace),
      call);
  // One's own failure says more than that the others could not be told.
  TUTTI_RETURN_IF_ERROR(std::move(status));
  TUTTI_RETURN_IF_ERROR(all.status().WithPrefix("checkpoint"));
  std::vector<std::string> texts;
  for (size_t worker = 0; worker < all->size(); ++worker) {
    const Json other = Json::parse((*all)[worker], nullptr, /*allow_exceptions=*/false);
    if (!other.is_object() || !other.contains("code") || !other["code"].is_number_integer() ||
        !other.contains("message") || !other["message"].is_string() || !other.contains("text") ||
        !other["text"].is_string()) {
      return Internal("checkpoint: worker {} sent something that is no report", worker);
    }
    const auto code = static_cast<StatusCode>(other["code"].get<int32_t>());
    if (code != StatusCode::kOk) {
      return Status(code, Format("worker {}: {}", worker, other["message"].get<std::string>()))
          .With("worker", static_cast<int64_t>(worker));
    }
    texts.push_back(other["text"].get<std::string>());
  }
  return texts;
}

Status Checkpoint::Collect(const std::vector<Entry>& entries, SaveSink* shared, SaveSink* own) {
  Status first;
  for (const Entry& entry : entries) {
    const Status saved =
        entry.object->Save(entry.name, entry.part == Part::kShared ? shared : own);
    if (!saved.ok() && first.ok()) first = saved.WithPrefix(Format("saving {}", Quote(entry.name)));
  }
  return first;
}

Status Checkpoint::Apply(const std::vector<Entry>& entries, Values* values) {
  Status first;
  for (const Entry& entry : entries) {
    const Status restored = entry.object->Restore(entry.name, &values->of(entry.part));
    if (!restored.ok() && first.ok()) {
      first = restored.WithPrefix(Format("restoring {}", Quote(entry.name)));
    }
  }
  return first;
}

// ---- Saving ----

Status Checkpoint::WriteParts(const std::vector<Entry>& entries, const std::string& prefix,
                              int64_t generation, const CallOptions& call, Written* written) {
  SafetensorsWriter shared(call);
  SafetensorsWriter own(call);
  TUTTI_RETURN_IF_ERROR(Collect(entries, &shared, &own));
  const auto write = [&](SafetensorsWriter& writer, int64_t worker) -> Status {
    ManifestFile file;
    file.name = DataFileName(BaseOf(prefix), generation, worker, team_.num_workers);
    file.worker = worker;
    writer.PutMetadata(kDataFileMark, file.name);
    TUTTI_ASSIGN_OR_RETURN(const WrittenFile result,
                           writer.Write(environment_->disk(), environment_->clock(),
                                        PathOf(prefix, file.name)));
    file.bytes = result.bytes;
    file.crc32c = result.crc32c;
    written->files.push_back(std::move(file));
    return OkStatus();
  };
  if (team_.worker == 0) {
    written->names = shared.names();
    TUTTI_RETURN_IF_ERROR(write(shared, -1));
  }
  return own.empty() ? OkStatus() : write(own, team_.worker);
}

void Checkpoint::RemoveFiles(const std::string& prefix,
                             const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    const Status removed = environment_->disk().Remove(PathOf(prefix, name));
    if (!removed.ok() && removed.code() != StatusCode::kNotFound) {
      environment_->log().Warning(
          Format("checkpoint: a file that is of no use any more stays: {}", removed.message()));
    }
  }
}

Status Checkpoint::Commit(const std::string& prefix, const std::vector<std::string>& reports,
                          Manifest* manifest) {
  Disk& disk = environment_->disk();
  for (size_t worker = 0; worker < reports.size(); ++worker) {
    TUTTI_ASSIGN_OR_RETURN(const Manifest part,
                           DecodeManifest(reports[worker], Format("worker {}'s report", worker)));
    manifest->files.insert(manifest->files.end(), part.files.begin(), part.files.end());
  }
  for (const ManifestFile& file : manifest->files) {
    const std::string path = PathOf(prefix, file.name);
    const Result<FileInfo> info = disk.Stat(path);
    if (info.ok() && info->bytes == file.bytes) continue;
    return FailedPrecondition(
               "checkpoint: worker {} has written {}, which worker 0 does not see; all workers "
               "need the same directory, on a file system that they share",
               file.worker, Quote(path))
        .With("file", path);
  }
  return disk.WriteFile(prefix + std::string(kManifestSuffix), EncodeManifest(*manifest));
}

Result<Manifest> Checkpoint::Save(const std::string& prefix, int64_t step, const CallOptions& call,
                                  const Prepare& prepare) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Entry> entries, Enter("checkpoint save"));
  const Busy busy(*this);
  if (team_.may_write) TUTTI_RETURN_IF_ERROR(team_.may_write());
  if (BaseOf(prefix).empty() || step < 0) {
    return InvalidArgument("checkpoint save: expected a path and a step from 0 on, got {} and {}",
                           Quote(prefix), step);
  }

  // The workers agree that they save the same thing, and on the generation of the files.
  Manifest manifest;
  Manifest old;
  manifest.step = step;
  manifest.workers = team_.num_workers;
  Status prepared;
  if (team_.worker == 0) {
    if (prepare != nullptr) {
      Result<int64_t> number = prepare();
      prepared = number.status();
      if (number.ok()) manifest.save_number = *number;
    }
    Result<Manifest> found = ReadManifest(environment_->disk(), prefix);
    if (found.ok()) {
      old = std::move(found).value();
      manifest.generation = old.generation + 1;
    } else if (found.status().code() != StatusCode::kNotFound &&
               found.status().code() != StatusCode::kDataLoss && prepared.ok()) {
      prepared = found.status();
    }
  }
  std::vector<std::string> objects;
  for (const Entry& entry : entries) {
    objects.push_back(Quote(entry.name) + (entry.part == Part::kShared ? "" : " of each worker"));
  }
  const std::string what =
      Format("step {} as {} of {}", step, Quote(BaseOf(prefix)), Join(objects, ", "));
  TUTTI_ASSIGN_OR_RETURN(
      const std::vector<std::string> begun,
      Meet("begin", std::move(prepared), Announcement(manifest.generation, what), call));
  manifest.generation = AnnouncedGeneration(begun[0]);
  for (size_t worker = 1; worker < begun.size(); ++worker) {
    if (AnnouncedObjects(begun[worker]) == AnnouncedObjects(begun[0])) continue;
    return FailedPrecondition(
               "checkpoint save: worker {} saves{}, but worker 0 saves{}; every worker saves the "
               "same objects at the same steps",
               worker, AnnouncedObjects(begun[worker]), AnnouncedObjects(begun[0]))
        .With("worker", static_cast<int64_t>(worker));
  }

  Written written;
  Status status = WriteParts(entries, prefix, manifest.generation, call, &written);
  Manifest report;  // of this worker's files
  report.workers = team_.num_workers;
  report.files = written.files;
  Result<std::vector<std::string>> reports =
      Meet("written", std::move(status), EncodeManifest(report), call);
  if (!reports.ok()) {
    // Without a report of this worker nobody commits; otherwise worker 0 may have.
    if (team_.num_workers == 1) {
      report.generation = manifest.generation;
      RemoveFiles(prefix, OwnDataFiles(report, BaseOf(prefix)));
    }
    return reports.status();
  }

  manifest.names = std::move(written.names);
  status = team_.worker == 0 ? Commit(prefix, *reports, &manifest) : OkStatus();
  TUTTI_RETURN_IF_ERROR(
      Meet("committed", std::move(status), Format("{}", manifest.save_number), call).status());
  // Their generation is another one, so none of the new files is among them.
  if (team_.worker == 0) RemoveFiles(prefix, OwnDataFiles(old, BaseOf(prefix)));
  return manifest;
}

Status Checkpoint::WriteFile(const std::string& path, const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Entry> entries, Enter("checkpoint write"));
  const Busy busy(*this);
  if (team_.may_write) TUTTI_RETURN_IF_ERROR(team_.may_write());
  if (team_.num_workers > 1 && HasOwn(entries)) {
    return FailedPrecondition(
        "checkpoint write: one file cannot hold what each of {} workers has to itself; save to a "
        "prefix, or leave the iterators out",
        team_.num_workers);
  }
  SafetensorsWriter writer(call);
  Status status = Collect(entries, &writer, &writer);
  if (status.ok() && team_.worker == 0) {
    status = writer.Write(environment_->disk(), environment_->clock(), path).status();
  }
  return Meet("write", std::move(status), "", call).status();
}

// ---- Restoring ----

Status Checkpoint::LoadFile(const std::string& path, const MemoryTensors& now,
                            const CallOptions& call, MemoryTensors* values) const {
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsReader> reader,
                         SafetensorsReader::Open(environment_->disk(), path, call));
  for (const auto& [name, expected] : now.specs()) {
    TUTTI_RETURN_IF_ERROR(
        CheckCallOptions(call, environment_->clock(), "restoring a checkpoint"));
    TUTTI_ASSIGN_OR_RETURN(const TensorSpec found, reader->GetSpec(name));
    const bool one_shape = expected.shape.IsMoreGeneralThan(found.shape);
    if (found.dtype != expected.dtype || !one_shape) {
      return InvalidArgument(
                 "restoring {} from {}: it is {}, and the file has {}{}", Quote(name), Quote(path),
                 expected.ToString(), found.ToString(),
                 one_shape ? Format("; restore into one of dtype {}, and convert the value to {} "
                                    "afterwards",
                                    DTypeName(found.dtype), DTypeName(expected.dtype))
                           : std::string())
          .With("file", path)
          .With("name", name);
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, reader->GetTensor(name));
    TUTTI_RETURN_IF_ERROR(values->PutTensor(name, std::move(tensor)));
  }
  return OkStatus();
}

Status Checkpoint::LoadCheckpoint(const std::string& prefix, const Manifest& manifest,
                                  const Values& now, const CallOptions& call,
                                  Values* values) const {
  const auto load = [&](int64_t worker, const MemoryTensors& from, MemoryTensors* into) -> Status {
    const ManifestFile* file = manifest.FileOf(worker);
    if (file == nullptr) {
      return NotFound("the checkpoint {} holds nothing of worker {}, and this program has {} there",
                      Quote(prefix), worker, Quote(from.specs().front().first))
          .With("file", prefix);
    }
    const std::string path = PathOf(prefix, file->name);
    TUTTI_RETURN_IF_ERROR(
        CheckFile(environment_->disk(), environment_->clock(), call, path, *file));
    return LoadFile(path, from, call, into);
  };
  if (!now.shared.empty()) TUTTI_RETURN_IF_ERROR(load(-1, now.shared, &values->shared));
  if (now.own.empty()) return OkStatus();
  // Of another number of workers all get what worker 0 had; the object knows whether that will do.
  const bool same_team = manifest.workers == team_.num_workers;
  return load(same_team ? team_.worker : 0, now.own, &values->own);
}

Status Checkpoint::Replace(const std::vector<Entry>& entries, const CallOptions& call,
                           const std::function<Status(const Values& now, Values* values)>& load,
                           const std::function<std::string()>& fingerprint) {
  Values before(call);
  Values values(call);
  Status status = Collect(entries, &before.shared, &before.own);
  if (status.ok()) status = load(before, &values);
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> read,
                         Meet("loaded", std::move(status), fingerprint(), call));
  for (size_t worker = 1; worker < read.size(); ++worker) {
    if (read[worker] == read[0]) continue;
    return FailedPrecondition(
               "restoring a checkpoint: workers 0 and {} have read different ones; all workers "
               "need the same directory, on a file system that they share",
               worker)
        .With("worker", static_cast<int64_t>(worker));
  }
  status = Apply(entries, &values);
  const Status met = Meet("applied", std::move(status), "", call).status();
  if (met.ok()) return OkStatus();
  const Status undone = Apply(entries, &before);
  if (undone.ok()) return met;
  return Internal(
             "restoring a checkpoint failed, and so did taking back what had been restored by "
             "then; the objects' values are a mixture")
      .WithCause(met)
      .WithCause(undone);
}

Result<Manifest> Checkpoint::Restore(const std::string& prefix, const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Entry> entries, Enter("checkpoint restore"));
  const Busy busy(*this);
  Manifest manifest;
  TUTTI_RETURN_IF_ERROR(Replace(
      entries, call,
      [&](const Values& now, Values* values) -> Status {
        TUTTI_ASSIGN_OR_RETURN(manifest, ReadManifest(environment_->disk(), prefix, [&] {
          return CheckCallOptions(call, environment_->clock(), "restoring a checkpoint");
        }));
        return LoadCheckpoint(prefix, manifest, now, call, values);
      },
      [&] {
        const std::string text = EncodeManifest(manifest);
        return Format("{:08x}", Crc32c(text.data(), text.size()));
      }));
  return manifest;
}

Status Checkpoint::ReadFile(const std::string& path, const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Entry> entries, Enter("checkpoint read"));
  const Busy busy(*this);
  if (team_.num_workers > 1 && HasOwn(entries)) {
    return FailedPrecondition(
        "checkpoint read: one file cannot hold what each of {} workers has to itself",
        team_.num_workers);
  }
  return Replace(
      entries, call,
      [&](const Values& now, Values* values) -> Status {
        TUTTI_RETURN_IF_ERROR(LoadFile(path, now.shared, call, &values->shared));
        return LoadFile(path, now.own, call, &values->own);
      },
      [] { return std::string(); });
}

}  // namespace tutti
