"""A network from a PyTorch model that never ran: memory from fake tensors, times measured or computed.

Importing this loads torch, so import it where it is needed.
"""

from evenflow_torch.profile.model_profile import profile, profile_config

__all__ = ["profile", "profile_config"]
