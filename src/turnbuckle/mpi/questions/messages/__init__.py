"""Would GPUDirect help this MPI run, and on how many ranks a node?"""
