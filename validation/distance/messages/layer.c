/* Records the MPI calls of each rank, and makes every message arrive later by a delay.  Preloaded (LD_PRELOAD); PMPI does the work.
 *
 *   TB_MESSAGES_DELAY_NS    what is added to the latency of every message, one way [ns]; 0 if left out
 *   TB_MESSAGES_TRACE       prefix of the recordings, one file PREFIXrank-R.txt per rank (text as liballprof writes it); none if left out
 *   TB_MESSAGES_MOST_BYTES  longest message; 131072 if left out
 *
 * A sender never waits for the delay.  It notes when its message left (PMPI_Isend has returned), plus the delay, in memory that all
 * ranks share.  A receive is not begun (MPI_Recv), or not completed (MPI_Wait, MPI_Waitall), before that time.  Collectives are made of
 * delayed messages by stated algorithms.  A call that the layer cannot delay ends the program, or is named at the end of the recording.
 *
 * A wait may end late.  So the recording ends with a line for each barrier of the rank, in their order: how many receives had waited for
 * the delay when it was over, and how much later than due these had gone on, added up [ns].
 *
 *   # waited until a barrier: RECEIVES:LATE_NS
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* one clock for all ranks of a machine */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void refuse(const char *format, ...) {
    va_list words;
    va_start(words, format);
    fprintf(stderr, "messages layer: ");
    vfprintf(stderr, format, words);
    fprintf(stderr, "\n");
    va_end(words);
    PMPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static void *room(void *old, size_t bytes) {
    void *made = realloc(old, bytes);
    if (!made) refuse("out of memory");
    return made;
}

/* --- the recording ------------------------------------------------------------------------------------------------ */

/* A call: its arguments by shape, v for a number and t for the three of a type or communicator. */
struct call {
    const char *name, *shape;
    int64_t begin, end, value[18];
};

static struct call *calls;
static size_t call_count, call_room;
static const char *prefix;
static int world_rank, world_size;

static struct {
    const char *name;
    int64_t time;
} as_is_calls[64];
static int as_is_count;

/* receives that had to wait for the delay, and how much later than due they went on, added up */
static int64_t waited, late_ns;

static void note(const char *name, int64_t begin, const char *shape, const int64_t *value, size_t bytes) {
    if (!prefix) return;
    if (call_count == call_room) {
        size_t more = call_room ? call_room : 1 << 16;
        calls = room(calls, (call_room + more) * sizeof *calls);
        memset(calls + call_room, 0, more * sizeof *calls); /* pages are there before they are timed */
        call_room += more;
    }
    struct call *made = &calls[call_count++];
    made->name = name, made->shape = shape, made->begin = begin, made->end = now();
    memcpy(made->value, value, bytes);
}

#define VALUES(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__})
#define NOTE(name, shape, ...) note(name, begin, shape, VALUES(__VA_ARGS__))

static void write_time(FILE *file, int64_t ns) {
    fprintf(file, ":%lld.%03d", (long long)(ns / 1000), (int)(ns % 1000));
}

static void write_calls(void) {
    if (!prefix) return;
    char path[4096];
    snprintf(path, sizeof path, "%srank-%d.txt", prefix, world_rank);
    FILE *file = fopen(path, "w");
    if (!file) refuse("cannot write %s", path);
    fprintf(file, "# liballprof text, by the messages layer of Turnbuckle\n");
    for (size_t k = 0; k < call_count; k++) {
        const struct call *c = &calls[k];
        const int64_t *v = c->value;
        fprintf(file, "%s", c->name);
        write_time(file, c->begin);
        for (const char *s = c->shape; *s; s++) {
            fprintf(file, ":%lld", (long long)*v++);
            if (*s == 't') {
                fprintf(file, ",%lld", (long long)*v++);
                fprintf(file, ",%lld", (long long)*v++);
            }
        }
        write_time(file, c->end);
        fprintf(file, "\n");
    }
    for (int k = 0; k < as_is_count; k++) {
        fprintf(file, "# not delayed: %s", as_is_calls[k].name);
        write_time(file, as_is_calls[k].time);
        fprintf(file, "\n");
    }
    for (size_t k = 0; k < call_count; k++) {
        const int64_t *v = calls[k].value;
        if (!strcmp(calls[k].name, "MPI_Barrier")) fprintf(file, "# waited until a barrier: %lld:%lld\n", (long long)v[3], (long long)v[4]);
    }
    fclose(file);
}

/* --- times at which messages may be there ------------------------------------------------------------------------- */

#define RING 4096 /* messages from one rank to another that nobody has looked for yet */

/* From one rank to another, in memory that both share. */
struct ring {
    _Alignas(128) _Atomic uint64_t written;
    _Alignas(128) _Atomic uint64_t read;
    struct {
        uint64_t key;
        int64_t due;
    } entry[RING];
};

/* Messages of one sender, communicator and tag, in the order in which MPI matches them. */
struct stream {
    int source;
    uint64_t key;
    int64_t *due;
    size_t count, space, posted;
};

static struct ring **from, **to;
static uint64_t *taken;
static struct stream **streams;
static size_t stream_count;
static int64_t delay_ns;
static long long most_bytes = 131072;
static MPI_Win window;

static struct stream *stream_of(int source, uint64_t key) {
    for (size_t k = 0; k < stream_count; k++)
        if (streams[k]->source == source && streams[k]->key == key) return streams[k];
    streams = room(streams, (stream_count + 1) * sizeof *streams);
    struct stream *made = calloc(1, sizeof *made);
    if (!made) refuse("out of memory");
    made->source = source, made->key = key;
    return streams[stream_count++] = made;
}

static void left(int target, uint64_t key) {
    struct ring *ring = to[target];
    uint64_t place = atomic_load_explicit(&ring->written, memory_order_relaxed);
    if (place - atomic_load_explicit(&ring->read, memory_order_relaxed) >= RING) refuse("over %d messages that nobody received", RING);
    ring->entry[place % RING].key = key;
    ring->entry[place % RING].due = now() + delay_ns;
    atomic_store_explicit(&ring->written, place + 1, memory_order_release);
}

static void look(int source) {
    struct ring *ring = from[source];
    uint64_t until = atomic_load_explicit(&ring->written, memory_order_acquire);
    for (; taken[source] < until; taken[source]++) {
        struct stream *s = stream_of(source, ring->entry[taken[source] % RING].key);
        if (s->count == s->space) s->due = room(s->due, (s->space = s->space ? 2 * s->space : 1024) * sizeof *s->due);
        s->due[s->count++] = ring->entry[taken[source] % RING].due;
    }
    /* the sender looks at this line for every message: write it seldom */
    if (until - atomic_load_explicit(&ring->read, memory_order_relaxed) > RING / 4)
        atomic_store_explicit(&ring->read, until, memory_order_relaxed);
}

static void hold(struct stream *s, size_t number) {
    while (s->count <= number) look(s->source);
    int64_t time = now(), due = s->due[number];
    if (time >= due) return;
    while (time < due) time = now();
    waited++;
    late_ns += time - due;
}

/* --- communicators ------------------------------------------------------------------------------------------------ */

/* What the layer knows of a communicator: a number that its members agree on, and one of its own for the messages of collectives. */
struct group {
    int number, rank, size, *world;
    MPI_Comm inner;
};

static int keyval = MPI_KEYVAL_INVALID;
static MPI_Comm last = MPI_COMM_NULL;
static struct group *last_group;

static struct group *describe(MPI_Comm comm) {
    static int made_here;
    struct group *g = calloc(1, sizeof *g);
    MPI_Group all, members;
    if (!g) refuse("out of memory");
    PMPI_Comm_rank(comm, &g->rank);
    PMPI_Comm_size(comm, &g->size);
    g->world = room(NULL, 2 * g->size * sizeof(int));
    for (int k = 0; k < g->size; k++) g->world[g->size + k] = k;
    PMPI_Comm_group(MPI_COMM_WORLD, &all);
    PMPI_Comm_group(comm, &members);
    PMPI_Group_translate_ranks(members, g->size, g->world + g->size, all, g->world);
    PMPI_Group_free(&all);
    PMPI_Group_free(&members);
    g->number = comm == MPI_COMM_WORLD ? 0 : world_rank << 12 | ++made_here;
    PMPI_Bcast(&g->number, 1, MPI_INT, 0, comm);
    PMPI_Comm_dup(comm, &g->inner);
    PMPI_Comm_set_attr(comm, keyval, g);
    return g;
}

static struct group *group_of(MPI_Comm comm) {
    int there;
    if (comm == last) return last_group;
    PMPI_Comm_get_attr(comm, keyval, &last_group, &there);
    if (!there) refuse("a communicator that was made by a call the layer does not know");
    last = comm;
    return last_group;
}

static uint64_t key_of(const struct group *g, int tag, int inner) {
    return (uint64_t)(2 * g->number + inner) << 32 | (uint32_t)tag;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static void begin_send(const void *buffer, int count, MPI_Datatype type, int target, int tag, struct group *g, MPI_Comm comm, int inner,
                       MPI_Request *request) {
    int size;
    PMPI_Type_size(type, &size);
    if ((long long)size * count > most_bytes) refuse("a message of %lld B: MPI would hold it back itself", (long long)size * count);
    PMPI_Isend(buffer, count, type, target, tag, comm, request);
    if (target != MPI_PROC_NULL) left(g->world[target], key_of(g, tag, inner));
}

/* Wait until a message of a status may be there: what a receive from any source or of any tag was given. */
static void settle(struct group *g, const MPI_Status *status) {
    struct stream *s = stream_of(g->world[status->MPI_SOURCE], key_of(g, status->MPI_TAG, 0));
    hold(s, s->posted++);
}

static int receive(void *buffer, int count, MPI_Datatype type, int source, int tag, struct group *g, MPI_Comm comm, int inner,
                   MPI_Status *status) {
    MPI_Status here;
    int named = source >= 0 && tag != MPI_ANY_TAG;
    if (named) {
        struct stream *s = stream_of(g->world[source], key_of(g, tag, inner));
        hold(s, s->posted++);
    }
    int out = PMPI_Recv(buffer, count, type, source, tag, comm, &here);
    if (!named && source != MPI_PROC_NULL) settle(g, &here);
    if (status != MPI_STATUS_IGNORE) *status = here;
    return out;
}

/* Receives that are not completed; `stream` is none where any source or any tag will do. */
#define MOST_OPEN 4096
static struct {
    MPI_Request request;
    struct stream *stream;
    size_t number;
    struct group *group;
} open_receives[MOST_OPEN];
static int open_count;

static int open_place(MPI_Request request) {
    for (int k = 0; k < open_count; k++)
        if (open_receives[k].request == request) return k;
    return -1;
}

static int complete(int count, MPI_Request *requests, MPI_Status *statuses) {
    MPI_Status few[16], *own = count > 16 ? room(NULL, count * sizeof *own) : few;
    struct group *wild_few[16], **wild = count > 16 ? room(NULL, count * sizeof *wild) : wild_few;
    for (int k = 0; k < count; k++) {
        int place = requests[k] == MPI_REQUEST_NULL ? -1 : open_place(requests[k]);
        wild[k] = NULL;
        if (place < 0) continue;
        if (open_receives[place].stream) hold(open_receives[place].stream, open_receives[place].number);
        else wild[k] = open_receives[place].group;
        open_receives[place] = open_receives[--open_count];
    }
    int out = PMPI_Waitall(count, requests, own);
    for (int k = 0; k < count; k++) {
        if (wild[k]) settle(wild[k], &own[k]);
        if (statuses) statuses[k] = own[k];
    }
    if (own != few) free(own), free(wild);
    return out;
}

#define TYPE(type) 0, bytes_of(type), bytes_of(type)
#define COMM(group) (group)->number, (group)->rank, (group)->size
#define PLACE(pointer) (int64_t)(uintptr_t)(pointer)

static int64_t bytes_of(MPI_Datatype type) {
    int size;
    PMPI_Type_size(type, &size);
    return size;
}

EXPORT int MPI_Send(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm) {
    int64_t begin = now();
    struct group *g = group_of(comm);
    MPI_Request request;
    begin_send(buffer, count, type, target, tag, g, comm, 0, &request);
    int out = PMPI_Wait(&request, MPI_STATUS_IGNORE);
    NOTE("MPI_Send", "vvtvvt", 0, count, TYPE(type), target, tag, COMM(g));
    return out;
}

EXPORT int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm, MPI_Request *request) {
    int64_t begin = now();
    struct group *g = group_of(comm);
    begin_send(buffer, count, type, target, tag, g, comm, 0, request);
    NOTE("MPI_Isend", "vvtvvtv", 0, count, TYPE(type), target, tag, COMM(g), PLACE(request));
    return MPI_SUCCESS;
}

EXPORT int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status) {
    int64_t begin = now();
    struct group *g = group_of(comm);
    int out = receive(buffer, count, type, source, tag, g, comm, 0, status);
    NOTE("MPI_Recv", "vvtvvtv", 0, count, TYPE(type), source, tag, COMM(g), 0);
    return out;
}

