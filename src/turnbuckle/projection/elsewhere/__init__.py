"""What another machine may do that no recording and no machine file says: priors, kernels on
another GPU, messages on another network.
"""
