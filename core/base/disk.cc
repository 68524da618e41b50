// The parts of Disk that every disk shares: whole files at once, and glob.

#include "core/base/disk.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace tutti {
namespace {

bool HasWildcard(std::string_view text) { return text.find_first_of("*?[") != text.npos; }

// Drops the backslashes that protect characters of a pattern.
std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    plain += text[i];
  }
  return plain;
}

std::string JoinPath(const std::string& directory, const std::string& name) {
  if (directory.empty()) return name;
  return directory.back() == '/' ? directory + name : directory + "/" + name;
}

}  // namespace

Result<std::string> Disk::ReadFile(const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, Open(path));
  std::string contents(file->bytes(), '\0');
  TUTTI_ASSIGN_OR_RETURN(const size_t got, file->ReadAt(0, contents.data(), contents.size()));
  contents.resize(got);
  return contents;
}

Status Disk::WriteFile(const std::string& path, std::string_view contents) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, Create(path));
  TUTTI_RETURN_IF_ERROR(file->Append(contents));
  return file->Commit();
}

Result<std::vector<std::string>> Disk::Glob(const std::string& pattern) {
  if (pattern.empty()) return InvalidArgument("glob: the pattern is empty; give a path or pattern");
  // Component by component: `found` are the paths that match what came before.
  std::vector<std::string> found = {pattern.front() == '/' ? "/" : ""};
  bool exact = true;  // the paths in `found` are known to exist
  for (const std::string& component : Split(pattern, '/')) {
    if (component.empty()) continue;
    std::vector<std::string> next;
    if (!HasWildcard(component)) {
      for (const std::string& path : found) next.push_back(JoinPath(path, Unescape(component)));
      exact = false;
    } else {
      for (const std::string& path : found) {
        Result<std::vector<std::string>> names = List(path.empty() ? "." : path);
        if (!names.ok()) continue;  // no directory, or none that may be read: no match there
        for (const std::string& name : *names) {
          if (fnmatch(component.c_str(), name.c_str(), FNM_PERIOD) == 0) {
            next.push_back(JoinPath(path, name));
          }
        }
      }
      exact = true;
    }
    found = std::move(next);
  }
  if (!exact) std::erase_if(found, [this](const std::string& path) { return !Exists(path); });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace tutti
