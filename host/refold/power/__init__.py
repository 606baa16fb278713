"""Energy per image, from an instrument that also sees the board's trigger pins.

``docs/power.md`` says how to wire it up.
"""
