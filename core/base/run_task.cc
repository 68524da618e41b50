#include "core/base/run_task.h"

#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/log.h"

namespace tutti {

void RunTask(Task* task, std::string_view who, Log* log) {
  const Status status = CatchExceptions(who, [&] {
    const struct Destroyed {
      Task* task;
      ~Destroyed() { *task = Task(); }
    } destroyed{task};
    (*task)();
    return OkStatus();
  });
  if (status.ok()) return;
  (void)CatchExceptions(who, [&] {
    log->Error(Format("{}: a task was given up: {}", who, status.ToString()));
    return OkStatus();
  });
}

}  // namespace tutti
