// The machine's files, by POSIX calls.

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/file_descriptor.h"
#include "core/base/random.h"

namespace tutti {
namespace {

Status DiskError(int error_number, std::string_view verb, const std::string& path) {
  return ErrnoStatus(error_number, Format("cannot {} {}", verb, Quote(path))).With("file", path);
}

// Calls `call` again as long as a signal interrupts it.
template <typename Call>
auto Retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

class RealReadableFile final : public ReadableFile {
 public:
  RealReadableFile(std::string path, uint64_t bytes, int descriptor)
      : ReadableFile(std::move(path), bytes), descriptor_(descriptor) {}
  ~RealReadableFile() override { ::close(descriptor_); }

  Result<size_t> ReadAt(uint64_t offset, void* data, size_t bytes) override {
    size_t done = 0;
    while (done < bytes) {
      const ssize_t got = Retry([&] {
        return ::pread(descriptor_, static_cast<char*>(data) + done, bytes - done,
                       static_cast<off_t>(offset + done));
      });
      if (got < 0) return DiskError(errno, "read", path()).With("offset", offset + done);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

 private:
  const int descriptor_;
};

class RealWritableFile final : public WritableFile {
 public:
  RealWritableFile(std::string path, std::string temporary, int descriptor)
      : WritableFile(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

  ~RealWritableFile() override {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!committed_) ::unlink(temporary_.c_str());
  }

  Status Append(const void* data, size_t bytes) override {
    if (descriptor_ < 0) return Finished();
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = Retry([&] { return ::write(descriptor_, next, bytes); });
      if (written < 0) return DiskError(errno, "write", path());
      next += written;
      bytes -= static_cast<size_t>(written);
    }
    return OkStatus();
  }

  Status Commit() override {
    if (descriptor_ < 0) return Finished();
    const int synced = Retry([&] { return ::fsync(descriptor_); });
    const int sync_error = errno;
    const int closed = ::close(std::exchange(descriptor_, -1));
    if (synced < 0) return DiskError(sync_error, "write", path());
    if (closed < 0) return DiskError(errno, "write", path());
    if (::rename(temporary_.c_str(), path().c_str()) < 0) {
      return DiskError(errno, "write", path());
    }
    committed_ = true;
    const int directory = Retry([&] {
      return ::open(DirectoryOf(path()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    });
    if (directory < 0) return DiskError(errno, "make durable", path());
    const int directory_synced = Retry([&] { return ::fsync(directory); });
    const int directory_error = errno;
    ::close(directory);
    // Some file systems cannot sync a directory, and need not.
    if (directory_synced < 0 && directory_error != EINVAL) {
      return DiskError(directory_error, "make durable", path());
    }
    return OkStatus();
  }

  using WritableFile::Append;

 private:
  Status Finished() const {
    return FailedPrecondition("cannot write {}: it has been committed, or committing it failed",
                              Quote(path()))
        .With("file", path());
  }

  const std::string temporary_;
  int descriptor_;
  bool committed_ = false;
};

// flock on a file: the kernel gives it up when the process dies, however that happens.
class RealFileLock final : public FileLock {
 public:
  RealFileLock(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  ~RealFileLock() override {
    // In this order: who opens the file in between gets a lock on a file without a name, and sees
    // that.
    ::unlink(path_.c_str());
    ::close(descriptor_);
  }

 private:
  const std::string path_;
  const int descriptor_;
};

// What the holder of a lock wrote into its file.
std::string HolderOf(int descriptor) {
  char text[256];
  const ssize_t got = Retry([&] { return ::pread(descriptor, text, sizeof(text), 0); });
  return got > 0 ? std::string(text, static_cast<size_t>(got)) : "another holder";
}

// The system would read the path up to there.
Status CheckPath(const std::string& path, std::string_view verb) {
  if (path.find('\0') == std::string::npos) return OkStatus();
  return InvalidArgument("cannot {} {}: a path has no NUL in it", verb, Quote(path))
      .With("file", path);
}

std::string_view KindName(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "something else";
}

// Opens a regular file and nothing else: opening, reading or closing a FIFO or a device may wait
// for ever or move something, and neither can be read at an offset.
Result<FileDescriptor> OpenRegular(const std::string& path, int flags, std::string_view verb,
                                   struct stat* info) {
  TUTTI_RETURN_IF_ERROR(CheckPath(path, verb));
  const int all_flags = flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  FileDescriptor file(Retry([&] { return ::open(path.c_str(), all_flags, 0666); }));
  // Only a regular file has a lease, and the kernel soon takes it away from its holder.
  if (!file && errno == EWOULDBLOCK) {
    file = FileDescriptor(
        Retry([&] { return ::open(path.c_str(), all_flags & ~O_NONBLOCK, 0666); }));
  }
  if (!file && errno != ENXIO) return DiskError(errno, verb, path);
  // What cannot be opened at all, as a socket, has a kind, too.
  if ((file ? ::fstat(file.get(), info) : ::stat(path.c_str(), info)) < 0) {
    return DiskError(errno, verb, path);
  }
  if (S_ISDIR(info->st_mode)) return DiskError(EISDIR, verb, path);
  if (file && S_ISREG(info->st_mode)) return file;
  return FailedPrecondition(
             "cannot {} {}: expected a regular file, found {}; copy its contents into a file",
             verb, Quote(path), KindName(info->st_mode))
      .With("file", path);
}

class SystemDisk final : public Disk {
 public:
  Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    struct stat info {};
    TUTTI_ASSIGN_OR_RETURN(FileDescriptor file, OpenRegular(path, O_RDONLY, "open", &info));
    return std::unique_ptr<ReadableFile>(std::make_unique<RealReadableFile>(
        path, static_cast<uint64_t>(info.st_size), file.Release()));
  }

  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    TUTTI_RETURN_IF_ERROR(CheckPath(path, "write"));
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return DiskError(EISDIR, "write", path);
    }
    const std::string temporary = Format("{}.{:016x}.tmp", path, KernelRandom().Next());
    // What lies in a directory that only its owner may enter stays private wherever it is moved.
    const bool is_private =
        ::stat(DirectoryOf(path).c_str(), &info) == 0 && (info.st_mode & 0077) == 0;
    const int descriptor = Retry([&] {
      return ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                    is_private ? 0600 : 0666);
    });
    if (descriptor < 0) return DiskError(errno, "write", path);
    return std::unique_ptr<WritableFile>(
        std::make_unique<RealWritableFile>(path, temporary, descriptor));
  }

