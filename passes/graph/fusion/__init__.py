"""Graph passes that decide which ops one kernel computes."""
