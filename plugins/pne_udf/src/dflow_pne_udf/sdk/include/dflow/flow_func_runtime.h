/* What an executor needs of libflow_func: load a library, run the functions of one node instance, watch them.
 *
 * Plain C, so that any language can call it without a compiler. Functions give 0 or a negative code; the text of the
 * last failure in the calling thread is dflow_udf_last_error. Everything of an instance happens in threads of its own;
 * nothing here calls back, and dflow_udf_wait is the only call that waits (and dflow_udf_close, for the functions). */
#ifndef DFLOW_FLOW_FUNC_RUNTIME_H
#define DFLOW_FLOW_FUNC_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DFLOW_UDF_API 1u
#define DFLOW_UDF_NO_QUEUE 0xFFFFFFFFu

enum dflow_udf_code {
    DFLOW_UDF_OK = 0,
    DFLOW_UDF_E_CONFIG = -1,   /* the configuration is wrong */
    DFLOW_UDF_E_LIBRARY = -2,  /* the library does not load */
    DFLOW_UDF_E_FUNCTION = -3, /* a function is not registered, or cannot be made */
    DFLOW_UDF_E_STATE = -4,    /* not in this state */
    DFLOW_UDF_E_SYSTEM = -5    /* the system refused */
};

enum dflow_udf_state {
    DFLOW_UDF_LOADING = 0,   /* library, constructors, Init */
    DFLOW_UDF_READY = 1,     /* initialised; waits for dflow_udf_start */
    DFLOW_UDF_RUNNING = 2,
    DFLOW_UDF_SUSPENDED = 3, /* takes and sends nothing */
    DFLOW_UDF_FINISHED = 4,  /* its inputs ended, or it was stopped */
    DFLOW_UDF_FAILED = 5     /* dflow_udf_get_failure says why */
};

enum dflow_udf_func_flags {
    DFLOW_UDF_STREAM_INPUT = 1 /* takes messages itself, from queues */
};

enum dflow_udf_flags {
    DFLOW_UDF_STOP_ON_ERROR = 1,    /* a failing call fails the instance, not only its transaction */
    DFLOW_UDF_EXCEPTION_CATCH = 2,  /* RaiseException is allowed */
    DFLOW_UDF_BALANCE_SCATTER = 4,
    DFLOW_UDF_BALANCE_GATHER = 8,
    DFLOW_UDF_CHECK_INPUTS = 16     /* a call that changes one of its inputs fails */
};

/* One function of the node. Several functions share no input. */
struct dflow_udf_func {
    const char *name;
    const uint32_t *inputs;  /* input ports of the node, in the order of Proc's vector */
    const uint32_t *outputs; /* output ports it may use */
    uint32_t n_inputs, n_outputs;
    uint32_t flags; /* dflow_udf_func_flags */
    uint32_t unused;
};

/* How one of several queues is picked; the last `spares` of them never are. */
enum dflow_udf_rules {
    DFLOW_UDF_BY_LABEL = 0,       /* number (trans_id - 1 + max(route_label, 1) - 1) mod n */
    DFLOW_UDF_BY_TRANSACTION = 1, /* number (trans_id - 1) mod n */
    DFLOW_UDF_BY_KEY = 2,         /* number (route_label - 1) mod n; by transaction where there is no label */
    DFLOW_UDF_BY_LOAD = 3         /* the one with the fewest messages */
};

/* Where a message goes for one consumer. */
struct dflow_udf_route {
    const uint32_t *queues;
    uint32_t n_queues;
    uint16_t rule, spares;
};

/* An output port: one route for each consumer; none if nobody reads it. */
struct dflow_udf_output {
    const struct dflow_udf_route *routes;
    uint32_t n_routes, unused;
};

/* A model for RunFlowModel: where its inputs are fed and its outputs fetched. */
struct dflow_udf_invoked {
    const char *key;
    const struct dflow_udf_output *inputs;
    const uint32_t *outputs; /* queues */
    uint32_t n_inputs, n_outputs;
};

/* A part that was lost with the former process of the instance; what still comes of it is dropped. */
struct dflow_udf_dead_part {
    uint64_t trans_id;
    const uint32_t *ports; /* input ports it had arrived at */
    uint32_t data_label, n_ports;
};

/* A queue that may drop messages, and the queue that tells its reader of them. */
struct dflow_udf_notice {
    uint32_t queue, notices;
};

/* What an instance is made of. All of it is copied by dflow_udf_open, except `transport` and
 * `cancelled`, which must live on.
 *
 * Attributes, little-endian, one after the other: u32 length and bytes of the name, u8 kind, value:
 *   1 string   u32 length, bytes     2 int   i64     3 float  f32     4 bool  u8     5 data type  i32
 *   6 to 10    lists of 1 to 5: u32 count, items     11 list of lists of ints: u32 count, lists as 7
 */