  Result<FileInfo> Stat(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) < 0) return DiskError(errno, "find", path);
    FileInfo result;
    result.bytes = static_cast<uint64_t>(info.st_size);
    result.is_directory = S_ISDIR(info.st_mode);
    result.modified_wall_ns =
        static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
    return result;
  }

  Result<std::vector<std::string>> List(const std::string& directory) override {
    DIR* const handle = ::opendir(directory.c_str());
    if (handle == nullptr) return DiskError(errno, "list", directory);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(handle);
      if (entry == nullptr) break;
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    const int error_number = errno;
    ::closedir(handle);
    if (error_number != 0) return DiskError(error_number, "list", directory);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) < 0) {
      const int error_number = errno;
      return ErrnoStatus(error_number, Format("cannot rename {} to {}", Quote(from), Quote(to)))
          .With("file", from);
    }
    return OkStatus();
  }

  Status Remove(const std::string& path) override {
    if (std::remove(path.c_str()) < 0) return DiskError(errno, "remove", path);
    return OkStatus();
  }

  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    for (;;) {
      struct stat held {}, named {};
      TUTTI_ASSIGN_OR_RETURN(FileDescriptor file,
                             OpenRegular(path, O_RDWR | O_CREAT, "lock", &held));
      const int descriptor = file.get();
      if (Retry([&] { return ::flock(descriptor, LOCK_EX | LOCK_NB); }) < 0) {
        const int error_number = errno;
        const std::string holder = HolderOf(descriptor);
        if (error_number != EWOULDBLOCK) return DiskError(error_number, "lock", path);
        return AlreadyExists("cannot lock {}: {} has it", Quote(path), holder)
            .With("file", path)
            .With("holder", holder);
      }
      if (::stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
          held.st_ino == named.st_ino) {
        char host[256] = {};
        ::gethostname(host, sizeof(host) - 1);
        const std::string holder = Format("process {} on {}", ::getpid(), host);
        // For people only: a lock without a name is one, too.
        [[maybe_unused]] const bool written =
            ::ftruncate(descriptor, 0) == 0 &&
            ::pwrite(descriptor, holder.data(), holder.size(), 0) >= 0;
        return std::unique_ptr<FileLock>(std::make_unique<RealFileLock>(path, file.Release()));
      }
      // The holder before us removed the file between our open and our lock: once more.
    }
  }

  Status MakeDirectories(const std::string& path, uint32_t mode) override {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string prefix = path.substr(0, end);
      if (::mkdir(prefix.c_str(), mode) < 0) {
        const int error_number = errno;
        struct stat info {};
        const bool there = ::stat(prefix.c_str(), &info) == 0;
        if (there && !S_ISDIR(info.st_mode)) return DiskError(ENOTDIR, "make directory", prefix);
        if (!there) return DiskError(error_number, "make directory", prefix);
      }
      if (end == std::string::npos) return OkStatus();
    }
  }
};

}  // namespace

Disk& RealDisk() {
  static SystemDisk* const disk = new SystemDisk();
  return *disk;
}

}  // namespace tutti
