"""The devices: clusters, meshes, accelerators, and how tensors lie on them. Values only."""
