/* Members, blocks and the arrays over them. */
#include <stddef.h>

#include "fast.h"

static int member_init(Member *self, PyObject *args, PyObject *named) {
    PyObject *address, *keep;
    if (named && PyDict_GET_SIZE(named)) {
        PyErr_SetString(PyExc_TypeError, "no names");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OO", &address, &keep)) return -1;
    self->h = PyLong_AsVoidPtr(address);
    if (!self->h) return -1;
    Py_XSETREF(self->keep, Py_NewRef(keep));
    return 0;
}

static void member_dealloc(Member *self) {
    Py_XDECREF(self->keep);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* A block object for a reference this member was given elsewhere. */
static PyObject *member_adopt(Member *self, PyObject *key) {
    int64_t k = PyLong_AsLongLong(key);
    if (k == -1 && PyErr_Occurred()) return NULL;
    return block_new(self, k);
}

static PyMethodDef member_methods[] = {
    {"adopt", (PyCFunction)member_adopt, METH_O, "The block object for a key whose reference the caller has."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject MemberType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dflow_transport_shm._fast.Member",
    .tp_doc = "Member(address, keep): what blocks and queues of one member share.",
    .tp_basicsize = sizeof(Member),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)member_init,
    .tp_dealloc = (destructor)member_dealloc,
    .tp_methods = member_methods,
};

/* Takes the reference of `key`, also if it fails. */
PyObject *block_new(Member *member, int64_t key) {
    uint64_t address = 0, size = 0;
    int rc = calls->block_info(member->h, key, &address, &size);
    if (rc) return PyErr_Format(PyExc_ValueError, "no block of this member: %d", rc);
    Block *self = PyObject_New(Block, &BlockType);
    if (!self) {
        calls->release(member->h, key);
        return NULL;
    }
    self->member = (Member *)Py_NewRef((PyObject *)member);
    self->key = key;
    self->data = (char *)(uintptr_t)address;
    self->size = size;
    self->weak = NULL;
    return (PyObject *)self;
}

static void give_back(Block *self) {
    int64_t key = self->key;
    self->key = -1;
    if (key >= 0) calls->release(self->member->h, key);
}

static void block_dealloc(Block *self) {
    if (self->weak) PyObject_ClearWeakRefs((PyObject *)self);
    give_back(self);
    Py_DECREF(self->member);
    PyObject_Free(self);
}

/* The error of a block that was sent or released; code 0 for that, else what a function said. */
static PyObject *raise_gone(int code) {
    PyObject *done = PyObject_CallFunction(gone_error, "i", code);
    Py_XDECREF(done);
    if (done) PyErr_SetString(PyExc_SystemError, "nothing was raised");
    return NULL;
}

/* A new array of this dtype (borrowed) over memory that `base` keeps. */
PyObject *array_over(PyObject *base, char *data, PyArray_Descr *descr, int rank, npy_intp *dims, int writable) {
    Py_INCREF(descr);
    PyObject *array = PyArray_NewFromDescr(&PyArray_Type, descr, rank, dims, NULL, data,
                                           writable ? NPY_ARRAY_CARRAY : NPY_ARRAY_CARRAY_RO, NULL);
    if (!array) return NULL;
    if (PyArray_SetBaseObject((PyArrayObject *)array, Py_NewRef(base)) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

static PyObject *block_array(Block *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *writable = Py_False;
    if (n) {
        PyErr_SetString(PyExc_TypeError, "array() takes writable= only");
        return NULL;
    }
    if (names && one_option(args, n, names, 0, "writable", &writable)) return NULL;
    if (self->key < 0) return raise_gone(0);
    int may_write = writable == Py_True ? 1 : PyObject_IsTrue(writable);
    if (may_write < 0) return NULL;
    npy_intp dims[1] = {(npy_intp)self->size};
    return array_over((PyObject *)self, self->data, descr_of[4], 1, dims, may_write);
}

static PyObject *block_retain(Block *self, PyObject *none) {
    (void)none;
    if (self->key < 0) return raise_gone(0);
    int rc = calls->retain(self->member->h, self->key);
    return rc ? raise_gone(rc) : block_new(self->member, self->key);
}

static PyObject *block_release(Block *self, PyObject *none) {
    (void)none;
    give_back(self);
    Py_RETURN_NONE;
}

/* The key, with the reference: native code that is given it must release it. */
static PyObject *block_hand_over(Block *self, PyObject *none) {
    (void)none;
    if (self->key < 0) return raise_gone(0);
    int64_t key = self->key;
    self->key = -1;
    return PyLong_FromLongLong(key);
}

static PyObject *block_as_array(Block *self, PyObject *args, PyObject *named) {
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, named, "|OO", names, &dtype, &copy)) return NULL;
    PyObject *array = block_array(self, NULL, 0, NULL);
    if (!array || (dtype == Py_None && copy != Py_True)) return array;
    PyArray_Descr *descr = NULL;
    if (dtype != Py_None && !PyArray_DescrConverter(dtype, &descr)) {
        Py_DECREF(array);
        return NULL;
    }
    PyObject *result = PyArray_FromAny(array, descr, 0, 0, copy == Py_True ? NPY_ARRAY_ENSURECOPY : 0, NULL);
    Py_DECREF(array);
    return result;
}

static PyObject *block_repr(Block *self) {
    if (self->key < 0) return PyUnicode_FromString("<ShmBlock gone>");
    return PyUnicode_FromFormat("<ShmBlock %llu bytes>", (unsigned long long)self->size);
}

static PyObject *get_nbytes(Block *self, void *none) {
    (void)none;
    return self->key < 0 ? raise_gone(0) : PyLong_FromUnsignedLongLong(self->size);
}
static PyObject *get_key(Block *self, void *none) {
    (void)none;
    return PyLong_FromLongLong(self->key);
}
static PyObject *get_member(Block *self, void *none) {
    (void)none;
    return Py_NewRef((PyObject *)self->member);
}
static PyObject *get_interface(Block *self, void *none) {
    (void)none;
    if (self->key < 0) return raise_gone(0);
    return Py_BuildValue("{s(K)sss(KO)si}", "shape", (unsigned long long)self->size, "typestr", "|u1", "data",
                         (unsigned long long)(uintptr_t)self->data, Py_True, "version", 3);
}

static PyMethodDef block_methods[] = {
    {"array", (PyCFunction)(void (*)(void))block_array, METH_FASTCALL | METH_KEYWORDS,
     "The memory as uint8; the array keeps the reference alive."},
    {"retain", (PyCFunction)block_retain, METH_NOARGS, "Another reference to the same memory."},
    {"release", (PyCFunction)block_release, METH_NOARGS, "Give the reference back now. Idempotent."},
    {"hand_over", (PyCFunction)block_hand_over, METH_NOARGS, "The key, for native code, which gets the reference."},
    {"__array__", (PyCFunction)(void (*)(void))block_as_array, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef block_fields[] = {
    {"nbytes", (getter)get_nbytes, NULL, "Usable bytes, as asked for when it was allocated.", NULL},
    {"key", (getter)get_key, NULL, "Number of the block in its group; -1 when the reference is gone.", NULL},
    {"member", (getter)get_member, NULL, "Whose reference it is.", NULL},
    {"__array_interface__", (getter)get_interface, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject BlockType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dflow_transport_shm._fast.ShmBlock",
    .tp_doc = "One reference of a member to a block.",
    .tp_basicsize = sizeof(Block),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = (destructor)block_dealloc,
    .tp_repr = (reprfunc)block_repr,
    .tp_methods = block_methods,
    .tp_getset = block_fields,
    .tp_weaklistoffset = offsetof(Block, weak),
};

/* Keeps the mapping for a board. */
typedef struct {
    PyObject_HEAD
    Member *member;
} Pin;

static void pin_dealloc(Pin *self) {
    calls->unpin(self->member->h);
    Py_DECREF(self->member);
    PyObject_Free(self);
}

PyTypeObject PinType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dflow_transport_shm._fast.Pin",
    .tp_basicsize = sizeof(Pin),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = (destructor)pin_dealloc,
};

/* board_array(member, address, words): the words `dshm_board` found, as an array that keeps them. */
PyObject *board_array(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    (void)module;
    if (n != 3 || !Py_IS_TYPE(args[0], &MemberType)) return PyErr_Format(PyExc_TypeError, "member, address, words");
    char *data = PyLong_AsVoidPtr(args[1]);
    npy_intp dims[1] = {PyLong_AsSsize_t(args[2])};
    if (PyErr_Occurred()) return NULL;
    Pin *pin = PyObject_New(Pin, &PinType);
    if (!pin) return NULL;
    pin->member = (Member *)Py_NewRef(args[0]);
    PyArray_Descr *descr = PyArray_DescrFromType(NPY_UINT64);
    PyObject *array = array_over((PyObject *)pin, data, descr, 1, dims, 1);
    Py_DECREF(descr);
    Py_DECREF(pin);
    return array;
}
