// The folder of one case: "@/x" in a case is the file x in it.
#ifndef TESTS_CONFORMANCE_CPP_CASE_FOLDER_H_
#define TESTS_CONFORMANCE_CPP_CASE_FOLDER_H_

#include <string>

#include "json_values.h"

namespace conformance {

// Made when the first path in it is asked for, and removed with all that is in it.
class CaseFolder {
 public:
  CaseFolder() = default;
  ~CaseFolder();
  CaseFolder(const CaseFolder &) = delete;
  CaseFolder &operator=(const CaseFolder &) = delete;

  // A tree of ops with the paths of its files in the place of their contents, a `database` being a
  // file, too. `records` says what numbers are in its files, which RecordFiles writes.
  Json WithPaths(const Json &tree);

 private:
  std::string PathOf(const std::string &name);
  std::string NewPath();
  // A file with these contents; "@/x" is a path.
  std::string File(const Json &contents);
  // Patterns in a folder of files by name.
  Json Patterns(const Json &files, const Json &patterns);

  std::string folder_;
  int count_ = 0;  // of files and folders that were made
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_CASE_FOLDER_H_
