/* collectives.c - collectives, blocking and not: bytes for one partner, or for all together where each has a size of its own. */
#include "layer.h"

#define EXPORT __attribute__((visibility("default")))

/* What one member puts in and gets, and where its two buffers are. */
struct sides { int64_t sent, got, from, to; };

static int64_t total(const int *counts, int size)
{
    int64_t sum = 0;
    for (int i = 0; counts && i < size; i++) sum += counts[i];
    return sum;
}

static struct sides sides_of(const void *from, int64_t sent, MPI_Datatype type, const void *to, int64_t got, MPI_Datatype got_type)
{
    struct sides out = { 0, bytes_of(got, got_type), NONE, to == MPI_IN_PLACE ? NONE : buffer_place(to, got, got_type) };
    if (from == MPI_IN_PLACE) out.sent = out.got, out.from = out.to;
    else out.sent = bytes_of(sent, type), out.from = buffer_place(from, sent, type);
    if (to == MPI_IN_PLACE) out.got = out.sent, out.to = out.from;
    return out;
}

static void collective_done(const struct call *call, const struct group *group, const struct sides *sides, int root, MPI_Request *request)
{
    if (group->foreign) {
        skipped(INTERCOMMUNICATOR);
        plain_row(call, OTHER);
        return;
    }
    struct row row = call_row(call, COLLECTIVE);
    row.ROW_COMMUNICATOR = group->number;
    if (root >= 0) row.ROW_ROOT = root;
    row.bytes = sides->sent, row.ROW_RECEIVED = sides->got, row.ROW_MEMORY = sides->from, row.ROW_RECEIVE_MEMORY = sides->to;
    if (request) row.ROW_REQUEST = request_begun(*request, 0, NULL);
    row_write(&row);
}

/* A collective and its non-blocking twin.  `SIDES` is told only where the call is recorded, before it is made: arguments that only the
 * root gives are not looked at elsewhere. */
#define BODY(name, arguments, root, request, SIDES)                                                                                        \
    {                                                                                                                                      \
        BEGIN(name);                                                                                                                       \
        struct sides sides = { 0, 0, NONE, NONE };                                                                                         \
        const struct group *group = call.recorded ? group_of(comm) : NULL;                                                                 \
        if (group && !group->foreign) {                                                                                                    \
            int own = group->rank, size = group->size;                                                                                     \
            (void)own, (void)size;                                                                                                         \
            sides = SIDES;                                                                                                                 \
        }                                                                                                                                  \
        int out = mpi.name arguments;                                                                                                      \
        call_return(&call);                                                                                                                \
        if (group && out == MPI_SUCCESS) collective_done(&call, group, &sides, root, request);                                             \
        call_done(&call);                                                                                                                       \
        return out;                                                                                                                        \
    }
#define UNPACK(...) __VA_ARGS__
#define TWIN(name, lower, parameters, arguments, root, SIDES)                                                                              \
    EXPORT int MPI_##name(UNPACK parameters) BODY(name, (UNPACK arguments), root, NULL, SIDES)                                             \
    EXPORT int MPI_I##lower(UNPACK parameters, MPI_Request *request) BODY(I##lower, (UNPACK arguments, request), root, request, SIDES)

#define NOTHING ((struct sides){ 0, 0, NONE, NONE })
#define ONE(buffer) sides_of(buffer, count, type, buffer, count, type)

