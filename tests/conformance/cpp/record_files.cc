#include "record_files.h"

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>

namespace conformance {
namespace {

struct Written {
  std::mutex mutex;  // guards what follows
  std::string folder;
  std::map<std::string, std::vector<std::string>> paths;  // by the lists as text
};

Written &AllWritten() {
  static auto *const written = new Written;
  return *written;
}

void WriteFile(const std::string &path, const Json &numbers) {
  RecordWriter writer;
  Check(tutti_tf_record_writer_create(nullptr, path.c_str(), nullptr, writer.out()));
  for (const Json &json : numbers) {
    const int64_t number = json;
    Check(tutti_tf_record_writer_write(writer.get(), &number, sizeof(number)));
  }
  Check(tutti_tf_record_writer_close(writer.get()));
}

}  // namespace

std::vector<std::string> RecordFiles(const Json &files) {
  Written &written = AllWritten();
  const std::lock_guard<std::mutex> lock(written.mutex);
  const auto [found, is_new] = written.paths.try_emplace(files.dump());
  std::vector<std::string> &paths = found->second;
  if (!is_new) return paths;
  if (written.folder.empty()) {
    std::string name = std::filesystem::temp_directory_path() / "tutti-conformance-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for record files");
    written.folder = name;
  }
  for (const Json &numbers : files) {
    paths.push_back(written.folder + "/" + std::to_string(written.paths.size()) + "-" +
                    std::to_string(paths.size()) + ".tfrecord");
    WriteFile(paths.back(), numbers);
  }
  return paths;
}

void RemoveRecordFiles() {
  Written &written = AllWritten();
  const std::lock_guard<std::mutex> lock(written.mutex);
  if (!written.folder.empty()) std::filesystem::remove_all(written.folder);
  written.folder.clear();
  written.paths.clear();
}

}  // namespace conformance
