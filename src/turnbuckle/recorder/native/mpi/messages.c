/* messages.c - sends, receives, and the calls that complete them. */
#include "layer.h"

#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

/* What a message is before it is sent or received. */
static struct row message_row(const struct call *call, const void *buffer, int count, MPI_Datatype type, int partner, int tag,
                              const struct group *group, int64_t place)
{
    struct row row = call_row(call, MESSAGE);
    (void)buffer;
    row.bytes = bytes_of(count, type), row.ROW_MEMORY = place;
    row.ROW_COMMUNICATOR = group->number;
    if (partner == MPI_PROC_NULL) return row;
    row.ROW_PARTNER = partner == MPI_ANY_SOURCE ? -1 : partner;
    if (tag != MPI_ANY_TAG) row.ROW_TAG = tag;
    return row;
}

/* Whether messages of a communicator are told; of one that is not, the call keeps its time. */
static int told(const struct call *call, const struct group *group)
{
    if (!group->foreign) return 1;
    skipped(INTERCOMMUNICATOR);
    plain_row(call, OTHER);
    return 0;
}

/* The place is asked before the call: afterwards the program of another thread may have freed the buffer. */
#define PLACED(buffer, count, type) call.recorded ? buffer_place(buffer, count, type) : NONE

#define SEND(name)                                                                                                                         \
    EXPORT int MPI_##name(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm)                            \
    {                                                                                                                                      \
        BEGIN(name);                                                                                                                       \
        int64_t place = PLACED(buffer, count, type);                                                                                       \
        const struct group *group = call.recorded ? group_of(comm) : NULL;                                                                 \
        int out = mpi.name(buffer, count, type, target, tag, comm);                                                                        \
        call_return(&call);                                                                                                                \
        if (group && out == MPI_SUCCESS && told(&call, group)) {                                                                           \
            struct row row = message_row(&call, buffer, count, type, target, tag, group, place);                                          \
            row_write(&row);                                                                                                               \
        }                                                                                                                                  \
        call_done(&call);                                                                                                                       \
        return out;                                                                                                                        \
    }
SEND(Send) SEND(Bsend) SEND(Ssend) SEND(Rsend)

/* A send that a request completes, at once or each time it is started. */
#define SEND_LATER(name, persistent)                                                                                                       \
    EXPORT int MPI_##name(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm, MPI_Request *request)     \
    {                                                                                                                                      \
        BEGIN(name);                                                                                                                       \
        int64_t place = PLACED(buffer, count, type);                                                                                       \
        const struct group *group = call.recorded ? group_of(comm) : NULL;                                                                 \
        int out = mpi.name(buffer, count, type, target, tag, comm, request);                                                               \
        call_return(&call);                                                                                                                \
        if (group && out == MPI_SUCCESS && told(&call, group)) {                                                                           \
            struct row row = message_row(&call, buffer, count, type, target, tag, group, place);                                          \
            row.ROW_REQUEST = request_begun(*request, persistent, NULL);                                                                   \
            row_write(&row);                                                                                                               \
        }                                                                                                                                  \
        call_done(&call);                                                                                                                       \
        return out;                                                                                                                        \
    }
SEND_LATER(Isend, 0) SEND_LATER(Ibsend, 0) SEND_LATER(Issend, 0) SEND_LATER(Irsend, 0)
SEND_LATER(Send_init, 1) SEND_LATER(Bsend_init, 1) SEND_LATER(Ssend_init, 1) SEND_LATER(Rsend_init, 1)

EXPORT int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    BEGIN(Recv);
    MPI_Status here, *seen = status == MPI_STATUS_IGNORE ? &here : status;
    int64_t place = PLACED(buffer, count, type);
    const struct group *group = call.recorded ? group_of(comm) : NULL;
    int out = mpi.Recv(buffer, count, type, source, tag, comm, seen);
    call_return(&call);
    if (group && out == MPI_SUCCESS && told(&call, group)) {
        struct row row = message_row(&call, buffer, count, type, source, tag, group, place);
        row_received(&row, seen);
        row_write(&row);
    }
    call_done(&call);
    return out;
}

EXPORT int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    BEGIN(Irecv);
    int64_t place = PLACED(buffer, count, type);
    const struct group *group = call.recorded ? group_of(comm) : NULL;
    int out = mpi.Irecv(buffer, count, type, source, tag, comm, request);
    call_return(&call);
    if (group && out == MPI_SUCCESS && told(&call, group)) {
        struct row row = message_row(&call, buffer, count, type, source, tag, group, place);
        request_begun(*request, 0, &row);
    }
    call_done(&call);
    return out;
}

EXPORT int MPI_Recv_init(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    BEGIN(Recv_init);
    int64_t place = PLACED(buffer, count, type);
    const struct group *group = call.recorded ? group_of(comm) : NULL;
    int out = mpi.Recv_init(buffer, count, type, source, tag, comm, request);
    call_return(&call);
    if (group && out == MPI_SUCCESS && told(&call, group)) {
        struct row row = message_row(&call, buffer, count, type, source, tag, group, place);
        row.ROW_REQUEST = request_begun(*request, 1, NULL);
        row_write(&row);
    }
    call_done(&call);
    return out;
}

