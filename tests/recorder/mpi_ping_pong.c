/* mpi_ping_pong.c - a ping-pong between two ranks that counts its own requests of MPI and OpenCL, for the tests of the MPI layer.
 *
 *   mpi_ping_pong [stage]   rank 0 reads its OpenCL buffer to the host, sends it, gets it back, and writes it to the buffer; ROUNDS times
 *   mpi_ping_pong calls     every kind of call once: no OpenCL
 *   mpi_ping_pong threads, abort, nothing
 */
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 20, BYTES = 40000 };

static void must(int good, const char *what)
{
    if (good) return;
    fprintf(stderr, "failed: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void ping_pong(int rank)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;
    static char host[BYTES];
    must(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS, "a platform");
    must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS, "a device");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, NULL, &error);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, &error);
    must(error == CL_SUCCESS, "a buffer");
    memset(host, 7, BYTES);
    must(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, BYTES, host, 0, NULL, NULL) == CL_SUCCESS, "a write");
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, BYTES, host, 0, NULL, NULL);
            MPI_Send(host, BYTES, MPI_CHAR, 1, round, MPI_COMM_WORLD);
            MPI_Recv(host, BYTES, MPI_CHAR, 1, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, BYTES, host, 0, NULL, NULL);
        } else {
            MPI_Recv(host, BYTES, MPI_CHAR, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(host, BYTES, MPI_CHAR, 0, round, MPI_COMM_WORLD);
        }
    }
    must(host[BYTES - 1] == 7, "what came back");
    /* shared virtual memory, where the device has it */
    char *shared = clSVMAlloc(context, CL_MEM_READ_WRITE, 64, 0);
    if (shared) {
        clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_WRITE, shared, 64, 0, NULL, NULL);
        memset(shared, rank, 64);
        MPI_Bcast(shared, 64, MPI_CHAR, 1, MPI_COMM_WORLD);
        must(shared[63] == 1, "the broadcast");
        clEnqueueSVMUnmap(queue, shared, 0, NULL, NULL);
        clFinish(queue);
        clSVMFree(context, shared);
    }
    if (!rank) printf("svm %d\n", !!shared);
    clReleaseMemObject(buffer);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
}

