/* mpi_places.c - ranks exchange buffers in every kind of memory that a GPU library in the process tells of, each with the one across.
 *
 *   mpi_places LIBRARY   loads it only after the first message, as a program's runtime does; of the CUDA stand-in it allocates and copies
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4096 };

static int partner;

static void exchange(void *from, void *to, int tag)
{
    MPI_Sendrecv(from, BYTES, MPI_CHAR, partner, tag, to, BYTES, MPI_CHAR, partner, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int count, char **words)
{
    static char plain[BYTES], other[BYTES];
    int rank, size;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    partner = size - 1 - rank;
    exchange(plain, other, 0);
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (count > 1 && !library) return fprintf(stderr, "%s\n", dlerror()), 3;
    int (*begin)(unsigned) = NULL, (*copy)(void *, const void *, size_t, int) = NULL;
    int (*give)(void **, size_t) = NULL, (*give_pinned)(void **, size_t) = NULL, (*give_managed)(void **, size_t, unsigned) = NULL;
    if (library) {
        *(void **)&begin = dlsym(library, "cuInit"), *(void **)&copy = dlsym(library, "cudaMemcpy");
        *(void **)&give = dlsym(library, "cudaMalloc"), *(void **)&give_pinned = dlsym(library, "cudaMallocHost");
        *(void **)&give_managed = dlsym(library, "cudaMallocManaged");
    }
    if (begin) begin(0);
    void *device = plain, *pinned = plain, *managed = plain;
    if (give) give(&device, BYTES), give_pinned(&pinned, BYTES), give_managed(&managed, BYTES, 1);
    if (copy) memset(plain, 1, BYTES), copy(device, plain, BYTES, 1);
    exchange(device, other, 1);
    exchange(device, pinned == plain ? other : pinned, 2);
    exchange(managed, other, 3);
    exchange(plain, other, 4);
    MPI_Allreduce(device, plain == device ? other : plain, BYTES, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
