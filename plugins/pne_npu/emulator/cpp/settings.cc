#include "settings.h"

#include <unistd.h>

#include <cstdlib>

namespace emu {
namespace {

std::string text(const char *name, const std::string &fallback) {
    const char *value = std::getenv(name);
    return value == nullptr || *value == '\0' ? fallback : value;
}

std::size_t number(const char *name, std::size_t fallback) {
    const std::string value = text(name, "");
    char *end = nullptr;
    const unsigned long long found = std::strtoull(value.c_str(), &end, 10);
    return value.empty() || *end != '\0' ? fallback : static_cast<std::size_t>(found);
}

Settings read() {
    Settings found;
    found.devices = static_cast<unsigned>(number("ACL_EMULATOR_DEVICES", found.devices));
    found.soc = text("ACL_EMULATOR_SOC", found.soc);
    found.on_device = text("ACL_EMULATOR_RUN_MODE", "host") == "device";
    found.memory = number("ACL_EMULATOR_MEMORY", found.memory);
    const std::string mode = text("ACL_EMULATOR_MODE", "report");
    found.mode = mode == "strict" ? Mode::strict : mode == "lenient" ? Mode::lenient : Mode::report;
    const std::string order = text("ACL_EMULATOR_ORDER", "eager");
    found.order = order == "lazy" ? Order::lazy : order == "random" ? Order::random : Order::eager;
    found.stacks = found.mode == Mode::strict || text("ACL_EMULATOR_STACKS", "0") == "1";
    found.threads = static_cast<int>(number("ACL_EMULATOR_THREADS", 1));
    found.watchdog_ms = static_cast<int>(number("ACL_EMULATOR_WATCHDOG_MS", 10000));
    found.shared = text("ACL_EMULATOR_SHARED", "");
    found.log = text("ACL_EMULATOR_LOG", "");
    found.faults = text("ACL_EMULATOR_FAULTS", "");
    found.trace = text("ACL_EMULATOR_TRACE", "");
    found.stats = text("ACL_EMULATOR_STATS", "");
    found.openvino = text("ACL_EMULATOR_OPENVINO", "");
    return found;
}

}  // namespace

const Settings &settings() {
    static const Settings found = read();
    return found;
}

std::string file_name(const std::string &pattern) {
    const std::size_t at = pattern.find("%p");
    return at == std::string::npos ? pattern : pattern.substr(0, at) + std::to_string(getpid()) + pattern.substr(at
            + 2);
}

}  // namespace emu
