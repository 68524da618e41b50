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

  // A tree of ops with the paths of its files. `files` are contents, and stay as they are; a
  // `database` is written, and becomes the path of that file.
  Json WithPaths(const Json &tree);

 private:
  std::string PathOf(const std::string &name);
  std::string WriteDatabase(const Json &contents);

  std::string folder_;
  int databases_ = 0;
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_CASE_FOLDER_H_
