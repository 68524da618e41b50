// `tutti doctor`: what this machine offers, what is chosen for it, and what will hurt.

#ifndef TUTTI_CAPI_TOOL_DOCTOR_COMMAND_H_
#define TUTTI_CAPI_TOOL_DOCTOR_COMMAND_H_

#include <string>
#include <vector>

namespace tutti::tool {

// The words after `tutti doctor`; returns the exit status.
int DoctorCommand(const std::vector<std::string>& words);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_DOCTOR_COMMAND_H_
