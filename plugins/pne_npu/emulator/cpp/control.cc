// What acl_emulator.h offers to tests.
#include "acl_emulator.h"
#include "faults.h"
#include "report.h"
#include "timeline.h"

extern "C" {

void aclemuGetCounters(aclemuCounters *counters) {
    const emu::timeline::Counters &all = emu::timeline::counters();
    *counters = aclemuCounters{all.host_to_device, all.device_to_host, all.device_to_device, all.executes,
                               emu::misuse_count()};
}

void aclemuSetFaults(const char *script) { emu::faults::replace(script); }

}  // extern "C"
