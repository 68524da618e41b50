// The manifest of a checkpoint: the file that makes it exist. It is written last, and a checkpoint
// without one never was.
//
//   <prefix>.json                                {"format": "tutti-checkpoint", "version": 1,
//                                                 "step": 7, "save_number": 3, "generation": 0,
//                                                 "workers": 2, "files": [...], "names": [...]}
//   <prefix>.safetensors                         what the workers have in common, from worker 0
//   <prefix>.worker-1-of-2.safetensors           what worker 1 has to itself, if anything
//
// Each file stands there with its size and the CRC-32C of its bytes. A prefix that is written once
// more while its checkpoint exists gets files of the next generation, <prefix>.g1.safetensors, and
// the old ones go when the new manifest has taken the place of the old one.
#ifndef TUTTI_CORE_CHECKPOINT_MANIFEST_H_
#define TUTTI_CORE_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace tutti {

class Disk;

inline constexpr std::string_view kManifestSuffix = ".json";
inline constexpr std::string_view kSafetensorsSuffix = ".safetensors";

struct ManifestFile {
  std::string name;     // in the manifest's directory
  int64_t worker = -1;  // -1: of all workers
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

struct Manifest {
  int64_t step = 0;
  int64_t save_number = 0;  // counts the checkpoints of a directory
  int64_t generation = 0;
  int64_t workers = 1;
  std::vector<ManifestFile> files;
  std::vector<std::string> names;  // of the tensors that all workers have in common

  // Null when there is none.
  const ManifestFile* FileOf(int64_t worker) const;
};

std::string EncodeManifest(const Manifest& manifest);
// Trusts nothing. DATA_LOSS, naming `path`, for what is no manifest of ours, UNIMPLEMENTED for one
// of a newer version. `check` is asked again and again whether to go on; its failure is what comes.
Result<Manifest> DecodeManifest(std::string_view json, const std::string& path,
                                const std::function<Status()>& check = {});
// NOT_FOUND when there is no checkpoint of that prefix.
Result<Manifest> ReadManifest(Disk& disk, const std::string& prefix,
                              const std::function<Status()>& check = {});

// "ckpt-7.g1.worker-0-of-2.safetensors" of a prefix's last part.
std::string DataFileName(std::string_view base, int64_t generation, int64_t worker,
                         int64_t workers);
// Those of a manifest's files that a save of that prefix's last part names so itself: what may be
// removed with the checkpoint. A manifest that says otherwise came from somewhere else.
std::vector<std::string> OwnDataFiles(const Manifest& manifest, std::string_view base);

// Under this key of a data file's metadata stands the name under which a save wrote it: only such a
// file can be what a killed program left behind.
inline constexpr std::string_view kDataFileMark = "tutti-checkpoint-file";

// What a file in a checkpoints' directory is, by its name, for prefixes "<stem>-<step>".
enum class FileKind {
  kData,       // DataFileName makes such a name
  kTemporary,  // the disk does, on the way to a data file or a manifest
};
struct NamedFile {
  int64_t step = 0;
  FileKind kind = FileKind::kData;
};
// None for every other name.
std::optional<NamedFile> ParseFileName(std::string_view name, std::string_view stem);
// The step of "<stem>-<step>.json".
std::optional<int64_t> StepOfManifest(std::string_view name, std::string_view stem);

// The directory of a path, "." when it has none, and its last part.
std::string DirectoryOf(const std::string& path);
std::string BaseOf(const std::string& path);

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_MANIFEST_H_
