"""Graph passes that choose layouts: channel blocks, panels of packed matmuls, tiles of Winograd's method."""
