/* The message path for Python: types whose methods cost what the C functions behind them cost.
 *
 * They keep the GIL when there is something to do at once, and let it go to wait. What goes wrong is told to Python
 * methods of the subclasses (`_failed`), which raise dflow's errors. */
#ifndef FAST_H
#define FAST_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL dflow_fast_array_api
#ifndef FAST_MODULE
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "calls.h"

/* One member as its blocks and queues share it. */
typedef struct {
    PyObject_HEAD
    struct dshm *h;
    PyObject *keep; /* what keeps `h` */
} Member;

/* One reference to a block; `key` is -1 once it is gone. */
typedef struct {
    PyObject_HEAD
    Member *member;
    int64_t key;
    char *data;
    uint64_t size;
    PyObject *weak;
} Block;

typedef struct {
    PyObject_HEAD
    Member *member;
    uint32_t number;
} Queue;

typedef struct {
    PyObject_HEAD
    Member *member;
} Group;

extern PyTypeObject MemberType, BlockType, QueueType, GroupType, PinType;

/* fast.c: set once by `bind` */
extern const struct dshm_calls *calls;
extern PyObject *gone_error, *peek_reference, *copy_reference;
extern PyArray_Descr *descr_of[64]; /* by number of the element type on the wire */

/* Nanoseconds of a limit in seconds: -1 if it is None, so without limit; -2 with an exception set. */
int64_t limit_ns(PyObject *timeout);

/* What is left of a wait: give `slice` to the next native wait; 0 when the time is up. */
struct wait {
    int64_t end, slice;
};
void wait_begin(struct wait *w, int64_t limit);
int wait_next(struct wait *w);

PyObject *block_new(Member *member, int64_t key);
PyObject *array_over(PyObject *base, char *data, PyArray_Descr *descr, int rank, npy_intp *dims, int writable);
PyObject *board_array(PyObject *module, PyObject *const *args, Py_ssize_t n);
int64_t group_alloc(Group *self, uint64_t size, PyObject *timeout);
PyObject *group_peek(PyObject *self, PyObject *block);
PyObject *group_alloc_like(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
int one_option(PyObject *const *args, Py_ssize_t n, PyObject *names, Py_ssize_t positional, const char *name,
               PyObject **value);
int is_code(int64_t code);
#endif
