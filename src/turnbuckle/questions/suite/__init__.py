"""A workload of several recordings on several machines: the mix, who loses, what a closer coupling
may cost.
"""
