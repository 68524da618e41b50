// Ranks of the fake NCCL that are processes of their own. They meet by files of a folder: one for
// each rank that has come, and one for each rank's part of each round, with what it calls and what
// it brings. As on a real device whoever waits for a part waits until it comes or until he is told
// to end; that a process is dead nobody sees here.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/gpu/fakes/fake_nccl_world.h"

namespace tutti::fake {
namespace {

using std::filesystem::exists;

std::string RankFile(const World& world, int32_t rank) {
  return world.folder + "/" + world.id + ".rank" + std::to_string(rank);
}
std::string PartFile(const World& world, uint64_t round, size_t rank) {
  return world.folder + "/" + world.id + ".round" + std::to_string(round) + ".rank" +
         std::to_string(rank);
}

// Whole from the moment that it has its name.
void WriteFile(const std::string& name, const std::string& bytes) {
  const std::string unready = name + ".unready";
  std::ofstream(unready, std::ios::binary).write(bytes.data(),
                                                 static_cast<std::streamsize>(bytes.size()));
  std::filesystem::rename(unready, name);
}
std::string ReadFile(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Waits without the lock for the parts of all ranks, or of all others; false: the rank ends.
bool AwaitParts(std::unique_lock<std::mutex>& lock, const Communicator* rank, uint64_t number,
                bool own) {
  const World& world = *rank->world;
  for (size_t r = 0; r < static_cast<size_t>(world.size);) {
    if (rank->ends) return false;
    if ((!own && r == static_cast<size_t>(rank->rank)) || exists(PartFile(world, number, r))) {
      ++r;
      continue;
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
  }
  return true;
}

// Whether the test wants that this rank does not survive this round.
bool IsKilledIn(const Communicator* rank) {
  const char* const which = std::getenv(kKilledVariable);
  int killed = -1, operation = -1;
  static int32_t before = 0;  // rounds of all communicators of the process
  const int32_t now = before++;
  return which != nullptr && std::sscanf(which, "%d %d", &killed, &operation) == 2 &&
         rank->rank == killed && now == operation;
}

}  // namespace

std::string FolderOfProcesses() {
  const char* const folder = std::getenv(kFolderVariable);
  return folder == nullptr ? "" : folder;
}

void ComeTo(const World& world, const Communicator& rank) {
  WriteFile(RankFile(world, rank.rank), std::to_string(rank.device));
}

int32_t CountCome(const World& world, std::vector<int32_t>* devices) {
  int32_t come = 0;
  for (int32_t rank = 0; rank < world.size; ++rank) {
    const std::string name = RankFile(world, rank);
    if (!exists(name)) continue;
    ++come;
    if (devices != nullptr) devices->push_back(std::atoi(ReadFile(name).c_str()));
  }
  return come;
}

void RunRoundOfProcesses(std::unique_lock<std::mutex>& lock, Communicator* rank, const Call& of,
                         uint64_t number) {
  const std::shared_ptr<World> world = rank->world;
  const auto ranks = static_cast<size_t>(world->size);
  if (IsKilledIn(rank) && AwaitParts(lock, rank, number, /*own=*/false)) std::raise(SIGKILL);
  const size_t bytes = BytesOf(of) * (of.kind == Call::kReduceScatter ? ranks : 1);
  const bool brings = of.kind != Call::kBroadcast || of.peer == rank->rank;
  std::string part(sizeof(Call) + (brings ? bytes : 0), '\0');
  std::memcpy(part.data(), &of, sizeof(Call));
  if (brings && bytes > 0) std::memcpy(part.data() + sizeof(Call), Real(of.in), bytes);
  WriteFile(PartFile(*world, number, static_cast<size_t>(rank->rank)), part);
  if (!AwaitParts(lock, rank, number, /*own=*/true)) return;
  Round round;
  round.parts.resize(ranks);
  std::vector<std::string> parts;
  for (size_t r = 0; r < ranks; ++r) parts.push_back(ReadFile(PartFile(*world, number, r)));
  for (size_t r = 0; r < ranks; ++r) {
    Call theirs = of;
    std::memcpy(static_cast<void*>(&theirs), parts[r].data(), sizeof(Call));
    if (!of.Fits(theirs)) {
      rank->error = kInternalError;
      rank->why = "ranks call different operations";
      return;
    }
    round.parts[r].in = parts[r].data() + sizeof(Call);
  }
  round.parts[static_cast<size_t>(rank->rank)].out = of.out;
  DoRound(of, &round);
}

}  // namespace tutti::fake
