// FormingConnections: the connections between workers while they form a group. Each belongs to a
// stage of the forming, and a stage has an end: what has come for it by then and was not taken is
// closed, and what comes later is refused. So no socket outlasts a forming that was cut short or
// that fell back to another kind of connection, whichever side was the first to give up.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_FORMING_CONNECTIONS_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_FORMING_CONNECTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/call_options.h"
#include "core/base/file_descriptor.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/cluster/auth/job_secret.h"

namespace tutti {

class Environment;
class PeerListener;

class FormingConnections {
 public:
  FormingConnections(Ref<Environment> environment, JobSecret secret, PeerListener* listener,
                     int64_t worker);

  // Before the first connection: the forming's, the same on all workers and like no other's of
  // theirs, of whatever group.
  void set_id(std::string id) { id_ = std::move(id); }
  const std::string& id() const { return id_; }

  // While it lives, workers connect for the stage. All of them have tried before it ends, or the
  // forming has failed here.
  class Stage {
   public:
    Stage(const FormingConnections& connections, std::string_view name);
    ~Stage();
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

   private:
    PeerListener* const listener_;
    const std::string purpose_;
  };

  Result<FileDescriptor> Connect(int64_t worker, const std::string& address,
                                 std::string_view stage, const CallOptions& call) const;
  Result<FileDescriptor> Accept(int64_t worker, std::string_view stage,
                                const CallOptions& call) const;

 private:
  std::string Purpose(std::string_view stage) const;

  const Ref<Environment> environment_;
  const JobSecret secret_;
  PeerListener* const listener_;
  const int64_t worker_;
  std::string id_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_FORMING_CONNECTIONS_H_
