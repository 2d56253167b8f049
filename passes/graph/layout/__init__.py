"""Graph passes that choose how values lie in memory: channel blocks, panels, tiles of Winograd's method."""
