// One function per file of vectors: runs a case, throws Mismatch or Failure when it fails and
// NotCovered when it names something that the runner does not know.
#ifndef TESTS_CONFORMANCE_CPP_CASES_H_
#define TESTS_CONFORMANCE_CPP_CASES_H_

#include "json_values.h"

namespace conformance {

void RunDatasetCase(const Json &test);
void RunDistributeCase(const Json &test);
void RunReduceCase(const Json &test);
void RunValuesCase(const Json &test);
void RunDeviceSpecCase(const Json &test);
void RunDebuggingCase(const Json &test);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_CASES_H_
