/* mpi_fortran.c - what a Fortran compiler makes of a program of MPI: calls by reference, with Fortran's handles and its own constants. */
#include <mpi.h>

extern void mpi_init_(MPI_Fint *error), mpi_finalize_(MPI_Fint *error), mpi_comm_rank_(MPI_Fint *comm, MPI_Fint *rank, MPI_Fint *error);
extern void mpi_isend_(void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *target, MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *request,
                       MPI_Fint *error);
extern void mpi_recv_(void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *source, MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *status,
                      MPI_Fint *error);
extern void mpi_wait_(MPI_Fint *request, MPI_Fint *status, MPI_Fint *error);
extern void mpi_allreduce_(void *sent, void *got, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op, MPI_Fint *comm, MPI_Fint *error);

int main(void)
{
    double here[4] = { 1, 2, 3, 4 }, there[4] = { 0 };
    MPI_Fint error, rank, four = 4, tag = 5, request, status[16];
    mpi_init_(&error);
    MPI_Fint comm = MPI_Comm_c2f(MPI_COMM_WORLD), type = MPI_Type_c2f(MPI_DOUBLE), sum = MPI_Op_c2f(MPI_SUM);
    mpi_comm_rank_(&comm, &rank, &error);
    MPI_Fint other = 1 - rank;
    mpi_isend_(here, &four, &type, &other, &tag, &comm, &request, &error);
    mpi_recv_(there, &four, &type, &other, &tag, &comm, status, &error);
    mpi_wait_(&request, status, &error);
    mpi_allreduce_(here, there, &four, &type, &sum, &comm, &error);
    mpi_finalize_(&error);
    return there[3] != 8;
}
