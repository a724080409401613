"""A plan and a model put together: this rank's part of a pipeline that trains."""
