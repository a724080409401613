"""evenflow-torch: what needs PyTorch. Models as rows of parts, two-level planning, profiles, and training as planned.

`evenflow.run`, `evenflow.auto`, `evenflow.profile` and `evenflow.profile_config` are its public names; the verbs `run`,
`auto` and `profile` join the command by entry points.
"""
