// A disk in memory: a sorted map from absolute path to contents. Open files keep the contents they
// were opened with.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "core/base/disk.h"
#include "core/base/error.h"

namespace tutti {
namespace {

using Contents = std::shared_ptr<const std::string>;

struct Tree {
  std::mutex mutex;                                          // guards all below
  std::map<std::string, Contents> nodes = {{"/", nullptr}};  // a directory has null contents
  std::set<std::string> locks;                               // names that are held
};

// "a//b/" is "/a/b": the working directory is the root.
std::string Normalize(const std::string& path) {
  std::string result;
  for (const std::string& part : Split(path, '/')) {
    if (part.empty() || part == ".") continue;
    result += '/';
    result += part;
  }
  return result.empty() ? "/" : result;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status FileError(int error_number, std::string_view verb, const std::string& path) {
  return ErrnoStatus(error_number, Format("cannot {} {}", verb, Quote(path))).With("file", path);
}

class MemoryReadableFile final : public ReadableFile {
 public:
  MemoryReadableFile(std::string path, Contents contents)
      : ReadableFile(std::move(path), contents->size()), contents_(std::move(contents)) {}

  Result<size_t> ReadAt(uint64_t offset, void* data, size_t bytes) override {
    if (offset >= contents_->size()) return size_t{0};
    const size_t count = std::min<size_t>(bytes, contents_->size() - offset);
    std::memcpy(data, contents_->data() + offset, count);
    return count;
  }

 private:
  const Contents contents_;
};

class MemoryWritableFile final : public WritableFile {
 public:
  MemoryWritableFile(std::string path, std::shared_ptr<Tree> tree)
      : WritableFile(std::move(path)), tree_(std::move(tree)) {}

  Status Append(const void* data, size_t bytes) override {
    if (committed_) return Finished();
    contents_.append(static_cast<const char*>(data), bytes);
    return OkStatus();
  }

  Status Commit() override {
    if (committed_) return Finished();
    committed_ = true;
    std::lock_guard<std::mutex> lock(tree_->mutex);
    tree_->nodes[Normalize(path())] = std::make_shared<const std::string>(std::move(contents_));
    return OkStatus();
  }

  using WritableFile::Append;

 private:
  Status Finished() const {
    return FailedPrecondition("cannot write {}: it has been committed", Quote(path()))
        .With("file", path());
  }

  const std::shared_ptr<Tree> tree_;
  std::string contents_;
  bool committed_ = false;
};

class MemoryFileLock final : public FileLock {
 public:
  MemoryFileLock(std::string name, std::shared_ptr<Tree> tree)
      : name_(std::move(name)), tree_(std::move(tree)) {}
  ~MemoryFileLock() override {
    std::lock_guard<std::mutex> lock(tree_->mutex);
    tree_->locks.erase(name_);
    tree_->nodes.erase(name_);
  }

 private:
  const std::string name_;
  const std::shared_ptr<Tree> tree_;
};

class MemoryDisk final : public Disk {
 public:
  Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    std::lock_guard<std::mutex> lock(tree_->mutex);
    const auto node = tree_->nodes.find(Normalize(path));
    if (node == tree_->nodes.end()) return FileError(ENOENT, "open", path);
    if (node->second == nullptr) return FileError(EISDIR, "open", path);
    return std::unique_ptr<ReadableFile>(
        std::make_unique<MemoryReadableFile>(path, node->second));
  }

  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    std::lock_guard<std::mutex> lock(tree_->mutex);
    const std::string name = Normalize(path);
    if (IsDirectory(name)) return FileError(EISDIR, "write", path);
    if (!IsDirectory(ParentOf(name))) return FileError(ENOENT, "write", path);
    return std::unique_ptr<WritableFile>(std::make_unique<MemoryWritableFile>(path, tree_));
  }

