/* Programs of known shape for two ranks or more: what a delay of each message must add to them can be said beforehand.
 *
 *   shapes pingpong ROUNDS WINDOW BYTES...    WINDOW messages one way, one back: 2 delays a round, however many messages
 *   shapes halo STEPS BYTES INSIDE EDGE       both neighbours of a ring; work that hides the messages, work that does not
 *   shapes collectives STEPS WORK             allreduce, bcast from each rank by turns, reduce, now and then a barrier
 *
 * Work is counted in turns of a loop of 8 cycles or so.  Rank 0 says how long the loop took between two barriers.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static char *sent, *got;
static volatile double kept;

static void work(long turns) {
    double x = 1.0;
    for (long k = 0; k < turns; k++) x = x * 0.999999 + 1e-9;
    kept = x;
}

static void pingpong(int rounds, char **words) {
    int window = atoi(words[0]);
    for (words++; *words; words++) {
        int bytes = atoi(*words);
        for (int k = 0; k < rounds && rank < 2; k++) {
            for (int n = 0; n < window; n++) {
                if (rank == 0) MPI_Send(sent, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
                else MPI_Recv(got, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
            if (rank == 1) MPI_Send(sent, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
            else MPI_Recv(got, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

static void halo(int steps, char **words) {
    int bytes = atoi(words[0]), left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    long inside = atol(words[1]), edge = atol(words[2]);
    MPI_Request request[4];
    for (int k = 0; k < steps; k++) {
        MPI_Irecv(got, bytes, MPI_CHAR, left, 1, MPI_COMM_WORLD, &request[0]);
        MPI_Irecv(got + bytes, bytes, MPI_CHAR, right, 2, MPI_COMM_WORLD, &request[1]);
        MPI_Isend(sent, bytes, MPI_CHAR, right, 1, MPI_COMM_WORLD, &request[2]);
        MPI_Isend(sent + bytes, bytes, MPI_CHAR, left, 2, MPI_COMM_WORLD, &request[3]);
        work(inside);
        MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
        work(edge * (1 + (k + rank) % 3)); /* now one rank is late, now another */
    }
}

static void collectives(int steps, char **words) {
    long turns = atol(words[0]);
    double value[4] = {rank, 1, 2, 3}, all[4];
    for (int k = 0; k < steps; k++) {
        work(turns * (1 + (k + rank) % 3));
        MPI_Allreduce(value, all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        work(turns);
        MPI_Bcast(sent, 1024, MPI_CHAR, k / 4 % ranks, MPI_COMM_WORLD);
        work(turns);
        MPI_Reduce(value, all, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (k % 8 == 7) MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    void (*run)(int, char **) = NULL;
    int needs = 0;
    if (count > 1 && !strcmp(words[1], "pingpong")) run = pingpong, needs = 5;
    if (count > 1 && !strcmp(words[1], "halo")) run = halo, needs = 6;
    if (count > 1 && !strcmp(words[1], "collectives")) run = collectives, needs = 4;
    if (!run || count < needs) {
        fprintf(stderr, "shapes pingpong ROUNDS WINDOW BYTES... | halo STEPS BYTES INSIDE EDGE | collectives STEPS WORK\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    size_t most = 1 << 20;
    sent = calloc(most, 2), got = calloc(most, 2);
    int steps = atoi(words[2]);
    run(steps / 10 + 1, words + 3); /* pages, caches and connections are there before anything counts */
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    run(steps, words + 3);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("loop_s %.9f\n", MPI_Wtime() - begin);
    MPI_Finalize();
    return 0;
}
