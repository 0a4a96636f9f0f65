"""Replays: the run time that new durations of activities add up to.

============ ============================================================================
`sum`        the time line keeps its order; only exposed time changes
`timeline`   recorded dependencies, replayed as a longest path
`trust`      how far the recorded order explains the run, and when the timeline refuses
`tasks`      a declared task graph, replayed by the same longest path
`contention` processes that share resources and links, event by event
============ ============================================================================
"""
