"""How activities add up.

=========== =====================================================================
`sum`       the order of the time line is kept; exposed time changes (models.md 4.2, chain)
=========== =====================================================================
"""
