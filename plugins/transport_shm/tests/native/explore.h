/* Every schedule of a few parties, one step at a time; see `explore.c`. */
#ifndef EXPLORE_H
#define EXPLORE_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PARTIES = 4, NOBODY = -1 };

/* One situation. `start` runs before every schedule, `finish` after it; parties whose work is NULL do not exist. The
 * one called `supervisor` sleeps in `await_crash` first. What a schedule wrote is taken back before the next. */
struct scenario {
    const char *name;
    void (*start)(void);
    void (*work[PARTIES])(void);
    void (*finish)(void);
    int supervisor;
    unsigned may_crash; /* one bit a party */
};

struct bounds {
    int preemptions; /* switches away from a party that could go on; -1: any number */
    int crashes;
    uint64_t most; /* schedules */
};

/* Returns how many schedules there were; ends the process with a report if one goes wrong. `*complete` says whether
 * all within the bounds were tried. */
uint64_t explore(const struct scenario *scenario, const struct bounds *bounds, int *complete);
int crashes(void);
int has_crashed(int party);
/* Of the supervisor: sleep until more than `seen` parties have crashed, or all others have ended; how many crashed. */
int await_crash(int seen);
uint32_t party_pid(int party);
void act_as(int party); /* outside of schedules: whose pid getpid() answers */
void explore_failed(const char *file, int line, const char *what) __attribute__((noreturn));

#define EXPECT(what)                                              \
    do {                                                          \
        if (!(what)) explore_failed(__FILE__, __LINE__, #what);   \
    } while (0)
#endif
