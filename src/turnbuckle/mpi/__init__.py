"""Product for messages of MPI programs: their readers, their replay, networks, and questions.  The
core does not depend on it.
"""
