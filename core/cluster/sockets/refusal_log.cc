#include "core/cluster/sockets/refusal_log.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace tutti {

RefusalLog::RefusalLog(Log& log, const Clock& clock, std::string port)
    : log_(log), clock_(clock), port_(std::move(port)), next_line_ns_(clock.NowNs()) {}

void RefusalLog::CountCrowded(size_t limit) {
  ++crowded_;
  limit_ = limit;
}

void RefusalLog::CountWithoutDescriptor(int error) {
  ++without_descriptor_;
  error_ = error;
}

void RefusalLog::CountOtherSecret(const std::string& peer, const std::string& fingerprint,
                                  const std::string& own_fingerprint) {
  ++other_secret_;
  other_secret_last_ = Format("{}, whose secret has the fingerprint {}, this job's has {}", peer,
                              fingerprint, own_fingerprint);
}

int64_t RefusalLog::due_ns() const {
  return crowded_ + without_descriptor_ + other_secret_ > 0 ? next_line_ns_ : kNeverNs;
}

void RefusalLog::Tick() {
  const int64_t now_ns = clock_.NowNs();
  if (now_ns < due_ns()) return;
  next_line_ns_ = now_ns + kPeriodNs;
  if (crowded_ > 0) {
    log_.Warning(Format("{}: {} connections were cut off, because more than {} at a time had not "
                        "proved yet that they belong to the job; workers try again by themselves; "
                        "if this goes on, see who else connects here (`ss -tn`)",
                        port_, std::exchange(crowded_, 0), limit_));
  }
  if (other_secret_ > 0) {
    log_.Warning(Format("{}: {} attempts to join came from workers with another job secret, the "
                        "last from {}; give all workers of a job the same TUTTI_JOB_SECRET or "
                        "TUTTI_JOB_SECRET_FILE",
                        port_, std::exchange(other_secret_, 0), other_secret_last_));
  }
  if (without_descriptor_ > 0) {
    log_.Warning(Format("{}: {} connections could not be taken: {}; workers try again by "
                        "themselves; if this goes on, allow this process more open files "
                        "(`ulimit -n`)",
                        port_, std::exchange(without_descriptor_, 0),
                        ErrnoStatus(error_, "accept").message()));
  }
}

}  // namespace tutti
