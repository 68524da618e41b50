// The process that the user started, kept apart from the one that supervises the job, so that
// neither's death leaves anything behind:
//
//   tutti run (guard) -- tutti run (supervisor) -- workers -- whatever they start
//
// The guard killed, even by SIGKILL: the supervisor is told by the kernel and kills the job. The
// supervisor killed: its workers die with it (PR_SET_PDEATHSIG), and what they had started comes to
// the guard, which is a child subreaper too. The supervisor has a process group of its own, because
// a group is often killed as a whole.

#ifndef TUTTI_CAPI_TOOL_GUARD_H_
#define TUTTI_CAPI_TOOL_GUARD_H_

#include <functional>
#include <string>

#include "capi/tool/signal_inlet.h"

namespace tutti::tool {

// Runs `supervise` in a child process, passes signals on to it, and returns its exit status.
// `command` is what messages begin with: "tutti run".
int RunGuarded(const std::string& command, SignalInlet* signals,
               const std::function<int()>& supervise);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_GUARD_H_
