/* Queues and allocation: the bases of the Python classes. */
#include "fast.h"

/* Let the subclass raise what a code means. */
static PyObject *failed(PyObject *self, int64_t code, PyObject *timeout) {
    PyObject *done = PyObject_CallMethod(self, "_failed", "LO", (long long)code, timeout);
    Py_XDECREF(done);
    if (done) PyErr_SetString(PyExc_SystemError, "nothing was raised");
    return NULL;
}

static int queue_init(Queue *self, PyObject *args, PyObject *named) {
    PyObject *member;
    unsigned int number;
    if ((named && PyDict_GET_SIZE(named)) || !PyArg_ParseTuple(args, "O!I", &MemberType, &member, &number)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "no names");
        return -1;
    }
    Py_XSETREF(self->member, (Member *)Py_NewRef(member));
    self->number = number;
    return 0;
}

static void base_dealloc(Queue *self) {
    Py_XDECREF(self->member);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int is_bound(Member *member) {
    if (member) return 1;
    PyErr_SetString(PyExc_SystemError, "__init__ was not called");
    return 0;
}

static int may_wait(int64_t code) { return code == DSHM_E_TIMEOUT || code == DSHM_E_BUSY; }

/* Put again, without the GIL, until the limit has passed. */
static int put_waiting(Queue *self, Block *block, PyObject *timeout, int code) {
    struct wait w;
    int64_t limit = limit_ns(timeout), key = block->key;
    if (limit == -2) return 1;
    wait_begin(&w, limit);
    while (may_wait(code) && (wait_next(&w) || code == DSHM_E_BUSY)) {
        Py_BEGIN_ALLOW_THREADS
        code = calls->put(self->member->h, self->number, key, w.slice);
        Py_END_ALLOW_THREADS
        if (code == DSHM_OK) break;
        if (PyErr_CheckSignals()) return 1;
    }
    return code;
}

static PyObject *queue_put(Queue *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *timeout = Py_None;
    if ((n != 1 || names) && one_option(args, n, names, 1, "timeout", &timeout)) return NULL;
    if (!is_bound(self->member)) return NULL;
    Block *block = (Block *)args[0];
    if (!Py_IS_TYPE(args[0], &BlockType) || block->member != self->member)
        return PyObject_CallMethod((PyObject *)self, "_foreign", "O", args[0]);
    int code = calls->put(self->member->h, self->number, block->key, DSHM_NOT_AT_ALL);
    if (may_wait(code)) code = put_waiting(self, block, timeout, code);
    if (code == 1) return NULL;
    if (code) return failed((PyObject *)self, block->key < 0 ? DSHM_E_BADREF : code, timeout);
    block->key = -1;
    Py_RETURN_NONE;
}

static PyObject *queue_get(Queue *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *timeout = Py_None;
    if ((n || names) && one_option(args, n, names, 0, "timeout", &timeout)) return NULL;
    if (!is_bound(self->member)) return NULL;
    int64_t key = calls->get(self->member->h, self->number, DSHM_NOT_AT_ALL);
    if (may_wait(key)) {
        struct wait w;
        int64_t limit = limit_ns(timeout);
        if (limit == -2) return NULL;
        wait_begin(&w, limit);
        while (may_wait(key) && (wait_next(&w) || key == DSHM_E_BUSY)) {
            Py_BEGIN_ALLOW_THREADS
            key = calls->get(self->member->h, self->number, w.slice);
            Py_END_ALLOW_THREADS
            if (key >= 0) break;
            if (PyErr_CheckSignals()) return NULL;
        }
    }
    if (key >= 0) return block_new(self->member, key);
    if (key == DSHM_E_TIMEOUT) Py_RETURN_NONE;
    return failed((PyObject *)self, key, timeout);
}

static PyObject *queue_take_dropped(Queue *self, PyObject *none) {
    (void)none;
    if (!is_bound(self->member)) return NULL;
    PyObject *list = PyList_New(0);
    while (list) {
        int64_t key = calls->take_dropped(self->member->h, self->number);
        if (key == DSHM_E_MISSING) return list;
        PyObject *block = is_code(key) ? failed((PyObject *)self, key, Py_None) : block_new(self->member, key);
        if (!block || PyList_Append(list, block)) Py_CLEAR(list);
        Py_XDECREF(block);
    }
    return NULL;
}

static PyObject *queue_level(Queue *self, PyObject *none) {
    (void)none;
    if (!is_bound(self->member)) return NULL;
    int64_t level = calls->level(self->member->h, self->number);
    return is_code(level) ? failed((PyObject *)self, level, Py_None) : PyLong_FromLongLong(level);
}

static PyObject *get_number(Queue *self, void *none) {
    (void)none;
    return PyLong_FromUnsignedLong(self->number);
}

static PyMethodDef queue_methods[] = {
    {"put", (PyCFunction)(void (*)(void))queue_put, METH_FASTCALL | METH_KEYWORDS, "Send a block."},
    {"get", (PyCFunction)(void (*)(void))queue_get, METH_FASTCALL | METH_KEYWORDS, "Take the oldest block."},
    {"take_dropped", (PyCFunction)queue_take_dropped, METH_NOARGS, "The displaced blocks."},
    {"level", (PyCFunction)queue_level, METH_NOARGS, "How many blocks are in it now."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef queue_fields[] = {
    {"number", (getter)get_number, NULL, "Number of the queue in its group.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject QueueType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dflow_transport_shm._fast.QueueBase",
    .tp_doc = "QueueBase(member, number): the message path of a queue.",
    .tp_basicsize = sizeof(Queue),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)queue_init,
    .tp_dealloc = (destructor)base_dealloc,
    .tp_methods = queue_methods,
    .tp_getset = queue_fields,
};

static int group_init(Group *self, PyObject *args, PyObject *named) {
    PyObject *member;
    if ((named && PyDict_GET_SIZE(named)) || !PyArg_ParseTuple(args, "O!", &MemberType, &member)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "no names");
        return -1;
    }
    Py_XSETREF(self->member, (Member *)Py_NewRef(member));
    return 0;
}

/* A key, or -1 with an exception set. */
int64_t group_alloc(Group *self, uint64_t size, PyObject *timeout) {
    if (!is_bound(self->member)) return -1;
    int64_t key = calls->alloc(self->member->h, size, DSHM_NOT_AT_ALL);
    if (may_wait(key)) {
        struct wait w;
        int64_t limit = limit_ns(timeout);
        if (limit == -2) return -1;
        wait_begin(&w, limit);
        key = DSHM_E_BUSY; /* the magazine has none: that says nothing about the group */
        while (may_wait(key) && (wait_next(&w) || key == DSHM_E_BUSY)) {
            Py_BEGIN_ALLOW_THREADS
            key = calls->alloc(self->member->h, size, w.slice);
            Py_END_ALLOW_THREADS
            if (key >= 0) break;
            if (PyErr_CheckSignals()) return -1;
        }
    }
    if (key >= 0) return key;
    PyObject *done = PyObject_CallMethod((PyObject *)self, "_alloc_failed", "LKO", (long long)key,
                                         (unsigned long long)size, timeout);
    Py_XDECREF(done);
    if (done) PyErr_SetString(PyExc_SystemError, "nothing was raised");
    return -1;
}

static PyObject *group_alloc_method(Group *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *timeout = Py_False; /* as a number it is 0 */
    if ((n != 1 || names) && one_option(args, n, names, 1, "timeout", &timeout)) return NULL;
    uint64_t size = PyLong_AsUnsignedLongLong(args[0]);
    if (size == (uint64_t)-1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return NULL;
        PyErr_Clear();
        return PyObject_CallMethod((PyObject *)self, "_bad_size", "O", args[0]);
    }
    int64_t key = group_alloc(self, size, timeout);
    return is_code(key) ? NULL : block_new(self->member, key);
}

static PyObject *group_owns(Group *self, PyObject *block) {
    return PyBool_FromLong(Py_IS_TYPE(block, &BlockType) && ((Block *)block)->member == self->member);
}

static PyMethodDef group_methods[] = {
    {"alloc", (PyCFunction)(void (*)(void))group_alloc_method, METH_FASTCALL | METH_KEYWORDS, "A block."},
    {"owns", (PyCFunction)group_owns, METH_O, "Whether a block is this member's."},
    {"peek", (PyCFunction)group_peek, METH_O, "Transaction id and array of a plain tensor message."},
    {"alloc_like", (PyCFunction)(void (*)(void))group_alloc_like, METH_FASTCALL | METH_KEYWORDS,
     "A block with the head of a plain message and another array."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject GroupType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dflow_transport_shm._fast.GroupBase",
    .tp_doc = "GroupBase(member): allocation and plain messages.",
    .tp_basicsize = sizeof(Group),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)group_init,
    .tp_dealloc = (destructor)base_dealloc,
    .tp_methods = group_methods,
};
