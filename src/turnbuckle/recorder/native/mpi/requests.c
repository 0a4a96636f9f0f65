/* requests.c - requests in flight: a number for each, as a library may use one handle for several at once. */
#include "layer.h"

#include <pthread.h>
#include <stdlib.h>

enum { BUCKETS = 1 << 12 };

struct pending {
    struct pending *next;
    uint64_t key;
    int64_t number;
    int persistent, receives, claimed; /* claimed: by a call that may complete it, and has not returned */
    struct row row; /* of a receive: written when it is known what came */
};

static struct pending *buckets[BUCKETS], *spare;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t last;

static uint64_t key_of(MPI_Request request) { return (uint64_t)(uintptr_t)request; }

static struct pending **bucket_of(uint64_t key) { return &buckets[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 52]; }

int64_t request_begun(MPI_Request request, int persistent, const struct row *receive)
{
    pthread_mutex_lock(&lock);
    struct pending *made = spare;
    if (made) spare = made->next;
    else made = malloc(sizeof *made);
    int64_t number = ++last;
    if (made) {
        struct pending **end = bucket_of(key_of(request));
        while (*end) end = &(*end)->next; /* the oldest of one handle comes first */
        *made = (struct pending){ .key = key_of(request), .number = number, .persistent = persistent, .receives = !!receive };
        if (receive) made->row = *receive, made->row.ROW_REQUEST = number;
        *end = made;
    }
    pthread_mutex_unlock(&lock);
    return number;
}

/* The place of the request's entry: the one of this number, or the oldest that is not claimed where that is NONE.  With the lock held. */
static struct pending **entry(uint64_t key, int64_t number)
{
    struct pending **at = bucket_of(key);
    while (*at && ((*at)->key != key || (number == NONE ? (*at)->claimed : (*at)->number != number))) at = &(*at)->next;
    return at;
}

static struct open opened(MPI_Request request, int claims)
{
    struct open open = { key_of(request), NONE };
    if (request == mpi.request_null) return open;
    pthread_mutex_lock(&lock);
    struct pending *pending = *entry(open.key, NONE);
    if (pending) open.number = pending->number, pending->claimed = claims;
    pthread_mutex_unlock(&lock);
    return open;
}

int64_t request_number(MPI_Request request) { return opened(request, 0).number; }
struct open request_open(MPI_Request request) { return opened(request, 1); }

void request_left(struct open open)
{
    if (open.number == NONE) return;
    pthread_mutex_lock(&lock);
    struct pending *pending = *entry(open.key, open.number);
    if (pending) pending->claimed = 0;
    pthread_mutex_unlock(&lock);
}

static int taken(struct open open, struct pending *copy, int freed)
{
    pthread_mutex_lock(&lock);
    struct pending **at = entry(open.key, open.number), *pending = open.number == NONE ? NULL : *at;
    if (pending) *copy = *pending;
    if (pending && (freed || !pending->persistent)) {
        *at = pending->next;
        pending->next = spare;
        spare = pending;
    }
    pthread_mutex_unlock(&lock);
    return !!pending;
}

void request_freed(MPI_Request request)
{
    struct pending pending;
    if (taken(opened(request, 0), &pending, 1) && pending.receives) row_write(&pending.row);
}

void row_received(struct row *row, MPI_Status *status)
{
    MPI_Count bytes = 0;
    if (status->MPI_SOURCE == MPI_PROC_NULL) {
        row->ROW_PARTNER = NONE;
        return;
    }
    row->ROW_PARTNER = status->MPI_SOURCE, row->ROW_TAG = status->MPI_TAG;
    if (mpi.Get_elements_x(status, mpi.byte, &bytes) == MPI_SUCCESS && bytes >= 0) row->bytes = bytes;
}

void request_complete(const struct call *call, struct open open, MPI_Status *status)
{
    struct pending pending;
    if (!taken(open, &pending, 0)) return;
    if (pending.receives) {
        int cancelled = 0;
        if (status) mpi.Test_cancelled(status, &cancelled);
        if (cancelled) return;
        if (status) row_received(&pending.row, status);
        row_write(&pending.row);
    }
    struct row row = call_row(call, REQUEST);
    row.ROW_REQUEST = pending.number;
    row_write(&row);
}

void requests_end(void)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct pending *pending = buckets[i]; pending; pending = pending->next)
            if (pending->receives) row_write(&pending->row);
}
