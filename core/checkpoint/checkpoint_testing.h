// What the tests of checkpoints share: an environment with another disk, a disk that dies, objects
// to be saved, and a team of workers that are threads of one process.
#ifndef TUTTI_CORE_CHECKPOINT_CHECKPOINT_TESTING_H_
#define TUTTI_CORE_CHECKPOINT_CHECKPOINT_TESTING_H_

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/disk.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/real_environment.h"
#include "core/base/thread.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/held_tensor.h"
#include "core/checkpoint/opaque_state.h"
#include "core/tensor/tensor.h"

namespace tutti {

// The seed of a random test: TUTTI_TEST_SEED, or `otherwise`.
inline uint64_t TestSeed(uint64_t otherwise) {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : otherwise;
}

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

// A disk that works for a number of changes and then fails for ever, as for a process that is
// killed: what was not committed stays under its temporary name.
class DyingDisk final : public Disk {
 public:
  explicit DyingDisk(Disk& disk) : disk_(disk) {}

  void DieAfter(int64_t changes) { left_ = changes; }
  bool dead() const { return left_ < 0; }

  Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    return disk_.Open(path);
  }
  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    TUTTI_RETURN_IF_ERROR(Change());
    return std::unique_ptr<WritableFile>(std::make_unique<File>(*this, path));
  }
  Result<FileInfo> Stat(const std::string& path) override { return disk_.Stat(path); }
  Result<std::vector<std::string>> List(const std::string& directory) override {
    return disk_.List(directory);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    TUTTI_RETURN_IF_ERROR(Change());
    return disk_.Rename(from, to);
  }
  Status Remove(const std::string& path) override {
    TUTTI_RETURN_IF_ERROR(Change());
    return disk_.Remove(path);
  }
  Status MakeDirectories(const std::string& path, uint32_t mode) override {
    TUTTI_RETURN_IF_ERROR(Change());
    return disk_.MakeDirectories(path, mode);
  }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    TUTTI_RETURN_IF_ERROR(Change());
    return disk_.Lock(path);
  }

 private:
  class File final : public WritableFile {
   public:
    File(DyingDisk& disk, std::string path) : WritableFile(std::move(path)), disk_(disk) {}
    ~File() override {
      // What a killed process leaves of a file that it was writing.
      if (disk_.dead() && !committed_) {
        (void)disk_.disk_.WriteFile(path() + ".0123456789abcdef.tmp", contents_);
      }
    }
    Status Append(const void* data, size_t bytes) override {
      TUTTI_RETURN_IF_ERROR(disk_.Change());
      contents_.append(static_cast<const char*>(data), bytes);
      return OkStatus();
    }
    Status Commit() override {
      TUTTI_RETURN_IF_ERROR(disk_.Change());
      committed_ = true;
      return disk_.disk_.WriteFile(path(), contents_);
    }
    using WritableFile::Append;

   private:
    DyingDisk& disk_;
    std::string contents_;
    bool committed_ = false;
  };

  Status Change() {
    if (left_.fetch_sub(1) > 0) return OkStatus();
    return Status(StatusCode::kUnavailable, "the process is dead");
  }

  Disk& disk_;
  std::atomic<int64_t> left_{INT64_MAX};
};

// A number that can refuse to be restored.
struct TestNumber {
  explicit TestNumber(int64_t first)
      : tensor(Tensor::Scalar(first)), held(HeldTensor::Create(tensor).value()) {}
  int64_t value() const { return tensor->item<int64_t>(); }
  void Set(int64_t number) { *static_cast<int64_t*>(tensor->mutable_data()) = number; }

  Ref<Tensor> tensor;
  Ref<HeldTensor> held;
};

// Workers that are threads: whoever comes to an exchange waits for the others, until one of them
// has gone for good.
class ThreadTeam {
 public:
  explicit ThreadTeam(int64_t num_workers) : num_workers_(num_workers) {}

  CheckpointTeam Of(int64_t worker) {
    CheckpointTeam team;
    team.worker = worker;
    team.num_workers = num_workers_;
    team.exchange = [this, worker](std::string_view key, std::string bytes, const CallOptions&) {
      return Exchange(worker, key, std::move(bytes));
    };
    return team;
  }

  // Runs `body` for each worker on a thread of its own.
  void Run(const std::function<void(int64_t worker)>& body) {
    std::vector<std::thread> threads;
    for (int64_t worker = 0; worker < num_workers_; ++worker) {
      threads.emplace_back([&, worker] {
        body(worker);
        std::lock_guard lock(mutex_);
        ++gone_;
        changed_.notify_all();
      });
    }
    for (std::thread& thread : threads) thread.join();
    gone_ = 0;
    meetings_.clear();
    counts_.clear();
  }

 private:
  struct Meeting {
    std::string key;
    std::map<int64_t, std::string> brought;
  };

  Result<std::vector<std::string>> Exchange(int64_t worker, std::string_view key,
                                            std::string bytes) {
    std::unique_lock lock(mutex_);
    Meeting& meeting = meetings_[counts_[worker]++];
    EXPECT_TRUE(meeting.brought.empty() || meeting.key == key) << meeting.key << " and " << key;
    meeting.key = std::string(key);
    meeting.brought.emplace(worker, std::move(bytes));
    changed_.notify_all();
    const auto complete = [&] {
      return static_cast<int64_t>(meeting.brought.size()) == num_workers_;
    };
    changed_.wait(lock, [&] { return complete() || gone_ > 0; });
    if (!complete()) return Status(StatusCode::kUnavailable, "a worker is gone");
    std::vector<std::string> all;
    for (const auto& [who, what] : meeting.brought) all.push_back(what);
    return all;
  }

  const int64_t num_workers_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<int64_t, Meeting> meetings_;
  std::map<int64_t, int64_t> counts_;  // of exchanges, by worker
  int64_t gone_ = 0;
};

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest()
      : real_(MakeRef<RealEnvironment>()),
        memory_(MakeMemoryDisk()),
        disk_(*memory_),
        environment_(MakeRef<DiskEnvironment>(real_, &disk_)) {}
  ~CheckpointTest() override {
    EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok());
    EXPECT_TRUE(real_->Shutdown(CallOptions()).ok());
  }

  Ref<Checkpoint> Of(const std::vector<std::pair<std::string, TestNumber*>>& numbers,
                     CheckpointTeam team = {}) {
    Ref<Checkpoint> checkpoint = Checkpoint::Create(environment_, std::move(team));
    for (const auto& [name, number] : numbers) {
      const Status added =
          checkpoint->Add(name, number->held.get(), number->held, Checkpoint::Part::kShared);
      EXPECT_TRUE(added.ok()) << added.ToString();
    }
    return checkpoint;
  }
  std::vector<std::string> Files(const std::string& directory) {
    Result<std::vector<std::string>> names = memory_->List(directory);
    return names.ok() ? std::move(names).value() : std::vector<std::string>();
  }

  const Ref<RealEnvironment> real_;
  const std::unique_ptr<Disk> memory_;
  DyingDisk disk_;
  const Ref<DiskEnvironment> environment_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_CHECKPOINT_TESTING_H_
