"""Hours of steady work on one node: does memory, disk or lateness grow?"""
