#include "timeline.h"

#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <mutex>
#include <string>
#include <vector>

#include "memory.h"
#include "report.h"
#include "settings.h"

namespace emu::timeline {
namespace {

struct Record {
    int device;
    unsigned stream;
    std::string name;
    std::size_t bytes;
    double start;
    double end;
};

struct Records {
    std::mutex mutex;
    std::vector<Record> all;
};

Records &records() {
    static Records &made = *new Records;
    return made;
}

bool recording() {
    static const bool wanted = !settings().trace.empty();
    return wanted;
}

std::string quoted(const std::string &text) {
    std::string out;
    for (const char letter : text) {
        if (letter == '"' || letter == '\\') out += '\\';
        out += static_cast<unsigned char>(letter) < 32 ? ' ' : letter;
    }
    return out;
}

void write_trace() {
    FILE *file = std::fopen(file_name(settings().trace).c_str(), "we");
    if (file == nullptr) return;
    std::fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", file);
    const std::lock_guard<std::mutex> lock(records().mutex);
    const char *comma = "\n";
    for (const Record &one : records().all) {
        std::fprintf(file,
                     "%s{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,"
                     "\"args\":{\"bytes\":%zu,\"process\":%d}}",
                     comma, quoted(one.name).c_str(), one.device, one.stream, one.start, one.end - one.start, one.bytes,
                     getpid());
        comma = ",\n";
    }
    std::fputs("\n]}\n", file);
    std::fclose(file);
}

void write_stats() {
    FILE *file = std::fopen(file_name(settings().stats).c_str(), "we");
    if (file == nullptr) return;
    const Counters &all = counters();
    std::size_t most = 0;
    for (unsigned id = 0; id < settings().devices; ++id) most = std::max(most, memory::peak(static_cast<int>(id)));
    std::fprintf(file,
                 "{\"host_to_device\": %llu, \"device_to_host\": %llu, \"device_to_device\": %llu, \"executes\": %llu, "
                 "\"loads\": %llu, \"peak_memory\": %zu, \"misuses\": %lu}\n",
                 static_cast<unsigned long long>(all.host_to_device),
                         static_cast<unsigned long long>(all.device_to_host),
                 static_cast<unsigned long long>(all.device_to_device), static_cast<unsigned long long>(all.executes),
                 static_cast<unsigned long long>(all.loads), most, misuse_count());
    std::fclose(file);
}

}  // namespace

Slice::Slice(int device, unsigned stream, const char *name, std::size_t bytes)
    : device_(device), stream_(stream), name_(name), bytes_(bytes), start_(recording() ? now_us() : 0) {}

Slice::~Slice() {
    if (!recording()) return;
    const double end = now_us();
    const std::lock_guard<std::mutex> lock(records().mutex);
    records().all.push_back(Record{device_, stream_, name_, bytes_, start_, end});
}

Counters &counters() {
    static Counters &made = *new Counters;
    return made;
}

double now_us() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

void write_files() {
    if (recording()) write_trace();
    if (!settings().stats.empty()) write_stats();
}

}  // namespace emu::timeline