EXPORT int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request) {
    int64_t begin = now();
    struct group *g = group_of(comm);
    int out = PMPI_Irecv(buffer, count, type, source, tag, comm, request);
    if (source != MPI_PROC_NULL) {
        if (open_count == MOST_OPEN) refuse("over %d receives that are not completed", MOST_OPEN);
        struct stream *s = source >= 0 && tag != MPI_ANY_TAG ? stream_of(g->world[source], key_of(g, tag, 0)) : NULL;
        open_receives[open_count].request = *request, open_receives[open_count].group = g, open_receives[open_count].stream = s;
        open_receives[open_count++].number = s ? s->posted++ : 0;
    }
    NOTE("MPI_Irecv", "vvtvvtv", 0, count, TYPE(type), source, tag, COMM(g), PLACE(request));
    return out;
}

EXPORT int MPI_Sendrecv(const void *sent, int sent_count, MPI_Datatype sent_type, int target, int sent_tag, void *got, int count,
                        MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status) {
    int64_t begin = now();
    struct group *g = group_of(comm);
    MPI_Request request;
    begin_send(sent, sent_count, sent_type, target, sent_tag, g, comm, 0, &request);
    receive(got, count, type, source, tag, g, comm, 0, status);
    int out = PMPI_Wait(&request, MPI_STATUS_IGNORE);
    NOTE("MPI_Sendrecv", "vvtvvvvtvvtv", 0, sent_count, TYPE(sent_type), target, sent_tag, 0, count, TYPE(type), source, tag, COMM(g), 0);
    return out;
}