/* Rank 0 and 1 in every kind of call; what they say of it is checked against the recording. */
static void calls(int rank, int size)
{
    int other = 1 - rank, count = 0, index, flag = 0, done = 0, indices[4];
    double in[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, out[8] = { 0 };
    MPI_Request requests[4], lasting[2];
    MPI_Status statuses[4];
    MPI_Comm copy, turned;
    must(size == 2, "two ranks");
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned); /* rank 1 of the world is its first */

    /* in the turned communicator the partner has another number */
    if (rank == 0) MPI_Send(in, 3, MPI_DOUBLE, 0, 30, turned);
    else MPI_Recv(out, 8, MPI_DOUBLE, 1, 30, turned, &statuses[0]);
    if (rank == 1) MPI_Get_count(&statuses[0], MPI_DOUBLE, &count), must(count == 3, "three");

    /* any source, any tag, more room than what comes */
    if (rank == 0) MPI_Ssend(in, 2, MPI_DOUBLE, 1, 31, copy);
    else MPI_Recv(out, 8, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, MPI_STATUS_IGNORE);

    /* nobody */
    MPI_Send(in, 1, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Recv(out, 1, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    /* requests: several with one handle at once are told apart */
    for (int i = 0; i < 2; i++) {
        MPI_Irecv(out + i, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 40 + i, MPI_COMM_WORLD, &requests[i]);
        MPI_Isend(in + i, 1, MPI_DOUBLE, other, 40 + i, MPI_COMM_WORLD, &requests[2 + i]);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    must(out[0] == 1 && out[1] == 2, "both");
    MPI_Irecv(out, 1, MPI_DOUBLE, other, 50, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(in, 1, MPI_DOUBLE, other, 50, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitany(2, requests, &index, &statuses[0]);
    MPI_Wait(&requests[1 - index], &statuses[1]);
    MPI_Irecv(out, 1, MPI_DOUBLE, other, 51, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(in, 1, MPI_DOUBLE, other, 51, MPI_COMM_WORLD, &requests[1]);
    for (int left = 2; left > 0; left -= done) MPI_Waitsome(2, requests, &done, indices, statuses);
    MPI_Irecv(out, 1, MPI_DOUBLE, other, 52, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(in, 1, MPI_DOUBLE, other, 52, MPI_COMM_WORLD, &requests[1]);
    while (!flag) MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);

    /* a poll without end is one call: rank 0 sends when rank 1 has looked 10,000 times */
    if (rank == 1) {
        MPI_Irecv(out, 1, MPI_DOUBLE, 0, 53, MPI_COMM_WORLD, &requests[0]);
        for (int i = 0; i < 10000; i++) MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE), must(!flag, "nothing yet");
        MPI_Send(in, 1, MPI_DOUBLE, 0, 54, MPI_COMM_WORLD);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(out, 1, MPI_DOUBLE, 1, 54, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(in, 1, MPI_DOUBLE, 1, 53, MPI_COMM_WORLD);
    }

    /* both ways at once */
    MPI_Sendrecv(in, 4, MPI_DOUBLE, other, 60, out, 8, MPI_DOUBLE, other, 60, copy, &statuses[0]);
    MPI_Sendrecv_replace(out, 4, MPI_DOUBLE, other, 61, other, 61, copy, MPI_STATUS_IGNORE);

    /* persistent */
    MPI_Send_init(in, 2, MPI_DOUBLE, other, 70, MPI_COMM_WORLD, &lasting[0]);
    MPI_Recv_init(out, 2, MPI_DOUBLE, other, 70, MPI_COMM_WORLD, &lasting[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, lasting);
        MPI_Waitall(2, lasting, statuses);
    }
    MPI_Request_free(&lasting[0]);
    MPI_Request_free(&lasting[1]);

    /* a type with holes, at a whole address: 2 of 3 doubles, twice */
    MPI_Datatype holes, whole;
    MPI_Aint place;
    MPI_Type_vector(2, 1, 2, MPI_DOUBLE, &holes);
    MPI_Get_address(rank ? out : in, &place);
    MPI_Type_create_hindexed_block(1, 1, &place, holes, &whole);
    MPI_Type_commit(&whole);
    if (rank == 0) MPI_Send(MPI_BOTTOM, 1, whole, 1, 80, MPI_COMM_WORLD);
    else MPI_Recv(MPI_BOTTOM, 1, whole, 0, 80, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&whole);
    MPI_Type_free(&holes);

    /* collectives: blocking, in place, not blocking, from a root of another number */
    MPI_Bcast(in, 8, MPI_DOUBLE, 1, turned);
    MPI_Allreduce(MPI_IN_PLACE, out, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(rank ? in : MPI_IN_PLACE, rank ? NULL : in, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Gather(in, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    MPI_Allgather(in, 2, MPI_DOUBLE, out, 2, MPI_DOUBLE, copy);
    MPI_Alltoall(in, 2, MPI_DOUBLE, out, 2, MPI_DOUBLE, copy);
    MPI_Iallreduce(in, out, 4, MPI_DOUBLE, MPI_SUM, copy, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);

    /* an intercommunicator: each rank alone on its side */
    MPI_Comm between;
    MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, other, 90, &between);
    if (rank == 0) MPI_Send(in, 1, MPI_DOUBLE, 0, 91, between);
    else MPI_Recv(out, 1, MPI_DOUBLE, 0, 91, between, MPI_STATUS_IGNORE);
    MPI_Comm_free(&between);

    /* one-sided */
    MPI_Win window;
    MPI_Win_create(out, sizeof out, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(in, 1, MPI_DOUBLE, other, 0, 1, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Comm_free(&turned);
    MPI_Comm_free(&copy);
}

/* Threads that send and receive at once, each under tags of its own. */
enum { THREADS = 4, TURNS = 100 };

static void *turns(void *number)
{
    int rank, first = (int)(intptr_t)number * TURNS;
    double in[2] = { 1, 2 }, out[2];
    MPI_Request requests[2];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Irecv(out, 2, MPI_DOUBLE, 1 - rank, first + turn, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(in, 1 + turn % 2, MPI_DOUBLE, 1 - rank, first + turn, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t made[THREADS];
    for (intptr_t i = 0; i < THREADS; i++) must(pthread_create(&made[i], NULL, turns, (void *)i) == 0, "a thread");
    for (int i = 0; i < THREADS; i++) pthread_join(made[i], NULL);
}

int main(int count, char **words)
{
    int rank, size, provided;
    if (count > 1 && !strcmp(words[1], "nothing")) return 0;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count > 1 && !strcmp(words[1], "calls")) calls(rank, size);
    else if (count > 1 && !strcmp(words[1], "threads")) must(provided == MPI_THREAD_MULTIPLE, "threads"), threads();
    else if (count > 1 && !strcmp(words[1], "abort")) MPI_Barrier(MPI_COMM_WORLD), MPI_Abort(MPI_COMM_WORLD, 7);
    else ping_pong(rank);
    MPI_Finalize();
    return 0;
}
