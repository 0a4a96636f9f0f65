"""Austin et al. 2021, ECP-HIHE01-35: tighter integration of CPU and GPU."""