EXPORT int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    int64_t begin = now();
    int out = complete(1, request, status == MPI_STATUS_IGNORE ? NULL : status);
    NOTE("MPI_Wait", "vv", PLACE(request), 0);
    return out;
}

EXPORT int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
    int64_t begin = now();
    int out = complete(count, requests, statuses == MPI_STATUSES_IGNORE ? NULL : statuses);
    NOTE("MPI_Waitall", "vvv", count, PLACE(requests), 0);
    return out;
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

/* The algorithms that `--collectives "short and long"` of Turnbuckle takes for short vectors. */
#define LONGEST_VECTOR 10000

static void inner_send(const void *buffer, int count, MPI_Datatype type, int target, struct group *g) {
    MPI_Request request;
    begin_send(buffer, count, type, target, 0, g, g->inner, 1, &request);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void inner_receive(void *buffer, int count, MPI_Datatype type, int source, struct group *g) {
    receive(buffer, count, type, source, 0, g, g->inner, 1, MPI_STATUS_IGNORE);
}

static void exchange(const void *sent, void *got, int count, MPI_Datatype type, int target, int source, struct group *g) {
    MPI_Request request;
    begin_send(sent, count, type, target, 0, g, g->inner, 1, &request);
    inner_receive(got, count, type, source, g);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Room for a vector that comes, and the own one in `into`; operands change places, so the operation must allow it. */
static void *vector(const void *sent, void *into, int count, MPI_Datatype type, MPI_Op op) {
    MPI_Aint lower, extent;
    int free_order;
    PMPI_Type_get_extent(type, &lower, &extent);
    PMPI_Op_commutative(op, &free_order);
    if (!free_order || lower) refuse("a reduction whose order matters, or of a type that does not begin at 0");
    if (extent * count > LONGEST_VECTOR) refuse("a reduction of %lld B: another algorithm is taken above 10000 B", (long long)extent * count);
    if (sent != MPI_IN_PLACE) memcpy(into, sent, extent * count);
    return room(NULL, extent * count + 1);
}

/* Dissemination: in each step with the ranks at distance 1, 2, 4, ... */
EXPORT int MPI_Barrier(MPI_Comm comm) {
    int64_t begin = now();
    struct group *g = group_of(comm);
    for (int reach = 1; reach < g->size; reach *= 2)
        exchange(NULL, NULL, 0, MPI_BYTE, (g->rank + reach) % g->size, (g->rank - reach + g->size) % g->size, g);
    NOTE("MPI_Barrier", "t", COMM(g), waited, late_ns); /* the last two are behind its shape: for the end of the recording */
    return MPI_SUCCESS;
}

/* Binomial tree, the farthest first. */
EXPORT int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    int64_t begin = now();
    struct group *g = group_of(comm);
    int own = (g->rank - root + g->size) % g->size, reach = 1;
    while (reach < g->size && !(own & reach)) reach *= 2;
    if (own) inner_receive(buffer, count, type, (own - reach + root) % g->size, g);
    for (reach /= 2; reach > 0; reach /= 2)
        if (own + reach < g->size) inner_send(buffer, count, type, (own + reach + root) % g->size, g);
    NOTE("MPI_Bcast", "vvtvt", 0, count, TYPE(type), root, COMM(g));
    return MPI_SUCCESS;
}

/* The same tree upwards, the nearest first. */
EXPORT int MPI_Reduce(const void *sent, void *got, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    int64_t begin = now();
    struct group *g = group_of(comm);
    int own = (g->rank - root + g->size) % g->size, reach = 1;
    MPI_Aint lower, extent;
    PMPI_Type_get_extent(type, &lower, &extent);
    void *sum = own ? room(NULL, extent * count + 1) : got, *other = vector(sent, sum, count, type, op);
    for (; reach < g->size && !(own & reach); reach *= 2) {
        if (own + reach >= g->size) continue;
        inner_receive(other, count, type, (own + reach + root) % g->size, g);
        PMPI_Reduce_local(other, sum, count, type, op);
    }
    if (own) {
        inner_send(sum, count, type, (own - reach + root) % g->size, g);
        free(sum);
    }
    free(other);
    NOTE("MPI_Reduce", "vvvtvvt", 0, 0, count, TYPE(type), 0, root, COMM(g));
    return MPI_SUCCESS;
}

/* Recursive doubling.  Where the ranks are no power of two, even ones at the front fold into their neighbours and get the result back. */
EXPORT int MPI_Allreduce(const void *sent, void *got, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    int64_t begin = now();
    struct group *g = group_of(comm);
    int power = 1, own = g->rank;
    while (2 * power <= g->size) power *= 2;
    int front = 2 * (g->size - power), folded = own < front && own % 2 == 0;
    void *other = vector(sent, got, count, type, op);
    if (folded) {
        inner_send(got, count, type, own + 1, g);
        inner_receive(got, count, type, own + 1, g);
    } else {
        if (own < front) {
            inner_receive(other, count, type, own - 1, g);
            PMPI_Reduce_local(other, got, count, type, op);
        }
        int place = own < front ? own / 2 : own - front / 2;
        for (int reach = 1; reach < power; reach *= 2) {
            int partner = place ^ reach, rank = partner < front / 2 ? 2 * partner + 1 : partner + front / 2;
            exchange(got, other, count, type, rank, rank, g);
            PMPI_Reduce_local(other, got, count, type, op);
        }
        if (own < front) inner_send(got, count, type, own - 1, g);
    }
    free(other);
    NOTE("MPI_Allreduce", "vvvtvt", 0, 0, count, TYPE(type), 0, COMM(g));
    return MPI_SUCCESS;
}

/* --- calls that go on as they are: named at the end of the recording -------------------------------------------------- */

static void as_is(const char *name) {
    if (as_is_count < (int)(sizeof as_is_calls / sizeof *as_is_calls)) {
        as_is_calls[as_is_count].name = name;
        as_is_calls[as_is_count++].time = now();
    }
}

#define AS_IS(name, parameters, values)    \
    EXPORT int MPI_##name parameters {     \
        as_is("MPI_" #name);               \
        return PMPI_##name values;         \
    }

AS_IS(Scan, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c), (a, b, n, t, op, c))
AS_IS(Allgather, (const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, MPI_Comm c), (a, n, t, b, m, u, c))
AS_IS(Gather, (const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, int r, MPI_Comm c), (a, n, t, b, m, u, r, c))

