"""How activities add up.

============ ============================================================================
`sum`        the order of the time line is kept; exposed time changes
`timeline`   recorded dependencies, replayed as a longest path
`trust`      how far the recorded order explains the run, and when the timeline refuses
`tasks`      a declared task graph, replayed by the same longest path
`contention` processes that share resources and links, event by event
============ ============================================================================
"""
