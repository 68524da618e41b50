// The files of the op `records`.
#ifndef TESTS_CONFORMANCE_CPP_RECORD_FILES_H_
#define TESTS_CONFORMANCE_CPP_RECORD_FILES_H_

#include <string>
#include <vector>

#include "json_values.h"

namespace conformance {

// A TFRecord file for each list of `files`, whose numbers are records of 8 bytes. The same lists
// give the same files, also to several workers at once.
std::vector<std::string> RecordFiles(const Json &files);

// Removes all of them.
void RemoveRecordFiles();

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_RECORD_FILES_H_
