// What a forming leaves behind when it falls back or fails, and groups that have the same name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/group/group_forming.h"
#include "core/collective/select/selector.h"
#include "core/collective/testing/group_forming_testing.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

class GroupFormingEndsTest : public GroupFormingTest {
 protected:
  void ExpectNoConnectionWaits(std::string_view when) const {
    for (size_t worker = 0; worker < listeners_.size(); ++worker) {
      EXPECT_EQ(listeners_[worker]->num_waiting(), 0u) << "worker " << worker << ", " << when;
    }
  }
  Result<Ref<Communicator>> Over(size_t worker, FormedGroup group) {
    return Communicator::CreateOver(environments_[worker].get(), "test",
                                    static_cast<int64_t>(worker), std::ssize(infos_), 1,
                                    std::move(group.transport));
  }
};

Ref<Tensor> One(int64_t value) {
  Ref<Tensor> tensor = Tensor::Create(DType::kInt64, Shape({1})).value();
  tensor->mutable_span<int64_t>()[0] = value;
  return tensor;
}

TEST_F(GroupFormingEndsTest, FallingBackLeavesNoConnectionBehind) {
  Start({"a", "a", "a", "a"});
  // Two containers with a network of their own, on one machine.
  sees_ = [](size_t worker, std::vector<WorkerInfo>* infos) {
    if (worker < 2) return;
    (*infos)[0].local_address = (*infos)[1].local_address = "@tutti-nobody-listens-here";
  };
  for (int64_t epoch = 1; epoch <= 10; ++epoch) {
    for (const std::string& kind : FormAndUse(epoch)) EXPECT_EQ(kind, "1 ring, 2 tcp");
    ExpectNoConnectionWaits(Format("epoch {}", epoch));
  }
}

TEST_F(GroupFormingEndsTest, WhoIsGoneSaysMoreThanTheConnectionThatBroke) {
  Start({"a", "b"});
  sees_ = [](size_t worker, std::vector<WorkerInfo>* infos) {
    if (worker == 1) (*infos)[0].tcp_address = "127.0.0.1:1";  // nobody listens there
  };
  hears_ = [](size_t, std::string_view key) {
    return key.ends_with(": tcp") ? Unavailable("worker 0 (pid 4711) is gone") : OkStatus();
  };
  const std::vector<Status> statuses =
      Run([&](size_t worker) { return Form(worker, Hang()).status(); });
  EXPECT_EQ(statuses[1].message(), "worker 0 (pid 4711) is gone");
  EXPECT_THAT(statuses[1].ToString(), HasSubstr("127.0.0.1:1"));
}

TEST_F(GroupFormingEndsTest, AFormingThatIsCutShortLeavesNoConnectionBehind) {
  const std::vector<std::string> one_machine = {"a", "a", "a"};
  const std::vector<std::string> two_hosts = {"a", "a", "b", "b"};
  const std::pair<const std::vector<std::string>*, const char*> cases[] = {
      {&one_machine, "segment offered"},     {&two_hosts, "rings"},
      {&two_hosts, "tcp"},                   {&two_hosts, "host segments offered"},
      {&two_hosts, "hosts connected"},
  };
  for (const auto& [machines, stage] : cases) {
    Reset();
    Start(*machines);
    hears_ = [stage = stage](size_t, std::string_view key) {
      return key.ends_with(Format(": {}", stage)) ? Unavailable("worker 9 is gone") : OkStatus();
    };
    for (const Status& status : Run([&](size_t worker) { return Form(worker, Hang()).status(); })) {
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << stage << ": " << status.ToString();
    }
    ExpectNoConnectionWaits(stage);
    hears_ = nullptr;
    FormAndUse(2);
    ExpectNoConnectionWaits(stage);
  }
}

