"""Papers recomputed: their own tables, number by number, and their methods on a user's own profile
beside ours.
"""
