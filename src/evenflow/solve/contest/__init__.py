"""A contest of schedules: all of them for the best one, or those around a plan for a shorter one."""
