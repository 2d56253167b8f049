"""Graph passes that say which ops one kernel computes."""