struct dflow_udf_config {
    uint32_t api; /* DFLOW_UDF_API */
    uint32_t flags;
    const void *transport; /* const struct dflow_transport * of dflow/transport.h: the memory group */
    const char *library;   /* path; NULL or "" if it is loaded already */
    const char *node;
    const char *work_path;
    int32_t device_id;
    int32_t instance, instance_count;
    uint32_t threads; /* calls that may run at the same time; 0 is one for each function */
    const struct dflow_udf_func *funcs;
    const uint32_t *inputs; /* queue of each input port; DFLOW_UDF_NO_QUEUE if not connected */
    const struct dflow_udf_output *outputs;
    const struct dflow_udf_invoked *invoked;
    const struct dflow_udf_dead_part *dead_parts;
    const void *attrs;
    uint64_t attrs_size;
    uint32_t n_funcs, n_inputs, n_outputs, n_invoked, n_dead_parts;
    uint32_t align_max_cache; /* incomplete sets kept; 0 is no limit */
    int32_t align_timeout_ms; /* age at which an incomplete set is given up; -1 never */
    uint32_t align_drop;      /* 1: an incomplete set ends with an error; 0: it is given to Proc, gaps marked */
    const char *scope;        /* of the nested graph it is in, for exceptions; NULL is "" */
    const struct dflow_udf_notice *notices;
    uint64_t n_notices;
    const uint64_t *cancelled; /* the board of cancelled transactions, which must live on; NULL if there is none: how many
                                * there are, a count of changes, how many slots are looked at, five words for nothing, and
                                * 504 slots that hold a transaction each, or 0 */
    const uint32_t *failed_calls; /* the queue that takes calls that failed, with their messages; NULL if nobody records */
};

struct dflow_udf_stats {
    uint64_t calls;         /* ended */
    uint64_t failed;        /* of these */
    uint64_t sent;          /* messages */
    uint64_t busy_ns;       /* inside Proc, without the time it waited for room */
    uint64_t blocked_ns;    /* waiting for room */
    uint64_t current_trans; /* transaction in work */
    int64_t current_since;  /* CLOCK_MONOTONIC nanoseconds; 0 if none is in work */
    uint32_t state;         /* dflow_udf_state; with a function given, its processor's state */
    uint32_t pending;       /* sets that wait for a part */
};

/* Why an instance failed. */
struct dflow_udf_failure {
    int32_t code;       /* dflow_udf_code, or what user code returned */
    int32_t is_node;    /* 1: a call failed and the node's on_error is stop */
    uint64_t trans_id;  /* of that call */
    char error_type[128];
    char message[4096];
};

/* An exception raised by RaiseException, or delivered to GetException. */
struct dflow_udf_exception {
    int32_t code;
    uint32_t expired; /* 1: forget it (no call) */
    uint64_t trans_id;
    uint64_t user_context_id;
    uint8_t head[256]; /* of the input that was in work */
};

struct dflow_udf_library;
struct dflow_udf;

/* The version this library speaks: DFLOW_UDF_API. */
uint32_t dflow_udf_api(void);

/* Text of the last failure in this thread, "" if there was none. */
const char *dflow_udf_last_error(void);

/* Load a library (RTLD_NOW | RTLD_GLOBAL). It stays loaded until the process ends. */
int dflow_udf_load(const char *path);

/* Versions of the SDK, major << 16 | minor: the lowest and the highest that a library was built with, and this runtime's.
 * They are read from its file, which is not loaded; the first two are 0 if it does not say. */
int dflow_udf_sdk_versions(const char *path, uint32_t *versions);

/* Registered functions, one a line, sorted: kind ("single", "multi", "queue"), a space, the name.
 * Gives the bytes needed, the final 0 included, and writes at most `size`. */
int64_t dflow_udf_functions(char *buffer, uint64_t size);

/* Check a configuration and begin to load in the instance's own thread. */
int dflow_udf_open(const struct dflow_udf_config *config, struct dflow_udf **out);

/* Wait until the state differs from `state`, or a function has raised an exception since the last call of
 * dflow_udf_take_exception; gives the state then or at the limit (nanoseconds). */
int dflow_udf_wait(struct dflow_udf *udf, int state, int64_t wait_ns);

int dflow_udf_get_state(struct dflow_udf *udf);

/* Append a line to a file for every call: `head` (`{"node": "n", `), then trans_id, start and end (CLOCK_MONOTONIC
 * seconds). Before dflow_udf_start. */
int dflow_udf_trace(struct dflow_udf *udf, const char *path, const char *head);

/* Begin; the state is DFLOW_UDF_RUNNING soon after. */
int dflow_udf_start(struct dflow_udf *udf);

/* End soon: after the current calls, without waiting for more input. Any thread. */
int dflow_udf_stop(struct dflow_udf *udf);

/* Stop, wait for the threads, destroy the functions. `udf` is gone afterwards. */
void dflow_udf_close(struct dflow_udf *udf);

/* Statistics of one function, or of all with -1. */
int dflow_udf_get_stats(struct dflow_udf *udf, int32_t func, struct dflow_udf_stats *out);
int dflow_udf_get_failure(struct dflow_udf *udf, struct dflow_udf_failure *out);

/* Suspend: drop what is in hand and what is in the input queues; recover: go on with fresh or reset functions. */
int dflow_udf_suspend(struct dflow_udf *udf);
int dflow_udf_recover(struct dflow_udf *udf);

/* Let no further call begin (1), or let them again (0), in any state. What is queued, and what functions have, stays; a
 * function that waits in Dequeue or RunFlowModel, or for room, waits on. */
int dflow_udf_hold(struct dflow_udf *udf, int is_held);

/* 1 if no call is under way, else 0; while calls are held, a 1 stays one. */
int dflow_udf_is_quiet(struct dflow_udf *udf);

/* Take an exception that a function raised: 1 if there was one, else 0. */
int dflow_udf_take_exception(struct dflow_udf *udf, struct dflow_udf_exception *out);

/* Tell the functions of another node's exception (or their own: what came and comes of the transaction is dropped).
 * `scope` is that of the node which raised it. */
int dflow_udf_notify_exception(struct dflow_udf *udf, const char *scope, const struct dflow_udf_exception *exception);

/* Write the stack of the crashing thread to standard error before the process dies of SIGSEGV, SIGBUS, SIGFPE, SIGILL
 * or SIGABRT. */
int dflow_udf_catch_crashes(void);

#ifdef __cplusplus
}
#endif
#endif
