// What the environment asks of the emulator, read once.
#pragma once

#include <cstddef>
#include <string>

namespace emu {

enum class Mode { lenient, report, strict };
enum class Order { eager, lazy, random };

struct Settings {
    unsigned devices = 1;                      // ACL_EMULATOR_DEVICES
    std::string soc = "Ascend310P3";           // ACL_EMULATOR_SOC
    bool on_device = false;                    // ACL_EMULATOR_RUN_MODE=device
    std::size_t memory = std::size_t{16} << 30;  // ACL_EMULATOR_MEMORY, bytes of each device
    Mode mode = Mode::report;                  // ACL_EMULATOR_MODE
    Order order = Order::eager;                // ACL_EMULATOR_ORDER
    bool stacks = false;                       // ACL_EMULATOR_STACKS=1, or mode strict
    int threads = 1;                           // ACL_EMULATOR_THREADS, of a model
    int watchdog_ms = 10000;                   // ACL_EMULATOR_WATCHDOG_MS, of a task
    std::string shared;                        // ACL_EMULATOR_SHARED, "" for none
    std::string log;                           // ACL_EMULATOR_LOG, "" for stderr
    std::string faults;                        // ACL_EMULATOR_FAULTS
    std::string trace;                         // ACL_EMULATOR_TRACE
    std::string stats;                         // ACL_EMULATOR_STATS
    std::string openvino;                      // ACL_EMULATOR_OPENVINO
};

const Settings &settings();
// A file name of the settings with %p replaced by this process's id.
std::string file_name(const std::string &pattern);

}  // namespace emu
