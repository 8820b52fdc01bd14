/* What only the emulator has: for tests in the process itself. Programs that use it do not run on hardware. */
#ifndef ACL_EMULATOR_H
#define ACL_EMULATOR_H

#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclemuCounters {
    uint64_t hostToDevice; /* bytes copied */
    uint64_t deviceToHost;
    uint64_t deviceToDevice;
    uint64_t executes; /* models run */
    uint64_t misuses;  /* reported so far */
} aclemuCounters;

ACL_FUNC_VISIBILITY void aclemuGetCounters(aclemuCounters *counters);
/* Replace the fault script; NULL or "" takes all rules away. */
ACL_FUNC_VISIBILITY void aclemuSetFaults(const char *script);

#ifdef __cplusplus
}
#endif

#endif
