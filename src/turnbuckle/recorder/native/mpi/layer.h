/* layer.h - what the parts of the MPI layer share: the library below it, rows, communicators, requests, places of buffers.
 *
 * The layer is preloaded (LD_PRELOAD) into every process of a command.  It is built against the mpi.h of the program's MPI and links no
 * MPI library: a process without MPI loads it at no cost, and one that loads MPI later (Python) is recorded as well. */
#ifndef TURNBUCKLE_MPI_LAYER_H
#define TURNBUCKLE_MPI_LAYER_H

#include <mpi.h>

#include "output.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the library below ---- */

#define BLOCKING_COLLECTIVES(X)                                                                                                            \
    X(Barrier) X(Bcast) X(Reduce) X(Allreduce) X(Gather) X(Gatherv) X(Scatter) X(Scatterv) X(Allgather) X(Allgatherv) X(Alltoall)         \
    X(Alltoallv) X(Alltoallw) X(Reduce_scatter) X(Reduce_scatter_block) X(Scan) X(Exscan)
#define NONBLOCKING_COLLECTIVES(X)                                                                                                         \
    X(Ibarrier) X(Ibcast) X(Ireduce) X(Iallreduce) X(Igather) X(Igatherv) X(Iscatter) X(Iscatterv) X(Iallgather) X(Iallgatherv)           \
    X(Ialltoall) X(Ialltoallv) X(Ialltoallw) X(Ireduce_scatter) X(Ireduce_scatter_block) X(Iscan) X(Iexscan)
#define NEIGHBORS(X)                                                                                                                       \
    X(Neighbor_allgather) X(Neighbor_allgatherv) X(Neighbor_alltoall) X(Neighbor_alltoallv) X(Neighbor_alltoallw)                         \
    X(Ineighbor_allgather) X(Ineighbor_allgatherv) X(Ineighbor_alltoall) X(Ineighbor_alltoallv) X(Ineighbor_alltoallw)
#define MESSAGES(X)                                                                                                                        \
    X(Send) X(Bsend) X(Ssend) X(Rsend) X(Isend) X(Ibsend) X(Issend) X(Irsend) X(Recv) X(Irecv) X(Mrecv) X(Imrecv) X(Sendrecv)            \
    X(Sendrecv_replace) X(Send_init) X(Bsend_init) X(Ssend_init) X(Rsend_init) X(Recv_init) X(Start) X(Startall)
#define COMPLETIONS(X)                                                                                                                     \
    X(Wait) X(Waitall) X(Waitany) X(Waitsome) X(Test) X(Testall) X(Testany) X(Testsome) X(Request_free)
#define MAKERS(X)                                                                                                                          \
    X(Comm_dup) X(Comm_dup_with_info) X(Comm_split) X(Comm_split_type) X(Comm_create) X(Comm_create_group) X(Cart_create) X(Cart_sub)     \
    X(Graph_create) X(Dist_graph_create) X(Dist_graph_create_adjacent) X(Intercomm_create) X(Intercomm_merge)
#define ONE_SIDED(X)                                                                                                                       \
    X(Put) X(Get) X(Accumulate) X(Get_accumulate) X(Fetch_and_op) X(Compare_and_swap) X(Rput) X(Rget) X(Raccumulate) X(Rget_accumulate)
#define WINDOWS(X)                                                                                                                         \
    X(Comm_free) X(Win_create) X(Win_allocate) X(Win_allocate_shared) X(Win_free) X(Win_fence) X(Win_start) X(Win_post) X(Win_complete)   \
    X(Win_wait) X(Win_lock) X(Win_unlock) X(Win_lock_all) X(Win_unlock_all) X(Win_flush) X(Win_flush_all)
#define PROBES(X) X(Probe) X(Iprobe) X(Mprobe) X(Improbe)
#define ENDS(X) X(Init) X(Init_thread) X(Finalize) X(Abort)
#define ASKED(X)                                                                                                                           \
    X(Initialized) X(Test_cancelled) X(Comm_rank) X(Comm_size) X(Comm_group) X(Comm_test_inter)                 \
    X(Comm_create_keyval) X(Comm_set_attr) X(Comm_get_attr) X(Group_translate_ranks) X(Group_free) X(Type_size_x)                         \
    X(Type_get_true_extent) X(Get_elements_x)

#define FUNCTIONS(X)                                                                                                                       \
    BLOCKING_COLLECTIVES(X) NONBLOCKING_COLLECTIVES(X) NEIGHBORS(X) MESSAGES(X) COMPLETIONS(X) MAKERS(X) ONE_SIDED(X) WINDOWS(X) PROBES(X) ENDS(X) ASKED(X)

