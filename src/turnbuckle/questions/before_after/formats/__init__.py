"""Formats of other programs in which a run is written: schedules of simulators, and traces of
viewers.
"""