/* A matched receive does not name its communicator: the reader takes the world. */
static const struct group unnamed = { NONE, 0, 0, 0 };

EXPORT int MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    BEGIN(Mrecv);
    MPI_Status here, *seen = status == MPI_STATUS_IGNORE ? &here : status;
    int64_t place = PLACED(buffer, count, type);
    int out = mpi.Mrecv(buffer, count, type, message, seen);
    call_return(&call);
    if (call.recorded && out == MPI_SUCCESS) {
        struct row row = message_row(&call, buffer, count, type, MPI_ANY_SOURCE, MPI_ANY_TAG, &unnamed, place);
        row_received(&row, seen);
        row_write(&row);
    }
    call_done(&call);
    return out;
}

EXPORT int MPI_Imrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
    BEGIN(Imrecv);
    int64_t place = PLACED(buffer, count, type);
    int out = mpi.Imrecv(buffer, count, type, message, request);
    call_return(&call);
    if (call.recorded && out == MPI_SUCCESS) {
        struct row row = message_row(&call, buffer, count, type, MPI_ANY_SOURCE, MPI_ANY_TAG, &unnamed, place);
        request_begun(*request, 0, &row);
    }
    call_done(&call);
    return out;
}

/* Two rows: the send without length, and the receive with the call's. */
static void both_rows(const struct call *call, struct row *send, struct row *receive, MPI_Status *seen)
{
    send->end = call->begin;
    row_write(send);
    row_received(receive, seen);
    row_write(receive);
}

EXPORT int MPI_Sendrecv(const void *sent, int sent_count, MPI_Datatype sent_type, int target, int sent_tag, void *got, int count,
                        MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    BEGIN(Sendrecv);
    MPI_Status here, *seen = status == MPI_STATUS_IGNORE ? &here : status;
    int64_t from = PLACED(sent, sent_count, sent_type), to = PLACED(got, count, type);
    const struct group *group = call.recorded ? group_of(comm) : NULL;
    int out = mpi.Sendrecv(sent, sent_count, sent_type, target, sent_tag, got, count, type, source, tag, comm, seen);
    call_return(&call);
    if (group && out == MPI_SUCCESS && told(&call, group)) {
        struct row send = message_row(&call, sent, sent_count, sent_type, target, sent_tag, group, from);
        struct row receive = message_row(&call, got, count, type, source, tag, group, to);
        both_rows(&call, &send, &receive, seen);
    }
    call_done(&call);
    return out;
}

EXPORT int MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int target, int sent_tag, int source, int tag, MPI_Comm comm,
                                MPI_Status *status)
{
    BEGIN(Sendrecv_replace);
    MPI_Status here, *seen = status == MPI_STATUS_IGNORE ? &here : status;
    int64_t place = PLACED(buffer, count, type);
    const struct group *group = call.recorded ? group_of(comm) : NULL;
    int out = mpi.Sendrecv_replace(buffer, count, type, target, sent_tag, source, tag, comm, seen);
    call_return(&call);
    if (group && out == MPI_SUCCESS && told(&call, group)) {
        struct row send = message_row(&call, buffer, count, type, target, sent_tag, group, place);
        struct row receive = message_row(&call, buffer, count, type, source, tag, group, place);
        both_rows(&call, &send, &receive, seen);
    }
    call_done(&call);
    return out;
}

/* ---- requests ---- */

static void request_row(const struct call *call, int64_t number)
{
    struct row row = call_row(call, REQUEST);
    row.ROW_REQUEST = number;
    row_write(&row);
}

EXPORT int MPI_Start(MPI_Request *request)
{
    BEGIN(Start);
    int64_t number = call.recorded ? request_number(*request) : NONE;
    int out = mpi.Start(request);
    call_return(&call);
    if (call.recorded) request_row(&call, number);
    call_done(&call);
    return out;
}

/* The requests as they were before a call. */
static struct open *opened(const struct call *call, int count, const MPI_Request *requests, struct open *few)
{
    struct open *open = count > FEW ? malloc((size_t)count * sizeof *open) : few;
    if (!call->recorded || count <= 0) return open;
    for (int i = 0; open && i < count; i++) open[i] = request_open(requests[i]);
    return open;
}

static MPI_Status *statuses_of(int count, MPI_Status *given, MPI_Status *few)
{
    return given != MPI_STATUSES_IGNORE ? given : count > FEW ? malloc((size_t)count * sizeof *given) : few;
}

static void given_back(struct open *open, struct open *few, MPI_Status *seen, MPI_Status *few_seen, MPI_Status *given)
{
    if (open != few) free(open);
    if (seen != few_seen && seen != given) free(seen);
}

EXPORT int MPI_Startall(int count, MPI_Request *requests)
{
    BEGIN(Startall);
    int out = mpi.Startall(count, requests); /* which leaves the handles as they are */
    call_return(&call);
    for (int i = 0; call.recorded && i < count; i++) request_row(&call, request_number(requests[i]));
    call_done(&call);
    return out;
}

