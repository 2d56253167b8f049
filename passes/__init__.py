"""Rewrites and lowerings, one folder per step of the stair. The registry imports them, and with that they register, when it is asked."""