/* --- communicators, begin and end --------------------------------------------------------------------------------- */

static int made(int out, MPI_Comm *comm) {
    last = MPI_COMM_NULL; /* a handle may be used again */
    if (out == MPI_SUCCESS && *comm != MPI_COMM_NULL) describe(*comm);
    return out;
}

EXPORT int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out) { return made(PMPI_Comm_dup(comm, out), out); }
EXPORT int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out) { return made(PMPI_Comm_split(comm, color, key, out), out); }
EXPORT int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *out) { return made(PMPI_Comm_create(comm, group, out), out); }
EXPORT int MPI_Cart_create(MPI_Comm comm, int n, const int *dims, const int *periods, int reorder, MPI_Comm *out) {
    return made(PMPI_Cart_create(comm, n, dims, periods, reorder, out), out);
}

EXPORT int MPI_Comm_free(MPI_Comm *comm) {
    struct group *g = group_of(*comm);
    last = MPI_COMM_NULL;
    PMPI_Comm_free(&g->inner);
    return PMPI_Comm_free(comm);
}

static void begin(void) {
    const char *word = getenv("TB_MESSAGES_DELAY_NS");
    delay_ns = word ? atoll(word) : 0;
    word = getenv("TB_MESSAGES_MOST_BYTES");
    most_bytes = word ? atoll(word) : most_bytes;
    prefix = getenv("TB_MESSAGES_TRACE");
    PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
    struct ring *own;
    MPI_Aint bytes = world_size * sizeof *own;
    int unit;
    /* the first of it may stand anywhere: a ring begins at a cache line of its own */
    PMPI_Win_allocate_shared(bytes + 128, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
    from = room(NULL, world_size * sizeof *from), to = room(NULL, world_size * sizeof *to);
    taken = calloc(world_size, sizeof *taken);
    for (int k = 0; k < world_size; k++) {
        char *start;
        PMPI_Win_shared_query(window, k, &bytes, &unit, &start);
        struct ring *rings = (struct ring *)(start + (128 - (uintptr_t)start % 128) % 128);
        if (k == world_rank) {
            memset(rings, 0, world_size * sizeof *rings);
            for (int n = 0; n < world_size; n++) from[n] = rings + n;
        }
        to[k] = rings + world_rank;
    }
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    describe(MPI_COMM_WORLD);
    describe(MPI_COMM_SELF);
    PMPI_Barrier(MPI_COMM_WORLD);
}

EXPORT int MPI_Init(int *argc, char ***argv) {
    int out = PMPI_Init(argc, argv);
    begin();
    return out;
}

EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int out = PMPI_Init_thread(argc, argv, required > MPI_THREAD_FUNNELED ? MPI_THREAD_FUNNELED : required, provided);
    begin();
    return out;
}

