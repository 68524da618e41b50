// RunTask: what the threads of executors do with a task.

#ifndef TUTTI_CORE_BASE_RUN_TASK_H_
#define TUTTI_CORE_BASE_RUN_TASK_H_

#include <string_view>

#include "core/base/status.h"
#include "core/base/task.h"

namespace tutti {

class Log;

// Runs and destroys a task that has nobody to throw to: an exception is a line in the log, which
// `who` begins, and the status.
Status RunTask(Task* task, std::string_view who, Log* log);

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_RUN_TASK_H_
