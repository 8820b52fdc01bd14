/* What is tried under every schedule:  scenarios PREEMPTIONS CRASHES MOST [NAME]
 *
 * Three pages of memory, queues of one or two places, two messages a producer. After each schedule: every message that
 * was sent came once and in order, or was displaced, or was reported as lost; nobody holds a block; the counters agree;
 * all memory can be had again. Whoever waits does so without a limit, so a lost wake-up is seen as such. */
#include <string.h>

#include "dshm.h"
#include "explore.h"

#define FOREVER 100000000000000ll
enum { ID = 5, BLOCKS = 6, PAGES = 3, MESSAGES = 2, MOST = 16, KIND = 8 };
enum { ONE, TWO, OLDEST, NEWEST, LATEST };

struct list {
    int n, value[MOST];
};

static struct dshm *member[PARTIES];
static struct list came, lost, displaced;
static int sent[PARTIES], by_close;
static uint32_t queue;

static void add(struct list *list, int value) {
    EXPECT(list->n < MOST);
    list->value[list->n++] = value;
}

static int times(const struct list *list, int value) {
    int found = 0;
    for (int i = 0; i < list->n; i++) found += list->value[i] == value;
    return found;
}

static uint64_t *value_of(int party, int64_t key) {
    uint64_t address, size;
    EXPECT(dshm_block_info(member[party], key, &address, &size) == DSHM_OK);
    return (uint64_t *)(uintptr_t)address;
}

/* ---- what parties do ---- */

static void take_displaced(int party) {
    for (int64_t key; (key = dshm_take_dropped(member[party], queue)) >= 0;) {
        add(&displaced, (int)*value_of(party, key));
        EXPECT(dshm_release(member[party], key) == DSHM_OK);
    }
}

static void produce(int party, uint64_t size, int messages) {
    for (int i = 0; i < messages; i++) {
        int64_t key = dshm_alloc(member[party], size, FOREVER);
        EXPECT(key >= 0);
        *value_of(party, key) = (uint64_t)(party * KIND + i + 1);
        int rc = dshm_put(member[party], queue, key, FOREVER);
        take_displaced(party);
        if (rc == DSHM_E_CLOSED) {
            EXPECT(dshm_release(member[party], key) == DSHM_OK);
            return;
        }
        EXPECT(rc == DSHM_OK);
        sent[party]++;
    }
}

static void consume(int party, int most) {
    for (int i = 0; i < most; i++) {
        int64_t key = dshm_get(member[party], queue, FOREVER);
        if (key == DSHM_E_CLOSED) return;
        EXPECT(key >= 0);
        add(&came, (int)*value_of(party, key));
        EXPECT(dshm_release(member[party], key) == DSHM_OK);
    }
}

static void produce_0(void) { produce(0, 8, MESSAGES); }
static void produce_1(void) { produce(1, 8, MESSAGES); }
static void produce_large(void) { produce(0, 8192, MESSAGES); }
static void produce_three(void) { produce(0, 8, 3); }
static void consume_1(void) { consume(1, MESSAGES); }
static void consume_all(void) { consume(1, MOST); }
static void consume_2(void) { consume(2, 2 * MESSAGES); }
static void consume_one(void) { consume(1, 1); }
static void consume_one_2(void) { consume(2, 1); }
static void close_it(void) { EXPECT(dshm_queue_close(member[2], queue) == DSHM_OK); }

static void produce_and_close(void) {
    produce_three();
    EXPECT(dshm_queue_close(member[0], queue) == DSHM_OK);
}

/* Waits at a doorbell instead of in `get`. */
static void consume_by_bell(void) {
    int bell = dshm_bell_take(member[1]);
    EXPECT(bell >= 0);
    for (int left = MESSAGES; left;) {
        int64_t key = dshm_get(member[1], queue, 0);
        if (key == DSHM_E_CLOSED) break;
        if (key >= 0) {
            add(&came, (int)*value_of(1, key));
            EXPECT(dshm_release(member[1], key) == DSHM_OK);
            left--;
        } else {
            EXPECT(key == DSHM_E_TIMEOUT);
            EXPECT(dshm_bell_wait(member[1], (uint32_t)bell, &queue, 1, NULL, 0, FOREVER) == 1);
        }
    }
    EXPECT(dshm_bell_drop(member[1], (uint32_t)bell) == DSHM_OK);
}

