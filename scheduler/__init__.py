"""The scheduler around the actors: what users hold, its rooms, and every effect.

``hourhand`` has the names that users import; ``setup.cfg`` has the order of the rooms.
"""
