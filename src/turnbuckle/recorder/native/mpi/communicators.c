/* communicators.c - the program's communicators: numbers of this process, and what lets the reader bring their members together.
 *
 * A group has a root, the first member's rank in the world, and a number: a digest of the members' ranks in the world and of how many
 * communicators of just these members were made before.  Members make communicators in one order, so all of them come to the same number,
 * and nothing has to be sent. */
#include "layer.h"

#include "clock.h"

#include <pthread.h>
#include <stdlib.h>

static int keyval = MPI_KEYVAL_INVALID;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t last;
static struct seen { uint64_t digest, times; } *seen;
static size_t seen_count, seen_room;

static int forget(MPI_Comm comm, int key, void *value, void *state)
{
    (void)comm, (void)key, (void)state;
    free(value);
    return MPI_SUCCESS;
}

static int not_copied(MPI_Comm comm, int key, void *state, void *value, void *copy, int *flag)
{
    (void)comm, (void)key, (void)state, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

static uint64_t mixed(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* How many times these members came before; with the lock held. */
static uint64_t times_seen(uint64_t digest)
{
    for (size_t i = 0; i < seen_count; i++)
        if (seen[i].digest == digest) return seen[i].times++;
    if (seen_count == seen_room) {
        size_t more = seen_room ? 2 * seen_room : 64;
        struct seen *grown = realloc(seen, more * sizeof *grown);
        if (!grown) return 0;
        seen = grown, seen_room = more;
    }
    seen[seen_count++] = (struct seen){ digest, 1 };
    return 0;
}

/* The members' ranks in the world; NULL where one is not in it. */
static int *world_ranks(MPI_Comm comm, int size)
{
    MPI_Group all, members;
    int *ranks = malloc(2 * (size_t)size * sizeof *ranks);
    if (!ranks || mpi.Comm_group(mpi.world, &all) != MPI_SUCCESS) return free(ranks), NULL;
    for (int i = 0; i < size; i++) ranks[size + i] = i;
    if (mpi.Comm_group(comm, &members) == MPI_SUCCESS) {
        mpi.Group_translate_ranks(members, size, ranks + size, all, ranks);
        mpi.Group_free(&members);
    }
    mpi.Group_free(&all);
    for (int i = 0; i < size; i++)
        if (ranks[i] < 0) return free(ranks), NULL;
    return ranks;
}

static struct group *described(MPI_Comm comm)
{
    int inter = 0, *ranks = NULL;
    struct group *group = calloc(1, sizeof *group);
    if (!group) return NULL;
    mpi.Comm_test_inter(comm, &inter);
    mpi.Comm_rank(comm, &group->rank);
    mpi.Comm_size(comm, &group->size);
    if (!inter) ranks = world_ranks(comm, group->size);
    group->foreign = !ranks;
    uint64_t digest = (uint64_t)group->size;
    for (int i = 0; ranks && i < group->size; i++) digest = mixed(digest + UINT64_C(0x9e3779b97f4a7c15) * ((uint64_t)ranks[i] + 1));
    pthread_mutex_lock(&lock);
    group->number = ++last;
    if (ranks) digest = mixed(digest + times_seen(digest));
    pthread_mutex_unlock(&lock);
    if (ranks) {
        struct row row;
        row_begin(&row, 'B');
        row.start = clock_now();
        row.ROW_COMMUNICATOR = group->number, row.what = group->rank, row.blocks = group->size;
        row.ROW_ROOT = ranks[0], row.address = (int64_t)(digest >> 2);
        row_write(&row);
    }
    free(ranks);
    mpi.Comm_set_attr(comm, keyval, group);
    return group;
}

const struct group *group_of(MPI_Comm comm)
{
    static const struct group none = { NONE, 0, 0, 1 };
    void *group = NULL;
    int there = 0;
    if (keyval == MPI_KEYVAL_INVALID || comm == mpi.comm_null) return &none;
    mpi.Comm_get_attr(comm, keyval, &group, &there);
    if (!there) group = described(comm);
    return group ? group : &none;
}

void groups_begin(void)
{
    if (mpi.Comm_create_keyval(not_copied, forget, &keyval, NULL) != MPI_SUCCESS) return;
    group_of(mpi.world);
    group_of(mpi.self);
}
