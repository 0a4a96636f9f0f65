"""Merging of the recordings of one run, one file per process or machine, onto one clock."""