  Result<FileInfo> Stat(const std::string& path) override {
    std::lock_guard<std::mutex> lock(tree_->mutex);
    const auto node = tree_->nodes.find(Normalize(path));
    if (node == tree_->nodes.end()) return FileError(ENOENT, "find", path);
    FileInfo info;
    info.is_directory = node->second == nullptr;
    info.bytes = info.is_directory ? 0 : node->second->size();
    return info;
  }

  Result<std::vector<std::string>> List(const std::string& directory) override {
    std::lock_guard<std::mutex> lock(tree_->mutex);
    const std::string name = Normalize(directory);
    const auto node = tree_->nodes.find(name);
    if (node == tree_->nodes.end()) return FileError(ENOENT, "list", directory);
    if (node->second != nullptr) return FileError(ENOTDIR, "list", directory);
    const std::string prefix = name == "/" ? "/" : name + "/";
    std::vector<std::string> names;
    for (auto it = tree_->nodes.upper_bound(prefix);
         it != tree_->nodes.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) {
      const std::string rest = it->first.substr(prefix.size());
      if (rest.find('/') == std::string::npos) names.push_back(rest);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  Status Rename(const std::string& from, const std::string& to) override {
    std::lock_guard<std::mutex> lock(tree_->mutex);
    const auto node = tree_->nodes.find(Normalize(from));
    if (node == tree_->nodes.end()) return FileError(ENOENT, "rename", from);
    if (node->second == nullptr) {
      return Unimplemented("cannot rename {}: this disk renames files only", Quote(from))
          .With("file", from);
    }
    if (IsDirectory(Normalize(to))) return FileError(EISDIR, "rename", from);
    if (!IsDirectory(ParentOf(Normalize(to)))) return FileError(ENOENT, "rename", from);
    Contents contents = node->second;
    tree_->nodes.erase(node);
    tree_->nodes[Normalize(to)] = std::move(contents);
    return OkStatus();
  }

  Status Remove(const std::string& path) override {
    std::lock_guard<std::mutex> lock(tree_->mutex);
    const std::string name = Normalize(path);
    const auto node = tree_->nodes.find(name);
    if (node == tree_->nodes.end()) return FileError(ENOENT, "remove", path);
    if (name == "/") return FileError(EBUSY, "remove", path);
    if (node->second == nullptr) {
      const std::string prefix = name + "/";
      const auto child = tree_->nodes.upper_bound(prefix);
      if (child != tree_->nodes.end() && child->first.compare(0, prefix.size(), prefix) == 0) {
        return FileError(ENOTEMPTY, "remove", path);
      }
    }
    tree_->nodes.erase(node);
    return OkStatus();
  }

  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    const std::string name = Normalize(path);
    std::lock_guard<std::mutex> lock(tree_->mutex);
    if (IsDirectory(name)) return FileError(EISDIR, "lock", path);
    if (!IsDirectory(ParentOf(name))) return FileError(ENOENT, "lock", path);
    if (!tree_->locks.insert(name).second) {
      return AlreadyExists("cannot lock {}: another holder has it", Quote(path))
          .With("file", path)
          .With("holder", "another holder");
    }
    tree_->nodes[name] = std::make_shared<const std::string>();
    return std::unique_ptr<FileLock>(std::make_unique<MemoryFileLock>(name, tree_));
  }

  Status MakeDirectories(const std::string& path, uint32_t) override {
    std::lock_guard<std::mutex> lock(tree_->mutex);
    const std::string name = Normalize(path);
    for (size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
      const auto [node, added] = tree_->nodes.emplace(name.substr(0, end), nullptr);
      if (node->second != nullptr) return FileError(ENOTDIR, "make directory", node->first);
      if (end == std::string::npos) return OkStatus();
    }
  }

 private:
  bool IsDirectory(const std::string& name) const {
    const auto node = tree_->nodes.find(name);
    return node != tree_->nodes.end() && node->second == nullptr;
  }

  const std::shared_ptr<Tree> tree_ = std::make_shared<Tree>();
};

}  // namespace

std::unique_ptr<Disk> MakeMemoryDisk() { return std::make_unique<MemoryDisk>(); }

}  // namespace tutti
