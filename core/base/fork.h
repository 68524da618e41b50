// What a fork does to us: the child has our memory and none of our threads. A handler counts forks
// in the child, so that objects made before can refuse to work with a clear message. Releasing
// stays possible, joins nothing and takes no lock that a lost thread may hold.

#ifndef TUTTI_CORE_BASE_FORK_H_
#define TUTTI_CORE_BASE_FORK_H_

#include <cstdint>

namespace tutti {

// Installs the handler, once per process. Called when the first environment is made.
void InstallForkHandler();

// How often this process's ancestors have forked since the handler was installed: an object that
// remembers another number was made before a fork.
uint64_t ForkGeneration() noexcept;

// True in a process that was forked off while an environment was running.
bool InForkedChild() noexcept;

// Environments report themselves, so that a fork after shutdown leaves a child that may start
// afresh.
void NoteEnvironmentStarted() noexcept;
void NoteEnvironmentStopped() noexcept;

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_FORK_H_
