"""Turnbuckle: what a recorded GPU run would do if CPU and GPU stood closer or farther apart."""
