#include "core/base/run_task.h"

#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/log.h"

namespace tutti {

Status RunTask(Task* task, std::string_view who, Log* log) {
  Status status = CatchExceptions(who, [&] {
    const struct Destroyed {
      Task* task;
      ~Destroyed() { *task = Task(); }
    } destroyed{task};
    (*task)();
    return OkStatus();
  });
  if (status.ok()) return status;
  (void)CatchExceptions(who, [&] {
    log->Error(Format("{}: a task was given up: {}", who, status.ToString()));
    return OkStatus();
  });
  return status;
}

}  // namespace tutti
