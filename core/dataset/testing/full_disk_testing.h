// A disk that fills up, and an environment that has it: for tests of what is written.
#ifndef TUTTI_CORE_DATASET_TESTING_FULL_DISK_TESTING_H_
#define TUTTI_CORE_DATASET_TESTING_FULL_DISK_TESTING_H_

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/real_environment.h"
#include "core/base/thread.h"

namespace tutti {

// A disk in memory that is full after some bytes.
class FullDisk final : public Disk {
 public:
  explicit FullDisk(uint64_t bytes) : left_(bytes), disk_(MakeMemoryDisk()) {}

  Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    return disk_->Open(path);
  }
  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, disk_->Create(path));
    return std::unique_ptr<WritableFile>(std::make_unique<File>(std::move(file), &left_));
  }
  Result<FileInfo> Stat(const std::string& path) override { return disk_->Stat(path); }
  Result<std::vector<std::string>> List(const std::string& directory) override {
    return disk_->List(directory);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return disk_->Rename(from, to);
  }
  Status Remove(const std::string& path) override { return disk_->Remove(path); }
  Status MakeDirectories(const std::string& path, uint32_t mode) override {
    return disk_->MakeDirectories(path, mode);
  }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return disk_->Lock(path);
  }

 private:
  class File final : public WritableFile {
   public:
    File(std::unique_ptr<WritableFile> file, uint64_t* left)
        : WritableFile(file->path()), file_(std::move(file)), left_(left) {}
    Status Append(const void* data, size_t bytes) override {
      if (bytes > *left_) {
        return ErrnoStatus(ENOSPC, "cannot write " + path()).With("file", path());
      }
      *left_ -= bytes;
      return file_->Append(data, bytes);
    }
    Status Commit() override { return file_->Commit(); }

   private:
    const std::unique_ptr<WritableFile> file_;
    uint64_t* const left_;
  };

  uint64_t left_;
  const std::unique_ptr<Disk> disk_;
};

// The real environment's services but for the disk.
class DiskEnvironment final : public Environment {
 public:
  DiskEnvironment(Ref<RealEnvironment> real, Disk* disk) : real_(std::move(real)) {
    Services services = ServicesOf(*real_);
    services.disk = disk;
    SetServices(services);
  }
  Result<Thread> StartThread(std::string_view name, Task task) override {
    return real_->StartThread(name, std::move(task));
  }

 protected:
  Status OnShutdown(const CallOptions&) override { return OkStatus(); }

 private:
  const Ref<RealEnvironment> real_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_FULL_DISK_TESTING_H_