/* Waits at a doorbell for room instead of in `put`. */
static void produce_by_bell(void) {
    int bell = dshm_bell_take(member[0]);
    EXPECT(bell >= 0);
    for (int i = 0; i < MESSAGES; i++) {
        int64_t key = dshm_alloc(member[0], 8, FOREVER);
        EXPECT(key >= 0);
        *value_of(0, key) = (uint64_t)i + 1;
        int rc;
        while ((rc = dshm_put(member[0], queue, key, 0)) == DSHM_E_TIMEOUT)
            EXPECT(dshm_bell_wait(member[0], (uint32_t)bell, NULL, 0, &queue, 1, FOREVER) == 1);
        if (rc == DSHM_E_CLOSED) EXPECT(dshm_release(member[0], key) == DSHM_OK);
        if (rc == DSHM_E_CLOSED) break;
        EXPECT(rc == DSHM_OK);
        sent[0]++;
    }
    EXPECT(dshm_bell_drop(member[0], (uint32_t)bell) == DSHM_OK);
}

/* Takes cached blocks away from under their makers. */
static void trim(void) { EXPECT(dshm_trim(member[2]) >= 0); }

/* One message, held twice by its maker, read by somebody else meanwhile. */
static void share(void) {
    int64_t key = dshm_alloc(member[0], 8, FOREVER);
    EXPECT(key >= 0);
    *value_of(0, key) = 1;
    EXPECT(dshm_retain(member[0], key) == DSHM_OK);
    int rc = dshm_put(member[0], queue, key, FOREVER);
    EXPECT(rc == DSHM_OK || rc == DSHM_E_CLOSED);
    if (rc == DSHM_OK) sent[0]++;
    else EXPECT(dshm_release(member[0], key) == DSHM_OK);
    EXPECT(*value_of(0, key) == 1);
    EXPECT(dshm_release(member[0], key) == DSHM_OK);
}

static void drain(void) {
    for (int64_t key; (key = dshm_get(member[3], queue, 0)) >= 0;) {
        add(&came, (int)*value_of(3, key));
        EXPECT(dshm_release(member[3], key) == DSHM_OK);
    }
}

static void take_back(uint32_t pid) {
    int found;
    while ((found = dshm_reclaim_find(member[3], pid)) >= 0) {
        struct dshm_lost one = {0, 0, 0};
        int rc;
        while ((rc = dshm_reclaim_next(member[3], (uint32_t)found, &one)) == DSHM_OK) {
            if (one.queue >= 0) add(&lost, (int)*value_of(3, one.key));
            EXPECT(dshm_release(member[3], one.key) == DSHM_OK);
        }
        EXPECT(rc == DSHM_E_END);
    }
    EXPECT(found == DSHM_E_MISSING);
}

/* Takes back what the dead held, then ends the wait of those who waited for them: at the queue, or for the memory of
 * what nobody takes out of it any more. */
static void supervise(void) {
    for (int seen = 0, n; (n = await_crash(seen)) > seen; seen = n) {
        for (int party = 0; party < 3; party++)
            if (has_crashed(party)) take_back(party_pid(party));
        EXPECT(dshm_queue_close(member[3], queue) == DSHM_OK);
        if (queue == TWO && has_crashed(1)) drain();
    }
}

/* ---- afterwards ---- */

/* Consumers see the messages of a producer in order; `came` holds those of several consumers. */
static void check_order(int consumers) {
    int last[PARTIES] = {0};
    for (int i = 0; i < came.n && consumers == 1; i++) {
        int from = (came.value[i] - 1) / KIND;
        EXPECT(came.value[i] > 0 && from < PARTIES && came.value[i] > last[from]);
        last[from] = came.value[i];
    }
}

static void check_messages(void) {
    int twice = 0;
    for (int party = 0; party < PARTIES; party++)
        for (int i = 0; i < KIND; i++) {
            int value = party * KIND + i + 1;
            int c = times(&came, value), l = times(&lost, value), d = times(&displaced, value);
            EXPECT(c <= 1 && l <= 1 && d <= 1);
            if (i < sent[party]) EXPECT(c + l + d >= 1);
            if (i > sent[party] || (i == sent[party] && !has_crashed(party))) EXPECT(c + l + d == 0 || by_close);
            twice += c + l + d > 1;
        }
    EXPECT(twice <= crashes());
}