/* Puts an own function in the place of both of the library's.  Fortran's functions call PMPI's in Open MPI, and MPI's in MPICH. */
#define BOTH_NAMES(name) extern __typeof__(MPI_##name) PMPI_##name __attribute__((alias("MPI_" #name), visibility("default")));

/* Each function of the library, by its name without PMPI_; NULL where the library has none. */
struct library {
#define X(name) __typeof__(&PMPI_##name) name;
    FUNCTIONS(X)
#undef X
    /* objects, which are addresses in Open MPI */
    MPI_Comm world, self, comm_null;
    MPI_Request request_null;
    MPI_Datatype byte;
};
extern struct library mpi;

/* ---- calls ---- */

/* Numbers of mpi.kind in the vocabulary. */
enum call_kind { MESSAGE, COLLECTIVE, REQUEST, OTHER };

struct call {
    const char *name;
    int64_t begin, end;
    int recorded; /* 0 for calls that MPI itself makes, and before MPI_Init */
};

/* Begins every call of the program: notes the time, and looks up the library at the first call. */
struct call call_begin(const char *name, void *caller);
/* Notes that the library has returned. */
void call_return(struct call *call);
/* Ends the call; nothing of it is recorded afterwards.  Adds up the time that the layer took after the library's return. */
void call_done(const struct call *call);
#define BEGIN(function) struct call call = call_begin("MPI_" #function, __builtin_return_address(0))

/* Returns a row of this call with its kind, times, thread and name. */
struct row call_row(const struct call *call, enum call_kind kind);
void row_write(const struct row *row);
/* Writes the row of a call without a message or a request. */
void plain_row(const struct call *call, enum call_kind kind);

/* Writes a poll that found nothing.  Successive polls less than 10 us apart become one row, because a program may poll without end. */
void poll_row(const struct call *call, enum call_kind kind);

/* Counts a message or call that cannot be recorded, by its cause. */
enum skipped { INTERCOMMUNICATOR, ONE_SIDED_CALL, CAUSES };
void skipped(enum skipped cause);

/* The fields of a row that MPI gives another meaning. */
#define ROW_PARTNER stream
#define ROW_ROOT dev
#define ROW_TAG node
#define ROW_COMMUNICATOR ctx
#define ROW_REQUEST event
#define ROW_RECEIVED submitted
#define ROW_MEMORY src
#define ROW_RECEIVE_MEMORY dst

/* ---- communicators ---- */

struct group {
    int64_t number; /* of this process; the world is 1 */
    int rank, size;
    int foreign; /* an intercommunicator, or one with processes outside of the world: its messages are not recorded */
};
/* Returns the group of a communicator, and numbers a new one.  Called when a communicator is made, so that all members number it alike. */
const struct group *group_of(MPI_Comm comm);
void groups_begin(void);

/* ---- requests ---- */

/* Returns the number of a new request, which its row shares with the rows of its completion.  The row of a receive is kept until its
 * source, tag and size are known. */
int64_t request_begun(MPI_Request request, int persistent, const struct row *receive);
/* request_number returns the number of a persistent request that is started or cancelled; request_freed forgets a request. */
int64_t request_number(MPI_Request request);
void request_freed(MPI_Request request);
/* Claim each request that a call may complete, before the call: the oldest of its handle that no other call has claimed.  Release each
 * one after the call, complete or not.  Up to FEW of them are kept on the stack. */
enum { FEW = 16 };
struct open { uint64_t key; int64_t number; };
struct open request_open(MPI_Request request);
void request_left(struct open open);
/* Writes the rows of a completed request.  `status` holds source, tag and size of a receive. */
void request_complete(const struct call *call, struct open open, MPI_Status *status);
/* Writes the rows of receives that were never completed. */
void requests_end(void);
/* Fills in source, tag and size of a receive. */
void row_received(struct row *row, MPI_Status *status);

/* ---- places ---- */

/* Kinds of memory, numbered as the vocabulary's `memories` and CUPTI's. */
enum memory_kind { MEMORY_UNKNOWN, PAGEABLE, PINNED, DEVICE, ARRAY, MANAGED };
/* Returns the kind of memory that a pointer leads to. */
enum memory_kind place_of(const void *pointer);
/* Writes the names of the libraries that were asked, at the end of a file. */
void places_tell(void);

/* Return the bytes of some elements, and the kind of memory of the first; NONE without elements. */
int64_t bytes_of(int64_t count, MPI_Datatype type);
int64_t buffer_place(const void *buffer, int64_t count, MPI_Datatype type);

#endif
