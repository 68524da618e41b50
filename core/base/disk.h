// Files as a service: the real disk, or one in memory under simulation. Errors name the file and
// say what the system said, with the code a caller can act on (NOT_FOUND, PERMISSION_DENIED,
// ALREADY_EXISTS, RESOURCE_EXHAUSTED for a full disk, ...) and the detail "file".

#ifndef TUTTI_CORE_BASE_DISK_H_
#define TUTTI_CORE_BASE_DISK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace tutti {

struct FileInfo {
  uint64_t bytes = 0;
  bool is_directory = false;
  int64_t modified_wall_ns = 0;
};

// An open file. Reads at different places may run at once.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Reads up to `bytes` at `offset`; less only where the file ends.
  virtual Result<size_t> ReadAt(uint64_t offset, void* data, size_t bytes) = 0;
  // The size when it was opened.
  uint64_t bytes() const noexcept { return bytes_; }
  const std::string& path() const noexcept { return path_; }

 protected:
  ReadableFile(std::string path, uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {}

 private:
  std::string path_;
  uint64_t bytes_;
};

// A file being written under a temporary name in the same directory. Commit gives it its name, all
// at once and durably (fsync, rename, fsync of the directory); without Commit nothing is left
// behind. One thread.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status Append(const void* data, size_t bytes) = 0;
  Status Append(std::string_view data) { return Append(data.data(), data.size()); }
  virtual Status Commit() = 0;
  const std::string& path() const noexcept { return path_; }

 protected:
  explicit WritableFile(std::string path) : path_(std::move(path)) {}

 private:
  std::string path_;
};

// What Disk::Lock gives: held until it is destroyed, or its process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class Disk {
 public:
  virtual ~Disk() = default;

  // Never waits for somebody: FAILED_PRECONDITION for what is no regular file (a directory, a FIFO,
  // a socket, a device).
  virtual Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) = 0;
  // Replaces what has that name when it is committed.
  virtual Result<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  virtual Result<FileInfo> Stat(const std::string& path) = 0;
  // The names in a directory, in byte order, without "." and "..".
  virtual Result<std::vector<std::string>> List(const std::string& directory) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  // A file or an empty directory.
  virtual Status Remove(const std::string& path) = 0;
  // With its parents; OK when it is there. New ones get `mode`.
  virtual Status MakeDirectories(const std::string& path, uint32_t mode = 0777) = 0;

  // Takes the lock of that name, which one holder has at a time, in all processes: while another
  // one has it ALREADY_EXISTS, with who that is as far as it is known. Never waits. A file of that
  // name stands there meanwhile; one that a dead process left behind does not count.
  virtual Result<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;

  Result<std::string> ReadFile(const std::string& path);
  Status WriteFile(const std::string& path, std::string_view contents);
  bool Exists(const std::string& path) { return Stat(path).ok(); }
  // The paths that match a shell pattern (*, ?, [...], backslash escapes; a leading dot only by
  // itself), in byte order. A pattern without wildcards gives the path if it exists. No match is an
  // empty list.
  Result<std::vector<std::string>> Glob(const std::string& pattern);
};

// The machine's disk; one for the whole process, without state.
Disk& RealDisk();
// An empty disk in memory, with "/" as its only directory.
std::unique_ptr<Disk> MakeMemoryDisk();

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_DISK_H_
