"""What a run answers when it is asked about other machines, and what every answer can show of
itself.
"""
