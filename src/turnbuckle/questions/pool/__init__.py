"""How many GPUs to share: a stream of jobs on fixed nodes and on pools of GPUs at a distance."""
