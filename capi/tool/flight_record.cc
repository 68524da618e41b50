#include "capi/tool/flight_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "capi/tool/text_file.h"

namespace tutti::tool {
namespace {

using nlohmann::json;

constexpr int kVersion = 2;
// More than any job has: what says more is damaged, and would be counted rank by rank.
constexpr int64_t kMostRanks = int64_t{1} << 20;

FlightEvent::Phase PhaseOf(const std::string& name) {
  if (name == "begin") return FlightEvent::Phase::kBegin;
  if (name == "end") return FlightEvent::Phase::kEnd;
  return FlightEvent::Phase::kInstant;
}

// The records and the folders of jobs that lie in a folder, in the order of their names.
std::string List(const std::string& folder, std::vector<std::string>* records,
                 std::vector<std::string>* jobs) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("flight-") && name.ends_with(".json")) {
      records->push_back(entry->path().string());
    } else if (name.starts_with("job-") && entry->is_directory(error)) {
      jobs->push_back(entry->path().string());
    }
  }
  if (error) return fmt::format("cannot list {}: {}", folder, error.message());
  std::sort(records->begin(), records->end());
  std::sort(jobs->begin(), jobs->end());
  return "";
}

// The files that a path stands for: itself, the records in a folder, or those in the folder of the
// one job that lies in it.
std::string Expand(const std::string& path, std::vector<std::string>* files) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    files->push_back(path);
    return "";
  }
  std::vector<std::string> found, jobs;
  if (std::string failure = List(path, &found, &jobs); !failure.empty()) return failure;
  if (found.empty() && jobs.size() > 1) {
    return fmt::format("there are records of {} jobs in {}; give one of {}", jobs.size(), path,
                       fmt::join(jobs, ", "));
  }
  if (found.empty() && jobs.size() == 1) return Expand(jobs[0], files);
  if (found.empty()) {
    return fmt::format("there is no flight-*.json in {}, nor the folder job-* of a job", path);
  }
  files->insert(files->end(), found.begin(), found.end());
  return "";
}

}  // namespace

std::string FlightRecord::Who() const {
  return job.empty() ? fmt::format("process {}", pid) : fmt::format("worker {}", worker);
}

// nlohmann throws; nothing leaves this function.
std::string ParseFlightRecord(const std::string& text, FlightRecord* record) {
  try {
    const json object = json::parse(text);
    if (!object.is_object() || !object.contains("tutti_flight_record")) {
      return "it is no flight record of Tutti";
    }
    const int version = object.at("tutti_flight_record");
    if (version != kVersion) {
      return fmt::format("it is a flight record of version {}; this command reads version {}",
                         version, kVersion);
    }
    record->job = object.at("job");
    record->worker = object.at("worker");
    record->host = object.at("host");
    record->boot = object.at("boot");
    record->pid = object.at("pid");
    record->wall_ns = object.at("wall_ns");
    record->monotonic_ns = object.at("monotonic_ns");
    for (const json& subject : object.at("subjects")) {
      if (subject.at("kind") != "communicator") continue;
      FlightMember member{subject.at("number"), subject.at("name"), subject.at("rank"),
                          subject.at("size"),   subject.at("epoch")};
      // Parts of other communicators say of which split they are.
      member.group = subject.value("group", member.group);
      member.color = subject.value("color", member.color);
      if (member.size < 1 || member.size > kMostRanks || member.rank < 0 ||
          member.rank >= member.size) {
        return fmt::format("communicator \"{}\": there is no rank {} of {}; a communicator has 1 "
                           "to {}", member.name, member.rank, member.size, kMostRanks);
      }
      record->members.push_back(std::move(member));
    }
    for (const json& item : object.at("events")) {
      FlightEvent event;
      event.time_ns = item.at("time_ns");
      event.thread = item.at("thread");
      event.name = item.at("name");
      event.phase = PhaseOf(item.at("phase"));
      event.arguments = item.at("arguments").get<std::map<std::string, int64_t>>();
      if (record->events.empty()) record->is_complete = item.at("index") == 0;
      record->events.push_back(std::move(event));
    }
  } catch (const json::parse_error& error) {
    return fmt::format("it is damaged, or no JSON at all: byte {}", error.byte);
  } catch (const json::exception& error) {
    return fmt::format("it is no whole flight record: {}", error.what());
  }
  return "";
}

std::string ReadFlightRecords(const std::vector<std::string>& paths,
                              std::vector<FlightRecord>* records, const FilesRead& told) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (std::string error = Expand(path, &files); !error.empty()) return error;
  }
  if (told) told(0, files.size());
  for (const std::string& file : files) {
    std::string text;
    if (std::string error = ReadTextFile(file, &text); !error.empty()) return error;
    FlightRecord record;
    record.file = file;
    if (const std::string error = ParseFlightRecord(text, &record); !error.empty()) {
      return fmt::format("cannot use {}: {}", file, error);
    }
    for (const FlightRecord& other : *records) {
      if (record.job != other.job) {
        return fmt::format("{} and {} are of different jobs; give the files of one", other.file,
                           file);
      }
      if (record.Who() == other.Who()) {
        return fmt::format("{} and {} are both of {}", other.file, file, record.Who());
      }
    }
    records->push_back(std::move(record));
    if (told) told(records->size(), files.size());
  }
  std::sort(records->begin(), records->end(), [](const FlightRecord& a, const FlightRecord& b) {
    return std::pair(a.worker, a.pid) < std::pair(b.worker, b.pid);
  });
  return "";
}

}  // namespace tutti::tool