// Parts of different groups may have one name, which people choose.
TEST_F(GroupFormingEndsTest, LaterConnectionsComeToTheirGroupWhereTwoHaveOneName) {
  Start({"a", "b", "c", "d"});
  table_ = SelectorTable::Parse("broadcast tcp any any tree\n", "test").value();
  for (const Status& status : Run([&](size_t worker) -> Status {
         const auto rank = static_cast<int64_t>(worker);
         std::vector<Ref<Communicator>> groups;
         for (const char* parent : {"first ", "second "}) {
           TUTTI_ASSIGN_OR_RETURN(FormedGroup group, Form(worker, Hang(), 1, nullptr, parent));
           EXPECT_THAT(group.kind, HasSubstr("others at first use"));
           TUTTI_ASSIGN_OR_RETURN(groups.emplace_back(), Over(worker, std::move(group)));
         }
         // No neighbours in a tree: of the first pair the higher rank needs the link first, of the
         // second the lower one.
         const std::pair<int64_t, int64_t> pairs[] = {{3, 1}, {1, 2}, {0, 3}};
         for (const auto& [from, to] : pairs) {
           for (size_t i = 0; i < groups.size(); ++i) {
             const int64_t sent = 100 * from + 10 * to + static_cast<int64_t>(i);
             if (rank == from) {
               TUTTI_RETURN_IF_ERROR(groups[i]->Send(*One(sent), to, Hang()));
             } else if (rank == to) {
               const Ref<Tensor> tensor = One(-1);
               TUTTI_RETURN_IF_ERROR(groups[i]->Receive(from, Hang(), tensor.get()));
               EXPECT_EQ(tensor->span<int64_t>()[0], sent);
             }
           }
         }
         for (const Ref<Communicator>& group : groups) {
           TUTTI_RETURN_IF_ERROR(group->Barrier(Hang()));
         }
         for (const Ref<Communicator>& group : groups) {
           TUTTI_RETURN_IF_ERROR(group->Close(Hang()));
         }
         return OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  ExpectNoConnectionWaits("at the end");
}

TEST_F(GroupFormingEndsTest, GroupsOfOneNameCanBeFormedAtOnce) {
  const std::vector<std::vector<std::string>> spreads = {
      {"a", "b", "c"}, {"a", "a", "a"}, {"a", "a", "b"}};
  for (const std::vector<std::string>& machines : spreads) {
    Reset();
    Start(machines);
    for (int round = 0; round < 5; ++round) {
      const auto form = [&](size_t worker, int64_t part) -> Status {
        TUTTI_ASSIGN_OR_RETURN(FormedGroup group, Form(worker, Hang(), 1, nullptr,
                                                       Format("{}.{} ", round, part)));
        TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> self, Over(worker, std::move(group)));
        const Ref<Tensor> tensor = One(part);
        TUTTI_RETURN_IF_ERROR(self->AllReduce(*tensor, ReduceOp::kSum, Hang(), tensor.get()));
        EXPECT_EQ(tensor->span<int64_t>()[0], 3 * part);
        return self->Close(Hang());
      };
      for (const Status& status : Run([&](size_t worker) {
             Status of_other;
             std::thread other([&] { of_other = form(worker, 1000); });
             Status status = form(worker, 1);
             other.join();
             return status.ok() ? of_other : status;
           })) {
        EXPECT_TRUE(status.ok()) << status.ToString();
      }
    }
    ExpectNoConnectionWaits("at the end");
  }
}

TEST_F(GroupFormingEndsTest, NobodyWaitsForAWorkerThatGotNoGroup) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"a", "a", "a"}, "segment entered"},
      {{"a", "b", "c"}, "ready"},
      {{"a", "a", "b", "b"}, "hosts joined"},
  };
  for (const auto& [machines, last_stage] : cases) {
    Reset();
    Start(machines);
    const std::string_view stage = last_stage;
    // Its time is up when all others have had the last answer.
    const size_t last = machines.size() - 1;
    hears_ = [&](size_t worker, std::string_view key) {
      return worker == last && key.ends_with(stage) ? DeadlineExceeded("its time is up")
                                                    : OkStatus();
    };
    const std::vector<Status> statuses = Run([&](size_t worker) -> Status {
      Result<FormedGroup> group = Form(worker, Hang());
      TUTTI_RETURN_IF_ERROR(group.status());
      TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> self, Over(worker, std::move(*group)));
      const Status status = self->Barrier(Hang());
      EXPECT_THAT(std::string(status.message()), HasSubstr("it could not form the group: "))
          << status.ToString();
      TUTTI_RETURN_IF_ERROR(self->Close(Hang()));
      return status;
    });
    EXPECT_EQ(statuses[last].code(), StatusCode::kDeadlineExceeded) << statuses[last].ToString();
    for (size_t worker = 0; worker < last; ++worker) {
      EXPECT_FALSE(statuses[worker].ok()) << stage << ", worker " << worker;
    }
  }
}

TEST_F(GroupFormingEndsTest, NobodyWaitsForAWorkerThatIsShutDownBeforeItHasACommunicator) {
  Start({"a", "a"});
  const std::vector<Status> statuses = Run([&](size_t worker) -> Status {
    TUTTI_ASSIGN_OR_RETURN(FormedGroup group, Form(worker, Hang()));
    if (worker == 1) {
      EXPECT_TRUE(environments_[worker]->Shutdown(Hang()).ok());
      return Over(worker, std::move(group)).status();
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> self, Over(worker, std::move(group)));
    const Status status = self->Barrier(Hang());
    TUTTI_RETURN_IF_ERROR(self->Close(Hang()));
    return status;
  });
  EXPECT_FALSE(statuses[1].ok());
  EXPECT_THAT(std::string(statuses[0].message()),
              HasSubstr("needs rank 1 (worker 1, pid 4712): it could not make the communicator"))
      << statuses[0].ToString();
}

}  // namespace
}  // namespace tutti
