"""Front ends: what turns models of some format into the level `graph`."""
