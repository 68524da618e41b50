#include "case_folder.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace conformance {

CaseFolder::~CaseFolder() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::string CaseFolder::PathOf(const std::string &name) {
  if (folder_.empty()) {
    std::string made = std::filesystem::temp_directory_path() / "tutti-conformance-case-XXXXXX";
    if (mkdtemp(made.data()) == nullptr) throw std::runtime_error("no folder for the case");
    folder_ = made;
  }
  return folder_ + "/" + name;
}

std::string CaseFolder::WriteDatabase(const Json &contents) {
  const std::string path = PathOf("database-" + std::to_string(databases_++));
  const std::string hex = contents.at("hex");
  std::ofstream file(path, std::ios::binary);
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    file.put(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
  return path;
}

Json CaseFolder::WithPaths(const Json &tree) {
  if (tree.is_string()) {
    const std::string text = tree;
    return text.rfind("@/", 0) == 0 ? Json(PathOf(text.substr(2))) : tree;
  }
  if (!tree.is_structured()) return tree;
  Json made = tree;
  for (auto part = made.begin(); part != made.end(); ++part) {
    if (made.is_object() && part.key() == "files") continue;
    const bool is_database = made.is_object() && part.key() == "database";
    *part = is_database ? Json(WriteDatabase(*part)) : WithPaths(*part);
  }
  return made;
}

}  // namespace conformance
