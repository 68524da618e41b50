#include "case_folder.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace conformance {
namespace {

bool IsPath(const std::string &text) { return text.rfind("@/", 0) == 0; }

// A text, or {"hex": bytes}.
std::string BytesOf(const Json &contents) {
  if (contents.is_string()) return contents;
  const std::string hex = contents.at("hex");
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

void WriteContents(const std::string &path, const Json &contents) {
  std::ofstream(path, std::ios::binary) << BytesOf(contents);
}

}  // namespace

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

Json CaseFolder::WithPaths(const Json &tree) {
  if (tree.is_string()) {
    const std::string text = tree;
    return IsPath(text) ? Json(PathOf(text.substr(2))) : tree;
  }
  if (!tree.is_structured()) return tree;
  Json made = tree;
  for (auto part = made.begin(); part != made.end(); ++part) {
    if (made.is_object() && part.key() == "files") continue;
    const bool is_database = made.is_object() && part.key() == "database";
    *part = is_database ? Json(File(*part)) : WithPaths(*part);
  }
  if (!made.is_object() || !made.contains("files")) return made;
  if (made.at("op") == "list_files") {
    made["file_pattern"] = Patterns(tree.at("files"), tree.at("file_pattern"));
    made.erase("files");
  } else if (made.at("op") != "records") {
    for (Json &file : made["files"]) file = File(file);
  }
  return made;
}

std::string CaseFolder::NewPath() { return PathOf("made-" + std::to_string(++count_)); }

std::string CaseFolder::File(const Json &contents) {
  if (contents.is_string() && IsPath(contents)) {
    return PathOf(contents.get<std::string>().substr(2));
  }
  const std::string path = NewPath();
  WriteContents(path, contents);
  return path;
}

Json CaseFolder::Patterns(const Json &files, const Json &patterns) {
  const std::string folder = NewPath();
  std::filesystem::create_directory(folder);
  for (const auto &[name, contents] : files.items()) {
    WriteContents(folder + "/" + name, contents);
  }
  Json made = Json::array();
  for (const Json &pattern : patterns.is_array() ? patterns : Json::array({patterns})) {
    made.push_back(folder + "/" + pattern.get<std::string>());
  }
  return made;
}

}  // namespace conformance
