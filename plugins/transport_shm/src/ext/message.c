/* Plain tensor messages, read and made here as `dflow_core.message.plain` does it; whatever is unusual goes there. */
#include "fast.h"

enum {
    HEAD = 256, DESC = 1024, DATA = HEAD + DESC, RANK_MOST = 32,
    BODY_SIZE_AT = 64, AUX_SIZE_AT = 72, TRANS_AT = 192, TYPE_AT = 202, RET_AT = 204, FLAGS_AT = 224, DATA_FLAG_AT = 228,
    DTYPE_AT = HEAD + 16, RANK_AT = HEAD + 24, DIMS_AT = HEAD + 32, FORMAT_AT = HEAD + 552, DATA_SIZE_AT = HEAD + 568,
    FORMAT_ND = 3, CUSTOM_ID = 2, LET_GO = 1 << 16 /* bytes from which copying is done without the GIL */
};

#define READ(type, name, data, at) \
    type name;                     \
    memcpy(&name, (data) + (at), sizeof name)

/* Whether `head` is that of a plain tensor message, as far as the head tells. */
static int is_plain(const char *head) {
    READ(uint32_t, aux, head, AUX_SIZE_AT);
    READ(uint16_t, type, head, TYPE_AT);
    READ(int32_t, code, head, RET_AT);
    READ(uint32_t, flags, head, FLAGS_AT);
    return !aux && !type && !code && !flags && !((unsigned char)head[DATA_FLAG_AT] & ~CUSTOM_ID);
}

static PyObject *reference_peek(PyObject *block) { return PyObject_CallOneArg(peek_reference, block); }

PyObject *group_peek(PyObject *self, PyObject *block) {
    (void)self;
    Block *b = (Block *)block;
    if (!Py_IS_TYPE(block, &BlockType) || b->key < 0 || b->size < DATA) return reference_peek(block);
    const char *data = b->data;
    if (!is_plain(data)) Py_RETURN_NONE;
    READ(uint64_t, body, data, BODY_SIZE_AT);
    READ(int64_t, number, data, DTYPE_AT);
    READ(int64_t, rank, data, RANK_AT);
    if (body < DESC || body > b->size - HEAD || number < 0 || number >= 64 || !descr_of[number] || rank < 0 ||
        rank > RANK_MOST)
        return reference_peek(block);
    npy_intp dims[RANK_MOST];
    uint64_t bytes = (uint64_t)PyDataType_ELSIZE(descr_of[number]);
    for (int i = 0; i < rank; i++) {
        READ(int64_t, dim, data, DIMS_AT + 8 * i);
        if (dim < 0 || __builtin_mul_overflow(bytes, (uint64_t)dim, &bytes)) return reference_peek(block);
        dims[i] = (npy_intp)dim;
    }
    if (bytes > body - DESC) return reference_peek(block);
    READ(uint64_t, trans_id, data, TRANS_AT);
    PyObject *array = array_over(block, b->data + DATA, descr_of[number], (int)rank, dims, 0);
    PyObject *id = array ? PyLong_FromUnsignedLongLong(trans_id) : NULL;
    PyObject *pair = id ? PyTuple_Pack(2, id, array) : NULL;
    Py_XDECREF(id);
    Py_XDECREF(array);
    return pair;
}

/* The number on the wire of an array whose bytes can be copied as they are, or -1. */
static int plain_number(PyObject *array) {
    if (!PyArray_CheckExact(array)) return -1;
    PyArrayObject *a = (PyArrayObject *)array;
    if (!PyArray_IS_C_CONTIGUOUS(a) || !PyArray_ISNOTSWAPPED(a) || PyArray_NDIM(a) > RANK_MOST) return -1;
    PyArray_Descr *descr = PyArray_DESCR(a);
    for (int i = 0; i < 64; i++)
        if (descr_of[i] == descr) return i; /* numpy has one object for each of its own types */
    return -1;
}

static void write_desc(char *data, int number, PyArrayObject *a) {
    int64_t values[] = {number, PyArray_NDIM(a)}, format = FORMAT_ND;
    uint64_t bytes = (uint64_t)PyArray_NBYTES(a);
    memset(data + HEAD, 0, DESC);
    memcpy(data + DTYPE_AT, values, sizeof values);
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        int64_t dim = PyArray_DIM(a, i);
        memcpy(data + DIMS_AT + 8 * i, &dim, sizeof dim);
    }
    memcpy(data + FORMAT_AT, &format, sizeof format);
    memcpy(data + DATA_SIZE_AT, &bytes, sizeof bytes);
}

PyObject *group_alloc_like(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *timeout = Py_False;
    if (one_option(args, n, names, 2, "timeout", &timeout)) return NULL;
    Block *head = (Block *)args[0];
    int number = plain_number(args[1]);
    if (number < 0 || !Py_IS_TYPE(args[0], &BlockType) || head->key < 0 || head->size < HEAD)
        return PyObject_CallMethod(self, "_copy_like", "OOO", args[0], args[1], timeout);
    PyArrayObject *array = (PyArrayObject *)args[1];
    uint64_t bytes = (uint64_t)PyArray_NBYTES(array), body = DESC + bytes;
    uint32_t aux = 0;
    int64_t key = group_alloc((Group *)self, DATA + bytes, timeout);
    PyObject *made = is_code(key) ? NULL : block_new(((Group *)self)->member, key);
    if (!made) return NULL;
    char *to = ((Block *)made)->data;
    if (head->key < 0) { /* released by another thread while this one waited for memory */
        Py_DECREF(made);
        return PyObject_CallFunction(gone_error, "i", 0);
    }
    memcpy(to, head->data, HEAD);
    memcpy(to + BODY_SIZE_AT, &body, sizeof body);
    memcpy(to + AUX_SIZE_AT, &aux, sizeof aux);
    write_desc(to, number, array);
    if (bytes < LET_GO) memcpy(to + DATA, PyArray_DATA(array), bytes);
    else {
        Py_BEGIN_ALLOW_THREADS
        memcpy(to + DATA, PyArray_DATA(array), bytes);
        Py_END_ALLOW_THREADS
    }
    return made;
}
