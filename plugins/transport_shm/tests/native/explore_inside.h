/* What `explore.c` and `explore_system.c` share. */
#ifndef EXPLORE_INSIDE_H
#define EXPLORE_INSIDE_H
#include <stddef.h>

#include "explore.h"

enum state { READY, WAITS_LOCK, WAITS_FUTEX, WAITS_CRASH, DONE, CRASHED };
enum { PID_BASE = 900000000 };
enum kind { SYNC, WRITE };

/* explore.c */
int who(void);
int outside(void);
int is_setup(void);
void add_range(void *at, size_t size, int shared);
void forget_range(const void *at);
uintptr_t offset_of(const volatile void *at);
void log_write(uintptr_t at, size_t size);
void point(enum kind kind, const volatile void *at);
void block(enum state why, uintptr_t on);
int wake_at(uintptr_t word, int most);

/* explore_system.c */
int lock_is_free(uintptr_t at);
void forget_run(void);
#endif
