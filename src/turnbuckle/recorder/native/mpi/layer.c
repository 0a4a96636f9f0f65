/* layer.c - an MPI layer (PMPI): records the MPI calls of a program, with the place of every buffer.
 *
 *   TB_TRACE=FILE    record into FILE; %p is the process id.  Where the recorder of the GPU has that file, a number is put behind its name
 *   TB_FLUSH_MS=N    how often what is complete goes to the file (default 1000; 0: only when the buffer is full, and at the end)
 *
 * Every function of MPI that the layer has is named as MPI names it, does what PMPI does, and notes when.  A process that never calls
 * MPI_Init leaves no file.  A child of fork records nothing. */
#define _GNU_SOURCE
#include "layer.h"

#include "clock.h"
#include "settings.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define VERSION "turnbuckle-mpi 1"
enum { DEFAULT_FLUSH_MS = 1000, MOST_SETTING = 1 << 20 };

struct library mpi;
static atomic_int known, begun, recording;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int depth;
static int64_t flush_ns;
static atomic_llong flushed, own_ns;
static atomic_ullong skips[CAUSES];

/* ---- the library below ---- */

/* Where the library's PMPI is: behind this layer in the program's own scope, or, where it was loaded later (Python), in that of the code
 * that calls. */
static void *scope(void *caller)
{
    Dl_info place;
    if (dlsym(RTLD_NEXT, "PMPI_Init")) return RTLD_NEXT;
    void *library = dladdr(caller, &place) && place.dli_fname ? dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return library ? library : RTLD_NEXT;
}

