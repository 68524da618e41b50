// Whatever the workers leave behind: children that outlived them, daemons in sessions of their own.
//
// The supervisor is a child subreaper (PR_SET_CHILD_SUBREAPER), so that each process whose parent
// dies becomes a child of ours instead of init's, however it was started. Killing our children
// until there are none left therefore ends all of them.

#ifndef TUTTI_CAPI_TOOL_DESCENDANTS_H_
#define TUTTI_CAPI_TOOL_DESCENDANTS_H_

#include <sys/types.h>

#include <vector>

namespace tutti::tool {

// The processes whose parent is this one, zombies too.
std::vector<pid_t> ChildrenOfThisProcess();

// Reaps the children that have ended; true while there are others.
bool ReapEndedChildren();

// SIGKILL to all children, again and again, as theirs become ours, until none is left. Returns
// false when some survived for five seconds (a process that the kernel cannot interrupt).
bool KillAllChildren();

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_DESCENDANTS_H_
