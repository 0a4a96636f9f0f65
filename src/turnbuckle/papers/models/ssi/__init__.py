"""A closed loop of calls over a shorter and a longer link."""
