/* others.c - calls that keep their time: those that make communicators, look for messages, or reach into another rank's memory. */
#include "layer.h"

#define EXPORT __attribute__((visibility("default")))
#define UNPACK(...) __VA_ARGS__

/* A communicator is numbered as it is made: so all its members number it alike. */
#define MAKES(name, parameters, arguments)                                                                                                 \
    EXPORT int MPI_##name(UNPACK parameters, MPI_Comm *made)                                                                               \
    {                                                                                                                                      \
        BEGIN(name);                                                                                                                       \
        int out = mpi.name(UNPACK arguments, made);                                                                                        \
        call_return(&call);                                                                                                                \
        if (call.recorded && out == MPI_SUCCESS) {                                                                                         \
            if (*made != mpi.comm_null) group_of(*made);                                                                                   \
            plain_row(&call, OTHER);                                                                                                       \
        }                                                                                                                                  \
        call_done(&call);                                                                                                                       \
        return out;                                                                                                                        \
    }

MAKES(Comm_dup, (MPI_Comm comm), (comm))
MAKES(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info), (comm, info))
MAKES(Comm_split, (MPI_Comm comm, int color, int key), (comm, color, key))
MAKES(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info), (comm, type, key, info))
MAKES(Comm_create, (MPI_Comm comm, MPI_Group group), (comm, group))
MAKES(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag), (comm, group, tag))
MAKES(Cart_create, (MPI_Comm comm, int dims, const int *sizes, const int *periods, int reorder), (comm, dims, sizes, periods, reorder))
MAKES(Cart_sub, (MPI_Comm comm, const int *kept), (comm, kept))
MAKES(Graph_create, (MPI_Comm comm, int nodes, const int *index, const int *edges, int reorder), (comm, nodes, index, edges, reorder))
MAKES(Dist_graph_create,
      (MPI_Comm comm, int nodes, const int *sources, const int *degrees, const int *targets, const int *weights, MPI_Info info, int reorder),
      (comm, nodes, sources, degrees, targets, weights, info, reorder))
MAKES(Dist_graph_create_adjacent,
      (MPI_Comm comm, int sources, const int *from, const int *from_weights, int targets, const int *to, const int *to_weights, MPI_Info info,
       int reorder),
      (comm, sources, from, from_weights, targets, to, to_weights, info, reorder))
MAKES(Intercomm_create, (MPI_Comm comm, int leader, MPI_Comm peers, int remote, int tag), (comm, leader, peers, remote, tag))
MAKES(Intercomm_merge, (MPI_Comm comm, int high), (comm, high))

#define TIMED(name, parameters, arguments, ...)                                                                                            \
    EXPORT int MPI_##name parameters                                                                                                       \
    {                                                                                                                                      \
        BEGIN(name);                                                                                                                       \
        int out = mpi.name arguments;                                                                                                      \
        call_return(&call);                                                                                                                \
        if (call.recorded) {                                                                                                               \
            __VA_ARGS__;                                                                                                                   \
            plain_row(&call, OTHER);                                                                                                       \
        }                                                                                                                                  \
        call_done(&call);                                                                                                                       \
        return out;                                                                                                                        \
    }

TIMED(Probe, (int source, int tag, MPI_Comm comm, MPI_Status *status), (source, tag, comm, status))
TIMED(Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status), (source, tag, comm, message, status))

#define LOOKS(name, parameters, arguments)                                                                                                 \
    EXPORT int MPI_##name parameters                                                                                                       \
    {                                                                                                                                      \
        BEGIN(name);                                                                                                                       \
        int out = mpi.name arguments;                                                                                                      \
        call_return(&call);                                                                                                                \
        if (call.recorded && out == MPI_SUCCESS && !*flag) poll_row(&call, OTHER);                                                         \
        else if (call.recorded) plain_row(&call, OTHER);                                                                                   \
        call_done(&call);                                                                                                                       \
        return out;                                                                                                                        \
    }
LOOKS(Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status), (source, tag, comm, flag, status))
LOOKS(Improbe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status),
      (source, tag, comm, flag, message, status))

#define REACHES(name, parameters, arguments) TIMED(name, parameters, arguments, skipped(ONE_SIDED_CALL))
#define THERE int target, MPI_Aint at, int there, MPI_Datatype their
#define OVER target, at, there, their
REACHES(Put, (const void *own, int count, MPI_Datatype type, THERE, MPI_Win win), (own, count, type, OVER, win))
REACHES(Get, (void *own, int count, MPI_Datatype type, THERE, MPI_Win win), (own, count, type, OVER, win))
REACHES(Accumulate, (const void *own, int count, MPI_Datatype type, THERE, MPI_Op op, MPI_Win win), (own, count, type, OVER, op, win))
REACHES(Get_accumulate,
        (const void *own, int count, MPI_Datatype type, void *result, int got, MPI_Datatype got_type, THERE, MPI_Op op, MPI_Win win),
        (own, count, type, result, got, got_type, OVER, op, win))
REACHES(Fetch_and_op, (const void *own, void *result, MPI_Datatype type, int target, MPI_Aint at, MPI_Op op, MPI_Win win),
        (own, result, type, target, at, op, win))
REACHES(Compare_and_swap, (const void *own, const void *compared, void *result, MPI_Datatype type, int target, MPI_Aint at, MPI_Win win),
        (own, compared, result, type, target, at, win))
REACHES(Rput, (const void *own, int count, MPI_Datatype type, THERE, MPI_Win win, MPI_Request *request),
        (own, count, type, OVER, win, request))
REACHES(Rget, (void *own, int count, MPI_Datatype type, THERE, MPI_Win win, MPI_Request *request), (own, count, type, OVER, win, request))
REACHES(Raccumulate, (const void *own, int count, MPI_Datatype type, THERE, MPI_Op op, MPI_Win win, MPI_Request *request),
        (own, count, type, OVER, op, win, request))
REACHES(Rget_accumulate,
        (const void *own, int count, MPI_Datatype type, void *result, int got, MPI_Datatype got_type, THERE, MPI_Op op, MPI_Win win,
         MPI_Request *request),
        (own, count, type, result, got, got_type, OVER, op, win, request))

/* Windows, and the end of a communicator. */
TIMED(Comm_free, (MPI_Comm *comm), (comm))
TIMED(Win_create, (void *base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win), (base, bytes, unit, info, comm, win))
TIMED(Win_allocate, (MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win), (bytes, unit, info, comm, base, win))
TIMED(Win_allocate_shared, (MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
      (bytes, unit, info, comm, base, win))
TIMED(Win_free, (MPI_Win *win), (win))
TIMED(Win_fence, (int asserted, MPI_Win win), (asserted, win))
TIMED(Win_start, (MPI_Group group, int asserted, MPI_Win win), (group, asserted, win))
TIMED(Win_post, (MPI_Group group, int asserted, MPI_Win win), (group, asserted, win))
TIMED(Win_complete, (MPI_Win win), (win))
TIMED(Win_wait, (MPI_Win win), (win))
TIMED(Win_lock, (int type, int rank, int asserted, MPI_Win win), (type, rank, asserted, win))
TIMED(Win_unlock, (int rank, MPI_Win win), (rank, win))
TIMED(Win_lock_all, (int asserted, MPI_Win win), (asserted, win))
TIMED(Win_unlock_all, (MPI_Win win), (win))
TIMED(Win_flush, (int rank, MPI_Win win), (rank, win))
TIMED(Win_flush_all, (MPI_Win win), (win))

MAKERS(BOTH_NAMES)
PROBES(BOTH_NAMES)
ONE_SIDED(BOTH_NAMES)
WINDOWS(BOTH_NAMES)
