"""What another machine may do that no recording and no machine file says: priors, and kernels on another GPU."""