static void find(void *caller)
{
    pthread_mutex_lock(&lock);
    if (!known) {
        void *from = scope(caller);
#define X(name) *(void **)&mpi.name = dlsym(from, "PMPI_" #name);
        FUNCTIONS(X)
#undef X
        /* not behind the layer: a program may hold the objects itself, by copy relocations */
        void *objects = from == RTLD_NEXT ? RTLD_DEFAULT : from;
        int open_mpi = !!dlsym(objects, "ompi_mpi_comm_world");
#ifdef OPEN_MPI
        const int built = 1;
        mpi.world = dlsym(objects, "ompi_mpi_comm_world"), mpi.self = dlsym(objects, "ompi_mpi_comm_self");
        mpi.comm_null = dlsym(objects, "ompi_mpi_comm_null"), mpi.request_null = dlsym(objects, "ompi_request_null");
        mpi.byte = dlsym(objects, "ompi_mpi_byte");
#else
        const int built = 0;
        mpi.world = MPI_COMM_WORLD, mpi.self = MPI_COMM_SELF, mpi.comm_null = MPI_COMM_NULL, mpi.request_null = MPI_REQUEST_NULL;
        mpi.byte = MPI_BYTE;
#endif
        if (built != open_mpi || !mpi.Init) {
            say("MPI is not recorded: the MPI layer was built for %s, and the program runs %s; name the program's own mpicc in MPICC, or record "
                "without MPI (--no-mpi)",
                built ? "Open MPI" : "MPICH", !mpi.Init ? "a library without PMPI" : open_mpi ? "Open MPI" : "another MPI");
            /* Open MPI's handles are addresses, which do not pass through the numbers of MPICH; the other way they do, untouched */
            if (!built || !mpi.Init) _exit(1);
            begun = 1;
        }
        known = 1;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- begin and end ---- */

static void poll_end(void);

static void finish(void)
{
    static const char *const words[CAUSES] = { "intercommunicator", "one_sided" };
    if (!recording) return;
    requests_end();
    poll_end();
    if (!atomic_exchange(&recording, 0)) return;
    output_begin();
    for (int i = 0; i < CAUSES; i++)
        if (skips[i]) output_fact("mpi_skipped %s %llu", words[i], (unsigned long long)skips[i]);
    places_tell();
    output_fact("cost writing_ns=%lld", (long long)own_ns);
    output_end();
    output_clock();
    int error = output_close();
    if (error) say("the recording of MPI is not whole: %s", strerror(error));
}

static void in_child(void) { recording = 0; }

/* MPI is there: opens the file. */
static void start(void)
{
    const char *path = getenv("TB_TRACE"), *wrong = NULL;
    int rank = 0, size = 0;
    if (atomic_exchange(&begun, 1) || !path || !*path) return;
    flush_ns = setting("TB_FLUSH_MS", DEFAULT_FLUSH_MS, MOST_SETTING, &wrong) * 1000000;
    int error = wrong ? 0 : output_open(path, VERSION);
    if (wrong || error) {
        say("MPI is not recorded: %s", wrong ? wrong : strerror(error));
        return;
    }
    mpi.Comm_rank(mpi.world, &rank);
    mpi.Comm_size(mpi.world, &size);
    output_begin();
    output_fact("api mpi");
    output_fact("rank %d", rank); /* MPI's own, whatever the launcher said */
    output_fact("ranks %d", size);
    output_fact("timebase monotonic");
    output_fact("memkind 0=unknown 1=pageable 2=pinned 3=device 4=array 5=managed");
    output_end();
    output_clock();
    output_begin();
    output_columns();
    output_end();
    pthread_atfork(NULL, NULL, in_child);
    atexit(finish);
    recording = 1;
    groups_begin();
}

/* ---- calls ---- */

struct call call_begin(const char *name, void *caller)
{
    struct call call = { name, 0, 0, 0 };
    if (!known) find(caller);
    if (depth++) return call;
    if (!begun) {
        int there = 0;
        mpi.Initialized(&there);
        if (there) start(); /* MPI_Init did not come through here */
    }
    call.recorded = recording;
    call.begin = clock_now();
    return call;
}

void call_return(struct call *call) { call->end = clock_now(); }

void call_done(const struct call *call)
{
    depth--;
    if (call->recorded) atomic_fetch_add_explicit(&own_ns, clock_now() - call->end, memory_order_relaxed);
}

static int64_t thread_number(void)
{
    static __thread int64_t number;
    if (!number) number = gettid();
    return number;
}

struct row call_row(const struct call *call, enum call_kind kind)
{
    struct row row;
    row_begin(&row, 'I');
    row.start = call->begin, row.end = call->end, row.tid = thread_number(), row.what = kind;
    output_begin();
    row.name = output_name(call->name);
    output_end();
    return row;
}

static __thread struct row poll; /* of this thread, not yet written; kind 0: none */

void row_write(const struct row *row)
{
    if (!recording && row->kind == 'I') return;
    output_begin();
    if (poll.kind) output_row(&poll);
    poll.kind = 0;
    output_row(row);
    output_end();
    int64_t now = row->kind == 'I' ? row->end : 0, last = flushed;
    if (flush_ns && now - last > flush_ns && atomic_compare_exchange_strong(&flushed, &last, now)) output_flush();
}

void plain_row(const struct call *call, enum call_kind kind)
{
    struct row row = call_row(call, kind);
    row_write(&row);
}

static void poll_end(void)
{
    struct row last = poll;
    poll.kind = 0;
    if (last.kind) row_write(&last);
}

void poll_row(const struct call *call, enum call_kind kind)
{
    enum { APART_NS = 10000 };
    struct row row = call_row(call, kind);
    if (poll.kind && poll.name == row.name && row.start - poll.end < APART_NS) {
        poll.end = row.end;
        return;
    }
    poll_end();
    poll = row;
}

void skipped(enum skipped cause) { atomic_fetch_add_explicit(&skips[cause], 1, memory_order_relaxed); }

int64_t bytes_of(int64_t count, MPI_Datatype type)
{
    MPI_Count size = 0;
    if (count <= 0 || mpi.Type_size_x(type, &size) != MPI_SUCCESS || size < 0) return 0;
    return count * (int64_t)size;
}

int64_t buffer_place(const void *buffer, int64_t count, MPI_Datatype type)
{
    MPI_Aint first = 0, extent = 0;
    if (bytes_of(count, type) <= 0) return NONE;
    /* a type may begin before or behind the buffer, and has the whole address where that is MPI_BOTTOM */
    mpi.Type_get_true_extent(type, &first, &extent);
    return place_of((const char *)buffer + first);
}

/* ---- the ends of MPI ---- */

static int init_done(struct call *call, int out)
{
    call_return(call);
    if (out == MPI_SUCCESS) {
        start();
        call->recorded = recording;
        if (call->recorded) plain_row(call, OTHER);
    }
    call_done(call);
    return out;
}

EXPORT int MPI_Init(int *argc, char ***argv)
{
    BEGIN(Init);
    return init_done(&call, mpi.Init(argc, argv));
}

EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    BEGIN(Init_thread);
    return init_done(&call, mpi.Init_thread(argc, argv, required, provided));
}

EXPORT int MPI_Finalize(void)
{
    BEGIN(Finalize);
    int out = mpi.Finalize();
    call_return(&call);
    if (call.recorded) plain_row(&call, OTHER);
    finish();
    call_done(&call);
    return out;
}

EXPORT int MPI_Abort(MPI_Comm comm, int code)
{
    BEGIN(Abort);
    (void)call;
    if (recording) output_flush();
    return mpi.Abort(comm, code);
}

ENDS(BOTH_NAMES)
