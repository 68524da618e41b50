// The subjects that `tutti doctor` looks into. Each adds its facts and problems to the report.

#ifndef TUTTI_CAPI_TOOL_DOCTOR_CHECKS_H_
#define TUTTI_CAPI_TOOL_DOCTOR_CHECKS_H_

#include <functional>
#include <string>
#include <vector>

#include "capi/tool/doctor_report.h"

namespace tutti::tool {

// The library: its version, where it was loaded from, whether a runtime starts with the settings
// as they are, its devices and plugins: doctor_library.cc. Returns the names of the settings; none
// when no runtime starts.
std::vector<std::string> CheckLibrary(DoctorReport* report);
// The TUTTI_* variables that are set; what is secret is never shown.
void CheckVariables(const std::vector<std::string>& settings, DoctorReport* report);

// TF_CONFIG as the library reads it, and whether this machine fits into it: doctor_cluster.cc.
void CheckTfConfig(DoctorReport* report);

// What is asked of resolvers that need to be told something.
struct ResolverQuestions {
  std::string pod_label;
  std::string gce_group;  // "": Compute Engine is not asked
  std::function<void(const std::string& name)> before_each;  // hears who is asked next; or none
};
// What each resolver would answer here, or why it cannot: doctor_resolvers.cc. Nothing of it is a
// problem: a machine is under one of them at most.
void CheckResolvers(const ResolverQuestions& questions, DoctorReport* report);

// Cores, memory, shared memory, processes, SIMD, limits: doctor_machine.cc.
void CheckMachine(DoctorReport* report);

// Interfaces and addresses; and, unless `coordinator` is empty, the address that this machine would
// be reached at from there: doctor_network.cc.
void CheckNetwork(const std::string& coordinator, DoctorReport* report);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_DOCTOR_CHECKS_H_