EXPORT int MPI_Finalize(void) {
    write_calls();
    PMPI_Win_free(&window);
    return PMPI_Finalize();
}

/* --- calls that would pass the delay by ---------------------------------------------------------------------------- */

#define REFUSED(name)                               \
    EXPORT int refused_##name(void) __asm__("MPI_" #name); \
    int refused_##name(void) {                      \
        refuse("MPI_" #name " is not delayed");     \
        return 1;                                   \
    }

REFUSED(Bsend) REFUSED(Ssend) REFUSED(Rsend) REFUSED(Ibsend) REFUSED(Issend) REFUSED(Irsend) REFUSED(Sendrecv_replace)
REFUSED(Send_init) REFUSED(Bsend_init) REFUSED(Ssend_init) REFUSED(Rsend_init) REFUSED(Recv_init) REFUSED(Start) REFUSED(Startall)
REFUSED(Probe) REFUSED(Iprobe) REFUSED(Mprobe) REFUSED(Improbe) REFUSED(Mrecv) REFUSED(Imrecv) REFUSED(Cancel) REFUSED(Request_free)
REFUSED(Test) REFUSED(Testall) REFUSED(Testany) REFUSED(Testsome) REFUSED(Waitany) REFUSED(Waitsome)
REFUSED(Gatherv) REFUSED(Scatter) REFUSED(Scatterv) REFUSED(Allgatherv) REFUSED(Alltoall) REFUSED(Alltoallv) REFUSED(Alltoallw)
REFUSED(Reduce_scatter) REFUSED(Reduce_scatter_block) REFUSED(Exscan)
REFUSED(Ibarrier) REFUSED(Ibcast) REFUSED(Igather) REFUSED(Igatherv) REFUSED(Iscatter) REFUSED(Iscatterv) REFUSED(Iallgather)
REFUSED(Iallgatherv) REFUSED(Ialltoall) REFUSED(Ialltoallv) REFUSED(Ialltoallw) REFUSED(Ireduce) REFUSED(Iallreduce)
REFUSED(Ireduce_scatter) REFUSED(Ireduce_scatter_block) REFUSED(Iscan) REFUSED(Iexscan)
REFUSED(Neighbor_allgather) REFUSED(Neighbor_allgatherv) REFUSED(Neighbor_alltoall) REFUSED(Neighbor_alltoallv) REFUSED(Neighbor_alltoallw)
REFUSED(Ineighbor_allgather) REFUSED(Ineighbor_allgatherv) REFUSED(Ineighbor_alltoall) REFUSED(Ineighbor_alltoallv)
REFUSED(Ineighbor_alltoallw)
REFUSED(Comm_idup) REFUSED(Comm_dup_with_info) REFUSED(Comm_split_type) REFUSED(Comm_create_group) REFUSED(Cart_sub)
REFUSED(Graph_create) REFUSED(Dist_graph_create) REFUSED(Dist_graph_create_adjacent) REFUSED(Intercomm_create) REFUSED(Intercomm_merge)
REFUSED(Comm_spawn) REFUSED(Comm_spawn_multiple) REFUSED(Comm_accept) REFUSED(Comm_connect)
REFUSED(Win_create) REFUSED(Win_allocate) REFUSED(Win_allocate_shared) REFUSED(Win_create_dynamic)
