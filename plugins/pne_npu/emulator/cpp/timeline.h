// What ran when, as a trace for Perfetto; and how many bytes went where.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace emu::timeline {

// One task, from its making to its end.
class Slice {
public:
    Slice(int device, unsigned stream, const char *name, std::size_t bytes);
    ~Slice();
    Slice(const Slice &) = delete;
    Slice &operator=(const Slice &) = delete;

private:
    int device_;
    unsigned stream_;
    const char *name_;
    std::size_t bytes_;
    double start_;
};

struct Counters {
    std::atomic<std::uint64_t> host_to_device{0};
    std::atomic<std::uint64_t> device_to_host{0};
    std::atomic<std::uint64_t> device_to_device{0};
    std::atomic<std::uint64_t> executes{0};
    std::atomic<std::uint64_t> loads{0};
};

Counters &counters();
double now_us();
// Write the trace and the counters where the settings say.
void write_files();

}  // namespace emu::timeline
