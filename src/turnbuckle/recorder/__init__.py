"""Programs for the machine with the GPU: the recorders, their build, and the measuring of the
device.
"""