/* A call with `of` requests that completed `count` of them, those at `indices` if that is given; a row of its own where it completed none. */
static void completed(const struct call *call, int of, int count, const int *indices, const struct open *open, MPI_Status *seen,
                      int status_by_index)
{
    int any = 0;
    for (int i = 0; open && i < count; i++) {
        int at = indices ? indices[i] : i;
        if (open[at].number == NONE) continue;
        request_complete(call, open[at], seen ? &seen[status_by_index ? at : i] : NULL);
        any = 1;
    }
    if (!any && count == 0) poll_row(call, REQUEST);
    else if (!any) plain_row(call, REQUEST);
    for (int i = 0; open && i < of; i++) request_left(open[i]);
}

EXPORT int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    BEGIN(Wait);
    MPI_Status here, *seen = status == MPI_STATUS_IGNORE ? &here : status;
    struct open open;
    opened(&call, 1, request, &open);
    int out = mpi.Wait(request, seen);
    call_return(&call);
    if (call.recorded) completed(&call, 1, 1, NULL, &open, seen, 1);
    call_done(&call);
    return out;
}

EXPORT int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    BEGIN(Test);
    MPI_Status here, *seen = status == MPI_STATUS_IGNORE ? &here : status;
    struct open open;
    opened(&call, 1, request, &open);
    int out = mpi.Test(request, flag, seen);
    call_return(&call);
    if (call.recorded) completed(&call, 1, out == MPI_SUCCESS && *flag, NULL, &open, seen, 1);
    call_done(&call);
    return out;
}

EXPORT int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    BEGIN(Waitall);
    struct open few[FEW], *open = opened(&call, count, requests, few);
    MPI_Status few_seen[FEW], *seen = statuses_of(count, statuses, few_seen);
    int out = mpi.Waitall(count, requests, seen ? seen : MPI_STATUSES_IGNORE);
    call_return(&call);
    if (call.recorded) completed(&call, count, count, NULL, open, seen, 1);
    given_back(open, few, seen, few_seen, statuses);
    call_done(&call);
    return out;
}

EXPORT int MPI_Testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses)
{
    BEGIN(Testall);
    struct open few[FEW], *open = opened(&call, count, requests, few);
    MPI_Status few_seen[FEW], *seen = statuses_of(count, statuses, few_seen);
    int out = mpi.Testall(count, requests, flag, seen ? seen : MPI_STATUSES_IGNORE);
    call_return(&call);
    if (call.recorded) completed(&call, count, out == MPI_SUCCESS && *flag ? count : 0, NULL, open, seen, 1);
    given_back(open, few, seen, few_seen, statuses);
    call_done(&call);
    return out;
}

EXPORT int MPI_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
    BEGIN(Waitany);
    MPI_Status here, *seen = status == MPI_STATUS_IGNORE ? &here : status;
    struct open few[FEW], *open = opened(&call, count, requests, few);
    int out = mpi.Waitany(count, requests, index, seen);
    call_return(&call);
    if (call.recorded) completed(&call, count, out == MPI_SUCCESS && *index != MPI_UNDEFINED, index, open, seen, 0);
    given_back(open, few, NULL, NULL, NULL);
    call_done(&call);
    return out;
}

EXPORT int MPI_Testany(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status)
{
    BEGIN(Testany);
    MPI_Status here, *seen = status == MPI_STATUS_IGNORE ? &here : status;
    struct open few[FEW], *open = opened(&call, count, requests, few);
    int out = mpi.Testany(count, requests, index, flag, seen);
    call_return(&call);
    if (call.recorded) completed(&call, count, out == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED, index, open, seen, 0);
    given_back(open, few, NULL, NULL, NULL);
    call_done(&call);
    return out;
}

#define SOME(name)                                                                                                                         \
    EXPORT int MPI_##name(int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses)                                 \
    {                                                                                                                                      \
        BEGIN(name);                                                                                                                       \
        struct open few[FEW], *open = opened(&call, count, requests, few);                                                                 \
        MPI_Status few_seen[FEW], *seen = statuses_of(count, statuses, few_seen);                                                          \
        int out = mpi.name(count, requests, done, indices, seen ? seen : MPI_STATUSES_IGNORE);                                             \
        call_return(&call);                                                                                                                \
        if (call.recorded) completed(&call, count, out == MPI_SUCCESS && *done != MPI_UNDEFINED ? *done : 0, indices, open, seen, 0);             \
        given_back(open, few, seen, few_seen, statuses);                                                                                   \
        call_done(&call);                                                                                                                       \
        return out;                                                                                                                        \
    }
SOME(Waitsome) SOME(Testsome)

EXPORT int MPI_Request_free(MPI_Request *request)
{
    BEGIN(Request_free);
    if (call.recorded) request_freed(*request);
    int out = mpi.Request_free(request);
    call_return(&call);
    if (call.recorded) plain_row(&call, OTHER);
    call_done(&call);
    return out;
}

MESSAGES(BOTH_NAMES)
COMPLETIONS(BOTH_NAMES)
