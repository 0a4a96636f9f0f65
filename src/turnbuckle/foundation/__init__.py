"""Parts that every room uses: units, errors, findings, files, tables.  They know nothing of
GPUs.
"""
