/* The module: what Python binds once, and waiting. */
#define FAST_MODULE
#include "fast.h"

#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

static const int64_t SLICE = 100000000, LONG_SLICE = 10000000000;

const struct dshm_calls *calls;
PyObject *gone_error, *peek_reference, *copy_reference;
PyArray_Descr *descr_of[64];

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t limit_ns(PyObject *timeout) {
    if (timeout == Py_None) return -1;
    double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred()) return -2;
    if (!(seconds > 0)) return 0;
    return seconds < 1e9 ? (int64_t)(seconds * 1e9) : -1;
}

void wait_begin(struct wait *w, int64_t limit) { w->end = limit < 0 ? INT64_MAX : limit ? now() + limit : 0; }

/* Python handles signals in the main thread only: the others need not look for them. */
static int64_t longest_slice(void) {
#ifdef __linux__
    return syscall(SYS_gettid) == getpid() ? SLICE : LONG_SLICE;
#else
    return SLICE;
#endif
}

/* Waits are cut into slices, so that signals are seen in between. */
int wait_next(struct wait *w) {
    int64_t left = w->end == INT64_MAX ? INT64_MAX : w->end ? w->end - now() : 0, longest = left > 0 ? longest_slice() : 0;
    w->slice = left < 0 ? 0 : left < longest ? left : longest;
    return w->slice > 0;
}

int is_code(int64_t code) { return code < 0; }

/* One optional argument after `positional` ones, by place or by name; `value` keeps its default if it is not there. */
int one_option(PyObject *const *args, Py_ssize_t n, PyObject *names, Py_ssize_t positional, const char *name,
               PyObject **value) {
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    if (n < positional || n + named > positional + 1) {
        PyErr_Format(PyExc_TypeError, "expected %zd arguments and perhaps %s", positional, name);
        return -1;
    }
    if (n + named == positional) return 0;
    if (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), name)) {
        PyErr_Format(PyExc_TypeError, "unexpected argument %R, there is only %s", PyTuple_GET_ITEM(names, 0), name);
        return -1;
    }
    *value = args[positional];
    return 0;
}

/* bind(calls, gone, peek, copy, dtypes): address of `struct dshm_calls`; what raises for a block that is gone; the
 * reference implementations; the dtypes that need no second look, by number. */
static PyObject *bind(PyObject *module, PyObject *args) {
    PyObject *address, *dtypes, *number, *dtype;
    Py_ssize_t at = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOO!", &address, &gone_error, &peek_reference, &copy_reference, &PyDict_Type, &dtypes))
        return NULL;
    calls = PyLong_AsVoidPtr(address);
    if (!calls) return NULL;
    while (PyDict_Next(dtypes, &at, &number, &dtype)) {
        long i = PyLong_AsLong(number);
        if (i < 0 || i >= 64 || !PyArray_DescrCheck(dtype)) return PyErr_Format(PyExc_ValueError, "not a dtype's number");
        Py_XSETREF(descr_of[i], (PyArray_Descr *)Py_NewRef(dtype));
    }
    Py_INCREF(gone_error);
    Py_INCREF(peek_reference);
    Py_INCREF(copy_reference);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, NULL},
    {"board_array", (PyCFunction)(void (*)(void))board_array, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "dflow_transport_shm._fast", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__fast(void) {
    import_array();
    if (PyType_Ready(&PinType) < 0) return NULL;
    PyObject *module = PyModule_Create(&module_def);
    if (!module || PyModule_AddType(module, &MemberType) || PyModule_AddType(module, &BlockType) ||
        PyModule_AddType(module, &QueueType) || PyModule_AddType(module, &GroupType)) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