TWIN(Barrier, barrier, (MPI_Comm comm), (comm), -1, NOTHING)
TWIN(Bcast, bcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm), (buffer, count, type, root, comm), root, ONE(buffer))
TWIN(Reduce, reduce, (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
     (from, to, count, type, op, root, comm), root, sides_of(from, count, type, own == root ? to : from, count, type))
TWIN(Allreduce, allreduce, (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (from, to, count, type, op, comm), -1, sides_of(from, count, type, to, count, type))
TWIN(Scan, scan, (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), (from, to, count, type, op, comm), -1,
     sides_of(from, count, type, to, count, type))
TWIN(Exscan, exscan, (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), (from, to, count, type, op, comm), -1,
     sides_of(from, count, type, to, count, type))
TWIN(Reduce_scatter, reduce_scatter, (const void *from, void *to, const int *counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (from, to, counts, type, op, comm), -1,
     from == MPI_IN_PLACE ? sides_of(to, total(counts, size), type, to, counts[own], type)
                          : sides_of(from, total(counts, size), type, to, counts[own], type))
TWIN(Reduce_scatter_block, reduce_scatter_block, (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (from, to, count, type, op, comm), -1,
     sides_of(from == MPI_IN_PLACE ? to : from, (int64_t)count * size, type, to, count, type))

/* Of a gather only the root receives, of a scatter only the root sends. */
#define NOBODY(type) NULL, 0, type
TWIN(Gather, gather, (const void *from, int sent, MPI_Datatype type, void *to, int got, MPI_Datatype got_type, int root, MPI_Comm comm),
     (from, sent, type, to, got, got_type, root, comm), root,
     own == root ? sides_of(from, sent, type, to, got, got_type) : sides_of(from, sent, type, NOBODY(type)))
TWIN(Gatherv, gatherv,
     (const void *from, int sent, MPI_Datatype type, void *to, const int *got, const int *places, MPI_Datatype got_type, int root, MPI_Comm comm),
     (from, sent, type, to, got, places, got_type, root, comm), root,
     own != root            ? sides_of(from, sent, type, NOBODY(type))
     : from == MPI_IN_PLACE ? sides_of(to, got[own], got_type, to, total(got, size), got_type)
                            : sides_of(from, sent, type, to, total(got, size), got_type))
TWIN(Scatter, scatter, (const void *from, int sent, MPI_Datatype type, void *to, int got, MPI_Datatype got_type, int root, MPI_Comm comm),
     (from, sent, type, to, got, got_type, root, comm), root,
     own == root ? sides_of(from, sent, type, to, got, got_type) : sides_of(NOBODY(got_type), to, got, got_type))
TWIN(Scatterv, scatterv,
     (const void *from, const int *sent, const int *places, MPI_Datatype type, void *to, int got, MPI_Datatype got_type, int root, MPI_Comm comm),
     (from, sent, places, type, to, got, got_type, root, comm), root,
     own != root          ? sides_of(NOBODY(got_type), to, got, got_type)
     : to == MPI_IN_PLACE ? sides_of(from, total(sent, size), type, from, sent[own], type)
                          : sides_of(from, total(sent, size), type, to, got, got_type))
TWIN(Allgather, allgather, (const void *from, int sent, MPI_Datatype type, void *to, int got, MPI_Datatype got_type, MPI_Comm comm),
     (from, sent, type, to, got, got_type, comm), -1, sides_of(from, sent, type, to, got, got_type))
TWIN(Allgatherv, allgatherv,
     (const void *from, int sent, MPI_Datatype type, void *to, const int *got, const int *places, MPI_Datatype got_type, MPI_Comm comm),
     (from, sent, type, to, got, places, got_type, comm), -1,
     from == MPI_IN_PLACE ? sides_of(to, got[own], got_type, to, total(got, size), got_type)
                          : sides_of(from, sent, type, to, total(got, size), got_type))
TWIN(Alltoall, alltoall, (const void *from, int sent, MPI_Datatype type, void *to, int got, MPI_Datatype got_type, MPI_Comm comm),
     (from, sent, type, to, got, got_type, comm), -1, sides_of(from, sent, type, to, got, got_type))
TWIN(Alltoallv, alltoallv,
     (const void *from, const int *sent, const int *places, MPI_Datatype type, void *to, const int *got, const int *got_places,
      MPI_Datatype got_type, MPI_Comm comm),
     (from, sent, places, type, to, got, got_places, got_type, comm), -1,
     sides_of(from, from == MPI_IN_PLACE ? 0 : total(sent, size), type, to, total(got, size), got_type))

static int64_t each_total(const int *counts, const MPI_Datatype *types, int size)
{
    int64_t sum = 0;
    for (int i = 0; i < size; i++) sum += bytes_of(counts[i], types[i]);
    return sum;
}

/* Offsets are in bytes and types may differ: the place is that of the buffer's begin. */
static struct sides each_sides(const void *from, const int *sent, const MPI_Datatype *types, const void *to, const int *got,
                               const MPI_Datatype *got_types, int size)
{
    struct sides out = { 0, each_total(got, got_types, size), NONE, NONE };
    out.to = out.got > 0 ? (int64_t)place_of(to) : NONE;
    if (from == MPI_IN_PLACE) out.sent = out.got, out.from = out.to;
    else if ((out.sent = each_total(sent, types, size)) > 0) out.from = place_of(from);
    return out;
}

TWIN(Alltoallw, alltoallw,
     (const void *from, const int *sent, const int *places, const MPI_Datatype *types, void *to, const int *got, const int *got_places,
      const MPI_Datatype *got_types, MPI_Comm comm),
     (from, sent, places, types, to, got, got_places, got_types, comm), -1, each_sides(from, sent, types, to, got, got_types, size))

/* Neighbours: named, without their bytes, as no model of theirs is known. */
#define NEIGHBOR(lower, parameters, arguments)                                                                                             \
    EXPORT int MPI_Neighbor_##lower(UNPACK parameters) BODY(Neighbor_##lower, (UNPACK arguments), -1, NULL, NOTHING)                       \
    EXPORT int MPI_Ineighbor_##lower(UNPACK parameters, MPI_Request *request)                                                              \
        BODY(Ineighbor_##lower, (UNPACK arguments, request), -1, request, NOTHING)

NEIGHBOR(allgather, (const void *from, int sent, MPI_Datatype type, void *to, int got, MPI_Datatype got_type, MPI_Comm comm),
         (from, sent, type, to, got, got_type, comm))
NEIGHBOR(allgatherv,
         (const void *from, int sent, MPI_Datatype type, void *to, const int *got, const int *places, MPI_Datatype got_type, MPI_Comm comm),
         (from, sent, type, to, got, places, got_type, comm))
NEIGHBOR(alltoall, (const void *from, int sent, MPI_Datatype type, void *to, int got, MPI_Datatype got_type, MPI_Comm comm),
         (from, sent, type, to, got, got_type, comm))
NEIGHBOR(alltoallv,
         (const void *from, const int *sent, const int *places, MPI_Datatype type, void *to, const int *got, const int *got_places,
          MPI_Datatype got_type, MPI_Comm comm),
         (from, sent, places, type, to, got, got_places, got_type, comm))
NEIGHBOR(alltoallw,
         (const void *from, const int *sent, const MPI_Aint *places, const MPI_Datatype *types, void *to, const int *got,
          const MPI_Aint *got_places, const MPI_Datatype *got_types, MPI_Comm comm),
         (from, sent, places, types, to, got, got_places, got_types, comm))

BLOCKING_COLLECTIVES(BOTH_NAMES)
NONBLOCKING_COLLECTIVES(BOTH_NAMES)
NEIGHBORS(BOTH_NAMES)
