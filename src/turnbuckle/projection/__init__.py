"""The heart: price each activity on both machines, anchor the price in what was measured, put the
activities back in order.
"""