static void check_counters(void) {
    struct dshm_queue_info info;
    struct dshm_totals totals;
    EXPECT(dshm_queue_info(member[3], queue, &info) == DSHM_OK);
    EXPECT(info.level == 0 && info.sent == info.delivered + info.dropped + info.failed);
    EXPECT(dshm_totals(member[3], &totals) == DSHM_OK);
    EXPECT(totals.blocks_in_use == 0 && totals.bytes_in_use == 0);
    int64_t all = dshm_alloc(member[3], PAGES * 4096, 0);
    EXPECT(all >= 0 && dshm_release(member[3], all) == DSHM_OK);
}

static void start(uint32_t on) {
    queue = on;
    came.n = lost.n = displaced.n = by_close = 0;
    memset(sent, 0, sizeof sent);
}
static void start_one(void) { start(ONE); }
static void start_two(void) { start(TWO); }
static void start_oldest(void) { start(OLDEST); }
static void start_newest(void) { start(NEWEST); }
static void start_latest(void) { start(LATEST); }
static void start_to_close(void) {
    start(ONE);
    by_close = 1;
}

static void finish(int consumers) {
    act_as(3);
    drain();
    check_order(consumers);
    check_messages();
    check_counters();
}
static void finish_one(void) { finish(1); }
static void finish_two(void) { finish(2); }

#define P(party) (1u << (party))
static const struct scenario scenarios[] = {
    {"hop", start_one, {produce_0, consume_1, NULL, supervise}, finish_one, 3, P(0) | P(1)},
    {"hop 2", start_two, {produce_three, consume_1, NULL, supervise}, finish_one, 3, P(0) | P(1)},
    {"bell", start_one, {produce_0, consume_by_bell, NULL, supervise}, finish_one, 3, P(0) | P(1)},
    {"bell for room", start_one, {produce_by_bell, consume_1, NULL, supervise}, finish_one, 3, P(0) | P(1)},
    {"share", start_one, {share, consume_one, NULL, supervise}, finish_one, 3, P(0) | P(1)},
    {"memory", start_two, {produce_large, consume_1, NULL, supervise}, finish_one, 3, P(0) | P(1)},
    {"trim", start_two, {produce_0, consume_1, trim, supervise}, finish_one, 3, P(0) | P(1) | P(2)},
    {"drop oldest", start_oldest, {produce_and_close, consume_all, NULL, supervise}, finish_one, 3, P(0) | P(1)},
    {"drop newest", start_newest, {produce_and_close, consume_all, NULL, supervise}, finish_one, 3, P(0) | P(1)},
    {"keep latest", start_latest, {produce_and_close, consume_all, NULL, supervise}, finish_one, 3, P(0) | P(1)},
    {"close", start_to_close, {produce_0, consume_1, close_it, supervise}, finish_one, 3, P(0) | P(1) | P(2)},
    {"fan in", start_one, {produce_0, produce_1, consume_2, supervise}, finish_one, 3, P(0) | P(2)},
    {"fan out", start_one, {produce_0, consume_one, consume_one_2, supervise}, finish_two, 3, P(0) | P(1)},
};

int main(int argc, char **argv) {
    static const struct { const char *name; int depth, overflow; } queues[] = {
        {"one", 1, DSHM_BLOCK}, {"two", 2, DSHM_BLOCK}, {"oldest", 1, DSHM_DROP_OLDEST},
        {"newest", 1, DSHM_DROP_NEWEST}, {"latest", 2, DSHM_KEEP_LATEST}};
    if (argc < 4) return 2;
    struct bounds bounds = {atoi(argv[1]), atoi(argv[2]), strtoull(argv[3], NULL, 10)};
    act_as(3);
    if (dshm_create(PAGES * 4096, BLOCKS, PARTIES, 8, 0, ID, &member[3])) return 1;
    for (int q = 0; q < 5; q++)
        if (dshm_queue_create(member[3], queues[q].name, (uint32_t)queues[q].depth, queues[q].overflow, 0, 0) != q) return 1;
    for (int p = 0; p < 3; p++) {
        act_as(p);
        if (dshm_attach(dshm_fd(member[3]), ID, "party", &member[p])) return 1;
    }
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        int complete;
        if (argc > 4 && strcmp(argv[4], scenarios[i].name) != 0) continue;
        uint64_t count = explore(scenarios + i, &bounds, &complete);
        printf("%s: %llu schedules, %s\n", scenarios[i].name, (unsigned long long)count, complete ? "all" : "not all");
        fflush(stdout);
    }
    return 0;
}
